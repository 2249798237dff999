/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the ddp plugin: buckets of gradients, and the ways in which they travel.
 *
 * A mode sends a bucket when its last gradient has come (send), goes on with it when
 * the first exchange is over (second exchange, some modes), and leaves the sum over the
 * ranks in the gradients at the end of the step (finish). All three run on the rank's
 * own thread and post at most one collective. What happens to a gradient depends on its
 * own values alone, never on its neighbours in the bucket: so buckets change no bit
 * (but for which rank keeps the error of a sum in int8), and a parameter that tensor
 * parallelism repeats on several ranks stays the same on them. */
#ifndef CADRE_PLUGINS_DDP_H
#define CADRE_PLUGINS_DDP_H

#include <cadre/helpers.h>

#define DDP_NO_BUCKET UINT32_MAX
#define DDP_KEEPS_RESIDUAL 1u
#define DDP_KEEPS_RIGHT 2u /* and `right` */
#define DDP_BLOCK 64u /* elements that share a scale in int8 */

/* Gradients of entries first..last in one piece. */
struct ddp_bucket {
    struct cadre_buf grad;
    cadre_param_id first, last;
    uint32_t waiting; /* entries whose FINAL has not come in this step */
    cadre_event ready; /* the latest that came with them */
    cadre_event done; /* of what was posted last */
    const char *label;
    /* compressed modes alone */
    struct cadre_buf residual; /* of its entries, each from a whole block on */
    struct cadre_buf left, right; /* what travels; see each mode */
    uint64_t slice, slice_bytes; /* dense, topk: elements and bytes of one rank */
};

/* A gradient. */
struct ddp_entry {
    uint32_t bucket; /* DDP_NO_BUCKET: not on this rank */
    uint32_t final; /* came in this step */
    struct cadre_buf grad;
    /* compressed modes alone */
    uint64_t at; /* of its residual, in the bucket's */
    struct cadre_buf residual; /* count 0: keeps none */
    uint64_t k; /* topk: elements that travel; powersgd: rank, 0: as it is */
    uint64_t rows, columns; /* powersgd */
    uint64_t left_at, right_at; /* of its part of what travels */
};

/* What a mode takes on a rank, in bytes; from the parameters' shapes alone, the last
 * one first, as buckets fill. */
struct ddp_need {
    uint64_t residuals, payloads;
    uint64_t bucket; /* dense: gradients in the bucket that is being filled */
    uint64_t scratch; /* the largest, shared by all */
};

struct ddp_mode {
    const char *name; /* with ':' where an argument follows */
    uint32_t wire; /* dense: CADRE_BF16, CADRE_F16 or CADRE_I8 */
    uint32_t keeps; /* DDP_KEEPS_*: from one step to the next */
    void (*need)(const struct cadre_self *, const struct cadre_param_info *,
                 struct ddp_need *);
    cadre_status (*bind)(struct cadre_self *, struct ddp_bucket *);
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
    const struct ddp_mode *mode;
    double ratio; /* topk */
    uint64_t rank; /* powersgd */
    uint64_t bucket_bytes;
    int overlap;
    struct cadre_axis *axis;
    uint32_t ranks, index; /* along it */
    struct ddp_bucket *bucket;
    struct ddp_entry *entry;
    uint64_t *offsets; /* of all_gather; ranks + 1, while it is posted */
    uint32_t n_buckets, n_entries;
    uint32_t sent, exchanged_twice,
        finished; /* of this step's buckets: those before these */
    int open; /* a step began and sync(GRADS) has not come */
    struct cadre_buf scratch; /* U8; on the compute stream, so one does for all */
};

/* ---- bucket.c ---- */

/* Group the gradients of this rank. Nothing is allocated but the two tables. */
cadre_status ddp_buckets_make(struct cadre_self *self);
cadre_status ddp_step(struct cadre_self *self, const struct cadre_step *step,
                      const struct cadre_next *next);
cadre_status ddp_on_grad(struct cadre_self *self, struct cadre_grad_ev *ev);
cadre_status ddp_sync(struct cadre_self *self, uint32_t what);

/* ---- compress.c ---- */

/* Read ddp.compress into mode, ratio and rank; refused in words otherwise. */
cadre_status ddp_mode_parse(struct cadre_self *self, const char *text);
/* State in plan what bind will take. */
cadre_status ddp_mode_plan(struct cadre_self *self, const struct cadre_plan *plan);
/* Take it, for every bucket, and give it back. */
cadre_status ddp_mode_bind(struct cadre_self *self);
void ddp_mode_release(struct cadre_self *self);

/* Zeroed device memory for `count` elements under `tag`; refused in words where there
 * is none. */
cadre_status ddp_take(struct cadre_self *self, uint32_t dtype, uint64_t count,
                      const char *tag, struct cadre_buf *out);
/* Scratch grows to hold this many bytes. bind only. */
cadre_status ddp_scratch_reserve(struct cadre_self *self, uint64_t bytes);
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
/* left: this rank's slice_bytes, all that the stream has computed, go to all ranks. */
cadre_status ddp_gather(struct cadre_self *self, struct ddp_bucket *bucket);
/* The point that the compute stream has reached, for a collective to come after. */
cadre_status ddp_computed(struct cadre_self *self, cadre_event *out);

static inline uint64_t ddp_round_up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static inline uint64_t ddp_bytes(const struct cadre_buf *buf)
{
    return buf->count * cadre_dtype_size(buf->dtype);
}

/* ---- residual.c: what did not travel is added to the next gradient ---- */

/* Room for the residuals of the bucket's entries: of all, or of those with k > 0. */
cadre_status ddp_residual_bind(struct cadre_self *self, struct ddp_bucket *bucket);
/* residual += gradient, for every entry that keeps one. */
cadre_status ddp_residual_add(struct cadre_self *self, const struct ddp_bucket *bucket);
/* Checkpoints. */
cadre_status ddp_state(struct cadre_self *self, const struct cadre_state_sink *sink);

/* ---- modes ---- */

extern const struct ddp_mode ddp_mode_none, ddp_mode_bf16, ddp_mode_fp16, ddp_mode_int8,
    ddp_mode_topk, ddp_mode_powersgd;

#endif
