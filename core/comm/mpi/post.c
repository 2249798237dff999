/* SPDX-License-Identifier: Apache-2.0 */
/* Posting: arguments are checked, and the operation gets its place. */
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/comm/reduce.h"
#include "core/comm/mpi/internal.h"
#include "core/comm/mpi/post.h"
#include "core/tensor/dtype.h"

static struct mpi_group *group_of(struct cadre_comm *comm)
{
    return (struct mpi_group *)comm;
}

static cadre_status refuse(const struct mpi_op *op, const char *why)
{
    cadre_log(CADRE_LOG_ERROR, "comm", "rank %d: %s '%s' refused: %s",
              op->group->world->rank, cadre_mpi_kind_name(op->kind),
              op->label ? op->label : "", why);
    return CADRE_E_INVALID;
}

static bool ascend_from_zero(const uint64_t *offsets, int size)
{
    bool ok = offsets && offsets[0] == 0;
    for (int m = 0; ok && m < size; m++)
        ok = offsets[m] <= offsets[m + 1];
    return ok;
}

static cadre_status check(const struct mpi_op *op)
{
    const struct mpi_group *g = op->group;
    bool reduces = op->kind == OP_ALL_REDUCE || op->kind == OP_REDUCE_SCATTER;
    bool peers = op->kind == OP_SEND || op->kind == OP_RECV;
    size_t element = cadre_dtype_bytes(op->dtype);
    const char *why = NULL;
    if (element == 0 || cadre_mpi_type(op->dtype) == MPI_DATATYPE_NULL)
        why = "unknown dtype";
    else if (op->count > INT64_MAX / element / 2)
        why = "the count is beyond the address space";
    else if (reduces && !cadre_reduce_supports(op->dtype, op->red))
        why = "this dtype has no such reduction";
    else if (op->root < 0 || op->root >= g->base.size)
        why = "no such rank in the group";
    else if (peers && op->root == g->base.rank)
        why = "a rank does not send to itself";
    else if (op->kind == OP_ALL_TO_ALL && op->count % (uint64_t)g->base.size)
        why = "the count is not a multiple of the ranks";
    else if (op->kind == OP_ALL_TO_ALL && op->in == op->out && op->count)
        why = "in and out are the same";
    return why ? refuse(op, why) : CADRE_OK;
}

