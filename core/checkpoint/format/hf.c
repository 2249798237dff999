/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a folder, whichever shard holds them. */
#include "core/checkpoint/format/hf.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/json_read.h"
#include "core/base/memory.h"
#include "core/checkpoint/format/file.h"
#include "core/tensor/dtype.h"

enum { INDEX_LIMIT = 64 << 20, NAME_BYTES = 512 };

struct cadre_hf {
    char *path; /* the folder or file as given */
    size_t n_shards;
    struct cadre_safetensors **shards;
};

/* Location of a tensor. */
struct place {
    const struct cadre_safetensors *shard;
    size_t index;
};

static bool find_exact(const struct cadre_hf *hf, const char *name, struct place *out)
{
    for (size_t i = 0; i < hf->n_shards; i++) {
        ptrdiff_t index = cadre_safetensors_find(hf->shards[i], name);
        if (index >= 0) {
            *out = (struct place){hf->shards[i], (size_t)index};
            return true;
        }
    }
    return false;
}

/* Some folders hold only the body, whose names lack the prefix of the whole model. */
static const char *const prefixes[] = {"transformer.", "model."};

static bool find_place(const struct cadre_hf *hf, const char *name, struct place *out)
{
    if (find_exact(hf, name, out))
        return true;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        char longer[NAME_BYTES];
        size_t n = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], n) == 0 && find_exact(hf, name + n, out))
            return true;
        snprintf(longer, sizeof longer, "%s%s", prefixes[i], name);
        if (find_exact(hf, longer, out))
            return true;
    }
    return false;
}

static cadre_status add_shard(struct cadre_hf *hf, const char *path,
                              struct cadre_error *err)
{
    struct cadre_safetensors **shards =
        cadre_realloc(hf->shards, hf->n_shards + 1, sizeof *hf->shards);
    if (!shards)
        return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory to open it", path);
    hf->shards = shards;
    cadre_status rc = cadre_safetensors_open(path, false, &shards[hf->n_shards], err);
    if (rc == CADRE_OK)
        hf->n_shards++;
    return rc;
}

static const struct cadre_safetensors *find_shard(const struct cadre_hf *hf,
                                                  const char *file)
{
    size_t n = strlen(file);
    for (size_t i = 0; i < hf->n_shards; i++) {
        const char *path = cadre_safetensors_path(hf->shards[i]);
        size_t length = strlen(path);
        if (length > n && path[length - n - 1] == '/' &&
            strcmp(path + length - n, file) == 0)
            return hf->shards[i];
    }
    return NULL;
}

/* One line of the index: open its shard unless it is open, and check that it holds the
 * tensor. */
static cadre_status add_indexed(struct cadre_hf *hf, const char *index,
                                const char *name, const char *file,
                                struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    if (!file || strchr(file, '/') || file[0] == '.' || file[0] == '\0')
        return cadre_fail(
            err, CADRE_E_INVALID,
            "%s: tensor '%.200s': expected the name of a file in the same "
            "folder, found '%.200s'",
            index, name, file ? file : "no text");
    const struct cadre_safetensors *shard = find_shard(hf, file);
    if (!shard) {
        char *path = cadre_format("%s/%s", hf->path, file);
        if (!path)
            return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", index);
        rc = add_shard(hf, path, err);
        free(path);
        if (rc != CADRE_OK)
            return rc;
        shard = hf->shards[hf->n_shards - 1];
    }
    if (cadre_safetensors_find(shard, name) < 0)
        rc = cadre_fail(
            err, CADRE_E_INVALID,
            "%s: tensor '%.200s': expected in %s, found no such tensor there", index,
            name, cadre_safetensors_path(shard));
    return rc;
}

/* Every tensor of every shard must be listed: else two shards could hold the same one.
 */
static cadre_status check_listed(const struct cadre_hf *hf, const char *index,
                                 const json_t *map, struct cadre_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < hf->n_shards; i++)
        n += cadre_safetensors_count(hf->shards[i]);
    if (n != json_object_size(map))
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: expected as many tensors as its %zu files hold (%zu), "
                          "found %zu in \"weight_map\"",
                          index, hf->n_shards, n, json_object_size(map));
    return CADRE_OK;
}

