/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank computes which whole matrix of an optimizer plugin (CADRE_UPDATE_MATRIX).
 *
 * The ranks that hold different parts of a matrix are its members: those along the axes
 * of opt.shard, where its OPT range is placed, and those along the axis of
 * act.complete, where it is sharded. One member is the owner: matrices go by size, the
 * largest first, to the member with the least so far. Ranks that hold the same parts
 * have members and an owner of their own, so replicas need nothing from each other. All
 * follows from the plan, which is equal on all ranks but for their coordinates. */
#ifndef CADRE_ENGINE_LAYOUT_OWNERS_H
#define CADRE_ENGINE_LAYOUT_OWNERS_H

#include "core/engine/layout/rank_plan.h"

struct cadre_matrix {
    uint32_t param;
    uint64_t rows, columns; /* of the whole */
    bool data, tensor; /* members differ along opt.shard, along act.complete */
    int members; /* 1: this rank holds it all */
    int own, owner; /* of the members: this rank, the one that computes it */
};

/* Ranks that lie `stride` apart in the world. */
struct cadre_owners_factor {
    int stride, size;
    bool tensor; /* of act.complete, else of opt.shard */
};

struct cadre_owners {
    int rank; /* of the world */
    int n_factors;
    struct cadre_owners_factor factor[2 * CADRE_MAX_AXES]; /* those of tensor last */
    size_t n;
    struct cadre_matrix *matrix; /* present, trained ones, in the order of parameters */
};

/* Find the matrices of a finished plan. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_owners_init(struct cadre_owners *owners,
                               const struct cadre_rank_plan *plan,
                               struct cadre_error *err);
void cadre_owners_fini(struct cadre_owners *owners);

/* Does this rank compute it? */
bool cadre_owners_mine(const struct cadre_matrix *matrix);

/* Rank of the world of a member, and which shard of act.complete it holds. */
int cadre_owners_rank(const struct cadre_owners *owners,
                      const struct cadre_matrix *matrix, int member);
int cadre_owners_shard(const struct cadre_owners *owners,
                       const struct cadre_matrix *matrix, int member);

/* Shards of the matrix along act.complete: 1 where it is whole on each of these ranks.
 */
int cadre_owners_shards(const struct cadre_owners *owners,
                        const struct cadre_matrix *matrix);

#endif
