/* SPDX-License-Identifier: Apache-2.0 */
/* Services of the host: tables that a plugin takes by id, once, in `create`, and keeps.
 * A table a host does not have is NULL. Thread tags are those of <cadre/strategy.h>. */
#ifndef CADRE_SERVICES_H
#define CADRE_SERVICES_H

#include <cadre/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cadre_ctx; /* the host's view of one plugin instance */
struct cadre_axis; /* a named mesh axis and this rank's group along it */

/* Index of a gradient entry of the model. A tied head is an entry of its own. */
typedef uint32_t cadre_param_id;

struct cadre_host {
    uint32_t struct_size;
    uint16_t abi_major, abi_minor;
    struct cadre_ctx *ctx;
    const void *(*service)(struct cadre_ctx *,
                           const char *id); /* [main] NULL: absent */
    /* [any] Records one line with plugin, rank and phase, and returns the status. */
    cadre_status (*fail)(struct cadre_ctx *, cadre_status, const char *msg);
    /* [any] level: 0 error, 1 warn, 2 info, 3 debug, 4 trace */
    void (*log)(struct cadre_ctx *, int32_t level, const char *msg);
};

/* "cadre.mesh/1" [any]. The axis of an absent name is NULL; a NULL axis has rank 0
 * of 1. */
#define CADRE_SERVICE_MESH "cadre.mesh/1"
struct cadre_mesh_svc {
    uint32_t struct_size;
    uint32_t pad_;
    struct cadre_axis *(*axis)(struct cadre_ctx *, const char *name);
    int32_t (*rank)(const struct cadre_axis *);
    int32_t (*size)(const struct cadre_axis *);
};

/* "cadre.comm/1" [exec]. Operations are posted and return at once with an event; ranks
 * of an axis post the same collectives in the same order. Reductions add in a fixed
 * tree over ranks. `after`: the event that must have happened first. `label` is static
 * text that names the operation when it hangs. Buffers stay the caller's and untouched
 * until done. Offsets have R + 1 ascending entries from 0, equal on all ranks, and are
 * copied. */
#define CADRE_SERVICE_COMM "cadre.comm/1"
struct cadre_comm_svc {
    uint32_t struct_size;
    uint32_t pad_;
    /* out (n) = reduction over ranks of in (n); in and out may be the same buffer */
    cadre_status (*all_reduce)(struct cadre_axis *, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               uint32_t red, cadre_event after, cadre_event *done);
    /* in (offsets[R]); rank r gets the reduced in[offsets[r], offsets[r+1]) in out */
    cadre_status (*reduce_scatter)(struct cadre_axis *, const char *label,
                                   const struct cadre_buf *in,
                                   const struct cadre_buf *out, const uint64_t *offsets,
                                   uint32_t red, cadre_event after, cadre_event *done);
    /* out (offsets[R]); rank r gives in (offsets[r+1] - offsets[r]) */
    cadre_status (*all_gather)(struct cadre_axis *, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               const uint64_t *offsets, cadre_event after,
                               cadre_event *done);
    cadre_status (*broadcast)(struct cadre_axis *, const char *label,
                              const struct cadre_buf *buf, int32_t root,
                              cadre_event after, cadre_event *done);
    /* slice r of in goes to rank r, slice r of out came from rank r; equal slices */
    cadre_status (*all_to_all)(struct cadre_axis *, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               cadre_event after, cadre_event *done);
    /* Matched in order per pair of ranks, with equal dtype and count. A send has
     * happened when the receiver has the data: two ranks that exchange post both before
     * they wait. */
    cadre_status (*send)(struct cadre_axis *, const char *label,
                         const struct cadre_buf *buf, int32_t to, cadre_event after,
                         cadre_event *done);
    cadre_status (*recv)(struct cadre_axis *, const char *label,
                         const struct cadre_buf *buf, int32_t from, cadre_event after,
                         cadre_event *done);
    cadre_status (*barrier)(struct cadre_axis *, const char *label, cadre_event after,
                            cadre_event *done);
    /* The compute stream waits for the event. On the CPU the caller sleeps, and the
     * time is exposed communication; on the axis of schedule.order it is bubble. */
    cadre_status (*stream_wait)(struct cadre_axis *, cadre_event event);
};

struct cadre_param_info {
    uint32_t struct_size;
    uint32_t ndim;
    const char *name; /* canonical; lives as long as the instance */
    uint64_t shape[4]; /* logical */
    uint64_t local[4]; /* of this rank's part */
    uint64_t count; /* elements of the local part */
    uint32_t dtype;
    uint32_t grad_dtype;
    uint32_t unit;
    int32_t tied_to; /* the entry that owns the weight, -1: this one */
    uint32_t split;
    int32_t split_dim;
    uint32_t present; /* this rank runs the unit; in plan: as the SCHEDULE placed it */
    /* under seq.shard, the gradient adds over this rank's rows alone; the
     * claimant sums it over the axis in sync(GRADS), after the data ranks' sums */
    uint32_t partial;
    /* not present, but an entry tied to it is: this rank holds a copy of the values.
     * The core copies what the optimizer does; who changes values otherwise changes the
     * copies too */
    uint32_t copied;
    uint32_t pad_;
};

