/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/costs.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/json_read.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/engine/unit_seconds.h"

static const char FILE_NAME[] = "unit_seconds.json";
enum { SCHEMA_VERSION = 1, FILE_LIMIT = 1 << 20 };

/* Ranks with other costs have another fingerprint and are refused at the handshake. */
void cadre_costs_set(struct cadre_spec *spec, double *measured_take, double *cut_take,
                     uint32_t n)
{
    struct cadre_hash hash;
    const double *seconds = cut_take ? cut_take : measured_take;
    cadre_hash_init(&hash, spec->run.fingerprint);
    cadre_hash_update(&hash, seconds, n * sizeof *seconds);
    spec->run.fingerprint = cadre_hash_final(&hash);
    free(spec->unit_seconds);
    free(spec->cut_seconds);
    spec->unit_seconds = measured_take;
    spec->cut_seconds = cut_take;
    spec->run.unit_seconds = seconds;
    spec->n_unit_seconds = n;
}

cadre_status cadre_costs_find(struct cadre_spec *spec, struct cadre_error *err)
{
    struct cadre_rank rank;
    cadre_status rc = cadre_rank_plan(&rank, &spec->run, 0, err);
    if (rc != CADRE_OK)
        return rc;
    if (rank.services.asked_seconds && !spec->unit_seconds) {
        uint32_t n = rank.model->n_units;
        double *seconds = cadre_calloc(n, sizeof *seconds);
        rc = seconds ? cadre_unit_seconds_measure(&spec->run, rank.model, seconds, err)
                     : cadre_no_memory(err, "%u costs", n);
        if (rc == CADRE_OK)
            cadre_costs_set(spec, seconds, NULL, n);
        else
            free(seconds);
    }
    cadre_rank_fini(&rank);
    return rc;
}

static void put_list(struct cadre_json *json, const char *key, const double *seconds,
                     uint32_t n)
{
    cadre_json_key(json, key);
    if (!seconds) {
        cadre_json_null(json);
        return;
    }
    cadre_json_begin_array(json);
    for (uint32_t u = 0; u < n; u++)
        cadre_json_f64(json, seconds[u]);
    cadre_json_end_array(json);
}

cadre_status cadre_costs_write(const struct cadre_spec *spec, struct cadre_error *err)
{
    struct cadre_text text = {0};
    struct cadre_json json;
    if (!spec->unit_seconds)
        return CADRE_OK;
    char *path = cadre_path_join(spec->out, FILE_NAME);
    cadre_json_init_text(&json, &text, true);
    cadre_json_begin_object(&json);
    cadre_json_put_head(&json, SCHEMA_VERSION);
    put_list(&json, "unit_seconds", spec->unit_seconds, spec->n_unit_seconds);
    put_list(&json, "cut_seconds", spec->cut_seconds, spec->n_unit_seconds);
    cadre_json_end_object(&json);
    cadre_status rc = cadre_json_finish(&json);
    if (rc == CADRE_OK && path)
        rc = cadre_path_write_file(path, cadre_text_str(&text), text.len, err);
    else
        rc = cadre_no_memory(err, "%s", FILE_NAME);
    cadre_text_fini(&text);
    free(path);
    return rc;
}

/* n seconds under `key`; NULL for anything else. */
static double *parse(const json_t *root, const char *key, uint32_t n)
{
    const json_t *list = json_object_get(root, key);
    bool good = json_is_array(list) && json_array_size(list) == n;
    double *seconds = good ? cadre_calloc(n, sizeof *seconds) : NULL;
    for (uint32_t u = 0; seconds && u < n; u++) {
        const json_t *value = json_array_get(list, u);
        seconds[u] = json_number_value(value);
        if (!json_is_number(value) || !(seconds[u] > 0) || !isfinite(seconds[u])) {
            free(seconds);
            seconds = NULL;
        }
    }
    return seconds;
}

static cadre_status read_file(struct cadre_spec *spec, uint32_t n,
                              struct cadre_error *err)
{
    char *text = NULL, *path = cadre_path_join(spec->out, FILE_NAME);
    double *seconds = NULL, *cut = NULL;
    size_t bytes = 0;
    cadre_status rc = CADRE_E_RESOURCE;
    if (!path)
        cadre_fail(err, rc, "no memory for a path");
    else
        rc = cadre_path_read_file(path, FILE_LIMIT, &text, &bytes, err);
    json_t *root = NULL;
    if (rc == CADRE_OK)
        rc = cadre_json_try(text, bytes, JSON_REJECT_DUPLICATES, path, &root, err);
    if (rc == CADRE_OK) {
        seconds = parse(root, "unit_seconds", n);
        cut = parse(root, "cut_seconds", n);
    }
    if (rc == CADRE_OK &&
        (!seconds || (!cut && !json_is_null(json_object_get(root, "cut_seconds")))))
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "'%s' was changed: expected the seconds of %u units, as the "
                        "launcher wrote them; start the run again",
                        path, n);
    if (rc == CADRE_OK) {
        cadre_costs_set(spec, seconds, cut, n);
    } else {
        free(seconds);
        free(cut);
    }
    json_decref(root);
    free(text);
    free(path);
    return rc;
}

cadre_status cadre_costs_read(struct cadre_spec *spec, int rank,
                              struct cadre_error *err)
{
    struct cadre_rank planned;
    cadre_status rc = cadre_rank_plan(&planned, &spec->run, rank, err);
    if (rc != CADRE_OK)
        return rc;
    if (planned.services.asked_seconds)
        rc = read_file(spec, planned.model->n_units, err);
    cadre_rank_fini(&planned);
    return rc;
}
