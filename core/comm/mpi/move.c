/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives as MPI's non-blocking ones, one call after the other. */
#include <stdlib.h>
#include <string.h>

#include "core/comm/mpi/private.h"
#include "core/tensor/dtype.h"

#define SCRATCH_BYTES ((uint64_t)16 << 20)

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static cadre_status check_mpi(struct mpi_op *op, int result)
{
    return cadre_mpi_check(op->group->world, op, result);
}

/* ---- whole vectors: in parts ---- */

static cadre_status step_pieces(struct mpi_op *op)
{
    struct mpi_move *m = &op->move;
    struct mpi_world *w = op->group->world;
    size_t e = cadre_dtype_bytes(op->base.dtype);
    MPI_Datatype type = cadre_mpi_type(op->base.dtype);
    m->at += m->part;
    m->part = min64(op->base.count - m->at, w->limit);
    if (m->part == 0) {
        m->ended = true;
        return CADRE_OK;
    }
    char *out = (char *)op->base.out + m->at * e;
    const void *in = op->base.in == op->base.out
                         ? MPI_IN_PLACE
                         : (const char *)op->base.in + m->at * e;
    if (op->base.kind == CADRE_COMM_BROADCAST)
        return check_mpi(op, MPI_Ibcast(out, (int)m->part, type, op->base.root,
                                        op->group->comm, &m->request));
    return check_mpi(
        op, MPI_Iallreduce(in, out, (int)m->part, type,
                           cadre_mpi_reduction(w, op->base.dtype, op->base.red),
                           op->group->comm, &m->request));
}

/* ---- slices: in one call where possible, else in rounds through scratch ---- */

/* The parts of a round, and scratch for them; false where there is no memory. */
static bool prepare(struct mpi_op *op, uint64_t longest)
{
    struct mpi_move *m = &op->move;
    struct mpi_world *w = op->group->world;
    uint64_t size = (uint64_t)op->group->base.size,
             e = cadre_dtype_bytes(op->base.dtype);
    m->packed = op->base.count > w->limit;
    m->part = longest;
    if (m->packed) {
        uint64_t most = min64(SCRATCH_BYTES / e, w->limit) / size;
        m->part = min64(longest, most > 0 ? most : 1);
    }
    m->ints = calloc(4 * size, sizeof *m->ints);
    if (!m->ints) {
        cadre_mpi_fail(w, op, CADRE_E_RESOURCE, "rank %d: no memory", w->context.rank);
        return false;
    }
    if (m->packed)
        m->scratch = cadre_mpi_scratch_take(w, m->part * size * e);
    if (m->packed || op->base.kind == CADRE_COMM_REDUCE_SCATTER)
        m->rows = cadre_mpi_scratch_take(
            w, m->part * e * (op->base.kind == CADRE_COMM_REDUCE_SCATTER ? 1 : size));
    return (!m->packed || m->scratch) &&
           ((!m->packed && op->base.kind != CADRE_COMM_REDUCE_SCATTER) || m->rows);
}

static cadre_status scatter(struct mpi_op *op)
{
    struct mpi_move *m = &op->move;
    struct mpi_group *g = op->group;
    if (m->packed)
        cadre_mpi_slice_pack(op, m->scratch->data, op->base.in);
    return check_mpi(
        op,
        MPI_Ireduce_scatter(m->packed ? m->scratch->data : op->base.in, m->rows->data,
                            m->ints, cadre_mpi_type(op->base.dtype),
                            cadre_mpi_reduction(g->world, op->base.dtype, op->base.red),
                            g->comm, &m->request));
}

static cadre_status gather(struct mpi_op *op)
{
    struct mpi_move *m = &op->move;
    struct mpi_group *g = op->group;
    size_t e = cadre_dtype_bytes(op->base.dtype);
    int me = g->base.rank, mine = m->ints[me];
    const char *in = (const char *)op->base.in + m->at * e;
    bool in_place =
        !m->packed && op->base.in == (char *)op->base.out + op->base.offsets[me] * e;
    MPI_Datatype type = cadre_mpi_type(op->base.dtype);
    return check_mpi(op, MPI_Iallgatherv(in_place ? MPI_IN_PLACE : in, mine, type,
                                         m->packed ? m->rows->data : op->base.out,
                                         m->ints, m->ints + g->base.size, type, g->comm,
                                         &m->request));
}

