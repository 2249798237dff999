/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/backtest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/median.h"
#include "core/base/memory.h"
#include "core/base/path.h"

/* The hardware file of a row: the line of its hw and set, else that of its hw and "*".
 */
static const char *hardware_of(const struct cadre_csv *map,
                               const struct cadre_published *row)
{
    const int hw = cadre_csv_column(map, "hw"), set = cadre_csv_column(map, "set");
    const int file = cadre_csv_column(map, "hardware");
    const char *any = NULL;
    for (size_t i = 0; i < map->rows; i++) {
        if (strcmp(cadre_csv_at(map, i, hw), row->hw) != 0)
            continue;
        if (strcmp(cadre_csv_at(map, i, set), row->set) == 0)
            return cadre_csv_at(map, i, file);
        if (strcmp(cadre_csv_at(map, i, set), "*") == 0)
            any = cadre_csv_at(map, i, file);
    }
    return any;
}

static cadre_status refuse(struct cadre_backtest_row *row,
                           const struct cadre_error *why, struct cadre_error *err)
{
    row->refused = cadre_strdup(why->text);
    return row->refused ? CADRE_OK : cadre_no_memory(err, "a reason");
}

static cadre_status load_hardware(struct cadre_hardware *hw, const char *map,
                                  const char *file, struct cadre_error *err)
{
    char *dir = cadre_path_dirname(map);
    char *path = dir ? cadre_path_join(dir, file) : NULL;
    cadre_status rc =
        path ? cadre_hardware_load(hw, path, err) : cadre_no_memory(err, "a path");
    free(path);
    free(dir);
    return rc;
}

static cadre_status replay_row(struct cadre_backtest_row *row, const char *map_path,
                               const struct cadre_csv *map, struct cadre_error *err)
{
    struct cadre_published *p = &row->published;
    struct cadre_hardware hw;
    struct cadre_error why = {0};
    const char *file = hardware_of(map, p);
    if (!file) {
        cadre_fail(&why, CADRE_E_UNSUPPORTED, "hw '%s' is not in %s", p->hw, map_path);
        return refuse(row, &why, err);
    }
    CADRE_TRY(load_hardware(&hw, map_path, file, err));
    snprintf(row->hardware, sizeof row->hardware, "%s", file);
    if (cadre_published_settle(p, &hw, &why) != CADRE_OK)
        return refuse(row, &why, err);
    row->forecast = cadre_forecast(&p->transformer, &p->candidate, &hw);
    row->footprint = cadre_footprint(&p->transformer, &p->candidate, &hw);
    row->fits = cadre_footprint_fits(&row->footprint, &hw);
    row->foreign = p->candidate.recompute == CADRE_PLAN_RECOMPUTE_SELECTIVE ||
                   p->candidate.dtype == CADRE_PLAN_FP8;
    row->predicted = cadre_published_convert(p, row->forecast.step);
    row->error = row->forecast.step / p->seconds - 1;
    return CADRE_OK;
}

/* FLOP/s of a rank, as the row's metric counts them, else by the model's FLOPs: what
 * the constant predictor takes for constant. */
static double rate(const struct cadre_published *p)
{
    if (p->metric == CADRE_PLAN_EQ3 || p->metric == CADRE_PLAN_MODEL ||
        p->metric == CADRE_PLAN_CAUSAL)
        return p->value * 1e12;
    return cadre_transformer_flops(&p->transformer, (double)p->candidate.global_batch,
                                   false) /
           (double)cadre_candidate_ranks(&p->candidate) / p->seconds;
}

enum part { WHOLE, GATHERED, OTHERS };

static bool is_of(const struct cadre_backtest_row *row, const char *set, enum part part)
{
    const bool gathered = row->published.candidate.zero >= 3;
    return strcmp(row->published.set, set) == 0 &&
           (part == WHOLE || gathered == (part == GATHERED));
}

static void measure(struct cadre_backtest_set *out,
                    const struct cadre_backtest *backtest, const char *set,
                    enum part part, double *room)
{
    for (size_t i = 0; i < backtest->n; i++) {
        const struct cadre_backtest_row *row = &backtest->row[i];
        if (!is_of(row, set, part))
            continue;
        out->refused += row->refused != NULL;
        if (!row->refused)
            room[out->rows++] = rate(&row->published);
    }
    const double median = cadre_median(room, out->rows);
    for (size_t i = 0; i < backtest->n; i++) {
        const struct cadre_backtest_row *row = &backtest->row[i];
        if (!is_of(row, set, part) || row->refused)
            continue;
        const double constant = fabs(rate(&row->published) / median - 1);
        out->mape += fabs(row->error) / (double)out->rows;
        out->constant_mape += constant / (double)out->rows;
        out->max = fmax(out->max, fabs(row->error));
        out->constant_max = fmax(out->constant_max, constant);
    }
    out->skill = out->constant_mape > 0 ? 1 - out->mape / out->constant_mape : NAN;
}

