/* SPDX-License-Identifier: Apache-2.0 */
/* A norm's gradients where sums are made in parts: those of each part of the rows,
 * added in the tree. Where rows are sharded a rank has its own parts, and the sum over
 * the tensor ranks completes the tree; else every rank has all. */
#include "core/model/layer.h"
#include "core/model/planes.h"

static bool is_shared(const struct cadre_unit *u)
{
    return u->model->rows_sharded && u->model->tp_size > 1;
}

static int64_t parts_of(const struct cadre_unit *u)
{
    return is_shared(u) ? u->model->parts : u->model->config.exact_parts;
}

/* A plane has the gradients of weight and bias. */
void *cadre_norm_parts_carve(struct cadre_carver *carver)
{
    const struct cadre_unit *u = carver->unit;
    if (u->model->parts == 0)
        return NULL;
    return cadre_carve_wide(carver, CADRE_UNIT_SCRATCH,
                            cadre_planes_room(parts_of(u), 2 * u->C));
}

static const void *rows_at(const struct cadre_unit *u, const void *x, int64_t row)
{
    return x ? cadre_unit_at(u, x, row * u->C) : NULL;
}

/* Part i of this rank's: the norm's rows of it, its gradients into plane i. */
static cadre_status run_part(const struct cadre_unit *u, const struct cadre_norm *norm,
                             const struct cadre_planes *planes, int64_t i)
{
    const int64_t P = u->model->config.exact_parts;
    const int64_t part = i + (is_shared(u) ? u->model->tp_rank * parts_of(u) : 0);
    const int64_t first = u->N * part / P - u->begin;
    struct cadre_norm own = *norm;
    own.rows = u->N * (part + 1) / P - u->begin - first;
    own.dw = cadre_plane_at(u, planes, i);
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

cadre_status cadre_norm_parts_bwd(const struct cadre_unit *unit,
                                  const struct cadre_norm *norm, void *room)
{
    const struct cadre_planes planes = {.data = room,
                                        .n = parts_of(unit),
                                        .stride = 2 * unit->C,
                                        .rows = norm->db ? 2 : 1,
                                        .columns = unit->C,
                                        .shared = is_shared(unit)};
    const void *sum;
    for (int64_t i = 0; i < planes.n; i++)
        CADRE_TRY(run_part(unit, norm, &planes, i));
    CADRE_TRY(cadre_planes_sum(unit, &planes, &sum));
    CADRE_TRY(cadre_planes_give(unit, norm->dw, sum, unit->C, norm->beta));
    if (!norm->db)
        return CADRE_OK;
    return cadre_planes_give(unit, norm->db,
                             (const unsigned char *)sum + (size_t)unit->C * unit->wide,
                             unit->C, norm->beta);
}
