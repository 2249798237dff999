/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/recuts.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/json_read.h"
#include "core/base/memory.h"
#include "core/base/path.h"

static const char FILE_NAME[] = "recuts.json";
enum { SCHEMA_VERSION = 1, FILE_LIMIT = 16 << 20 };

static cadre_status changed(const char *dir, struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_INVALID,
                      "'%s/%s' was changed: expected a list of cuts, as run.recut "
                      "writes it; remove the file",
                      dir, FILE_NAME);
}

/* The array in the file, the caller's; NULL with CADRE_OK where there is no file. */
static cadre_status read_list(const char *dir, json_t **list, struct cadre_error *err)
{
    char *path = cadre_path_join(dir, FILE_NAME), *text = NULL;
    size_t bytes = 0;
    cadre_status rc = CADRE_OK;
    *list = NULL;
    if (!path)
        return cadre_no_memory(err, "a path");
    if (cadre_path_exists(path)) {
        rc = cadre_path_read_file(path, FILE_LIMIT, &text, &bytes, err);
        json_t *root = NULL;
        if (rc == CADRE_OK)
            rc = cadre_json_try(text, bytes, JSON_REJECT_DUPLICATES, path, &root, err);
        *list = json_incref(json_object_get(root, "recuts"));
        json_decref(root);
        if (rc == CADRE_OK && !json_is_array(*list)) {
            json_decref(*list);
            *list = NULL;
            rc = changed(dir, err);
        }
    }
    free(text);
    free(path);
    return rc;
}

static void put_seconds(struct cadre_json *json, const struct cadre_recut *recut)
{
    cadre_json_key(json, "unit_seconds");
    cadre_json_begin_array(json);
    for (uint32_t u = 0; u < recut->n_units; u++)
        cadre_json_f64(json, recut->seconds[u]);
    cadre_json_end_array(json);
}

static void put_old_seconds(struct cadre_json *json, const json_t *one)
{
    const json_t *list = json_object_get(one, "unit_seconds");
    cadre_json_key(json, "unit_seconds");
    cadre_json_begin_array(json);
    for (size_t u = 0; u < json_array_size(list); u++)
        cadre_json_f64(json, json_number_value(json_array_get(list, u)));
    cadre_json_end_array(json);
}

static void put_head(struct cadre_json *json, const struct cadre_recut *recut,
                     const char *date)
{
    cadre_json_put_i64(json, "step", recut->step);
    cadre_json_put_string(json, "from", recut->from);
    cadre_json_put_string(json, "to", recut->to);
    cadre_json_put_f64(json, "slowest_before_s", recut->before_s);
    cadre_json_put_f64(json, "slowest_after_s", recut->after_s);
    cadre_json_put_string(json, "date", date);
}

static void put_list(struct cadre_json *json, const json_t *list, bool seconds)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const struct cadre_recut recut = {
            .step = json_integer_value(json_object_get(one, "step")),
            .from = json_string_value(json_object_get(one, "from")),
            .to = json_string_value(json_object_get(one, "to")),
            .before_s = json_number_value(json_object_get(one, "slowest_before_s")),
            .after_s = json_number_value(json_object_get(one, "slowest_after_s")),
        };
        cadre_json_begin_object(json);
        put_head(json, &recut, json_string_value(json_object_get(one, "date")));
        if (seconds)
            put_old_seconds(json, one);
        cadre_json_end_object(json);
    }
}

cadre_status cadre_recuts_add(const char *dir, const struct cadre_recut *recut,
                              struct cadre_error *err)
{
    struct cadre_text text = {0};
    struct cadre_json json;
    char date[CADRE_JSON_DATE];
    json_t *list;
    CADRE_TRY(read_list(dir, &list, err));
    char *path = cadre_path_join(dir, FILE_NAME);
    cadre_json_init_text(&json, &text, true);
    cadre_json_begin_object(&json);
    cadre_json_put_head(&json, SCHEMA_VERSION);
    cadre_json_key(&json, "recuts");
    cadre_json_begin_array(&json);
    put_list(&json, list, true);
    cadre_json_begin_object(&json);
    put_head(&json, recut, cadre_json_date(date));
    put_seconds(&json, recut);
    cadre_json_end_object(&json);
    cadre_json_end_array(&json);
    cadre_json_end_object(&json);
    cadre_status rc = cadre_json_finish(&json);
    if (rc == CADRE_OK && path)
        rc = cadre_path_write_file(path, cadre_text_str(&text), text.len, err);
    else
        rc = cadre_no_memory(err, "%s", FILE_NAME);
    cadre_text_fini(&text);
    json_decref(list);
    free(path);
    return rc;
}

uint32_t cadre_recuts_count(const char *dir)
{
    json_t *list;
    if (read_list(dir, &list, NULL) != CADRE_OK)
        return 0;
    uint32_t n = (uint32_t)json_array_size(list);
    json_decref(list);
    return n;
}

cadre_status cadre_recuts_last(const char *dir, uint32_t n_units, double *seconds,
                               struct cadre_error *err)
{
    json_t *list;
    CADRE_TRY(read_list(dir, &list, err));
    const size_t n = json_array_size(list);
    const json_t *found =
        n ? json_object_get(json_array_get(list, n - 1), "unit_seconds") : NULL;
    bool good = json_is_array(found) && json_array_size(found) == n_units;
    for (uint32_t u = 0; good && u < n_units; u++) {
        const double value = json_number_value(json_array_get(found, u));
        good = value > 0 && isfinite(value);
        seconds[u] = value;
    }
    json_decref(list);
    return good ? CADRE_OK : changed(dir, err);
}

void cadre_recuts_put(const char *dir, struct cadre_json *json)
{
    json_t *list;
    if (read_list(dir, &list, NULL) != CADRE_OK || !list)
        return;
    cadre_json_key(json, "recuts");
    cadre_json_begin_array(json);
    put_list(json, list, false);
    cadre_json_end_array(json);
    json_decref(list);
}
