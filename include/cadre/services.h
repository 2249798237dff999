/* SPDX-License-Identifier: Apache-2.0 */
/* Services of the host: function tables that a plugin looks up by id once, in `create`,
 * and keeps. The table of a service that the host lacks is NULL. For thread tags such
 * as [exec] see <cadre/strategy.h>. */
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
    /* [main] The table of a service; NULL: absent. */
    const void *(*service)(struct cadre_ctx *, const char *id);
    /* [any] Records `msg`, one line, with plugin, rank and phase; returns status. */
    cadre_status (*fail)(struct cadre_ctx *, cadre_status, const char *msg);
    /* [any] level: 0 error, 1 warn, 2 info, 3 debug, 4 trace */
    void (*log)(struct cadre_ctx *, int32_t level, const char *msg);
};

/* "cadre.mesh/1" [any]. `axis` returns NULL for an unknown name; a NULL axis has rank 0
 * and size 1. */
#define CADRE_SERVICE_MESH "cadre.mesh/1"
struct cadre_mesh_svc {
    uint32_t struct_size;
    uint32_t pad_;
    struct cadre_axis *(*axis)(struct cadre_ctx *, const char *name);
    int32_t (*rank)(const struct cadre_axis *);
    int32_t (*size)(const struct cadre_axis *);
};

/* "cadre.comm/1" [exec]: collectives and point-to-point transfers over the R ranks of
 * an axis. All are asynchronous: a call posts the operation and returns at once. All
 * ranks of an axis must post the same collectives in the same order.
 *   after   the operation starts once this event has happened
 *   done    out: the event after which the operation is complete. Until then the caller
 *           must neither write nor free the buffers, nor read `out`
 *   label   static text that names the operation in reports of hangs
 *   red     CADRE_SUM or CADRE_MAX, over a fixed tree of the ranks
 *   offsets R + 1 ascending entries in elements, from 0, equal on all ranks; copied by
 *           the call
 * Counts of elements are in parentheses. */
#define CADRE_SERVICE_COMM "cadre.comm/1"
struct cadre_comm_svc {
    uint32_t struct_size;
    uint32_t pad_;
    /* out (n) = reduction of in (n) over the ranks; out may be in */
    cadre_status (*all_reduce)(struct cadre_axis *, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               uint32_t red, cadre_event after, cadre_event *done);
    /* in (offsets[R]); out of rank r = the reduced in[offsets[r], offsets[r+1]) */
    cadre_status (*reduce_scatter)(struct cadre_axis *, const char *label,
                                   const struct cadre_buf *in,
                                   const struct cadre_buf *out, const uint64_t *offsets,
                                   uint32_t red, cadre_event after, cadre_event *done);
    /* out (offsets[R]) = in of all ranks; in of rank r (offsets[r+1] - offsets[r]) */
    cadre_status (*all_gather)(struct cadre_axis *, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               const uint64_t *offsets, cadre_event after,
                               cadre_event *done);
    /* buf: read on rank `root`, written on the others */
    cadre_status (*broadcast)(struct cadre_axis *, const char *label,
                              const struct cadre_buf *buf, int32_t root,
                              cadre_event after, cadre_event *done);
    /* R equal slices: slice r of in goes to rank r, slice r of out comes from rank r */
    cadre_status (*all_to_all)(struct cadre_axis *, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               cadre_event after, cadre_event *done);
    /* Sends and receives are matched in order per pair of ranks, with equal dtype and
     * count. A send is done when the receiver has the data: two ranks that exchange
     * buffers must post both operations before they wait. */
    cadre_status (*send)(struct cadre_axis *, const char *label,
                         const struct cadre_buf *buf, int32_t to, cadre_event after,
                         cadre_event *done);
    cadre_status (*recv)(struct cadre_axis *, const char *label,
                         const struct cadre_buf *buf, int32_t from, cadre_event after,
                         cadre_event *done);
    cadre_status (*barrier)(struct cadre_axis *, const char *label, cadre_event after,
                            cadre_event *done);
    /* Work that is queued on the compute stream from now on runs after the event. On
     * the CPU the caller blocks. The time waited counts as exposed communication; on
     * the axis of schedule.order as bubble. */
    cadre_status (*stream_wait)(struct cadre_axis *, cadre_event event);
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
    uint32_t split; /* CADRE_SHARD_*, over the tensor axis */
    int32_t split_dim; /* dimension of `shape` that is sharded */
    uint32_t present; /* this rank runs the unit; in plan: as the SCHEDULE placed it */
    /* Under seq.shard: the gradient is the sum over this rank's rows only. The plugin
     * that claims seq.shard sums it over the axis in sync(GRADS), after the data ranks
     * have summed. */
    uint32_t partial;
    /* Not present, but an entry tied to it is: this rank holds a copy of the values.
     * The core updates the copy after the optimizer; a plugin that changes values
     * itself must change the copies too. */
    uint32_t copied;
    uint32_t pad_;
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
     * NULL for the last. Backward: `in` is the gradient of this chunk's output, NULL
     * for the last; `out` is written with the gradient of its input, NULL for the
     * first. */
    const struct cadre_buf *in;
    const struct cadre_buf *out;
};
#define CADRE_PASS_INPUT 1u /* gradients of inputs: B of zero-bubble schedules */
#define CADRE_PASS_WEIGHT 2u /* gradients of weights: W of zero-bubble schedules */
#define CADRE_PASS_BOTH 3u

/* "cadre.model/1". param and n_params [any]; costs [main]; forward and backward [exec],
 * from `step` of the SCHEDULE only. forward takes an activation slot, and backward
 * WEIGHT or BOTH releases it; more than `live` slots at once are refused. Per chunk,
 * backward takes each micro-batch once a step, ascending, INPUT before WEIGHT. */
