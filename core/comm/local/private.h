/* SPDX-License-Identifier: Apache-2.0 */
/* What lies in a rank's own memory: its queues, and its side of each communicator. */
#ifndef CADRE_COMM_LOCAL_PRIVATE_H
#define CADRE_COMM_LOCAL_PRIVATE_H

#include <pthread.h>

#include "core/comm/local/segment_private.h"

#define LOCAL_MAX_QUEUES 4096
#define LOCAL_SLICE_NS 20000000u /* how often a sleeper checks for failures */

struct local_comm;
struct local_queue;
struct local_split;

struct local_op {
    struct cadre_comm_op base;
    struct local_op *next;
};

/* Arguments and result of a split: `out` of its operation, owned by the caller. */
struct local_split {
    int color, key;
    uint64_t group; /* 0: in none */
    int rank;
};

typedef cadre_status (*local_run)(struct local_queue *queue,
                                  const struct cadre_comm_op *op);

/* One ordered queue and its thread, which starts with the first operation. A caller
 * that waits for an operation runs it itself where the thread has not begun yet:
 * threads that sleep take longer to wake than most operations do. */
struct local_queue {
    uint64_t id;
    struct local_comm *comm; /* invalid after `stop` */
    local_run run;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct local_op *head, *tail;
    uint64_t posted, completed;
    uint64_t failed_from; /* first sequence number that failed, 0 for none */
    cadre_status status; /* of failed_from */
    bool started;
    bool busy; /* the first operation is being run */
    bool by_caller; /* by a thread that waits for it */
    int waiting; /* threads that sleep until an operation ends */
    _Atomic bool stop;
    pthread_t thread;
    /* worker stream of op->device, for the thread only; NULL until used, as is the
     * scratch for sums */
    struct cadre_device *worker;
    void *scratch;
};

/* One rank of the world. */
struct local_rank {
    struct cadre_comm_context context;
    struct cadre_local_segment *segment;
    struct shared_rank *shared;
    bool direct; /* ranks share an address space */
    bool spins; /* for a short while: each rank of the machine may have a core */
    pthread_mutex_t lock; /* queues, note */
    struct local_note note;
    _Atomic(struct local_queue *) queues[LOCAL_MAX_QUEUES];
    uint64_t queue_count;
};

struct local_peer {
    struct local_queue *send, *recv; /* NULL until used */
};

struct local_comm {
    struct cadre_comm base;
    struct local_rank *me;
    struct shared_group *group;
    bool is_world;
    uint64_t phase; /* of the collective queue's thread */
    struct local_queue *collective;
    struct local_peer *peers; /* size */
    pthread_mutex_t lock; /* queues made lazily */
};

/* ---- queue.c ---- */

/* A queue that lives until the rank ends, not only its communicator. NULL: too many. */
struct local_queue *cadre_local_queue_create(struct local_comm *comm, local_run run);
/* Takes op (freed on failure too). */
cadre_status cadre_local_queue_post(struct local_queue *queue, struct local_op *op,
                                    cadre_event *done);
/* Has it been posted by this rank? True for 0. */
bool cadre_local_event_exists(struct local_rank *me, cadre_event event);
/* Sleep until the event has happened; `stop` (may be NULL) ends the wait early. */
/* Has it happened? Does not wait; `happened` is false on entry. */
cadre_status cadre_local_event_test(struct local_rank *me, cadre_event event,
                                    bool *happened);
cadre_status cadre_local_event_wait(struct local_rank *me, cadre_event event,
                                    const _Atomic bool *stop);
/* Wait until nothing is pending, then close its worker stream of the device. */
void cadre_local_queue_leave_device(struct local_queue *queue);
/* End its thread; what is pending fails. The memory is freed when the rank ends. */
void cadre_local_queue_stop(struct local_queue *queue);
void cadre_local_queue_destroy(struct local_queue *queue);

/* ---- sync.c: waiting for other ranks, on a queue's thread ---- */