struct cadre_pass_args {
    uint32_t struct_size;
    uint32_t chunk;
    uint32_t microbatch; /* 0 .. n_microbatches-1 of this rank */
    uint32_t what; /* backward: CADRE_PASS_* */
    int32_t next_unit; /* the unit that will run after this call, -1: not known */
    uint32_t pad_;
    const struct cadre_buf
        *in; /* forward: activation (batch*time, channels), or NULL for
                the first unit; backward: its gradient, NULL for the last */
    const struct cadre_buf
        *out; /* forward: written, NULL for the last unit; backward: the
                 gradient for the previous chunk, NULL for the first */
};
#define CADRE_PASS_INPUT 1u
#define CADRE_PASS_WEIGHT 2u
#define CADRE_PASS_BOTH 3u

/* "cadre.model/1". param and n_params [any]; costs [main]; forward and backward [exec],
 * from `step` of the SCHEDULE only: forward takes an activation slot, backward WEIGHT
 * or BOTH gives it back; more than `live` at once is refused. Backward of a chunk takes
 * the micro-batches in ascending order, INPUT before WEIGHT, and each once a step. */
#define CADRE_SERVICE_MODEL "cadre.model/1"
struct cadre_model_svc {
    uint32_t struct_size;
    uint32_t pad_;
    uint32_t (*n_params)(struct cadre_ctx *);
    cadre_status (*param)(struct cadre_ctx *, cadre_param_id,
                          struct cadre_param_info *);
    /* counted multiply-adds of a unit's forward on one micro-batch */
    double (*unit_cost)(struct cadre_ctx *, uint32_t unit);
    cadre_status (*forward)(struct cadre_ctx *, const struct cadre_pass_args *);
    cadre_status (*backward)(struct cadre_ctx *, const struct cadre_pass_args *);
    /* Measured seconds of a unit's forward and backward on one micro-batch, recompute
     * included, of this rank's part under tensor parallelism; equal on every rank. A
     * plugin that asks in `plan` makes the launcher measure on its own device before
     * any rank starts, and plan again; until then, and outside of training, the answer
     * is 0 and unit_cost must do. [main] */
    double (*unit_seconds)(struct cadre_ctx *, uint32_t unit);
    /* [any] Elements of an activation between chunks on this rank, which `in` and `out`
     * of a pass have: (batch, time, channels), or the rank's rows of it under
     * seq.shard, for which `plan` is asked again */
    uint64_t (*boundary_count)(struct cadre_ctx *);
};

/* "cadre.param/1" [exec], from bind on. Storage of a parameter's local part; ops read
 * the pointer on every call. */
#define CADRE_SERVICE_PARAM "cadre.param/1"
struct cadre_param_svc {
    uint32_t struct_size;
    uint32_t pad_;
    /* the attached buffer; data is NULL while detached */
    cadre_status (*data)(struct cadre_ctx *, cadre_param_id, struct cadre_buf *out);
    /* Only for parameters with a PARAM range of its own: full local storage for the
     * ops; NULL detaches. The buffer stays the plugin's. */
    cadre_status (*attach)(struct cadre_ctx *, cadre_param_id,
                           const struct cadre_buf *buf);
    /* the gradient's buffer; data is NULL while detached */
    cadre_status (*grad)(struct cadre_ctx *, cadre_param_id, struct cadre_buf *out);
    /* Only for parameters with a GRAD range of its own. The first contribution after
     * attaching overwrites, later ones add. */
    cadre_status (*attach_grad)(struct cadre_ctx *, cadre_param_id,
                                const struct cadre_buf *buf);
    /* One buffer over the gradients of entries first..last, padding included, when they
     * lie in one piece in ascending order of address (whole gradients made by the core
     * do); CADRE_E_UNSUPPORTED otherwise. Padding is zero. */
    cadre_status (*grad_span)(struct cadre_ctx *, cadre_param_id first,
                              cadre_param_id last, struct cadre_buf *out);
    /* The core's storage of this rank's own range of a kind (place_range). Whole
     * storage of a kind and ranges of it lie one after another in the order of entries,
     * each padded to as many elements as 64 bytes of its `dtype` hold. data is NULL
     * where no range was placed, and for an empty one. */
    cadre_status (*shard)(struct cadre_ctx *, cadre_param_id, uint32_t kind,
                          struct cadre_buf *out);
    /* Only under the CYCLIC map, once for every on_grad of the entry and in their
     * order: `part` is the micro-batch's gradient of this rank's GRAD range (the whole
     * where none was placed), reduced over the data ranks. The core adds the parts of a
     * step, in exact mode in the tree. Compute stream; part is free again at once. */
    cadre_status (*accumulate)(struct cadre_ctx *, cadre_param_id,
                               const struct cadre_buf *part);
};

