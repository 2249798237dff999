/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/owners.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

static void add_factors(struct cadre_owners *owners, const struct cadre_axis *axis,
                        bool tensor)
{
    for (int f = 0; axis && f < axis->n_factors; f++)
        if (axis->factor[f].size > 1)
            owners->factor[owners->n_factors++] = (struct cadre_owners_factor){
                axis->factor[f].stride, axis->factor[f].size, tensor};
}

static void find_factors(struct cadre_owners *owners,
                         const struct cadre_rank_plan *plan)
{
    for (int c = 0; c < plan->n_claims; c++)
        if (strcmp(plan->claim[c].effect, "opt.shard") == 0)
            add_factors(owners, cadre_mesh_axis(plan->mesh, plan->claim[c].axis),
                        false);
    if (plan->model->tp_size > 1)
        add_factors(owners, cadre_rank_plan_axis(plan, "act.complete"), true);
}

/* Do members of the matrix differ along this factor? */
static bool differs(const struct cadre_matrix *matrix,
                    const struct cadre_owners_factor *factor)
{
    return factor->tensor ? matrix->tensor : matrix->data;
}

static int coordinate(int rank, const struct cadre_owners_factor *factor)
{
    return rank / factor->stride % factor->size;
}

/* Place of a point of the grid of all factors among the members. */
static int member_at(const struct cadre_owners *owners,
                     const struct cadre_matrix *matrix, int point)
{
    int member = 0, unit = 1;
    for (int f = owners->n_factors - 1; f >= 0; f--) {
        const struct cadre_owners_factor *factor = &owners->factor[f];
        if (differs(matrix, factor)) {
            member += unit * (point % factor->size);
            unit *= factor->size;
        }
        point /= factor->size;
    }
    return member;
}

static struct cadre_matrix describe(const struct cadre_owners *owners,
                                    const struct cadre_rank_plan *plan, uint32_t param)
{
    const struct cadre_param *p = &plan->model->params[param];
    struct cadre_matrix matrix = {
        .param = param,
        .rows = p->shape.dim[0],
        .columns = p->shape.ndim > 1 ? p->shape.dim[1] : 1,
        .data = plan->param[param].share[CADRE_KIND_OPT].placed,
        .tensor = p->split != CADRE_SHARD_NONE,
        .members = 1,
    };
    for (int f = 0; f < owners->n_factors; f++)
        if (differs(&matrix, &owners->factor[f])) {
            matrix.members *= owners->factor[f].size;
            matrix.own = matrix.own * owners->factor[f].size +
                         coordinate(owners->rank, &owners->factor[f]);
        }
    return matrix;
}

/* ---- owners ---- */

static int by_size(const void *x, const void *y)
{
    const struct cadre_matrix *a = *(const struct cadre_matrix *const *)x;
    const struct cadre_matrix *b = *(const struct cadre_matrix *const *)y;
    const uint64_t m = a->rows * a->columns, n = b->rows * b->columns;
    if (m != n)
        return m > n ? -1 : 1;
    return a->param < b->param ? -1 : a->param > b->param;
}

/* Elements that each point of the grid has so far, and sums of them by member. */
struct loads {
    int points;
    uint64_t *load, *sum; /* (points) each */
};

static void choose(const struct cadre_owners *owners, struct cadre_matrix *matrix,
                   struct loads *loads)
{
    memset(loads->sum, 0, (size_t)loads->points * sizeof *loads->sum);
    for (int p = 0; p < loads->points; p++)
        loads->sum[member_at(owners, matrix, p)] += loads->load[p];
    matrix->owner = 0;
    for (int m = 1; m < matrix->members; m++)
        if (loads->sum[m] < loads->sum[matrix->owner])
            matrix->owner = m;
    for (int p = 0; p < loads->points; p++)
        if (member_at(owners, matrix, p) == matrix->owner)
            loads->load[p] += matrix->rows * matrix->columns;
}

static cadre_status assign(struct cadre_owners *owners, struct cadre_error *err)
{
    struct loads loads = {.points = 1};
    for (int f = 0; f < owners->n_factors; f++)
        loads.points *= owners->factor[f].size;
    struct cadre_matrix **order = cadre_calloc(owners->n, sizeof *order);
    loads.load = cadre_calloc((size_t)loads.points, sizeof *loads.load);
    loads.sum = cadre_calloc((size_t)loads.points, sizeof *loads.sum);
    const bool there = order && loads.load && loads.sum;
    for (size_t i = 0; there && i < owners->n; i++)
        order[i] = &owners->matrix[i];
    if (there && owners->n > 0)
        qsort(order, owners->n, sizeof *order, by_size);
    for (size_t i = 0; there && i < owners->n; i++)
        choose(owners, order[i], &loads);
    free(order);
    free(loads.load);
    free(loads.sum);
    return there ? CADRE_OK : cadre_no_memory(err, "the owners of matrices");
}

cadre_status cadre_owners_init(struct cadre_owners *owners,
                               const struct cadre_rank_plan *plan,
                               struct cadre_error *err)
{
    *owners = (struct cadre_owners){.rank = plan->mesh->rank};
    find_factors(owners, plan);
    owners->matrix = cadre_calloc(plan->n_params, sizeof *owners->matrix);
    if (!owners->matrix)
        return cadre_no_memory(err, "the table of matrices");
    for (uint32_t i = 0; i < plan->n_params; i++) {
        const struct cadre_plan_param *at = &plan->param[i];
        if (at->matrix && at->present && !at->frozen &&
            plan->model->params[i].tied_to < 0)
            owners->matrix[owners->n++] = describe(owners, plan, i);
    }
    cadre_status rc = assign(owners, err);
    if (rc != CADRE_OK)
        cadre_owners_fini(owners);
    return rc;
}

void cadre_owners_fini(struct cadre_owners *owners)
{
    free(owners->matrix);
    owners->matrix = NULL;
    owners->n = 0;
}

/* ---- members ---- */

bool cadre_owners_mine(const struct cadre_matrix *matrix)
{
    return matrix->own == matrix->owner;
}

int cadre_owners_rank(const struct cadre_owners *owners,
                      const struct cadre_matrix *matrix, int member)
{
    int rank = owners->rank;
    for (int f = owners->n_factors - 1; f >= 0; f--) {
        const struct cadre_owners_factor *factor = &owners->factor[f];
        if (!differs(matrix, factor))
            continue;
        rank +=
            (member % factor->size - coordinate(owners->rank, factor)) * factor->stride;
        member /= factor->size;
    }
    return rank;
}

int cadre_owners_shards(const struct cadre_owners *owners,
                        const struct cadre_matrix *matrix)
{
    int shards = 1;
    for (int f = 0; f < owners->n_factors; f++)
        if (owners->factor[f].tensor && matrix->tensor)
            shards *= owners->factor[f].size;
    return shards;
}

int cadre_owners_shard(const struct cadre_owners *owners,
                       const struct cadre_matrix *matrix, int member)
{
    return member % cadre_owners_shards(owners, matrix); /* tensor varies fastest */
}
