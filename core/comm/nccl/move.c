/* SPDX-License-Identifier: Apache-2.0 */
/* An operation as calls of NCCL. Slices of unequal size are a group of calls with one
 * root each. */
#include <stdio.h>

#include "core/comm/nccl/private.h"
#include "core/tensor/dtype.h"

cadre_status cadre_nccl_check(struct nccl_op *op, ncclResult_t result)
{
    struct nccl_world *w = op->channel->world;
    char text[512], name[256];
    result = cadre_nccl_settle(w, op->channel->comm, result);
    if (result == ncclSuccess)
        return CADRE_OK;
    if (cadre_failure_is_set(&w->failure))
        return CADRE_E_ABORTED;
    if (result == ncclInProgress) {
        cadre_nccl_late_text(op, text, sizeof text);
        cadre_nccl_fail(w, NULL, CADRE_E_COMM, "%s", text);
        return CADRE_E_COMM;
    }
    cadre_nccl_op_text(op, name, sizeof name);
    cadre_nccl_text(result, op->channel->comm, text, sizeof text);
    cadre_nccl_fail(w, NULL, CADRE_E_COMM, "%s could not be posted: %s; %s", name, text,
                    cadre_nccl_advice(text));
    return CADRE_E_COMM;
}

cadre_status cadre_nccl_check_device(struct nccl_op *op, cadre_status rc,
                                     const char *what)
{
    char name[256];
    if (rc == CADRE_OK)
        return rc;
    cadre_nccl_op_text(op, name, sizeof name);
    cadre_nccl_fail(op->channel->world, NULL, CADRE_E_COMM,
                    "%s: the device failed to %s (%s); its own lines say more", name,
                    what, cadre_strerror(rc));
    return CADRE_E_COMM;
}

static ncclRedOp_t reduction(const struct nccl_op *op)
{
    return op->base.red == CADRE_SUM ? ncclSum : ncclMax;
}

/* Are all slices of equal size, so that one call of NCCL is enough? */
static bool even(const struct nccl_op *op)
{
    uint64_t each = op->base.offsets[1];
    for (int m = 0; m < op->channel->size; m++)
        if (op->base.offsets[m + 1] - op->base.offsets[m] != each)
            return false;
    return true;
}

static ncclResult_t end_group(ncclResult_t result)
{
    ncclResult_t end = ncclGroupEnd();
    return result == ncclSuccess || result == ncclInProgress ? end : result;
}

static ncclResult_t reduce_scatter(const struct nccl_op *op, const char *in, void *out)
{
    const struct nccl_channel *c = op->channel;
    ncclDataType_t type = cadre_nccl_type(op->base.dtype);
    size_t element = cadre_dtype_bytes(op->base.dtype);
    ncclResult_t result = ncclSuccess;
    if (even(op))
        return ncclReduceScatter(in, out, op->base.offsets[1], type, reduction(op),
                                 c->comm, c->stream);
    ncclGroupStart();
    for (int m = 0; m < c->size; m++) {
        uint64_t n = op->base.offsets[m + 1] - op->base.offsets[m];
        if (n > 0 && (result == ncclSuccess || result == ncclInProgress))
            result = ncclReduce(in + op->base.offsets[m] * element,
                                m == c->rank ? out : NULL, n, type, reduction(op), m,
                                c->comm, c->stream);
    }
    return end_group(result);
}

static ncclResult_t all_gather(const struct nccl_op *op, const void *in, char *out)
{
    const struct nccl_channel *c = op->channel;
    ncclDataType_t type = cadre_nccl_type(op->base.dtype);
    size_t element = cadre_dtype_bytes(op->base.dtype);
    ncclResult_t result = ncclSuccess;
    if (even(op))
        return ncclAllGather(in, out, op->base.offsets[1], type, c->comm, c->stream);
    ncclGroupStart();
    for (int m = 0; m < c->size; m++) {
        uint64_t n = op->base.offsets[m + 1] - op->base.offsets[m];
        char *slice = out + op->base.offsets[m] * element;
        if (n > 0 && (result == ncclSuccess || result == ncclInProgress))
            result = ncclBroadcast(m == c->rank ? in : slice, slice, n, type, m,
                                   c->comm, c->stream);
    }
    return end_group(result);
}

static ncclResult_t all_to_all(const struct nccl_op *op, const char *in, char *out)
{
    const struct nccl_channel *c = op->channel;
    uint64_t n = op->base.count / (uint64_t)c->size;
    size_t bytes = n * cadre_dtype_bytes(op->base.dtype);
    ncclDataType_t type = cadre_nccl_type(op->base.dtype);
    ncclResult_t result = ncclSuccess;
    ncclGroupStart();
    for (int m = 0; m < c->size; m++) {
        if (result == ncclSuccess || result == ncclInProgress)
            result = ncclSend(in + (size_t)m * bytes, n, type, m, c->comm, c->stream);
        if (result == ncclSuccess || result == ncclInProgress)
            result = ncclRecv(out + (size_t)m * bytes, n, type, m, c->comm, c->stream);
    }
    return end_group(result);
}

/* A group of one rank: the operation is a copy. */
static cadre_status move_alone(struct nccl_op *op, const void *in, void *out)
{
    struct cadre_device *worker = op->channel->worker;
    size_t bytes = cadre_comm_op_extent(&op->base, op->group->base.rank, true) *
                   cadre_dtype_bytes(op->base.dtype);
    if (op->base.kind == CADRE_COMM_BROADCAST || in == out || bytes == 0)
        return CADRE_OK;
    return cadre_nccl_check_device(op, worker->ops->copy(worker, out, in, bytes),
                                   "copy");
}

static ncclResult_t call(struct nccl_op *op, const void *in, void *out)
{
    struct nccl_channel *c = op->channel;
    ncclDataType_t type = cadre_nccl_type(op->base.dtype);
    void *own = c->rank == op->base.root ? (void *)in : out; /* of a broadcast */
    switch (op->base.kind) {
    case CADRE_COMM_ALL_REDUCE:
        return ncclAllReduce(in, out, op->base.count, type, reduction(op), c->comm,
                             c->stream);
    case CADRE_COMM_REDUCE_SCATTER:
        return reduce_scatter(op, in, out);
    case CADRE_COMM_ALL_GATHER:
        return all_gather(op, in, out);
    case CADRE_COMM_BROADCAST:
        return ncclBroadcast(own, own, op->base.count, type, op->base.root, c->comm,
                             c->stream);
    case CADRE_COMM_ALL_TO_ALL:
        return all_to_all(op, in, out);
    case CADRE_COMM_SEND: /* a direction's sender is rank 0 of its channel */
        return ncclSend(in, op->base.count, type, 1, c->comm, c->stream);
    case CADRE_COMM_RECV:
        return ncclRecv(out, op->base.count, type, 0, c->comm, c->stream);
    default:
        return ncclAllReduce(c->scratch, c->scratch, 1, ncclUint8, ncclMax, c->comm,
                             c->stream);
    }
}

cadre_status cadre_nccl_move(struct nccl_op *op, const void *in, void *out)
{
    bool reduces = op->base.kind == CADRE_COMM_ALL_REDUCE ||
                   op->base.kind == CADRE_COMM_REDUCE_SCATTER;
    if (op->channel->size == 1)
        return move_alone(op, in, out);
    if (op->base.count == 0 && op->base.kind != CADRE_COMM_BARRIER)
        return CADRE_OK;
    if (reduces && op->channel->world->exact)
        return cadre_nccl_move_tree(op, in, out);
    return cadre_nccl_check(op, call(op, in, out));
}
