/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the ddp plugin: gradient buckets and the modes in which they are sent.
 *
 * A mode sends a bucket when its last gradient is ready (send), posts a second exchange
 * when the first is done (some modes), and leaves the sum over the ranks in the
 * gradients at the end of the step (finish). All three run on the rank's own thread and
 * post at most one collective. The result for a gradient depends on its own values
 * alone, not on its neighbours in the bucket. So buckets change no bit (except which
 * rank keeps the error of a sum in int8), and a parameter that tensor parallelism
 * replicates stays equal on its ranks. */
#ifndef CADRE_PLUGINS_DDP_H
#define CADRE_PLUGINS_DDP_H

#include <cadre/helpers.h>

#define DDP_NONE UINT32_MAX
#define DDP_KEEPS_RESIDUAL 1u
#define DDP_KEEPS_RIGHT 2u /* and `right` */
#define DDP_BLOCK 64u /* elements that share a scale in int8 */
#define DDP_SIGNS 256u /* elements that share a scale in onebit */

/* The contiguous gradients of entries first..last of the instance's table. */
struct ddp_bucket {
    struct cadre_buf grad;
    uint32_t first, last;
    uint32_t waiting; /* entries without FINAL in this step yet */
    cadre_event ready; /* the latest `ready` of their on_grad events */
    cadre_event done; /* of what was posted last */
    const char *label;
    /* all modes but none */
    struct cadre_buf residual; /* of its entries, each from a whole block on */
    struct cadre_buf left, right; /* payloads that are sent; see each mode */
    uint64_t slice, slice_bytes; /* dense, topk, nodes: elements and bytes of a rank */
};

/* A gradient of this rank: of a present parameter that is trained. */
struct ddp_entry {
    cadre_param_id id;
    struct cadre_param_info info;
    uint32_t apart; /* the entry before it is on another rank, or of experts where
                       this one is not, or the reverse */
    uint32_t alone; /* a plugin has placed a range of it: it has no bucket */
    uint32_t bucket; /* DDP_NONE: it is reduced alone */
    uint32_t final; /* FINAL was raised in this step */
    cadre_event done; /* alone: of its reduction; 0: none in flight */
    struct cadre_buf grad;
    /* compressed modes alone */
    uint64_t at; /* of its residual, in the bucket's */
    struct cadre_buf residual; /* count 0: keeps none */
    uint64_t k; /* topk: elements sent; powersgd: rank, 0: sent whole */
    uint64_t rows, columns; /* powersgd */
    uint64_t left_at, right_at; /* of its part of the payloads */
};

/* Memory of a mode on a rank, in bytes, from the parameters' shapes alone: enough for
 * any buckets, as storage that is not contiguous makes other ones. */
struct ddp_need {
    uint64_t residuals, payloads;
    uint64_t scratch; /* the largest, shared by all */
    uint64_t staging; /* likewise, in host memory */
};

struct ddp_mode {
    const char *name; /* ends with ':' where an argument follows */
    uint32_t wire; /* dense: CADRE_BF16, CADRE_F16, CADRE_I8, or CADRE_U8: signs */
    uint32_t block; /* elements from whose multiple on each residual lies */
    uint32_t keeps; /* DDP_KEEPS_*: from one step to the next */
    uint32_t in_place; /* what is posted last writes the sum into the gradients */
    void (*need)(const struct cadre_self *, struct ddp_need *); /* or NULL */
    cadre_status (*bind)(struct cadre_self *, struct ddp_bucket *); /* or NULL */
    /* nodes: copies the nodes of a gradient, which are lent for the event */
    cadre_status (*take)(struct cadre_self *, struct ddp_bucket *,
                         const struct ddp_entry *, struct cadre_grad_ev *);
    /* onebit: which mode a step has; before send, what its gradients are made into */
    cadre_status (*begin)(struct cadre_self *, uint64_t step, const struct ddp_mode **);
    cadre_status (*prepare)(struct cadre_self *, struct ddp_bucket *);
    cadre_status (*send)(struct cadre_self *, struct ddp_bucket *);
    cadre_status (*second_exchange)(struct cadre_self *,
                                    struct ddp_bucket *); /* or NULL */
    cadre_status (*finish)(struct cadre_self *, struct ddp_bucket *);
};

