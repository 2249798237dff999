/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/run_data.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json_read.h"
#include "core/base/median.h"
#include "core/base/memory.h"
#include "core/base/path.h"

enum { SUMMARY_LIMIT = 1 << 28, MOST_WARMUP = 1000000 };

/* ---- a line of metrics.jsonl ---- */

/* Lines being read. */
struct reading {
    struct cadre_run_data *data;
    int64_t warmup; /* first steps, left out of times */
    double *step_s; /* of the steps after it; owned */
    size_t n_timed, room, room_timed;
    size_t n_parts;
};

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static bool grow(double **array, size_t n, size_t *room)
{
    if (n < *room)
        return true;
    size_t more = *room ? 2 * *room : 256;
    double *grown = cadre_realloc(*array, more, sizeof **array);
    if (!grown)
        return false;
    *array = grown;
    *room = more;
    return true;
}

static bool add_loss(struct reading *r, int64_t step, double loss)
{
    struct cadre_run_data *data = r->data;
    size_t room = r->room;
    if (!grow(&data->loss, data->steps, &r->room))
        return false;
    if (r->room != room || !data->loss_step) {
        int64_t *grown =
            cadre_realloc(data->loss_step, r->room, sizeof *data->loss_step);
        if (!grown)
            return false;
        data->loss_step = grown;
    }
    data->loss[data->steps] = loss;
    data->loss_step[data->steps++] = step;
    return true;
}

/* compute_s is of newer files; without it the parts are not known. */
static void add_parts(struct reading *r, const json_t *line)
{
    struct cadre_step_times times = {
        .step_s = number_of(line, "step_s"),
        .wait_data_s = number_of(line, "wait_data_s"),
        .wait_ranks_s = number_of(line, "wait_ranks_s"),
        .bubble_s = number_of(line, "bubble_s"),
        .optim_s = number_of(line, "optim_s"),
        .optim_wait_s = number_of(line, "optim_wait_s"),
        .compute_s = number_of(line, "compute_s"),
    };
    struct cadre_step_parts one = {0};
    cadre_step_parts_add(&one, &times);
    cadre_axis_times_take(&one.exposed, json_object_get(line, "comm_exposed_axis_s"));
    for (int i = 0; i < CADRE_PARTS; i++)
        r->data->parts.part[i] += one.part[i];
    for (int i = 0; i < one.exposed.n; i++)
        cadre_axis_times_add(&r->data->parts.exposed, one.exposed.of[i].axis,
                             one.exposed.of[i].s);
    r->data->parts_step_s += times.step_s;
    r->n_parts++;
}

static bool take_times(struct reading *r, const json_t *line)
{
    double step_s = number_of(line, "step_s");
    if ((int64_t)r->data->steps <= r->warmup || !isfinite(step_s))
        return true;
    if (!grow(&r->step_s, r->n_timed, &r->room_timed))
        return false;
    r->step_s[r->n_timed++] = step_s;
    add_parts(r, line);
    return true;
}

static bool take_step(struct reading *r, const json_t *line, int64_t step)
{
    static const char *const keys[CADRE_SERIES] = {"loss", "valid_loss", "lr",
                                                   "grad_norm", "tokens_per_s"};
    struct cadre_run_data *data = r->data;
    double loss = number_of(line, "loss"), valid = number_of(line, "valid_loss");
    for (int i = 0; i < CADRE_SERIES; i++)
        cadre_curve_add(&data->curve[i], (double)step, number_of(line, keys[i]));
    data->not_finite += !isfinite(loss);
    data->first_step = data->steps == 0 ? step : data->first_step;
    data->last_step = step;
    if (isfinite(valid)) {
        data->last_valid = valid;
        if (!(data->best_valid <= valid)) {
            data->best_valid = valid;
            data->best_valid_step = step;
        }
    }
    return add_loss(r, step, loss) && take_times(r, line);
}

/* false: no memory. A line that is no step after the last one is counted. */
static bool take_line(struct reading *r, const char *text)
{
    json_t *line = NULL;
    if (cadre_json_try(text, strlen(text), JSON_REJECT_DUPLICATES, "", &line, NULL) !=
        CADRE_OK)
        return false;
    int64_t step = json_integer_value(json_object_get(line, "step"));
    bool good = true;
    if (step > r->data->last_step)
        good = take_step(r, line, step);
    else
        r->data->unread++;
    json_decref(line);
    return good;
}

/* ---- files ---- */

static void spread_of(double *values, size_t n, struct cadre_run_spread *out)
{
    *out = (struct cadre_run_spread){NAN, NAN, NAN, n};
    if (n == 0)
        return;
    cadre_sort(values, n);
    out->low = cadre_quantile(values, n, 0.25);
    out->median = cadre_quantile(values, n, 0.5);
    out->high = cadre_quantile(values, n, 0.75);
}

static void finish_parts(struct reading *r)
{
    struct cadre_step_parts *parts = &r->data->parts;
    double n = (double)r->n_parts;
    parts->known = r->n_parts > 0;
    for (int i = 0; i < CADRE_PARTS; i++) {
        parts->part[i] /= n;
        parts->known = parts->known && isfinite(parts->part[i]);
    }
    for (int i = 0; i < parts->exposed.n; i++)
        parts->exposed.of[i].s /= n;
    r->data->parts_step_s /= n;
}

