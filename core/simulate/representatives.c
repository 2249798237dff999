/* SPDX-License-Identifier: Apache-2.0 */
#include "core/simulate/representatives.h"

#include <stdlib.h>

#include "core/base/memory.h"

void cadre_representatives_along(const struct cadre_axis_factor *factor,
                                 int out[CADRE_REPRESENTATIVES])
{
    out[0] = 0;
    out[1] = 1;
    out[2] = factor->size / 2;
    out[3] = factor->size - 1;
}

int cadre_representatives_coordinate(const struct cadre_axis_factor *factor, int rank)
{
    return rank / factor->stride % factor->size;
}

int cadre_representatives_at(const struct cadre_axis_factor *factor, int rank, int to)
{
    return rank +
           (to - cadre_representatives_coordinate(factor, rank)) * factor->stride;
}

static bool is_simulated(const struct cadre_axis_factor *factor, int at)
{
    int along[CADRE_REPRESENTATIVES];
    bool any = false;
    cadre_representatives_along(factor, along);
    for (int i = 0; i < CADRE_REPRESENTATIVES; i++)
        any |= along[i] == at;
    return any;
}

int cadre_representative(const struct cadre_representatives *of, int rank)
{
    for (int p = 0; p < of->n_thinned; p++)
        if (!is_simulated(&of->thinned[p],
                          cadre_representatives_coordinate(&of->thinned[p], rank)))
            rank = cadre_representatives_at(&of->thinned[p], rank, 1);
    return rank;
}

uint32_t cadre_representatives_parts(const struct cadre_representatives *of, int rank)
{
    uint32_t parts = 0;
    for (int p = 0; p < of->n_thinned; p++)
        if (!is_simulated(&of->thinned[p],
                          cadre_representatives_coordinate(&of->thinned[p], rank)))
            parts |= 1u << p;
    return parts;
}

int cadre_represented(const struct cadre_representatives *of, int rank)
{
    int n = 1;
    for (int p = 0; p < of->n_thinned; p++)
        if (cadre_representatives_coordinate(&of->thinned[p], rank) == 1)
            n *= 1 + of->thinned[p].size - CADRE_REPRESENTATIVES;
    return n;
}

static cadre_status list(struct cadre_representatives *of, struct cadre_error *err)
{
    free(of->rank);
    of->n = 0;
    of->rank = cadre_calloc((size_t)of->ranks, sizeof *of->rank);
    if (!of->rank)
        return cadre_no_memory(err, "%d simulated ranks", of->ranks);
    for (int r = 0; r < of->ranks; r++)
        if (cadre_representative(of, r) == r)
            of->rank[of->n++] = r;
    return CADRE_OK;
}

/* Do groups of all axes lie on nodes alike, whatever the coordinate along the part? */
static bool is_even(const struct cadre_axis_factor *factor, int64_t node)
{
    const int64_t stride = factor->stride, whole = stride * factor->size;
    return (stride % node == 0 || node % stride == 0) &&
           (whole >= node || node % whole == 0);
}

cadre_status cadre_representatives_of(const struct cadre_mesh *mesh,
                                      const struct cadre_representatives_limits *limits,
                                      struct cadre_representatives *out,
                                      struct cadre_error *err)
{
    struct cadre_axis_part part[CADRE_MAX_PARTS];
    const int parts = cadre_mesh_parts(mesh, part);
    *out = (struct cadre_representatives){.ranks = mesh->ranks};
    for (int p = 0; p < parts; p++)
        if (part[p].factor.size > CADRE_REPRESENTATIVES &&
            !(limits->apart && cadre_axis_has(limits->apart, &part[p])) &&
            !(limits->samples && part[p].axis->split_batch) &&
            (mesh->ranks <= limits->node || is_even(&part[p].factor, limits->node)))
            out->thinned[out->n_thinned++] = part[p].factor;
    return list(out, err);
}

cadre_status cadre_representatives_drop(struct cadre_representatives *of,
                                        uint32_t parts, struct cadre_error *err)
{
    int kept = 0;
    for (int p = 0; p < of->n_thinned; p++)
        if (!(parts & 1u << p))
            of->thinned[kept++] = of->thinned[p];
    of->n_thinned = kept;
    return list(of, err);
}

void cadre_representatives_fini(struct cadre_representatives *of)
{
    free(of->rank);
    *of = (struct cadre_representatives){0};
}
