/* SPDX-License-Identifier: Apache-2.0 */
/* A host for one plugin instance: one rank without a model, other ranks or threads. It
 * answers by its settings and records what the plugin did. An operation is carried out
 * when it is waited for. Every rank is assumed to hold the same gradients, so a sum
 * multiplies by the ranks; rank r contributes r + 1 to a gather. `on_post` and
 * `on_stream_wait` play other ranks instead. What breaks the contract of
 * <cadre/services.h> fails the running test. */
#ifndef CADRE_TESTS_FAKE_HOST_H
#define CADRE_TESTS_FAKE_HOST_H

#include <stdbool.h>

#include "core/engine/layout/mesh.h"
#include "core/engine/strategy/chain.h"

#define FAKE_ENTRIES 160
#define FAKE_POSTS 4096
#define FAKE_BLOCKS 512
#define FAKE_RANKS 8
#define FAKE_PAD 16u /* elements between entries are filled up to; range_unit */
#define FAKE_EVENT 1000u /* of the post before the first */
#define FAKE_NOW 7u /* what the compute stream records */

enum fake_kind {
    FAKE_ALL_REDUCE = 1,
    FAKE_REDUCE_SCATTER,
    FAKE_ALL_GATHER,
    FAKE_ALL_TO_ALL,
    FAKE_SEND,
    FAKE_RECV,
};

/* An operation; its event is FAKE_EVENT + 1 + its place. */
struct fake_post {
    uint32_t kind, red;
    const char *label;
    struct cadre_buf in, out; /* equal for send and recv */
    uint64_t offsets[FAKE_RANKS + 1];
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

    /* recorded */
    struct fake_range range[4]; /* by CADRE_KIND_* */
    float *shard[4]; /* the host's */
    float *data, *grad; /* in use now */
    bool to_come;
    uint32_t parts; /* accumulate */
    int posts; /* when its last gradient had been given */
    cadre_event ready, ready_after; /* of that event: before and after the plugin */
};

struct fake_host {
    struct cadre_ctx ctx; /* first: services find the host by it */
    struct cadre_axis axis; /* by its name, index and size; size 0: there is none */
    struct cadre_host host;
    struct cadre_values values;
    struct cadre_plan plan; /* ranks and rank are set by fake_start */
    const struct cadre_strategy_ops *ops;
    struct cadre_self *self;

    /* settings */
    struct {
        const char *id;
        const void *table;
    } service[10];
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
    int fill; /* a byte of fresh memory */
    int fail_service, fail_param, fail_post, fail_stream_wait, fail_plan,
        fail_alloc; /* the n-th, from 1; 0: none */
    /* of an element, in step ctx's `steps`; NULL: 1 */
    double (*gradient)(const struct fake_host *, cadre_param_id, uint64_t element);
    cadre_status (*on_post)(struct fake_host *, struct fake_post *);
    void (*on_stream_wait)(struct fake_host *, struct fake_post *);
    void (*on_forward)(struct fake_host *, uint32_t unit);
    void *others; /* of on_post and on_stream_wait */

    /* recorded since fake_start */
    int services, params, plans, posts, joins, allocs, steps;
    char claims[256]; /* "effect@axis/flags", a blank between two */
    uint32_t batch, map; /* of use_axis, microbatch_map */
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
    } block[FAKE_BLOCKS];
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
/* With storage after it, the first time. */
cadre_status fake_plan(struct fake_host *fake);
/* create, plan, bind; the first failure ends it, with the instance destroyed. */
cadre_status fake_start(struct fake_host *fake);
void fake_stop(struct fake_host *fake);

/* Forward and backward of every unit and micro-batch inside `step`, with their events.
 * A gradient of this rank is its sum over micro-batches, but where they travel one by
 * one; one that does not come lies there all the same. */
cadre_status fake_step(struct fake_host *fake);
cadre_status fake_sync(struct fake_host *fake, uint32_t what);

/* Element of a gradient that lies here. */
double fake_gradient(const struct fake_host *fake, cadre_param_id id, uint64_t element);
/* How many gradient elements are not `value`, or padding elements not 0. */
uint64_t fake_wrong(const struct fake_host *fake, cadre_param_id id, float value);
/* Does the memory that the plugin took hold this address? */
bool fake_took(const struct fake_host *fake, const void *at);
size_t fake_bytes(const struct cadre_buf *buf);

/* Of fake_host.c and fake_comm.c, for the others: */
bool fake_nth(int *calls, int fail);
extern const struct cadre_comm_svc fake_comm;
void fake_forget_posts(struct fake_host *fake);

#endif
