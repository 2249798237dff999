/* SPDX-License-Identifier: Apache-2.0 */
/* The text ends with the hash of everything before it, so any change of the file is
 * found. */
#include "core/checkpoint/format/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/json_read.h"
#include "core/base/memory.h"
#include "core/checkpoint/format/file.h"

#define STATE_NAME "state.json"
#define SEAL_BEGIN ",\n  \"state_xxh64\": \""
#define SEAL_END "\"\n}\n"
enum {
    SEAL_BYTES = sizeof SEAL_BEGIN - 1 + 16 + sizeof SEAL_END - 1,
    STATE_LIMIT = 1 << 29,
    SMALL_LIMIT = 64 << 20,
};

struct cadre_manifest_reader {
    json_t *root;
    char *path;
    struct cadre_manifest manifest;
    struct cadre_manifest_value *values;
};

static void put_text(struct cadre_json *json, const char *key, const char *value)
{
    cadre_json_key(json, key);
    cadre_json_string(json, value);
}

static void put_u64(struct cadre_json *json, const char *key, uint64_t value)
{
    cadre_json_key(json, key);
    cadre_json_u64(json, value);
}

static void put_hex(struct cadre_json *json, const char *key, uint64_t value)
{
    char hex[17];
    put_text(json, key, cadre_hash_hex(value, hex));
}

static void put_manifest(struct cadre_json *json, const struct cadre_manifest *manifest)
{
    char seed[32];
    put_text(json, "format", "cadre checkpoint");
    put_u64(json, "version", CADRE_MANIFEST_VERSION);
    put_u64(json, "step", manifest->step);
    put_u64(json, "samples", manifest->samples);
    /* As a string: JSON readers keep at most 63 bits of an integer. */
    snprintf(seed, sizeof seed, "%" PRIu64, manifest->seed);
    put_text(json, "seed", seed);
    put_text(json, "options", manifest->options ? manifest->options : "");
    cadre_json_key(json, "values");
    cadre_json_begin_object(json);
    for (size_t i = 0; i < manifest->n_values; i++)
        put_text(json, manifest->values[i].key, manifest->values[i].value);
    cadre_json_end_object(json);
}

static void put_tensors(struct cadre_json *json, const struct cadre_tensor_file *file)
{
    const struct cadre_checksums *pieces = &file->sums;
    char hex[17];
    cadre_json_key(json, file->name);
    cadre_json_begin_object(json);
    put_u64(json, "bytes", cadre_safetensors_bytes(file->file));
    put_hex(json, "header_xxh64", cadre_safetensors_header_hash(file->file));
    put_u64(json, "piece_bytes", CADRE_CHECKSUM_BYTES);
    cadre_json_key(json, "pieces");
    cadre_json_begin_object(json);
    for (size_t i = 0; i < pieces->n_tensors; i++) {
        cadre_json_key(json, cadre_safetensors_at(file->file, i)->name);
        cadre_json_begin_array(json);
        for (size_t p = pieces->first[i]; p < pieces->first[i + 1]; p++)
            cadre_json_string(json, cadre_hash_hex(pieces->sum[p], hex));
        cadre_json_end_array(json);
    }
    cadre_json_end_object(json);
    cadre_json_end_object(json);
}

static cadre_status put_small(struct cadre_json *json, const char *dir,
                              const char *name, struct cadre_error *err)
{
    char *data = NULL;
    size_t bytes = 0;
    cadre_status rc;
    char *path = cadre_format("%s/%s", dir, name);
    if (!path)
        return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", dir);
    CADRE_TRY_OR(cadre_file_read_whole(path, SMALL_LIMIT, &data, &bytes, err), fail);
    cadre_json_key(json, name);
    cadre_json_begin_object(json);
    put_u64(json, "bytes", bytes);
    put_hex(json, "xxh64", cadre_hash_of(data, bytes, 0));
    cadre_json_end_object(json);
fail:
    free(data);
    free(path);
    return rc;
}

static bool is_other(const char *name, const struct cadre_tensor_file *files, size_t n)
{
    bool other = strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
                 strcmp(name, STATE_NAME) != 0;
    for (size_t i = 0; i < n; i++)
        other = other && strcmp(name, files[i].name) != 0;
    return other;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static cadre_status put_files(struct cadre_json *json, const char *dir,
                              const struct cadre_tensor_file *files, size_t n,
                              struct cadre_error *err)
{
    struct dirent **entries = NULL;
    cadre_status rc = CADRE_OK;
    int count = scandir(dir, &entries, NULL, by_name);
    if (count < 0)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "%s: cannot be listed", dir);
    cadre_json_key(json, "files");
    cadre_json_begin_object(json);
    for (size_t i = 0; i < n; i++)
        if (files[i].file)
            put_tensors(json, &files[i]);
    for (int i = 0; i < count; i++) {
        if (rc == CADRE_OK && is_other(entries[i]->d_name, files, n))
            rc = put_small(json, dir, entries[i]->d_name, err);
        free(entries[i]);
    }
    free(entries);
    cadre_json_end_object(json);
    return rc;
}

