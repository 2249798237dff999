/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's side of communicators over MPI, between the files of the module.
 *
 * One thread per process, the engine, makes every call of MPI, including
 * MPI_Init_thread and MPI_Finalize, so MPI_THREAD_FUNNELED is enough. It makes no call
 * that waits for other ranks unless all are known to have come (splits), so no pending
 * operation blocks another. Posts put operations into queues, one for the collectives
 * of a group and one for each direction between two of its ranks; the engine begins an
 * operation when the one before it in its queue, and the one it comes after, are done.
 *
 * Besides data, on a separate communicator, the engines send each other the first
 * failure, and before a time limit they ask all ranks what they are waiting in, so that
 * the missing rank is known.
 *
 * A world has one lock. Fields marked "engine's" are used by that thread only. */
#ifndef CADRE_COMM_MPI_PRIVATE_H
#define CADRE_COMM_MPI_PRIVATE_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/comm/backend.h"
#include "core/comm/module.h"
#include "core/comm/mpi/control.h"

#define HOST_BYTES 64

struct mpi_world;
struct mpi_group;
struct mpi_op;

/* Memory of the engine's for one operation at a time. */
struct mpi_scratch {
    struct mpi_scratch *next;
    size_t bytes;
    char data[];
};

struct mpi_queue {
    struct mpi_op *tail; /* the last one pending */
    uint64_t posted, began; /* sequence numbers */
};

/* The header of a message, by which both sides are compared. */
struct mpi_header {
    uint64_t sequence, step, count;
    uint32_t dtype;
    char label[64];
};

/* Result of a split: `out` of its operation; filled by the engine. */
struct mpi_split {
    int color, key;
    MPI_Comm comm;
    int rank, size;
    int *world_ranks; /* (size), owned */
};

/* Progress of the engine with an operation. */
struct mpi_move {
    MPI_Request request, header_request; /* MPI_REQUEST_NULL: none */
    int phase;
    bool packed; /* slices go through scratch, since int cannot reach them */
    bool ended;
    uint64_t at, part; /* elements of a slice before this round; per round, at most */
    int *ints; /* counts and places, 4 for each rank */
    struct mpi_scratch *scratch,
        *rows; /* what goes out; what comes in, or what is added */
    struct mpi_header header;
};

struct mpi_op {
    struct cadre_comm_op base;
    struct mpi_op *next, *next_active; /* pending or dead; of those begun */
    struct mpi_group *group; /* not checked after its end */
    struct mpi_queue *queue; /* nor this */
    cadre_event id;
    const struct mpi_op *before, *follows; /* pending: in its queue, and `after` */
    double began_s; /* by the engine; 0 until then */
    cadre_status status; /* of a dead one */
    struct mpi_move move; /* engine's */
};

struct mpi_world {
    struct cadre_comm_context context;
    double timeout_s;
    bool exact;
    uint64_t limit; /* elements that one call of MPI may span */
    _Atomic uint64_t step;
    struct cadre_failure failure; /* set under the lock */
    pthread_t engine;
    pthread_mutex_t lock;
    pthread_cond_t changed, work; /* for callers; for the engine */
    /* under the lock */
    struct mpi_group *groups;
    struct mpi_op *pending, *last; /* in order of their ids */
    struct mpi_op *dead; /* failed; freed with the world */
    uint64_t ids, news; /* assigned; changes that the engine has to check */
    const struct mpi_op *blamed;
    bool tell_all; /* the failure is this rank's: it must be sent to the others */
    bool quiet; /* after a failure: MPI touches no buffer of the callers' any more */
    bool opened, stop, ended, stuck;
    double turned_s; /* when the engine was last seen at work */
    struct cadre_error opening; /* why it did not open */
    /* engine's */
    struct mpi_op *active; /* begun, oldest first */
    unsigned idle; /* rounds without work */
    MPI_Comm comm;
    char (*hosts)[HOST_BYTES]; /* (size), by world rank; read by all once open */
    struct mpi_control control;
    struct mpi_scratch *free_scratch;
    MPI_Op sum_bf16, max_bf16, sum_f16, max_f16;
};

struct mpi_group {
    struct cadre_comm base;
    struct mpi_group *next;
    struct mpi_world *world;
    bool is_world;
    uint64_t id; /* the same on all its ranks */
    uint64_t splits;
    MPI_Comm comm;
    int *world_ranks;
    struct mpi_queue all; /* collectives */
    struct mpi_queue *send, *recv; /* (size) by member */
};

/* ---- library.c ---- */

/* core/comm/module.h */
cadre_status cadre_mpi_version(struct cadre_text *out, struct cadre_error *err);
cadre_status cadre_mpi_make_id(unsigned char id[CADRE_COMM_ID_BYTES],
                               struct cadre_error *err);
void cadre_mpi_describe(struct cadre_text *out);
/* [engine, collective: all ranks; waits for them] Start MPI, and fill the world's comm,
 * hosts, the control's comm and the ops. */
