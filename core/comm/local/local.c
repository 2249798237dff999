/* SPDX-License-Identifier: Apache-2.0 */
/* The communicator table of `local`: checks arguments, posts to queues, makes and
 * destroys communicators. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/comm/local/internal.h"
#include "core/comm/reduce.h"
#include "core/tensor/dtype.h"

static const struct cadre_comm_ops local_ops;

static cadre_status refuse(const struct local_comm *c, const struct local_op *op,
                           const char *why)
{
    cadre_log(CADRE_LOG_ERROR, "comm", "rank %d: %s '%s' refused: %s", c->me->rank,
              cadre_local_kind_name(op->kind), op->label ? op->label : "", why);
    return CADRE_E_INVALID;
}

static bool ascend_from_zero(const uint64_t *offsets, int size)
{
    bool ok = offsets && offsets[0] == 0;
    for (int m = 0; ok && m < size; m++)
        ok = offsets[m] <= offsets[m + 1];
    return ok;
}

static cadre_status check(const struct local_comm *c, const struct local_op *op)
{
    bool reduces = op->kind == LOCAL_ALL_REDUCE || op->kind == LOCAL_REDUCE_SCATTER;
    bool peers = op->kind == LOCAL_SEND || op->kind == LOCAL_RECV;
    size_t element = cadre_dtype_bytes(op->dtype);
    if (element == 0)
        return refuse(c, op, "unknown dtype");
    if (op->count > INT64_MAX / element / 2)
        return refuse(c, op, "the count is beyond the address space");
    if (reduces && !cadre_reduce_supports(op->dtype, op->red))
        return refuse(c, op, "this dtype has no such reduction");
    if (op->root < 0 || op->root >= c->base.size)
        return refuse(c, op, "no such rank in the group");
    if (peers && op->root == c->base.rank)
        return refuse(c, op, "a rank does not send to itself");
    if (op->kind == LOCAL_ALL_TO_ALL && op->count % (uint64_t)c->base.size)
        return refuse(c, op, "the count is not a multiple of the ranks");
    if (!cadre_local_event_exists(c->me, op->after))
        return refuse(c, op, "the event it comes after was never posted");
    if (op->kind == LOCAL_ALL_TO_ALL && op->in == op->out && op->count)
        return refuse(c, op, "in and out are the same");
    return CADRE_OK;
}

/* Slices of an all_reduce: equal, cut at whole cache lines. */
static void even_slices(uint64_t *offsets, int size, uint64_t count)
{
    uint64_t each = (count / (uint64_t)size + 63) / 64 * 64;
    for (int m = 0; m <= size; m++) {
        uint64_t at = (uint64_t)m * each;
        offsets[m] = at < count && m < size ? at : count;
    }
}

/* `offsets`: those of the caller, or NULL. */
static cadre_status post(struct local_comm *c, struct local_queue *queue,
                         const struct local_op *from, const uint64_t *offsets,
                         cadre_event *done)
{
    cadre_status rc = check(c, from);
    if (rc != CADRE_OK)
        return rc;
    struct local_op *op = malloc(sizeof *op);
    if (!op || !queue) {
        free(op);
        return CADRE_E_RESOURCE;
    }
    *op = *from;
    if (offsets || op->kind == LOCAL_ALL_REDUCE) {
        size_t n = (size_t)c->base.size + 1;
        op->offsets = malloc(n * sizeof *op->offsets);
        if (!op->offsets) {
            free(op);
            return CADRE_E_RESOURCE;
        }
        if (offsets)
            memcpy(op->offsets, offsets, n * sizeof *offsets);
        else
            even_slices(op->offsets, c->base.size, op->count);
    }
    if (!cadre_local_memory_find(c, op)) {
        free(op->offsets);
        free(op);
        return refuse(c, from, "one buffer is the host's, the other the device's");
    }
    return cadre_local_queue_post(queue, op, done);
}

/* lint: long because the table of operations has this signature */
static cadre_status local_all_reduce(struct cadre_comm *comm, cadre_comm_label label,
                                     const void *in, void *out, uint64_t count,
                                     uint32_t dtype, uint32_t red, cadre_event after,
                                     cadre_event *done)
{
    struct local_comm *c = (struct local_comm *)comm;
    struct local_op op = {.kind = LOCAL_ALL_REDUCE,
                          .label = label,
                          .in = in,
                          .out = out,
                          .count = count,
                          .dtype = dtype,
                          .red = red,
                          .after = after};
    return post(c, c->collective, &op, NULL, done);
}

/* reduce_scatter and all_gather: the count is the last offset. */
static cadre_status post_slices(struct local_comm *c, struct local_op *op,
                                const uint64_t *offsets, cadre_event *done)
{
    if (!ascend_from_zero(offsets, c->base.size))
        return refuse(c, op, "offsets do not ascend from 0");
    op->count = offsets[c->base.size];
    return post(c, c->collective, op, offsets, done);
}

