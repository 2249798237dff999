/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/planes.h"

int64_t cadre_planes_room(int64_t n, int64_t stride)
{
    return (n + 1) * stride;
}

void *cadre_plane_at(const struct cadre_unit *unit, const struct cadre_planes *planes,
                     int64_t i)
{
    return (unsigned char *)planes->data + (size_t)(i * planes->stride) * unit->wide;
}

cadre_status cadre_planes_sum(const struct cadre_unit *unit,
                              const struct cadre_planes *planes, const void **sum)
{
    const uint32_t wide = cadre_dtype_wide(unit->dtype);
    const struct cadre_pass *pass = unit->pass;
    void *all = cadre_plane_at(unit, planes, planes->n);
    for (int64_t step = 1; step < planes->n; step *= 2)
        for (int64_t i = 0; i + step < planes->n; i += 2 * step) {
            void *to = cadre_plane_at(unit, planes, i);
            CADRE_TRY(unit->ops->axpby(unit->device, wide, 1,
                                       cadre_plane_at(unit, planes, i + step), 1, to,
                                       planes->rows * planes->columns));
        }
    *sum = planes->shared ? all : planes->data;
    if (!planes->shared)
        return CADRE_OK;
    return pass->redistribute(pass->hook_arg, CADRE_POINT_LOSS_SUM, true,
                              CADRE_REDISTRIBUTE_ALL_REDUCE, planes->data, all,
                              planes->rows, planes->columns);
}

cadre_status cadre_planes_give(const struct cadre_unit *unit, void *dst,
                               const void *sum, int64_t count, int beta)
{
    if (beta)
        return unit->ops->axpby(unit->device, cadre_dtype_wide(unit->dtype), 1, sum, 1,
                                dst, count);
    return unit->ops->copy(unit->device, dst, sum, (size_t)count * unit->wide);
}