cadre_status cadre_manifest_write(const char *dir,
                                  const struct cadre_manifest *manifest,
                                  const struct cadre_tensor_file *files, size_t n,
                                  struct cadre_error *err)
{
    static const char end[] = "\n}\n";
    struct cadre_text text = {0};
    struct cadre_json json;
    char hex[17];
    cadre_status rc = CADRE_OK;
    char *path = cadre_format("%s/" STATE_NAME, dir);
    cadre_json_init_text(&json, &text, true);
    cadre_json_begin_object(&json);
    put_manifest(&json, manifest);
    CADRE_TRY_OR(put_files(&json, dir, files, n, err), fail);
    cadre_json_end_object(&json);
    if (cadre_json_finish(&json) == CADRE_OK && path && text.len > sizeof end) {
        text.len -= sizeof end - 1; /* the seal goes before the last brace */
        uint64_t hash = cadre_hash_of(text.data, text.len, 0);
        cadre_text_printf(&text, SEAL_BEGIN "%s" SEAL_END, cadre_hash_hex(hash, hex));
    }
    if (text.failed || !path)
        rc = cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory for " STATE_NAME, dir);
    else
        rc = cadre_file_write_whole(path, text.data, text.len, err);
fail:
    cadre_text_fini(&text);
    free(path);
    return rc;
}

static cadre_status damaged(const char *path, const char *what, struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_INVALID,
                      "%s: %s: the checkpoint is damaged; use another one", path, what);
}

static cadre_status mismatch(const char *path, size_t bytes, struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_INVALID,
                      "%s: the checksum of its bytes [0, %zu) does not match: the "
                      "checkpoint is damaged; use another one",
                      path, bytes);
}

static cadre_status check_seal(const char *path, const char *text, size_t bytes,
                               struct cadre_error *err)
{
    char seal[SEAL_BYTES + 1];
    char hex[17];
    if (bytes < SEAL_BYTES)
        return damaged(path, "expected its checksum at the end, found none", err);
    cadre_hash_hex(cadre_hash_of(text, bytes - SEAL_BYTES, 0), hex);
    snprintf(seal, sizeof seal, SEAL_BEGIN "%s" SEAL_END, hex);
    if (memcmp(text + bytes - SEAL_BYTES, seal, SEAL_BYTES) != 0)
        return mismatch(path, bytes, err);
    return CADRE_OK;
}

