/* SPDX-License-Identifier: Apache-2.0 */
/* Services of the host: function tables that a plugin looks up by id once, in `create`,
 * and keeps. The table of a service that the host lacks is NULL.
 *
 * Each function says in which callbacks it may be called: [plan] [bind] [step] and so
 * on; [step] means step and what is raised inside of it (on_block, on_grad,
 * on_redistribute), [run] means step, sync, update and state. A call from another
 * callback, with NULL where a pointer is needed, or with a count beyond a buffer that
 * the host knows is refused in one line that names plugin, callback and argument; the
 * callback then fails even if the plugin ignores the status. For thread tags such as
 * [exec] see <cadre/strategy.h>. */
#ifndef CADRE_SERVICES_H
#define CADRE_SERVICES_H

#include <cadre/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cadre_ctx; /* the host's view of one plugin instance */
struct cadre_axis; /* a mesh axis and this rank's group along it, of one instance */

struct cadre_host {
    uint32_t struct_size;
    uint16_t abi_major, abi_minor;
    struct cadre_ctx *ctx;
    /* [main] The table of a service; NULL: absent. */
    const void *(*service)(struct cadre_ctx *, const char *id);
    /* [any] Records `msg`, one line, with plugin, rank and callback; returns status.
     * The first one of a rank counts. */
    cadre_status (*fail)(struct cadre_ctx *, cadre_status, const char *msg);
    /* [any] level: 0 error, 1 warn, 2 info, 3 debug, 4 trace */
    void (*log)(struct cadre_ctx *, int32_t level, const char *msg);
};

/* Checked values of the plugin's options, defaults filled in. [create] [plan] Strings
 * live as long as the instance. A key that the plugin does not have, or of another
 * type, is refused. */
struct cadre_values {
    uint32_t struct_size;
    uint32_t pad_;
    const void *h;
    int64_t (*i64)(const void *h, const char *key); /* BOOL (0 or 1), I64, BYTES */
    double (*f64)(const void *h, const char *key);
    const char *(*str)(const void *h, const char *key); /* STR, ENUM */
};

/* "cadre.mesh/1" [plan, bind, run]. */
#define CADRE_SERVICE_MESH "cadre.mesh/1"
struct cadre_mesh_svc {
    uint32_t struct_size;
    uint32_t pad_;
    /* The axis of that name, or of this instance (NULL). An unknown name is refused and
     * gives NULL, which every other function refuses too. */
    struct cadre_axis *(*axis)(struct cadre_ctx *, const char *name);
    /* The same, for a name that need not exist: NULL is no refusal. */
    struct cadre_axis *(*find)(struct cadre_ctx *, const char *name);
    /* This rank's coordinate, and the number of ranks, along an axis. */
    int32_t (*rank)(const struct cadre_axis *);
    int32_t (*size)(const struct cadre_axis *);
};

struct cadre_param_info {
    uint32_t struct_size;
    uint32_t ndim;
    const char *name; /* canonical; lives as long as the instance */
    uint64_t shape[4]; /* logical: of the whole parameter */
    uint64_t local[4]; /* of this rank's part under tensor parallelism */
    uint64_t count; /* elements of the local part */
    uint32_t dtype;
    uint32_t grad_dtype;
    uint32_t unit; /* that it belongs to */
    int32_t tied_to; /* the entry that owns the weight; -1: this one */
    uint32_t split; /* CADRE_SHARD_*, over the axis of act.complete */
    int32_t split_dim; /* dimension of `shape` that is sharded */
    /* This rank runs the unit and holds the expert; in plan: as placed so far. */
    uint32_t present;
    /* The gradient is a part of a sum over the axis of act.complete: over this rank's
     * rows under seq.shard, over its heads for a norm of heads, over what this rank has
     * of its weight for an adapter. The plugin that claims act.complete sums it over
     * the axis in sync(GRADS), after the data ranks have summed. */
    uint32_t partial;
    /* Not present, but an entry tied to it is: this rank holds a copy of the values.
     * The core updates the copy after sync(UPDATE). */
    uint32_t copied;
    uint32_t frozen; /* a plan has set train to 0; in plan: so far */
    uint32_t form; /* CADRE_FORM_*: how its values are stored; in plan: so far */
    uint32_t form_elements, form_bytes; /* of a block; PLAIN: 1, bytes of dtype */
    int32_t expert; /* of an expert layer: which one; -1: none */
    /* Added to the model by a feature, not by its architecture (an adapter): the entry
     * that it adapts; -1: none. */
    int32_t adapts;
};

