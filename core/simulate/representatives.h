/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks of a simulation run. Along a part of the mesh (cadre_mesh_parts) of more
 * than four ranks, four do: the first, the second, the middle one and the last. The
 * second represents those in between. Where they do not do the same, that is seen by
 * what they post, or at the end, when those that ran are compared (simulation.c). */
#ifndef CADRE_SIMULATE_REPRESENTATIVES_H
#define CADRE_SIMULATE_REPRESENTATIVES_H

#include "core/engine/layout/mesh.h"

/* Ranks along a part that run where it is thinned. */
enum { CADRE_REPRESENTATIVES = 4 };

struct cadre_representatives {
    int ranks, n; /* of the run; of these, that are simulated */
    int *rank; /* (n) owned, ascending */
    int n_thinned;
    struct cadre_axis_factor thinned[CADRE_MAX_PARTS];
};

/* Where all ranks run. */
struct cadre_representatives_limits {
    const struct cadre_axis *apart; /* along it; NULL: none */
    bool samples; /* along axes that split the batch: shares differ */
    int64_t node; /* ranks of a node: along parts by which groups straddle nodes */
};

/* As few as the mesh, whose plan is finished, and the limits allow. Errors:
 * CADRE_E_RESOURCE. */
cadre_status cadre_representatives_of(const struct cadre_mesh *mesh,
                                      const struct cadre_representatives_limits *limits,
                                      struct cadre_representatives *out,
                                      struct cadre_error *err);

/* Let all ranks run along these of the thinned parts, a bit each. Where only `ranks` is
 * set each rank runs. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_representatives_drop(struct cadre_representatives *of,
                                        uint32_t parts, struct cadre_error *err);

void cadre_representatives_fini(struct cadre_representatives *of); /* zeroed too */

/* The rank that is simulated for `rank`: itself where it is one of them. */
int cadre_representative(const struct cadre_representatives *of, int rank);

/* The thinned parts along which `rank` is represented, a bit each. */
uint32_t cadre_representatives_parts(const struct cadre_representatives *of, int rank);

/* How many ranks a simulated one stands for, itself included. */
int cadre_represented(const struct cadre_representatives *of, int rank);

/* The coordinate of a rank along `factor`. */
int cadre_representatives_coordinate(const struct cadre_axis_factor *factor, int rank);

/* The rank at a coordinate along `factor`, with the other coordinates of `rank`. */
int cadre_representatives_at(const struct cadre_axis_factor *factor, int rank,
                             int coordinate);

/* The coordinates that are simulated along a thinned part, ascending; out[1] is the
 * one that represents others. */
void cadre_representatives_along(const struct cadre_axis_factor *factor,
                                 int out[CADRE_REPRESENTATIVES]);

#endif
