/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and reading. Nothing in the header is used before it is checked against the
 * size of the file; reads use pread, so that a file truncated meanwhile is an error and
 * not a signal. */
#include "core/checkpoint/format/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/json_read.h"
#include "core/checkpoint/format/file.h"
#include "core/checkpoint/format/float.h"
#include "core/tensor/dtype.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "safetensors data is little-endian and is read as it stands");

enum { LENGTH_BYTES = 8 };

struct cadre_safetensors {
    int fd;
    char *path;
    uint64_t file_bytes;
    uint64_t data_begin; /* of the tensors' bytes, from the start of the file */
    uint64_t header_hash;
    json_t *header; /* owns the names and the metadata */
    size_t n_tensors;
    struct cadre_safetensors_tensor *tensors; /* by offset */
    size_t *by_name; /* indices of tensors, by name */
};

static const struct {
    const char *name;
    uint32_t bits;
    uint32_t dtype;
} types[] = {
    {"F32", 32, CADRE_F32}, {"F64", 64, CADRE_F64}, {"BF16", 16, CADRE_BF16},
    {"F16", 16, CADRE_F16}, {"BOOL", 8, 0},         {"U8", 8, 0},
    {"I8", 8, CADRE_I8},    {"I16", 16, 0},         {"U16", 16, 0},
    {"I32", 32, 0},         {"U32", 32, 0},         {"I64", 64, 0},
    {"U64", 64, 0},         {"C64", 64, 0},         {"F8_E5M2", 8, 0},
    {"F8_E4M3", 8, 0},      {"F8_E8M0", 8, 0},      {"F6_E2M3", 6, 0},
    {"F6_E3M2", 6, 0},      {"F4", 4, 0},
};

static cadre_status bad_tensor(const struct cadre_safetensors *file, const char *name,
                               const char *what, struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_INVALID,
                      "%s: tensor '%.200s': %s; the file is damaged or not safetensors",
                      file->path, name, what);
}

/* A non-negative integer of the header, -1 for anything else. */
static int64_t natural(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0
               ? (int64_t)json_integer_value(value)
               : -1;
}

static cadre_status parse_shape(const struct cadre_safetensors *file,
                                const json_t *shape,
                                struct cadre_safetensors_tensor *tensor,
                                struct cadre_error *err)
{
    if (!json_is_array(shape))
        return bad_tensor(file, tensor->name, "expected a list as \"shape\"", err);
    if (json_array_size(shape) > CADRE_SAFETENSORS_DIMS)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "%s: tensor '%.200s': expected at most %d dimensions, found "
                          "%zu",
                          file->path, tensor->name, CADRE_SAFETENSORS_DIMS,
                          json_array_size(shape));
    tensor->ndim = (uint32_t)json_array_size(shape);
    tensor->count = 1;
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        int64_t dim = natural(json_array_get(shape, i));
        if (dim < 0)
            return bad_tensor(file, tensor->name,
                              "expected integers from 0 in \"shape\"", err);
        tensor->dim[i] = (uint64_t)dim;
        if (__builtin_mul_overflow(tensor->count, (uint64_t)dim, &tensor->count))
            return bad_tensor(file, tensor->name,
                              "\"shape\" has more elements than 64 bits count", err);
    }
    return CADRE_OK;
}

/* Bytes of the shape, from the type's bits. */
static cadre_status parse_type(const struct cadre_safetensors *file, const json_t *type,
                               struct cadre_safetensors_tensor *tensor,
                               struct cadre_error *err)
{
    const char *name = json_string_value(type);
    uint64_t bits = 0;
    for (size_t i = 0; name && i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(name, types[i].name) != 0)
            continue;
        tensor->type = types[i].name;
        tensor->dtype = types[i].dtype;
        bits = types[i].bits;
    }
    if (bits == 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "%s: tensor '%.200s': expected a known \"dtype\" such as F32, "
            "found '%.40s'",
            file->path, tensor->name, name ? name : "none");
    if (__builtin_mul_overflow(tensor->count, bits, &bits) || bits % 8 != 0)
        return bad_tensor(file, tensor->name,
                          "its size in bits overflows or is no whole number of bytes",
                          err);
    tensor->bytes = bits / 8;
    return CADRE_OK;
}

