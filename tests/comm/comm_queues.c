/* SPDX-License-Identifier: Apache-2.0 */
/* Queues and groups that do not block each other, refusals, counting, the link. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/comm/comm_cases.h"

/* ---- queues that do not block each other ---- */

/* A receive that waits for a send posted last, while collectives, another direction and
 * an operation ordered after them proceed. */
static cadre_status run_independence(struct world *w, const char *arg)
{
    int other = 1 - w->rank;
    float x = 1, y = 0, held = 0, seven = 7, sum = 0;
    cadre_event got, sent, reduced, late;
    CHECK(w, w->size == 2);
    bool happened = true;
    if (w->rank == 0) {
        CHECK(w, cadre_comm_recv(w->comm, "held", &held, 1, CADRE_F32, other, 0,
                                 &got) == 0);
        CHECK(w, cadre_comm_test(w->comm, got, &happened) == 0 && !happened);
    }
    CHECK(w, cadre_comm_all_reduce(w->comm, "bucket", &x, &sum, 1, CADRE_F32, CADRE_SUM,
                                   0, &reduced) == 0);
    CHECK(w, cadre_comm_wait(w->comm, reduced) == 0 && sum == 2);
    if (w->rank == 0) {
        CHECK(w, cadre_comm_send(w->comm, "back", &seven, 1, CADRE_F32, other, 0,
                                 &sent) == 0);
        CHECK(w, cadre_comm_wait(w->comm, sent) == 0);
    } else {
        CHECK(w,
              cadre_comm_recv(w->comm, "back", &y, 1, CADRE_F32, other, 0, &got) == 0);
        CHECK(w, cadre_comm_wait(w->comm, got) == 0 && y == 7);
        CHECK(w, cadre_comm_send(w->comm, "held", &seven, 1, CADRE_F32, other, 0,
                                 NULL) == 0);
    }
    late = w->rank == 0 ? got : 0; /* the broadcast takes what the receive brings */
    CHECK(w, cadre_comm_broadcast(w->comm, "chain", &held, 1, CADRE_F32, 0, late,
                                  &reduced) == 0);
    CHECK(w, cadre_comm_wait(w->comm, reduced) == 0 && held == 7);
    CHECK(w, cadre_comm_test(w->comm, reduced, &happened) == 0 && happened);
    return CADRE_OK;
}

cadre_status case_independence(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_independence, arg, rank, segment);
}

/* Many messages in a row each way, all pending at once: matched in order. `arg`
 * "few": not so many. */
static cadre_status run_messages(struct world *w, const char *arg)
{
    enum { N = 200 };
    const int n = strcmp(arg, "few") == 0 ? 12 : N;
    int32_t out[N], in[N];
    cadre_event last = 0;
    for (int i = 0; i < n; i++) {
        out[i] = w->rank * 1000 + i;
        for (int peer = 0; peer < w->size; peer++)
            if (peer != w->rank)
                CHECK(w, cadre_comm_send(w->comm, "m", &out[i], 1, CADRE_I32, peer, 0,
                                         NULL) == 0);
    }
    for (int peer = 0; peer < w->size; peer++) {
        if (peer == w->rank)
            continue;
        for (int i = 0; i < n; i++)
            CHECK(w, cadre_comm_recv(w->comm, "m", &in[i], 1, CADRE_I32, peer, 0,
                                     &last) == 0);
        CHECK(w, cadre_comm_wait(w->comm, last) == 0);
        for (int i = 0; i < n; i++)
            CHECK(w, in[i] == peer * 1000 + i);
    }
    CHECK(w, cadre_comm_barrier(w->comm, "end", 0, &last) == 0);
    return cadre_comm_wait(w->comm, last);
}

cadre_status case_messages(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_messages, arg, rank, segment);
}

/* ---- groups ---- */

/* Groups of groups, orders by key, ranks in none, and a group destroyed before
 * others. */
