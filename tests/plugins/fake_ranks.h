/* SPDX-License-Identifier: Apache-2.0 */
/* Several ranks of one data-parallel plugin without a model: each is a thread with a
 * CPU device, and gradients that the test gives. Collectives are computed when all
 * ranks have posted them, and arrive when they are joined, not before; a buffer that is
 * touched while it travels fails the test, as do ranks that post different things.
 * Failures end the test. */
#ifndef CADRE_TESTS_FAKE_RANKS_H
#define CADRE_TESTS_FAKE_RANKS_H

#include <pthread.h>

#include "core/engine/host_private.h"

#define FAKE_RANKS 8
#define FAKE_PARAMS 16
#define FAKE_EVENTS 256

/* What one rank posted; kept until it is joined. */
struct fake_flight {
    const char *label;
    uint32_t kind;
    struct cadre_buf in, out;
    void *in_copy, *result;
    bool joined;
};

struct fake_ranks;

struct fake_rank {
    struct cadre_ctx ctx; /* first: services find the rank by it */
    struct cadre_axis axis;
    struct fake_ranks *all;
    int index;
    struct cadre_services services; /* its device alone */
    struct cadre_self *self;
    char *grad; /* all entries, each padded to 64 bytes */
    struct fake_flight flight[FAKE_EVENTS];
    uint64_t posts, joins;
    uint64_t posts_in_backward;
    uint64_t bytes; /* sent, by the formulas of core/comm/comm.h */
    uint64_t taken; /* memory, in bytes */
    char failure[512];
    cadre_status status;
    pthread_t thread;
};

struct fake_ranks {
    /* set before start */
    int n;
    uint32_t dtype;
    const char *compress;
    double bucket_mb;
    bool overlap, exact;
    uint32_t n_params;
    uint64_t shape[FAKE_PARAMS][2]; /* rows, columns; columns 0: a vector */
    int32_t tied_to[FAKE_PARAMS];
    /* the gradient of an element on a rank, in the step that runs */
    double (*gradient)(const struct fake_ranks *all, int rank, uint32_t param,
                       uint64_t element);
    uint64_t step;

    const struct cadre_strategy_ops *ops;
    struct fake_rank rank[FAKE_RANKS];
    uint64_t offset[FAKE_PARAMS + 1]; /* bytes in grad */
    uint64_t planned; /* memory of rank 0, in bytes */
    pthread_barrier_t barrier;
};

/* Two matrices and a vector between them on n ranks, fp32, no compression, one bucket.
 */
void fake_ranks_init(struct fake_ranks *all, const struct cadre_strategy_ops *ops,
                     int n);
void fake_ranks_fini(struct fake_ranks *all);

/* create, plan and bind on every rank; the status of rank 0's first failure, whose text
 * is in rank[0].failure. */
cadre_status fake_ranks_start(struct fake_ranks *all);
/* End the instances; fake_ranks_start makes new ones. */
void fake_ranks_stop(struct fake_ranks *all);

/* One step on every rank, gradients from `gradient`, to the end of sync(GRADS). */
void fake_ranks_step(struct fake_ranks *all);

uint64_t fake_ranks_count(const struct fake_ranks *all, uint32_t param);
/* The gradient that a rank has after the step. */
double fake_ranks_get(const struct fake_ranks *all, int rank, uint32_t param,
                      uint64_t element);
/* Do all ranks have the same bits in every gradient, padding included? */
bool fake_ranks_same(const struct fake_ranks *all);

#endif