static cadre_status exchange(struct mpi_op *op)
{
    struct mpi_move *m = &op->move;
    MPI_Datatype type = cadre_mpi_type(op->base.dtype);
    if (m->packed)
        cadre_mpi_slice_pack(op, m->scratch->data, op->base.in);
    return check_mpi(op, MPI_Ialltoall(m->packed ? m->scratch->data : op->base.in,
                                       m->ints[0], type,
                                       m->packed ? m->rows->data : op->base.out,
                                       m->ints[0], type, op->group->comm, &m->request));
}

/* Copy the result of a round to its destination. */
static void deliver(struct mpi_op *op)
{
    struct mpi_move *m = &op->move;
    size_t e = cadre_dtype_bytes(op->base.dtype);
    uint64_t n = cadre_mpi_slice_turn(op, op->group->base.rank);
    if (op->base.kind == CADRE_COMM_REDUCE_SCATTER && n > 0)
        memcpy((char *)op->base.out + m->at * e, m->rows->data, n * e);
    else if (op->base.kind != CADRE_COMM_REDUCE_SCATTER && m->packed)
        cadre_mpi_slice_unpack(op, op->base.out, m->rows->data);
}

static cadre_status step_slices(struct mpi_op *op)
{
    struct mpi_move *m = &op->move;
    uint64_t longest = cadre_comm_slice_longest(&op->base, op->group->base.size);
    if (m->phase == 1) {
        deliver(op);
        m->at += m->part;
    } else if (longest > 0 && !prepare(op, longest))
        return CADRE_E_RESOURCE;
    m->phase = 1;
    if (m->at >= longest) {
        m->ended = true;
        return CADRE_OK;
    }
    cadre_mpi_slice_places(op, m->packed, m->ints, m->ints + op->group->base.size);
    if (op->base.kind == CADRE_COMM_REDUCE_SCATTER)
        return scatter(op);
    return op->base.kind == CADRE_COMM_ALL_GATHER ? gather(op) : exchange(op);
}

/* ---- without data ---- */

static cadre_status step_barrier(struct mpi_op *op)
{
    op->move.ended = op->move.phase++ == 1;
    return op->move.ended
               ? CADRE_OK
               : check_mpi(op, MPI_Ibarrier(op->group->comm, &op->move.request));
}

/* World ranks of the new communicator's members. */
static int name_members(struct mpi_world *w, struct mpi_split *split)
{
    MPI_Group all, some;
    int *members = malloc((size_t)split->size * sizeof *members);
    split->world_ranks = malloc((size_t)split->size * sizeof *split->world_ranks);
    if (!members || !split->world_ranks) {
        free(members);
        return MPI_ERR_NO_MEM;
    }
    for (int m = 0; m < split->size; m++)
        members[m] = m;
    MPI_Comm_group(w->comm, &all);
    MPI_Comm_group(split->comm, &some);
    int result =
        MPI_Group_translate_ranks(some, split->size, members, all, split->world_ranks);
    MPI_Group_free(&all);
    MPI_Group_free(&some);
    free(members);
    return result;
}

/* MPI has no non-blocking split, so all ranks wait at a barrier first: then the split
 * waits for no rank that still has other work. */
static cadre_status step_split(struct mpi_op *op)
{
    struct mpi_split *s = op->base.out;
    if (op->move.phase++ == 0)
        return check_mpi(op, MPI_Ibarrier(op->group->comm, &op->move.request));
    op->move.ended = true;
    int result = MPI_Comm_split(
        op->group->comm, s->color < 0 ? MPI_UNDEFINED : s->color, s->key, &s->comm);
    if (result != MPI_SUCCESS || s->comm == MPI_COMM_NULL)
        return check_mpi(op, result);
    MPI_Comm_set_errhandler(s->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(s->comm, &s->rank);
    MPI_Comm_size(s->comm, &s->size);
    return check_mpi(op, name_members(op->group->world, s));
}

cadre_status cadre_mpi_step(struct mpi_op *op)
{
    switch (op->base.kind) {
    case CADRE_COMM_SEND:
    case CADRE_COMM_RECV:
        return cadre_mpi_step_message(op);
    case CADRE_COMM_BARRIER:
        return step_barrier(op);
    case CADRE_COMM_SPLIT:
        return step_split(op);
    case CADRE_COMM_BROADCAST:
        return step_pieces(op);
    case CADRE_COMM_ALL_REDUCE:
        return op->group->world->exact ? cadre_mpi_step_exact(op) : step_pieces(op);
    case CADRE_COMM_REDUCE_SCATTER:
        return op->group->world->exact ? cadre_mpi_step_exact(op) : step_slices(op);
    default:
        return step_slices(op);
    }
}
