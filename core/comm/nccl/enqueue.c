/* SPDX-License-Identifier: Apache-2.0 */
/* A posted operation is submitted to its channel's stream, and stays in the channel's
 * queue until it is seen to be done. */
#include <stdlib.h>

#include "core/base/rank_page.h"
#include "core/comm/nccl/private.h"

/* All that the stream has to do. */
static cadre_status give(struct nccl_op *op)
{
    struct cadre_device *worker = op->channel->worker;
    bool host = op->base.memory == CADRE_COMM_HOST_MEMORY;
    const void *in = op->base.in;
    void *out = op->base.out;
    CADRE_TRY(cadre_nccl_check_device(op,
                                      worker->ops->event_wait(worker, op->base.after),
                                      "wait for what comes before"));
    if (host)
        CADRE_TRY(cadre_nccl_check_device(op, cadre_nccl_stage_in(op, &in, &out),
                                          "take a buffer of the host"));
    CADRE_TRY(cadre_nccl_move(op, in, out));
    if (host)
        CADRE_TRY(cadre_nccl_check_device(op, cadre_nccl_stage_out(op),
                                          "give a buffer of the host"));
    return cadre_nccl_check_device(op, worker->ops->event_record(worker, &op->done),
                                   "record an event");
}

/* Into the channel's queue; a failed one is kept, because the stream may still run work
 * already submitted. */
static cadre_status append(struct nccl_op *op, cadre_status rc)
{
    struct nccl_channel *c = op->channel;
    struct nccl_world *w = c->world;
    pthread_mutex_lock(&w->lock);
    if (rc == CADRE_OK && cadre_failure_is_set(&w->failure))
        rc = CADRE_E_ABORTED;
    if (rc == CADRE_OK) {
        if (c->head)
            c->tail->next = op;
        else
            c->head = op;
        c->tail = op;
    } else {
        op->status = rc;
        op->next = w->dead;
        w->dead = op;
    }
    pthread_mutex_unlock(&w->lock);
    return rc;
}

/* The channel of a direction; NULL for no neighbour. */
static struct nccl_channel *direction(const struct nccl_group *g, int peer, bool sends)
{
    struct nccl_channel *const *channels = sends ? g->send : g->recv;
    if (peer == (g->base.rank + 1) % g->base.size)
        return channels[0];
    if (peer == (g->base.rank + g->base.size - 1) % g->base.size)
        return channels[1];
    return NULL;
}

static struct nccl_channel *channel_of(const struct nccl_op *op)
{
    bool sends = op->base.kind == CADRE_COMM_SEND;
    return sends || op->base.kind == CADRE_COMM_RECV
               ? direction(op->group, op->base.root, sends)
               : op->group->all;
}

/* CADRE_OK where the operation can be given to its channel. */
static cadre_status check(const struct nccl_op *op)
{
    const struct cadre_comm *comm = &op->group->base;
    if (op->base.after != 0 && !(op->base.after & CADRE_DEVICE_EVENT))
        return cadre_comm_refuse(comm, &op->base, CADRE_E_INVALID,
                                 "the event it comes after was never posted");
    if (cadre_failure_is_set(comm->context->failure))
        return CADRE_E_ABORTED;
    if (!op->channel)
        return cadre_comm_refuse(
            comm, &op->base, CADRE_E_UNSUPPORTED,
            "over NCCL a rank sends only to its neighbours in the group's "
            "ring (the next rank and the one before)");
    return CADRE_OK;
}

cadre_status cadre_nccl_enqueue(struct cadre_comm *comm, struct cadre_comm_op *base,
                                cadre_event *done)
{
    struct nccl_op *op = (struct nccl_op *)base;
    op->group = (struct nccl_group *)comm;
    op->channel = channel_of(op);
    struct nccl_channel *channel = op->channel;
    cadre_status rc = check(op);
    if (rc != CADRE_OK) {
        free(op);
        return rc;
    }
    pthread_mutex_lock(&channel->posting);
    op->base.sequence = ++channel->posted;
    cadre_rank_page_queued(channel->world->context.page, op->base.shown,
                           op->base.sequence);
    rc = cadre_failure_is_set(comm->context->failure) ? CADRE_E_ABORTED : give(op);
    cadre_event event = op->done; /* the watcher may free it once it is in the queue */
    rc = append(op, rc);
    pthread_mutex_unlock(&channel->posting);
    if (rc == CADRE_OK && done)
        *done = event;
    return rc;
}