/* lint: long because the table of operations has this signature */
static cadre_status local_reduce_scatter(struct cadre_comm *comm,
                                         cadre_comm_label label, const void *in,
                                         void *out, const uint64_t *offsets,
                                         uint32_t dtype, uint32_t red,
                                         cadre_event after, cadre_event *done)
{
    struct local_op op = {.kind = LOCAL_REDUCE_SCATTER,
                          .label = label,
                          .in = in,
                          .out = out,
                          .dtype = dtype,
                          .red = red,
                          .after = after};
    return post_slices((struct local_comm *)comm, &op, offsets, done);
}

static cadre_status local_all_gather(struct cadre_comm *comm, cadre_comm_label label,
                                     const void *in, void *out, const uint64_t *offsets,
                                     uint32_t dtype, cadre_event after,
                                     cadre_event *done)
{
    struct local_op op = {.kind = LOCAL_ALL_GATHER,
                          .label = label,
                          .in = in,
                          .out = out,
                          .dtype = dtype,
                          .after = after};
    return post_slices((struct local_comm *)comm, &op, offsets, done);
}

static cadre_status local_broadcast(struct cadre_comm *comm, cadre_comm_label label,
                                    void *buf, uint64_t count, uint32_t dtype, int root,
                                    cadre_event after, cadre_event *done)
{
    struct local_comm *c = (struct local_comm *)comm;
    struct local_op op = {.kind = LOCAL_BROADCAST,
                          .label = label,
                          .in = buf,
                          .out = buf,
                          .count = count,
                          .dtype = dtype,
                          .root = root,
                          .after = after};
    return post(c, c->collective, &op, NULL, done);
}

static cadre_status local_all_to_all(struct cadre_comm *comm, cadre_comm_label label,
                                     const void *in, void *out, uint64_t count,
                                     uint32_t dtype, cadre_event after,
                                     cadre_event *done)
{
    struct local_comm *c = (struct local_comm *)comm;
    struct local_op op = {.kind = LOCAL_ALL_TO_ALL,
                          .label = label,
                          .in = in,
                          .out = out,
                          .count = count,
                          .dtype = dtype,
                          .after = after};
    return post(c, c->collective, &op, NULL, done);
}

static cadre_status local_barrier(struct cadre_comm *comm, cadre_comm_label label,
                                  cadre_event after, cadre_event *done)
{
    struct local_comm *c = (struct local_comm *)comm;
    struct local_op op = {
        .kind = LOCAL_BARRIER, .label = label, .dtype = CADRE_U8, .after = after};
    return post(c, c->collective, &op, NULL, done);
}

/* The queue of one direction, made when it is first used; NULL for no such peer. */
static struct local_queue *direction(struct local_comm *c, int peer, bool sends)
{
    if (peer < 0 || peer >= c->base.size)
        return NULL;
    struct local_queue **q = sends ? &c->peers[peer].send : &c->peers[peer].recv;
    pthread_mutex_lock(&c->lock);
    if (!*q)
        *q = cadre_local_queue_create(c, sends ? cadre_local_run_send
                                               : cadre_local_run_recv);
    struct local_queue *made = *q;
    pthread_mutex_unlock(&c->lock);
    return made;
}

static cadre_status local_send(struct cadre_comm *comm, cadre_comm_label label,
                               const void *buf, uint64_t count, uint32_t dtype, int to,
                               cadre_event after, cadre_event *done)
{
    struct local_comm *c = (struct local_comm *)comm;
    struct local_op op = {.kind = LOCAL_SEND,
                          .label = label,
                          .in = buf,
                          .count = count,
                          .dtype = dtype,
                          .root = to,
                          .after = after};
    return post(c, direction(c, to, true), &op, NULL, done);
}

static cadre_status local_recv(struct cadre_comm *comm, cadre_comm_label label,
                               void *buf, uint64_t count, uint32_t dtype, int from,
                               cadre_event after, cadre_event *done)
{
    struct local_comm *c = (struct local_comm *)comm;
    struct local_op op = {.kind = LOCAL_RECV,
                          .label = label,
                          .out = buf,
                          .count = count,
                          .dtype = dtype,
                          .root = from,
                          .after = after};
    return post(c, direction(c, from, false), &op, NULL, done);
}

static cadre_status local_wait(struct cadre_comm *comm, cadre_event event)
{
    struct local_comm *c = (struct local_comm *)comm;
    if (event == 0)
        return CADRE_OK;
    uint64_t began = cadre_local_now_ns();
    cadre_status rc = cadre_local_event_wait(c->me, event, NULL);
    pthread_mutex_lock(&c->lock);
    c->stats.waited_s += (double)(cadre_local_now_ns() - began) * 1e-9;
    pthread_mutex_unlock(&c->lock);
    return rc;
}