/* A member that a waiter needs: `late` reports what is wrong when it does not come. */
struct local_await {
    struct local_queue *queue;
    const struct cadre_comm_op *op;
    _Atomic uint32_t *word;
    uint32_t target; /* waits until *word reaches it, with wrap-around */
    uint64_t phase; /* a barrier's phase; 0: only `peer` is waited for */
    int peer; /* rank in the group */
};
cadre_status cadre_local_await(const struct local_await *a);

/* All members of the group enter. Collective queue's thread only. */
cadre_status cadre_local_barrier(struct local_queue *queue,
                                 const struct cadre_comm_op *op);

/* Around access to other members' buffers, among threads: false when the run has
 * failed; then no buffer may be accessed. After a failure `drain` waits until no member
 * is inside, so that buffers can be returned to the caller. */
bool cadre_local_copy_begin(struct local_comm *comm);
void cadre_local_copy_end(struct local_comm *comm);
void cadre_local_drain(struct local_comm *comm);

/* Fill in this rank's side of an operation. */
void cadre_local_call_fill(struct local_queue *queue, const struct cadre_comm_op *op,
                           struct shared_call *call);
/* Record in the rank's note that this operation has ended. */
void cadre_local_note_done(struct local_rank *me, const struct cadre_comm_op *op);
/* Make the world fail: CADRE_E_COMM, or ABORTED where another failure was first. */
cadre_status cadre_local_fail(struct local_rank *me, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* "all_reduce #12 'ddp bucket 3' (f32, 4096 elements, step 40)" */
void cadre_local_call_text(const struct shared_call *call, char *text, size_t size);

/* ---- the emulated link (sync.c) ---- */

/* When what this rank sends for the operation from `from_ns` on has arrived; 0 without
 * a link. */
uint64_t cadre_local_link_book(struct local_comm *comm, uint64_t from_ns,
                               const struct cadre_comm_op *op);
cadre_status cadre_local_sleep_until(struct local_queue *queue, uint64_t ns);

/* ---- what queues run ---- */

cadre_status cadre_local_run_collective(struct local_queue *queue,
                                        const struct cadre_comm_op *op);
cadre_status cadre_local_run_send(struct local_queue *queue,
                                  const struct cadre_comm_op *op);
cadre_status cadre_local_run_recv(struct local_queue *queue,
                                  const struct cadre_comm_op *op);
/* The data of a collective: by pointers among threads, staged among processes. */
cadre_status cadre_local_move_direct(struct local_queue *queue,
                                     const struct cadre_comm_op *op);
cadre_status cadre_local_move_staged(struct local_queue *queue,
                                     const struct cadre_comm_op *op);
cadre_status cadre_local_run_split(struct local_queue *queue,
                                   const struct cadre_comm_op *op);

/* device.c: buffers that lie in a device's memory. On a queue's thread; a failure of
 * the device makes the world fail. */

/* Sleep until a device event has happened. */
cadre_status cadre_local_device_wait(struct local_queue *queue,
                                     const struct cadre_comm_op *op);
/* Around device work of an operation; a no-op where its buffers are in host memory.
 * `end` waits for the work, and takes the status of submitting it. */
cadre_status cadre_local_device_begin(struct local_queue *queue,
                                      const struct cadre_comm_op *op);
cadre_status cadre_local_device_end(struct local_queue *queue,
                                    const struct cadre_comm_op *op, cadre_status rc);
/* Between begin and end: to[bytes] = from[bytes] in the operation's memory, and this
 * rank's slice of a reduction among threads, in the order of cadre_reduce_block. */
cadre_status cadre_local_copy(struct local_queue *queue, const struct cadre_comm_op *op,
                              void *to, const void *from, uint64_t bytes);
cadre_status cadre_local_device_reduce(struct local_queue *queue,
                                       const struct cadre_comm_op *op);
/* host[bytes] = from[bytes], and to[bytes] = host[bytes]: the caller's buffers, in
 * either memory. Done on return. */
cadre_status cadre_local_fetch(struct local_queue *queue,
                               const struct cadre_comm_op *op, void *host,
                               const void *from, uint64_t bytes);
cadre_status cadre_local_put(struct local_queue *queue, const struct cadre_comm_op *op,
                             void *to, const void *host, uint64_t bytes);
/* Close the worker stream and free the scratch. */
void cadre_local_side_close(struct local_queue *queue);

#endif