static cadre_status run_groups(struct world *w, const char *arg)
{
    struct cadre_comm *reversed, *some, *pair;
    struct cadre_error err;
    int32_t mine = w->rank, all[MAX_RANKS];
    uint64_t offsets[MAX_RANKS + 1];
    cadre_event done;
    for (int m = 0; m <= w->size; m++)
        offsets[m] = (uint64_t)m;
    CHECK(w, cadre_comm_split(w->comm, 5, -w->rank, &reversed, &err) == 0);
    CHECK(w, reversed->size == w->size && reversed->rank == w->size - 1 - w->rank);
    CHECK(w, cadre_comm_all_gather(reversed, "ids", &mine, all, offsets, CADRE_I32, 0,
                                   &done) == 0);
    CHECK(w,
          cadre_comm_wait(w->comm, done) == 0); /* an event of any group of the world */
    for (int m = 0; m < w->size; m++)
        CHECK(w, all[m] == w->size - 1 - m);
    CHECK(w, cadre_comm_split(w->comm, w->rank == 0 ? -1 : 0, 0, &some, &err) == 0);
    CHECK(w, (some == NULL) == (w->rank == 0));
    CHECK(w, !some || (some->size == w->size - 1 && some->rank == w->rank - 1));
    if (some) {
        CHECK(w, cadre_comm_split(some, some->rank / 2, 0, &pair, &err) == 0);
        CHECK(w, pair->rank == some->rank % 2);
        cadre_comm_destroy(pair);
        cadre_comm_destroy(some);
    }
    CHECK(w, cadre_comm_all_gather(reversed, "ids", &mine, all, offsets, CADRE_I32, 0,
                                   &done) == 0);
    CHECK(w, cadre_comm_wait(reversed, done) == 0);
    cadre_comm_destroy(reversed);
    return cadre_comm_wait(w->comm, done); /* events outlive their communicator */
}

cadre_status case_groups(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_groups, arg, rank, segment);
}

/* Splits until the segment is full: an error text on every rank, no hang. */
static cadre_status run_exhaust(struct world *w, const char *arg)
{
    struct cadre_comm *made[200];
    struct cadre_error err = {.code = CADRE_OK};
    int n = 0;
    cadre_status rc = CADRE_OK;
    while (n < 200 && rc == CADRE_OK) {
        rc = cadre_comm_split(w->comm, 0, 0, &made[n], &err);
        n += rc == CADRE_OK;
    }
    CHECK(w, n > 8 && n < 200 && strstr(err.text, "no room for another communicator"));
    while (n > 0) {
        n--;
        cadre_comm_destroy(made[n]);
    }
    return rc;
}

cadre_status case_exhaust(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_exhaust, arg, rank, segment);
}

/* ---- arguments, counting ---- */

