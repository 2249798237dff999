/* SPDX-License-Identifier: Apache-2.0 */
/* What works over NCCL: buffers in the GPU's memory, messages to both neighbours. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/comm/reduce.h"
#include "core/tensor/dtype.h"
#include "tests/comm/nccl_world.h"

#define MOST 1500

static uint32_t mix(uint32_t x)
{
    x = (x ^ (x >> 16)) * 0x45d9f3bu;
    x = (x ^ (x >> 16)) * 0x45d9f3bu;
    return x ^ (x >> 16);
}

/* Small whole numbers, whose sums are exact in every order; or `rough` ones, in which
 * the order shows. */
static void fill(void *at, uint64_t count, uint32_t dtype, int rank, bool rough)
{
    for (uint64_t i = 0; i < count; i++) {
        uint32_t h = mix((uint32_t)i * 7919u + (uint32_t)rank * 104729u + dtype);
        double v = (double)(h % 17u) - 8;
        if (rough && dtype != CADRE_I32 && dtype != CADRE_U8)
            v = ((double)h / 4294967296.0 - 0.5) * (double)(1u << (h & 7u));
        if (dtype == CADRE_U8)
            v = (uint8_t)h;
        comm_store(at, i, dtype, v);
    }
}

/* What `local` returns: all ranks' inputs reduced in the tree. */
static void reduce_all(void *to, const struct world *w, uint64_t count, uint32_t dtype,
                       uint32_t red, bool rough)
{
    size_t element = cadre_dtype_bytes(dtype);
    char *in = malloc((size_t)w->size * MOST * element);
    const void *srcs[MAX_RANKS];
    uint64_t most = CADRE_REDUCE_BLOCK_BYTES / element;
    for (int m = 0; m < w->size; m++)
        fill(in + (size_t)m * MOST * element, count, dtype, m, rough);
    for (uint64_t at = 0; at < count; at += most) {
        for (int m = 0; m < w->size; m++)
            srcs[m] = in + ((size_t)m * MOST + at) * element;
        cadre_reduce_block((char *)to + at * element, srcs, w->size,
                           count - at < most ? count - at : most, dtype, red);
    }
    free(in);
}

struct shape {
    uint64_t count;
    uint32_t dtype, red;
    bool rough, in_place;
};

/* Slices of unequal size, one of them empty; or all equal. */
static void divide(uint64_t *offsets, int size, uint64_t count)
{
    bool even = count % (uint64_t)size == 0;
    for (int m = 0; m <= size; m++)
        offsets[m] = (uint64_t)m * count / (uint64_t)size;
    if (!even && size > 2)
        offsets[1] = 0;
}

/* all_reduce, and reduce_scatter with all_gather after it: the same numbers. */
static cadre_status try_sums(struct world *w, const struct shape *s)
{
    const struct cadre_device_ops *d = w->device->ops;
    size_t e = cadre_dtype_bytes(s->dtype), bytes = s->count * e;
    char *host = malloc(MOST * e), *expected = malloc(MOST * e);
    char *x = comm_calloc(w, bytes, 1), *y = comm_calloc(w, bytes, 1);
    char *out = s->in_place ? x : y;
    uint64_t offsets[MAX_RANKS + 1];
    cadre_device_event ready;
    cadre_event done;
    divide(offsets, w->size, s->count);
    reduce_all(expected, w, s->count, s->dtype, s->red, s->rough);
    for (int split = 0; split < 2; split++) {
        char *slice = x + offsets[w->rank] * e;
        fill(host, s->count, s->dtype, w->rank, s->rough);
        CHECK(w, d->to_device(w->device, x, host, bytes) == 0);
        CHECK(w, d->event_record(w->device, &ready) == 0);
        if (split) {
            CHECK(w, cadre_comm_reduce_scatter(w->comm, "scatter", x, slice, offsets,
                                               s->dtype, s->red, ready, &done) == 0);
            CHECK(w, cadre_comm_all_gather(w->comm, "gather", slice, out, offsets,
                                           s->dtype, done, &done) == 0);
        } else
            CHECK(w, cadre_comm_all_reduce(w->comm, "sum", x, out, s->count, s->dtype,
                                           s->red, ready, &done) == 0);
        CHECK(w, done & CADRE_DEVICE_EVENT);
        CHECK(w, cadre_comm_stream_wait(w->comm, w->device, done) == 0);
        CHECK(w, d->to_host(w->device, host, out, bytes) == 0);
        CHECK(w, memcmp(host, expected, bytes) == 0);
    }
    comm_free(w, x);
    comm_free(w, y);
    free(host);
    free(expected);
    return CADRE_OK;
}

static cadre_status sums(struct world *w, bool rough)
{
    static const uint64_t counts[] = {0, 1, 60, 1201};
    static const uint32_t dtypes[] = {CADRE_F32, CADRE_F64, CADRE_BF16,
                                      CADRE_F16, CADRE_I32, CADRE_U8};
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++)
        for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
            for (uint32_t red = CADRE_SUM; red <= CADRE_MAX; red++) {
                struct shape s = {.count = counts[n],
                                  .dtype = dtypes[k],
                                  .red = red,
                                  .rough = rough,
                                  .in_place = (k + n) % 2 == 0};
                if (dtypes[k] == CADRE_U8 && red == CADRE_SUM)
                    continue;
                CADRE_TRY(try_sums(w, &s));
            }
    return CADRE_OK;
}

cadre_status nccl_sums(struct world *w, const char *arg)
{
    (void)arg;
    return sums(w, false);
}

cadre_status nccl_sums_exact(struct world *w, const char *arg)
{
    (void)arg;
    return sums(w, true);
}

/* Receives from both neighbours are pending while a collective completes, and sends in
 * both directions are posted after it; no rank waits before the end. */
