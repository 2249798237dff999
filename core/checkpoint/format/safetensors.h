/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors files: an 8-byte little-endian header length, a JSON header, then the
 * tensors' bytes without gaps. Many ranks may have the same file open and write
 * disjoint ranges. Source: huggingface/safetensors, README "Format". */
#ifndef CADRE_CHECKPOINT_FORMAT_SAFETENSORS_H
#define CADRE_CHECKPOINT_FORMAT_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/base/memory.h"

enum { CADRE_SAFETENSORS_DIMS = 8 };

/* The largest accepted header, as in the reference implementation. */
#define CADRE_SAFETENSORS_HEADER_LIMIT 100000000u

/* One tensor of an open file. */
struct cadre_safetensors_tensor {
    const char *name;
    const char *type; /* as in the file: "F32", "I64", ...; static storage */
    uint32_t dtype; /* CADRE_F32, F64, BF16, F16, I8; 0: values that we cannot read */
    uint32_t ndim;
    uint64_t dim[CADRE_SAFETENSORS_DIMS];
    uint64_t count; /* elements */
    uint64_t offset; /* of the first byte, from the start of the file */
    uint64_t bytes;
};

/* One tensor of a file to be made; borrowed during the call. */
struct cadre_safetensors_spec {
    const char *name; /* UTF-8, unique, not "__metadata__" */
    uint32_t dtype; /* CADRE_F32, F64, BF16, F16 or I8 */
    uint32_t ndim;
    uint64_t dim[CADRE_SAFETENSORS_DIMS];
};

struct cadre_safetensors;

/* Open a file and check its header strictly: length and size, UTF-8, JSON without
 * duplicate keys, known types, sizes that match shapes (no overflow), tensors that
 * cover the data without hole or overlap. `writable` opens it for writing ranges too.
 * The caller closes *out when no thread uses it; reading is [any thread]. Errors:
 * CADRE_E_INVALID names file, tensor, expected and found; CADRE_E_UNSUPPORTED more than
 * 8 dimensions; CADRE_E_IO; CADRE_E_RESOURCE. */
cadre_status cadre_safetensors_open(const char *path, bool writable,
                                    struct cadre_safetensors **out,
                                    struct cadre_error *err);

/* NULL is allowed. Does not fsync: cadre_safetensors_sync does. */
void cadre_safetensors_close(struct cadre_safetensors *file);

/* Tensors in the order of their bytes. Borrowed until close. */
size_t cadre_safetensors_count(const struct cadre_safetensors *file);
const struct cadre_safetensors_tensor *
cadre_safetensors_at(const struct cadre_safetensors *file, size_t index);

/* The tensor's index, -1 where there is none of that name. */
ptrdiff_t cadre_safetensors_find(const struct cadre_safetensors *file,
                                 const char *name);

/* A value of the header's `__metadata__`, NULL where absent. Borrowed until close. */
const char *cadre_safetensors_metadata(const struct cadre_safetensors *file,
                                       const char *key);

const char *cadre_safetensors_path(const struct cadre_safetensors *file);
uint64_t cadre_safetensors_bytes(const struct cadre_safetensors *file);

/* XXH64 of the length field and the header as they stand in the file. */
uint64_t cadre_safetensors_header_hash(const struct cadre_safetensors *file);

/* Check that the tensor has the spec's shape and any floating-point type (names are not
 * compared). Errors: CADRE_E_INVALID with both shapes, CADRE_E_UNSUPPORTED. */
cadre_status cadre_safetensors_expect(const struct cadre_safetensors *file,
                                      size_t index,
                                      const struct cadre_safetensors_spec *spec,
                                      struct cadre_error *err);

/* Read elements [begin, begin + count) of the flat row-major tensor into host memory
 * `out` as `dtype` (CADRE_F32 or CADRE_F64). F32, BF16 and F16 convert exactly; F64 to
 * F32 rounds to nearest even. Errors: CADRE_E_INVALID range outside the tensor or
 * truncated file, CADRE_E_UNSUPPORTED a type that is not floating point, CADRE_E_IO;
 * out is then undefined. [any thread] */
cadre_status cadre_safetensors_read(const struct cadre_safetensors *file, size_t index,
                                    uint64_t begin, uint64_t count, uint32_t dtype,
                                    void *out, struct cadre_error *err);

/* Read bytes [begin, begin + bytes) of the tensor's data as they stand. [any thread] */
cadre_status cadre_safetensors_read_bytes(const struct cadre_safetensors *file,
                                          size_t index, uint64_t begin, size_t bytes,
                                          void *out, struct cadre_error *err);

/* Append length field and header of a file with these tensors, in this order, to `out`;
 * the same specs give the same bytes. The header is padded with spaces to a multiple of
 * 8. *file_bytes is the size of the whole file. Errors: CADRE_E_INVALID. */
cadre_status cadre_safetensors_header(const struct cadre_safetensors_spec *specs,
                                      size_t n, struct cadre_text *out,
                                      uint64_t *file_bytes, struct cadre_error *err);

/* Make the file (replacing an old one) with its header and full size, data zero, and
 * fsync it. One rank calls it; the others then open it writable. Errors:
 * CADRE_E_RESOURCE where the disk is full, CADRE_E_IO, CADRE_E_INVALID. */
cadre_status cadre_safetensors_create(const char *path,
                                      const struct cadre_safetensors_spec *specs,
                                      size_t n, struct cadre_error *err);

/* Write elements [begin, begin + count) from host memory in the tensor's own dtype.
 * Ranks write disjoint ranges without synchronization. [any thread] Errors:
 * CADRE_E_INVALID, CADRE_E_RESOURCE, CADRE_E_IO; the range is then undefined. */
cadre_status cadre_safetensors_write_range(const struct cadre_safetensors *file,
                                           size_t index, uint64_t begin, uint64_t count,
                                           const void *data, struct cadre_error *err);

/* fsync what has been written through this handle. */
cadre_status cadre_safetensors_sync(const struct cadre_safetensors *file,
                                    struct cadre_error *err);

#endif
