/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the zero plugin: the instance, and what its files call of each other.
 *
 *   zero.c       options, plan, bind, descriptor
 *   partition.c  which rank owns which elements
 *   values.c     gathering of parameters: after the update, or around their use
 *   grads.c      reduction of gradients
 *   buffers.c    buffers of both, taken and returned
 *   nodes.c      the ranks of the axis in nodes
 *   levels.c     reductions and gathers inside nodes, then between, or the other way
 *   secondary.c  hpZ: shards inside a node, for the gathers after the first
 *   codec.c      values in int8 blocks; qwZ: gathers that send them
 *   quantized.c  qgZ: reduction of gradients that sends them
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
    uint64_t *off; /* (R + 1) the rank of slot s owns [off[s], off[s + 1]) */
    uint32_t held, pooled; /* pooled: others have its size, so buffers are kept */
    uint32_t frozen; /* never updated */
    uint32_t gathering, attached;
    struct cadre_buf values; /* whole; .data NULL when there is no buffer */
    struct cadre_buf mine;
    cadre_event done;
    struct cadre_axis *along; /* what is gathered over, while gathering */
    struct cadre_buf kept; /* the secondary shard */
    uint32_t fresh; /* which has the values of now */
};

struct zero_bucket {
    cadre_param_id first, last;
    uint64_t count;
    uint64_t *off; /* as a block's */
    uint32_t pooled;
    uint32_t waiting; /* entries whose gradient is not ready */
    uint32_t posted, sent; /* in flight; posted in this step or micro-batch */
    struct cadre_buf grad; /* whole; .data NULL when there is no buffer */
    struct cadre_buf mine; /* where the sum of this rank's shard goes */
    cadre_event ready, done;
    struct cadre_buf codes; /* quantized: sent and received, while in flight */
    uint32_t hop; /* which is in flight */
};

/* An exchange of quantized gradients: over all ranks, or inside nodes, then between. */
struct zero_hop {
    struct cadre_axis *axis;
    uint32_t size, me;
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
    const struct cadre_ops_svc *ops; /* these two with secondary shards or codes only */
    const struct cadre_stream_svc *stream;
    /* options */
    int64_t stage, prefetch;
    uint64_t bucket_bytes;
    int overlap, each; /* each: reduce every micro-batch */
    uint32_t level; /* of reduction */
    uint32_t space; /* of optimizer states */
    uint32_t node; /* ranks of a node; 0: all */
    int by_levels; /* reductions and gathers go by nodes */
    int secondary; /* ranks of a node keep secondary shards */
    int coded_values, coded_grads; /* gathers and reductions send int8 */
    /* the shards, made in plan */
    struct cadre_axis *axis;
    uint32_t ranks, me;
    uint32_t slot; /* which of the ranges that a block is cut into is this rank's */
    uint32_t n_entries, n_blocks, n_buckets, n_units;
    struct zero_entry *entry;
    struct zero_block *block;
    struct zero_bucket *bucket;
    uint64_t *offsets; /* storage of every off */
    unsigned char *needed; /* (n_units, n_blocks) the unit's values are in the block */
    /* ranks of this node, and those of its place in every node; set where two_levels */
    int two_levels;
    struct zero_hop inside, between;
    int levels; /* by_levels, and nodes of several ranks */
    uint64_t *inside_off, *between_off; /* (hop's size + 1) of an operation, while it is
                                           posted; in one allocation */
    struct zero_hop hop[2]; /* of quantized gradients */
    uint32_t n_hops;
    void *scratch; /* a shard, dequantized */
    /* the current step */
    struct zero_pool values, grads, parts, codes;
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

/* First element of an entry's range in a slot; for slot R the end of the last. */
uint64_t cadre_zero_begin(const struct cadre_self *self, cadre_param_id id,
                          uint32_t slot);

/* ---- nodes.c ---- */

/* Do the options of nodes and codes fit the stage and each other? [main] */
cadre_status cadre_zero_nodes_check(const struct cadre_self *self);
/* Split the axis where there are several nodes. [main] Refuses nodes that do not divide
 * the ranks. */
cadre_status cadre_zero_nodes_plan(struct cadre_self *self,
                                   const struct cadre_plan *plan);

/* ---- levels.c ---- */

/* The slot of this rank: its own number, or with levels such that those of a place in
 * all nodes lie side by side. */
uint32_t cadre_zero_slot(const struct cadre_self *self);
/* Post the reduction of a bucket, as self->levels. */
cadre_status cadre_zero_levels_reduce(struct cadre_self *self,
                                      struct zero_bucket *bucket);
/* Post the gather of a block over all ranks. `label` is static. */
cadre_status cadre_zero_levels_gather(struct cadre_self *self, struct zero_block *block,
                                      const char *label);

/* ---- secondary.c ---- */

/* Are secondary shards kept? Where all ranks are one node, shards are those already. */
int cadre_zero_secondary_on(const struct cadre_self *self);
uint64_t cadre_zero_secondary_bytes(const struct cadre_self *self);
cadre_status cadre_zero_secondary_bind(struct cadre_self *self);
/* Post the gather of a block whose secondary shards are fresh. */
cadre_status cadre_zero_secondary_gather(struct cadre_self *self,
                                         struct zero_block *block);
/* The block is gathered: keep this rank's secondary shard of it. */
cadre_status cadre_zero_secondary_keep(struct cadre_self *self,
                                       struct zero_block *block);
/* Values were updated: the next gathers are over all ranks. */
void cadre_zero_secondary_forget(struct cadre_self *self);

/* ---- codec.c ---- */

/* Bytes of n values in blocks: codes, filled up to 4 bytes, and a scale a block. */
uint64_t cadre_zero_code_bytes(uint64_t n);
/* Into, or out of, that many bytes at `codes`, a multiple of 4. */
cadre_status cadre_zero_encode(struct cadre_self *self, const struct cadre_buf *x,
                               void *codes);
cadre_status cadre_zero_decode(struct cadre_self *self, void *codes,
                               const struct cadre_buf *x);
/* A shard before it is encoded, or after it was decoded. */
uint64_t cadre_zero_scratch_bytes(const struct cadre_self *self);
cadre_status cadre_zero_scratch_bind(struct cadre_self *self);
/* Most bytes of the codes of gathers in flight. */
uint64_t cadre_zero_codes_bytes(struct cadre_self *self);
/* The ops of wire.codec. */
uint64_t cadre_zero_wire_bytes(struct cadre_self *self, uint32_t kind, uint32_t dtype,
                               uint64_t n);
cadre_status cadre_zero_wire(struct cadre_self *self, const struct cadre_wire_ev *ev);

/* ---- quantized.c ---- */

/* Most bytes of codes in flight. */
uint64_t cadre_zero_quantized_bytes(const struct cadre_self *self);
/* Post the first exchange of a bucket. Sums are made in its `grad`. */
cadre_status cadre_zero_quantized_send(struct cadre_self *self,
                                       struct zero_bucket *bucket);
/* Between two exchanges: wait for the first, post the second. */
cadre_status cadre_zero_quantized_advance(struct cadre_self *self,
                                          struct zero_bucket *bucket);
/* Wait for the last exchange; the sum is in `mine` after `done`. */
cadre_status cadre_zero_quantized_finish(struct cadre_self *self,
                                         struct zero_bucket *bucket);

/* ---- values.c ---- */

/* Does the unit need the block? */
int cadre_zero_needs(const struct cadre_self *self, uint32_t unit, uint32_t block);

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
    const uint64_t *off; /* as a block's */
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
