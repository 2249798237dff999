/* SPDX-License-Identifier: Apache-2.0 */
/* The strategy plugin ABI, version 0.2 (0.x is free to change between minors).
 *
 * A strategy owns placement and communication: which rank holds which shard, and when
 * it is sent. The core owns the mesh, communicators and their order, loss scaling,
 * global norm and clipping, the optimizer loop, random numbers and checkpoint files.
 *
 * Life of an instance (one per rank; several may live in one process):
 *
 *   entry -> create -> plan (pure, may run often; --dry-run stops here)
 *         -> place (in the launching process only; its instances end here)
 *         -> [ranks agree on build, plugins, options and plan] -> bind
 *         -> { step -> sync(GRADS) -> [norm, clip, optimizer] -> sync(PARAMS) }*
 *         -> sync(DRAIN) -> destroy
 *
 *   step:  runs in role order; each plugin calls next->run, and the SCHEDULE is last.
 *          The SCHEDULE calls forward and backward of cadre.model. During these the
 *          core raises on_block and on_grad on every plugin in role order, and
 *          on_redistribute on the plugin that claims act.complete.
 *
 * Versioning: `struct_size` is the first member of every struct that crosses the
 * boundary and is set with sizeof; a reader uses the smaller of the two sizes. New
 * fields go to the end. A new function slot is optional and guarded by CADRE_HAS. No
 * enums, bit-fields, long, bool, varargs or unions cross the boundary.
 *
 * Threads: [main] the thread that created the instance, before the rank starts or after
 * it stops. [exec] the one thread that drives this rank, never two calls at once (where
 * the rank is a thread, it is also [main]). [any] any thread; must not block.
 *
 * A plugin does not link against the host; it reaches the host through the tables of
 * <cadre/services.h>. It must not exit, abort, longjmp, set signal handlers or change
 * the environment.
 *
 * lint: long file because the ABI is read as one text. */
#ifndef CADRE_STRATEGY_H
#define CADRE_STRATEGY_H

#include <cadre/command.h>
#include <cadre/place.h>
#include <cadre/services.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CADRE_ABI_MAJOR 0u
#define CADRE_ABI_MINOR 2u
#define CADRE_MAGIC UINT64_C(0x3145524441433ec3)
#define CADRE_ENTRY cadre_plugin_entry_1
#define CADRE_ENTRY_NAME "cadre_plugin_entry_1"

/* True if the other side's struct includes member m and m is not NULL or 0. */
#define CADRE_HAS(p, m)                                                                \
    ((p) && (p)->struct_size >= offsetof(__typeof__(*(p)), m) + sizeof((p)->m) &&      \
     (p)->m)

/* ---- options: static data, readable without creating anything ---- */
#define CADRE_OPTION_BOOL 1u
#define CADRE_OPTION_I64 2u
#define CADRE_OPTION_F64 3u
#define CADRE_OPTION_STR 4u
#define CADRE_OPTION_ENUM 5u /* choices: "a, b, c" */
#define CADRE_OPTION_BYTES 6u /* 64k, 25M, 1G */

struct cadre_option {
    uint32_t struct_size;
    uint32_t type;
    const char *key; /* [a-z0-9_]+, in the ini section of the plugin's short name */
    const char *def; /* default, in ini spelling */
    const char *choices; /* ENUM only, else NULL */
    const char *help; /* one line */
    double min, max; /* numbers only; both 0: no limits */
    uint32_t flags; /* 0 */
    uint32_t pad_;
};

/* [any] Checked values, defaults filled in. Strings live as long as the instance. */
struct cadre_values {
    uint32_t struct_size;
    uint32_t pad_;
    const void *h;
    int64_t (*i64)(const void *h, const char *key); /* BOOL (0 or 1), I64, BYTES */
    double (*f64)(const void *h, const char *key);
    const char *(*str)(const void *h, const char *key); /* STR, ENUM */
};

/* ---- plan: pure, repeatable, no device memory and no communication ---- */
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

#define CADRE_MICROBATCHES_BLOCK 1u /* rank r runs M/N consecutive ones */
#define CADRE_MICROBATCHES_CYCLIC 2u /* micro-batch i runs on rank i % N */

