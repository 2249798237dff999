/* SPDX-License-Identifier: Apache-2.0 */
/* A norm's gradients where sums are made in parts: those of each part of the rows,
 * added in the tree. Where rows are sharded a rank has its own parts, and the sum over
 * the tensor ranks completes the tree; else every rank has all. */
#include "core/model/layer.h"

static bool is_shared(const struct cadre_unit *u)
{
    return u->model->rows_sharded && u->model->tp_size > 1;
}

static int64_t parts_of(const struct cadre_unit *u)
{
    return is_shared(u) ? u->model->parts : u->model->config.exact_parts;
}

/* Gradients of weight and bias of a part, and one more for the sum over ranks. */
void *cadre_norm_parts_carve(struct cadre_carver *carver)
{
    const struct cadre_unit *u = carver->unit;
    if (u->model->parts == 0)
        return NULL;
    return cadre_carve_wide(carver, CADRE_UNIT_SCRATCH, (parts_of(u) + 1) * 2 * u->C);
}

static unsigned char *plane(const struct cadre_unit *u, void *room, int64_t i)
{
    return (unsigned char *)room + (size_t)(i * 2 * u->C) * u->wide;
}

static const void *rows_at(const struct cadre_unit *u, const void *x, int64_t row)
{
    return x ? cadre_unit_at(u, x, row * u->C) : NULL;
}

/* Part i of this rank's: the norm's rows of it, its gradients into plane i. */
static cadre_status run_part(const struct cadre_unit *u, const struct cadre_norm *norm,
                             void *room, int64_t i)
{
    const int64_t P = u->model->config.exact_parts;
    const int64_t part = i + (is_shared(u) ? u->model->tp_rank * parts_of(u) : 0);
    const int64_t first = u->N * part / P - u->begin;
    struct cadre_norm own = *norm;
    own.rows = u->N * (part + 1) / P - u->begin - first;
    own.dw = plane(u, room, i);
    own.db = norm->db ? (unsigned char *)own.dw + (size_t)u->C * u->wide : NULL;
    own.beta = 0;
    if (own.rows == 0)
        return u->ops->zero(u->device, own.dw, (size_t)(2 * u->C) * u->wide);
    own.x = rows_at(u, norm->x, first);
    own.dy = rows_at(u, norm->dy, first);
    own.residual = rows_at(u, norm->residual, first);
    own.dx = cadre_unit_at(u, norm->dx, first * u->C);
    own.stats = (unsigned char *)norm->stats + (size_t)(2 * first) * u->wide;
    return u->ops->norm_bwd(u->device, &own);
}

/* dst = beta * dst + sum (C) */
static cadre_status give(const struct cadre_unit *u, void *dst, const void *sum,
                         int beta)
{
    const uint32_t wide = cadre_dtype_wide(u->dtype);
    if (beta)
        return u->ops->tree_add(u->device, wide, dst, dst, sum, u->C);
    return u->ops->copy(u->device, dst, sum, (size_t)u->C * u->wide);
}

cadre_status cadre_norm_parts_bwd(const struct cadre_unit *unit,
                                  const struct cadre_norm *norm, void *room)
{
    const uint32_t wide = cadre_dtype_wide(unit->dtype);
    const int64_t n = parts_of(unit), used = (norm->db ? 2 : 1) * unit->C;
    const struct cadre_pass *pass = unit->pass;
    unsigned char *sum = plane(unit, room, 0);
    for (int64_t i = 0; i < n; i++)
        CADRE_TRY(run_part(unit, norm, room, i));
    for (int64_t step = 1; step < n; step *= 2)
        for (int64_t i = 0; i + step < n; i += 2 * step)
            CADRE_TRY(unit->ops->tree_add(unit->device, wide, plane(unit, room, i),
                                          plane(unit, room, i),
                                          plane(unit, room, i + step), used));
    if (is_shared(unit)) {
        sum = plane(unit, room, n);
        CADRE_TRY(pass->redistribute(
            pass->hook_arg, CADRE_POINT_LOSS_SUM, true, CADRE_REDISTRIBUTE_ALL_REDUCE,
            plane(unit, room, 0), sum, used / unit->C, unit->C));
    }
    CADRE_TRY(give(unit, norm->dw, sum, norm->beta));
    if (!norm->db)
        return CADRE_OK;
    return give(unit, norm->db, sum + (size_t)unit->C * unit->wide, norm->beta);
}