struct cadre_pass_args {
    uint32_t struct_size;
    uint32_t chunk;
    uint32_t microbatch; /* 0 .. n_microbatches - 1, on this rank */
    uint32_t what; /* backward: CADRE_PASS_* */
    int32_t next_unit; /* the unit that will run after this call; -1: not known */
    uint32_t pad_;
    /* Boundary activations, boundary_count elements. Forward: `in` is the activation of
     * the previous chunk, NULL for the first; `out` is written with that of this chunk,
     * NULL for the last. Backward INPUT and BOTH: `in` is the gradient of this chunk's
     * output, NULL for the last; `out` is written with the gradient of its input, NULL
     * for the first. Backward WEIGHT: neither is read; NULL. */
    const struct cadre_buf *in;
    const struct cadre_buf *out;
};
#define CADRE_PASS_INPUT 1u /* gradients of inputs: B of zero-bubble schedules */
#define CADRE_PASS_WEIGHT 2u /* gradients of weights: W of zero-bubble schedules */
#define CADRE_PASS_BOTH 3u

/* "cadre.model/1" */
#define CADRE_SERVICE_MODEL "cadre.model/1"
struct cadre_model_svc {
    uint32_t struct_size;
    uint32_t pad_;
    /* [plan, bind, run] */
    uint32_t (*n_params)(struct cadre_ctx *);
    cadre_status (*param)(struct cadre_ctx *, cadre_param_id,
                          struct cadre_param_info *);
    /* [plan] Counted multiply-adds of a unit's forward on one micro-batch. */
    double (*unit_cost)(struct cadre_ctx *, uint32_t unit);
    /* [plan] Measured seconds of a unit's forward and backward on one micro-batch,
     * recompute included, of this rank's part under tensor parallelism; equal on every
     * rank. When it is called, the launcher measures on its own device before any rank
     * starts, and plans again. Until then, and outside of training, it returns 0 and
     * the plugin should use unit_cost. */
    double (*unit_seconds)(struct cadre_ctx *, uint32_t unit);
    /* [step, of the SCHEDULE only] forward takes an activation slot, and backward
     * WEIGHT or BOTH releases it; more than `live` slots at once are refused. In a
     * forward-only step the slot is released at once. Per chunk, backward takes each
     * micro-batch once a step, ascending, INPUT before WEIGHT. */
    cadre_status (*forward)(struct cadre_ctx *, const struct cadre_pass_args *);
    cadre_status (*backward)(struct cadre_ctx *, const struct cadre_pass_args *);
    /* [plan, bind, run] Elements of a boundary activation, `in` and `out` of a pass, on
     * this rank: (batch, time, channels), or this rank's rows of it under seq.shard. */
    uint64_t (*boundary_count)(struct cadre_ctx *);
};

/* "cadre.param/1" [bind, run] unless noted. Storage of a parameter's local part. The
 * model reads its pointer on every pass, so a plugin may attach another buffer in
 * between. */
