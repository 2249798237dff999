/* SPDX-License-Identifier: Apache-2.0 */
/* The backend `local`: operations go to queues; communicators are made and
 * destroyed. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/cores.h"
#include "core/comm/local/private.h"

static const struct cadre_comm_backend backend;

/* The queue of one direction, made when it is first used. */
static struct local_queue *direction(struct local_comm *c, int peer, bool sends)
{
    struct local_queue **q = sends ? &c->peers[peer].send : &c->peers[peer].recv;
    pthread_mutex_lock(&c->lock);
    if (!*q)
        *q = cadre_local_queue_create(c, sends ? cadre_local_run_send
                                               : cadre_local_run_recv);
    struct local_queue *made = *q;
    pthread_mutex_unlock(&c->lock);
    return made;
}

static cadre_status local_enqueue(struct cadre_comm *comm, struct cadre_comm_op *op,
                                  cadre_event *done)
{
    struct local_comm *c = (struct local_comm *)comm;
    struct local_queue *queue = c->collective;
    if (op->kind == CADRE_COMM_SEND || op->kind == CADRE_COMM_RECV)
        queue = direction(c, op->root, op->kind == CADRE_COMM_SEND);
    cadre_status rc = queue ? CADRE_OK : CADRE_E_RESOURCE;
    if (!cadre_local_event_exists(c->me, op->after))
        rc = cadre_comm_refuse(comm, op, CADRE_E_INVALID,
                               "the event it comes after was never posted");
    if (rc == CADRE_OK)
        return cadre_local_queue_post(queue, (struct local_op *)op, done);
    free(op);
    return rc;
}

static cadre_status local_wait(struct cadre_comm *comm, cadre_event event)
{
    return cadre_local_event_wait(((struct local_comm *)comm)->me, event, NULL);
}

static cadre_status local_test(struct cadre_comm *comm, cadre_event event,
                               bool *happened)
{
    return cadre_local_event_test(((struct local_comm *)comm)->me, event, happened);
}

static cadre_status local_use_device(struct cadre_comm *comm,
                                     struct cadre_device *device,
                                     struct cadre_error *err)
{
    struct local_rank *me = ((struct local_comm *)comm)->me;
    (void)err;
    for (uint64_t i = 0; device != me->context.device && i < me->queue_count; i++)
        cadre_local_queue_leave_device(atomic_load(&me->queues[i]));
    return CADRE_OK;
}

static void local_abort(struct cadre_comm *comm, const char *why)
{
    struct local_comm *c = (struct local_comm *)comm;
    cadre_local_segment_store_failure(c->me->segment, CADRE_E_ABORTED, why);
}

static void rank_destroy(struct local_rank *me)
{
    for (uint64_t i = 0; i < me->queue_count; i++)
        cadre_local_queue_destroy(atomic_load(&me->queues[i]));
    pthread_mutex_destroy(&me->lock);
    cadre_comm_context_fini(&me->context);
    free(me);
}

static void comm_free(struct local_comm *c)
{
    if (!c)
        return;
    pthread_mutex_destroy(&c->lock);
    free(c->peers);
    free(c);
}

static void local_destroy(struct cadre_comm *comm)
{
    struct local_comm *c = (struct local_comm *)comm;
    struct shared_slot *slot = &c->group->slots[c->base.rank];
    cadre_local_queue_stop(c->collective);
    for (int m = 0; m < c->base.size; m++) {
        if (c->peers[m].send)
            cadre_local_queue_stop(c->peers[m].send);
        if (c->peers[m].recv)
            cadre_local_queue_stop(c->peers[m].recv);
    }
    atomic_store(&slot->left, 1);
    cadre_local_futex_wake(&c->group->generation);
    if (c->is_world)
        rank_destroy(c->me);
    comm_free(c);
}

/* NULL: no memory, or too many queues. */
static struct local_comm *comm_create(struct local_rank *me, struct shared_group *group,
                                      int rank)
{
    struct local_comm *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    size_t size = (size_t)group->size;
    pthread_mutex_init(&c->lock, NULL);
    c->base.backend = &backend;
    c->base.context = &me->context;
    c->base.rank = rank;
    c->base.size = group->size;
    c->me = me;
    c->group = group;
    c->peers = calloc(size, sizeof *c->peers);
    if (c->peers)
        c->collective = cadre_local_queue_create(c, cadre_local_run_collective);
    if (!c->collective) {
        comm_free(c);
        return NULL;
    }
    return c;
}

static cadre_status local_split(struct cadre_comm *comm, int color, int key,
                                struct cadre_comm **out, struct cadre_error *err)
{
    struct local_comm *c = (struct local_comm *)comm;
    struct local_split split = {.color = color, .key = key};
    const struct cadre_comm_op from = {
        .kind = CADRE_COMM_SPLIT, .label = "split", .dtype = CADRE_U8, .out = &split};
    struct cadre_comm_op *op = cadre_comm_op_create(comm, &from);
    cadre_event done;
    cadre_status rc = op ? local_enqueue(comm, op, &done) : CADRE_E_RESOURCE;
    if (rc == CADRE_OK)
        rc = cadre_local_event_wait(c->me, done, NULL);
    if (rc != CADRE_OK) {
        if (cadre_failure_get(comm->context->failure, err) == CADRE_OK)
            cadre_fail(err, rc, "rank %d: split failed", c->me->context.rank);
        if (err)
            err->code = rc;
        return rc;
    }
    struct local_comm *made = NULL;
    if (split.group) {
        made = comm_create(c->me, local_at(c->me->segment, split.group), split.rank);
        if (!made) {
            rc = cadre_fail(err, CADRE_E_RESOURCE,
                            "rank %d: no memory for another communicator",
                            c->me->context.rank);
            local_abort(comm, err ? err->text : "no memory for another communicator");
            return rc;
        }
    }
    *out = made ? &made->base : NULL;
    return CADRE_OK;
}

static const struct cadre_comm_backend backend = {
    .op_bytes = sizeof(struct local_op),
    .enqueue = local_enqueue,
    .wait = local_wait,
    .test = local_test,
    .use_device = local_use_device,
    .split = local_split,
    .abort = local_abort,
    .destroy = local_destroy,
};

cadre_status cadre_local_open(struct cadre_local_segment *segment, int rank,
                              struct cadre_comm **out, struct cadre_error *err)
{
    struct shared_segment *s = segment->shared;
    if (rank < 0 || rank >= s->config.size)
        return cadre_fail(err, CADRE_E_INVALID, "rank is %d; expected 0 to %d", rank,
                          s->config.size - 1);
    if (atomic_exchange(&s->ranks[rank].opened, 1))
        return cadre_fail(err, CADRE_E_INVALID,
                          "rank %d opened the communicator twice; each rank opens once",
                          rank);
    struct local_rank *me = calloc(1, sizeof *me);
    if (!me)
        return cadre_fail(err, CADRE_E_RESOURCE, "rank %d: no memory", rank);
    pthread_mutex_init(&me->lock, NULL);
    cadre_comm_context_init(&me->context, rank, s->config.size, &s->ranks[rank].step,
                            &s->failure);
    me->segment = segment;
    me->shared = &s->ranks[rank];
    me->direct = !s->config.processes;
    me->spins = s->config.size <= cadre_cores();
    struct local_comm *c = comm_create(me, local_at(segment, s->world), rank);
    if (!c) {
        rank_destroy(me);
        return cadre_fail(err, CADRE_E_RESOURCE, "rank %d: no memory", rank);
    }
    c->is_world = true;
    *out = &c->base;
    return CADRE_OK;
}