/* "cadre.mem/1": zeroed memory, accounted under the plugin's name and tag; what is left
 * is freed after destroy, as is what is freed in it: an operation may still be at work
 * there. [main, exec: bind and after] */
#define CADRE_SERVICE_MEM "cadre.mem/1"
struct cadre_mem_svc {
    uint32_t struct_size;
    uint32_t pad_;
    void *(*alloc)(struct cadre_ctx *, uint32_t space, uint64_t bytes, const char *tag);
    void (*free)(struct cadre_ctx *, void *);
};

/* "cadre.stream/1" [exec]: the compute stream. */
#define CADRE_SERVICE_STREAM "cadre.stream/1"
struct cadre_stream_svc {
    uint32_t struct_size;
    uint32_t pad_;
    cadre_status (*record)(struct cadre_ctx *, cadre_event *out);
    cadre_status (*wait)(struct cadre_ctx *, cadre_event event);
};

/* c (m, n) = op(a) (m, k) * op(b) (k, n) + beta * c, row-major; ta, tb: stored
 * transposed */
struct cadre_gemm_args {
    uint32_t struct_size;
    uint32_t dtype;
    int64_t m, n, k, lda, ldb, ldc;
    const void *a, *b;
    void *c;
    uint32_t ta, tb, beta;
    uint32_t pad_;
};

/* "cadre.ops/1" [exec]: device ops for strategies that compute; on the compute stream.
 */
#define CADRE_SERVICE_OPS "cadre.ops/1"
struct cadre_ops_svc {
    uint32_t struct_size;
    uint32_t pad_;
    cadre_status (*copy)(struct cadre_ctx *, void *dst, const void *src,
                         uint64_t bytes);
    cadre_status (*zero)(struct cadre_ctx *, void *dst, uint64_t bytes);
    /* out = a + b, elementwise; out may be a or b */
    cadre_status (*add)(struct cadre_ctx *, const struct cadre_buf *out,
                        const struct cadre_buf *a, const struct cadre_buf *b);
    cadre_status (*scale)(struct cadre_ctx *, const struct cadre_buf *x, double by);
    cadre_status (*cast)(struct cadre_ctx *, const struct cadre_buf *dst,
                         const struct cadre_buf *src);
    cadre_status (*gemm)(struct cadre_ctx *, const struct cadre_gemm_args *);
    /* values (k, dtype of x) and indices (k, I32): the elements of x of largest
     * magnitude, in order of index; among equals those of lower index. NaN counts as
     * larger than infinity. */
    cadre_status (*topk)(struct cadre_ctx *, const struct cadre_buf *x,
                         const struct cadre_buf *values,
                         const struct cadre_buf *indices);
    /* q (n, I8) = x (n) / scale, rounded to nearest even; scales (ceil(n / block),
     * F32): largest magnitude of each block / 127. A block of zeros has scale 0; one
     * that is not finite has scale NaN and comes back as NaN. */
    cadre_status (*quantize)(struct cadre_ctx *, const struct cadre_buf *x,
                             uint64_t block, const struct cadre_buf *q,
                             const struct cadre_buf *scales);
    /* x (n) = q * scale of its block */
    cadre_status (*dequantize)(struct cadre_ctx *, const struct cadre_buf *q,
                               const struct cadre_buf *scales, uint64_t block,
                               const struct cadre_buf *x);
    /* x[indices[i]] += by * values[i]; values (k, dtype of x), indices (k, I32) differ
     * and lie within x: an error where one does not */
    cadre_status (*scatter_add)(struct cadre_ctx *, const struct cadre_buf *x,
                                const struct cadre_buf *values,
                                const struct cadre_buf *indices, double by);
    /* The columns of x (rows, columns <= rows), row-major, become orthonormal and span
     * what they did; one that is zero or depends on those before it becomes a
     * coordinate's direction. NaN and infinity leave NaN. */
    cadre_status (*orthonormalize)(struct cadre_ctx *, const struct cadre_buf *x,
                                   uint64_t columns);
    /* between device memory and the plugin's own; done on return */
    cadre_status (*to_device)(struct cadre_ctx *, void *dst, const void *host,
                              uint64_t bytes);
    cadre_status (*to_host)(struct cadre_ctx *, void *host, const void *src,
                            uint64_t bytes);
};

/* "cadre.rng/1" [any]: counter-based; the same (name, element) gives the same bits on
 * every rank and in every order, under run.seed. */
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
#endif