cadre_status nccl_ring(struct world *w, const char *arg)
{
    int next = (w->rank + 1) % w->size, before = (w->rank + w->size - 1) % w->size;
    int32_t mine = 100 + w->rank, from_next = 0, from_before = 0, sum = 1;
    int both = w->size > 2;
    cadre_event e, got, other = 0;
    (void)arg;
    CHECK(w, cadre_comm_recv(w->comm, "r", &from_before, 1, CADRE_I32, before, 0,
                             &got) == 0);
    if (both)
        CHECK(w, cadre_comm_recv(w->comm, "r", &from_next, 1, CADRE_I32, next, 0,
                                 &other) == 0);
    CHECK(w, cadre_comm_all_reduce(w->comm, "s", &sum, &sum, 1, CADRE_I32, CADRE_SUM, 0,
                                   &e) == 0);
    CHECK(w, cadre_comm_wait(w->comm, e) == 0 && sum == w->size);
    if (both)
        CHECK(w,
              cadre_comm_send(w->comm, "b", &mine, 1, CADRE_I32, before, 0, &e) == 0);
    CHECK(w, cadre_comm_send(w->comm, "f", &mine, 1, CADRE_I32, next, 0, &e) == 0);
    CHECK(w, cadre_comm_wait(w->comm, got) == 0 && from_before == 100 + before);
    CHECK(w, cadre_comm_wait(w->comm, other) == 0);
    CHECK(w, !both || from_next == 100 + next);
    return cadre_comm_wait(w->comm, e);
}

/* Buffers of the host are read and written in the order of the stream: what the compute
 * stream downloads is summed, and two ranks exchange before either waits. */
cadre_status nccl_host(struct world *w, const char *arg)
{
    enum { N = 3000 };
    const struct cadre_device_ops *d = w->device->ops;
    int next = (w->rank + 1) % w->size, before = (w->rank + w->size - 1) % w->size;
    float *pinned = d->alloc_pinned(w->device, N * sizeof *pinned), sum[N], got[N];
    float *x = comm_calloc(w, N, sizeof *x);
    cadre_device_event ready;
    cadre_event e;
    (void)arg;
    for (int i = 0; i < N; i++)
        got[i] = (float)(i + w->rank);
    CHECK(w, d->to_device(w->device, x, got, sizeof got) == 0);
    CHECK(w, d->download(w->device, pinned, x, sizeof got) == 0);
    CHECK(w, d->event_record(w->device, &ready) == 0);
    CHECK(w, cadre_comm_all_reduce(w->comm, "host", pinned, sum, N, CADRE_F32,
                                   CADRE_SUM, ready, &e) == 0);
    CHECK(w, cadre_comm_wait(w->comm, e) == 0);
    for (int i = 0; i < N; i++)
        CHECK(w, sum[i] == (float)(w->size * i + w->size * (w->size - 1) / 2));
    CHECK(w, cadre_comm_send(w->comm, "x", sum, N, CADRE_F32, next, 0, NULL) == 0);
    CHECK(w, cadre_comm_recv(w->comm, "x", got, N, CADRE_F32, before, 0, &e) == 0);
    CHECK(w, cadre_comm_wait(w->comm, e) == 0 && memcmp(got, sum, sizeof got) == 0);
    CHECK(w, cadre_comm_all_reduce(w->comm, "both", x, sum, N, CADRE_F32, CADRE_SUM, 0,
                                   &e) == CADRE_E_INVALID);
    CHECK(w, cadre_comm_barrier(w->comm, "end", 0, &e) == 0 &&
                 cadre_comm_wait(w->comm, e) == 0);
    d->free_pinned(w->device, pinned);
    comm_free(w, x);
    return CADRE_OK;
}

/* Ranks come to a split, and to an operation of the group, one long after the other:
 * the world's thread looks at the communicators meanwhile. */
cadre_status nccl_apart(struct world *w, const char *arg)
{
    const struct timespec late = {.tv_nsec = 250000000};
    struct cadre_comm *group = NULL;
    struct cadre_error err = {0};
    float x = 1;
    cadre_event e;
    (void)arg;
    if (w->rank == 1)
        nanosleep(&late, NULL);
    CHECK(w, cadre_comm_split(w->comm, 4, 0, &group, &err) == CADRE_OK && group);
    if (w->rank == 0)
        nanosleep(&late, NULL);
    CHECK(w, cadre_comm_all_reduce(group, "x", &x, &x, 1, CADRE_F32, CADRE_SUM, 0,
                                   &e) == CADRE_OK);
    CHECK(w, cadre_comm_wait(group, e) == CADRE_OK && x == (float)w->size);
    cadre_comm_destroy(group);
    return CADRE_OK;
}

/* Four ranks: the one across is no neighbour. A device that is not the world's. */
cadre_status nccl_refusals(struct world *w, const char *arg)
{
    struct cadre_device other = *w->device;
    struct cadre_error err = {0};
    float x = 0;
    cadre_event e;
    (void)arg;
    CHECK(w, w->size == 4);
    CHECK(w, cadre_comm_send(w->comm, "across", &x, 1, CADRE_F32, (w->rank + 2) % 4, 0,
                             &e) == CADRE_E_UNSUPPORTED);
    CHECK(w, cadre_comm_recv(w->comm, "across", &x, 1, CADRE_F32, (w->rank + 2) % 4, 0,
                             &e) == CADRE_E_UNSUPPORTED);
    CHECK(w, cadre_comm_use_device(w->comm, &other, &err) == CADRE_E_UNSUPPORTED);
    CHECK(w, cadre_comm_barrier(w->comm, "end", 0, &e) == 0);
    return cadre_comm_wait(w->comm, e);
}
