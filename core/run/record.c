/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/record.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/json_read.h"
#include "core/base/median.h"
#include "core/base/memory.h"
#include "core/base/path.h"

enum { FILE_LIMIT = 1 << 30 }; /* bytes of a file that is read whole */

static cadre_status read_text(const char *dir, const char *name, char **text,
                              size_t *bytes, struct cadre_error *err)
{
    char *path = cadre_path_join(dir, name);
    if (!path)
        return cadre_no_memory(err, "a path");
    cadre_status rc;
    if (cadre_path_exists(path))
        rc = cadre_path_read_file(path, FILE_LIMIT, text, bytes, err);
    else
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "'%s' is missing: expected the folder of a finished run", path);
    free(path);
    return rc;
}

static cadre_status read_summary(struct cadre_record *record, struct cadre_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    cadre_status rc;
    CADRE_TRY(read_text(record->dir, "summary.json", &text, &bytes, err));
    char *path = cadre_path_join(record->dir, "summary.json");
    rc = path ? cadre_json_read(text, bytes, path, &record->summary, err)
              : cadre_no_memory(err, "a path");
    free(path);
    free(text);
    if (rc != CADRE_OK)
        return rc;
    if (!json_is_object(record->summary))
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s/summary.json' holds no JSON object: expected what "
                          "train writes",
                          record->dir);
    const json_int_t schema =
        json_integer_value(json_object_get(record->summary, "schema_version"));
    if (schema > CADRE_RECORD_SCHEMA)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s/summary.json' has schema_version %lld, this Cadre reads "
                          "up to %d; read it with the Cadre that wrote it",
                          record->dir, (long long)schema, CADRE_RECORD_SCHEMA);
    return CADRE_OK;
}

/* Stores a number, NaN for null; false for anything else. */
static bool take_number(const json_t *object, const char *key, double *out)
{
    const json_t *value = json_object_get(object, key);
    *out = json_is_number(value) ? json_number_value(value) : (double)NAN;
    return json_is_number(value) || json_is_null(value);
}

static cadre_status take_line(struct cadre_record *record, const char *line, size_t n,
                              struct cadre_error *err)
{
    struct cadre_error why = {0};
    struct cadre_record_step *step = &record->step[record->n];
    int number = (int)record->n + 1;
    json_t *object;
    cadre_status rc = cadre_json_read(line, n, "metrics.jsonl", &object, &why);
    if (rc != CADRE_OK)
        return cadre_fail(err, rc, "'%s/metrics.jsonl' line %d: %s", record->dir,
                          number, why.text);
    step->step = json_integer_value(json_object_get(object, "step"));
    bool good = step->step == number && take_number(object, "loss", &step->loss) &&
                take_number(object, "grad_norm", &step->grad_norm) &&
                take_number(object, "lr", &step->lr) &&
                take_number(object, "step_s", &step->step_s);
    json_decref(object);
    if (!good)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s/metrics.jsonl' line %d: expected step %d with loss, "
                          "grad_norm, lr and step_s",
                          record->dir, number, number);
    record->n++;
    return CADRE_OK;
}

static cadre_status read_metrics(struct cadre_record *record, struct cadre_error *err)
{
    char *text = NULL;
    size_t bytes = 0, lines = 0;
    cadre_status rc = read_text(record->dir, "metrics.jsonl", &text, &bytes, err);
    if (rc != CADRE_OK)
        return rc;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    record->step = cadre_calloc(lines + 1, sizeof *record->step);
    if (!record->step)
        rc = cadre_no_memory(err, "%zu steps", lines);
    for (const char *at = text; rc == CADRE_OK && at < text + bytes;) {
        size_t left = (size_t)(text + bytes - at);
        const char *end = memchr(at, '\n', left);
        size_t n = end ? (size_t)(end - at) : left;
        rc = take_line(record, at, n, err);
        at += n + 1;
    }
    if (rc == CADRE_OK && record->n == 0)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "'%s/metrics.jsonl' is empty: the run made no step",
                        record->dir);
    free(text);
    return rc;
}

/* ---- independent runs ---- */

