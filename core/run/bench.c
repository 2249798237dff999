/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/bench.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/json_read.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/config/ini.h"

static const char FILE_NAME[] = "bench.json", INSTANCES[] = "instances.json";

enum {
    SCHEMA_VERSION = 1,
    FILE_LIMIT = 1 << 26, /* bytes of a file that is read whole */
};

/* ---- what a benchmark is ---- */

bool cadre_bench_wanted(const struct cadre_config_bench *config)
{
    return config->steps > 0 || config->target > 0;
}

bool cadre_bench_made(const char *dir)
{
    struct cadre_ini ini = {0};
    bool found = false;
    char *path = cadre_path_join(dir, "config.ini");
    if (path && cadre_path_exists(path) &&
        cadre_ini_load(&ini, path, NULL) == CADRE_OK) {
        for (size_t i = 0; i < ini.n; i++) {
            const struct cadre_ini_entry *entry = &ini.entries[i];
            if (entry->key && strcasecmp(entry->section, "bench") == 0 &&
                (strcasecmp(entry->key, "steps") == 0 ||
                 strcasecmp(entry->key, "target") == 0))
                found = found || strtod(entry->value, NULL) > 0;
        }
    }
    cadre_ini_fini(&ini);
    free(path);
    return found;
}

/* ---- writing ---- */

static void put(struct cadre_json *json, const struct cadre_bench *bench)
{
    cadre_json_begin_object(json);
    cadre_json_put_head(json, SCHEMA_VERSION);
    cadre_json_put_i64(json, "warmup", bench->warmup);
    cadre_json_put_i64(json, "steps", bench->steps);
    cadre_json_put_f64(json, "tokens", bench->tokens);
    cadre_json_put_f64(json, "start_s", bench->start_s);
    cadre_json_put_bool(json, "reached", bench->reached);
    cadre_json_put_i64(json, "target_step", bench->target_step);
    cadre_json_key(json, "step_parts");
    cadre_step_parts_put(json, &bench->parts, NAN);
    cadre_json_key(json, "windows");
    cadre_json_begin_array(json);
    for (size_t i = 0; i < bench->n; i++) {
        const struct cadre_bench_window *window = &bench->window[i];
        cadre_json_begin_object(json);
        cadre_json_put_f64(json, "seconds", window->seconds);
        cadre_json_put_f64(json, "bubble_fraction", window->bubble_fraction);
        cadre_json_put_f64(json, "comm_exposed_s", window->comm_exposed_s);
        cadre_json_end_object(json);
    }
    cadre_json_end_array(json);
    cadre_json_end_object(json);
}

cadre_status cadre_bench_write(const char *dir, const struct cadre_bench *bench,
                               struct cadre_error *err)
{
    struct cadre_text text = {0};
    struct cadre_json json;
    char *path = cadre_path_join(dir, FILE_NAME);
    cadre_json_init_text(&json, &text, true);
    put(&json, bench);
    cadre_status rc = cadre_json_finish(&json);
    if (rc != CADRE_OK || !path)
        rc = cadre_no_memory(err, "%s", FILE_NAME);
    if (rc == CADRE_OK)
        rc = cadre_path_write_file(path, cadre_text_str(&text), text.len, err);
    cadre_text_fini(&text);
    free(path);
    return rc;
}

/* ---- reading ---- */

/* A JSON file being read. */
struct reading {
    char *path; /* owned */
    json_t *root; /* owned */
};

static void close_file(struct reading *file)
{
    json_decref(file->root);
    free(file->path);
}

static cadre_status open_file(struct reading *file, const char *dir, const char *name,
                              struct cadre_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    cadre_status rc = CADRE_OK;
    *file = (struct reading){.path = cadre_path_join(dir, name)};
    if (!file->path)
        return cadre_no_memory(err, "a path");
    if (!cadre_path_exists(file->path))
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "'%s' is missing: expected the folder of a benchmark that "
                        "ended (bench.steps, bench.target)",
                        file->path);
    if (rc == CADRE_OK)
        rc = cadre_path_read_file(file->path, FILE_LIMIT, &text, &bytes, err);
    if (rc == CADRE_OK) {
        rc = cadre_json_read(text, bytes, file->path, &file->root, err);
    }
    free(text);
    return rc;
}