static cadre_status run_refusals(struct world *w, const char *arg)
{
    struct cadre_comm *c = w->comm;
    uint64_t down[] = {0, 3, 2}, late[] = {1, 2, 3}, good[] = {0, 1, 2};
    float x[4] = {0}, y[4];
    cadre_event e;
    CHECK(w, w->size == 2);
    CHECK(w, cadre_comm_all_reduce(c, "a", x, x, 4, 99, CADRE_SUM, 0, &e) ==
                 CADRE_E_INVALID);
    CHECK(w, cadre_comm_all_reduce(c, "a", x, x, 4, CADRE_F32, 7, 0, &e) ==
                 CADRE_E_INVALID);
    CHECK(w, cadre_comm_all_reduce(c, "a", x, x, 4, CADRE_U8, CADRE_SUM, 0, &e) ==
                 CADRE_E_INVALID);
    CHECK(w, cadre_comm_all_reduce(c, "a", x, x, UINT64_MAX / 2, CADRE_F32, CADRE_SUM,
                                   0, &e) == CADRE_E_INVALID);
    CHECK(w, cadre_comm_reduce_scatter(c, "b", x, y, down, CADRE_F32, CADRE_SUM, 0,
                                       &e) == CADRE_E_INVALID);
    CHECK(w, cadre_comm_all_gather(c, "c", x, y, late, CADRE_F32, 0, &e) ==
                 CADRE_E_INVALID);
    CHECK(w, cadre_comm_all_gather(c, "c", x, y, NULL, CADRE_F32, 0, &e) ==
                 CADRE_E_INVALID);
    CHECK(w,
          cadre_comm_broadcast(c, "d", x, 4, CADRE_F32, 2, 0, &e) == CADRE_E_INVALID);
    CHECK(w,
          cadre_comm_broadcast(c, "d", x, 4, CADRE_F32, -1, 0, &e) == CADRE_E_INVALID);
    CHECK(w,
          cadre_comm_all_to_all(c, "e", x, y, 3, CADRE_F32, 0, &e) == CADRE_E_INVALID);
    CHECK(w,
          cadre_comm_all_to_all(c, "e", x, x, 4, CADRE_F32, 0, &e) == CADRE_E_INVALID);
    CHECK(w,
          cadre_comm_send(c, "f", x, 1, CADRE_F32, w->rank, 0, &e) == CADRE_E_INVALID);
    CHECK(w, cadre_comm_recv(c, "f", x, 1, CADRE_F32, 2, 0, &e) == CADRE_E_INVALID);
    if (!w->device) /* which may treat it as one that happened long ago */
        CHECK(w, cadre_comm_wait(c, UINT64_MAX) == CADRE_E_INVALID);
    CHECK(w, cadre_comm_wait(c, 12345) == CADRE_E_INVALID);
    CHECK(w, cadre_comm_barrier(c, "h", 12345, &e) == CADRE_E_INVALID);
    /* nothing was posted: the queue is unchanged */
    CHECK(w, cadre_comm_all_gather(c, "g", x, y, good, CADRE_F32, 0, &e) == CADRE_OK);
    CHECK(w, cadre_comm_wait(c, e) == CADRE_OK && cadre_comm_wait(c, 0) == CADRE_OK);
    return CADRE_OK;
}

cadre_status case_refusals(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_refusals, arg, rank, segment);
}

/* What an observer was called with. */
struct observed {
    int n, named;
    bool good;
    uint64_t bytes;
};

static void tell(void *arg, const struct cadre_comm_done *done)
{
    struct observed *observed = arg;
    bool named = strcmp(done->kind, "send") == 0 && strcmp(done->label, "edge") == 0;
    bool good = done->posted_s > 0 && done->ended_s >= done->posted_s;
    observed->good = (observed->n == 0 || observed->good) && good;
    observed->named += named;
    observed->bytes += done->bytes;
    observed->n++;
}

static cadre_status run_counts(struct world *w, const char *arg)
{
    uint64_t offsets[] = {0, 10, 10, 40};
    float x[60] = {0}, y[60];
    struct cadre_comm_stats stats;
    cadre_event e, got;
    int next = (w->rank + 1) % 3, before = (w->rank + 2) % 3;
    struct observed observed = {0};
    CHECK(w, w->size == 3);
    cadre_comm_observe(w->comm, tell, &observed);
    CHECK(w, cadre_comm_all_reduce(w->comm, NULL, x, y, 60, CADRE_F32, CADRE_SUM, 0,
                                   &e) == 0);
    CHECK(w, cadre_comm_reduce_scatter(w->comm, NULL, x, y, offsets, CADRE_F32,
                                       CADRE_SUM, 0, &e) == 0);
    CHECK(w, cadre_comm_broadcast(w->comm, NULL, x, 60, CADRE_F32, 1, 0, &e) == 0);
    CHECK(w, cadre_comm_barrier(w->comm, NULL, 0, &e) == 0);
    CHECK(w, cadre_comm_wait(w->comm, e) == 0);
    CHECK(w, cadre_comm_send(w->comm, "edge", x, 5, CADRE_F32, next, 0, &e) == 0);
    CHECK(w, cadre_comm_recv(w->comm, NULL, y, 5, CADRE_F32, before, 0, &got) == 0);
    CHECK(w, cadre_comm_wait(w->comm, e) == 0 && cadre_comm_wait(w->comm, got) == 0);
    cadre_comm_read_stats(w->comm, &stats);
    CHECK(w, stats.operations == 6);
    cadre_comm_observe(w->comm, NULL, NULL);
    CHECK(w, observed.n == 6 && observed.named == 1 && observed.good);
    CHECK(w, observed.bytes == stats.bytes && observed.bytes > 0);
    CHECK(w, cadre_comm_barrier(w->comm, NULL, 0, &e) == 0 &&
                 cadre_comm_wait(w->comm, e) == 0);
    CHECK(w, observed.n == 6); /* no observer is called any more */
    CHECK(w, stats.bytes == 2 * (240 * 2 / 3) + 160 * 2 / 3 + 240 + 20);
    CHECK(w, stats.busy_s > 0 && stats.waited_s > 0);
    /* a wait for a rank that comes later is no communication; sums may round */
    CHECK(w, stats.exposed_s >= 0 && stats.exposed_s <= stats.waited_s * (1 + 1e-12));
    CHECK(w, stats.exposed_s <= stats.busy_s * (1 + 1e-12));
    CHECK(w, fabs(stats.charged_s - stats.exposed_s) <= 1e-12);
    return CADRE_OK;
}

