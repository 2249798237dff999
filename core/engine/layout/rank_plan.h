/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of one rank: what the strategies claim and place, and the memory it takes.
 * Made without devices or communication, for any rank of the world. */
#ifndef CADRE_ENGINE_LAYOUT_RANK_PLAN_H
#define CADRE_ENGINE_LAYOUT_RANK_PLAN_H

#include <stdbool.h>
#include <stdio.h>

#include <cadre/strategy.h>

#include "core/engine/layout/ledger.h"
#include "core/engine/layout/mesh.h"
#include "core/model/model.h"

#define CADRE_MAX_CLAIMS 32
#define CADRE_MAX_CHUNKS 64

struct cadre_claim {
    char effect[48];
    char axis[16];
    const char *plugin;
    bool shared;
};

struct cadre_chunk {
    uint32_t begin, end; /* units */
    uint32_t live; /* activation slots */
    bool split; /* INPUT and WEIGHT backward run separately */
};

/* This rank's share of one kind of a parameter's flat local part. */
struct cadre_share {
    bool placed; /* a plugin placed it; else the whole */
    uint64_t begin, count;
    uint32_t space;
};

struct cadre_plan_param {
    bool present; /* this rank runs the unit */
    bool copied; /* not present, but an entry tied to it is: keeps a copy */
    bool elsewhere; /* tied to an entry of this rank, but run by another stage */
    struct cadre_share share[4]; /* by CADRE_KIND_* */
};

struct cadre_rank_plan {
    const struct cadre_model *model; /* what it was made for; borrowed */
    const struct cadre_mesh *mesh;
    int n_claims;
    struct cadre_claim claim[CADRE_MAX_CLAIMS];
    int n_chunks;
    struct cadre_chunk chunk[CADRE_MAX_CHUNKS];
    uint32_t live_blocks; /* over all chunks, 0: their sum */
    bool cyclic; /* map of micro-batches */
    const char *map_owner; /* plugin that chose it, NULL: default */
    struct cadre_plan_param *param; /* n_params of the model */
    uint32_t n_params;
    int64_t n_microbatches; /* micro-batches of this rank */
    int64_t first_microbatch; /* global index of its first */
    int64_t microbatch_stride;
    struct cadre_ledger planned; /* memory that plugins announced */
};

/* What a plan is made for. Borrowed. */
struct cadre_plan_request {
    const struct cadre_model *model;
    struct cadre_mesh *mesh; /* use_axis stores split_batch here */
    int64_t microbatches, batch, time;
    int data_ranks; /* 0: not known yet; see cadre_rank_plan_settled */
    bool exact;
};

cadre_status cadre_rank_plan_init(struct cadre_rank_plan *plan,
                                  const struct cadre_plan_request *request,
                                  struct cadre_error *err);
void cadre_rank_plan_fini(struct cadre_rank_plan *plan);

/* After all plugins: default chunk, presence, map of micro-batches, and the checks
 * across plugins. Errors name both keys or both plugins. */
cadre_status cadre_rank_plan_finish(struct cadre_rank_plan *plan,
                                    const struct cadre_plan_request *request,
                                    struct cadre_error *err);

/* Did the plugins split the batch over request->data_ranks ranks? If not,
 * request->data_ranks is corrected, and the plan must be made again. */
bool cadre_rank_plan_settled(struct cadre_plan_request *request);

/* Does this rank run the unit, as far as chunks are planned? */
bool cadre_rank_plan_runs(const struct cadre_rank_plan *plan, uint32_t unit);

/* The first claim of `effect` on any axis, or the plugin that makes it; NULL for none.
 */
const struct cadre_claim *cadre_rank_plan_claim(const struct cadre_rank_plan *plan,
                                                const char *effect);
const char *cadre_rank_plan_claimed(const struct cadre_rank_plan *plan,
                                    const char *effect);

/* Is this rank the primary owner, for the norm and checkpoints, of the OPT range of a
 * parameter? Exactly one of the ranks that hold the same range is. With `within` (may
 * be NULL), an axis of diverging replicas, one rank of each replica is. */
bool cadre_rank_plan_is_primary_owner(const struct cadre_rank_plan *plan,
                                      uint32_t param, const struct cadre_axis *within);

/* Ranks with the same samples compute the same losses: does this rank's count? All
 * ranks along a schedule's axis count, since only one of them runs the head. */
bool cadre_rank_plan_is_loss_owner(const struct cadre_rank_plan *plan);

/* Does every rank hold every whole gradient? Then the norm needs no exchange. */
bool cadre_rank_plan_replicated(const struct cadre_rank_plan *plan);

/* The axis whose ranks train replicas that differ (param.diverges), NULL for none. */
const struct cadre_axis *
cadre_rank_plan_diverging_axis(const struct cadre_rank_plan *plan);

#endif