static cadre_status wrong(const struct reading *file, const char *key,
                          const char *expected, struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_INVALID,
                      "'%s': %s is missing or wrong: expected %s, as train writes it",
                      file->path, key, expected);
}

static cadre_status take_count(const struct reading *file, const char *key,
                               int64_t least, int64_t *out, struct cadre_error *err)
{
    const json_t *value = json_object_get(file->root, key);
    *out = json_integer_value(value);
    if (json_is_integer(value) && *out >= least)
        return CADRE_OK;
    return wrong(file, key, least ? "a whole number above 0" : "a whole number", err);
}

/* null is NaN, which must be allowed. */
static cadre_status take_number(const struct reading *file, const json_t *object,
                                const char *key, bool null, double *out,
                                struct cadre_error *err)
{
    const json_t *value = json_object_get(object, key);
    *out = json_is_number(value) ? json_number_value(value) : (double)NAN;
    if ((json_is_number(value) && *out >= 0) || (null && json_is_null(value)))
        return CADRE_OK;
    return wrong(file, key, null ? "a number or null" : "a number", err);
}

static cadre_status take_window(const struct reading *file, const json_t *object,
                                struct cadre_bench_window *window,
                                struct cadre_error *err)
{
    CADRE_TRY(take_number(file, object, "seconds", false, &window->seconds, err));
    if (window->seconds <= 0)
        return wrong(file, "seconds", "a number above 0", err);
    CADRE_TRY(take_number(file, object, "bubble_fraction", true,
                          &window->bubble_fraction, err));
    return take_number(file, object, "comm_exposed_s", true, &window->comm_exposed_s,
                       err);
}

static cadre_status take(const struct reading *file, struct cadre_bench *bench,
                         struct cadre_error *err)
{
    const json_t *reached = json_object_get(file->root, "reached");
    const json_t *windows = json_object_get(file->root, "windows");
    const json_int_t schema =
        json_integer_value(json_object_get(file->root, "schema_version"));
    if (schema > SCHEMA_VERSION)
        return wrong(file, "schema_version", "one that this Cadre knows", err);
    CADRE_TRY(take_count(file, "warmup", 0, &bench->warmup, err));
    CADRE_TRY(take_count(file, "steps", 1, &bench->steps, err));
    CADRE_TRY(take_count(file, "target_step", 0, &bench->target_step, err));
    CADRE_TRY(take_number(file, file->root, "tokens", false, &bench->tokens, err));
    CADRE_TRY(take_number(file, file->root, "start_s", true, &bench->start_s, err));
    if (!json_is_boolean(reached))
        return wrong(file, "reached", "true or false", err);
    bench->reached = json_is_true(reached);
    const json_t *parts = json_object_get(file->root, "step_parts");
    cadre_step_parts_take(&bench->parts, parts);
    if (parts && !json_is_null(parts) && !bench->parts.known)
        return wrong(file, "step_parts", "an object of numbers or null", err);
    bench->n = json_array_size(windows);
    if (bench->n < 1 || bench->n > CADRE_BENCH_WINDOWS)
        return wrong(file, "windows", "a list of 1 to 64", err);
    for (size_t i = 0; i < bench->n; i++)
        CADRE_TRY(
            take_window(file, json_array_get(windows, i), &bench->window[i], err));
    return CADRE_OK;
}

static cadre_status read_one(const char *dir, struct cadre_bench *bench,
                             struct cadre_error *err)
{
    struct reading file;
    *bench = (struct cadre_bench){0};
    cadre_status rc = open_file(&file, dir, FILE_NAME, err);
    if (rc == CADRE_OK)
        rc = take(&file, bench, err);
    close_file(&file);
    return rc;
}

