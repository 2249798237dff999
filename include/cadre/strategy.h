/* SPDX-License-Identifier: Apache-2.0 */
/* The strategy plugin ABI, version 0.1 (0.x is free to change between minors).
 *
 * A strategy owns placement and movement: which rank holds which slice, and when it
 * travels. The core owns the mesh, communicators and their order, loss scaling, global
 * norm and clipping, the optimizer loop, random numbers and checkpoint files.
 *
 * Life of an instance (one per rank; several may live in one process):
 *
 *   entry -> create -> plan (pure, may run often; --dry-run stops here)
 *         -> place (in the launching process alone; its instances end here)
 *         -> [ranks agree on build, plugins, options and plan] -> bind
 *         -> { step -> sync(GRADS) -> [norm, clip, optimizer] -> sync(PARAMS) }*
 *         -> sync(DRAIN) -> destroy
 *
 *   step:  in role order, each calls next->run, the SCHEDULE last of all; it drives
 *          cadre.model forward/backward, and meanwhile the core raises on_block and
 *          on_grad on every plugin in role order, and on_redistribute on the plugin
 *          that claims act.complete.
 *
 * Growth: `struct_size` is first in every crossing struct and set with sizeof; a reader
 * takes the smaller size; new fields go to the end; a new function slot is optional and
 * guarded by CADRE_HAS. No enums, bit-fields, long, bool, varargs or unions cross.
 *
 * Threads: [main] the thread that created the instance, before start or after stop.
 * [exec] the one thread that drives this rank, never two calls at once (in a rank that
 * is a thread, [main] and [exec] are the same). [any] any thread, must not block.
 *
 * A plugin links nothing of the host; it reaches it through the tables of
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
#define CADRE_ABI_MINOR 1u
#define CADRE_MAGIC UINT64_C(0x3145524441433ec3)
#define CADRE_ENTRY cadre_plugin_entry_1
#define CADRE_ENTRY_NAME "cadre_plugin_entry_1"

/* Does the other side's struct reach this member, and is it set? */
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
    double min, max; /* numbers only; both 0: any */
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
#define CADRE_BATCH_SAME 2u
/* Ranks along the axis are runs of their own, which never meet: `cadre train` starts
 * one run for each place along it, with the stack without this axis and the CPUs and
 * the environment that `place` requested the ranks of that place. Such an instance is
 * planned and placed, and never bound. One axis of a run alone; the plugin's option
 * `sweep`, where it has one, says what differs between the runs:
 * "optim.lr: 1e-3 3e-4, optim.beta2: 0.95 0.99", the k-th value to the k-th run. */
#define CADRE_BATCH_INDEPENDENT 3u

#define CADRE_MICROBATCHES_BLOCK 1u /* rank r holds M/N consecutive micro-batches */
#define CADRE_MICROBATCHES_CYCLIC 2u /* micro-batch i is on rank i % N */

#define CADRE_KIND_PARAM 1u
#define CADRE_KIND_GRAD 2u
#define CADRE_KIND_OPT 3u

#define CADRE_CLAIM_SHARED 1u /* flag: others may claim the effect too */
#define CADRE_LIVE_SPLIT 1u /* flag: INPUT and WEIGHT backward run apart */

/* All functions return a status; a refusal has already been recorded with its text.
 * Effects: schedule.order, device.place, param.place, act.complete, seq.shard,
 * grad.reduce, opt.shard are exclusive per axis; "com.vendor.thing" for others. So is
 * param.diverges: ranks along the axis hold replicas whose values differ between syncs;
 * each then has its own norm and is clipped by it, comparisons leave norms out, and
 * checkpoints hold the mean of the replicas' optimizer states; that the parameters are
 * one after DRAIN is the plugin's work.
 * train.changed (claimed CADRE_CLAIM_SHARED, axis NULL): the strategy is another
 * training by design, so a comparison says so where it differs and does not fail. */
