/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the idx format, in which MNIST and its relatives are published, plain or
 * compressed by gzip: two zeros, the type (0x08: bytes), the number of dimensions, each
 * as 32 bits with the highest byte first, then the bytes. */
#ifndef CADRE_DATA_IMAGE_IDX_H
#define CADRE_DATA_IMAGE_IDX_H

#include <stdint.h>

#include "core/base/error.h"

struct cadre_idx {
    int n_dims;
    uint64_t dim[4], count; /* count: the product */
    uint8_t *bytes;
};

/* Read a file whole; it has from `least` to `most` (at most 4) dimensions. The caller
 * calls fini. [any thread] Errors name the file: CADRE_E_IO, CADRE_E_INVALID another
 * format, too few or too many bytes, damage that gzip's checksum shows,
 * CADRE_E_RESOURCE; *out is then untouched. */
cadre_status cadre_idx_init(const char *path, int least, int most,
                            struct cadre_idx *out, struct cadre_error *err);
void cadre_idx_fini(struct cadre_idx *idx);

#endif