/* ---- independent runs ---- */

/* `seconds` of the sum's windows are tokens a second until the last instance. */
static double rate_of(const struct cadre_bench *bench, size_t window)
{
    return (double)bench->steps * bench->tokens / bench->window[window].seconds;
}

static void begin_sum(struct cadre_bench *sum)
{
    for (size_t i = 0; i < sum->n; i++)
        sum->window[i].seconds = rate_of(sum, i);
}

static void add(struct cadre_bench *sum, const struct cadre_bench *one)
{
    for (size_t i = 0; i < sum->n; i++) {
        struct cadre_bench_window *window = &sum->window[i];
        window->seconds += rate_of(one, i);
        window->bubble_fraction =
            fmax(window->bubble_fraction, one->window[i].bubble_fraction);
        window->comm_exposed_s =
            fmax(window->comm_exposed_s, one->window[i].comm_exposed_s);
    }
    sum->parts.known = false;
    sum->start_s = fmax(sum->start_s, one->start_s);
    sum->reached = sum->reached && one->reached;
    if (one->target_step > sum->target_step)
        sum->target_step = one->target_step;
}

static void end_sum(struct cadre_bench *sum)
{
    for (size_t i = 0; i < sum->n; i++)
        sum->window[i].seconds =
            (double)sum->steps * sum->tokens / sum->window[i].seconds;
    sum->target_step = sum->reached ? sum->target_step : 0;
}

/* Files of before 0.2 are the list itself. */
static const json_t *instances_of(const struct reading *file)
{
    return json_is_array(file->root) ? file->root
                                     : json_object_get(file->root, "instances");
}

static cadre_status read_instance(const struct reading *list, const char *dir, size_t k,
                                  struct cadre_bench *sum, struct cadre_error *err)
{
    struct cadre_bench one;
    const json_t *folder =
        json_object_get(json_array_get(instances_of(list), k), "folder");
    if (!json_is_string(folder))
        return wrong(list, "folder", "that of an instance", err);
    char *path = cadre_path_join(dir, json_string_value(folder));
    cadre_status rc = path ? read_one(path, &one, err) : cadre_no_memory(err, "a path");
    if (rc == CADRE_OK && k > 0 && one.n != sum->n)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "'%s/%s': %zu windows, and the first instance has %zu", path,
                        FILE_NAME, one.n, sum->n);
    free(path);
    if (rc != CADRE_OK)
        return rc;
    if (k > 0) {
        add(sum, &one);
    } else {
        *sum = one;
        begin_sum(sum);
    }
    return CADRE_OK;
}

static cadre_status read_instances(const char *dir, struct cadre_bench *bench,
                                   struct cadre_error *err)
{
    struct reading list;
    cadre_status rc = open_file(&list, dir, INSTANCES, err);
    const size_t n = json_array_size(instances_of(&list));
    if (rc == CADRE_OK && n == 0)
        rc = cadre_fail(err, CADRE_E_INVALID, "'%s' lists no instance", list.path);
    for (size_t k = 0; rc == CADRE_OK && k < n; k++)
        rc = read_instance(&list, dir, k, bench, err);
    if (rc == CADRE_OK)
        end_sum(bench);
    close_file(&list);
    return rc;
}

cadre_status cadre_bench_read(const char *dir, struct cadre_bench *bench,
                              struct cadre_error *err)
{
    char *path = cadre_path_join(dir, INSTANCES);
    *bench = (struct cadre_bench){0};
    if (!path)
        return cadre_no_memory(err, "a path");
    bool several = cadre_path_exists(path);
    free(path);
    return several ? read_instances(dir, bench, err) : read_one(dir, bench, err);
}

double cadre_bench_step_s(const struct cadre_bench *bench)
{
    double seconds = 0;
    for (size_t i = 0; i < bench->n; i++)
        seconds += bench->window[i].seconds;
    return seconds / (double)((int64_t)bench->n * bench->steps);
}