static struct mpi_op *make(const struct mpi_op *from, const uint64_t *offsets)
{
    struct mpi_op *op = malloc(sizeof *op);
    size_t n = (size_t)from->group->base.size + 1;
    if (!op)
        return NULL;
    *op = *from;
    op->move.request = op->move.header_request = MPI_REQUEST_NULL;
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

/* The queue is looked up last: `from` has been checked. */
static struct mpi_queue *queue_of(const struct mpi_op *op)
{
    struct mpi_group *g = op->group;
    return op->kind == OP_SEND   ? &g->send[op->root]
           : op->kind == OP_RECV ? &g->recv[op->root]
                                 : &g->all;
}

static cadre_status post(const struct mpi_op *from, const uint64_t *offsets,
                         cadre_event *done)
{
    struct mpi_world *w = from->group->world;
    cadre_status rc = check(from);
    if (rc != CADRE_OK)
        return rc;
    struct mpi_op *op = make(from, offsets);
    if (!op)
        return CADRE_E_RESOURCE;
    op->queue = queue_of(op);
    pthread_mutex_lock(&w->lock);
    if (w->code != CADRE_OK) {
        cadre_mpi_await_quiet(w);
        rc = CADRE_E_ABORTED;
    } else if (op->after > w->ids)
        rc = CADRE_E_INVALID;
    else {
        cadre_mpi_enqueue(op);
        if (done)
            *done = op->id;
    }
    pthread_mutex_unlock(&w->lock);
    if (rc == CADRE_OK)
        return rc;
    cadre_mpi_op_free(op);
    return rc == CADRE_E_INVALID
               ? refuse(from, "the event it comes after was never posted")
               : rc;
}

/* reduce_scatter and all_gather: the count is the last offset. */
static cadre_status post_slices(struct mpi_op *op, const uint64_t *offsets,
                                cadre_event *done)
{
    if (!ascend_from_zero(offsets, op->group->base.size))
        return refuse(op, "offsets do not ascend from 0");
    op->count = offsets[op->group->base.size];
    return post(op, offsets, done);
}

/* lint: long because the table of operations has this signature */
cadre_status cadre_mpi_all_reduce(struct cadre_comm *comm, cadre_comm_label label,
                                  const void *in, void *out, uint64_t count,
                                  uint32_t dtype, uint32_t red, cadre_event after,
                                  cadre_event *done)
{
    const struct mpi_op op = {.group = group_of(comm),
                              .kind = OP_ALL_REDUCE,
                              .label = label,
                              .in = in,
                              .out = out,
                              .count = count,
                              .dtype = dtype,
                              .red = red,
                              .after = after};
    return post(&op, NULL, done);
}

/* lint: long because the table of operations has this signature */
cadre_status cadre_mpi_reduce_scatter(struct cadre_comm *comm, cadre_comm_label label,
                                      const void *in, void *out,
                                      const uint64_t *offsets, uint32_t dtype,
                                      uint32_t red, cadre_event after,
                                      cadre_event *done)
{
    struct mpi_op op = {.group = group_of(comm),
                        .kind = OP_REDUCE_SCATTER,
                        .label = label,
                        .in = in,
                        .out = out,
                        .dtype = dtype,
                        .red = red,
                        .after = after};
    return post_slices(&op, offsets, done);
}

cadre_status cadre_mpi_all_gather(struct cadre_comm *comm, cadre_comm_label label,
                                  const void *in, void *out, const uint64_t *offsets,
                                  uint32_t dtype, cadre_event after, cadre_event *done)
{
    struct mpi_op op = {.group = group_of(comm),
                        .kind = OP_ALL_GATHER,
                        .label = label,
                        .in = in,
                        .out = out,
                        .dtype = dtype,
                        .after = after};
    return post_slices(&op, offsets, done);
}

cadre_status cadre_mpi_broadcast(struct cadre_comm *comm, cadre_comm_label label,
                                 void *buf, uint64_t count, uint32_t dtype, int root,
                                 cadre_event after, cadre_event *done)
{
    const struct mpi_op op = {.group = group_of(comm),
                              .kind = OP_BROADCAST,
                              .label = label,
                              .in = buf,
                              .out = buf,
                              .count = count,
                              .dtype = dtype,
                              .root = root,
                              .after = after};
    return post(&op, NULL, done);
}

cadre_status cadre_mpi_all_to_all(struct cadre_comm *comm, cadre_comm_label label,
                                  const void *in, void *out, uint64_t count,
                                  uint32_t dtype, cadre_event after, cadre_event *done)
{
    const struct mpi_op op = {.group = group_of(comm),
                              .kind = OP_ALL_TO_ALL,
                              .label = label,
                              .in = in,
                              .out = out,
                              .count = count,
                              .dtype = dtype,
                              .after = after};
    return post(&op, NULL, done);
}

cadre_status cadre_mpi_barrier(struct cadre_comm *comm, cadre_comm_label label,
                               cadre_event after, cadre_event *done)
{
    const struct mpi_op op = {.group = group_of(comm),
                              .kind = OP_BARRIER,
                              .label = label,
                              .dtype = CADRE_U8,
                              .after = after};
    return post(&op, NULL, done);
}

cadre_status cadre_mpi_send(struct cadre_comm *comm, cadre_comm_label label,
                            const void *buf, uint64_t count, uint32_t dtype, int to,
                            cadre_event after, cadre_event *done)
{
    const struct mpi_op op = {.group = group_of(comm),
                              .kind = OP_SEND,
                              .label = label,
                              .in = buf,
                              .count = count,
                              .dtype = dtype,
                              .root = to,
                              .after = after};
    return post(&op, NULL, done);
}

cadre_status cadre_mpi_recv(struct cadre_comm *comm, cadre_comm_label label, void *buf,
                            uint64_t count, uint32_t dtype, int from, cadre_event after,
                            cadre_event *done)
{
    const struct mpi_op op = {.group = group_of(comm),
                              .kind = OP_RECV,
                              .label = label,
                              .out = buf,
                              .count = count,
                              .dtype = dtype,
                              .root = from,
                              .after = after};
    return post(&op, NULL, done);
}

cadre_status cadre_mpi_post_split(struct mpi_group *group, struct mpi_split *split,
                                  cadre_event *done)
{
    const struct mpi_op op = {
        .group = group, .kind = OP_SPLIT, .dtype = CADRE_U8, .split = split};
    return post(&op, NULL, done);
}