static bool get_u64(const json_t *root, const char *key, uint64_t *out)
{
    const json_t *value = json_object_get(root, key);
    *out = (uint64_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool get_hex(const json_t *value, uint64_t *out)
{
    const char *text = json_string_value(value);
    char *end = NULL;
    if (!text || strlen(text) != 16)
        return false;
    *out = strtoull(text, &end, 16);
    return *end == '\0';
}

static cadre_status get_values(struct cadre_manifest_reader *out,
                               struct cadre_error *err)
{
    json_t *values = json_object_get(out->root, "values");
    const char *key;
    json_t *value;
    size_t n = 0;
    out->values = cadre_calloc(json_object_size(values), sizeof *out->values);
    if (!out->values)
        return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", out->path);
    json_object_foreach(values, key, value)
    {
        if (!json_is_string(value))
            return damaged(out->path, "expected texts in \"values\"", err);
        out->values[n++] = (struct cadre_manifest_value){key, json_string_value(value)};
    }
    out->manifest.n_values = n;
    out->manifest.values = out->values;
    return CADRE_OK;
}

static cadre_status get_manifest(struct cadre_manifest_reader *out,
                                 struct cadre_error *err)
{
    const char *format = json_string_value(json_object_get(out->root, "format"));
    const char *seed = json_string_value(json_object_get(out->root, "seed"));
    uint64_t version = 0;
    if (!format || strcmp(format, "cadre checkpoint") != 0 ||
        !get_u64(out->root, "version", &version))
        return damaged(out->path, "expected \"format\": \"cadre checkpoint\"", err);
    if (version != CADRE_MANIFEST_VERSION)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: expected version %d, found %" PRIu64
                          "; read it with the Cadre that wrote it",
                          out->path, CADRE_MANIFEST_VERSION, version);
    out->manifest.options = json_string_value(json_object_get(out->root, "options"));
    if (!get_u64(out->root, "step", &out->manifest.step) ||
        !get_u64(out->root, "samples", &out->manifest.samples) || !seed ||
        !out->manifest.options || !json_object_get(out->root, "files"))
        return damaged(out->path, "expected step, samples, seed, options and files",
                       err);
    out->manifest.seed = strtoull(seed, NULL, 10);
    return get_values(out, err);
}

static cadre_status check_small(const char *dir, const char *name, const json_t *info,
                                struct cadre_error *err)
{
    uint64_t hash = 0;
    char *data = NULL;
    size_t bytes = 0;
    cadre_status rc;
    char *path = cadre_format("%s/%s", dir, name);
    if (!path)
        return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", dir);
    CADRE_TRY_OR(cadre_file_read_whole(path, SMALL_LIMIT, &data, &bytes, err), fail);
    if (strchr(name, '/') || !get_hex(json_object_get(info, "xxh64"), &hash) ||
        cadre_hash_of(data, bytes, 0) != hash)
        rc = mismatch(path, bytes, err);
fail:
    free(data);
    free(path);
    return rc;
}

cadre_status cadre_manifest_open(const char *dir, struct cadre_manifest_reader **out,
                                 struct cadre_error *err)
{
    struct cadre_manifest_reader *reader = cadre_calloc(1, sizeof *reader);
    const char *name;
    json_t *info;
    char *text = NULL;
    size_t bytes = 0;
    cadre_status rc;
    if (reader)
        reader->path = cadre_format("%s/" STATE_NAME, dir);
    if (!reader || !reader->path) {
        rc = cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", dir);
        goto fail;
    }
    CADRE_TRY_OR(cadre_file_read_whole(reader->path, STATE_LIMIT, &text, &bytes, err),
                 fail);
    CADRE_TRY_OR(check_seal(reader->path, text, bytes, err), fail);
    rc = cadre_json_read(text, bytes, reader->path, &reader->root, err);
    if (rc == CADRE_E_INVALID)
        rc = damaged(reader->path, "expected JSON without duplicate keys", err);
    if (rc != CADRE_OK)
        goto fail;
    CADRE_TRY_OR(get_manifest(reader, err), fail);
    json_object_foreach(json_object_get(reader->root, "files"), name,
                        info) if (!json_object_get(info, "pieces"))
        CADRE_TRY_OR(check_small(dir, name, info, err), fail);
    free(text);
    *out = reader;
    return CADRE_OK;
fail:
    free(text);
    cadre_manifest_close(reader);
    return rc;
}

void cadre_manifest_close(struct cadre_manifest_reader *reader)
{
    if (!reader)
        return;
    json_decref(reader->root);
    free(reader->path);
    free(reader->values);
    free(reader);
}

const struct cadre_manifest *
cadre_manifest_get(const struct cadre_manifest_reader *reader)
{
    return &reader->manifest;
}

static const json_t *file_info(const struct cadre_manifest_reader *reader,
                               const char *name)
{
    return json_object_get(json_object_get(reader->root, "files"), name);
}

bool cadre_manifest_lists(const struct cadre_manifest_reader *reader, const char *name)
{
    return json_object_get(file_info(reader, name), "pieces") != NULL;
}

const char *cadre_manifest_small(const struct cadre_manifest_reader *reader,
                                 size_t index)
{
    const char *name;
    json_t *info;
    json_object_foreach(json_object_get(reader->root, "files"), name, info)
    {
        if (!json_object_get(info, "pieces") && index-- == 0)
            return name;
    }
    return NULL;
}

static uint64_t header_end(const struct cadre_safetensors *file)
{
    return cadre_safetensors_count(file) > 0 ? cadre_safetensors_at(file, 0)->offset
                                             : cadre_safetensors_bytes(file);
}

cadre_status cadre_manifest_sums(const struct cadre_manifest_reader *reader,
                                 struct cadre_tensor_file *tensors,
                                 struct cadre_error *err)
{
    const struct cadre_safetensors *file = tensors->file;
    struct cadre_checksums *pieces = &tensors->sums;
    const json_t *info = file_info(reader, tensors->name);
    const json_t *sums = json_object_get(info, "pieces");
    const char *path = cadre_safetensors_path(file);
    uint64_t bytes = 0;
    uint64_t hash = 0;
    uint64_t piece_bytes = 0;
    if (!get_u64(info, "bytes", &bytes) || bytes != cadre_safetensors_bytes(file))
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: expected %" PRIu64 " bytes, found %" PRIu64
                          ": the checkpoint is damaged; use another one",
                          path, bytes, cadre_safetensors_bytes(file));
    if (!get_hex(json_object_get(info, "header_xxh64"), &hash) ||
        hash != cadre_safetensors_header_hash(file))
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: the checksum of its header, bytes [0, %" PRIu64
                          "), does not match: the checkpoint is damaged; use another "
                          "one",
                          path, header_end(file));
    if (!get_u64(info, "piece_bytes", &piece_bytes) ||
        piece_bytes != CADRE_CHECKSUM_BYTES)
        return damaged(reader->path, "expected \"piece_bytes\": 1048576", err);
    for (size_t i = 0; i < pieces->n_tensors; i++) {
        const json_t *list = json_object_get(sums, cadre_safetensors_at(file, i)->name);
        size_t n = pieces->first[i + 1] - pieces->first[i];
        bool good = json_array_size(list) == n;
        for (size_t p = 0; good && p < n; p++)
            good = get_hex(json_array_get(list, p), &pieces->sum[pieces->first[i] + p]);
        if (!good)
            return damaged(reader->path, "expected a checksum for every piece", err);
    }
    return CADRE_OK;
}
