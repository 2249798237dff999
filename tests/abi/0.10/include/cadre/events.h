/* SPDX-License-Identifier: Apache-2.0 */
/* What the core tells a strategy while a run lasts: life, steps, passes, gradients,
 * redistributions, updates, checkpoints. All structs are valid during the call. */
#ifndef CADRE_EVENTS_H
#define CADRE_EVENTS_H

#include <cadre/services.h>

/* ---- life of an instance ---- */

struct cadre_create {
    uint32_t struct_size;
    uint32_t pad_;
    const struct cadre_host *host; /* lives as long as the instance */
    const struct cadre_values *values; /* likewise */
    const char *name; /* of the instance: "ddp", or "ddp@site" */
};

struct cadre_bind {
    uint32_t struct_size;
    uint32_t pad_;
    uint64_t first_step; /* steps done before: 0, or those of the checkpoint */
};

struct cadre_end {
    uint32_t struct_size;
    cadre_status status; /* how the run ended */
};

/* ---- a step ---- */

/* flag: forward passes only. The schedule runs the forward of every micro-batch and
 * nothing else; no gradient, no sync(GRADS) or UPDATE follows. */
#define CADRE_STEP_FORWARD 1u
struct cadre_step {
    uint32_t struct_size;
    uint32_t n_microbatches; /* of this rank */
    uint64_t step; /* from 1 */
    uint64_t tokens_global; /* of the global batch, over all ranks */
    uint32_t flags;
    uint32_t pad_;
};

struct cadre_next {
    uint32_t struct_size;
    uint32_t pad_;
    void *h;
    /* Valid during the call of `step` that it was passed to, once. */
    cadre_status (*run)(void *h, const struct cadre_step *step);
};

/* In the order of a step: */
#define CADRE_SYNC_GRADS                                                               \
    1u /* reductions of this step are complete; inner level first */
/* The optimizer has updated the owned values (owned of cadre.param), and nobody else
 * has seen them: a plugin that changes parameters does so now. Outer level first. */
#define CADRE_SYNC_UPDATE 5u
/* Owned values are distributed; parameters are usable in the next forward, or pending
 * (see cadre.param). Outer level first. */
#define CADRE_SYNC_PARAMS 2u
#define CADRE_SYNC_METRICS 3u /* counters are up to date */
/* Wait until nothing is in flight; an evaluation, a checkpoint or the end follows. It
 * uses the values that the parameters hold after this call. May come at any time
 * between steps, several times. The core then compares replicas: see docs/abi.md. */
#define CADRE_SYNC_DRAIN 4u
struct cadre_sync {
    uint32_t struct_size;
    uint32_t what; /* CADRE_SYNC_* */
    uint64_t step;
};

/* ---- passes ---- */

/* Block events are raised in evaluation too, which is forward only and outside any
 * step. Every rank runs the same number of evaluation passes, so a handler may post
 * collectives. */
#define CADRE_BEFORE_FORWARD 1u
#define CADRE_AFTER_FORWARD 2u
#define CADRE_BEFORE_BACKWARD 3u
#define CADRE_AFTER_BACKWARD 4u

#define CADRE_EV_RECOMPUTE 1u /* activation checkpointing: forward again in backward */
#define CADRE_EV_INPUT 2u /* backward computes input gradients */
#define CADRE_EV_WEIGHT 4u /* backward computes weight gradients */

struct cadre_block_ev {
    uint32_t struct_size;
    uint32_t kind;
    uint32_t unit, chunk, microbatch;
    int32_t next_unit; /* the unit that needs its parameters next; -1: not known */
    uint32_t flags;
    uint32_t pad_;
};

#define CADRE_GRAD_FINAL 1u /* last contribution of this step on this rank */
#define CADRE_GRAD_REDUCED 2u /* a lower level has reduced it over its axis */

/* A node of the reduction tree over the micro-batches of the step: micro-batches
 * [index << level, (index + 1) << level). */
struct cadre_grad_node {
    struct cadre_buf sum;
    uint64_t index;
    uint32_t level;
    uint32_t pad_;
};

/* Raised once per (gradient entry, micro-batch) when the weight gradient has been
 * computed, in ascending micro-batch order per entry; not for frozen parameters. First
 * on the plugins that do not reduce, then on the reducer of the lowest level. When that
 * one calls `reduced` of cadre.param, it is raised on the next level, and so on.
 *   BLOCK   `grad` holds the sum over this rank's micro-batches so far; with FINAL it
 *           is the sum of the step, and in exact mode it is NULL until then
 *   CYCLIC  `grad` holds the gradient of this micro-batch alone, during the call only
 *   RANGES  as BLOCK; in exact mode with FINAL, `grad` is NULL and the sum is n_nodes
 *           nodes of the tree, in ascending order of micro-batches
 * With REDUCED `grad` is what the lower level passed on: this rank's GRAD range, or the
 * whole. In: `grad` may be read after `ready`. Out: a plugin that uses grad
 * asynchronously stores the event after which it is done in `ready`. */
struct cadre_grad_ev {
    uint32_t struct_size;
    uint32_t flags;
    cadre_param_id param;
    uint32_t microbatch; /* of this rank */
    uint64_t global_microbatch;
    cadre_event ready;
    struct cadre_buf *grad;
    const struct cadre_grad_node *node;
    uint32_t n_nodes;
    uint32_t map; /* CADRE_MICROBATCHES_* */
};