cadre_status cadre_mpi_start(struct mpi_world *world, struct cadre_error *err);
/* MPI_DATATYPE_NULL for an unknown dtype. [any thread] */
MPI_Datatype cadre_mpi_type(uint32_t dtype);
MPI_Op cadre_mpi_reduction(const struct mpi_world *world, uint32_t dtype, uint32_t red);

/* ---- world.c ---- */

cadre_status cadre_mpi_open(const struct cadre_comm_world *world,
                            const unsigned char id[CADRE_COMM_ID_BYTES],
                            struct cadre_comm **out, struct cadre_error *err);
/* Its engine has ended. */
void cadre_mpi_world_free(struct mpi_world *world);
extern const struct cadre_comm_backend cadre_mpi_backend;

/* ---- group.c ---- */

/* A group of the world, entered into its list. Takes world_ranks, NULL: all. */
struct mpi_group *cadre_mpi_group_make(struct mpi_world *world, uint64_t id,
                                       const struct mpi_split *from);
cadre_status cadre_mpi_split(struct cadre_comm *, int color, int key,
                             struct cadre_comm **out, struct cadre_error *err);
void cadre_mpi_destroy(struct cadre_comm *);

/* ---- pending.c: operations from the post to their end ---- */

cadre_status cadre_mpi_enqueue(struct cadre_comm *, struct cadre_comm_op *op,
                               cadre_event *done);
/* [engine] Under the lock: begin operations that wait for no other. */
void cadre_mpi_begin(struct mpi_world *world);
/* [engine] The operation is done. */
void cadre_mpi_finish(struct mpi_op *op);
/* Sleep until the event has happened. */
cadre_status cadre_mpi_event_wait(struct mpi_world *world, cadre_event event);
/* Has it happened? Does not wait. */
cadre_status cadre_mpi_event_test(struct mpi_world *world, cadre_event event,
                                  bool *happened);
/* Sleep until nothing is pending, or the world has failed and is quiet. */
void cadre_mpi_drain(struct mpi_world *world);
/* Under the lock, with a failure: sleep until MPI touches no buffer. */
void cadre_mpi_await_quiet(struct mpi_world *world);
/* [engine] After a failure, when MPI is called no more: all pending are dead. */
void cadre_mpi_hush(struct mpi_world *world);
/* Under the lock: sleep for a change, a second at most. Where the engine has been
 * inside MPI for longer than any limit, the world fails. */
void cadre_mpi_sleep(struct mpi_world *world);
/* The first failure of the world; later ones change nothing. */
void cadre_mpi_fail(struct mpi_world *world, const struct mpi_op *blamed,
                    cadre_status code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Under the lock. */
void cadre_mpi_fail_locked(struct mpi_world *world, const struct mpi_op *blamed,
                           cadre_status code, const char *why);
void cadre_mpi_op_free(struct mpi_op *op);

/* ---- text.c ---- */

/* "all_reduce #12 'ddp bucket 3' (f32, 4096 elements, step 40) of ranks 0,2" */
void cadre_mpi_op_text(const struct mpi_op *op, char *text, size_t size);
/* "rank 2 (host n7)" */
void cadre_mpi_rank_text(const struct mpi_world *world, int rank, char *text,
                         size_t size);
/* ---- engine.c ---- */

/* [its thread] From MPI_Init_thread to MPI_Finalize. */
void *cadre_mpi_engine(void *world);
/* Take what a call of MPI for `op` (may be NULL) returned: a failure is the world's. */
cadre_status cadre_mpi_check(struct mpi_world *world, const struct mpi_op *op,
                             int result);

/* move.c, exact.c, message.c: [engine] one step of an operation: called where no
 * request of it is pending; makes one, or sets move.ended. A failure is the world's. */

cadre_status cadre_mpi_step(struct mpi_op *op);
cadre_status cadre_mpi_step_exact(struct mpi_op *op);
cadre_status cadre_mpi_step_message(struct mpi_op *op);
/* Begin a message; the header is compared when it is there, the data may come later. */
cadre_status cadre_mpi_compare_message(struct mpi_op *op);

/* slices.c: elements of slice m in this round */
uint64_t cadre_mpi_slice_turn(const struct mpi_op *op, int m);
/* Counts and offsets (size each) of the round's parts: in the whole vector, or one
 * after the other in scratch. */
void cadre_mpi_slice_places(const struct mpi_op *op, bool packed, int *counts,
                            int *places);
/* Between the whole vector and scratch. */
void cadre_mpi_slice_pack(const struct mpi_op *op, char *scratch, const void *whole);
void cadre_mpi_slice_unpack(const struct mpi_op *op, void *whole, char *scratch);
struct mpi_scratch *cadre_mpi_scratch_take(struct mpi_world *world, size_t bytes);
void cadre_mpi_scratch_give(struct mpi_world *world, struct mpi_scratch *scratch);

#endif