/* Warm-up as compare.warmup says; a run that has no more steps is timed whole. */
static int64_t warmup_of(const struct cadre_run_data *data)
{
    const char *text = cadre_run_data_option(data, "compare.warmup");
    long long warmup = text ? strtoll(text, NULL, 10) : 2;
    return warmup >= 0 && warmup < data->wanted && warmup < MOST_WARMUP ? warmup : 0;
}

static cadre_status read_metrics(struct cadre_run_data *data, struct cadre_error *err)
{
    struct reading r = {.data = data, .warmup = warmup_of(data)};
    char *path = cadre_path_join(data->dir, "metrics.jsonl"), *line = NULL;
    FILE *file = path ? fopen(path, "r") : NULL;
    size_t room = 0, n = file ? 1 : 0;
    cadre_status rc = path ? CADRE_OK : cadre_no_memory(err, "metrics");
    while (rc == CADRE_OK && n > 0) {
        rc = cadre_path_next_line(file, path, &line, &room, &n, err);
        if (rc == CADRE_OK && n > 0 && !take_line(&r, line))
            rc = cadre_no_memory(err, "metrics");
    }
    if (file)
        fclose(file);
    spread_of(r.step_s, r.n_timed, &data->step_s);
    finish_parts(&r);
    free(r.step_s);
    free(line);
    free(path);
    return rc;
}

static cadre_status read_object(const struct cadre_run_data *data, const char *name,
                                json_t **out, struct cadre_error *err)
{
    char *path = cadre_path_join(data->dir, name), *text = NULL;
    size_t bytes = 0;
    cadre_status rc = path ? CADRE_OK : cadre_no_memory(err, "a path");
    if (rc == CADRE_OK && cadre_path_exists(path))
        rc = cadre_path_read_file(path, SUMMARY_LIMIT, &text, &bytes, err);
    if (rc == CADRE_OK && text) {
        rc = cadre_json_try(text, bytes, JSON_REJECT_DUPLICATES, path, out, err);
        if (rc == CADRE_OK && !json_is_object(*out))
            rc = cadre_fail(err, CADRE_E_INVALID,
                            "'%s' holds no JSON object: expected what train writes; "
                            "remove it to report on the steps alone",
                            path);
    }
    free(text);
    free(path);
    return rc;
}

static cadre_status read_config(struct cadre_run_data *data, struct cadre_error *err)
{
    char *path = cadre_path_join(data->dir, "config.ini");
    cadre_status rc = path ? CADRE_OK : cadre_no_memory(err, "a path");
    if (rc == CADRE_OK && cadre_path_exists(path))
        rc = cadre_ini_load(&data->config, path, err);
    free(path);
    return rc;
}

/* A benchmark that did not end has no bench.json, and one of another version may have
 * another: neither is a fault of this report. */
static void read_bench(struct cadre_run_data *data)
{
    double step_s[CADRE_BENCH_WINDOWS];
    data->benchmark = cadre_bench_made(data->dir);
    if (!data->benchmark || cadre_bench_read(data->dir, &data->bench, NULL) != CADRE_OK)
        return;
    for (size_t i = 0; i < data->bench.n; i++)
        step_s[i] = data->bench.window[i].seconds / (double)data->bench.steps;
    if (data->bench.steps > 0)
        spread_of(step_s, data->bench.n, &data->step_s);
}

static cadre_status take_name(struct cadre_run_data *data, struct cadre_error *err)
{
    const char *name = cadre_run_data_text(data, NULL, "name");
    char *path = cadre_path_absolute(data->dir);
    for (size_t n = path ? strlen(path) : 0; n > 1 && path[n - 1] == '/';)
        path[--n] = 0;
    data->name = path ? cadre_strdup(name ? name : cadre_path_basename(path)) : NULL;
    free(path);
    data->folder = cadre_path_basename(data->dir);
    return data->name ? CADRE_OK : cadre_no_memory(err, "a name");
}

bool cadre_run_data_is_run(const char *dir)
{
    return cadre_path_has(dir, "metrics.jsonl") ||
           (cadre_path_has(dir, "summary.json") &&
            !cadre_path_has(dir, "instances.json"));
}

cadre_status cadre_run_data_read(const char *dir, struct cadre_run_data *data,
                                 struct cadre_error *err)
{
    *data = (struct cadre_run_data){.last_valid = NAN, .best_valid = NAN};
    if (!cadre_run_data_is_run(dir))
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' is no run: expected a folder with metrics.jsonl or "
                          "summary.json, as cadre train leaves it",
                          dir);
    data->dir = cadre_strdup(dir);
    if (!data->dir)
        return cadre_no_memory(err, "a path");
    CADRE_TRY(read_object(data, "summary.json", &data->summary, err));
    CADRE_TRY(read_object(data, "setup.json", &data->setup, err));
    CADRE_TRY(read_config(data, err));
    const char *steps = cadre_run_data_option(data, "train.steps");
    data->wanted = steps ? strtoll(steps, NULL, 10) : 0;
    CADRE_TRY(read_metrics(data, err));
    read_bench(data);
    if (!cadre_run_data_finished(data))
        cadre_run_end_read(dir, &data->end);
    return take_name(data, err);
}

