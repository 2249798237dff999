/* SPDX-License-Identifier: Apache-2.0 */
/* Shape letters, used in capitals by every op:
 *   B batch  T time  C channels  H heads  G key/value heads  D head size
 *   F hidden (MLP)  V vocabulary  L layers  N rows = B*T  R ranks  K classes
 * All matrices are row-major; a "leading dimension" is the distance between rows in
 * elements. */
#ifndef CADRE_TENSOR_SHAPE_H
#define CADRE_TENSOR_SHAPE_H

#include <stdint.h>

#define CADRE_MAX_DIMS 4

struct cadre_shape {
    uint32_t ndim;
    uint64_t dim[CADRE_MAX_DIMS];
};

/* Number of elements; 1 for ndim 0. */
uint64_t cadre_shape_count(const struct cadre_shape *shape);

#endif