static cadre_status local_join(struct cadre_comm *comm, struct cadre_device *device,
                               cadre_event event)
{
    if (event & CADRE_DEVICE_EVENT)
        return device->ops->event_wait(device, event);
    return local_wait(comm, event);
}

static cadre_status local_use_device(struct cadre_comm *comm,
                                     struct cadre_device *device,
                                     struct cadre_error *err)
{
    struct local_rank *me = ((struct local_comm *)comm)->me;
    struct cadre_device *sees = device && device->ops->queued ? device : NULL;
    (void)err;
    if (sees == atomic_load(&me->device))
        return CADRE_OK;
    for (uint64_t i = 0; i < me->queue_count; i++)
        cadre_local_queue_leave_device(atomic_load(&me->queues[i]));
    atomic_store(&me->device, sees);
    return CADRE_OK;
}

static void local_abort(struct cadre_comm *comm, const char *why)
{
    struct local_comm *c = (struct local_comm *)comm;
    cadre_local_segment_store_failure(c->me->segment, CADRE_E_ABORTED, why);
}

static void local_stats(const struct cadre_comm *comm, struct cadre_comm_stats *out)
{
    struct local_comm *c = (struct local_comm *)comm;
    pthread_mutex_lock(&c->lock);
    *out = c->stats;
    pthread_mutex_unlock(&c->lock);
}

static void local_set_step(struct cadre_comm *comm, uint64_t step)
{
    atomic_store(&((struct local_comm *)comm)->me->shared->step, step);
}

static cadre_status local_failure(const struct cadre_comm *comm,
                                  struct cadre_error *err)
{
    const struct cadre_local_segment *segment =
        ((const struct local_comm *)comm)->me->segment;
    char text[1024];
    if (!local_failed(segment))
        return CADRE_OK;
    cadre_local_segment_failure(segment, text, sizeof text);
    bool by_abort = atomic_load(&segment->shared->state) == LOCAL_FAILED &&
                    segment->shared->failure_code == CADRE_E_ABORTED;
    return cadre_fail(err, by_abort ? CADRE_E_ABORTED : CADRE_E_COMM, "%s", text);
}

static void rank_destroy(struct local_rank *me)
{
    for (uint64_t i = 0; i < me->queue_count; i++)
        cadre_local_queue_destroy(atomic_load(&me->queues[i]));
    pthread_mutex_destroy(&me->lock);
    pthread_mutex_destroy(&me->watched);
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
    c->base.ops = &local_ops;
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
    struct local_op op = {
        .kind = LOCAL_SPLIT, .label = "split", .dtype = CADRE_U8, .split = &split};
    cadre_event done;
    cadre_status rc = post(c, c->collective, &op, NULL, &done);
    if (rc == CADRE_OK)
        rc = cadre_local_event_wait(c->me, done, NULL);
    if (rc != CADRE_OK) {
        if (local_failure(comm, err) == CADRE_OK)
            cadre_fail(err, rc, "rank %d: split failed", c->me->rank);
        if (err)
            err->code = rc;
        return rc;
    }
    struct local_comm *made = NULL;
    if (split.group) {
        made = comm_create(c->me, local_at(c->me->segment, split.group), split.rank);
        if (!made) {
            rc = cadre_fail(err, CADRE_E_RESOURCE,
                            "rank %d: no memory for another communicator", c->me->rank);
            local_abort(comm, err ? err->text : "no memory for another communicator");
            return rc;
        }
    }
    *out = made ? &made->base : NULL;
    return CADRE_OK;
}

static void local_observe(struct cadre_comm *comm, cadre_comm_observer tell, void *arg)
{
    struct local_rank *me = ((struct local_comm *)comm)->me;
    pthread_mutex_lock(&me->watched);
    me->tell = tell;
    me->tell_arg = arg;
    pthread_mutex_unlock(&me->watched);
}

static const struct cadre_comm_ops local_ops = {
    .all_reduce = local_all_reduce,
    .reduce_scatter = local_reduce_scatter,
    .all_gather = local_all_gather,
    .broadcast = local_broadcast,
    .all_to_all = local_all_to_all,
    .send = local_send,
    .recv = local_recv,
    .barrier = local_barrier,
    .wait = local_wait,
    .join = local_join,
    .use_device = local_use_device,
    .split = local_split,
    .abort = local_abort,
    .stats = local_stats,
    .set_step = local_set_step,
    .failure = local_failure,
    .observe = local_observe,
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
    pthread_mutex_init(&me->watched, NULL);
    me->segment = segment;
    me->shared = &s->ranks[rank];
    me->rank = rank;
    me->direct = !s->config.processes;
    struct local_comm *c = comm_create(me, local_at(segment, s->world), rank);
    if (!c) {
        rank_destroy(me);
        return cadre_fail(err, CADRE_E_RESOURCE, "rank %d: no memory", rank);
    }
    c->is_world = true;
    *out = &c->base;
    return CADRE_OK;
}
