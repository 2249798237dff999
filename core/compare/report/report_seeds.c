/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/report/report_seeds.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text_table.h"
#include "core/compare/report/figure.h"
#include "core/compare/verdict/seeds.h"
#include "core/page/chart.h"
#include "core/page/escape.h"

enum { COLUMNS = 4, CELL = 72 };

typedef char row[COLUMNS][CELL];

static const char *const HEADS[COLUMNS] = {"setting", "seeds", "last loss",
                                           "validation loss"};

/* "2.1034 [2.0911, 2.1157]"; how many of the runs it is of where not of all. */
static void put_loss(const struct cadre_interval *loss, size_t n, size_t runs,
                     char cell[CELL])
{
    if (n == 0)
        snprintf(cell, CELL, "-");
    else if (cadre_figure_is_interval(loss))
        snprintf(cell, CELL, "%.4f [%.4f, %.4f]", loss->value, loss->low, loss->high);
    else
        snprintf(cell, CELL, "%.4f", loss->value);
    size_t used = strlen(cell);
    if (n > 0 && n < runs)
        snprintf(cell + used, CELL - used, " of %zu", n);
}

static void fill_row(const struct cadre_seed_group *g, row cells)
{
    snprintf(cells[0], CELL, "%s", g->name);
    snprintf(cells[1], CELL, "%zu", g->runs);
    put_loss(&g->last, g->n_last, g->runs, cells[2]);
    put_loss(&g->valid, g->n_valid, g->runs, cells[3]);
}

/* ---- terminal ---- */

void cadre_report_seeds_table(const struct cadre_comparison *c, struct cadre_text *out)
{
    static const bool is_text[COLUMNS] = {true, false, true, true};
    struct cadre_text_table table = {.columns = COLUMNS, .is_text = is_text};
    struct cadre_text none = {0};
    struct cadre_seeds seeds = {0};
    row cells;
    if (!cadre_seeds_wanted(c))
        return;
    cadre_seeds_fill(&seeds, c);
    cadre_text_table_add_row(&table, HEADS);
    for (size_t i = 0; i < seeds.n; i++) {
        fill_row(&seeds.group[i], cells);
        for (int k = 0; k < COLUMNS; k++)
            cadre_text_table_add(&table, cells[k]);
    }
    cadre_text_append(out, "\n", 1);
    cadre_text_table_print(&table, INT_MAX, out, &none);
    out->failed = out->failed || seeds.failed;
    cadre_text_table_fini(&table);
    cadre_seeds_fini(&seeds);
}

/* ---- documents ---- */

void cadre_report_seeds_markdown(const struct cadre_comparison *c,
                                 struct cadre_text *out)
{
    struct cadre_seeds seeds = {0};
    row cells;
    if (!cadre_seeds_wanted(c))
        return;
    cadre_seeds_fill(&seeds, c);
    cadre_text_printf(out,
                      "\n## Losses over seeds\n\n| %s | %s | %s | %s |\n"
                      "| --- | ---: | --- | --- |\n",
                      HEADS[0], HEADS[1], HEADS[2], HEADS[3]);
    for (size_t i = 0; i < seeds.n; i++) {
        fill_row(&seeds.group[i], cells);
        cadre_text_append(out, "| ", 2);
        cadre_escape_markdown(out, cells[0]);
        cadre_text_printf(out, " | %s | %s | %s |\n", cells[1], cells[2], cells[3]);
    }
    out->failed = out->failed || seeds.failed;
    cadre_seeds_fini(&seeds);
}

void cadre_report_seeds_html(const struct cadre_comparison *c, struct cadre_text *out)
{
    struct cadre_seeds seeds = {0};
    row cells;
    if (!cadre_seeds_wanted(c))
        return;
    cadre_seeds_fill(&seeds, c);
    cadre_text_printf(out,
                      "<h2>Losses over seeds</h2>\n<div class=\"wide\"><table>\n"
                      "<caption>Mean, in brackets its 95 %% interval over seeds"
                      "</caption>\n<thead><tr><th class=\"l\" scope=\"col\">%s</th>"
                      "<th scope=\"col\">%s</th><th scope=\"col\">%s</th>"
                      "<th scope=\"col\">%s</th></tr></thead>\n<tbody>\n",
                      HEADS[0], HEADS[1], HEADS[2], HEADS[3]);
    for (size_t i = 0; i < seeds.n; i++) {
        fill_row(&seeds.group[i], cells);
        cadre_text_printf(out, "<tr><th class=\"l\" scope=\"row\">");
        cadre_chart_text(out, cells[0]);
        cadre_text_printf(out, "</th><td>%s</td><td>%s</td><td>%s</td></tr>\n",
                          cells[1], cells[2], cells[3]);
    }
    cadre_text_printf(out, "</tbody></table></div>\n");
    out->failed = out->failed || seeds.failed;
    cadre_seeds_fini(&seeds);
}

/* ---- report.json ---- */