#define CADRE_SERVICE_MODEL "cadre.model/1"
struct cadre_model_svc {
    uint32_t struct_size;
    uint32_t pad_;
    uint32_t (*n_params)(struct cadre_ctx *);
    cadre_status (*param)(struct cadre_ctx *, cadre_param_id,
                          struct cadre_param_info *);
    /* [main] Counted multiply-adds of a unit's forward on one micro-batch. */
    double (*unit_cost)(struct cadre_ctx *, uint32_t unit);
    cadre_status (*forward)(struct cadre_ctx *, const struct cadre_pass_args *);
    cadre_status (*backward)(struct cadre_ctx *, const struct cadre_pass_args *);
    /* [main] Measured seconds of a unit's forward and backward on one micro-batch,
     * recompute included, of this rank's part under tensor parallelism; equal on every
     * rank. If a plugin calls it in `plan`, the launcher measures on its own device
     * before any rank starts, and plans again. Until then, and outside of training, it
     * returns 0 and the plugin should use unit_cost. */
    double (*unit_seconds)(struct cadre_ctx *, uint32_t unit);
    /* [any] Elements of a boundary activation, `in` and `out` of a pass, on this rank:
     * (batch, time, channels), or this rank's rows of it under seq.shard, for which
     * `plan` is called again. */
    uint64_t (*boundary_count)(struct cadre_ctx *);
};

/* "cadre.param/1" [exec], from bind on. Storage of a parameter's local part. The model
 * reads its pointer on every pass, so a plugin may attach another buffer in between. */
#define CADRE_SERVICE_PARAM "cadre.param/1"
struct cadre_param_svc {
    uint32_t struct_size;
    uint32_t pad_;
    /* The parameter's values; out->data is NULL while detached. */
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
     * are contiguous in ascending order (whole gradients allocated by the core are);
     * else CADRE_E_UNSUPPORTED. Padding is zero. */
    cadre_status (*grad_span)(struct cadre_ctx *, cadre_param_id first,
                              cadre_param_id last, struct cadre_buf *out);
    /* The core's storage of this rank's range of `kind` (place_range); out->data is
     * NULL where no range was placed and where it is empty. The storage of a kind,
     * whole or ranges, is contiguous in the order of entries; each entry is padded to
     * the number of elements that 64 bytes of its `dtype` hold. */
    cadre_status (*shard)(struct cadre_ctx *, cadre_param_id, uint32_t kind,
                          struct cadre_buf *out);
    /* CYCLIC map only; called once for each on_grad of the entry, in the same order.
     * `part`: the gradient of the micro-batch, reduced over the data ranks, of this
     * rank's GRAD range (of the whole entry where none was placed). The core adds the
     * parts of a step; in exact mode by the reduction tree. Runs on the compute stream;
     * `part` may be reused at once by work on that stream. */
    cadre_status (*accumulate)(struct cadre_ctx *, cadre_param_id,
                               const struct cadre_buf *part);
};

/* "cadre.mem/1" [main, exec], from bind on: zeroed memory, accounted under the plugin's
 * name and `tag`. The host frees what is left after destroy. Memory that is freed in
 * destroy is released later too, since an operation may still use it. */
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

/* c (m, n) = op(a) (m, k) * op(b) (k, n) + beta * c, row-major; ta, tb: 1 where a or b
 * is stored transposed */
struct cadre_gemm_args {
    uint32_t struct_size;
    uint32_t dtype;
    int64_t m, n, k, lda, ldb, ldc;
    const void *a, *b;
    void *c;
    uint32_t ta, tb, beta;
    uint32_t pad_;
};

/* "cadre.ops/1" [exec]: device operations, queued on the compute stream. Pointers and
 * buffers are in device memory. */
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
    /* values (k, dtype of x) and indices (k, I32): the k elements of x of largest
     * magnitude, in ascending order of index; among equals those of lower index. NaN
     * counts as larger than infinity. */
    cadre_status (*topk)(struct cadre_ctx *, const struct cadre_buf *x,
                         const struct cadre_buf *values,
                         const struct cadre_buf *indices);
    /* q (n, I8) = x (n) / scale, rounded to nearest even; scales (ceil(n / block),
     * F32): largest magnitude of each block / 127. A block of zeros has scale 0; one
     * that is not finite has scale NaN and is dequantized to NaN. */
    cadre_status (*quantize)(struct cadre_ctx *, const struct cadre_buf *x,
                             uint64_t block, const struct cadre_buf *q,
                             const struct cadre_buf *scales);
    /* x (n) = q * scale of its block */
    cadre_status (*dequantize)(struct cadre_ctx *, const struct cadre_buf *q,
                               const struct cadre_buf *scales, uint64_t block,
                               const struct cadre_buf *x);
    /* x[indices[i]] += by * values[i]; values (k, dtype of x), indices (k, I32), which
     * must be distinct; an index outside of x is an error */
    cadre_status (*scatter_add)(struct cadre_ctx *, const struct cadre_buf *x,
                                const struct cadre_buf *values,
                                const struct cadre_buf *indices, double by);
    /* Orthonormalizes the columns of x (rows, columns), row-major, columns <= rows, in
     * place; their span is kept. A column that is zero or depends linearly on those
     * before it is replaced by a unit vector. NaN and infinity give NaN. */
    cadre_status (*orthonormalize)(struct cadre_ctx *, const struct cadre_buf *x,
                                   uint64_t columns);
    /* copies between device memory and the plugin's host memory; done on return */
    cadre_status (*to_device)(struct cadre_ctx *, void *dst, const void *host,
                              uint64_t bytes);
    cadre_status (*to_host)(struct cadre_ctx *, void *host, const void *src,
                            uint64_t bytes);
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
#endif
