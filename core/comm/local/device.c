/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers in a device's memory. Among threads the queue's worker stream moves and adds
 * what the slots point to, so the ranks share one device; among processes data is
 * copied between the segment and the device. The host reads and writes no device
 * memory. */
#include <string.h>

#include "core/comm/local/private.h"
#include "core/tensor/dtype.h"

#define BLOCK_BYTES (1u << 22) /* reduced at a time; one node of the tree per level */

static cadre_status fail(struct local_queue *q, const struct cadre_comm_op *op,
                         const char *what)
{
    return cadre_local_fail(
        q->comm->me, "rank %d: the device failed to %s for %s #%llu '%s' (step %llu)",
        q->comm->me->context.rank, what, cadre_comm_kind_name(op->kind),
        (unsigned long long)op->sequence, cadre_comm_op_label(op),
        (unsigned long long)atomic_load(&q->comm->me->shared->step));
}

cadre_status cadre_local_device_wait(struct local_queue *queue,
                                     const struct cadre_comm_op *op)
{
    cadre_status rc = op->device->ops->event_sync(op->device, op->after);
    return rc == CADRE_OK ? rc : fail(queue, op, "finish what comes before");
}

static struct cadre_device *side_of(struct local_queue *q,
                                    const struct cadre_comm_op *op)
{
    if (!q->worker &&
        op->device->ops->worker_stream_open(op->device, &q->worker) != CADRE_OK)
        q->worker = NULL;
    return q->worker;
}

void cadre_local_side_close(struct local_queue *queue)
{
    struct cadre_device *worker = queue->worker;
    if (!worker)
        return;
    worker->ops->free(worker, queue->scratch);
    worker->ops->worker_stream_close(worker);
    queue->scratch = NULL;
    queue->worker = NULL;
}

cadre_status cadre_local_device_begin(struct local_queue *queue,
                                      const struct cadre_comm_op *op)
{
    if (op->memory != CADRE_COMM_DEVICE_MEMORY || side_of(queue, op))
        return CADRE_OK;
    return fail(queue, op, "open another stream");
}

cadre_status cadre_local_device_end(struct local_queue *queue,
                                    const struct cadre_comm_op *op, cadre_status rc)
{
    struct cadre_device *worker = queue->worker;
    cadre_device_event event = 0;
    if (op->memory != CADRE_COMM_DEVICE_MEMORY)
        return rc;
    cadre_status end = worker->ops->event_record(worker, &event);
    if (end == CADRE_OK)
        end = worker->ops->event_sync(worker, event);
    if (rc == CADRE_E_RESOURCE)
        return fail(queue, op, "give memory");
    return rc == CADRE_OK && end == CADRE_OK ? CADRE_OK : fail(queue, op, "move data");
}

cadre_status cadre_local_copy(struct local_queue *queue, const struct cadre_comm_op *op,
                              void *to, const void *from, uint64_t bytes)
{
    if (bytes == 0 || to == from)
        return CADRE_OK;
    if (op->memory == CADRE_COMM_DEVICE_MEMORY)
        return queue->worker->ops->copy(queue->worker, to, from, bytes);
    memcpy(to, from, bytes);
    return CADRE_OK;
}

/* ---- reduction: the tree of reduce.c, with blocks in the device's memory ---- */

struct tree {
    struct local_queue *queue;
    const struct cadre_comm_op *op;
    const void *srcs[LOCAL_MAX_RANKS];
    int size;
    int64_t count;
    char *scratch; /* a block for each level; the first is the root's */
};

static char *block(const struct tree *t, int level)
{
    return t->scratch + (uint64_t)level * BLOCK_BYTES;
}

static cadre_status pair(const struct tree *t, void *dst, const void *a, const void *b)
{
    struct cadre_device *worker = t->queue->worker;
    const struct cadre_device_ops *ops = worker->ops;
    return t->op->red == CADRE_SUM
               ? ops->tree_add(worker, t->op->dtype, dst, a, b, t->count)
               : ops->maximum(worker, t->op->dtype, dst, a, b, t->count);
}