static cadre_status open_index(struct cadre_hf *hf, const char *path,
                               struct cadre_error *err)
{
    json_t *root = NULL;
    const char *name;
    json_t *file;
    char *text = NULL;
    size_t bytes = 0;
    cadre_status rc;
    CADRE_TRY_OR(cadre_file_read_whole(path, INDEX_LIMIT, &text, &bytes, err), fail);
    CADRE_TRY_OR(cadre_json_read(text, bytes, path, &root, err), fail);
    json_t *map = json_object_get(root, "weight_map");
    if (!json_is_object(map)) {
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "%s: expected JSON with an object \"weight_map\": found none",
                        path);
        goto fail;
    }
    json_object_foreach(map, name, file)
        CADRE_TRY_OR(add_indexed(hf, path, name, json_string_value(file), err), fail);
    rc = check_listed(hf, path, map, err);
fail:
    json_decref(root);
    free(text);
    return rc;
}

static cadre_status open_folder(struct cadre_hf *hf, struct cadre_error *err)
{
    char *single = cadre_format("%s/model.safetensors", hf->path);
    char *index = cadre_format("%s/model.safetensors.index.json", hf->path);
    cadre_status rc;
    if (!single || !index)
        rc = cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", hf->path);
    else if (access(single, F_OK) == 0)
        rc = add_shard(hf, single, err);
    else if (access(index, F_OK) == 0)
        rc = open_index(hf, index, err);
    else
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "%s: expected model.safetensors or "
                        "model.safetensors.index.json, found neither; convert .bin "
                        "weights with transformers' save_pretrained",
                        hf->path);
    free(single);
    free(index);
    return rc;
}

cadre_status cadre_hf_open(const char *path, struct cadre_hf **out,
                           struct cadre_error *err)
{
    struct stat st;
    cadre_status rc;
    struct cadre_hf *hf = cadre_calloc(1, sizeof *hf);
    if (hf)
        hf->path = cadre_strdup(path);
    if (!hf || !hf->path)
        rc = cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory to open it", path);
    else if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        rc = open_folder(hf, err);
    else
        rc = add_shard(hf, path, err);
    if (rc != CADRE_OK) {
        cadre_hf_close(hf);
        return rc;
    }
    *out = hf;
    return CADRE_OK;
}

void cadre_hf_close(struct cadre_hf *hf)
{
    if (!hf)
        return;
    for (size_t i = 0; i < hf->n_shards; i++)
        cadre_safetensors_close(hf->shards[i]);
    free(hf->shards);
    free(hf->path);
    free(hf);
}

const struct cadre_safetensors_tensor *cadre_hf_find(const struct cadre_hf *hf,
                                                     const char *name)
{
    struct place place;
    return find_place(hf, name, &place) ? cadre_safetensors_at(place.shard, place.index)
                                        : NULL;
}

static cadre_status check_wanted(const struct cadre_hf *hf,
                                 const struct cadre_safetensors_spec *spec,
                                 struct place *place, struct cadre_error *err)
{
    if (!find_place(hf, spec->name, place))
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: tensor '%.200s': expected by the model, found none; do "
                          "the [model] keys fit this folder?",
                          hf->path, spec->name);
    return cadre_safetensors_expect(place->shard, place->index, spec, err);
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Buffers that older versions of transformers saved; computed, not trained. */
static bool is_buffer(const char *name, bool tied)
{
    return ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias") ||
           ends_with(name, ".rotary_emb.inv_freq") ||
           (tied && ends_with(name, "lm_head.weight"));
}

static cadre_status check_unknown(const struct cadre_hf *hf,
                                  const struct cadre_safetensors *shard,
                                  const bool *used, bool tied, struct cadre_error *err)
{
    for (size_t i = 0; i < cadre_safetensors_count(shard); i++) {
        const char *name = cadre_safetensors_at(shard, i)->name;
        if (!used[i] && !is_buffer(name, tied))
            return cadre_fail(
                err, CADRE_E_INVALID,
                "%s: tensor '%.200s': the model has no such parameter, so "
                "it would be lost; do the [model] keys fit this folder?",
                hf->path, name);
    }
    return CADRE_OK;
}

