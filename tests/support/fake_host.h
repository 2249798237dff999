/* SPDX-License-Identifier: Apache-2.0 */
/* A host for one plugin instance: one rank without a model, other ranks or threads. It
 * answers by its settings and records what the plugin did. An operation is carried out
 * when it is waited for. Every rank is assumed to hold the same gradients, so a sum
 * multiplies by the ranks; rank r contributes r + 1 to a gather. `on_post` and
 * `on_stream_wait` play other ranks instead. What breaks the contract of
 * <cadre/services.h> fails the running test, or is refused where the real host refuses
 * it. */
#ifndef CADRE_TESTS_FAKE_HOST_H
#define CADRE_TESTS_FAKE_HOST_H

#include <stdbool.h>

#include <cadre/strategy.h>

#include "core/device/device.h"

#define FAKE_ENTRIES 160
#define FAKE_POSTS 4096
#define FAKE_BLOCKS 512
#define FAKE_MAP 65
#define FAKE_RANKS 8
#define FAKE_NODES 8 /* of the reduction tree, of a rank */
#define FAKE_TAGS 8
#define FAKE_PAD 16u /* elements between entries are filled up to; range_unit */
#define FAKE_EVENT 1000u /* of the post before the first */
#define FAKE_NOW 7u /* what the compute stream records */

enum fake_kind {
    FAKE_ALL_REDUCE = 1,
    FAKE_REDUCE_SCATTER,
    FAKE_ALL_GATHER,
    FAKE_ALL_TO_ALL,
    FAKE_ALL_TO_ALL_V,
    FAKE_SEND,
    FAKE_RECV,
};

/* The ABI's opaque types. */
struct cadre_ctx {
    struct cadre_device *device; /* of cadre.ops, or NULL */
};
struct cadre_axis {
    char name[CADRE_AXIS_CHARS];
    int size, index;
};

/* An operation; its event is FAKE_EVENT + 1 + its place. */
struct fake_post {
    uint32_t kind, red;
    uint32_t traffic; /* CADRE_TRAFFIC_* */
    const char *label;
    struct cadre_buf in, out; /* equal for send and recv */
    uint64_t offsets[FAKE_RANKS + 1]; /* of what is divided; of out for ALL_TO_ALL_V */
    uint64_t in_offsets[FAKE_RANKS + 1]; /* of ALL_TO_ALL_V */
    int32_t peer;
    cadre_event after;
    bool done;
    void *in_copy, *result; /* of on_post, freed with the record */
};

struct fake_range {
    bool placed;
    uint64_t begin, count;
    uint32_t space;
};

struct fake_entry {
    /* settings */
    const char *name;
    uint64_t count, columns; /* columns 0: a vector */
    uint32_t unit;
    int32_t tied_to;
    bool absent;
    bool separate; /* not contiguous with its neighbours */
    bool detached; /* no storage */
    bool silent; /* raises no gradient */
    bool partial;
    bool frozen; /* has no gradient */
    uint32_t form; /* CADRE_FORM_PLAIN or _INT8 */

    /* recorded */
    struct fake_range range[4]; /* by CADRE_KIND_* */
    float *shard[4]; /* the host's */
    float *data, *grad; /* in use now */
    bool to_come;
    uint32_t parts; /* reduced, of the CYCLIC map */
    uint32_t owed, reports; /* sums to be reported in this step, and all reported */
    struct cadre_buf sum; /* reported last */
    cadre_event sum_ready;
    cadre_event pending; /* until it is waited for */
    int posts; /* when its last gradient had been given */
    cadre_event ready, ready_after; /* of that event: before and after the plugin */
    void *node[FAKE_NODES]; /* RANGES: sums of this rank's nodes; freed with the step */
};

struct fake_host {
    struct cadre_ctx ctx; /* first: services find the host by it */
    struct cadre_axis axis; /* by its name, index and size; size 0: there is none */
    struct cadre_host host;
    struct cadre_values values;
    struct cadre_plan plan; /* ranks, rank and axis are set by fake_start */
    const struct cadre_strategy_ops *ops;
    struct cadre_self *self;

    /* settings */
    struct {
        const char *id;
        const void *table;
    } service[12];
    struct {
        char key[32], text[64];
    } option[16];
    uint32_t dtype; /* F32 or F64 */
    uint32_t n_entries, n_units, micro_batches;
    struct fake_entry entry[FAKE_ENTRIES];
    cadre_param_id order[FAKE_ENTRIES]; /* of gradients within a unit */
    bool torn; /* storage is not contiguous */
    bool singly; /* a wait completes one operation, not the earlier ones too */
    bool repeated; /* waits for event 0 and repeated waits pass uncounted */
    /* The map of micro-batches that another plugin asks for; 0: none does. With RANGES,
     * rank r runs [first[r], first[r + 1]), a power of two of them all together. */
    uint32_t other_map;
    uint64_t first[FAKE_RANKS + 1];
    bool outer; /* gradients come from a lower level: REDUCED, of the GRAD range */
    int fill; /* a byte of fresh memory */
    int fail_service, fail_param, fail_post, fail_stream_wait, fail_plan, fail_alloc,
        fail_reduced; /* the n-th, from 1; 0: none */
    /* of an element, in step ctx's `steps`; NULL: 1 */
    double (*gradient)(const struct fake_host *, cadre_param_id, uint64_t element);
    cadre_status (*on_post)(struct fake_host *, struct fake_post *);
    void (*on_stream_wait)(struct fake_host *, struct fake_post *);
    void (*on_forward)(struct fake_host *, uint32_t unit);
    /* A sum was reported; it is complete after `ready`. */
    void (*on_reduced)(struct fake_host *, cadre_param_id, cadre_event ready);
    void *others; /* of on_post and on_stream_wait */

