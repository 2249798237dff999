/* SPDX-License-Identifier: Apache-2.0 */
/* A host for one rank of a pipeline that plays the others: what arrives says who sent
 * it and when, a buffer that travels may not be touched, and every pass must find what
 * belongs to it. What is wrong fails the running test. */
#ifndef CADRE_TESTS_FAKE_STAGE_H
#define CADRE_TESTS_FAKE_STAGE_H

#include <stdbool.h>

#include <cadre/strategy.h>

#include "plugins/pipeline/schedule.h"

#define FAKE_UNITS 40
#define FAKE_COUNT 4 /* elements of an activation */
#define FAKE_BUFFERS 64
#define FAKE_STAGE_POSTS 1024

/* A buffer of the plugin and what the host does with it. */
struct fake_held {
    float *data;
    uint32_t recv, send; /* posts under way on it, 0: none */
};

struct fake_message {
    int32_t peer;
    struct fake_held *held;
    bool gradient;
    bool done;
};

struct fake_stage {
    struct cadre_host host;
    struct cadre_values values;
    struct cadre_plan plan;
    struct pipeline_shape shape;
    uint32_t rank;
    const char *schedule, *balance;
    int64_t chunks;
    double seconds; /* of unit_seconds, of even units; 0: not measured */

    struct fake_held held[FAKE_BUFFERS];
    uint32_t n_held;
    struct fake_message recv[FAKE_STAGE_POSTS],
        send[FAKE_STAGE_POSTS]; /* from 1; the number is half the event */
    uint32_t n_recv, n_send;
    struct pipeline_list list; /* expected */
    uint32_t at;
    uint32_t begin[64], end[64], live[64], flags[64], n_chunks;
    uint32_t live_blocks; /* as told, 0: not */
    uint64_t planned, taken; /* bytes */
    int fail_pass, fail_alloc, fail_post; /* the n-th, from 1 */
    int passes, allocs, posts;
    char failure[512];
    struct cadre_self *self;
};

/* Rank `rank` of the shape, with options and plan; memory of before is not freed. */
void fake_stage_set(struct fake_stage *stage, const struct pipeline_shape *shape,
                    uint32_t rank);

#endif