struct cadre_plan {
    uint32_t struct_size;
    uint32_t rank, ranks; /* world */
    uint32_t dtype; /* of parameters and activations */
    uint32_t exact; /* run.exact */
    uint32_t n_units; /* embedding, blocks, head */
    uint64_t microbatches; /* M, of the whole step */
    uint64_t batch, time, channels; /* one micro-batch is (batch, time) tokens */
    uint64_t range_unit; /* OPT ranges are whole units of this many elements, but for
                            the end of a parameter */
    void *h;
    cadre_status (*use_axis)(void *h, const char *axis, uint32_t batch);
    cadre_status (*claim)(void *h, const char *effect, const char *axis,
                          uint32_t flags);
    /* How micro-batches map to ranks of the batch-splitting axes; default BLOCK. */
    cadre_status (*microbatch_map)(void *h, uint32_t map);
    /* SCHEDULE: this rank runs units [begin, end) as its next chunk (0, 1, ...), and
     * keeps at most `live` micro-batches of it between forward and backward. Without a
     * call one chunk holds all units and live is 1. */
    cadre_status (*chunk)(void *h, uint32_t begin, uint32_t end, uint32_t live,
                          uint32_t flags);
    /* This rank owns elements [begin, begin + count) of the flat local part of a
     * parameter, as its only share of `kind`, in `space`. Without a call a rank owns
     * the whole. A rank that owns nothing of it says count 0. PARAM: no full storage is
     * made, the plugin attaches it while it is needed. GRAD: likewise. OPT: states and
     * update of that range only; they alone may lie in CADRE_SPACE_HOST or _PINNED. */
    cadre_status (*place_range)(void *h, cadre_param_id param, uint32_t kind,
                                uint64_t begin, uint64_t count, uint32_t space);
    /* Memory the plugin itself will allocate in bind, for the table of --dry-run. */
    cadre_status (*memory)(void *h, uint32_t space, uint64_t bytes, const char *tag);
    /* M over the ranks of the axes that split the batch. An axis that a later plugin
     * splits is known in a second call of every plan, and the first one's results are
     * dropped. */
    uint64_t rank_microbatches;
    /* SCHEDULE, beside chunk: a micro-batch of a chunk keeps a slot for each of its
     * blocks; over all chunks at most n are kept at once. Without a call it is the sum
     * of what each chunk keeps, which is more where their peaks are apart. */
    cadre_status (*live_blocks)(void *h, uint32_t n);
    uint32_t grad_dtype; /* of gradients and states: f32 where dtype has 16 bits */
    uint32_t pad_;
};

/* ---- events raised while a step runs [exec] ---- */
/* Block events come in evaluation too, which is forward only and outside any step;
 * every rank evaluates equally often, so a collective in them finds its partners. */
#define CADRE_BEFORE_FORWARD 1u
#define CADRE_AFTER_FORWARD 2u
#define CADRE_BEFORE_BACKWARD 3u
#define CADRE_AFTER_BACKWARD 4u

#define CADRE_EV_RECOMPUTE 1u /* forward run again inside a backward */
#define CADRE_EV_INPUT 2u /* backward computes input gradients */
#define CADRE_EV_WEIGHT 4u /* backward computes weight gradients */

struct cadre_block_ev {
    uint32_t struct_size;
    uint32_t kind;
    uint32_t unit, chunk, microbatch;
    int32_t next_unit; /* the unit that needs its parameters next, -1: not known */
    uint32_t flags;
    uint32_t pad_;
};

#define CADRE_GRAD_FINAL 1u /* last contribution of this step on this rank */

/* Raised once per (gradient entry, micro-batch) after the weight gradient exists, in
 * ascending micro-batch order per entry. Under the BLOCK map `grad` holds the rank's
 * sum so far, with FINAL the sum of the step; in exact mode it is NULL before. Under
 * CYCLIC every event carries its own micro-batch, which goes back through cadre.param
 * accumulate. `ready` comes in as the point after which grad may be read; a plugin that
 * goes on working on it asynchronously stores a later one. */
struct cadre_grad_ev {
    uint32_t struct_size;
    uint32_t flags;
    cadre_param_id param;
    uint32_t microbatch;
    cadre_event ready;
    struct cadre_buf *grad;
};

/* A value to be completed over the tensor axis: out = f(in), distinct buffers. Forward
 * redistributions: *_OUT and LOSS_*; backward redistributions: *_IN. All are WHOLE, but
 * under a claim of seq.shard, which cuts the rows of activations between
 * redistributions: there the same redistributions but LOSS_* are SCATTER, and their
 * counterparts come too, as GATHER: *_IN forward and once more in WEIGHT, *_OUT
 * backward. `offsets` are the ranges: R + 1 ascending entries in elements, NULL for
 * WHOLE; a range may be empty. */
