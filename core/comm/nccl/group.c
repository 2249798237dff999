/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: the channel of their collectives, and those of the directions in their ring.
 * NCCL connects two ranks at their first exchange, and the first one waits; so each
 * channel is used once while it is made, with all ranks present, and posting never
 * waits for another rank. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/comm/nccl/private.h"

/* Groups of pairs that share no rank: edge i connects i and i + 1, the last rank and
 * 0. */
static int phase_of(int edge, int size)
{
    return edge == size - 1 && size % 2 == 1 ? 2 : edge % 2;
}

/* Until the channel's stream has done what it was given; as cadre_nccl_settle. */
static ncclResult_t finish(struct nccl_channel *c)
{
    struct cadre_device *worker = c->worker;
    double until = cadre_now_s() + c->world->timeout_s;
    cadre_device_event event = 0;
    bool happened = false;
    cadre_status rc = worker->ops->event_record(worker, &event);
    for (unsigned turns = 0; rc == CADRE_OK && !happened; turns++) {
        if (cadre_failure_is_set(&c->world->failure) || cadre_now_s() > until)
            return ncclInProgress;
        cadre_nccl_pause(turns);
        rc = worker->ops->event_query(worker, event, &happened);
    }
    return rc == CADRE_OK ? ncclSuccess : ncclUnhandledCudaError;
}

/* One byte from rank 0 to rank 1 of the channel, or all_reduced by all of them; done on
 * return, so that only operations are in the stream later. */
static cadre_status greet(struct nccl_channel *c, bool pair, struct cadre_error *err)
{
    ncclResult_t result;
    char text[512];
    if (c->size == 1)
        return CADRE_OK;
    pthread_mutex_lock(&c->posting);
    if (!pair)
        result = ncclAllReduce(c->scratch, c->scratch, 1, ncclUint8, ncclMax, c->comm,
                               c->stream);
    else if (c->rank == 0)
        result = ncclSend(c->scratch, 1, ncclUint8, 1, c->comm, c->stream);
    else
        result = ncclRecv(c->scratch, 1, ncclUint8, 0, c->comm, c->stream);
    result = cadre_nccl_settle(c->world, c->comm, result);
    if (result == ncclSuccess)
        result = finish(c);
    cadre_nccl_text(result, c->comm, text, sizeof text);
    pthread_mutex_unlock(&c->posting);
    if (result == ncclSuccess)
        return CADRE_OK;
    if (result == ncclInProgress)
        return cadre_fail(err, CADRE_E_COMM,
                          "rank %d: a first message over NCCL did not arrive within "
                          "%g s; look at the other ranks' logs, or raise comm.timeout",
                          c->world->context.rank, c->world->timeout_s);
    return cadre_fail(err, CADRE_E_COMM,
                      "rank %d: a first message over NCCL failed: %s; %s",
                      c->world->context.rank, text, cadre_nccl_advice(text));
}

/* The channels of the pairs of one phase. Sender and receiver of an edge are its first
 * and second rank, or the reverse where `back` is set. */
static cadre_status open_phase(struct nccl_group *g, int phase, bool back,
                               struct cadre_error *err)
{
    int rank = g->base.rank, size = g->base.size;
    int before = (rank + size - 1) % size;
    bool first = phase_of(rank, size) == phase;
    bool second = !first && phase_of(before, size) == phase;
    int edge = first ? rank : second ? before : -1;
    bool sends = first != back;
    struct nccl_channel *c = NULL;
    cadre_status rc =
        cadre_nccl_channel_split(g->all, edge, sends ? 0 : 1, true, &c, err);
    if (rc != CADRE_OK || !c)
        return rc;
    /* with two ranks both edges are the same pair, and [1] stays empty */
    int at = first || size == 2 ? 0 : 1;
    if (sends)
        g->send[at] = c;
    else
        g->recv[at] = c;
    return greet(c, true, err);
}

static cadre_status open_ring(struct nccl_group *g, struct cadre_error *err)
{
    int size = g->base.size, phases = size % 2 == 1 ? 3 : 2;
    cadre_status rc = CADRE_OK;
    for (int back = 0; back < (size > 2 ? 2 : 1); back++)
        for (int phase = 0; size > 1 && phase < phases && rc == CADRE_OK; phase++)
            rc = open_phase(g, phase, back != 0, err);
    return rc;
}

