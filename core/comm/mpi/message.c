/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: a header, which both sides compare, and the data in chunks. A send ends
 * when the receiver takes the data. */
#include <stdio.h>
#include <string.h>

#include "core/comm/mpi/private.h"
#include "core/tensor/dtype.h"

enum { TAG_HEADER = 1, TAG_DATA = 2 };

static cadre_status check_mpi(struct mpi_op *op, int result)
{
    return cadre_mpi_check(op->group->world, op, result);
}

static cadre_status begin(struct mpi_op *op)
{
    struct mpi_move *m = &op->move;
    MPI_Comm comm = op->group->comm;
    int n = (int)sizeof m->header;
    if (op->base.kind == CADRE_COMM_RECV)
        return check_mpi(op, MPI_Irecv(&m->header, n, MPI_BYTE, op->base.root,
                                       TAG_HEADER, comm, &m->header_request));
    m->header = (struct mpi_header){.sequence = op->base.sequence,
                                    .step = op->base.step,
                                    .count = op->base.count,
                                    .dtype = op->base.dtype};
    snprintf(m->header.label, sizeof m->header.label, "%s",
             cadre_comm_op_label(&op->base));
    int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) =
        op->base.count > 0 ? MPI_Isend
                           : MPI_Issend; /* the last one waits for the receiver */
    return check_mpi(op, send(&m->header, n, MPI_BYTE, op->base.root, TAG_HEADER, comm,
                              &m->header_request));
}

cadre_status cadre_mpi_step_message(struct mpi_op *op)
{
    struct mpi_move *m = &op->move;
    struct mpi_group *g = op->group;
    size_t e = cadre_dtype_bytes(op->base.dtype);
    MPI_Datatype type = cadre_mpi_type(op->base.dtype);
    cadre_status rc = m->phase++ == 0 ? begin(op) : CADRE_OK;
    m->at += m->part;
    m->part = op->base.count - m->at < g->world->limit ? op->base.count - m->at
                                                       : g->world->limit;
    if (rc != CADRE_OK || m->part == 0) {
        m->ended = m->header_request == MPI_REQUEST_NULL;
        return rc;
    }
    if (op->base.kind == CADRE_COMM_RECV)
        return check_mpi(op,
                         MPI_Irecv((char *)op->base.out + m->at * e, (int)m->part, type,
                                   op->base.root, TAG_DATA, g->comm, &m->request));
    return check_mpi(op,
                     MPI_Issend((const char *)op->base.in + m->at * e, (int)m->part,
                                type, op->base.root, TAG_DATA, g->comm, &m->request));
}

cadre_status cadre_mpi_compare_message(struct mpi_op *op)
{
    struct mpi_group *g = op->group;
    const struct mpi_header *h = &op->move.header;
    char theirs[128], ours[128], mine[256];
    if (op->base.kind == CADRE_COMM_SEND ||
        (h->dtype == op->base.dtype && h->count == op->base.count))
        return CADRE_OK;
    cadre_mpi_rank_text(g->world, g->world_ranks[op->base.root], theirs, sizeof theirs);
    cadre_mpi_rank_text(g->world, g->world->context.rank, ours, sizeof ours);
    cadre_mpi_op_text(op, mine, sizeof mine);
    cadre_mpi_fail(g->world, op, CADRE_E_COMM,
                   "%s posted send #%llu '%.64s' (%s, %llu elements, step %llu) to %s, "
                   "which posted %s; both must state the same dtype and count",
                   theirs, (unsigned long long)h->sequence, h->label,
                   cadre_dtype_name(h->dtype), (unsigned long long)h->count,
                   (unsigned long long)h->step, ours, mine);
    return CADRE_E_COMM;
}
