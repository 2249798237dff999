/* SPDX-License-Identifier: Apache-2.0 */
/* What a backend of communicators provides and receives: operations checked by post.c,
 * the record of a rank's world, and helpers for both. backend.c and failure.c are part
 * of the program and of every module. */
#ifndef CADRE_COMM_BACKEND_H
#define CADRE_COMM_BACKEND_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/comm/comm.h"
#include "core/comm/failure.h"

enum cadre_comm_kind {
    CADRE_COMM_IDLE, /* of a rank that has posted nothing */
    CADRE_COMM_ALL_REDUCE,
    CADRE_COMM_REDUCE_SCATTER,
    CADRE_COMM_ALL_GATHER,
    CADRE_COMM_BROADCAST,
    CADRE_COMM_ALL_TO_ALL,
    CADRE_COMM_BARRIER,
    CADRE_COMM_SPLIT, /* of backends that post it */
    CADRE_COMM_SEND,
    CADRE_COMM_RECV,
};

/* Where the buffers of an operation lie. */
enum cadre_comm_memory {
    CADRE_COMM_NO_MEMORY, /* nothing moves */
    CADRE_COMM_HOST_MEMORY,
    CADRE_COMM_DEVICE_MEMORY,
};

/* A posted operation. A backend extends it with its own fields. */
struct cadre_comm_op {
    enum cadre_comm_kind kind;
    cadre_comm_label label; /* NULL for none */
    const void *in;
    void *out;
    uint64_t count; /* of the whole vector */
    /* (size + 1) where each slice begins: as posted, of reduce_scatter and all_gather;
     * equal ones, of all_to_all; equal, in whole cache lines, of all_reduce. NULL for
     * other kinds. Freed with the operation. */
    const uint64_t *offsets;
    uint32_t dtype, red;
    int root; /* broadcast: root; send, recv: peer in the group */
    cadre_event after;
    struct cadre_device *device; /* the rank's when it was posted, or NULL */
    enum cadre_comm_memory memory;
    uint64_t bytes, between_bytes; /* this rank sends, as in cadre_comm_stats */
    uint64_t step; /* when it was posted */
    double posted_s;
    uint64_t sequence; /* in its queue, from 1; the backend's */
    uint64_t shown; /* its event and entry in the rank's status page, 0: none */
};

/* Communicators whose operations one wait is charged to; the rest falls to the one that
 * it was called on. */
enum { CADRE_COMM_WAITER_PARTS = 8 };

/* A thread of the rank that waits for an event. */
struct cadre_comm_waiter {
    double since_s;
    double moved_s; /* time that operations were at work since then */
    int n_parts;
    struct {
        struct cadre_comm *comm; /* NULL: destroyed since */
        double moved_s;
    } part[CADRE_COMM_WAITER_PARTS]; /* of moved_s */
    struct cadre_comm_waiter *next;
};

/* A wait that is over. An operation that was at work then is counted when it ends. */
struct cadre_comm_waited {
    double since_s, until_s;
    double rest_s; /* of it, not exposed yet */
};
enum { CADRE_COMM_WAITS = 64 };

/* What the communicators of one rank's world have in common. */
struct cadre_comm_context {
    int rank, size; /* in the world */
    _Atomic(struct cadre_device *) device; /* NULL: buffers are the host's */
    _Atomic uint64_t *step;
    struct cadre_failure *failure;
    pthread_mutex_t lock; /* the stats, the waiters, the observer and calls of it, the
                             operations in the page */
    struct cadre_comm_waiter *waiters;
    struct cadre_comm_waited waited[CADRE_COMM_WAITS]; /* the last ones, in a ring */
    uint64_t n_waited; /* so far */
    cadre_comm_observer observer; /* NULL: none */
    void *observer_arg;
    struct cadre_rank_page *page; /* the rank's; NULL: nobody looks */
    /* of an operation whose communicator keeps checksums (checksum.h), else NULL */
    void (*note)(struct cadre_comm *, const struct cadre_comm_op *op);
    /* cadre_comm_hang_text (hang.h) from the first cadre_comm_show on; else NULL */
    void (*explain)(const struct cadre_comm *, const struct cadre_comm_op *op,
                    int missing, bool silent, char *text, size_t size);
};

