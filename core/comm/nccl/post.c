/* SPDX-License-Identifier: Apache-2.0 */
/* Posting: arguments are checked, the operation is given to its channel's stream, and
 * stands in the channel's queue until it is seen to be done. */
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/comm/nccl/internal.h"
#include "core/tensor/dtype.h"

static struct nccl_group *group_of(struct cadre_comm *comm)
{
    return (struct nccl_group *)comm;
}

static cadre_status refuse(const struct nccl_op *op, cadre_status rc, const char *why)
{
    cadre_log(CADRE_LOG_ERROR, "comm", "rank %d: %s '%s' refused: %s",
              op->group->world->rank, cadre_nccl_kind_name(op->kind),
              op->label ? op->label : "", why);
    return rc;
}

static bool supports(uint32_t dtype, uint32_t red)
{
    switch (dtype) {
    case CADRE_F32:
    case CADRE_F64:
    case CADRE_BF16:
    case CADRE_F16:
    case CADRE_I32:
        return red == CADRE_SUM || red == CADRE_MAX;
    default:
        return dtype == CADRE_U8 && red == CADRE_MAX;
    }
}

static bool ascend_from_zero(const uint64_t *offsets, int size)
{
    bool ok = offsets && offsets[0] == 0;
    for (int m = 0; ok && m < size; m++)
        ok = offsets[m] <= offsets[m + 1];
    return ok;
}

static cadre_status check(const struct nccl_op *op)
{
    const struct nccl_group *g = op->group;
    bool reduces =
        op->kind == NCCL_KIND_ALL_REDUCE || op->kind == NCCL_KIND_REDUCE_SCATTER;
    bool peers = op->kind == NCCL_KIND_SEND || op->kind == NCCL_KIND_RECV;
    size_t element = cadre_dtype_bytes(op->dtype);
    const char *why = NULL;
    if (element == 0 || cadre_nccl_type(op->dtype) == ncclNumTypes)
        why = "unknown dtype";
    else if (op->count > INT64_MAX / element / 2)
        why = "the count is beyond the address space";
    else if (reduces && !supports(op->dtype, op->red))
        why = "this dtype has no such reduction";
    else if (op->root < 0 || op->root >= g->base.size)
        why = "no such rank in the group";
    else if (peers && op->root == g->base.rank)
        why = "a rank does not send to itself";
    else if (op->kind == NCCL_KIND_ALL_TO_ALL && op->count % (uint64_t)g->base.size)
        why = "the count is not a multiple of the ranks";
    else if (op->kind == NCCL_KIND_ALL_TO_ALL && op->in == op->out && op->count)
        why = "in and out are the same";
    else if (op->after != 0 && !(op->after & CADRE_DEVICE_EVENT))
        why = "the event it comes after was never posted";
    return why ? refuse(op, CADRE_E_INVALID, why) : CADRE_OK;
}

/* Where the buffers lie: false where that is on both sides. */
static bool find_memory(struct nccl_op *op)
{
    struct nccl_world *w = op->group->world;
    bool in = cadre_nccl_extent(op, true) > 0, out = cadre_nccl_extent(op, false) > 0;
    bool (*reaches)(struct cadre_device *, const void *) = w->device->ops->host_reaches;
    op->host = in || out;
    if (!atomic_load(&w->device_seen) || !op->host)
        return true;
    bool host_in = in && reaches(w->device, op->in);
    bool host_out = out && reaches(w->device, op->out);
    op->host = host_in || host_out;
    return !(in && out && host_in != host_out);
}

static struct nccl_op *make(const struct nccl_op *from, const uint64_t *offsets)
{
    struct nccl_op *op = malloc(sizeof *op);
    size_t n = (size_t)from->group->base.size + 1;
    if (!op)
        return NULL;
    *op = *from;
    op->step = atomic_load(&op->group->world->step);
    op->posted_s = cadre_now_s();
    if (!offsets)
        return op;
    op->offsets = malloc(n * sizeof *offsets);
    if (!op->offsets) {
        free(op);
        return NULL;
    }
    memcpy(op->offsets, offsets, n * sizeof *offsets);
    return op;
}

/* All that the stream has to do. */
static cadre_status give(struct nccl_op *op)
{
    struct cadre_device *side = op->channel->side;
    const void *in = op->in;
    void *out = op->out;
    cadre_status rc;
    CADRE_TRY(cadre_nccl_device_took(op, side->ops->event_wait(side, op->after),
                                     "wait for what comes before"));
    if (op->host)
        CADRE_TRY(cadre_nccl_device_took(op, cadre_nccl_stage_in(op, &in, &out),
                                         "take a buffer of the host"));
    CADRE_TRY(cadre_nccl_move(op, in, out));
    if (op->host)
        CADRE_TRY(cadre_nccl_device_took(op, cadre_nccl_stage_out(op),
                                         "give a buffer of the host"));
    CADRE_TRY(cadre_nccl_device_took(op, side->ops->event_record(side, &op->done),
                                     "record an event"));
fail:
    return rc;
}

/* Into the channel's queue; what failed is kept, because the stream may still have to
 * run what was given to it. */