struct cadre_redistribute_ev {
    uint32_t struct_size;
    uint32_t point;
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
    uint64_t tokens_global;
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
/* Nothing in flight: an evaluation, a checkpoint or the end follows. What the
 * parameters hold now is what is evaluated and saved, until the next step. */
#define CADRE_SYNC_DRAIN 4u

/* ---- private state for checkpoints ---- */
#define CADRE_BLOB_DROPPABLE 1u
#define CADRE_BLOB_REPLICATED 2u
#define CADRE_BLOB_PER_RANK 3u /* disables resuming at another size, and says so */

/* How the data ranks' copies of a per-parameter state become the one of a checkpoint.
 */
#define CADRE_STATE_SAME 1u /* all hold the same; it comes back as it was */
#define CADRE_STATE_SUM 2u /* their sum is kept; each of R ranks gets 1/R of it back */
#define CADRE_STATE_MEAN 3u /* their mean is kept and comes back on every rank */

/* Describes, never writes files. `state` is called when nothing is in flight (after
 * sync(DRAIN)): to load once, after bind and the parameters and before the first
 * step, and never where a run begins anew; to save twice, with the same calls: to find
 * out what there is, and for the values. Every key is of [a-z0-9_]. Ranks of a data
 * group describe the same; a rank names only parameters that are present on it, or
 * copied (which are loaded, and not saved). What a checkpoint does not hold is left as
 * it is. A refused call is recorded; return its status. */
struct cadre_state_sink {
    uint32_t struct_size;
    uint32_t saving;
    void *h;
    /* `data` is read or filled during the call; at most 64 MB. REPLICATED: the same on
     * all ranks, refused where it is not; comes back at any size. PER_RANK: each rank's
     * own; a checkpoint that has one resumes under the same strategy.stack only.
     * DROPPABLE: each rank's own, left out under another stack or version. */
    cadre_status (*blob)(void *h, const char *key, uint32_t version, uint32_t policy,
                         void *data, uint64_t bytes);
    /* Elements [begin, begin + data->count) of the flat local part of a parameter, in
     * the dtype of its gradient; kept in logical layout, so it resumes at any size.
     * combine: CADRE_STATE_*. SAME: the data ranks may hold different or overlapping
     * ranges which together are the whole; SUM and MEAN: each holds the whole. `data`
     * is read or filled during the call. Not for tied entries; one call per key and
     * parameter. */
    cadre_status (*tensor)(void *h, const char *key, cadre_param_id param,
                           uint32_t combine, uint64_t begin,
                           const struct cadre_buf *data);
};

/* ---- the plugin ---- */
struct cadre_self; /* the plugin's instance; the host never looks in */

struct cadre_strategy_ops {
    uint32_t struct_size;
    uint32_t pad_;
    /* create, plan, bind, sync and destroy are required.
     * [main] If it fails it has released everything; else destroy is called once. */
    cadre_status (*create)(const struct cadre_host *, const struct cadre_values *,
                           struct cadre_self **out);
    /* [main]; plan is pure; place (opt.) is called in the launching process, once for
     * each rank on an instance made for it, before any rank starts */
    cadre_status (*plan)(struct cadre_self *, const struct cadre_plan *);
    cadre_status (*place)(struct cadre_self *, const struct cadre_place *);
    cadre_status (*bind)(struct cadre_self *); /* [main] */
    /* [exec] NULL: pass through to next. Postcondition: every local gradient
     * contribution was announced; work may be in flight. */
    cadre_status (*step)(struct cadre_self *, const struct cadre_step *,
                         const struct cadre_next *next);
    cadre_status (*sync)(struct cadre_self *, uint32_t what); /* [exec] idempotent */
    /* [exec] the four are opt. */
    cadre_status (*on_block)(struct cadre_self *, const struct cadre_block_ev *);
    cadre_status (*on_grad)(struct cadre_self *, struct cadre_grad_ev *);
    cadre_status (*on_redistribute)(struct cadre_self *,
                                    const struct cadre_redistribute_ev *);
    cadre_status (*state)(struct cadre_self *, const struct cadre_state_sink *);
    void (*abort)(struct cadre_self *); /* [any] opt.: a rank failed; must not block */
    void (*destroy)(struct cadre_self *); /* [main] */
};

#define CADRE_ROLE_PLACEMENT 1u /* mig: where ranks run, and nothing of the step */
#define CADRE_ROLE_SCHEDULE 2u /* pipeline; at most one, the core has its own */
#define CADRE_ROLE_INTRA 3u /* tensor */
#define CADRE_ROLE_DATA 4u /* ddp, zero */
#define CADRE_ROLE_OBSERVER 5u

/* What a plugin needs of the host, and where in its instance the table goes. */
struct cadre_service {
    const char *id; /* NULL ends the list */
    uint32_t offset; /* in struct cadre_self, of the pointer to the table */
    uint32_t
        bytes; /* least size of the table: up to the last function that is called */
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
    const char *build; /* compiler and the like, or NULL */
    const char *axis; /* the mesh axis it owns: "dp", "pp", "tp", "mig" */
    const struct cadre_option *options;
    uint32_t n_options;
    uint32_t option_stride; /* sizeof(struct cadre_option) of the plugin */
    /* Required; may be NULL. A host that lacks one, or has an older one, refuses the
     * plugin before create. */
    const struct cadre_service *services;
    const struct cadre_strategy_ops *ops;
    /* [main] opt.: what `cadre NAME ARGS` does, NAME being the plugin's short name; it
     * may look at the environment and at devices, as no rank runs. */
    cadre_status (*command)(const struct cadre_command *);
};

#define CADRE_EXPORT __attribute__((visibility("default")))

/* The only exported symbol. Pure: no allocation, no environment, no device. */
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
