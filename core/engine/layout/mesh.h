/* SPDX-License-Identifier: Apache-2.0 */
/* The mesh: named axes over the ranks, slowest-varying first, and this rank's group
 * along each. Two entries of a stack may name one axis: they share it, and the plan
 * then checks whether their claims conflict. */
#ifndef CADRE_ENGINE_LAYOUT_MESH_H
#define CADRE_ENGINE_LAYOUT_MESH_H

#include <stdbool.h>

#include "core/comm/comm.h"
#include "core/device/device.h"
#include "core/engine/layout/timeline.h"

#define CADRE_MAX_AXES 8

/* The ABI's opaque axis. */
struct cadre_axis {
    char name[16];
    char alias[16]; /* second name of the axis; empty: none */
    int size;
    int index; /* this rank's coordinate */
    bool split_batch; /* ranks along it see different samples */
    bool own_runs; /* ranks along it are independent runs: CADRE_BATCH_INDEPENDENT */
    struct cadre_comm *comm; /* NULL while not connected, and for size 1 */
    struct cadre_timeline *timeline; /* the rank's, for waits; NULL until bound */
    struct cadre_device *device; /* of the rank; NULL until bound */
};

struct cadre_mesh {
    int rank, ranks;
    int n;
    struct cadre_axis axis[CADRE_MAX_AXES];
};

/* One requested axis of the mesh; size 0 means all ranks that the other axes leave. */
struct cadre_axis_request {
    const char *name;
    int size;
    const char *plugin; /* for messages */
    const char *alias; /* second name, of a plugin that shares the axis, or NULL */
};

/* Number of ranks of the requested axes; `given` is the launcher's number, 0 when Cadre
 * starts the ranks. Fills open sizes in place. Errors: CADRE_E_INVALID. */
cadre_status cadre_mesh_resolve(struct cadre_axis_request *requests, int n, int given,
                                int *ranks, struct cadre_error *err);

/* Make the mesh of resolved requests as rank `rank` sees it. No communication. */
cadre_status cadre_mesh_init(struct cadre_mesh *mesh,
                             const struct cadre_axis_request *requests, int n, int rank,
                             struct cadre_error *err);

/* [collective: world] Split the world into one group per axis. */
cadre_status cadre_mesh_connect(struct cadre_mesh *mesh, struct cadre_comm *world,
                                struct cadre_error *err);

/* Destroy the groups. */
void cadre_mesh_fini(struct cadre_mesh *mesh);

/* By name or alias; NULL when the mesh has no such axis. */
struct cadre_axis *cadre_mesh_axis(struct cadre_mesh *mesh, const char *name);

/* The axis whose ranks are independent runs, NULL where there is none. */
const struct cadre_axis *cadre_mesh_own_runs(const struct cadre_mesh *mesh);

/* Ranks along the batch-splitting axes, and this rank's index among them. */
int cadre_mesh_data_size(const struct cadre_mesh *mesh);
int cadre_mesh_data_index(const struct cadre_mesh *mesh);

/* The rank of the world with data index `index` and otherwise this rank's coordinates.
 */
int cadre_mesh_data_rank(const struct cadre_mesh *mesh, int index);

#endif
