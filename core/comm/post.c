/* SPDX-License-Identifier: Apache-2.0 */
/* Posting: every argument is checked here, once for all backends; backends only check
 * that `after` is an event of theirs. */
#include <stdio.h>

#include "core/base/rank_page.h"
#include "core/base/status_slot.h"
#include "core/comm/backend.h"
#include "core/comm/reduce.h"
#include "core/tensor/dtype.h"

static bool is_sliced(const struct cadre_comm_op *op)
{
    return op->kind == CADRE_COMM_REDUCE_SCATTER || op->kind == CADRE_COMM_ALL_GATHER;
}

static bool ascend_from_zero(const uint64_t *offsets, int size)
{
    bool ok = offsets && offsets[0] == 0;
    for (int m = 0; ok && m < size; m++)
        ok = offsets[m] <= offsets[m + 1];
    return ok;
}

/* What is wrong with it; NULL for nothing. */
static const char *fault_of(const struct cadre_comm *comm,
                            const struct cadre_comm_op *op)
{
    bool reduces =
        op->kind == CADRE_COMM_ALL_REDUCE || op->kind == CADRE_COMM_REDUCE_SCATTER;
    bool peers = op->kind == CADRE_COMM_SEND || op->kind == CADRE_COMM_RECV;
    bool exchanges = op->kind == CADRE_COMM_ALL_TO_ALL;
    size_t element = cadre_dtype_bytes(op->dtype);
    if (element == 0)
        return "unknown dtype";
    if (op->count > INT64_MAX / element / 2)
        return "the count is beyond the address space";
    if (reduces && !cadre_reduce_supports(op->dtype, op->red))
        return "this dtype has no such reduction";
    if (op->root < 0 || op->root >= comm->size)
        return "no such rank in the group";
    if (peers && op->root == comm->rank)
        return "a rank does not send to itself";
    if (exchanges && op->count % (uint64_t)comm->size)
        return "the count is not a multiple of the ranks";
    if (exchanges && op->in == op->out && op->count)
        return "in and out are the same";
    return NULL;
}

/* Where the buffers lie; false where they lie in both memories. */
static bool find_memory(const struct cadre_comm *comm, struct cadre_comm_op *op)
{
    bool in = cadre_comm_op_extent(op, comm->rank, true) > 0;
    bool out = cadre_comm_op_extent(op, comm->rank, false) > 0;
    op->device = atomic_load(&comm->context->device);
    op->memory = in || out ? CADRE_COMM_HOST_MEMORY : CADRE_COMM_NO_MEMORY;
    if (!op->device || op->memory == CADRE_COMM_NO_MEMORY)
        return true;
    bool (*reaches)(struct cadre_device *, const void *) =
        op->device->ops->host_reaches;
    bool host_in = in && reaches(op->device, op->in);
    bool host_out = out && reaches(op->device, op->out);
    if (!host_in && !host_out)
        op->memory = CADRE_COMM_DEVICE_MEMORY;
    return !(in && out && host_in != host_out);
}

/* Before it is enqueued: it may have ended when that returns. */
static uint64_t show_posted(struct cadre_comm *comm, const struct cadre_comm_op *op)
{
    struct cadre_comm_context *context = comm->context;
    if (!context->page)
        return 0;
    struct cadre_rank_page_op shown = {
        .posted_s = op->posted_s,
        .bytes = op->bytes,
        .step = op->step,
        .ranks = (uint64_t)comm->size,
    };
    cadre_status_instance(cadre_status_current(), shown.plugin, sizeof shown.plugin);
    snprintf(shown.kind, sizeof shown.kind, "%s", cadre_comm_kind_name(op->kind));
    snprintf(shown.label, sizeof shown.label, "%s", cadre_comm_op_label(op));
    snprintf(shown.comm, sizeof shown.comm, "%s", comm->name ? comm->name : "world");
    pthread_mutex_lock(&context->lock);
    const uint64_t posted = cadre_rank_page_posted(context->page, &shown);
    pthread_mutex_unlock(&context->lock);
    return posted;
}

static void show_refused(struct cadre_comm *comm, uint64_t posted)
{
    struct cadre_comm_context *context = comm->context;
    pthread_mutex_lock(&context->lock);
    cadre_rank_page_ended(context->page, posted, 0);
    pthread_mutex_unlock(&context->lock);
}