static cadre_status parse_tensor(const struct cadre_safetensors *file, const char *name,
                                 const json_t *info,
                                 struct cadre_safetensors_tensor *tensor,
                                 struct cadre_error *err)
{
    const json_t *offsets = json_object_get(info, "data_offsets");
    int64_t begin = natural(json_array_get(offsets, 0));
    int64_t end = natural(json_array_get(offsets, 1));
    tensor->name = name;
    if (!json_is_object(info) || json_object_size(info) != 3)
        return bad_tensor(
            file, name, "expected exactly \"dtype\", \"shape\", \"data_offsets\"", err);
    CADRE_TRY(parse_shape(file, json_object_get(info, "shape"), tensor, err));
    CADRE_TRY(parse_type(file, json_object_get(info, "dtype"), tensor, err));
    if (json_array_size(offsets) != 2 || begin < 0 || end < begin)
        return bad_tensor(file, name, "expected \"data_offsets\" [begin, end]", err);
    if ((uint64_t)(end - begin) != tensor->bytes)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: tensor '%.200s': expected %" PRIu64
                          " bytes from its shape and type, found %" PRId64
                          " between its offsets",
                          file->path, name, tensor->bytes, end - begin);
    if ((uint64_t)end > file->file_bytes - file->data_begin)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: tensor '%.200s': expected its bytes [%" PRIu64
                          ", %" PRIu64 ") in a file of %" PRIu64
                          ": it was truncated; use another copy",
                          file->path, name, file->data_begin + (uint64_t)begin,
                          file->data_begin + (uint64_t)end, file->file_bytes);
    tensor->offset = file->data_begin + (uint64_t)begin;
    return CADRE_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const struct cadre_safetensors_tensor *x = a;
    const struct cadre_safetensors_tensor *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int compare_names(const void *a, const void *b, void *arg)
{
    const struct cadre_safetensors_tensor *tensors = arg;
    return strcmp(tensors[*(const size_t *)a].name, tensors[*(const size_t *)b].name);
}

/* In order of offsets each tensor must begin where the one before ended, and the last
 * must end where the file does. */
static cadre_status check_cover(const struct cadre_safetensors *file,
                                struct cadre_error *err)
{
    uint64_t at = file->data_begin;
    for (size_t i = 0; i < file->n_tensors; i++) {
        const struct cadre_safetensors_tensor *tensor = &file->tensors[i];
        if (tensor->offset != at)
            return cadre_fail(err, CADRE_E_INVALID,
                              "%s: tensor '%.200s': expected to begin at byte %" PRIu64
                              ", where the one before ends, found %" PRIu64 " (%s)",
                              file->path, tensor->name, at, tensor->offset,
                              tensor->offset < at ? "they overlap"
                                                  : "there is a hole between");
        at += tensor->bytes;
    }
    if (at != file->file_bytes)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: expected the file to end with its last tensor at byte "
                          "%" PRIu64 ", found %" PRIu64 " bytes",
                          file->path, at, file->file_bytes);
    return CADRE_OK;
}

static cadre_status check_metadata(const struct cadre_safetensors *file,
                                   json_t *metadata, struct cadre_error *err)
{
    const char *key;
    json_t *value;
    bool good = json_is_object(metadata);
    if (good)
        json_object_foreach(metadata, key, value) good = good && json_is_string(value);
    if (good)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "%s: expected texts as values of \"__metadata__\"", file->path);
}

static cadre_status parse_header(struct cadre_safetensors *file,
                                 struct cadre_error *err)
{
    const char *key;
    json_t *value;
    size_t n = json_object_size(file->header);
    file->tensors = cadre_calloc(n, sizeof *file->tensors);
    file->by_name = cadre_calloc(n, sizeof *file->by_name);
    if (!file->tensors || !file->by_name)
        return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory for %zu tensors",
                          file->path, n);
    json_object_foreach(file->header, key, value)
    {
        if (strcmp(key, "__metadata__") == 0) {
            CADRE_TRY(check_metadata(file, value, err));
            continue;
        }
        CADRE_TRY(parse_tensor(file, key, value, &file->tensors[file->n_tensors], err));
        file->n_tensors++;
    }
    qsort(file->tensors, file->n_tensors, sizeof *file->tensors, compare_offsets);
    for (size_t i = 0; i < file->n_tensors; i++)
        file->by_name[i] = i;
    qsort_r(file->by_name, file->n_tensors, sizeof *file->by_name, compare_names,
            file->tensors);
    return check_cover(file, err);
}

/* The header's length, checked against the limit and the file. */
static cadre_status read_length(struct cadre_safetensors *file, uint64_t *length,
                                struct cadre_error *err)
{
    struct stat st;
    if (fstat(file->fd, &st) != 0 || !S_ISREG(st.st_mode))
        return cadre_fail(err, CADRE_E_INVALID, "%s: expected a regular file",
                          file->path);
    file->file_bytes = (uint64_t)st.st_size;
    if (file->file_bytes < LENGTH_BYTES)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: expected a safetensors file of at least %d bytes, found "
                          "%" PRIu64,
                          file->path, LENGTH_BYTES, file->file_bytes);
    CADRE_TRY(cadre_file_read_at(file->fd, file->path, length, sizeof *length, 0, err));
    if (*length > CADRE_SAFETENSORS_HEADER_LIMIT)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: expected a header of at most %u bytes, found %" PRIu64
                          "; is it a safetensors file?",
                          file->path, CADRE_SAFETENSORS_HEADER_LIMIT, *length);
    if (*length > file->file_bytes - LENGTH_BYTES)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: expected a header of %" PRIu64
                          " bytes, found a file of %" PRIu64
                          ": it was truncated or is not safetensors",
                          file->path, *length, file->file_bytes);
    return CADRE_OK;
}