struct cadre_comm_backend {
    size_t op_bytes; /* of its operations; zeros behind struct cadre_comm_op */
    /* Takes ownership of op, on failure too; it is freed by free. Every backend checks
     * that op->after was posted and logs a refusal through cadre_comm_refuse. */
    cadre_status (*enqueue)(struct cadre_comm *, struct cadre_comm_op *op,
                            cadre_event *done);
    /* Sleep until the event, never 0, has happened. */
    cadre_status (*wait)(struct cadre_comm *, cadre_event event);
    /* Has the event, never 0, happened? Does not wait. */
    cadre_status (*test)(struct cadre_comm *, cadre_event event, bool *happened);
    /* Wait for what is pending, then stop using the previous device. `device` is NULL
     * or queued. */
    cadre_status (*use_device)(struct cadre_comm *, struct cadre_device *device,
                               struct cadre_error *err);
    cadre_status (*split)(struct cadre_comm *, int color, int key,
                          struct cadre_comm **out, struct cadre_error *err);
    void (*abort)(struct cadre_comm *, const char *why);
    void (*destroy)(struct cadre_comm *);
    /* Count the operations done by now; NULL where the backend's threads count them at
     * once. */
    void (*progress)(const struct cadre_comm *);
};

/* "all_reduce", ... Static. */
const char *cadre_comm_kind_name(uint32_t kind);

/* op->label, or "". */
cadre_comm_label cadre_comm_op_label(const struct cadre_comm_op *op);

/* An operation of comm's backend as `from` describes it, with a copy of its offsets.
 * NULL: no memory. */
struct cadre_comm_op *cadre_comm_op_create(const struct cadre_comm *comm,
                                           const struct cadre_comm_op *from);

/* Elements of the input or the output buffer of the rank `rank` of the group; a
 * broadcast's root has an input only. */
uint64_t cadre_comm_op_extent(const struct cadre_comm_op *op, int rank, bool in);

/* Elements of slice m in [at, at + part) of it, and of the longest slice: backends work
 * in rounds, one part of every slice each. */
uint64_t cadre_comm_slice_part(const struct cadre_comm_op *op, int m, uint64_t at,
                               uint64_t part);
uint64_t cadre_comm_slice_longest(const struct cadre_comm_op *op, int size);

/* Are there ranks of several nodes among those of the operation? */
bool cadre_comm_op_crosses(const struct cadre_comm *comm,
                           const struct cadre_comm_op *op);

/* Log why the operation was refused; returns rc. */
cadre_status cadre_comm_refuse(const struct cadre_comm *comm,
                               const struct cadre_comm_op *op, cadre_status rc,
                               const char *why);

/* The operation, on which a thread worked since began_s, is done: count it and call the
 * observer, before any waiter is woken. [any thread] */
void cadre_comm_account(struct cadre_comm *comm, const struct cadre_comm_op *op,
                        double began_s);

/* A rank's record; step and failure are the backend's. Destroyed by fini. */
void cadre_comm_context_init(struct cadre_comm_context *context, int rank, int size,
                             _Atomic uint64_t *step, struct cadre_failure *failure);
void cadre_comm_context_fini(struct cadre_comm_context *context);

/* CADRE_OK where its ranks and its time limit are valid. */
struct cadre_comm_world;
cadre_status cadre_comm_world_check(const struct cadre_comm_world *world,
                                    struct cadre_error *err);

/* Start a thread of a backend, with all signals blocked: the program handles them.
 * False where no thread can be started. */
bool cadre_comm_thread_start(pthread_t *thread, size_t stack_bytes,
                             void *(*run)(void *), void *arg);
/* A condition variable whose time limits are in CLOCK_MONOTONIC. */
void cadre_comm_cond_init(pthread_cond_t *condition);

#endif
