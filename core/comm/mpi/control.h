/* SPDX-License-Identifier: Apache-2.0 */
/* What engines send each other besides data: the first failure; what they are waiting
 * in, before a time limit is over, so that the missing rank is known; and heartbeats.
 * All of it is the engine's. */
#ifndef CADRE_COMM_MPI_CONTROL_H
#define CADRE_COMM_MPI_CONTROL_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include <cadre/types.h>

#include "core/comm/comm.h"

#define TEXT_BYTES 1024
#define DOING_BYTES 336

struct mpi_world;
struct mpi_op;

/* Messages between engines. */
struct mpi_note {
    uint32_t type; /* enum of control.c */
    int32_t code; /* a failure's */
    int32_t from; /* world rank */
    int32_t member; /* peer of the asker in the group; -1: about its collectives */
    uint32_t kind, dtype, red;
    uint32_t sends; /* the asker is the sender: about the receiver's side */
    uint64_t group, sequence, count; /* what a rank is in */
    uint64_t nonce; /* of the question */
    char text[TEXT_BYTES];
    char doing[DOING_BYTES]; /* of who answers and waits for nobody; else "" */
};

struct mpi_sent {
    struct mpi_sent *next;
    MPI_Request request;
    struct mpi_note note;
};

/* An operation that takes long: which ranks have entered it? */
struct mpi_inquiry {
    cadre_event id; /* 0: none */
    uint64_t nonce;
    double asked_s;
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
    double beat_s, heard_s; /* heartbeats to next, from previous rank */
    MPI_Request beat_out, beat_in;
    char beat[2];
    char doing[DOING_BYTES]; /* as it was at doing_s */
    double doing_s;
    int lost; /* world rank without a heartbeat; -1 for none */
};

cadre_status cadre_mpi_control_open(struct mpi_world *world);
/* Receive messages, answer them, check the time limits; true where there was one. */
bool cadre_mpi_control_turn(struct mpi_world *world);
/* Send the failure to all others where it is this rank's, for a short while. */
void cadre_mpi_control_tell(struct mpi_world *world);
/* Wait until all ranks have come to the end of the world; false where one has not
 * within the time limit, or has failed: MPI_Finalize would wait for it. */
bool cadre_mpi_control_leave(struct mpi_world *world);
void cadre_mpi_control_free(struct mpi_world *world);

/* The failure of an operation that did not end in time, from the answers received. */
void cadre_mpi_late_text(const struct mpi_world *world, const struct mpi_op *op,
                         const struct mpi_inquiry *inquiry, char *text, size_t size);

#endif