static cadre_status read_header(struct cadre_safetensors *file, struct cadre_error *err)
{
    struct cadre_hash hash;
    struct cadre_error problem = {0};
    uint64_t length = 0;
    char *text = NULL;
    cadre_status rc;
    CADRE_TRY_OR(read_length(file, &length, err), fail);
    text = cadre_calloc(length + 1, 1);
    if (!text)
        return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory for its header",
                          file->path);
    CADRE_TRY_OR(
        cadre_file_read_at(file->fd, file->path, text, length, LENGTH_BYTES, err),
        fail);
    cadre_hash_init(&hash, 0);
    cadre_hash_update(&hash, &length, sizeof length);
    cadre_hash_update(&hash, text, length);
    file->header_hash = cadre_hash_final(&hash);
    file->data_begin = LENGTH_BYTES + length;
    rc = text[0] == '{'
             ? cadre_json_read(text, length, file->path, &file->header, &problem)
             : cadre_fail(&problem, CADRE_E_INVALID, "it does not begin with '{'");
    if (rc == CADRE_E_INVALID)
        cadre_fail(err, rc,
                   "%s: expected a JSON header after the first 8 bytes: %s; is it a "
                   "safetensors file?",
                   file->path, problem.text);
    else if (rc != CADRE_OK)
        cadre_no_memory(err, "%s", file->path);
fail:
    free(text);
    return rc;
}

cadre_status cadre_safetensors_open(const char *path, bool writable,
                                    struct cadre_safetensors **out,
                                    struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    struct cadre_safetensors *file = cadre_calloc(1, sizeof *file);
    if (file)
        file->path = cadre_strdup(path);
    if (!file || !file->path) {
        free(file);
        return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory to open it", path);
    }
    /* not blocking: a named pipe must not make it wait for a writer */
    file->fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
    if (file->fd < 0) {
        rc = cadre_file_open_failed(path, errno, err);
        goto fail;
    }
    CADRE_TRY_OR(read_header(file, err), fail);
    CADRE_TRY_OR(parse_header(file, err), fail);
    *out = file;
    return CADRE_OK;
fail:
    cadre_safetensors_close(file);
    return rc;
}

void cadre_safetensors_close(struct cadre_safetensors *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    json_decref(file->header);
    free(file->tensors);
    free(file->by_name);
    free(file->path);
    free(file);
}

size_t cadre_safetensors_count(const struct cadre_safetensors *file)
{
    return file->n_tensors;
}

const struct cadre_safetensors_tensor *
cadre_safetensors_at(const struct cadre_safetensors *file, size_t index)
{
    return &file->tensors[index];
}

ptrdiff_t cadre_safetensors_find(const struct cadre_safetensors *file, const char *name)
{
    size_t low = 0;
    size_t high = file->n_tensors;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        size_t index = file->by_name[middle];
        int order = strcmp(name, file->tensors[index].name);
        if (order == 0)
            return (ptrdiff_t)index;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

const char *cadre_safetensors_metadata(const struct cadre_safetensors *file,
                                       const char *key)
{
    const json_t *metadata = json_object_get(file->header, "__metadata__");
    return json_string_value(json_object_get(metadata, key));
}

const char *cadre_safetensors_path(const struct cadre_safetensors *file)
{
    return file->path;
}

uint64_t cadre_safetensors_bytes(const struct cadre_safetensors *file)
{
    return file->file_bytes;
}

uint64_t cadre_safetensors_header_hash(const struct cadre_safetensors *file)
{
    return file->header_hash;
}

static cadre_status check_float(const struct cadre_safetensors *file,
                                const struct cadre_safetensors_tensor *tensor,
                                struct cadre_error *err)
{
    if (tensor->dtype == 0 || tensor->dtype == CADRE_I8)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "%s: tensor '%.200s': expected F64, F32, F16 or BF16, found "
                          "%s; convert it first",
                          file->path, tensor->name, tensor->type);
    return CADRE_OK;
}

static void show_shape(const uint64_t *dim, uint32_t ndim, char *out, size_t size)
{
    int used = snprintf(out, size, "[");
    for (uint32_t i = 0; i < ndim; i++)
        used += snprintf(out + used, size - (size_t)used, "%s%" PRIu64, i ? ", " : "",
                         dim[i]);
    snprintf(out + used, size - (size_t)used, "]");
}