cadre_status cadre_record_read_summary(const char *dir, struct cadre_record *record,
                                       struct cadre_error *err)
{
    record->dir = cadre_strdup(dir);
    return record->dir ? read_summary(record, err) : cadre_no_memory(err, "a path");
}

static cadre_status read_run(const char *dir, struct cadre_record *record,
                             struct cadre_error *err)
{
    cadre_status rc = cadre_record_read_summary(dir, record, err);
    if (rc == CADRE_OK && !json_object_get(record->summary, "instances"))
        rc = read_metrics(record, err);
    return rc;
}

static cadre_status read_instance(struct cadre_record *record, const json_t *one,
                                  struct cadre_error *err)
{
    const char *folder = json_string_value(json_object_get(one, "folder"));
    const char *status = json_string_value(json_object_get(one, "status"));
    if (!folder || !status || strcmp(status, "done") != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s/summary.json': instance %zu is '%s', expected 'done'",
                          record->dir, record->n_instances, status ? status : "-");
    char *path = cadre_path_join(record->dir, folder);
    if (!path)
        return cadre_no_memory(err, "a path");
    struct cadre_record *instance = &record->instance[record->n_instances++];
    cadre_status rc = read_run(path, instance, err);
    if (rc == CADRE_OK && instance->n == 0)
        rc =
            cadre_fail(err, CADRE_E_INVALID, "'%s' is not a run of one instance", path);
    free(path);
    return rc;
}

/* The steps of the best one are the run's. */
static cadre_status read_instances(struct cadre_record *record, const json_t *list,
                                   struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    const size_t n = json_array_size(list);
    const json_t *best = json_object_get(record->summary, "best");
    record->instance = cadre_calloc(n, sizeof *record->instance);
    if (!record->instance)
        return cadre_no_memory(err, "%zu instances", n);
    for (size_t k = 0; rc == CADRE_OK && k < n; k++)
        rc = read_instance(record, json_array_get(list, k), err);
    if (rc != CADRE_OK)
        return rc;
    record->best = (size_t)json_integer_value(best);
    if (!json_is_integer(best) || record->best >= n)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s/summary.json': best is not one of the %zu instances",
                          record->dir, n);
    const struct cadre_record *from = &record->instance[record->best];
    record->step = cadre_calloc(from->n, sizeof *record->step);
    if (!record->step)
        return cadre_no_memory(err, "%zu steps", from->n);
    memcpy(record->step, from->step, from->n * sizeof *record->step);
    record->n = from->n;
    return CADRE_OK;
}

cadre_status cadre_record_read(const char *dir, struct cadre_record *record,
                               struct cadre_error *err)
{
    cadre_status rc = read_run(dir, record, err);
    const json_t *list =
        rc == CADRE_OK ? json_object_get(record->summary, "instances") : NULL;
    return list ? read_instances(record, list, err) : rc;
}

void cadre_record_fini(struct cadre_record *record)
{
    for (size_t k = 0; k < record->n_instances; k++) {
        json_decref(record->instance[k].summary);
        free(record->instance[k].step);
        free(record->instance[k].dir);
    }
    free(record->instance);
    json_decref(record->summary);
    free(record->step);
    free(record->dir);
    memset(record, 0, sizeof *record);
}

double cadre_record_number(const struct cadre_record *record, const char *key)
{
    double value;
    take_number(record->summary, key, &value);
    return value;
}

static const json_t *value_in(const struct cadre_record *record, const char *object,
                              const char *key)
{
    const json_t *from =
        object ? json_object_get(record->summary, object) : record->summary;
    return json_object_get(from, key);
}