cadre_status case_counts(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_counts, arg, rank, segment);
}

/* A wait on the world for an operation of another communicator is charged to that. */
static cadre_status run_charge(struct world *w, float *x, uint64_t n)
{
    struct cadre_comm_stats before, after, other;
    struct cadre_comm *pair;
    struct cadre_error err = {0};
    cadre_event e;
    CHECK(w, cadre_comm_split(w->comm, 0, 0, &pair, &err) == 0);
    cadre_comm_read_stats(w->comm, &before);
    CHECK(w, cadre_comm_all_reduce(pair, "slow", x, x, n, CADRE_F32, CADRE_SUM, 0,
                                   &e) == 0);
    CHECK(w, cadre_comm_wait(w->comm, e) == 0);
    cadre_comm_read_stats(w->comm, &after);
    cadre_comm_read_stats(pair, &other);
    CHECK(w, after.charged_s == before.charged_s && other.charged_s > 0);
    CHECK(w, other.exposed_s == 0 &&
                 fabs(after.exposed_s - before.exposed_s - other.charged_s) < 1e-9);
    cadre_comm_destroy(pair);
    return CADRE_OK;
}

/* 3 operations of 2 MB on a link of 0.1 GB/s and 5 ms: at 2 ranks an all_reduce sends
 * its whole size, so 20 ms each, one after the other on the link. */
static cadre_status run_link(struct world *w, const char *arg)
{
    enum { N = 500000 };
    float *x = comm_calloc(w, N, sizeof *x);
    cadre_event e, got = 0;
    CHECK(w, x && w->size == 2);
    CHECK(w, cadre_comm_barrier(w->comm, "start", 0, &e) == 0 &&
                 cadre_comm_wait(w->comm, e) == 0);
    uint64_t began = comm_now_ns();
    for (int i = 0; i < 2; i++)
        CHECK(w, cadre_comm_all_reduce(w->comm, "slow", x, x, N, CADRE_F32, CADRE_SUM,
                                       0, &e) == 0);
    CHECK(w, cadre_comm_wait(w->comm, e) == 0);
    CHECK(w,
          comm_now_ns() - began >= 45000000); /* the minimum, on a loaded machine too */
    began = comm_now_ns();
    if (w->rank == 0)
        CHECK(w, cadre_comm_send(w->comm, "slow", x, N, CADRE_F32, 1, 0, &got) == 0);
    else
        CHECK(w, cadre_comm_recv(w->comm, "slow", x, N, CADRE_F32, 0, 0, &got) == 0);
    CHECK(w, cadre_comm_wait(w->comm, got) == 0);
    CHECK(w, w->rank == 1 || comm_now_ns() - began >= 25000000);
    CHECK(w, run_charge(w, x, N) == CADRE_OK);
    comm_free(w, x);
    return CADRE_OK;
}

cadre_status case_slow_link(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_link, arg, rank, segment);
}