#define CADRE_KIND_PARAM 1u
#define CADRE_KIND_GRAD 2u
#define CADRE_KIND_OPT 3u

#define CADRE_CLAIM_SHARED 1u /* flag: other plugins may claim the effect too */
#define CADRE_LIVE_SPLIT 1u /* flag: INPUT and WEIGHT backward run separately */

/* All functions return a status; a refusal has already been recorded with its text.
 *
 * Effects, for `claim`. Exclusive per axis: schedule.order, device.place, param.place,
 * act.complete, seq.shard, grad.reduce, opt.shard, param.diverges. A third-party effect
 * is named "com.vendor.thing".
 * param.diverges: ranks along the axis hold replicas whose values differ between syncs.
 * Each replica then has its own gradient norm and clipping, comparisons leave norms
 * out, and checkpoints hold the mean of the replicas' optimizer states. The plugin must
 * make the parameters equal in sync(DRAIN).
 * train.changed (claimed with CADRE_CLAIM_SHARED, axis NULL): the strategy changes the
 * training by design, so a comparison reports a difference and does not fail. */
struct cadre_plan {
    uint32_t struct_size;
    uint32_t rank, ranks; /* in the world: over all axes */
    uint32_t dtype; /* of parameters and activations */
    uint32_t exact; /* run.exact */
    uint32_t n_units; /* embedding, blocks, head */
    uint64_t microbatches; /* M: of the global batch of one step, over all ranks */
    uint64_t batch, time, channels; /* one micro-batch is (batch, time) tokens */
    uint64_t range_unit; /* OPT ranges begin and end at multiples of this many elements,
                            or at the end of a parameter */
    void *h;
    cadre_status (*use_axis)(void *h, const char *axis, uint32_t batch);
    cadre_status (*claim)(void *h, const char *effect, const char *axis,
                          uint32_t flags);
    /* How micro-batches map to ranks of the axes that split the batch:
     * CADRE_MICROBATCHES_*; default BLOCK. */
    cadre_status (*microbatch_map)(void *h, uint32_t map);
    /* SCHEDULE: this rank runs units [begin, end) as its next chunk (0, 1, ...), and
     * keeps the activations of at most `live` micro-batches of it between forward and
     * backward. Default: one chunk of all units, live 1. */
    cadre_status (*chunk)(void *h, uint32_t begin, uint32_t end, uint32_t live,
                          uint32_t flags);
    /* This rank's shard of `kind` (CADRE_KIND_*) is elements [begin, begin + count) of
     * the flat local part of a parameter, in memory space `space`. count 0: the rank
     * owns nothing of it. Default: the rank owns the whole local part. PARAM and GRAD:
     * the core allocates no full storage; the plugin attaches it while it is needed
     * (attach, attach_grad of cadre.param). OPT: the rank holds the optimizer states of
     * that range and updates it; only OPT may lie in CADRE_SPACE_HOST or _PINNED. */
    cadre_status (*place_range)(void *h, cadre_param_id param, uint32_t kind,
                                uint64_t begin, uint64_t count, uint32_t space);
    /* Bytes the plugin itself will allocate in bind, for the table of --dry-run. */
    cadre_status (*memory)(void *h, uint32_t space, uint64_t bytes, const char *tag);
    /* Micro-batches of this rank: M / ranks of the axes that split the batch. When a
     * later plugin splits the batch over another axis, every plan is called a second
     * time with the final value, and the results of the first call are dropped. */
    uint64_t rank_microbatches;
    /* SCHEDULE, in addition to chunk: at most n block activations are kept at once over
     * all chunks; each micro-batch of a chunk keeps one for each of its blocks.
     * Default: the sum of the chunks' maxima, which is more than needed when the chunks
     * do not reach them at the same time. */
    cadre_status (*live_blocks)(void *h, uint32_t n);
    uint32_t grad_dtype; /* of gradients and states: f32 where dtype has 16 bits */
    uint32_t pad_;
};

/* ---- events raised while a step runs [exec] ---- */
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

