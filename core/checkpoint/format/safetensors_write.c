/* SPDX-License-Identifier: Apache-2.0 */
/* Making a file: the header is a function of the specs only, so every rank and every
 * strategy writes the same bytes. */
#include "core/checkpoint/format/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/json.h"
#include "core/checkpoint/format/file.h"
#include "core/tensor/dtype.h"

static const char *type_name(uint32_t dtype)
{
    switch (dtype) {
    case CADRE_F64:
        return "F64";
    case CADRE_F32:
        return "F32";
    case CADRE_BF16:
        return "BF16";
    case CADRE_F16:
        return "F16";
    case CADRE_I8:
        return "I8";
    default:
        return NULL;
    }
}

static cadre_status spec_bytes(const struct cadre_safetensors_spec *spec,
                               uint64_t *bytes, struct cadre_error *err)
{
    bool overflow = false;
    if (!type_name(spec->dtype) || spec->ndim > CADRE_SAFETENSORS_DIMS ||
        strcmp(spec->name, "__metadata__") == 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "tensor '%.200s': expected f64, f32, bf16, f16 or i8 and at most "
            "%d dimensions, found %s and %" PRIu32,
            spec->name, CADRE_SAFETENSORS_DIMS, cadre_dtype_name(spec->dtype),
            spec->ndim);
    *bytes = cadre_dtype_bytes(spec->dtype);
    for (uint32_t i = 0; i < spec->ndim; i++)
        overflow |= __builtin_mul_overflow(*bytes, spec->dim[i], bytes);
    if (overflow || *bytes > INT64_MAX)
        return cadre_fail(err, CADRE_E_INVALID,
                          "tensor '%.200s': its shape overflows 63 bits", spec->name);
    return CADRE_OK;
}

static void put_tensor(struct cadre_json *json,
                       const struct cadre_safetensors_spec *spec, uint64_t begin,
                       uint64_t end)
{
    cadre_json_key(json, spec->name);
    cadre_json_begin_object(json);
    cadre_json_key(json, "dtype");
    cadre_json_string(json, type_name(spec->dtype));
    cadre_json_key(json, "shape");
    cadre_json_begin_array(json);
    for (uint32_t i = 0; i < spec->ndim; i++)
        cadre_json_u64(json, spec->dim[i]);
    cadre_json_end_array(json);
    cadre_json_key(json, "data_offsets");
    cadre_json_begin_array(json);
    cadre_json_u64(json, begin);
    cadre_json_u64(json, end);
    cadre_json_end_array(json);
    cadre_json_end_object(json);
}

static cadre_status put_header(const struct cadre_safetensors_spec *specs, size_t n,
                               struct cadre_text *text, uint64_t *data_bytes,
                               struct cadre_error *err)
{
    struct cadre_json json;
    uint64_t at = 0;
    cadre_json_init_text(&json, text, false);
    cadre_json_begin_object(&json);
    /* Hugging Face's loader needs the framework that wrote the file. */
    cadre_json_key(&json, "__metadata__");
    cadre_json_begin_object(&json);
    cadre_json_key(&json, "format");
    cadre_json_string(&json, "pt");
    cadre_json_end_object(&json);
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes = 0;
        CADRE_TRY(spec_bytes(&specs[i], &bytes, err));
        if (at > INT64_MAX - bytes)
            return cadre_fail(err, CADRE_E_INVALID,
                              "tensor '%.200s': the file would exceed 63 bits",
                              specs[i].name);
        put_tensor(&json, &specs[i], at, at + bytes);
        at += bytes;
    }
    cadre_json_end_object(&json);
    *data_bytes = at;
    return CADRE_OK;
}

cadre_status cadre_safetensors_header(const struct cadre_safetensors_spec *specs,
                                      size_t n, struct cadre_text *out,
                                      uint64_t *file_bytes, struct cadre_error *err)
{
    struct cadre_text text = {0};
    uint64_t data_bytes = 0;
    uint64_t length;
    cadre_status rc;
    CADRE_TRY_OR(put_header(specs, n, &text, &data_bytes, err), fail);
    while (text.len % 8 != 0 && !text.failed)
        cadre_text_append(&text, " ", 1);
    if (text.len > CADRE_SAFETENSORS_HEADER_LIMIT)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "a safetensors header of %zu tensors exceeds %u bytes", n,
                        CADRE_SAFETENSORS_HEADER_LIMIT);
    length = text.len;
    cadre_text_append(out, (const char *)&length, sizeof length);
    cadre_text_append(out, cadre_text_str(&text), text.len);
    if (text.failed || out->failed)
        rc = cadre_no_memory(err, "a safetensors header of %zu tensors", n);
    *file_bytes = sizeof length + length + data_bytes;
fail:
    cadre_text_fini(&text);
    return rc;
}

cadre_status cadre_safetensors_create(const char *path,
                                      const struct cadre_safetensors_spec *specs,
                                      size_t n, struct cadre_error *err)
{
    struct cadre_text header = {0};
    uint64_t bytes = 0;
    int fd = -1;
    cadre_status rc;
    CADRE_TRY_OR(cadre_safetensors_header(specs, n, &header, &bytes, err), fail);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        rc = cadre_file_write_failed(path, errno, err);
        goto fail;
    }
    CADRE_TRY_OR(cadre_file_reserve(fd, path, bytes, err), fail);
    CADRE_TRY_OR(cadre_file_write_at(fd, path, header.data, header.len, 0, err), fail);
    if (fsync(fd) != 0)
        rc = cadre_file_write_failed(path, errno, err);
fail:
    if (fd >= 0 && close(fd) != 0 && rc == CADRE_OK)
        rc = cadre_file_write_failed(path, errno, err);
    cadre_text_fini(&header);
    return rc;
}
