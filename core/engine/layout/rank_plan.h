/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of one rank: what the strategies claim and place, and the memory it takes.
 * Made without devices or communication, for any rank of the world. */
#ifndef CADRE_ENGINE_LAYOUT_RANK_PLAN_H
#define CADRE_ENGINE_LAYOUT_RANK_PLAN_H

#include <stdbool.h>
#include <stdio.h>

#include <cadre/strategy.h>

#include "core/engine/layout/division.h"
#include "core/engine/layout/ledger.h"
#include "core/engine/layout/mesh.h"
#include "core/model/model.h"
#include "core/plugin/stack.h"

/* Instances of plugins in a run: the stack's and one optimizer. Everything that names a
 * plugin below names its instance ("ddp", "ddp@site"), as borrowed text. */
#define CADRE_MAX_INSTANCES (CADRE_MAX_STACK + 1)

struct cadre_claim {
    char effect[CADRE_EFFECT_CHARS];
    char axis[CADRE_AXIS_CHARS]; /* empty: none */
    const char *plugin;
    bool shared;
    bool keeps_replicas; /* CADRE_CLAIM_KEEP_REPLICAS */
};

/* Who sums gradients over the ranks of an axis. */
#define CADRE_NO_LEVEL 255u /* of a plugin that reduces nothing */
struct cadre_reducer {
    const char *plugin;
    const struct cadre_axis *axis;
    uint32_t level;
};

/* Training that differs by design, and the setting under which it must not. */
#define CADRE_EQUAL_CHARS 256
struct cadre_design {
    const char *plugin;
    char equal[CADRE_EQUAL_CHARS]; /* "key=value, ...", as the plugin wrote it */
};

struct cadre_period {
    const char *plugin;
    uint64_t n; /* steps */
};

/* Memory that an instance may allocate under a tag. */
#define CADRE_MAX_BUDGETS 64
struct cadre_budget {
    const char *plugin;
    uint32_t space;
    char tag[CADRE_TAG_CHARS];
    uint64_t bytes;
};

/* A state of the optimizer plugin, in the order in which update gets those of a
 * parameter. */
struct cadre_plan_state {
    uint32_t param;
    char key[CADRE_KEY_CHARS];
    uint32_t dtype, extent, block; /* as in struct cadre_opt_state */
};

struct cadre_chunk {
    uint32_t begin, end; /* units */
    uint32_t live; /* activation slots */
    bool split; /* INPUT and WEIGHT backward run separately */
};

/* This rank's share of one kind of a parameter's flat local part. */
struct cadre_share {
    bool placed; /* a plugin placed it; else the whole */
    uint64_t begin, count; /* elements; bytes of a form that is not PLAIN */
    uint32_t space;
};

/* What the pass before said of a parameter: plugins that ask before others have planned
 * are told of it. */
struct cadre_plan_storage {
    bool frozen;
    uint32_t form; /* CADRE_FORM_* */
    const char *froze; /* who said so; NULL: nobody */
    struct cadre_share share[4]; /* by CADRE_KIND_* */
    const char *placer[4]; /* who placed it; NULL: nobody */
};

struct cadre_plan_param {
    bool present; /* this rank runs the unit, and holds the expert */
    bool copied; /* not present, but an entry tied to it is: keeps a copy */
    bool elsewhere; /* tied to an entry of this rank, but run by another stage */
    bool frozen; /* no gradient and no states; a tied entry as its owner */
    bool matrix; /* the optimizer plugin updates it as a whole matrix */
    uint32_t form; /* CADRE_FORM_*; a tied entry as its owner */
    const char *froze, *stored; /* who said so; NULL: nobody */
    const char *placer[4]; /* by CADRE_KIND_*: who placed it; NULL: nobody */
    struct cadre_share share[4]; /* by CADRE_KIND_* */
    struct cadre_plan_storage before; /* while plugins plan */
};