/* Raised once per (gradient entry, micro-batch) when the weight gradient has been
 * computed, in ascending micro-batch order per entry. BLOCK map: `grad` holds the sum
 * over this rank's micro-batches so far; with CADRE_GRAD_FINAL it is the sum of the
 * step, and in exact mode it is NULL until then. CYCLIC map: `grad` holds the gradient
 * of this micro-batch alone; the plugin reduces it and passes the result to accumulate
 * of cadre.param. In: `grad` may be read after `ready`. Out: a plugin that uses grad
 * asynchronously stores the event after which it is done in `ready`. */
struct cadre_grad_ev {
    uint32_t struct_size;
    uint32_t flags;
    cadre_param_id param;
    uint32_t microbatch;
    cadre_event ready;
    struct cadre_buf *grad;
};

/* An activation or its gradient to redistribute over the tensor axis of R ranks; `in`
 * and `out` are distinct buffers. Without a claim of seq.shard every event is an
 * ALL_REDUCE: at the points *_OUT and LOSS_* in forward, at *_IN in backward. With it
 * the rows of activations are sharded between the points (sequence parallelism):
 * - LOSS_* stay ALL_REDUCE;
 * - *_OUT in forward and *_IN in backward are REDUCE_SCATTER;
 * - *_OUT in backward, and *_IN in forward and again in WEIGHT backward, are
 *   ALL_GATHER.
 * `offsets`: R + 1 ascending entries, in elements; rank r's range is [offsets[r],
 * offsets[r + 1]) and may be empty. NULL for ALL_REDUCE. */
struct cadre_redistribute_ev {
    uint32_t struct_size;
    uint32_t point; /* CADRE_POINT_* */
    uint32_t unit, microbatch;
    uint32_t backward; /* raised in a backward pass */
    uint32_t form; /* CADRE_REDISTRIBUTE_* */
    const struct cadre_buf *in;
    struct cadre_buf *out;
    const uint64_t *offsets;
};

/* ---- step and sync ---- */
struct cadre_step {
    uint32_t struct_size;
    uint32_t n_microbatches; /* of this rank */
    uint64_t step; /* from 1 */
    uint64_t tokens_global; /* of the global batch, over all ranks */
};

struct cadre_next {
    uint32_t struct_size;
    uint32_t pad_;
    void *h;
    cadre_status (*run)(void *h, const struct cadre_step *step);
};

#define CADRE_SYNC_GRADS 1u /* reductions of this step are complete */
#define CADRE_SYNC_PARAMS 2u /* parameters are usable for the next forward */
#define CADRE_SYNC_METRICS 3u /* counters are up to date */
/* Wait until nothing is in flight; an evaluation, a checkpoint or the end follows. It
 * uses the values that the parameters hold after this call. */
#define CADRE_SYNC_DRAIN 4u

/* ---- private state for checkpoints ---- */
#define CADRE_BLOB_DROPPABLE 1u
#define CADRE_BLOB_REPLICATED 2u
#define CADRE_BLOB_PER_RANK 3u /* prevents resuming under another strategy.stack */

/* How the copies of a per-parameter state on the data ranks are combined into the one
 * of a checkpoint. */
#define CADRE_STATE_SAME 1u /* equal on all ranks; saved and restored as it is */
#define CADRE_STATE_SUM 2u /* the sum is saved; each of R ranks gets 1/R of it back */
#define CADRE_STATE_MEAN 3u /* the mean is saved and restored on every rank */

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
     * number of ranks. combine: CADRE_STATE_*. SAME: the data ranks may hold different
     * or overlapping ranges that together cover the whole; SUM and MEAN: each holds the
     * whole. `data` is read (save) or written (load) during the call. Not for tied
     * entries; one call per key and parameter. */
    cadre_status (*tensor)(void *h, const char *key, cadre_param_id param,
                           uint32_t combine, uint64_t begin,
                           const struct cadre_buf *data);
};

/* ---- the plugin ---- */
struct cadre_self; /* the plugin's instance, opaque to the host */

