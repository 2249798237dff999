/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/passes_file.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json_read.h"
#include "core/base/memory.h"
#include "core/base/path.h"

enum { FILE_LIMIT = 1 << 30 };

/* A whole number in [0, most]; false for anything else. */
static bool take_index(const json_t *value, uint32_t most, uint32_t *out)
{
    json_int_t number = json_integer_value(value);
    *out = (uint32_t)number;
    return json_is_integer(value) && number >= 0 && number <= most;
}

static bool take_seconds(const json_t *value, double *out)
{
    *out = json_number_value(value);
    return json_is_number(value) && isfinite(*out) && *out >= 0;
}

static bool take_chunk(const json_t *value, struct cadre_replay_chunk *out)
{
    static const char *const keys[] = {"forward_s", "backward_s", "input_s",
                                       "weight_s"};
    bool good = take_index(json_object_get(value, "begin"), UINT32_MAX, &out->begin) &&
                take_index(json_object_get(value, "end"), UINT32_MAX, &out->end);
    for (int k = 0; good && k < CADRE_REPLAY_KINDS; k++)
        good = take_seconds(json_object_get(value, keys[k]), &out->seconds[k]);
    return good;
}

/* ["F", chunk, micro-batch, begin, end] */
static bool take_pass(const json_t *value, struct cadre_replay_pass *out)
{
    static const char letters[] = "FBIW";
    const char *letter = json_string_value(json_array_get(value, 0));
    const char *at = letter && strlen(letter) == 1 ? strchr(letters, *letter) : NULL;
    if (!at)
        return false;
    out->kind = (enum cadre_replay_kind)(at - letters);
    return take_index(json_array_get(value, 1), UINT32_MAX, &out->chunk) &&
           take_index(json_array_get(value, 2), UINT32_MAX, &out->microbatch) &&
           take_seconds(json_array_get(value, 3), &out->begin) &&
           take_seconds(json_array_get(value, 4), &out->end) && out->end >= out->begin;
}

static bool take_rank(const json_t *value, struct cadre_replay_rank *out)
{
    const json_t *chunks = json_object_get(value, "chunks");
    const json_t *passes = json_object_get(value, "passes");
    bool good = true;
    out->rank = (int)json_integer_value(json_object_get(value, "rank"));
    out->chunk = cadre_calloc(json_array_size(chunks), sizeof *out->chunk);
    out->pass = cadre_calloc(json_array_size(passes), sizeof *out->pass);
    if (!out->chunk || !out->pass)
        return false;
    for (; good && out->n_chunks < json_array_size(chunks); out->n_chunks++)
        good = take_chunk(json_array_get(chunks, out->n_chunks),
                          &out->chunk[out->n_chunks]);
    for (; good && out->n_passes < json_array_size(passes); out->n_passes++)
        good =
            take_pass(json_array_get(passes, out->n_passes), &out->pass[out->n_passes]);
    return good && out->n_chunks > 0;
}

/* The ranks of the first one's group, in the order of the file, which is theirs. */
static bool take_all(const json_t *root, struct cadre_replay *out)
{
    const json_t *ranks = json_object_get(root, "ranks");
    size_t n = json_array_size(ranks);
    json_int_t first =
        json_integer_value(json_object_get(json_array_get(ranks, 0), "group"));
    out->step = json_integer_value(json_object_get(root, "step"));
    out->rank = cadre_calloc(n, sizeof *out->rank);
    bool good = out->rank && n > 0;
    for (size_t i = 0; good && i < n; i++) {
        const json_t *rank = json_array_get(ranks, i);
        const json_t *group = json_object_get(rank, "group");
        good = json_is_integer(group);
        if (good && json_integer_value(group) == first)
            good = take_rank(rank, &out->rank[out->n++]);
    }
    return good;
}

cadre_status cadre_passes_read(const char *dir, struct cadre_replay *out,
                               struct cadre_error *err)
{
    char *path = cadre_path_join(dir, "passes.json"), *text = NULL;
    size_t bytes = 0;
    *out = (struct cadre_replay){0};
    if (!path)
        return cadre_no_memory(err, "a path");
    cadre_status rc = CADRE_OK;
    if (cadre_path_exists(path)) {
        rc = cadre_path_read_file(path, FILE_LIMIT, &text, &bytes, err);
        json_t *root = NULL;
        if (rc == CADRE_OK)
            rc = cadre_json_try(text, bytes, JSON_REJECT_DUPLICATES, path, &root, err);
        if (rc == CADRE_OK && !take_all(root, out))
            rc = cadre_fail(err, CADRE_E_INVALID,
                            "'%s': expected chunks and passes of every rank, as train "
                            "writes them",
                            path);
        json_decref(root);
    }
    if (rc != CADRE_OK)
        cadre_replay_fini(out);
    free(text);
    free(path);
    return rc;
}
