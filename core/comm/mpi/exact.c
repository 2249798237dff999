/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions in tree order: every rank receives all ranks' values of its slice, adds
 * them, and returns the result where it is needed. The vector is processed in parts, so
 * that scratch does not grow with it; a round touches one part of every slice and
 * nothing else, so that in may be out. */
#include <stdlib.h>
#include <string.h>

#include "core/comm/mpi/private.h"
#include "core/comm/reduce.h"
#include "core/tensor/dtype.h"

#define SCRATCH_BYTES ((uint64_t)16 << 20)

enum { BEGIN, ADD, RETURN }; /* phases of a turn */

static cadre_status prepare(struct mpi_op *op, uint64_t longest)
{
    struct mpi_move *m = &op->move;
    struct mpi_world *w = op->group->world;
    uint64_t size = (uint64_t)op->group->base.size,
             e = cadre_dtype_bytes(op->base.dtype);
    uint64_t most = SCRATCH_BYTES / e < w->limit ? SCRATCH_BYTES / e : w->limit;
    m->packed = op->base.count > w->limit;
    m->part = most / size > 0 ? most / size : 1;
    m->part = longest < m->part ? longest : m->part;
    m->ints = calloc(4 * size, sizeof *m->ints);
    /* a row per rank, and one for the sum */
    m->rows = cadre_mpi_scratch_take(w, m->part * (size + 1) * e);
    if (m->packed)
        m->scratch = cadre_mpi_scratch_take(w, m->part * size * e);
    if (m->ints && m->rows && (!m->packed || m->scratch))
        return CADRE_OK;
    cadre_mpi_fail(w, op, CADRE_E_RESOURCE, "rank %d: no memory", w->context.rank);
    return CADRE_E_RESOURCE;
}

/* Send this rank's part of slice m to rank m; receive all ranks' parts of this
 * slice. */
static cadre_status exchange(struct mpi_op *op)
{
    struct mpi_move *m = &op->move;
    struct mpi_group *g = op->group;
    int size = g->base.size, mine = (int)cadre_mpi_slice_turn(op, g->base.rank);
    int *from = m->ints + 2 * size;
    MPI_Datatype type = cadre_mpi_type(op->base.dtype);
    cadre_mpi_slice_places(op, m->packed, m->ints, m->ints + size);
    for (int r = 0; r < size; r++) {
        from[r] = mine;
        from[size + r] = r * mine;
    }
    if (m->packed)
        cadre_mpi_slice_pack(op, m->scratch->data, op->base.in);
    return cadre_mpi_check(g->world, op,
                           MPI_Ialltoallv(m->packed ? m->scratch->data : op->base.in,
                                          m->ints, m->ints + size, type, m->rows->data,
                                          from, from + size, type, g->comm,
                                          &m->request));
}

/* Where the sum of this round lies: behind the rows. */
static char *sum_of(const struct mpi_op *op)
{
    const struct mpi_move *m = &op->move;
    return m->rows->data +
           m->part * (uint64_t)op->group->base.size * cadre_dtype_bytes(op->base.dtype);
}

static cadre_status add_rows(struct mpi_op *op)
{
    const struct mpi_move *m = &op->move;
    int size = op->group->base.size;
    uint64_t e = cadre_dtype_bytes(op->base.dtype),
             block = CADRE_REDUCE_BLOCK_BYTES / e;
    uint64_t mine = cadre_mpi_slice_turn(op, op->group->base.rank);
    const void **rows = malloc((size_t)size * sizeof *rows);
    if (!rows) {
        cadre_mpi_fail(op->group->world, op, CADRE_E_RESOURCE, "rank %d: no memory",
                       op->group->world->context.rank);
        return CADRE_E_RESOURCE;
    }
    for (uint64_t at = 0; at < mine; at += block) {
        uint64_t n = mine - at < block ? mine - at : block;
        for (int r = 0; r < size; r++)
            rows[r] = m->rows->data + ((uint64_t)r * mine + at) * e;
        cadre_reduce_block(sum_of(op) + at * e, rows, size, n, op->base.dtype,
                           op->base.red);
    }
    free(rows);
    return CADRE_OK;
}

static cadre_status give_back(struct mpi_op *op)
{
    struct mpi_move *m = &op->move;
    struct mpi_group *g = op->group;
    MPI_Datatype type = cadre_mpi_type(op->base.dtype);
    return cadre_mpi_check(g->world, op,
                           MPI_Iallgatherv(sum_of(op), m->ints[g->base.rank], type,
                                           m->packed ? m->scratch->data : op->base.out,
                                           m->ints, m->ints + g->base.size, type,
                                           g->comm, &m->request));
}

cadre_status cadre_mpi_step_exact(struct mpi_op *op)
{
    struct mpi_move *m = &op->move;
    uint64_t longest = cadre_comm_slice_longest(&op->base, op->group->base.size),
             e = cadre_dtype_bytes(op->base.dtype);
    uint64_t mine = cadre_mpi_slice_turn(op, op->group->base.rank);
    if (longest == 0) {
        m->ended = true;
        return CADRE_OK;
    }
    if (!m->ints)
        CADRE_TRY(prepare(op, longest));
    if (m->phase == ADD) {
        CADRE_TRY(add_rows(op));
        m->phase = RETURN;
        if (op->base.kind == CADRE_COMM_ALL_REDUCE)
            return give_back(op);
        if (mine > 0)
            memcpy((char *)op->base.out + m->at * e, sum_of(op), mine * e);
    } else if (m->phase == RETURN && m->packed)
        cadre_mpi_slice_unpack(op, op->base.out, m->scratch->data);
    if (m->phase == RETURN)
        m->at += m->part;
    m->phase = ADD;
    m->ended = m->at >= longest;
    return m->ended ? CADRE_OK : exchange(op);
}