/* The node over ranks [first, first + 2^level) is at *at: dst, or the leaf itself. */
static cadre_status node(const struct tree *t, int level, int first, void *dst,
                         const void **at)
{
    const void *right;
    if (level == 0) {
        *at = t->srcs[first];
        return CADRE_OK;
    }
    int half = 1 << (level - 1);
    cadre_status rc = node(t, level - 1, first, dst, at);
    if (rc != CADRE_OK || first + half >= t->size)
        return rc;
    rc = node(t, level - 1, first + half, block(t, level - 1), &right);
    if (rc == CADRE_OK)
        rc = pair(t, dst, *at, right);
    *at = dst;
    return rc;
}

static int levels_of(int size)
{
    int level = 0;
    while (1 << level < size)
        level++;
    return level;
}

/* Elements [at, at + t->count) of all members, to the members that need them. */
static cadre_status reduce_block(struct tree *t, uint64_t at)
{
    struct local_comm *c = t->queue->comm;
    const struct shared_slot *slots = c->group->slots;
    const struct cadre_comm_op *op = t->op;
    size_t element = cadre_dtype_bytes(op->dtype);
    uint64_t bytes = (uint64_t)t->count * element;
    uint64_t begin = op->offsets[c->base.rank];
    const void *from = NULL;
    for (int m = 0; m < t->size; m++)
        t->srcs[m] = (const char *)slots[m].call.in + at * element;
    cadre_status rc = node(t, levels_of(t->size), 0, t->scratch, &from);
    if (rc == CADRE_OK && !from)
        return CADRE_E_INTERNAL;
    if (rc == CADRE_OK && op->kind == CADRE_COMM_REDUCE_SCATTER)
        return cadre_local_copy(t->queue, op, (char *)op->out + (at - begin) * element,
                                from, bytes);
    for (int m = 0; m < t->size && rc == CADRE_OK; m++)
        rc = cadre_local_copy(t->queue, op, (char *)slots[m].call.out + at * element,
                              from, bytes);
    return rc;
}

cadre_status cadre_local_device_reduce(struct local_queue *q,
                                       const struct cadre_comm_op *op)
{
    struct local_comm *c = q->comm;
    struct tree t = {.queue = q, .op = op, .size = c->base.size};
    uint64_t end = op->offsets[c->base.rank + 1];
    uint64_t most = BLOCK_BYTES / cadre_dtype_bytes(op->dtype);
    cadre_status rc = CADRE_OK;
    if (!q->scratch && t.size > 1)
        q->scratch = q->worker->ops->alloc(q->worker, (size_t)levels_of(t.size) *
                                                          (size_t)BLOCK_BYTES);
    if (!q->scratch && t.size > 1)
        return CADRE_E_RESOURCE;
    t.scratch = q->scratch;
    for (uint64_t at = op->offsets[c->base.rank]; at < end && rc == CADRE_OK;
         at += most) {
        t.count = (int64_t)(end - at < most ? end - at : most);
        rc = reduce_block(&t, at);
    }
    return rc;
}

/* ---- among processes ---- */

cadre_status cadre_local_fetch(struct local_queue *queue,
                               const struct cadre_comm_op *op, void *host,
                               const void *from, uint64_t bytes)
{
    if (bytes == 0)
        return CADRE_OK;
    if (op->memory != CADRE_COMM_DEVICE_MEMORY) {
        memcpy(host, from, bytes);
        return CADRE_OK;
    }
    struct cadre_device *worker = side_of(queue, op);
    if (!worker || worker->ops->to_host(worker, host, from, bytes) != CADRE_OK)
        return fail(queue, op, "bring data to the host");
    return CADRE_OK;
}

cadre_status cadre_local_put(struct local_queue *queue, const struct cadre_comm_op *op,
                             void *to, const void *host, uint64_t bytes)
{
    if (bytes == 0)
        return CADRE_OK;
    if (op->memory != CADRE_COMM_DEVICE_MEMORY) {
        memcpy(to, host, bytes);
        return CADRE_OK;
    }
    struct cadre_device *worker = side_of(queue, op);
    if (!worker || worker->ops->to_device(worker, to, host, bytes) != CADRE_OK)
        return fail(queue, op, "take data from the host");
    return CADRE_OK;
}