struct cadre_strategy_ops {
    uint32_t struct_size;
    uint32_t pad_;
    /* create, plan, bind, sync and destroy are required.
     * [main] On failure create has released everything; after success destroy is called
     * once. */
    cadre_status (*create)(const struct cadre_host *, const struct cadre_values *,
                           struct cadre_self **out);
    /* [main] plan is pure. place (optional) is called in the launching process before
     * any rank starts, once per rank, on an instance of its own. */
    cadre_status (*plan)(struct cadre_self *, const struct cadre_plan *);
    cadre_status (*place)(struct cadre_self *, const struct cadre_place *);
    cadre_status (*bind)(struct cadre_self *); /* [main] */
    /* [exec] Optional; NULL calls next. On return every on_grad of this rank has been
     * raised; communication may still be in flight. */
    cadre_status (*step)(struct cadre_self *, const struct cadre_step *,
                         const struct cadre_next *next);
    /* [exec] what: CADRE_SYNC_*; idempotent */
    cadre_status (*sync)(struct cadre_self *, uint32_t what);
    /* [exec] These four are optional. */
    cadre_status (*on_block)(struct cadre_self *, const struct cadre_block_ev *);
    cadre_status (*on_grad)(struct cadre_self *, struct cadre_grad_ev *);
    cadre_status (*on_redistribute)(struct cadre_self *,
                                    const struct cadre_redistribute_ev *);
    cadre_status (*state)(struct cadre_self *, const struct cadre_state_sink *);
    void (*abort)(struct cadre_self *); /* [any] optional: a rank failed; no block */
    void (*destroy)(struct cadre_self *); /* [main] */
};

#define CADRE_ROLE_PLACEMENT 1u /* mig: where ranks run; takes no part in a step */
#define CADRE_ROLE_SCHEDULE 2u /* pipeline; at most one, else sequential */
#define CADRE_ROLE_INTRA 3u /* tensor: inside a layer */
#define CADRE_ROLE_DATA 4u /* ddp, zero */
#define CADRE_ROLE_OBSERVER 5u

/* A service that a plugin needs, and where in its instance the table pointer goes. */
struct cadre_service {
    const char *id; /* NULL ends the list */
    uint32_t offset; /* in struct cadre_self, of the pointer to the table */
    uint32_t bytes; /* minimal size of the table: to the last function called */
};

/* A static const object of the plugin; CADRE_PLUGIN of <cadre/helpers.h> makes it. */
struct cadre_plugin {
    uint64_t magic;
    uint32_t struct_size;
    uint16_t abi_major, abi_minor;
    uint16_t min_host_minor;
    uint16_t pad_;
    uint32_t role;
    const char *id; /* "org.cadre.ddp": unique; the last part is its short name */
    const char *version; /* of the plugin */
    const char *summary; /* one line */
    const char *build; /* compiler and flags, or NULL */
    const char *axis; /* the mesh axis it owns: "dp", "pp", "tp", "mig" */
    const struct cadre_option *options;
    uint32_t n_options;
    uint32_t option_stride; /* sizeof(struct cadre_option) of the plugin */
    /* Services the plugin requires, or NULL. A host that lacks one, or whose table is
     * too small, refuses the plugin before create. */
    const struct cadre_service *services;
    const struct cadre_strategy_ops *ops;
    /* [main] Optional: implements `cadre NAME ARGS`, where NAME is the plugin's short
     * name. It may read the environment and query devices: no rank is running. */
    cadre_status (*command)(const struct cadre_command *);
};

#define CADRE_EXPORT __attribute__((visibility("default")))

/* The only exported symbol. Pure: must not allocate, read the environment or open a
 * device. */
CADRE_EXPORT const struct cadre_plugin *CADRE_ENTRY(void);

/* frozen layouts: a reorder or a widened field fails to compile */
#ifdef __cplusplus
#define CADRE_FROZEN(c) static_assert(c, #c)
#else
#define CADRE_FROZEN(c) _Static_assert(c, #c)
#endif
#if UINTPTR_MAX == UINT64_MAX
CADRE_FROZEN(offsetof(struct cadre_plugin, ops) == 88);
CADRE_FROZEN(offsetof(struct cadre_plugin, command) == 96);
CADRE_FROZEN(offsetof(struct cadre_command, refuse) == 40);
CADRE_FROZEN(offsetof(struct cadre_strategy_ops, destroy) == 96);
CADRE_FROZEN(sizeof(struct cadre_service) == 16);
CADRE_FROZEN(sizeof(struct cadre_buf) == 32);
#endif

#ifdef __cplusplus
}
#endif
#endif
