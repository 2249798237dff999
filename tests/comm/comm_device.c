/* SPDX-License-Identifier: Apache-2.0 */
/* Order between a device's streams and a communicator's queues. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/comm/comm_cases.h"

#define N 5000

/* Data comes by the compute stream, goes through three collectives, each after the one
 * before, and back by the compute stream: only `join` waits. */
static cadre_status run_chain(struct world *w, const char *arg)
{
    const struct cadre_device_ops *d = w->device->ops;
    float *x = comm_calloc(w, N, sizeof *x), *y = comm_calloc(w, N, sizeof *y);
    float *from = d->alloc_pinned(w->device, N * sizeof *from), to[N];
    uint64_t offsets[MAX_RANKS + 1];
    cadre_device_event ready;
    cadre_event e;
    for (int m = 0; m <= w->size; m++)
        offsets[m] = (uint64_t)m * N / (uint64_t)w->size;
    for (int i = 0; i < N; i++)
        from[i] = (float)(i + w->rank);
    for (int turn = 1; turn <= 3; turn++) {
        CHECK(w, d->upload(w->device, x, from, sizeof to) == 0);
        CHECK(w, d->event_record(w->device, &ready) == 0);
        CHECK(w,
              cadre_comm_reduce_scatter(w->comm, "in", x, x + offsets[w->rank], offsets,
                                        CADRE_F32, CADRE_SUM, ready, &e) == 0);
        CHECK(w, cadre_comm_all_gather(w->comm, "all", x + offsets[w->rank], y, offsets,
                                       CADRE_F32, e, &e) == 0);
        CHECK(w, cadre_comm_all_reduce(w->comm, "most", y, y, N, CADRE_F32, CADRE_MAX,
                                       e, &e) == 0);
        CHECK(w, cadre_comm_stream_wait(w->comm, w->device, e) == 0);
        CHECK(w, cadre_comm_stream_wait(w->comm, w->device, ready) == 0);
        CHECK(w, d->to_host(w->device, to, y, sizeof to) == 0);
        for (int i = 0; i < N; i++)
            CHECK(w, to[i] == (float)(w->size * i + w->size * (w->size - 1) / 2));
    }
    CHECK(w, cadre_comm_wait(w->comm, ready) == 0);
    CHECK(w, cadre_comm_use_device(w->comm, NULL, NULL) == 0);
    CHECK(w, w->native || cadre_comm_wait(w->comm, ready) == CADRE_E_INVALID);
    CHECK(w, cadre_comm_all_reduce(w->comm, "host", from, to, N, CADRE_F32, CADRE_MAX,
                                   0, &e) == 0);
    CHECK(w, cadre_comm_wait(w->comm, e) == 0);
    CHECK(w, to[7] == (float)(7 + w->size - 1));
    comm_free(w, x);
    comm_free(w, y);
    d->free_pinned(w->device, from);
    return CADRE_OK;
}

/* A send of what the compute stream has not written yet. */
static cadre_status run_ring(struct world *w, const char *arg)
{
    const struct cadre_device_ops *d = w->device->ops;
    int next = (w->rank + 1) % w->size, before = (w->rank + w->size - 1) % w->size;
    float theirs = -1, *x = comm_calloc(w, 2, sizeof *x);
    float *mine = d->alloc_pinned(w->device, sizeof *mine);
    cadre_device_event ready;
    cadre_event sent, got;
    *mine = (float)w->rank;
    CHECK(w, d->upload(w->device, x, mine, sizeof *mine) == 0);
    CHECK(w, d->event_record(w->device, &ready) == 0);
    CHECK(w,
          cadre_comm_send(w->comm, "ring", x, 1, CADRE_F32, next, ready, &sent) == 0);
    CHECK(w,
          cadre_comm_recv(w->comm, "ring", x + 1, 1, CADRE_F32, before, 0, &got) == 0);
    CHECK(w, cadre_comm_stream_wait(w->comm, w->device, got) == 0);
    CHECK(w, d->to_host(w->device, &theirs, x + 1, sizeof theirs) == 0);
    CHECK(w, theirs == (float)before);
    CHECK(w, cadre_comm_wait(w->comm, sent) == 0);
    d->free_pinned(w->device, mine);
    comm_free(w, x);
    return CADRE_OK;
}

/* all_to_all, then a broadcast of its result, after what the stream writes. */
static cadre_status run_moves(struct world *w)
{
    enum { EACH = 8 };
    const struct cadre_device_ops *d = w->device->ops;
    size_t n = (size_t)w->size * EACH;
    int root = w->size - 1;
    uint16_t *x = comm_calloc(w, n, sizeof *x), *y = comm_calloc(w, n, sizeof *y);
    uint16_t *from = d->alloc_pinned(w->device, n * sizeof *from);
    uint16_t to[EACH * MAX_RANKS];
    cadre_device_event ready;
    cadre_event e;
    for (size_t i = 0; i < n; i++)
        from[i] = (uint16_t)(w->rank * 1000 + (int)i);
    CHECK(w, d->upload(w->device, x, from, n * sizeof *x) == 0);
    CHECK(w, d->event_record(w->device, &ready) == 0);
    CHECK(w,
          cadre_comm_all_to_all(w->comm, "turn", x, y, n, CADRE_BF16, ready, &e) == 0);
    CHECK(w, cadre_comm_broadcast(w->comm, "root's", y, EACH, CADRE_BF16, root, e,
                                  &e) == 0);
    CHECK(w, cadre_comm_stream_wait(w->comm, w->device, e) == 0);
    CHECK(w, d->to_host(w->device, to, y, n * sizeof *y) == 0);
    for (int m = 0; m < w->size; m++)
        for (int i = 0; i < EACH; i++) {
            int slice = m == 0 ? root : w->rank; /* the first is the root's */
            CHECK(w, to[m * EACH + i] == m * 1000 + slice * EACH + i);
        }
    comm_free(w, x);
    comm_free(w, y);
    d->free_pinned(w->device, from);
    return CADRE_OK;
}

static cadre_status run_device(struct world *w, const char *arg)
{
    CHECK(w, w->device);
    cadre_status rc = w->size > 1 ? run_ring(w, arg) : CADRE_OK;
    if (rc == CADRE_OK)
        rc = run_moves(w);
    return rc == CADRE_OK ? run_chain(w, arg) : rc;
}

cadre_status case_device(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_device, arg, rank, segment);
}
