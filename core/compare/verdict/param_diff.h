/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the tensors of two checkpoints element by element. */
#ifndef CADRE_COMPARE_VERDICT_PARAM_DIFF_H
#define CADRE_COMPARE_VERDICT_PARAM_DIFF_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

struct cadre_param_diff {
    uint64_t hash; /* XXH64 over names, shapes and bytes, tensors in order of name */
    uint64_t elements;
    uint64_t ulp_max; /* representable values between; UINT64_MAX where one is NaN */
    double max; /* largest |a - b|; NaN where one of the two is not finite */
    double largest; /* largest |b| of the reference */
    bool same_bits;
    char worst[128]; /* tensor that holds the largest difference; "" where none */
};

/* Compare the tensors of the safetensors file at `path` whose names end with `suffix`
 * ("" for all) with those of the one at `reference`; the hash is of `path`. Both F32 or
 * both F64, tensor by tensor. Reads in chunks, never a whole file. Without a tensor of
 * that kind on either side, elements is 0 and the bits are the same.
 * Errors: CADRE_E_INVALID a file is missing or damaged, or they hold different tensors;
 * CADRE_E_IO; CADRE_E_RESOURCE. */
cadre_status cadre_param_diff(const char *path, const char *reference,
                              const char *suffix, struct cadre_param_diff *out,
                              struct cadre_error *err);

#endif