static void close_group(struct nccl_group *g)
{
    for (int i = 0; i < 2; i++) {
        cadre_nccl_channel_close(g->send[i]);
        cadre_nccl_channel_close(g->recv[i]);
    }
    cadre_nccl_channel_close(g->all);
    free(g);
}

/* If the world has failed, wait until the watcher has ended NCCL's work. */
static void await_abort(struct nccl_world *w)
{
    pthread_mutex_lock(&w->lock);
    while (cadre_failure_is_set(&w->failure) && !w->aborted)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

/* The world fails with `why`, unless it has failed; err is the first failure. */
static cadre_status fail(struct nccl_world *w, const struct cadre_error *why,
                         struct cadre_error *err)
{
    cadre_nccl_fail(w, NULL, CADRE_E_COMM, "%s", why->text);
    await_abort(w);
    cadre_fail(err, why->code, "%s", cadre_failure_text(&w->failure));
    return why->code;
}

cadre_status cadre_nccl_group_open(struct nccl_world *world, struct nccl_channel *all,
                                   struct nccl_group **out, struct cadre_error *err)
{
    struct nccl_group *g = calloc(1, sizeof *g);
    struct cadre_error why = {0};
    cadre_status rc;
    if (g) {
        g->base.backend = &cadre_nccl_backend;
        g->base.context = &world->context;
        g->base.rank = all->rank;
        g->base.size = all->size;
        g->world = world;
        g->all = all;
        rc = greet(all, false, &why);
        if (rc == CADRE_OK)
            rc = open_ring(g, &why);
        if (rc == CADRE_OK) {
            *out = g;
            return CADRE_OK;
        }
    } else
        rc = cadre_fail(&why, CADRE_E_RESOURCE, "rank %d: no memory",
                        world->context.rank);
    fail(world, &why, err);
    if (g)
        close_group(g);
    else
        cadre_nccl_channel_close(all);
    return rc;
}

cadre_status cadre_nccl_split(struct cadre_comm *comm, int color, int key,
                              struct cadre_comm **out, struct cadre_error *err)
{
    const struct nccl_group *parent = (const struct nccl_group *)comm;
    struct nccl_world *w = parent->world;
    struct nccl_channel *all = NULL;
    struct nccl_group *g = NULL;
    struct cadre_error why = {0};
    cadre_nccl_drain(w); /* NCCL splits a communicator without pending work */
    cadre_status rc =
        cadre_nccl_channel_split(parent->all, color, key, false, &all, &why);
    if (rc != CADRE_OK)
        return fail(w, &why, err);
    if (all)
        rc = cadre_nccl_group_open(w, all, &g, err);
    if (rc == CADRE_OK)
        *out = g ? &g->base : NULL;
    return rc;
}

/* Is anything of the group pending? Under the lock. */
static const struct nccl_op *pending(const struct nccl_group *g)
{
    const struct nccl_channel *each[] = {g->all, g->send[0], g->send[1], g->recv[0],
                                         g->recv[1]};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        if (each[i] && each[i]->head)
            return each[i]->head;
    return NULL;
}

void cadre_nccl_destroy(struct cadre_comm *comm)
{
    struct nccl_group *g = (struct nccl_group *)comm;
    struct nccl_world *w = g->world;
    bool is_world = g->is_world;
    char text[256], why[512];
    pthread_mutex_lock(&w->lock);
    cadre_nccl_reap(w);
    const struct nccl_op *left = pending(g);
    if (left) {
        cadre_nccl_op_text(left, text, sizeof text);
        snprintf(why, sizeof why, "%s was pending when its communicator ended", text);
        cadre_nccl_fail_locked(w, left, CADRE_E_COMM, why);
    }
    pthread_mutex_unlock(&w->lock);
    await_abort(w);
    close_group(g);
    if (!is_world)
        return;
    cadre_nccl_watch_stop(w);
    cadre_nccl_world_destroy(w);
}
