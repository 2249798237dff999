/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/restarts.h"

#include <jansson.h>
#include <stdlib.h>

#include "core/base/json_read.h"
#include "core/base/memory.h"
#include "core/base/path.h"

static const char FILE_NAME[] = "restarts.json";
enum { SCHEMA_VERSION = 1, FILE_LIMIT = 1 << 20 };

/* The restarts of the file's text, with a reference of their own. Before 0.2 the file
 * was the list itself. */
static cadre_status list_of(const char *text, size_t bytes, json_t **out,
                            struct cadre_error *err)
{
    json_t *root = NULL;
    CADRE_TRY(
        cadre_json_try(text, bytes, JSON_REJECT_DUPLICATES, FILE_NAME, &root, err));
    json_t *list = json_is_array(root) ? root : json_object_get(root, "restarts");
    json_incref(list);
    json_decref(root);
    *out = list;
    return CADRE_OK;
}

/* The array in the file; NULL with CADRE_OK where there is no file. */
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
        if (rc == CADRE_OK)
            rc = list_of(text, bytes, list, err);
        if (rc == CADRE_OK && !json_is_array(*list)) {
            json_decref(*list);
            *list = NULL;
            rc = cadre_fail(err, CADRE_E_INVALID,
                            "'%s' was changed: expected a list of restarts, as "
                            "run.elastic writes it; remove the file",
                            path);
        }
    }
    free(text);
    free(path);
    return rc;
}

static void put_one(struct cadre_json *json, const struct cadre_restart *restart)
{
    cadre_json_begin_object(json);
    cadre_json_put_i64(json, "step", restart->step);
    cadre_json_put_i64(json, "lost", restart->lost);
    cadre_json_put_string(json, "from", restart->from);
    cadre_json_put_string(json, "stack", restart->stack);
    cadre_json_put_string(json, "why", restart->why);
    cadre_json_put_string(json, "date", restart->date);
    cadre_json_end_object(json);
}

static void put_list(struct cadre_json *json, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const struct cadre_restart restart = {
            .step = json_integer_value(json_object_get(one, "step")),
            .lost = (int)json_integer_value(json_object_get(one, "lost")),
            .from = json_string_value(json_object_get(one, "from")),
            .stack = json_string_value(json_object_get(one, "stack")),
            .why = json_string_value(json_object_get(one, "why")),
            .date = json_string_value(json_object_get(one, "date")),
        };
        put_one(json, &restart);
    }
}

cadre_status cadre_restarts_add(const char *dir, const struct cadre_restart *restart,
                                struct cadre_error *err)
{
    struct cadre_text text = {0};
    struct cadre_json json;
    char date[CADRE_JSON_DATE];
    struct cadre_restart now = *restart;
    json_t *list;
    now.date = cadre_json_date(date);
    CADRE_TRY(read_list(dir, &list, err));
    char *path = cadre_path_join(dir, FILE_NAME);
    cadre_json_init_text(&json, &text, true);
    cadre_json_begin_object(&json);
    cadre_json_put_head(&json, SCHEMA_VERSION);
    cadre_json_key(&json, "restarts");
    cadre_json_begin_array(&json);
    put_list(&json, list);
    put_one(&json, &now);
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

void cadre_restarts_put(const char *dir, struct cadre_json *json)
{
    json_t *list;
    if (read_list(dir, &list, NULL) != CADRE_OK || !list)
        return;
    cadre_json_key(json, "restarts");
    cadre_json_begin_array(json);
    put_list(json, list);
    cadre_json_end_array(json);
    json_decref(list);
}

char *cadre_restarts_first(const char *dir)
{
    json_t *list;
    if (read_list(dir, &list, NULL) != CADRE_OK)
        return NULL;
    char *from = cadre_strdup(
        json_string_value(json_object_get(json_array_get(list, 0), "from")));
    json_decref(list);
    return from;
}
