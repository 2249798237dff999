/* SPDX-License-Identifier: Apache-2.0 */
/* What a strategy tells the core before anything is allocated: axes, claims, placement,
 * memory. */
#ifndef CADRE_PLAN_H
#define CADRE_PLAN_H

#include <cadre/types.h>

/* ---- axes ---- */

#define CADRE_BATCH_SPLIT 1u /* ranks along the axis see different samples */
#define CADRE_BATCH_SAME 2u /* ranks along the axis see the same samples */
/* Ranks along the axis belong to independent runs, which never communicate. `cadre
 * train` starts one run per coordinate along the axis. Its stack is the stack without
 * this axis; its ranks get the CPUs and the environment that `place` requested for that
 * coordinate. An instance of such a plugin is planned and placed, and never bound. At
 * most one axis of a run may be independent. The plugin's option `sweep`, if it has
 * one, lists what differs between the runs: "optim.lr: 1e-3 3e-4, optim.beta2: 0.95
 * 0.99" gives the k-th value to the k-th run. */
#define CADRE_BATCH_INDEPENDENT 3u
/* Ranks along the axis see consecutive parts of the time of the same samples (context
 * parallelism): the core shards tokens, positions and targets, and raises ATTN_KV for
 * the plugin that claims time.shard. Every gradient is then a sum over the axis too:
 * one plugin must reduce along it. */
#define CADRE_BATCH_TIME 4u
/* Reserved: ranks that meet in DRAIN only (asynchronous training). Refused. */
#define CADRE_BATCH_FREE 5u

/* How micro-batches map to the ranks of the axes that split the batch. These ranks are
 * numbered with the axis of the highest reduction level varying slowest. */
#define CADRE_MICROBATCHES_BLOCK 1u /* rank r runs M/N consecutive ones */
#define CADRE_MICROBATCHES_CYCLIC 2u /* micro-batch i runs on rank i % N */
#define CADRE_MICROBATCHES_RANGES 3u /* rank r runs [first[r], first[r + 1]) */

/* ---- claims ---- */

/* Effects, for `claim`; an effect belongs to one plugin per axis:
 *   schedule.order  runs the passes of the units; ranks along the axis are stages
 *   device.place    chooses devices or CPUs of ranks
 *   param.place     keeps parameters in ranges (PARAM)
 *   opt.shard       keeps optimizer states in ranges (OPT)
 *   act.complete    the model's products are sharded along the axis, and this plugin
 *                   redistributes their partial sums. At most one axis of a stack
 *   seq.shard       beside act.complete: rows of activations are sharded in between
 *   time.shard      redistributes keys and values; needs an axis of CADRE_BATCH_TIME
 *   expert.shard    experts are sharded along the axis; redistributes rows to them.
 *                   Their gradients are not reduced along it
 *   param.diverges  ranks along the axis hold replicas whose values differ between
 *                   steps. Each replica has its own gradient, the mean over its own
 *                   samples, its own norm and clipping; comparisons leave norms out.
 *                   The plugin must make the parameters equal in sync(DRAIN). In place
 *                   of `reduces` on that axis
 *   wire.codec      encodes what is sent along the axis: see encode of the ops
 * An effect of your own is named "com.vendor.thing", with two dots at least. Any other
 * name is refused. */
#define CADRE_CLAIM_SHARED 1u /* flag, own effects only: others may claim it too */
/* flag of param.diverges: a checkpoint also keeps each replica's parameters and
 * optimizer states, and resumes them at the same number of replicas bit for bit;
 * elsewhere, and without the flag, all replicas resume from the mean. */
#define CADRE_CLAIM_KEEP_REPLICAS 2u
/* flag of param.diverges, reserved: replicas may leave the run and rejoin. Refused. */
#define CADRE_CLAIM_LEAVE 4u

/* Levels of reduction, for `reduces`. */
#define CADRE_REDUCE_INNER 0u /* gets gradients from backward */
#define CADRE_REDUCE_OUTER 16u /* gets what the levels below have reduced */

/* ---- storage ---- */

#define CADRE_LIVE_SPLIT 1u /* flag: INPUT and WEIGHT backward run separately */

/* A state that an optimizer plugin keeps of a parameter. */
#define CADRE_OPT_ELEMENTS 1u /* one value per `block` elements of the OPT range */
#define CADRE_OPT_ROWS 2u /* one per row of the whole logical matrix: stage MATRIX */
#define CADRE_OPT_COLUMNS 3u /* one per column of it */
struct cadre_opt_state {
    uint32_t struct_size;
    cadre_param_id param;
    const char *key; /* [a-z0-9_]+; saved as <param>.<key> */
    uint32_t dtype;
    uint32_t extent; /* CADRE_OPT_* */
    uint32_t block; /* ELEMENTS: a divisor of range_unit; else 1 */
    uint32_t pad_;
};

/* Most chunks of a rank, claims and axes of a stack; more are refused. */
#define CADRE_MAX_CHUNKS 64
#define CADRE_MAX_CLAIMS 64
#define CADRE_MAX_AXES 8

/* Passed to `plan` of the ops; valid during the call, on the thread of the call.
 *
 * Plans repeat: plugins plan in the order of roles, and when the result changes what an
 * earlier one was given (the final numbers of micro-batches, rows or local sizes), the
 * results are dropped and all plan again, CADRE_PLAN_PASSES times at most. A plan is a
 * function of its arguments, the options and what the services answer, so it is equal
 * on all ranks but for the coordinates; the ranks compare a hash of it before bind.
 *
 * All functions return a status; a refusal has been recorded with its text, and ends
 * the plan even if the plugin ignores it. */