    /* recorded since fake_start */
    int services, params, plans, posts, joins, allocs, steps, reports;
    char claims[256]; /* "effect@axis/flags", "reduces@axis/level", a blank between */
    char by_design[128];
    uint32_t batch, map; /* of use_axis, microbatch_map */
    uint64_t first_map[FAKE_MAP]; /* of RANGES: the axis's ranks, and the end */
    uint64_t period;
    uint64_t held; /* of moments */
    uint32_t global_microbatch; /* whose gradient is asked for */
    struct {
        uint32_t begin, end, live, flags;
    } chunk[64];
    uint32_t n_chunks, live_blocks;
    struct fake_post post[FAKE_POSTS];
    int posts_at_final, posts_in_backward; /* of the last step */
    int bad_sums; /* all_reduce not in place, or over gradients still to come; kept */
    cadre_event ready;
    struct {
        char *data;
        uint64_t bytes;
        uint32_t space;
        int tag;
    } block[FAKE_BLOCKS];
    struct {
        char name[CADRE_TAG_CHARS];
        uint32_t space;
        uint64_t planned, now;
    } tag[FAKE_TAGS + 1]; /* the last one stays empty */
    uint64_t now, most, taken, planned; /* bytes */
    char failure[512];
    char *memory, *grads; /* storage; that of gradients */
    uint64_t grads_bytes;
};

/* n vectors of uneven sizes in one unit, on rank 0 of two along "dp", 1 micro-batch,
 * backward from the last entry to the first. fake_fini frees, and ends no instance. */
void fake_init(struct fake_host *fake, const struct cadre_strategy_ops *ops,
               uint32_t n_entries);
void fake_fini(struct fake_host *fake);

/* The value of an option, as an ini has it. One that was not set fails the test. */
void fake_set(struct fake_host *fake, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The table of an id, and another in its place; NULL: the host has none. */
const void *fake_service(const struct fake_host *fake, const char *id);
void fake_set_service(struct fake_host *fake, const char *id, const void *table);

/* What was recorded before is gone. */
cadre_status fake_create(struct fake_host *fake);
/* With storage after it, the first time. What an earlier plan said is dropped. */
cadre_status fake_plan(struct fake_host *fake);
cadre_status fake_bind(struct fake_host *fake);
/* create, plan, bind; the first failure ends it, with the instance destroyed. */
cadre_status fake_start(struct fake_host *fake);
void fake_stop(struct fake_host *fake);

/* Forward and backward of every unit and micro-batch inside `step`, with their events.
 * A gradient of this rank is its sum over micro-batches, but where they travel one by
 * one; one that does not come lies there all the same. */
cadre_status fake_step(struct fake_host *fake);
/* A step of forward passes alone. */
cadre_status fake_forward_step(struct fake_host *fake);
/* After GRADS every sum must have been reported; DRAIN ends what is pending. */
cadre_status fake_sync(struct fake_host *fake, uint32_t what);

/* Element of a gradient that lies here. */
double fake_gradient(const struct fake_host *fake, cadre_param_id id, uint64_t element);
/* How many gradient elements are not `value`, or padding elements not 0. */
uint64_t fake_wrong(const struct fake_host *fake, cadre_param_id id, float value);
/* Does the memory that the plugin took hold this address? */
bool fake_took(const struct fake_host *fake, const void *at);

/* ---- of the fake's files, for each other ---- */

bool fake_nth(int *calls, int fail);
size_t fake_bytes(const struct cadre_buf *buf);
/* Record a refusal, as host->fail does. */
__attribute__((format(printf, 3, 4))) cadre_status
fake_refuse(struct fake_host *fake, cadre_status status, const char *format, ...);
struct fake_entry *fake_entry_of(struct cadre_ctx *ctx, cadre_param_id id);
/* Elements of an entry's values as they are stored, and their dtype. */
uint64_t fake_stored(const struct fake_host *fake, const struct fake_entry *entry,
                     uint32_t *dtype);

/* fake_comm.c */
extern const struct cadre_comm_svc fake_comm;
void fake_forget_posts(struct fake_host *fake);
/* The operation of an event has ended, although the plugin does not wait for it. */
void fake_end_post(struct fake_host *fake, cadre_event event);

/* fake_step.c: the sums of nodes that events of the last step lent */
void fake_free_nodes(struct fake_host *fake);

/* fake_model.c, fake_ops.c, fake_plan.c, fake_tree.c */
extern const struct cadre_model_svc fake_model;
extern const struct cadre_param_svc fake_param;
extern const struct cadre_ops_svc fake_ops;
extern const struct cadre_tree_svc fake_tree;
void fake_plan_init(struct fake_host *fake);

/* Nodes of rank r of the RANGES map: the largest aligned ones. */
uint32_t fake_nodes(const struct fake_host *fake, int rank,
                    struct cadre_grad_node node[FAKE_NODES]);

#endif
