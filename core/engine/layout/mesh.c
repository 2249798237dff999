/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/mesh.h"

#include <stdio.h>
#include <string.h>

#define MAX_RANKS 1024

static int find_request(const struct cadre_axis_request *requests, int n,
                        const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(requests[i].name, name) == 0)
            return i;
    return -1;
}

/* An axis that is named twice must have one size. */
static cadre_status unify(struct cadre_axis_request *requests, int n,
                          struct cadre_error *err)
{
    for (int i = 0; i < n; i++) {
        struct cadre_axis_request *first =
            &requests[find_request(requests, i + 1, requests[i].name)];
        if (first->size == 0)
            first->size = requests[i].size;
        if (requests[i].size == 0)
            requests[i].size = first->size;
        if (requests[i].size != first->size)
            return cadre_fail(
                err, CADRE_E_INVALID,
                "strategy.stack: '%s:%d' and '%s:%d' share the axis '%s', "
                "expected equal sizes",
                first->plugin, first->size, requests[i].plugin, requests[i].size,
                first->name);
    }
    return CADRE_OK;
}

cadre_status cadre_mesh_resolve(struct cadre_axis_request *requests, int n, int given,
                                int *ranks, struct cadre_error *err)
{
    CADRE_TRY(unify(requests, n, err));
    int64_t product = 1;
    int open = -1;
    for (int i = 0; i < n; i++) {
        if (find_request(requests, i, requests[i].name) >= 0)
            continue;
        if (requests[i].size > 0) {
            product *= requests[i].size;
        } else if (open >= 0) {
            return cadre_fail(
                err, CADRE_E_INVALID,
                "strategy.stack: '%s' and '%s' both leave their size open, "
                "expected at most one; write a number",
                requests[open].plugin, requests[i].plugin);
        } else {
            open = i;
        }
        if (product > MAX_RANKS)
            return cadre_fail(err, CADRE_E_INVALID,
                              "strategy.stack: %lld ranks, expected at most %d",
                              (long long)product, MAX_RANKS);
    }
    if (given > 0 && given % product != 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "strategy.stack makes %lld ranks, but the launcher started %d",
            (long long)product, given);
    int rest = given > 0 ? (int)(given / product) : 1;
    for (int i = 0; i < n; i++)
        if (requests[i].size == 0)
            requests[i].size = rest;
    if (open >= 0)
        product *= rest;
    else if (rest != 1)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "strategy.stack makes %lld ranks, but the launcher started %d",
            (long long)product, given);
    *ranks = (int)product;
    return CADRE_OK;
}

cadre_status cadre_mesh_init(struct cadre_mesh *mesh,
                             const struct cadre_axis_request *requests, int n, int rank,
                             struct cadre_error *err)
{
    memset(mesh, 0, sizeof *mesh);
    mesh->ranks = 1;
    mesh->rank = rank;
    for (int i = 0; i < n; i++) {
        if (find_request(requests, i, requests[i].name) >= 0)
            continue;
        if (mesh->n == CADRE_MAX_AXES)
            return cadre_fail(err, CADRE_E_INVALID, "strategy.stack: more than %d axes",
                              CADRE_MAX_AXES);
        struct cadre_axis *axis = &mesh->axis[mesh->n++];
        snprintf(axis->name, sizeof axis->name, "%s", requests[i].name);
        if (requests[i].alias)
            snprintf(axis->alias, sizeof axis->alias, "%s", requests[i].alias);
        axis->size = requests[i].size;
        mesh->ranks *= axis->size;
    }
    int rest = rank;
    for (int i = mesh->n - 1; i >= 0; i--) {
        mesh->axis[i].index = rest % mesh->axis[i].size;
        rest /= mesh->axis[i].size;
    }
    return CADRE_OK;
}

cadre_status cadre_mesh_connect(struct cadre_mesh *mesh, struct cadre_comm *world,
                                struct cadre_error *err)
{
    int stride = 1;
    for (int i = mesh->n - 1; i >= 0; i--) {
        struct cadre_axis *axis = &mesh->axis[i];
        if (axis->size > 1) {
            int color = mesh->rank - axis->index * stride;
            CADRE_TRY(cadre_comm_split(world, color, axis->index, &axis->comm, err));
        }
        stride *= axis->size;
    }
    return CADRE_OK;
}

void cadre_mesh_fini(struct cadre_mesh *mesh)
{
    for (int i = 0; i < mesh->n; i++) {
        struct cadre_comm *comm = mesh->axis[i].comm;
        if (comm)
            cadre_comm_destroy(comm);
        mesh->axis[i].comm = NULL;
    }
}

struct cadre_axis *cadre_mesh_axis(struct cadre_mesh *mesh, const char *name)
{
    for (int i = 0; i < mesh->n; i++)
        if (strcmp(mesh->axis[i].name, name) == 0 ||
            (*mesh->axis[i].alias && strcmp(mesh->axis[i].alias, name) == 0))
            return &mesh->axis[i];
    return NULL;
}

const struct cadre_axis *cadre_mesh_own_runs(const struct cadre_mesh *mesh)
{
    for (int i = 0; i < mesh->n; i++)
        if (mesh->axis[i].own_runs)
            return &mesh->axis[i];
    return NULL;
}

int cadre_mesh_data_size(const struct cadre_mesh *mesh)
{
    int size = 1;
    for (int i = 0; i < mesh->n; i++)
        if (mesh->axis[i].split_batch)
            size *= mesh->axis[i].size;
    return size;
}

int cadre_mesh_data_index(const struct cadre_mesh *mesh)
{
    int index = 0;
    for (int i = 0; i < mesh->n; i++)
        if (mesh->axis[i].split_batch)
            index = index * mesh->axis[i].size + mesh->axis[i].index;
    return index;
}

int cadre_mesh_data_rank(const struct cadre_mesh *mesh, int index)
{
    int rank = 0, stride = 1;
    for (int i = mesh->n - 1; i >= 0; i--) {
        const struct cadre_axis *axis = &mesh->axis[i];
        rank += stride * (axis->split_batch ? index % axis->size : axis->index);
        index = axis->split_batch ? index / axis->size : index;
        stride *= axis->size;
    }
    return rank;
}