#define CADRE_PLAN_PASSES 4
struct cadre_plan {
    uint32_t struct_size;
    uint32_t pad_;
    void *h;
    const char *axis; /* of this instance, as strategy.stack names it; NULL: none */
    uint32_t rank, ranks; /* in the world: over all axes */
    uint32_t dtype; /* of parameters and activations */
    uint32_t grad_dtype; /* of gradients and states: f32 where dtype has 16 bits */
    uint32_t exact; /* run.exact */
    uint32_t n_units; /* embedding, blocks, head */
    uint64_t microbatches; /* M: of the global batch of one step, over all ranks */
    /* of this rank; where ranges change between steps, the most of any step */
    uint64_t rank_microbatches;
    uint64_t batch, time, channels; /* one micro-batch is (batch, time) tokens */
    uint64_t range_unit; /* OPT ranges begin and end at multiples of this many elements,
                            or at the end of a parameter */

    cadre_status (*use_axis)(void *h, const char *axis, uint32_t batch);
    cadre_status (*claim)(void *h, const char *effect, const char *axis,
                          uint32_t flags);
    /* This plugin sums gradients over the ranks of the axis. Where several do, a lower
     * level reduces first and reports it (reduced of cadre.param), which raises on_grad
     * on the next level. Two of one level are refused; the order in strategy.stack
     * never matters. An axis that splits batch or time needs exactly one plugin that
     * reduces along it, or a claim of param.diverges. `axis` may be a product. */
    cadre_status (*reduces)(void *h, const char *axis, uint32_t level);
    /* The training differs by design from that of the other strategies. `equal`: the
     * setting under which it must be the same, "key=value, ...", keys of this plugin or
     * with their section, "period=1, optim.name=sgd". `cadre compare` trains it. */
    cadre_status (*by_design)(void *h, const char *equal);
    /* CADRE_MICROBATCHES_*; default BLOCK. `first`, of RANGES only: N + 1 ascending
     * entries from 0 to M, equal on all ranks. */
    cadre_status (*microbatch_map)(void *h, uint32_t map, const uint64_t *first);
    /* The strategy's work repeats every n steps; default 1. A measurement of time
     * covers whole periods of all plugins. */
    cadre_status (*period)(void *h, uint64_t n);

    /* SCHEDULE: this rank runs units [begin, end) as its next chunk (0, 1, ...), and
     * keeps the activations of at most `live` micro-batches of it between forward and
     * backward. Default: one chunk of all units, live 1. */
    cadre_status (*chunk)(void *h, uint32_t begin, uint32_t end, uint32_t live,
                          uint32_t flags);
    /* SCHEDULE, in addition to chunk: at most n block activations are kept at once over
     * all chunks; each micro-batch of a chunk keeps one for each of its blocks.
     * Default: the sum of the chunks' maxima, which is more than needed when the chunks
     * do not reach them at the same time. */
    cadre_status (*live_blocks)(void *h, uint32_t n);

    /* This rank's shard of `kind` (CADRE_KIND_*) is elements [begin, begin + count) of
     * the flat local part of a parameter, in memory space `space`. count 0: the rank
     * owns nothing of it. Default: the rank owns the whole local part. PARAM and GRAD:
     * the core allocates no full storage; the plugin attaches it while it is needed
     * (attach, attach_grad of cadre.param). OPT: the rank holds the optimizer states of
     * that range and updates it; only OPT may lie in CADRE_SPACE_HOST or _PINNED. The
     * OPT ranges of the ranks along the axis of opt.shard must cover each element
     * exactly once: the core checks it before bind. */
    cadre_status (*place_range)(void *h, cadre_param_id param, uint32_t kind,
                                uint64_t begin, uint64_t count, uint32_t space);
    /* Bytes of cadre.mem that the plugin allocates at most under `tag`, for --dry-run.
     * An allocation beyond it, or under another tag, is refused. */
    cadre_status (*memory)(void *h, uint32_t space, uint64_t bytes, const char *tag);

    /* 0: the parameter is frozen: no gradient, no states, no decay, no part in the
     * norm. on_grad is not raised for it. Default 1. */
    cadre_status (*train)(void *h, cadre_param_id param, uint32_t on);
    /* A frozen parameter is stored in another form (CADRE_FORM_*). */
    cadre_status (*store)(void *h, cadre_param_id param, uint32_t form);

    /* Axes made of axes, for cadre.mesh and the functions above, after this call.
     * product: "rep*dp", all ranks along both, the first varying slowest. split: the
     * axis "dp" as "dp.outer" x "dp.inner", `inner` adjacent ranks each. */
    cadre_status (*product_axis)(void *h, const char *product);
    cadre_status (*split_axis)(void *h, const char *axis, uint32_t inner);

    /* OPTIMIZER: states, zeroed at the start, in the order in which update gets them;
     * and which parameters are updated as whole matrices (two dimensions, or one: a
     * matrix of one column; see struct cadre_update_ev). */
    cadre_status (*opt_state)(void *h, const struct cadre_opt_state *state);
    cadre_status (*opt_matrix)(void *h, cadre_param_id param);
};

#endif