static size_t count(const struct cadre_backtest *backtest, const char *set,
                    enum part part)
{
    size_t n = 0;
    for (size_t i = 0; i < backtest->n; i++)
        n += is_of(&backtest->row[i], set, part);
    return n;
}

/* Sets in the order of the file; one that has rows with ZeRO-3 and others is shown in
 * both parts besides. */
static cadre_status measure_sets(struct cadre_backtest *backtest,
                                 struct cadre_error *err)
{
    double *room = cadre_calloc(backtest->n + 1, sizeof *room);
    backtest->set = cadre_calloc(3 * backtest->n + 1, sizeof *backtest->set);
    if (!room || !backtest->set) {
        free(room);
        return cadre_no_memory(err, "the sets");
    }
    for (size_t i = 0; i < backtest->n; i++) {
        const char *name = backtest->row[i].published.set;
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen = seen || strcmp(backtest->row[k].published.set, name) == 0;
        if (seen)
            continue;
        const bool both =
            count(backtest, name, GATHERED) && count(backtest, name, OTHERS);
        static const char *const more[] = {"", ":zero3", ":others"};
        for (int part = WHOLE; part <= (both ? OTHERS : WHOLE); part++) {
            struct cadre_backtest_set *set = &backtest->set[backtest->n_sets++];
            snprintf(set->name, sizeof set->name, "%.60s%s", name, more[part]);
            measure(set, backtest, name, (enum part)part, room);
        }
    }
    free(room);
    return CADRE_OK;
}

static bool has_column(const struct cadre_csv *csv, const char *name)
{
    for (size_t i = 0; i < csv->columns; i++)
        if (strcasecmp(csv->field[i], name) == 0)
            return true;
    return false;
}

static cadre_status check_columns(const struct cadre_csv *csv, const char *path,
                                  const char *const *names, struct cadre_error *err)
{
    for (; *names; names++)
        if (!has_column(csv, *names))
            return cadre_fail(err, CADRE_E_INVALID, "%s: has no column '%s'", path,
                              *names);
    return CADRE_OK;
}

static cadre_status fill(struct cadre_backtest *backtest, const char *path,
                         const char *map_path, const struct cadre_csv *map,
                         struct cadre_error *err)
{
    static const char *const of_map[] = {"hw", "set", "hardware", NULL};
    static const char *const of_rows[] = {"set", "hw", "metric", "value", NULL};
    CADRE_TRY(check_columns(map, map_path, of_map, err));
    CADRE_TRY(check_columns(&backtest->csv, path, of_rows, err));
    backtest->row = cadre_calloc(backtest->csv.rows + 1, sizeof *backtest->row);
    if (!backtest->row)
        return cadre_no_memory(err, "the rows");
    for (; backtest->n < backtest->csv.rows; backtest->n++) {
        struct cadre_backtest_row *row = &backtest->row[backtest->n];
        struct cadre_error why = {0};
        row->line = backtest->csv.line[backtest->n + 1];
        if (cadre_published_read(&row->published, &backtest->csv, backtest->n, &why) ==
            CADRE_OK)
            CADRE_TRY(replay_row(row, map_path, map, err));
        else
            CADRE_TRY(refuse(row, &why, err));
    }
    return measure_sets(backtest, err);
}

cadre_status cadre_backtest(struct cadre_backtest *backtest, const char *path,
                            const char *map_path, struct cadre_error *err)
{
    struct cadre_csv map = {0};
    *backtest = (struct cadre_backtest){0};
    cadre_status rc = cadre_csv_load(&map, map_path, '\t', err);
    if (rc == CADRE_OK)
        rc = cadre_csv_load_ragged(&backtest->csv, path, ',', err);
    if (rc == CADRE_OK)
        rc = fill(backtest, path, map_path, &map, err);
    cadre_csv_fini(&map);
    if (rc != CADRE_OK)
        cadre_backtest_fini(backtest);
    return rc;
}

void cadre_backtest_fini(struct cadre_backtest *backtest)
{
    for (size_t i = 0; backtest->row && i < backtest->csv.rows; i++)
        free(backtest->row[i].refused);
    free(backtest->row);
    free(backtest->set);
    cadre_csv_fini(&backtest->csv);
    *backtest = (struct cadre_backtest){0};
}
