/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tensor/shape.h"

uint64_t cadre_shape_count(const struct cadre_shape *shape)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < shape->ndim; i++)
        count *= shape->dim[i];
    return count;
}