static cadre_status enqueue(struct nccl_op *op, cadre_status rc)
{
    struct nccl_channel *c = op->channel;
    struct nccl_world *w = c->world;
    pthread_mutex_lock(&w->lock);
    if (rc == CADRE_OK && w->code != CADRE_OK)
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

static cadre_status post(const struct nccl_op *from, struct nccl_channel *channel,
                         const uint64_t *offsets, cadre_event *done)
{
    struct nccl_world *w = from->group->world;
    cadre_status rc = check(from);
    if (rc != CADRE_OK)
        return rc;
    if (atomic_load(&w->has_failed))
        return CADRE_E_ABORTED;
    if (!channel)
        return refuse(from, CADRE_E_UNSUPPORTED,
                      "over NCCL a rank sends to its neighbours in the group's ring "
                      "alone (the next rank and the one before)");
    struct nccl_op *op = make(from, offsets);
    if (!op)
        return CADRE_E_RESOURCE;
    op->channel = channel;
    if (!find_memory(op)) {
        cadre_nccl_op_free(op);
        return refuse(from, CADRE_E_INVALID,
                      "one buffer is the host's, the other the device's");
    }
    pthread_mutex_lock(&channel->posting);
    op->sequence = ++channel->posted;
    rc = atomic_load(&w->has_failed) ? CADRE_E_ABORTED : give(op);
    cadre_event event = op->done; /* the watcher may free it once it is in the queue */
    rc = enqueue(op, rc);
    pthread_mutex_unlock(&channel->posting);
    if (rc == CADRE_OK && done)
        *done = event;
    return rc;
}

/* reduce_scatter and all_gather: the count is the last offset. */
static cadre_status post_slices(struct nccl_op *op, const uint64_t *offsets,
                                cadre_event *done)
{
    if (!ascend_from_zero(offsets, op->group->base.size))
        return refuse(op, CADRE_E_INVALID, "offsets do not ascend from 0");
    op->count = offsets[op->group->base.size];
    return post(op, op->group->all, offsets, done);
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

/* lint: long because the table of operations has this signature */
cadre_status cadre_nccl_all_reduce(struct cadre_comm *comm, cadre_comm_label label,
                                   const void *in, void *out, uint64_t count,
                                   uint32_t dtype, uint32_t red, cadre_event after,
                                   cadre_event *done)
{
    const struct nccl_op op = {.group = group_of(comm),
                               .kind = NCCL_KIND_ALL_REDUCE,
                               .label = label,
                               .in = in,
                               .out = out,
                               .count = count,
                               .dtype = dtype,
                               .red = red,
                               .after = after};
    return post(&op, op.group->all, NULL, done);
}

/* lint: long because the table of operations has this signature */
cadre_status cadre_nccl_reduce_scatter(struct cadre_comm *comm, cadre_comm_label label,
                                       const void *in, void *out,
                                       const uint64_t *offsets, uint32_t dtype,
                                       uint32_t red, cadre_event after,
                                       cadre_event *done)
{
    struct nccl_op op = {.group = group_of(comm),
                         .kind = NCCL_KIND_REDUCE_SCATTER,
                         .label = label,
                         .in = in,
                         .out = out,
                         .dtype = dtype,
                         .red = red,
                         .after = after};
    return post_slices(&op, offsets, done);
}

cadre_status cadre_nccl_all_gather(struct cadre_comm *comm, cadre_comm_label label,
                                   const void *in, void *out, const uint64_t *offsets,
                                   uint32_t dtype, cadre_event after, cadre_event *done)
{
    struct nccl_op op = {.group = group_of(comm),
                         .kind = NCCL_KIND_ALL_GATHER,
                         .label = label,
                         .in = in,
                         .out = out,
                         .dtype = dtype,
                         .after = after};
    return post_slices(&op, offsets, done);
}

cadre_status cadre_nccl_broadcast(struct cadre_comm *comm, cadre_comm_label label,
                                  void *buf, uint64_t count, uint32_t dtype, int root,
                                  cadre_event after, cadre_event *done)
{
    const struct nccl_op op = {.group = group_of(comm),
                               .kind = NCCL_KIND_BROADCAST,
                               .label = label,
                               .in = buf,
                               .out = buf,
                               .count = count,
                               .dtype = dtype,
                               .root = root,
                               .after = after};
    return post(&op, op.group->all, NULL, done);
}

cadre_status cadre_nccl_all_to_all(struct cadre_comm *comm, cadre_comm_label label,
                                   const void *in, void *out, uint64_t count,
                                   uint32_t dtype, cadre_event after, cadre_event *done)
{
    const struct nccl_op op = {.group = group_of(comm),
                               .kind = NCCL_KIND_ALL_TO_ALL,
                               .label = label,
                               .in = in,
                               .out = out,
                               .count = count,
                               .dtype = dtype,
                               .after = after};
    return post(&op, op.group->all, NULL, done);
}

cadre_status cadre_nccl_barrier(struct cadre_comm *comm, cadre_comm_label label,
                                cadre_event after, cadre_event *done)
{
    const struct nccl_op op = {.group = group_of(comm),
                               .kind = NCCL_KIND_BARRIER,
                               .label = label,
                               .dtype = CADRE_U8,
                               .after = after};
    return post(&op, op.group->all, NULL, done);
}

cadre_status cadre_nccl_send(struct cadre_comm *comm, cadre_comm_label label,
                             const void *buf, uint64_t count, uint32_t dtype, int to,
                             cadre_event after, cadre_event *done)
{
    const struct nccl_op op = {.group = group_of(comm),
                               .kind = NCCL_KIND_SEND,
                               .label = label,
                               .in = buf,
                               .count = count,
                               .dtype = dtype,
                               .root = to,
                               .after = after};
    return post(&op, direction(op.group, to, true), NULL, done);
}

cadre_status cadre_nccl_recv(struct cadre_comm *comm, cadre_comm_label label, void *buf,
                             uint64_t count, uint32_t dtype, int from,
                             cadre_event after, cadre_event *done)
{
    const struct nccl_op op = {.group = group_of(comm),
                               .kind = NCCL_KIND_RECV,
                               .label = label,
                               .out = buf,
                               .count = count,
                               .dtype = dtype,
                               .root = from,
                               .after = after};
    return post(&op, direction(op.group, from, false), NULL, done);
}