void cadre_run_data_fini(struct cadre_run_data *data)
{
    cadre_ini_fini(&data->config);
    json_decref(data->summary);
    json_decref(data->setup);
    free(data->loss);
    free(data->loss_step);
    free(data->dir);
    free(data->name);
    memset(data, 0, sizeof *data);
}

/* ---- what it says ---- */

const struct cadre_ini_entry *cadre_run_data_entry(const struct cadre_run_data *data,
                                                   const char *name)
{
    const char *dot = strchr(name, '.');
    for (size_t i = 0; i < data->config.n; i++) {
        const struct cadre_ini_entry *e = &data->config.entries[i];
        if (e->key && strncmp(e->section, name, (size_t)(dot - name)) == 0 &&
            !e->section[dot - name] && strcmp(e->key, dot + 1) == 0)
            return e;
    }
    return NULL;
}

const char *cadre_run_data_option(const struct cadre_run_data *data, const char *name)
{
    const struct cadre_ini_entry *entry = cadre_run_data_entry(data, name);
    return entry ? entry->value : NULL;
}

double cadre_run_data_number(const struct cadre_run_data *data, const char *key)
{
    const double value = number_of(data->summary, key);
    return isfinite(value) ? value : number_of(data->setup, key);
}

double cadre_run_data_number_in(const struct cadre_run_data *data, const char *inside,
                                const char *key)
{
    return number_of(json_object_get(data->summary, inside), key);
}

double cadre_run_data_largest(const struct cadre_run_data *data, const char *key)
{
    const json_t *array = json_object_get(data->summary, key);
    double largest = NAN;
    for (size_t i = 0; i < json_array_size(array); i++)
        largest = fmax(largest, json_number_value(json_array_get(array, i)));
    return largest;
}

const char *cadre_run_data_text(const struct cadre_run_data *data, const char *inside,
                                const char *key)
{
    const json_t *object = data->summary;
    if (inside)
        object = json_object_get(object, inside);
    return json_string_value(json_object_get(object, key));
}

/* Where the summary and the steps tell different ends, as after a crash of a run that
 * continued, the steps are right. */
static bool has_ended(const struct cadre_run_data *data)
{
    double first = cadre_run_data_number(data, "first_step");
    double steps = cadre_run_data_number(data, "steps");
    if (!data->summary || data->steps == 0)
        return data->summary != NULL;
    first = isfinite(first) ? first : 1;
    return first + steps - 1 >= (double)data->last_step;
}

bool cadre_run_data_finished(const struct cadre_run_data *data)
{
    if (data->benchmark)
        return data->bench.n > 0;
    return has_ended(data) &&
           (data->wanted == 0 || data->steps == 0 || data->last_step >= data->wanted);
}

const char *cadre_run_data_state(const struct cadre_run_data *data, char *out,
                                 size_t size)
{
    static const char *const ends[] = {"stopped", "failed", "died"};
    const int64_t last = data->last_step;
    if (data->benchmark)
        snprintf(out, size,
                 data->bench.n > 0 ? "benchmark"
                                   : "unfinished benchmark, no bench.json");
    else if (cadre_run_data_finished(data))
        snprintf(out, size, "finished");
    else if ((has_ended(data) || data->end.how != CADRE_RUN_UNKNOWN) && data->wanted)
        snprintf(out, size, "%s after step %" PRId64 " of %" PRId64,
                 ends[data->end.how], last, data->wanted);
    else if (data->end.how != CADRE_RUN_UNKNOWN)
        snprintf(out, size, "%s after step %" PRId64, ends[data->end.how], last);
    else if (data->wanted)
        snprintf(out, size, "unfinished: %" PRId64 " of %" PRId64 " steps", last,
                 data->wanted);
    else
        snprintf(out, size, "unfinished: %" PRId64 " steps", last);
    return out;
}

const char *cadre_run_data_machine(const struct cadre_run_data *data, char *out,
                                   size_t size)
{
    const json_t *machine = json_object_get(data->summary, "machine");
    const json_t *hosts = json_object_get(machine, "hosts");
    const char *cpu = json_string_value(json_object_get(machine, "cpu"));
    const char *host = json_string_value(json_array_get(hosts, 0));
    double cores = number_of(machine, "cores");
    size_t n = json_array_size(hosts);
    struct cadre_text text = {0};
    if (host)
        cadre_text_printf(&text, "%s", host);
    if (n > 1)
        cadre_text_printf(&text, " and %zu more", n - 1);
    if (cpu)
        cadre_text_printf(&text, "%s%s", text.len ? ": " : "", cpu);
    if (isfinite(cores))
        cadre_text_printf(&text, "%s%.0f core%s", text.len ? ", " : "", cores,
                          cores == 1 ? "" : "s");
    snprintf(out, size, "%s", text.len ? cadre_text_str(&text) : "-");
    cadre_text_fini(&text);
    return out;
}