cadre_status cadre_safetensors_expect(const struct cadre_safetensors *file,
                                      size_t index,
                                      const struct cadre_safetensors_spec *spec,
                                      struct cadre_error *err)
{
    const struct cadre_safetensors_tensor *tensor = &file->tensors[index];
    char wanted[CADRE_SAFETENSORS_DIMS * 22 + 3];
    char found[sizeof wanted];
    if (tensor->ndim != spec->ndim ||
        memcmp(tensor->dim, spec->dim, spec->ndim * sizeof spec->dim[0]) != 0) {
        show_shape(spec->dim, spec->ndim, wanted, sizeof wanted);
        show_shape(tensor->dim, tensor->ndim, found, sizeof found);
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: tensor '%.200s': expected shape %s, found %s; do the "
                          "[model] keys fit this folder?",
                          file->path, tensor->name, wanted, found);
    }
    return check_float(file, tensor, err);
}

cadre_status cadre_safetensors_read_bytes(const struct cadre_safetensors *file,
                                          size_t index, uint64_t begin, size_t bytes,
                                          void *out, struct cadre_error *err)
{
    const struct cadre_safetensors_tensor *tensor = &file->tensors[index];
    if (begin > tensor->bytes || bytes > tensor->bytes - begin)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: tensor '%.200s': asked for %zu bytes from %" PRIu64
                          ", it has %" PRIu64,
                          file->path, tensor->name, bytes, begin, tensor->bytes);
    cadre_status rc = cadre_file_read_at(file->fd, file->path, out, bytes,
                                         tensor->offset + begin, err);
    if (rc != CADRE_OK)
        cadre_error_prefix(err, "tensor '%.200s'", tensor->name);
    return rc;
}

static cadre_status check_range(const struct cadre_safetensors *file, size_t index,
                                uint64_t begin, uint64_t count, struct cadre_error *err)
{
    const struct cadre_safetensors_tensor *tensor = &file->tensors[index];
    if (tensor->dtype != CADRE_I8)
        CADRE_TRY(check_float(file, tensor, err));
    if (begin > tensor->count || count > tensor->count - begin)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: tensor '%.200s': asked for %" PRIu64
                          " elements from %" PRIu64 ", it has %" PRIu64,
                          file->path, tensor->name, count, begin, tensor->count);
    return CADRE_OK;
}

cadre_status cadre_safetensors_read(const struct cadre_safetensors *file, size_t index,
                                    uint64_t begin, uint64_t count, uint32_t dtype,
                                    void *out, struct cadre_error *err)
{
    enum { CHUNK_BYTES = 65536 };
    const struct cadre_safetensors_tensor *tensor = &file->tensors[index];
    size_t size = cadre_dtype_bytes(tensor->dtype);
    size_t out_size = cadre_dtype_bytes(dtype);
    unsigned char *chunk = NULL;
    cadre_status rc;
    CADRE_TRY_OR(check_range(file, index, begin, count, err), fail);
    if (dtype == tensor->dtype)
        return cadre_safetensors_read_bytes(file, index, begin * size, count * size,
                                            out, err);
    CADRE_TRY(check_float(file, tensor, err));
    if (dtype != CADRE_F32 && dtype != CADRE_F64)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "%s: tensor '%.200s': can be read as f32 or f64, asked for %s", file->path,
            tensor->name, cadre_dtype_name(dtype));
    chunk = malloc(CHUNK_BYTES);
    if (!chunk)
        return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory to convert",
                          file->path);
    for (uint64_t done = 0; done < count;) {
        uint64_t n = CHUNK_BYTES / size;
        if (n > count - done)
            n = count - done;
        CADRE_TRY_OR(cadre_safetensors_read_bytes(file, index, (begin + done) * size,
                                                  n * size, chunk, err),
                     fail);
        cadre_float_convert(chunk, tensor->dtype, n, (char *)out + done * out_size,
                            dtype);
        done += n;
    }
fail:
    free(chunk);
    return rc;
}

cadre_status cadre_safetensors_write_range(const struct cadre_safetensors *file,
                                           size_t index, uint64_t begin, uint64_t count,
                                           const void *data, struct cadre_error *err)
{
    const struct cadre_safetensors_tensor *tensor = &file->tensors[index];
    size_t size = cadre_dtype_bytes(tensor->dtype);
    CADRE_TRY(check_range(file, index, begin, count, err));
    cadre_status rc = cadre_file_write_at(file->fd, file->path, data, count * size,
                                          tensor->offset + begin * size, err);
    if (rc != CADRE_OK)
        cadre_error_prefix(err, "tensor '%.200s'", tensor->name);
    return rc;
}

cadre_status cadre_safetensors_sync(const struct cadre_safetensors *file,
                                    struct cadre_error *err)
{
    if (fsync(file->fd) != 0)
        return cadre_file_write_failed(file->path, errno, err);
    return CADRE_OK;
}
