/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the zero plugin: the instance, and what its files call of each other.
 *
 *   zero.c       options, plan, bind, descriptor
 *   partition.c  which rank owns which elements
 *   values.c     gathering of parameters: after the update, or around their use
 *   grads.c      reduction of gradients
 *   buffers.c    buffers of both, taken and returned
 *
 * Entries are grouped in two ways. A *block* is consecutive entries in contiguous
 * memory. It is sharded as a whole, so each rank's shard is contiguous too, and one
 * operation without a copy sends either. A *bucket* is reduced by one collective: a
 * block's gradients, or one entry's. Frozen entries have blocks of their own and no
 * bucket. [exec], except partition and plan. */
#ifndef ZERO_H
#define ZERO_H

#include <cadre/helpers.h>

#define ZERO_NONE UINT32_MAX

/* An entry of the model, `at` elements after the start of its block. */
struct zero_entry {
    struct cadre_param_info info;
    /* Of its values as they are stored: a plain parameter has info.count of
     * info.dtype, one in another form bytes of whole blocks. */
    uint64_t count;
    uint32_t dtype;
    uint32_t granule; /* shards begin at multiples of this many elements */
    uint64_t at;
    uint32_t block; /* its own; a tied entry's is its owner's */
    uint32_t bucket; /* ZERO_NONE: no gradient on this rank */
    uint32_t
        held; /* this rank has values of it: it or an entry tied to it is present */
};

struct zero_block {
    cadre_param_id first, last;
    uint64_t count; /* elements from the first to the end of the last, with padding */
    uint64_t *off; /* (R + 1) rank r owns [off[r], off[r + 1]) */
    uint32_t held, pooled; /* pooled: others have its size, so buffers are kept */
    uint32_t frozen; /* never updated */
    uint32_t gathering, attached;
    struct cadre_buf values; /* whole; .data NULL when there is no buffer */
    struct cadre_buf mine;
    cadre_event done;
};

struct zero_bucket {
    cadre_param_id first, last;
    uint64_t count;
    uint64_t *off;
    uint32_t pooled;
    uint32_t waiting; /* entries whose gradient is not ready */
    uint32_t posted, sent; /* in flight; posted in this step or micro-batch */
    struct cadre_buf grad; /* whole; .data NULL when there is no buffer */
    struct cadre_buf mine; /* where the sum of this rank's shard goes */
    cadre_event ready, done;
};

/* A pooled buffer. */
struct zero_spare {
    void *data;
    uint64_t bytes;
};

/* Buffers of one tag: in use and unused. */
struct zero_pool {
    const char *tag;
    uint64_t budget; /* bytes declared in plan; unused buffers are freed above */
    uint64_t held; /* bytes of all */
    struct zero_spare *spare;
    uint32_t n_spare;
};

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    const struct cadre_mem_svc *mem;
    /* options */
    int64_t stage, prefetch;
    uint64_t bucket_bytes;
    int overlap, each; /* each: reduce every micro-batch */
    uint32_t level; /* of reduction */
    uint32_t space; /* of optimizer states */
    /* the shards, made in plan */
    struct cadre_axis *axis;
    uint32_t ranks, me;
    uint32_t n_entries, n_blocks, n_buckets, n_units;
    struct zero_entry *entry;
    struct zero_block *block;
    struct zero_bucket *bucket;
    uint64_t *offsets; /* storage of every off */
    unsigned char *needed; /* (n_units, n_blocks) the unit's values are in the block */
    /* the current step */
    struct zero_pool values, grads, parts;
    uint32_t
        *flight; /* ring (n_buckets + 1): buckets in flight, in the order of posting */
    uint32_t last_unit; /* whose backward began last */
    int open; /* a step began and sync(GRADS) has not come */
    uint64_t n_posted, n_joined, last_pass; /* of buckets; posted before this pass */
};

/* ---- partition.c ---- */

/* The tables of entries, blocks and buckets from cadre.model and the plan's unit.
 * [main] Replaces what an earlier call made. */
cadre_status cadre_zero_partition(struct cadre_self *self, uint64_t range_unit);
void cadre_zero_release_partition(struct cadre_self *self);

/* First element of rank r's range of an entry; for r = R the end of the last. */
uint64_t cadre_zero_begin(const struct cadre_self *self, cadre_param_id id, uint32_t r);

/* ---- values.c ---- */

/* Does this rank run every unit? Else a schedule divides them. */
int cadre_zero_runs_all(const struct cadre_self *self);
/* Most bytes of gathered parameters at any time, of stage 3. */
uint64_t cadre_zero_values_bytes(const struct cadre_self *self);
cadre_status cadre_zero_values_bind(struct cadre_self *self);
/* Stages 1 and 2: all_gather of the updated shards; in flight on return unless overlap
 * is off. */
cadre_status cadre_zero_all_gather_updated(struct cadre_self *self);
/* Wait for the unit's parameters; post the gathers of the units after `unit`. */
cadre_status cadre_zero_values_use(struct cadre_self *self, uint32_t unit,
                                   int32_t next);
/* The unit was run: free what the next ones do not need. */
cadre_status cadre_zero_values_release(struct cadre_self *self, uint32_t unit,
                                       int32_t next);
/* Nothing in flight; stage 3 keeps nothing gathered. */
cadre_status cadre_zero_values_settle(struct cadre_self *self);

/* ---- grads.c ---- */

/* Most bytes of gradient buffers at any time, where a rank runs n micro-batches; or of
 * this rank's shards of them. */
uint64_t cadre_zero_grads_bytes(const struct cadre_self *self, uint64_t n, int parts);
cadre_status cadre_zero_grads_bind(struct cadre_self *self);
void cadre_zero_grads_begin_step(struct cadre_self *self);
/* Backward of a unit begins: its gradients have storage. */
cadre_status cadre_zero_grads_open(struct cadre_self *self, uint32_t unit);
cadre_status cadre_zero_grads_take(struct cadre_self *self, struct cadre_grad_ev *ev);
/* Every gradient of the step is reduced. */
cadre_status cadre_zero_grads_settle(struct cadre_self *self);
/* Nothing in flight. */
cadre_status cadre_zero_grads_join(struct cadre_self *self);

/* ---- buffers.c ---- */

/* Consecutive entries that one operation sends, as the core stores them. */
struct zero_run {
    cadre_param_id first, last;
    uint64_t at; /* of the first, in its block */
    uint64_t count; /* elements, with padding */
    const uint64_t *off; /* (R + 1) rank r owns [off[r], off[r + 1]) */
    uint32_t dtype, kind; /* CADRE_KIND_PARAM or _GRAD */
    int part; /* 1: this rank keeps its shard only */
    const char *what; /* for messages */
};

/* Find the entries' storage: *whole, with .data NULL where only the shard is kept, and
 * *mine, this rank's shard. Refused where the entries are not contiguous. */
cadre_status cadre_zero_find(struct cadre_self *self, const struct zero_run *run,
                             struct cadre_buf *whole, struct cadre_buf *mine);

/* `count` elements in *buf. */
cadre_status cadre_zero_buffer_take(struct cadre_self *self, struct zero_pool *pool,
                                    uint64_t count, uint32_t dtype,
                                    struct cadre_buf *buf);
/* Return it; keep: it is pooled for the next use of its size. */
void cadre_zero_buffer_give(struct cadre_self *self, struct zero_pool *pool,
                            struct cadre_buf *buf, uint32_t keep);

#endif
