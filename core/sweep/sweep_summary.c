/* SPDX-License-Identifier: Apache-2.0 */
/* The common results of independent runs: two files and a table. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "core/base/cores.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/run/format.h"
#include "core/run/record.h"
#include "core/sweep/sweep.h"

static cadre_status no_memory(struct cadre_error *err)
{
    return cadre_no_memory(err, "the summary");
}

/* DIR/NAME; takes ownership of `value`, NULL if it could not be made. */
static cadre_status write_json(const struct cadre_sweep *sweep, const char *name,
                               json_t *value, struct cadre_error *err)
{
    char *path = cadre_path_join(sweep->spec->out, name);
    char *text =
        value ? json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    char *lines = text ? cadre_format("%s\n", text) : NULL;
    cadre_status rc = path && lines
                          ? cadre_path_write_file(path, lines, strlen(lines), err)
                          : no_memory(err);
    free(lines);
    free(text);
    free(path);
    json_decref(value);
    return rc;
}

static double number_of(const json_t *summary, const char *key)
{
    const json_t *value = json_object_get(summary, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* JSON has no NaN. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

enum { INSTANCES_SCHEMA = 1 };

/* As cadre_json_put_head. */
static json_t *begin_file(int schema)
{
    char date[CADRE_JSON_DATE];
    json_t *file = json_object();
    json_object_set_new(file, "schema_version", json_integer(schema));
    json_object_set_new(file, "build", json_string(PACKAGE_STRING));
    json_object_set_new(file, "date", json_string(cadre_json_date(date)));
    return file;
}

/* ---- instances.json ---- */

static json_t *options_of(const struct cadre_sweep *sweep, size_t k)
{
    const struct cadre_sweep_values *values = &sweep->values;
    json_t *options = json_object();
    for (size_t i = 0; i < values->n; i++)
        json_object_set_new(options, values->key[i],
                            json_string(values->value[i * values->instances + k]));
    return options;
}

static json_t *cpus_of(const struct cadre_sweep_instance *instance)
{
    if (!instance->pinned)
        return json_null();
    json_t *cpus = json_array();
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &instance->cpus))
            json_array_append_new(cpus, json_integer(cpu));
    return cpus;
}

static json_t *instance_of(const struct cadre_sweep *sweep, size_t k)
{
    const struct cadre_sweep_instance *instance = &sweep->instance[k];
    json_t *one = json_object();
    json_object_set_new(one, "instance", json_integer((json_int_t)k));
    json_object_set_new(one, "folder",
                        json_string(cadre_path_basename(instance->folder)));
    json_object_set_new(one, "status",
                        json_string(cadre_sweep_status_name(instance->status)));
    json_object_set_new(one, "signal",
                        instance->end.signal ? json_integer(instance->end.signal)
                                             : json_null());
    json_object_set_new(one, "options", options_of(sweep, k));
    json_object_set_new(one, "cpus", cpus_of(instance));
    return one;
}

cadre_status cadre_sweep_write_instances(const struct cadre_sweep *sweep,
                                         struct cadre_error *err)
{
    json_t *file = begin_file(INSTANCES_SCHEMA), *list = json_array();
    for (size_t k = 0; k < sweep->n; k++) {
        json_t *one = instance_of(sweep, k);
        json_t *summary = sweep->instance[k].summary;
        json_object_set_new(one, "summary",
                            summary ? json_incref(summary) : json_null());
        json_array_append_new(list, one);
    }
    json_object_set_new(file, "instances", list);
    return write_json(sweep, "instances.json", file, err);
}

/* ---- summary.json ---- */

enum how { SUM, LARGEST };

/* Over the instances that have the number; NaN if none has. */
static double over_all(const struct cadre_sweep *sweep, const char *key, enum how how)
{
    double all = NAN;
    for (size_t k = 0; k < sweep->n; k++) {
        double one = number_of(sweep->instance[k].summary, key);
        if (isnan(one))
            continue;
        all = isnan(all) ? one : how == SUM ? all + one : fmax(all, one);
    }
    return all;
}

/* The best instance: by validation loss if all have one, else by the last training
 * loss. */
