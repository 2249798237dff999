/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions in tree order: every rank receives all ranks' values of its slice, adds
 * them on its device, and returns the result where it is needed. The vector is
 * processed in parts, so that scratch does not grow with it; a round touches one part
 * of every slice and nothing else, so that in may be out. */
#include "core/comm/nccl/private.h"
#include "core/tensor/dtype.h"

#define SCRATCH_BYTES ((size_t)16 << 20)
#define WHOLE_LINES(n) (((n) + 63) / 64 * 64)

struct turn {
    struct nccl_op *op;
    struct nccl_channel *channel;
    const char *in;
    char *out;
    char *rows; /* a part of this rank's slice from each rank */
    uint64_t part, at; /* elements of a slice in a round; those before it */
    size_t element;
};

/* Elements of slice m in this round. */
static uint64_t in_turn(const struct turn *t, int m)
{
    return cadre_comm_slice_part(&t->op->base, m, t->at, t->part);
}

static size_t place(const struct turn *t, int m)
{
    return (t->op->base.offsets[m] + t->at) * t->element;
}

static char *row(const struct turn *t, int m)
{
    return t->rows + (size_t)m * t->part * t->element;
}

/* In one group: send this rank's part of slice m to rank m and receive all ranks' parts
 * of this slice; with `back`, send this slice's result to all and receive theirs. */
static ncclResult_t exchange(const struct turn *t, bool back)
{
    const struct nccl_channel *c = t->channel;
    ncclDataType_t type = cadre_nccl_type(t->op->base.dtype);
    uint64_t mine = in_turn(t, c->rank);
    ncclResult_t result = ncclGroupStart();
    for (int m = 0; m < c->size && result == ncclSuccess; m++) {
        uint64_t theirs = in_turn(t, m);
        uint64_t sends = back ? mine : theirs, takes = back ? theirs : mine;
        const void *from = back ? t->rows : t->in + place(t, m);
        void *to = back ? t->out + place(t, m) : row(t, m);
        if (m == c->rank)
            continue;
        if (sends > 0)
            result = ncclSend(from, sends, type, m, c->comm, c->stream);
        if (takes > 0 && (result == ncclSuccess || result == ncclInProgress))
            result = ncclRecv(to, takes, type, m, c->comm, c->stream);
        result = result == ncclInProgress ? ncclSuccess : result;
    }
    ncclResult_t end = ncclGroupEnd();
    return result == ncclSuccess ? end : result;
}

/* Row 0 becomes the root of the tree: a node takes the place of its left child. */
static cadre_status add_rows(const struct turn *t)
{
    struct cadre_device *worker = t->channel->worker;
    const struct cadre_device_ops *ops = worker->ops;
    int64_t n = (int64_t)in_turn(t, t->channel->rank);
    cadre_status rc = CADRE_OK;
    for (int half = 1; half < t->channel->size; half *= 2)
        for (int m = 0; m + half < t->channel->size && rc == CADRE_OK; m += 2 * half)
            rc = t->op->base.red == CADRE_SUM
                     ? ops->tree_add(worker, t->op->base.dtype, row(t, m), row(t, m),
                                     row(t, m + half), n)
                     : ops->maximum(worker, t->op->base.dtype, row(t, m), row(t, m),
                                    row(t, m + half), n);
    return rc;
}

static cadre_status copy(const struct turn *t, void *to, const void *from)
{
    struct cadre_device *worker = t->channel->worker;
    uint64_t n = in_turn(t, t->channel->rank);
    cadre_status rc =
        n > 0 ? worker->ops->copy(worker, to, from, n * t->element) : CADRE_OK;
    return cadre_nccl_check_device(t->op, rc, "copy a slice");
}

static cadre_status take_turn(const struct turn *t)
{
    int rank = t->channel->rank;
    CADRE_TRY(copy(t, row(t, rank), t->in + place(t, rank)));
    CADRE_TRY(cadre_nccl_check(t->op, exchange(t, false)));
    if (in_turn(t, rank) > 0)
        CADRE_TRY(cadre_nccl_check_device(t->op, add_rows(t), "add slices"));
    if (t->op->base.kind == CADRE_COMM_REDUCE_SCATTER)
        return copy(t, t->out + t->at * t->element, t->rows);
    CADRE_TRY(cadre_nccl_check(t->op, exchange(t, true)));
    return copy(t, t->out + place(t, rank), t->rows);
}

cadre_status cadre_nccl_move_tree(struct nccl_op *op, const void *in, void *out)
{
    struct turn t = {.op = op,
                     .channel = op->channel,
                     .in = in,
                     .out = out,
                     .element = cadre_dtype_bytes(op->base.dtype)};
    size_t size = (size_t)op->channel->size;
    uint64_t longest = cadre_comm_slice_longest(&op->base, op->channel->size);
    t.part = SCRATCH_BYTES / size / t.element / 64 * 64;
    t.part = WHOLE_LINES(longest) < t.part ? WHOLE_LINES(longest) : t.part;
    t.rows = cadre_nccl_scratch(op->channel, (size_t)t.part * size * t.element);
    cadre_status rc = t.rows ? CADRE_OK : CADRE_E_RESOURCE;
    rc = cadre_nccl_check_device(op, rc, "give memory for slices");
    for (; t.at < longest && rc == CADRE_OK; t.at += t.part)
        rc = take_turn(&t);
    return rc;
}