double cadre_record_number_in(const struct cadre_record *record, const char *object,
                              const char *key)
{
    const json_t *value = value_in(record, object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

const char *cadre_record_text_in(const struct cadre_record *record, const char *object,
                                 const char *key)
{
    return json_string_value(value_in(record, object, key));
}

double cadre_record_largest(const struct cadre_record *record, const char *key)
{
    const json_t *array = json_object_get(record->summary, key);
    double largest = NAN;
    for (size_t i = 0; i < json_array_size(array); i++)
        largest = fmax(largest, json_number_value(json_array_get(array, i)));
    return largest;
}

const char *cadre_record_gemm(const struct cadre_record *record, const char *key)
{
    return json_string_value(
        json_object_get(json_object_get(record->summary, "gemm"), key));
}

const char *cadre_record_cpu(const struct cadre_record *record)
{
    return json_string_value(
        json_object_get(json_object_get(record->summary, "machine"), "cpu"));
}

const json_t *cadre_record_hosts(const struct cadre_record *record)
{
    return json_object_get(json_object_get(record->summary, "machine"), "hosts");
}

double cadre_record_machine(const struct cadre_record *record, const char *key)
{
    double value;
    take_number(json_object_get(record->summary, "machine"), key, &value);
    return value;
}

const char *cadre_record_restarted(const struct cadre_record *record, const char **from)
{
    const json_t *list = json_object_get(record->summary, "restarts");
    size_t n = json_array_size(list);
    const json_t *last = n > 0 ? json_array_get(list, n - 1) : NULL;
    *from = json_string_value(json_object_get(json_array_get(list, 0), "from"));
    return json_string_value(json_object_get(last, "stack"));
}

size_t cadre_record_recuts(const struct cadre_record *record, int64_t *step,
                           const char **from, const char **to)
{
    const json_t *list = json_object_get(record->summary, "recuts");
    const size_t n = json_array_size(list);
    const json_t *last = n > 0 ? json_array_get(list, n - 1) : NULL;
    *step = json_integer_value(json_object_get(last, "step"));
    *from = json_string_value(json_object_get(last, "from"));
    *to = json_string_value(json_object_get(last, "to"));
    return *from && *to ? n : 0;
}

char *cadre_record_checkpoint(const struct cadre_record *record, const char *file)
{
    int64_t last = record->n ? record->step[record->n - 1].step : 0;
    const char *dir =
        record->n_instances ? record->instance[record->best].dir : record->dir;
    return cadre_format("%s/checkpoints/step-%08" PRId64 "/%s", dir, last, file);
}

uint64_t cadre_record_chain(const struct cadre_record *record, int64_t last)
{
    uint64_t link = 0;
    for (size_t i = 0; i < record->n && (int64_t)i < last; i++)
        link = cadre_hash_of(&record->step[i].loss, sizeof(double), link);
    return link;
}

/* Times of the steps that are timed, for the caller to free; NULL without memory. */
static double *step_times(const struct cadre_record *record, int64_t warmup,
                          int64_t last, size_t *n)
{
    size_t end = last < 0 ? 0 : (size_t)last;
    end = end < record->n ? end : record->n;
    size_t skip = warmup < (int64_t)end ? (size_t)warmup : 0;
    *n = end - skip;
    double *times = cadre_calloc(*n, sizeof *times);
    for (size_t i = 0; times && i < *n; i++)
        times[i] = record->step[skip + i].step_s;
    return times;
}

/* Median over them. */
static double median_of_one(const struct cadre_record *record, int64_t warmup,
                            int64_t last)
{
    size_t n;
    double *times = step_times(record, warmup, last, &n);
    const double median = times ? cadre_median(times, n) : (double)NAN;
    free(times);
    return median;
}

void cadre_record_middle_s(const struct cadre_record *record, int64_t warmup,
                           int64_t last, double *low, double *high)
{
    size_t n = 0;
    double *times = step_times(record, warmup, last, &n);
    *low = *high = NAN;
    if (times && n > 0) {
        cadre_sort(times, n);
        *low = cadre_quantile(times, n, 0.25);
        *high = cadre_quantile(times, n, 0.75);
    }
    free(times);
}

static double step_tokens(const struct cadre_record *record)
{
    return cadre_record_number(record, "tokens") / cadre_record_number(record, "steps");
}

double cadre_record_median_s(const struct cadre_record *record, int64_t warmup,
                             int64_t last)
{
    double rate = 0;
    if (record->n_instances == 0)
        return median_of_one(record, warmup, last);
    for (size_t k = 0; k < record->n_instances; k++) {
        const struct cadre_record *one = &record->instance[k];
        rate += step_tokens(one) / median_of_one(one, warmup, last);
    }
    return step_tokens(&record->instance[record->best]) / rate;
}

double cadre_record_step_tokens(const struct cadre_record *record)
{
    return step_tokens(record->n_instances ? &record->instance[record->best] : record);
}