static size_t find_best(const struct cadre_sweep *sweep)
{
    bool valid = true;
    size_t best = sweep->n;
    for (size_t k = 0; k < sweep->n; k++) {
        const json_t *summary = sweep->instance[k].summary;
        valid = valid && (!summary || isfinite(number_of(summary, "valid_loss")));
    }
    const char *key = valid ? "valid_loss" : "loss_last";
    for (size_t k = 0; k < sweep->n; k++) {
        const json_t *summary = sweep->instance[k].summary;
        if (summary &&
            (best == sweep->n ||
             number_of(summary, key) < number_of(sweep->instance[best].summary, key)))
            best = k;
    }
    return best;
}

static void put_all_ranks(const struct cadre_sweep *sweep, const char *key, json_t *out)
{
    json_t *list = json_array();
    for (size_t k = 0; k < sweep->n; k++)
        json_array_extend(list, json_object_get(sweep->instance[k].summary, key));
    json_object_set_new(out, key, list);
}

static void put_copy(const json_t *from, const char *key, json_t *out)
{
    json_t *value = json_object_get(from, key);
    if (value)
        json_object_set(out, key, value);
}

/* The machine of the best instance, with the cores of all instances together. */
static void put_machine(const json_t *first, json_t *out)
{
    json_t *machine = json_deep_copy(json_object_get(first, "machine"));
    if (!machine)
        return;
    json_object_set_new(machine, "cores", json_integer(cadre_cores()));
    json_object_set_new(out, "machine", machine);
}

static void put_instances(const struct cadre_sweep *sweep, json_t *out)
{
    static const char *const keys[] = {"steps",        "tokens",    "time_s",
                                       "loss_first",   "loss_last", "valid_loss",
                                       "tokens_per_s", "peak_bytes"};
    json_t *list = json_array();
    for (size_t k = 0; k < sweep->n; k++) {
        json_t *one = instance_of(sweep, k);
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            put_copy(sweep->instance[k].summary, keys[i], one);
        json_array_append_new(list, one);
    }
    json_object_set_new(out, "instances", list);
}

static json_int_t whole(double value)
{
    return isfinite(value) ? (json_int_t)value : 0;
}

static json_t *make_summary(const struct cadre_sweep *sweep, size_t best)
{
    static const char *const of_best[] = {"device", "threads", "steps"};
    static const char *const trained[] = {"loss_first", "loss_last", "valid_loss"};
    static const char *const last[] = {
        "params", "exact",           "gemm",           "simulated_link",
        "nodes",  "simulated_nodes", "simulated_pace",
    };
    const json_t *first = sweep->instance[best].summary;
    json_t *out = begin_file(CADRE_RECORD_SCHEMA);
    json_object_set_new(out, "name", json_string(sweep->spec->name));
    json_object_set_new(out, "stack", json_string(sweep->spec->stack));
    json_object_set_new(out, "ranks",
                        json_integer(whole(over_all(sweep, "ranks", SUM))));
    for (size_t i = 0; i < sizeof of_best / sizeof of_best[0]; i++)
        put_copy(first, of_best[i], out);
    json_object_set_new(out, "tokens",
                        json_integer(whole(over_all(sweep, "tokens", SUM))));
    json_object_set_new(out, "time_s", number(over_all(sweep, "time_s", LARGEST)));
    json_object_set_new(out, "tokens_per_s",
                        number(over_all(sweep, "tokens_per_s", SUM)));
    json_object_set_new(out, "best", json_integer((json_int_t)best));
    for (size_t i = 0; i < sizeof trained / sizeof trained[0]; i++)
        put_copy(first, trained[i], out);
    put_all_ranks(sweep, "peak_bytes", out);
    put_machine(first, out);
    json_object_set_new(out, "comm_bytes",
                        json_integer(whole(over_all(sweep, "comm_bytes", SUM))));
    json_object_set_new(
        out, "comm_between_bytes",
        json_integer(whole(over_all(sweep, "comm_between_bytes", SUM))));
    json_object_set_new(out, "comm_exposed_s",
                        number(over_all(sweep, "comm_exposed_s", LARGEST)));
    json_object_set_new(out, "bubble_fraction",
                        number(over_all(sweep, "bubble_fraction", LARGEST)));
    for (size_t i = 0; i < sizeof last / sizeof last[0]; i++)
        put_copy(first, last[i], out);
    put_instances(sweep, out);
    return out;
}