static cadre_status post(struct cadre_comm *comm, struct cadre_comm_op *from,
                         cadre_event *done)
{
    const char *why = NULL;
    if (is_sliced(from) && !ascend_from_zero(from->offsets, comm->size))
        why = "offsets do not ascend from 0";
    else if (is_sliced(from))
        from->count = from->offsets[comm->size];
    if (!why)
        why = fault_of(comm, from);
    if (!why && !find_memory(comm, from))
        why = "one buffer is the host's, the other the device's";
    if (why)
        return cadre_comm_refuse(comm, from, CADRE_E_INVALID, why);
    struct cadre_comm_op *op = cadre_comm_op_create(comm, from);
    if (!op)
        return CADRE_E_RESOURCE;
    const uint64_t posted = op->shown = show_posted(comm, op);
    cadre_status rc = comm->backend->enqueue(comm, op, done);
    if (rc != CADRE_OK)
        show_refused(comm, posted);
    return rc;
}

/* lint: long because a reduction has that many operands */
cadre_status cadre_comm_all_reduce(struct cadre_comm *comm, cadre_comm_label label,
                                   const void *in, void *out, uint64_t count,
                                   uint32_t dtype, uint32_t red, cadre_event after,
                                   cadre_event *done)
{
    struct cadre_comm_op op = {.kind = CADRE_COMM_ALL_REDUCE,
                               .label = label,
                               .in = in,
                               .out = out,
                               .count = count,
                               .dtype = dtype,
                               .red = red,
                               .after = after};
    return post(comm, &op, done);
}

/* lint: long because a reduction has that many operands */
cadre_status cadre_comm_reduce_scatter(struct cadre_comm *comm, cadre_comm_label label,
                                       const void *in, void *out,
                                       const uint64_t *offsets, uint32_t dtype,
                                       uint32_t red, cadre_event after,
                                       cadre_event *done)
{
    struct cadre_comm_op op = {.kind = CADRE_COMM_REDUCE_SCATTER,
                               .label = label,
                               .in = in,
                               .out = out,
                               .offsets = offsets,
                               .dtype = dtype,
                               .red = red,
                               .after = after};
    return post(comm, &op, done);
}

cadre_status cadre_comm_all_gather(struct cadre_comm *comm, cadre_comm_label label,
                                   const void *in, void *out, const uint64_t *offsets,
                                   uint32_t dtype, cadre_event after, cadre_event *done)
{
    struct cadre_comm_op op = {.kind = CADRE_COMM_ALL_GATHER,
                               .label = label,
                               .in = in,
                               .out = out,
                               .offsets = offsets,
                               .dtype = dtype,
                               .after = after};
    return post(comm, &op, done);
}

cadre_status cadre_comm_broadcast(struct cadre_comm *comm, cadre_comm_label label,
                                  void *buf, uint64_t count, uint32_t dtype, int root,
                                  cadre_event after, cadre_event *done)
{
    struct cadre_comm_op op = {.kind = CADRE_COMM_BROADCAST,
                               .label = label,
                               .in = buf,
                               .out = buf,
                               .count = count,
                               .dtype = dtype,
                               .root = root,
                               .after = after};
    return post(comm, &op, done);
}

cadre_status cadre_comm_all_to_all(struct cadre_comm *comm, cadre_comm_label label,
                                   const void *in, void *out, uint64_t count,
                                   uint32_t dtype, cadre_event after, cadre_event *done)
{
    struct cadre_comm_op op = {.kind = CADRE_COMM_ALL_TO_ALL,
                               .label = label,
                               .in = in,
                               .out = out,
                               .count = count,
                               .dtype = dtype,
                               .after = after};
    return post(comm, &op, done);
}

cadre_status cadre_comm_send(struct cadre_comm *comm, cadre_comm_label label,
                             const void *buf, uint64_t count, uint32_t dtype, int to,
                             cadre_event after, cadre_event *done)
{
    struct cadre_comm_op op = {.kind = CADRE_COMM_SEND,
                               .label = label,
                               .in = buf,
                               .count = count,
                               .dtype = dtype,
                               .root = to,
                               .after = after};
    return post(comm, &op, done);
}

cadre_status cadre_comm_recv(struct cadre_comm *comm, cadre_comm_label label, void *buf,
                             uint64_t count, uint32_t dtype, int from,
                             cadre_event after, cadre_event *done)
{
    struct cadre_comm_op op = {.kind = CADRE_COMM_RECV,
                               .label = label,
                               .out = buf,
                               .count = count,
                               .dtype = dtype,
                               .root = from,
                               .after = after};
    return post(comm, &op, done);
}

cadre_status cadre_comm_barrier(struct cadre_comm *comm, cadre_comm_label label,
                                cadre_event after, cadre_event *done)
{
    struct cadre_comm_op op = {
        .kind = CADRE_COMM_BARRIER, .label = label, .dtype = CADRE_U8, .after = after};
    return post(comm, &op, done);
}