struct cadre_self {
    const struct cadre_host *host;
    struct cadre_ctx *ctx;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    const struct cadre_mem_svc *mem;
    const struct cadre_stream_svc *stream;
    const struct cadre_ops_svc *ops;
    const struct cadre_rng_svc *rng;
    const struct cadre_tree_svc *tree;
    const struct ddp_mode *mode;
    const struct ddp_mode *now; /* of this step */
    double ratio; /* topk */
    uint64_t rank; /* powersgd */
    uint64_t warmup; /* onebit: steps that are not compressed */
    uint64_t held; /* onebit: updates of the second moments; 0: they are not held yet */
    double decay; /* onebit: of the first moments */
    uint64_t bucket_bytes;
    int overlap;
    uint32_t level; /* of reduction */
    uint32_t node; /* adjacent ranks that make a node; 0: all */
    uint32_t exact; /* run.exact */
    struct cadre_axis *axis;
    uint32_t ranks, index; /* along it */
    struct cadre_axis *inside, *between; /* levels: ranks of a node; of its place in
                                            every node */
    struct ddp_bucket *bucket;
    struct ddp_entry *entry;
    uint32_t *place; /* (n_params) in `entry`; DDP_NONE: no gradient on this rank */
    uint64_t *offsets; /* of collectives, 2 (ranks + 1), while they are posted */
    uint32_t n_buckets, n_entries, n_params;
    uint32_t sent, exchanged_twice,
        finished; /* of this step's buckets: those before these */
    int open; /* a step began and sync(GRADS) has not come */
    int each; /* this step's gradients come one micro-batch at a time (CYCLIC) */
    struct cadre_buf scratch; /* U8; on the compute stream, so one does for all */
    struct cadre_buf staging; /* onebit: host memory, of a slice and its codes */
};

/* ---- bucket.c ---- */

/* The table of this rank's gradients, from their descriptions. [main] Pure: what an
 * earlier call made is replaced. */
cadre_status ddp_entries_list(struct cadre_self *self);
/* The table, and its gradients in buckets. */
cadre_status ddp_buckets_make(struct cadre_self *self);
cadre_status ddp_step(struct cadre_self *self, const struct cadre_step *step,
                      const struct cadre_next *next);
cadre_status ddp_on_grad(struct cadre_self *self, struct cadre_grad_ev *ev);
cadre_status ddp_sync(struct cadre_self *self, const struct cadre_sync *sync);

/* ---- compress.c ---- */

/* Parse ddp.compress into mode, ratio and rank; a wrong value is refused. */
cadre_status ddp_mode_parse(struct cadre_self *self, const char *text);
/* Declare in plan the memory that bind will allocate. */
cadre_status ddp_mode_plan(struct cadre_self *self, const struct cadre_plan *plan);
/* Allocate it for every bucket, and free it. */
cadre_status ddp_mode_bind(struct cadre_self *self);
void ddp_mode_release(struct cadre_self *self);

/* Zeroed device memory for `count` elements under `tag`; refused if there is none. */
cadre_status ddp_take(struct cadre_self *self, uint32_t dtype, uint64_t count,
                      const char *tag, struct cadre_buf *out);
/* Grow the scratch, or the staging, to at least this many bytes. bind only. */
cadre_status ddp_scratch_reserve(struct cadre_self *self, uint64_t bytes);
cadre_status ddp_staging_reserve(struct cadre_self *self, uint64_t bytes);
/* Elements [begin, begin + count) of the scratch as `dtype`. */
struct cadre_buf ddp_scratch(const struct cadre_self *self, uint32_t dtype,
                             uint64_t begin, uint64_t count);
