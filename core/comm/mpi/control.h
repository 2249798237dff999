/* SPDX-License-Identifier: Apache-2.0 */
/* What engines tell each other beside the data: the first failure; where they are,
 * before a time limit is over, so that it is known who is missed; and that they are
 * there at all. All of it is the engine's. */
#ifndef CADRE_COMM_MPI_CONTROL_H
#define CADRE_COMM_MPI_CONTROL_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include <cadre/types.h>

#include "core/comm/comm.h"

#define TEXT_BYTES 1024

struct mpi_world;
struct mpi_op;

/* What engines tell each other. */
struct mpi_note {
    uint32_t type; /* enum of control.c */
    int32_t code; /* a failure's */
    int32_t from; /* world rank */
    int32_t member; /* of the asker in the group; -1: its collectives are asked for */
    uint32_t kind, dtype, red;
    uint32_t sends; /* the asker sends: asked is the receiver's side */
    uint64_t group, sequence, count; /* where somebody is, or is missed */
    uint64_t nonce; /* of the question */
    char text[TEXT_BYTES];
};

struct mpi_sent {
    struct mpi_sent *next;
    MPI_Request request;
    struct mpi_note note;
};

/* An operation that takes long: who has come to it? */
struct mpi_inquiry {
    cadre_event id; /* 0: none */
    uint64_t nonce;
    bool *answered; /* (size) */
    struct mpi_note *answers; /* (size) */
};

struct mpi_control {
    MPI_Comm comm;
    MPI_Request request; /* of `incoming` */
    struct mpi_note incoming;
    struct mpi_sent *sent;
    struct mpi_inquiry inquiry;
    double looked_s;
    double beat_s, heard_s; /* of the next and the one before in the ring of all */
    MPI_Request beat_out, beat_in;
    char beat[2];
    int lost; /* world rank that was not heard of; -1 for none */
};

cadre_status cadre_mpi_control_open(struct mpi_world *world);
/* Take what has come, answer, look at the limits; true where there was something. */
bool cadre_mpi_control_turn(struct mpi_world *world);
/* Tell all others of the failure where it is ours, for a short while. */
void cadre_mpi_control_tell(struct mpi_world *world);
/* Wait until all ranks have come to the end of the world; false where one has not
 * within the time limit, or has failed: MPI_Finalize would wait for it. */
bool cadre_mpi_control_leave(struct mpi_world *world);
void cadre_mpi_control_free(struct mpi_world *world);

/* The failure of an operation that did not end in time, by what was answered. */
void cadre_mpi_late_text(const struct mpi_world *world, const struct mpi_op *op,
                         const struct mpi_inquiry *inquiry, char *text, size_t size);

#endif
