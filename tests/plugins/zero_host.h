/* SPDX-License-Identifier: Apache-2.0 */
/* A host for one instance of zero: one rank of several, whose collectives happen when
 * they are joined. Every rank's gradients are alike, so a reduction multiplies by the
 * number of ranks; what rank r gives to a gather is r + 1. It fails the test
 * where a buffer is freed on its way or in use, and where an operation's sizes differ
 * from its offsets. */
#ifndef CADRE_TESTS_ZERO_HOST_H
#define CADRE_TESTS_ZERO_HOST_H

#include <stdbool.h>

#include "core/plugin/plugin.h"

#define LAYERS 4
#define UNITS (LAYERS + 2u)
#define PER_LAYER 4
#define ENTRIES (1 + LAYERS * PER_LAYER + 2)
#define TIED (ENTRIES - 1u)
#define UNIT 16u /* range_unit */
#define POSTS 4096
#define BLOCKS 512

struct range {
    bool placed;
    uint64_t begin, count;
    uint32_t space;
};

struct entry {
    uint64_t count;
    uint32_t unit;
    struct range range[4]; /* by CADRE_KIND_* */
    float *whole[4], *shard[4]; /* kept by the host */
    float *data, *grad; /* in use now */
    uint32_t leaves;
};

struct post {
    bool gather, done;
    const char *label;
    float *in, *out;
    uint64_t off[9];
};

struct block {
    char *data;
    uint64_t bytes;
};

struct zero_host {
    /* settings */
    int ranks, me, stage, prefetch;
    bool overlap, each;
    uint32_t owner; /* of the weight that the last entry shares */
    const char *offload;
    double bucket_mb;
    uint32_t micro_batches;
    bool absent[UNITS];
    bool torn; /* storage does not lie in one piece */
    int fail_service, fail_alloc, fail_post, fail_join; /* the n-th, from 1 */

    /* what happened */
    int services, allocs, joins, posts, steps;
    struct post post[POSTS];
    struct block block[BLOCKS];
    uint64_t now, most, told;
    bool cyclic;
    char claims[256], failure[512];
    struct entry entry[ENTRIES];
    float *memory;
};

extern struct zero_host f;

/* The plugin, and all settings anew: 4 layers between an embedding and a head tied to
 * it, 4 ranks of which this is 1, stage 1. */
void zero_host_open(void);
void zero_host_close(void);

/* create, plan, storage, bind; the first failure ends it, with the instance destroyed.
 * What an earlier instance left is gone. */
cadre_status zero_host_start(struct cadre_self **self);

/* A step of f.micro_batches: forward and backward of every unit with its events, where
 * each gradient is 1 each time; sync(GRADS), sync(PARAMS). */
cadre_status zero_host_step(struct cadre_self *self);

const struct cadre_plugin_handle *zero_host_plugin(void);

#endif
