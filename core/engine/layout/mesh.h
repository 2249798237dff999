/* SPDX-License-Identifier: Apache-2.0 */
/* The mesh: named axes over the ranks, slowest-varying first, and this rank's group
 * along each. Two entries of a stack may name one axis: they share it, and the plan
 * then checks whether their claims conflict. A plan may add axes made of axes: products
 * of several, and the two parts of one that it splits. */
#ifndef CADRE_ENGINE_LAYOUT_MESH_H
#define CADRE_ENGINE_LAYOUT_MESH_H

#include <stdbool.h>

#include <cadre/plan.h>

#include "core/comm/comm.h"
#include "core/device/device.h"
#include "core/engine/layout/timeline.h"

/* Most axes that plans add. */
#define CADRE_MAX_DERIVED 16

/* `size` ranks that lie `stride` apart in the world. */
struct cadre_axis_factor {
    int stride, size;
};

struct cadre_services;

/* The ABI's opaque axis. */
struct cadre_axis {
    char name[CADRE_AXIS_CHARS];
    int size;
    int index; /* this rank's coordinate */
    int n_factors; /* 1, of a product more */
    struct cadre_axis_factor factor[CADRE_MAX_AXES]; /* slowest first */
    const char *user; /* the plugin that said what follows, or that made it; NULL */
    /* of an axis of strategy.stack, as plugins use it: */
    bool split_batch; /* ranks along it see different samples */
    bool split_time; /* ranks along it see parts of the same samples */
    bool own_runs; /* ranks along it are independent runs: CADRE_BATCH_INDEPENDENT */
    int inner; /* ranks of its inner part; 0: not split */
    struct cadre_comm *comm; /* NULL while not connected, and for size 1 */
    struct cadre_timeline *timeline; /* the rank's, for waits; NULL until bound */
    struct cadre_device *device; /* of the rank; NULL until bound */
    struct cadre_services *services; /* of the rank; NULL until a plugin asked for it */
};

struct cadre_mesh {
    int rank, ranks;
    int n;
    struct cadre_axis axis[CADRE_MAX_AXES];
    int n_derived; /* axes made of these, in the order in which plans added them */
    struct cadre_axis derived[CADRE_MAX_DERIVED];
    int n_data; /* how data ranks are numbered, slowest first; 0: as the mesh */
    struct cadre_axis_factor data[2 * CADRE_MAX_AXES];
};

/* One requested axis of the mesh; size 0 means all ranks that the other axes leave. */
struct cadre_axis_request {
    const char *name; /* "": none, of a plugin without an axis; its size is 1 */
    int size;
    const char *plugin; /* the instance, for messages */
};

/* Number of ranks of the requested axes; `given` is the launcher's number, 0 when Cadre
 * starts the ranks. Fills open sizes in place. Errors: CADRE_E_INVALID, for more than
 * `most` ranks too. */
cadre_status cadre_mesh_resolve(struct cadre_axis_request *requests, int n, int given,
                                int most, int *ranks, struct cadre_error *err);

/* Make the mesh of resolved requests as rank `rank` sees it. No communication. */
cadre_status cadre_mesh_init(struct cadre_mesh *mesh,
                             const struct cadre_axis_request *requests, int n, int rank,
                             struct cadre_error *err);

/* Forget what plans said: derived axes, uses, the order of data ranks. */
void cadre_mesh_reset(struct cadre_mesh *mesh);

/* Add the axis of all ranks along several, the first varying slowest: "rep*dp". One
 * that is there already is left alone. Errors: CADRE_E_UNSUPPORTED, the text names the
 * axes.
 */
cadre_status cadre_mesh_product(struct cadre_mesh *mesh, const char *product,
                                const char *user, struct cadre_error *err);

/* Add "dp.outer" and "dp.inner" of the axis "dp": `inner` adjacent ranks each are one
 * rank along the outer. `user`: the instance that asks, borrowed. Errors:
 * CADRE_E_UNSUPPORTED for an axis that is not of strategy.stack, sizes that do not
 * divide, another split of the same axis. */
cadre_status cadre_mesh_split(struct cadre_mesh *mesh, const char *axis, uint32_t inner,
                              const char *user, struct cadre_error *err);

/* [collective: world] Split the world into one group per axis, derived ones last, in
 * the order in which plans added them. */
cadre_status cadre_mesh_connect(struct cadre_mesh *mesh, struct cadre_comm *world,
                                struct cadre_error *err);

/* Destroy the groups. */
void cadre_mesh_fini(struct cadre_mesh *mesh);

/* By name, derived axes too; NULL when the mesh has no such axis. */
struct cadre_axis *cadre_mesh_axis(struct cadre_mesh *mesh, const char *name);

/* Axis a, from 0 to mesh->n + mesh->n_derived - 1: axes made of axes come after those
 * of strategy.stack. */
struct cadre_axis *cadre_mesh_axis_at(struct cadre_mesh *mesh, int a);

/* The axis whose ranks are independent runs, NULL where there is none. */
const struct cadre_axis *cadre_mesh_own_runs(const struct cadre_mesh *mesh);

/* Number the data ranks by these axes, which cover all that split the batch: the first
 * varies slowest. Factors that do not split the batch are left out. */
void cadre_mesh_number(struct cadre_mesh *mesh, const struct cadre_axis *const *axes,
                       int n);

/* Ranks along the batch-splitting axes, and this rank's index among them: the axis of
 * the highest level of reduction varies slowest, once the plan is finished. */
int cadre_mesh_data_size(const struct cadre_mesh *mesh);
int cadre_mesh_data_index(const struct cadre_mesh *mesh);

/* The rank of the world with data index `index` and otherwise this rank's coordinates.
 */
int cadre_mesh_data_rank(const struct cadre_mesh *mesh, int index);

/* The rank of the world at coordinate `rank` of the axis and otherwise this rank's
 * coordinates. */
int cadre_mesh_rank_along(const struct cadre_mesh *mesh, const struct cadre_axis *axis,
                          int rank);

/* The lowest and the highest data index of the ranks whose gradients rank `rank` along
 * the axis has once the levels below it are reduced: its own where there are none. */
void cadre_mesh_data_group(const struct cadre_mesh *mesh, const struct cadre_axis *axis,
                           int rank, int *first, int *last);

/* Ranks along the axes that split the time, and this rank's index among them. */
int cadre_mesh_time_size(const struct cadre_mesh *mesh);
int cadre_mesh_time_index(const struct cadre_mesh *mesh);

/* The smallest parts of the mesh: its axes, and of an axis that is split its two parts.
 * Those of one rank are left out. */
struct cadre_axis_part {
    const struct cadre_axis *axis; /* of strategy.stack */
    struct cadre_axis_factor factor;
};
#define CADRE_MAX_PARTS (2 * CADRE_MAX_AXES)
int cadre_mesh_parts(const struct cadre_mesh *mesh,
                     struct cadre_axis_part out[CADRE_MAX_PARTS]);

/* Do the ranks along the axis differ in this part of the mesh? */
bool cadre_axis_has(const struct cadre_axis *axis, const struct cadre_axis_part *part);

/* Is this rank the first of those that differ from it along no axis of these? */
bool cadre_mesh_is_first(const struct cadre_mesh *mesh,
                         const struct cadre_axis *const *axes, int n);

#endif