struct cadre_rank_plan {
    const struct cadre_model *model; /* what it was made for; borrowed */
    struct cadre_mesh *mesh;
    int n_members; /* instances that have planned, in that order */
    const char *member[CADRE_MAX_INSTANCES];
    int n_claims;
    struct cadre_claim claim[CADRE_MAX_CLAIMS];
    int n_reducers;
    struct cadre_reducer reducer[CADRE_MAX_INSTANCES]; /* finished: inner ones first */
    int n_designs;
    struct cadre_design design[CADRE_MAX_INSTANCES];
    int n_periods;
    struct cadre_period period[CADRE_MAX_INSTANCES];
    int n_budgets;
    struct cadre_budget budget[CADRE_MAX_BUDGETS];
    int n_chunks;
    struct cadre_chunk chunk[CADRE_MAX_CHUNKS];
    uint32_t live_blocks; /* over all chunks, 0: their sum */
    uint32_t map; /* of micro-batches: CADRE_MICROBATCHES_* */
    bool cyclic; /* the map is CYCLIC */
    bool exact;
    const char *map_owner; /* plugin that chose it, NULL: default */
    uint64_t *first; /* of RANGES: (data ranks + 1); else NULL */
    int n_first; /* entries of it */
    bool divided; /* `first` is of balance.micro_batches, and no plugin's */
    /* Where `first` changes between steps: most micro-batches of any rank, for which
     * memory is planned; else 0. Once steps run (`runs`), plugins are told of the step
     * instead. */
    int64_t most;
    bool runs;
    struct cadre_plan_param *param; /* n_params of the model */
    uint32_t n_params;
    struct cadre_plan_state
        *state; /* (n_states), as the optimizer plugin listed them */
    uint32_t n_states;
    int64_t n_microbatches; /* micro-batches of this rank */
    int64_t first_microbatch; /* global index of its first */
    int64_t time; /* tokens of a sample that this rank has */
    int64_t first_position; /* of these in the sample */
    int64_t microbatch_stride;
    struct cadre_ledger planned; /* memory that plugins announced */
};

/* What a plan is made for. Borrowed. What is not known before the first plan is
 * corrected by cadre_rank_plan_settled. */