/* ---- a tied head ---- */

enum { COMPARED = 1 << 13 };

static cadre_status read_place(const struct place *place, uint64_t at, uint64_t n,
                               double *out, struct cadre_error *err)
{
    return cadre_safetensors_read(place->shard, place->index, at, n, CADRE_F64, out,
                                  err);
}

/* Of bits: a NaN is equal to itself. */
static cadre_status compare(const struct cadre_hf *hf, const struct place *head,
                            const struct place *embed, double *room,
                            struct cadre_error *err)
{
    const struct cadre_safetensors_tensor *a =
        cadre_safetensors_at(head->shard, head->index);
    const struct cadre_safetensors_tensor *b =
        cadre_safetensors_at(embed->shard, embed->index);
    bool equal = a->count == b->count;
    for (uint64_t at = 0, n; equal && at < a->count; at += n) {
        n = a->count - at < COMPARED ? a->count - at : COMPARED;
        CADRE_TRY(read_place(head, at, n, room, err));
        CADRE_TRY(read_place(embed, at, n, room + COMPARED, err));
        equal = memcmp(room, room + COMPARED, n * sizeof *room) == 0;
    }
    if (equal)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "%s: tensor '%s': expected the values of '%s', as config.json "
                      "has tie_word_embeddings = true, found others; set model.tied = "
                      "no to train it, or take it out of the folder",
                      hf->path, a->name, b->name);
}

/* Where the head is the embedding, a head that the folder has must be equal to it. */
static cadre_status check_tied(const struct cadre_hf *hf, struct cadre_error *err)
{
    struct place head, embed;
    if (!find_exact(hf, "lm_head.weight", &head) ||
        (!find_place(hf, "model.embed_tokens.weight", &embed) &&
         !find_place(hf, "transformer.wte.weight", &embed)))
        return CADRE_OK;
    double *room = cadre_calloc(2 * COMPARED, sizeof *room);
    if (!room)
        return cadre_no_memory(err, "a comparison of the head");
    cadre_status rc = compare(hf, &head, &embed, room, err);
    free(room);
    return rc;
}

cadre_status cadre_hf_check(const struct cadre_hf *hf,
                            const struct cadre_safetensors_spec *wanted, size_t n,
                            bool tied, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    bool **used = cadre_calloc(hf->n_shards, sizeof *used);
    for (size_t i = 0; used && i < hf->n_shards; i++) {
        used[i] = cadre_calloc(cadre_safetensors_count(hf->shards[i]), sizeof **used);
        if (!used[i])
            rc = CADRE_E_RESOURCE;
    }
    if (!used || rc != CADRE_OK) {
        rc = cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory to check it", hf->path);
        goto fail;
    }
    for (size_t i = 0; i < n; i++) {
        struct place place;
        CADRE_TRY_OR(check_wanted(hf, &wanted[i], &place, err), fail);
        for (size_t s = 0; s < hf->n_shards; s++)
            if (hf->shards[s] == place.shard)
                used[s][place.index] = true;
    }
    for (size_t s = 0; s < hf->n_shards; s++)
        CADRE_TRY_OR(check_unknown(hf, hf->shards[s], used[s], tied, err), fail);
    if (tied)
        CADRE_TRY_OR(check_tied(hf, err), fail);
fail:
    for (size_t i = 0; used && i < hf->n_shards; i++)
        free(used[i]);
    free(used);
    return rc;
}

cadre_status cadre_hf_read(const struct cadre_hf *hf, const char *name, uint64_t begin,
                           uint64_t count, uint32_t dtype, void *out,
                           struct cadre_error *err)
{
    struct place place;
    if (!find_place(hf, name, &place))
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: tensor '%.200s': expected by the model, found none",
                          hf->path, name);
    return cadre_safetensors_read(place.shard, place.index, begin, count, dtype, out,
                                  err);
}