cadre_status cadre_sweep_write_summary(const struct cadre_sweep *sweep,
                                       struct cadre_error *err)
{
    const size_t best = find_best(sweep);
    if (best == sweep->n)
        return CADRE_OK;
    return write_json(sweep, "summary.json", make_summary(sweep, best), err);
}

/* ---- the table ---- */

enum { COLUMNS = 7, CELL = 64 };

typedef char row[COLUMNS][CELL];

static void put_loss(double loss, char cell[CELL])
{
    if (isfinite(loss))
        snprintf(cell, CELL, "%.4f", loss);
    else
        snprintf(cell, CELL, "-");
}

static double peak_of(const json_t *summary)
{
    const json_t *peaks = json_object_get(summary, "peak_bytes");
    double sum = json_array_size(peaks) ? 0 : (double)NAN;
    for (size_t r = 0; r < json_array_size(peaks); r++)
        sum += json_number_value(json_array_get(peaks, r));
    return sum;
}

static void fill_row(const struct cadre_sweep *sweep, size_t k, row cells)
{
    const struct cadre_sweep_instance *instance = &sweep->instance[k];
    snprintf(cells[0], CELL, "%zu", k);
    snprintf(cells[1], CELL, "%s", cadre_sweep_status_name(instance->status));
    put_loss(number_of(instance->summary, "loss_last"), cells[2]);
    put_loss(number_of(instance->summary, "valid_loss"), cells[3]);
    cadre_format_count(number_of(instance->summary, "tokens_per_s"), cells[4], CELL);
    cadre_format_bytes(peak_of(instance->summary), cells[5], CELL);
    snprintf(cells[6], CELL, "%s%s", instance->options,
             instance->before ? " [done before]" : "");
}

/* Losses are those of the best instance; the rest is of all together. */
static void fill_all(const struct cadre_sweep *sweep, row cells)
{
    const size_t best = find_best(sweep);
    const json_t *summary = best < sweep->n ? sweep->instance[best].summary : NULL;
    double bytes = NAN;
    for (size_t k = 0; k < sweep->n; k++) {
        double one = peak_of(sweep->instance[k].summary);
        bytes = isnan(bytes) ? one : isnan(one) ? bytes : bytes + one;
    }
    snprintf(cells[0], CELL, "all");
    put_loss(number_of(summary, "loss_last"), cells[2]);
    put_loss(number_of(summary, "valid_loss"), cells[3]);
    cadre_format_count(over_all(sweep, "tokens_per_s", SUM), cells[4], CELL);
    cadre_format_bytes(bytes, cells[5], CELL);
    if (best < sweep->n)
        snprintf(cells[6], CELL, "best: instance %zu", best);
}

static void put_row(struct cadre_text *out, row cells, const int *width)
{
    for (int c = 0; c < COLUMNS; c++) {
        const bool left = c <= 1 || c == COLUMNS - 1;
        const int room = c == COLUMNS - 1 ? 0 : width[c];
        cadre_text_printf(out, left ? "%s%-*s" : "%s%*s", c ? "  " : "", room,
                          cells[c]);
    }
    while (out->len > 0 && out->data[out->len - 1] == ' ')
        out->data[--out->len] = '\0';
    cadre_text_append(out, "\n", 1);
}

void cadre_sweep_table(const struct cadre_sweep *sweep, struct cadre_text *out)
{
    static const char *const heads[COLUMNS] = {
        "instance", "status", "loss", "valid", "tokens/s", "peak memory", "options"};
    row *rows = cadre_calloc(sweep->n + 2, sizeof *rows);
    int width[COLUMNS] = {0};
    if (!rows) {
        out->failed = true;
        return;
    }
    for (int c = 0; c < COLUMNS; c++)
        snprintf(rows[0][c], CELL, "%s", heads[c]);
    for (size_t k = 0; k < sweep->n; k++)
        fill_row(sweep, k, rows[k + 1]);
    fill_all(sweep, rows[sweep->n + 1]);
    for (size_t r = 0; r < sweep->n + 2; r++)
        for (int c = 0; c < COLUMNS; c++) {
            const int length = (int)strlen(rows[r][c]);
            width[c] = length > width[c] ? length : width[c];
        }
    for (size_t r = 0; r < sweep->n + 2; r++)
        put_row(out, rows[r], width);
    free(rows);
}