struct cadre_plan_request {
    const struct cadre_model *model;
    struct cadre_mesh *mesh; /* use_axis and derived axes are stored here */
    int64_t microbatches, batch, time;
    int data_ranks; /* 0: not known yet */
    int64_t rank_microbatches; /* 0: not known yet */
    int time_ranks; /* 0: not known yet */
    /* (n_params) as a plan left them and the next one begins; owned by the caller,
     * zeroed at first; NULL: each plan begins with plain, trained parameters */
    struct cadre_plan_storage *storage;
    bool exact;
    /* RANGES that the pass before came to, in exact mode: what plugins are told of the
     * nodes of the tree until one asks for a map. The owner frees `first`. */
    uint64_t *first;
    int n_first; /* 0: none */
    const struct cadre_division *division; /* balance.micro_batches; NULL: off */
    bool nf4_base; /* tune.base = nf4 */
    int64_t most; /* as the pass before came to */
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

/* Map the micro-batches of several data ranks by request->division, as of the first
 * step; a part of finish. Errors name the option and what forbids it. */
cadre_status cadre_rank_plan_divide(struct cadre_rank_plan *plan,
                                    const struct cadre_plan_request *request,
                                    struct cadre_error *err);

/* Store what is frozen as tune.base says. Errors: CADRE_E_INVALID nothing is. */
cadre_status cadre_rank_plan_store_base(struct cadre_rank_plan *plan,
                                        const struct cadre_plan_request *request,
                                        struct cadre_error *err);

/* Do the form of a parameter, its range and tensor parallelism's cut fit? A plugin may
 * have placed a range before another one chose the form: where `final` is false it will
 * be asked again. Errors: CADRE_E_UNSUPPORTED. */
cadre_status cadre_rank_plan_check_form(const struct cadre_rank_plan *plan, uint32_t i,
                                        bool final, struct cadre_error *err);

/* Was the finished plan made for what it came to? If not, the request is corrected, and
 * the plan must be made again. */
bool cadre_rank_plan_settled(const struct cadre_rank_plan *plan,
                             struct cadre_plan_request *request);

/* What a plugin is told during its plan, from this pass and, where nobody has said
 * anything yet, the pass before: is the parameter frozen, and what is this rank's range
 * of `kind`? Without what the instance itself said in the pass before, as it has not
 * decided yet in this one. */
bool cadre_rank_plan_is_frozen_to(const struct cadre_rank_plan *plan, uint32_t param,
                                  const char *instance);
struct cadre_share cadre_rank_plan_share_to(const struct cadre_rank_plan *plan,
                                            uint32_t param, uint32_t kind,
                                            const char *instance);

/* Does this rank run the unit, as far as chunks are planned? */
bool cadre_rank_plan_runs(const struct cadre_rank_plan *plan, uint32_t unit);

/* The axis over which experts are sharded; NULL where there are none, or one rank. */
const struct cadre_axis *
cadre_rank_plan_expert_axis(const struct cadre_rank_plan *plan);

/* Does this rank hold the parameter: does it run the unit, and is it the home of the
 * expert? As far as chunks are planned. */
bool cadre_rank_plan_holds(const struct cadre_rank_plan *plan, uint32_t param);

/* What experts over ranks cannot have. Errors: CADRE_E_INVALID, CADRE_E_UNSUPPORTED. */
cadre_status cadre_rank_plan_check_experts(const struct cadre_rank_plan *plan,
                                           struct cadre_error *err);

/* The first claim of `effect` on any axis, or the plugin that makes it; NULL for none.
 */
const struct cadre_claim *cadre_rank_plan_claim(const struct cadre_rank_plan *plan,
                                                const char *effect);
const char *cadre_rank_plan_claimed(const struct cadre_rank_plan *plan,
                                    const char *effect);

/* The axis of a claim of `effect`, derived axes too; NULL for none. */
const struct cadre_axis *cadre_rank_plan_axis(const struct cadre_rank_plan *plan,
                                              const char *effect);

/* The level at which an instance reduces; CADRE_NO_LEVEL where it does not. */
uint32_t cadre_rank_plan_level(const struct cadre_rank_plan *plan,
                               const char *instance);

/* Bytes that an instance may allocate under a tag of a space; 0: none. The entry that
 * says so, NULL for none. */
struct cadre_budget *cadre_rank_plan_find_budget(struct cadre_rank_plan *plan,
                                                 const char *instance, uint32_t space,
                                                 const char *tag);
uint64_t cadre_rank_plan_budget(const struct cadre_rank_plan *plan,
                                const char *instance, uint32_t space, const char *tag);

/* Steps after which the work of all plugins repeats: the least common multiple of their
 * periods. */
uint64_t cadre_rank_plan_period(const struct cadre_rank_plan *plan);

/* The settings of all designs, each key with its section, as `cadre compare` sets them:
 * "localsgd.period=1, optim.name=sgd". Returns the length; more than `bytes` - 1 of
 * them are left out. */
size_t cadre_rank_plan_equal(const struct cadre_rank_plan *plan, char *out,
                             size_t bytes);

/* Micro-batches [*begin, *end) of a step whose gradients rank `rank` along the axis has
 * once the levels below it are reduced. Not for the CYCLIC map. */
void cadre_rank_plan_microbatches(const struct cadre_rank_plan *plan,
                                  const struct cadre_axis *axis, int rank,
                                  int64_t *begin, int64_t *end);

/* Most micro-batches that this rank runs in any step. */
int64_t cadre_rank_plan_most(const struct cadre_rank_plan *plan);

/* The data rank that runs micro-batch i of a step; under any map. */
int64_t cadre_rank_plan_data_rank(const struct cadre_rank_plan *plan, int64_t i);

/* Elements and bytes of a block of a parameter as it is stored, and of the whole local
 * part in what its PARAM ranges are counted in: elements where it is PLAIN, else bytes.
 */
void cadre_rank_plan_block(const struct cadre_rank_plan *plan, uint32_t param,
                           uint32_t *elements, uint32_t *bytes);
uint64_t cadre_rank_plan_stored(const struct cadre_rank_plan *plan, uint32_t param);

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