static void put_interval(struct cadre_json *json, const char *key,
                         const struct cadre_interval *loss)
{
    char name[48];
    cadre_json_put_f64(json, key, loss->value);
    snprintf(name, sizeof name, "%s_low", key);
    cadre_json_put_f64(json, name, loss->low);
    snprintf(name, sizeof name, "%s_high", key);
    cadre_json_put_f64(json, name, loss->high);
}

void cadre_report_seeds_json(const struct cadre_comparison *c, struct cadre_json *json)
{
    struct cadre_seeds seeds = {.best = -1};
    const bool wanted = cadre_seeds_wanted(c);
    if (wanted)
        cadre_seeds_fill(&seeds, c);
    cadre_json_put_string(json, "best_valid",
                          seeds.best < 0 ? NULL : c->run[seeds.best].name);
    cadre_json_key(json, "settings");
    if (!wanted || seeds.failed) {
        cadre_json_null(json);
        cadre_seeds_fini(&seeds);
        return;
    }
    cadre_json_begin_array(json);
    for (size_t i = 0; i < seeds.n; i++) {
        const struct cadre_seed_group *g = &seeds.group[i];
        cadre_json_begin_object(json);
        cadre_json_put_string(json, "setting", g->name);
        cadre_json_put_string(json, "first_run", c->run[g->first].name);
        cadre_json_put_i64(json, "seeds", (int64_t)g->runs);
        cadre_json_put_i64(json, "loss_last_n", (int64_t)g->n_last);
        put_interval(json, "loss_last", &g->last);
        cadre_json_put_i64(json, "valid_loss_n", (int64_t)g->n_valid);
        put_interval(json, "valid_loss", &g->valid);
        cadre_json_end_object(json);
    }
    cadre_json_end_array(json);
    cadre_seeds_fini(&seeds);
}

/* ---- notes ---- */

static size_t most_runs(const struct cadre_seeds *seeds)
{
    size_t most = 0;
    for (size_t i = 0; i < seeds->n; i++)
        most = seeds->group[i].runs > most ? seeds->group[i].runs : most;
    return most;
}

/* Records are divided by the seed unless they are named. */
static void note_records(const struct cadre_comparison *c, struct cadre_text *out)
{
    const struct cadre_options *options = c->run[c->baseline].options;
    const char *format = options ? cadre_options_raw(options, "data.format") : NULL;
    if (format && strcmp(format, "wfdb") == 0 &&
        !*cadre_options_raw(options, "data.valid_records"))
        cadre_text_printf(out, "The seed chooses the validation records too, so that "
                               "validation losses of different seeds are not of the "
                               "same records; data.valid_records names them.\n");
}

static bool takes_limits(const struct cadre_comparison *c, size_t i)
{
    const size_t base = cadre_seeds_baseline(c, i);
    return base != c->baseline && base != i && c->run[i].limit == CADRE_LIMIT_MEASURED;
}

static bool has_no_baseline(const struct cadre_comparison *c, size_t i)
{
    return cadre_seeds_only(&c->run[i]) && cadre_seeds_baseline(c, i) == c->baseline;
}

/* The sentence and the names of the runs of which it is true. */
static void note_those(const struct cadre_comparison *c,
                       bool (*is)(const struct cadre_comparison *, size_t),
                       const char *sentence, struct cadre_text *out)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        if (!*c->run[i].failure && is(c, i))
            cadre_text_printf(out, "%s%s", n++ ? ", " : sentence, c->run[i].name);
    if (n)
        cadre_text_append(out, ".\n", 2);
}

/* What other seeds are judged against. */
static void note_baselines(const struct cadre_comparison *c, struct cadre_text *out)
{
    for (size_t i = 0; i < c->n; i++)
        if (cadre_seeds_baseline(c, i) == i && i != c->baseline)
            cadre_text_printf(out,
                              "%s has the baseline's options with run.seed = %s: runs "
                              "of that seed are judged against it.\n",
                              c->run[i].name,
                              cadre_options_raw(c->run[i].options, "run.seed"));
    note_those(c, takes_limits,
               "The limits measured with the baseline's seed are also those of ", out);
    note_those(c, has_no_baseline,
               "Another seed is another training; no run with the baseline's options "
               "has that of ",
               out);
}

void cadre_report_seeds_notes(const struct cadre_comparison *c, struct cadre_text *out)
{
    struct cadre_seeds seeds = {0};
    if (!cadre_seeds_wanted(c))
        return;
    cadre_seeds_fill(&seeds, c);
    if (seeds.best >= 0)
        cadre_text_printf(out, "The lowest validation loss is %.4f, of %s.\n",
                          cadre_record_number(&c->run[seeds.best].record, "valid_loss"),
                          c->run[seeds.best].name);
    if (most_runs(&seeds) > 1)
        cadre_text_printf(
            out, "Losses over seeds are means, in brackets their 95 %% intervals by "
                 "Student's t distribution; one seed has none.\n");
    if (most_runs(&seeds) > 1)
        note_records(c, out);
    note_baselines(c, out);
    out->failed = out->failed || seeds.failed;
    cadre_seeds_fini(&seeds);
}