/* An activation or its gradient to redistribute over the ranks of the claimed axis, R
 * of them; `in` and `out` are distinct buffers.
 *
 * act.complete: without a claim of seq.shard every event is an ALL_REDUCE: at the
 * points *_OUT and LOSS_* in forward, at *_IN in backward. With it the rows of
 * activations are sharded between the points (sequence parallelism):
 * - LOSS_* stay ALL_REDUCE;
 * - *_OUT in forward and *_IN in backward are REDUCE_SCATTER;
 * - *_OUT in backward, and *_IN in forward and again in WEIGHT backward, are
 *   ALL_GATHER.
 * `offsets`: R + 1 ascending entries, in elements; rank r's range is [offsets[r],
 * offsets[r + 1]) and may be empty. NULL for ALL_REDUCE. ALL_TO_ALL_V: slice r of `in`
 * is [in_offsets[r], in_offsets[r + 1]), slice r of `out`, from rank r, likewise by
 * `offsets`. */
struct cadre_redistribute_ev {
    uint32_t struct_size;
    uint32_t point; /* CADRE_POINT_* */
    uint32_t unit, microbatch;
    uint32_t backward; /* raised in a backward pass */
    uint32_t form; /* CADRE_REDISTRIBUTE_* */
    const struct cadre_buf *in;
    struct cadre_buf *out;
    const uint64_t *offsets;
    const uint64_t *in_offsets; /* ALL_TO_ALL_V only */
};

/* ---- the optimizer ---- */

/* Called for every trained parameter of this rank's OPT ranges, after clipping, in the
 * order of parameters and stages. `grad` is the final gradient, unscaled and clipped;
 * what a stage writes into it the next stage reads. A parameter of opt_matrix runs
 * PREPARE, MATRIX, APPLY: between them the core assembles the logical matrix over the
 * axes that shard it, once, and gives each rank its range back; MATRIX runs on one rank
 * of those, or on all where they hold the same. Others run PREPARE and APPLY. */
#define CADRE_UPDATE_PREPARE 1u
#define CADRE_UPDATE_MATRIX 2u
#define CADRE_UPDATE_APPLY 3u
struct cadre_update_ev {
    uint32_t struct_size;
    uint32_t stage; /* CADRE_UPDATE_* */
    cadre_param_id param;
    uint32_t n_states;
    uint64_t step; /* updates made, this one included: from 1 */
    double lr, weight_decay;
    uint64_t begin; /* of the range in the flat local part */
    uint64_t rows, columns; /* MATRIX: of `grad`, row-major */
    struct cadre_buf grad; /* grad_dtype; in and out */
    struct cadre_buf value; /* grad_dtype; in and out, APPLY only */
    const struct cadre_buf *state; /* in and out; ROWS and COLUMNS in MATRIX only */
};

/* ---- what is sent ---- */

/* wire.codec: `in` holds n elements, or their wire_bytes(n) bytes, and `out` the
 * other. */
struct cadre_wire_ev {
    uint32_t struct_size;
    uint32_t kind; /* CADRE_TRAFFIC_* */
    uint32_t encode; /* 1, or 0: decode */
    uint32_t pad_;
    const struct cadre_buf *in;
    const struct cadre_buf *out;
};

/* ---- private state for checkpoints ---- */

#define CADRE_BLOB_DROPPABLE 1u
#define CADRE_BLOB_REPLICATED 2u
#define CADRE_BLOB_PER_RANK 3u /* prevents resuming under another strategy.stack */

/* How the copies of a per-parameter state on the data ranks are combined into the one
 * of a checkpoint. */
#define CADRE_STATE_SAME 1u /* equal on all ranks; saved and restored as it is */
#define CADRE_STATE_SUM 2u /* the sum is saved; each of R ranks gets 1/R of it back */
#define CADRE_STATE_MEAN 3u /* the mean is saved and restored on every rank */
/* Each replica along param.diverges has its own; beside them the mean is saved, which
 * another number of replicas gets. */
#define CADRE_STATE_REPLICA 4u

/* What `state` describes; the core reads and writes the files. `state` is called when
 * nothing is in flight (after sync(DRAIN)). To load: once, on resume only, after bind
 * and after the parameters are loaded, before the first step. To save: twice, and the
 * plugin must make the same calls; the first lists the entries, the second reads the
 * values. A key matches [a-z0-9_]+. Ranks of a data group describe the same entries. A
 * rank names only parameters that are `present` on it, or `copied` (which are loaded
 * and not saved). An entry that the checkpoint lacks is left unchanged. A refused call
 * has been recorded; return its status. */
struct cadre_state_sink {
    uint32_t struct_size;
    uint32_t saving; /* 1 save, 0 load */
    void *h;
    /* `data` is read (save) or written (load) during the call; at most 64 MB.
     * REPLICATED: equal on all ranks, refused otherwise; restored at any number of
     * ranks. PER_RANK: each rank's own; a checkpoint that has one resumes under the
     * same strategy.stack only. DROPPABLE: each rank's own; not restored under another
     * stack or `version`. */
    cadre_status (*blob)(void *h, const char *key, uint32_t version, uint32_t policy,
                         void *data, uint64_t bytes);
    /* Elements [begin, begin + data->count) of the flat local part of a parameter, in
     * the dtype of its gradient. Saved in logical layout, so that it resumes at any
     * number of ranks. combine: CADRE_STATE_*. SAME and REPLICA: the data ranks may
     * hold different or overlapping ranges that together cover the whole; SUM and MEAN:
     * each holds the whole. `data` is read (save) or written (load) during the call.
     * Not for tied entries; one call per key and parameter. */
    cadre_status (*tensor)(void *h, const char *key, cadre_param_id param,
                           uint32_t combine, uint64_t begin,
                           const struct cadre_buf *data);
};

#endif
