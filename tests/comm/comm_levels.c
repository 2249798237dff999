/* SPDX-License-Identifier: Apache-2.0 */
/* Two levels: 4 ranks on 2 emulated nodes of 2. */
#include <stdio.h>

#include "core/comm/nodes.h"
#include "tests/comm/comm_cases.h"

enum { N = 500001 }; /* does not divide */

/* The world, the ranks of this node, those of this place in every node. */
struct levels {
    struct cadre_comm *world, *inside, *across;
};

static cadre_status make(const struct world *w, struct levels *l)
{
    struct cadre_comm_stats stats;
    struct cadre_error err = {0};
    l->world = w->comm;
    CHECK(w, cadre_nodes_count(w->comm) == 1);
    CHECK(w, cadre_nodes_find(w->comm, CADRE_NODES_ARE_HOSTS, &err) == 0);
    CHECK(w, cadre_nodes_count(w->comm) == 1 && !w->comm->node);
    CHECK(w, cadre_nodes_find(w->comm, 2, &err) == 0);
    CHECK(w, cadre_nodes_count(w->comm) == 2);
    CHECK(w, cadre_comm_split(w->comm, w->rank / 2, 0, &l->inside, &err) == 0);
    CHECK(w, cadre_comm_split(w->comm, w->rank % 2, 0, &l->across, &err) == 0);
    CHECK(w, cadre_nodes_count(l->inside) == 1 && cadre_nodes_count(l->across) == 2);
    cadre_comm_read_stats(l->across, &stats);
    CHECK(w, stats.operations == 0 && stats.bytes == 0);
    return CADRE_OK;
}

/* What the communicator has sent since it was made is as promised. */
static cadre_status sent(const struct world *w, const struct cadre_comm *comm,
                         uint64_t bytes, uint64_t between)
{
    struct cadre_comm_stats stats;
    cadre_comm_read_stats(comm, &stats);
    if (stats.bytes != bytes || stats.between_bytes != between)
        fprintf(stderr, "rank %d: %llu bytes, %llu between nodes\n", w->rank,
                (unsigned long long)stats.bytes,
                (unsigned long long)stats.between_bytes);
    CHECK(w, stats.bytes == bytes && stats.between_bytes == between);
    return CADRE_OK;
}

static cadre_status sum(const struct world *w, struct cadre_comm *comm, float *x)
{
    cadre_event e;
    CHECK(w, cadre_comm_all_reduce(comm, "sum", x, x, N, CADRE_F32, CADRE_SUM, 0, &e) ==
                 0);
    return cadre_comm_wait(comm, e);
}

/* Of a sum over all each rank sends 2 of 3 parts to the other node; over the ranks of
 * one place all; inside a node nothing. 20 ms and 5 ms are the least of the first two.
 */
static cadre_status collectives(const struct world *w, const struct levels *l, float *x)
{
    const uint64_t whole = 4u * N, all = 2 * (whole * 3 / 4);
    struct cadre_comm_stats before;
    cadre_comm_read_stats(l->world, &before);
    uint64_t began = comm_now_ns();
    CADRE_TRY(sum(w, l->world, x));
    CHECK(w, comm_now_ns() - began >= 24000000);
    CADRE_TRY(sent(w, l->world, before.bytes + all, all / 3 * 2 + all % 3 * 2 / 3));
    began = comm_now_ns();
    CADRE_TRY(sum(w, l->across, x));
    CHECK(w, comm_now_ns() - began >= 24000000);
    CADRE_TRY(sent(w, l->across, whole, whole));
    CADRE_TRY(sum(w, l->inside, x));
    return sent(w, l->inside, whole, 0);
}

/* Rank 0 sends to its neighbour, then to rank 2. */
static cadre_status messages(const struct world *w, const struct levels *l, float *x)
{
    struct cadre_comm_stats before;
    cadre_event near = 0, far = 0;
    cadre_comm_read_stats(l->world, &before);
    if (w->rank == 0) {
        CHECK(w, cadre_comm_send(l->world, "near", x, 7, CADRE_F32, 1, 0, &near) == 0);
        CHECK(w, cadre_comm_send(l->world, "far", x, N, CADRE_F32, 2, 0, &far) == 0);
    }
    uint64_t began = comm_now_ns();
    if (w->rank == 1)
        CHECK(w, cadre_comm_recv(l->world, "near", x, 7, CADRE_F32, 0, 0, &near) == 0);
    if (w->rank == 2)
        CHECK(w, cadre_comm_recv(l->world, "far", x, N, CADRE_F32, 0, 0, &far) == 0);
    CADRE_TRY(cadre_comm_wait(l->world, near));
    CADRE_TRY(cadre_comm_wait(l->world, far));
    if (w->rank == 0)
        CHECK(w, comm_now_ns() - began >= 23000000);
    if (w->rank != 0)
        return sent(w, l->world, before.bytes, before.between_bytes);
    return sent(w, l->world, before.bytes + 28 + 4u * N, before.between_bytes + 4u * N);
}

static cadre_status run_levels(struct world *w, const char *arg)
{
    struct levels l = {0};
    float *x = comm_calloc(w, N, sizeof *x);
    (void)arg;
    CHECK(w, x && w->size == 4);
    cadre_status rc = make(w, &l);
    if (rc == CADRE_OK)
        rc = collectives(w, &l, x);
    if (rc == CADRE_OK)
        rc = messages(w, &l, x);
    if (l.across)
        cadre_comm_destroy(l.across);
    if (l.inside)
        cadre_comm_destroy(l.inside);
    comm_free(w, x);
    return rc;
}

cadre_status case_levels(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_levels, arg, rank, segment);
}