/* `count` elements of `dtype` from byte `at` of a buffer on. */
struct cadre_buf ddp_view(const struct cadre_buf *buf, uint64_t at, uint32_t dtype,
                          uint64_t count);
/* x -= y; y is overwritten. */
cadre_status ddp_subtract(struct cadre_self *self, const struct cadre_buf *x,
                          const struct cadre_buf *y);
cadre_status ddp_copy(struct cadre_self *self, const struct cadre_buf *dst,
                      const struct cadre_buf *src);
/* all_gather of `left`: this rank's slice_bytes, after the work on the stream. */
cadre_status ddp_gather(struct cadre_self *self, struct ddp_bucket *bucket);
/* An event of the compute stream's work so far, as `after` of a collective. */
cadre_status ddp_computed(struct cadre_self *self, cadre_event *out);

static inline uint64_t ddp_round_up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* A collective of the bucket, for its `done`. */
static inline struct cadre_post ddp_post(const struct ddp_bucket *bucket,
                                         cadre_event after)
{
    return cadre_post(bucket->label, CADRE_TRAFFIC_GRAD, after);
}

/* ---- residual.c: error feedback ---- */

/* Memory for the residuals of the bucket's entries: of all, or of those with k > 0. */
cadre_status ddp_residual_bind(struct cadre_self *self, struct ddp_bucket *bucket);
/* residual += gradient, for every entry that keeps one. */
cadre_status ddp_residual_add(struct cadre_self *self, const struct ddp_bucket *bucket);
/* Checkpoints. */
cadre_status ddp_state(struct cadre_self *self, const struct cadre_state_sink *sink);

/* ---- onebit.c: signs of AdamW's first moments ---- */

/* Refuses what the mode cannot do; `decay` is set. plan only. */
cadre_status ddp_onebit_plan(struct cadre_self *self, const struct cadre_plan *plan);
cadre_status ddp_onebit_begin(struct cadre_self *self, uint64_t step,
                              const struct ddp_mode **now);
cadre_status ddp_onebit_prepare(struct cadre_self *self, struct ddp_bucket *bucket);
/* When the second moments were held, for checkpoints. */
cadre_status ddp_onebit_state(struct cadre_self *self,
                              const struct cadre_state_sink *sink);
/* Bytes of n elements, which are whole blocks: their signs, then the scales. */
uint64_t ddp_signs_bytes(uint64_t n);
/* x, elements from `begin` on of the bucket's residual, to and from codes of `room`
 * elements. Each block is mean magnitude times sign; a parameter's last block counts
 * its own elements only, and what pads it is zero. Waits for the device. */
cadre_status ddp_signs_encode(struct cadre_self *self, const struct ddp_bucket *bucket,
                              const struct cadre_buf *x, uint64_t begin,
                              const struct cadre_buf *codes);
cadre_status ddp_signs_decode(struct cadre_self *self, const struct ddp_bucket *bucket,
                              const struct cadre_buf *codes, uint64_t begin,
                              const struct cadre_buf *x);

/* ---- levels.c: sums inside nodes, then between them ---- */

/* Choose this mode where ddp.node makes several nodes of several ranks; refuses what it
 * cannot do. [main] */
cadre_status ddp_levels_plan(struct cadre_self *self, const struct cadre_plan *plan);
/* Sum a gradient that has no bucket, in place, at once; *done: when it is there. */
cadre_status ddp_levels_reduce(struct cadre_self *self, const struct cadre_buf *grad,
                               cadre_event after, cadre_event *done);

/* ---- modes ---- */

extern const struct ddp_mode ddp_mode_none, ddp_mode_bf16, ddp_mode_fp16, ddp_mode_int8,
    ddp_mode_topk, ddp_mode_powersgd, ddp_mode_onebit;
/* In the place of none where sums of micro-batches come as nodes of the reduction
 * tree: RANGES with run.exact. */
extern const struct ddp_mode ddp_mode_nodes;
/* In the place of none with ddp.node. */
extern const struct ddp_mode ddp_mode_levels;

#endif