#define CADRE_SERVICE_PARAM "cadre.param/1"
struct cadre_param_svc {
    uint32_t struct_size;
    uint32_t pad_;
    /* The parameter's values, in their form; out->data is NULL while detached. Where
     * another plugin has said that they are pending, the compute stream waits first. */
    cadre_status (*data)(struct cadre_ctx *, cadre_param_id, struct cadre_buf *out);
    /* Only for parameters with a PARAM range (place_range): sets the full local storage
     * that the model reads; NULL detaches. The plugin keeps ownership of the buffer. */
    cadre_status (*attach)(struct cadre_ctx *, cadre_param_id,
                           const struct cadre_buf *buf);
    /* The gradient; out->data is NULL while detached. */
    cadre_status (*grad)(struct cadre_ctx *, cadre_param_id, struct cadre_buf *out);
    /* Only for parameters with a GRAD range: as attach. The first contribution after
     * attaching overwrites, later ones add. */
    cadre_status (*attach_grad)(struct cadre_ctx *, cadre_param_id,
                                const struct cadre_buf *buf);
    /* One buffer over the gradients of entries first..last, padding included, if they
     * are contiguous in ascending order (whole gradients allocated by the core are,
     * also around frozen entries); else CADRE_E_UNSUPPORTED, which is no refusal.
     * Padding is zero. */
    cadre_status (*grad_span)(struct cadre_ctx *, cadre_param_id first,
                              cadre_param_id last, struct cadre_buf *out);
    /* The core's storage of this rank's range of `kind` (place_range); out->data is
     * NULL where no range was placed and where it is empty. OPT, placed or not: the
     * first moments of AdamW, or SGD's momentum. The storage of a kind,
     * whole or ranges, is contiguous in the order of entries; each entry is padded to
     * the number of elements that 64 bytes of its `dtype` hold. */
    cadre_status (*shard)(struct cadre_ctx *, cadre_param_id, uint32_t kind,
                          struct cadre_buf *out);
    /* [plan too: as placed so far] This rank's range of `kind` in the flat local part,
     * whoever placed it: the whole where nobody did, count 0 where the rank has none.
     * */
    cadre_status (*range)(struct cadre_ctx *, cadre_param_id, uint32_t kind,
                          uint64_t *begin, uint64_t *count);
    /* The values of this rank's OPT range as the optimizer keeps them, in grad_dtype
     * (master values where parameters have 16 bits); .count 0 where it has none. They
     * may be written in sync(UPDATE) and, by a plugin that claims param.diverges, in
     * sync(DRAIN) and in `step` before it calls next. The core rounds them into the
     * parameter; after the last two it raises sync(PARAMS) as well, which distributes
     * them. */
    cadre_status (*owned)(struct cadre_ctx *, cadre_param_id, struct cadre_buf *out);
    /* The values of the parameter are complete after `event` only: whoever reads them
     * (data, the model, an evaluation, a checkpoint) waits for it. */
    cadre_status (*pending)(struct cadre_ctx *, cadre_param_id, cadre_event event);
    /* [step, sync] Of a plugin that reduces, once for each on_grad of the entry that
     * ends a sum (FINAL; with CYCLIC each), in the same order: `sum`, of this rank's
     * GRAD range (of the whole entry where none was placed), holds the sum over its
     * axis after `ready`. The core raises on_grad on the next level, or takes the
     * gradient as reduced. BLOCK and RANGES: sum is the core's storage. CYCLIC: any
     * buffer, which the core has read or the next level has reduced on return; the core
     * adds the sums of a step, in exact mode by the reduction tree. A step in which an
     * entry lacks the report of a level fails. */
    cadre_status (*reduced)(struct cadre_ctx *, cadre_param_id,
                            const struct cadre_buf *sum, cadre_event ready);
    /* Of a plugin that reduces the first moments of AdamW in the place of gradients
     * (1-bit Adam). *decay: that of the first moment; the moments before a step are the
     * shard of CADRE_KIND_OPT. held 0 [plan, bind, run]: asks only. held above 0, below
     * the step [step]: the sums of this step are the first moments after it, which are
     * clipped as gradients are; the second moments stay as they were after `held`
     * updates. Equal on all ranks. CADRE_E_UNSUPPORTED where the optimizer is not
     * AdamW. */
    cadre_status (*moments)(struct cadre_ctx *, uint64_t held, double *decay);
};

/* "cadre.tree/1" [bind, run]: the reduction tree over micro-batches under the RANGES
 * map, where a rank's share is several nodes: which rank of the axis has which. Where
 * ranges change between steps (balance.micro_batches), plan and bind are told of the
 * most nodes of any step, for memory, and the others of those of the step. */
#define CADRE_SERVICE_TREE "cadre.tree/1"
struct cadre_tree_svc {
    uint32_t struct_size;
    uint32_t pad_;
    /* [plan too: as planned so far] Nodes of rank r of the axis; equal on all ranks. At
     * most 2 log2 M. Ask again in each step. 0 where gradients are whole: under another
     * map, or without run.exact. */
    uint32_t (*n_nodes)(const struct cadre_axis *, int32_t rank);
    /* [step, sync] out (count) = the sum of all ranks' nodes in the order of the tree;
     * part: (count) of each node, rank by rank, each rank's in ascending order. */
    cadre_status (*sum)(const struct cadre_axis *, const struct cadre_buf *part,
                        const struct cadre_buf *out);
};

/* "cadre.mem/1" [bind, run]: zeroed memory, accounted under the plugin's name and
 * `tag`, within what `memory` of the plan announced. The host frees what is left after
 * destroy. Memory that is freed in destroy is released later too, since an operation
 * may still use it. */
#define CADRE_SERVICE_MEM "cadre.mem/1"
struct cadre_mem_svc {
    uint32_t struct_size;
    uint32_t pad_;
    void *(*alloc)(struct cadre_ctx *, uint32_t space, uint64_t bytes, const char *tag);
    void (*free)(struct cadre_ctx *, void *);
};

/* "cadre.stream/1" [bind, run]: the compute stream. */
#define CADRE_SERVICE_STREAM "cadre.stream/1"
struct cadre_stream_svc {
    uint32_t struct_size;
    uint32_t pad_;
    cadre_status (*record)(struct cadre_ctx *, cadre_event *out);
    cadre_status (*wait)(struct cadre_ctx *, cadre_event event);
};

/* "cadre.rng/1" [any]: counter-based random numbers, seeded by run.seed. The same
 * (name, element) returns the same bits on every rank and in every order of calls. */
#define CADRE_SERVICE_RNG "cadre.rng/1"
struct cadre_rng_svc {
    uint32_t struct_size;
    uint32_t pad_;
    double (*uniform)(struct cadre_ctx *, const char *name, uint64_t element);
    double (*normal)(struct cadre_ctx *, const char *name, uint64_t element);
};

#ifdef __cplusplus
}
#endif

#include <cadre/comm.h>
#include <cadre/ops.h>

#endif
