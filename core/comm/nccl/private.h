/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's side of communicators over NCCL, between the files of the module.
 *
 * NCCL runs the operations of one communicator one after the other, so traffic that
 * must not block other traffic has a communicator of its own: a channel, which owns a
 * worker stream of the device. A group has one channel for its collectives and one for
 * each direction between neighbours in its ring.
 *
 * Posting submits to the channel's stream everything that the operation needs, and
 * records a device event, which is the operation's: nothing waits on the host. Any
 * thread of the rank may post, since a worker stream belongs to its channel and is used
 * under the channel's lock; training posts only from the rank's own thread.
 *
 * Locks, in the order in which they may be taken: a channel's `posting`, the world's
 * `lock`, the world's `gate`. CUDA runs host functions with locks of its own, so these
 * take only the gate, and no call of CUDA is made under it.
 *
 * ncclCommGetAsyncError frees NCCL's record of a call that has ended, without a lock:
 * whoever asks holds `posting`, which the watching thread only tries to take. */
#ifndef CADRE_COMM_NCCL_PRIVATE_H
#define CADRE_COMM_NCCL_PRIVATE_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/comm/backend.h"
#include "core/comm/module.h"

struct nccl_world;
struct nccl_channel;
struct nccl_group;

/* Pinned memory and as much device memory, for host buffers. */
struct nccl_stage {
    struct nccl_stage *next;
    size_t bytes;
    char *pinned, *device;
};

/* What a host function copies, unless the world has failed: then the caller may have
 * reused its buffer. */
struct nccl_copy {
    struct nccl_world *world;
    void *to;
    const void *from;
    size_t bytes;
};

struct nccl_op {
    struct cadre_comm_op base;
    struct nccl_op *next;
    struct nccl_group *group; /* not checked after its end */
    struct nccl_channel *channel; /* nor this */
    cadre_device_event done;
    double began_s; /* when first seen at the head; 0 until then */
    cadre_status status; /* of a dead one */
    struct nccl_stage *stage;
    struct nccl_copy before, behind;
};

struct nccl_channel {
    struct nccl_channel *next;
    struct nccl_world *world;
    pthread_mutex_t posting; /* held while NCCL is called for it, or asked about it */
    ncclComm_t comm; /* NULL once aborted; a split lets NCCL's thread write it */
    int rank, size; /* in comm */
    struct cadre_device *worker;
    cudaStream_t stream; /* the side's */
    void *scratch, *outgrown[32]; /* of the device; under `posting` */
    size_t scratch_bytes;
    int n_outgrown;
    uint64_t posted; /* under `posting` */
    /* under the world's lock */
    struct nccl_op *head, *tail; /* not yet seen to be done */
    struct nccl_stage *stages; /* free ones */
    double ended_s;
};

struct nccl_world {
    struct cadre_comm_context context;
    double timeout_s;
    bool exact;
    struct cadre_device *device;
    _Atomic uint64_t step;
    struct cadre_failure failure; /* set under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    struct nccl_channel *channels;
    struct nccl_op *dead; /* neither done nor pending; freed with the world */
    bool stop, aborted;
    pthread_t watcher;
    pthread_mutex_t gate; /* host functions copy under it */
    bool closed; /* under the gate: they copy no more */
};

struct nccl_group {
    struct cadre_comm base;
    struct nccl_world *world;
    bool is_world;
    struct nccl_channel *all; /* collectives */
    /* to and from the next rank in the ring [0] and the previous one [1]. With two
     * ranks both are the same: only [0] is used. NULL with one rank. */
    struct nccl_channel *send[2], *recv[2];
};

/* ---- library.c ---- */

/* core/comm/module.h */
cadre_status cadre_nccl_version(struct cadre_text *out, struct cadre_error *err);
cadre_status cadre_nccl_make_id(unsigned char id[CADRE_COMM_ID_BYTES],
                                struct cadre_error *err);
void cadre_nccl_describe(struct cadre_text *out);
/* CADRE_OK, or UNSUPPORTED where the loaded library does not fit this build. */
cadre_status cadre_nccl_check_library(struct cadre_error *err);
/* NCCL's text for `result`, and its last error (comm may be NULL). */
void cadre_nccl_text(ncclResult_t result, ncclComm_t comm, char *text, size_t size);
/* What to do about it, where known; else where to look. */
const char *cadre_nccl_advice(const char *text);
/* ncclNumTypes where NCCL has no such type. */
ncclDataType_t cadre_nccl_type(uint32_t dtype);

/* ---- channel.c ---- */

/* [collective] The channel of all ranks of the world, found by the id. */
cadre_status cadre_nccl_channel_open(struct nccl_world *world, const ncclUniqueId *id,
                                     struct nccl_channel **out,
                                     struct cadre_error *err);
/* [collective over the parent, which has nothing pending] As ncclCommSplit. *out is
 * NULL for color < 0. `narrow`: for messages, of one block of threads. */
cadre_status cadre_nccl_channel_split(struct nccl_channel *parent, int color, int key,
                                      bool narrow, struct nccl_channel **out,
                                      struct cadre_error *err);
/* At least `bytes` of device memory for the channel's stream. Under `posting`. NULL
 * (logged) where there is none. */
void *cadre_nccl_scratch(struct nccl_channel *channel, size_t bytes);
/* End it and free it; nothing is pending, or the world has failed and was aborted. */
void cadre_nccl_channel_close(struct nccl_channel *channel);
/* Wait until NCCL has done the call that returned `result`, whatever that was but an
 * error: ncclSuccess, its error, or ncclInProgress where the world has failed or the
 * time is over. The communicator may not be used before. Under the channel's `posting`,
 * or before the world knows the channel. */
ncclResult_t cadre_nccl_settle(const struct nccl_world *world, ncclComm_t comm,
                               ncclResult_t result);

/* ---- group.c ---- */

cadre_status cadre_nccl_group_open(struct nccl_world *world, struct nccl_channel *all,
                                   struct nccl_group **out, struct cadre_error *err);
cadre_status cadre_nccl_split(struct cadre_comm *, int color, int key,
                              struct cadre_comm **out, struct cadre_error *err);
void cadre_nccl_destroy(struct cadre_comm *);

/* ---- world.c ---- */

cadre_status cadre_nccl_open(const struct cadre_comm_world *world,
                             const unsigned char id[CADRE_COMM_ID_BYTES],
                             struct cadre_comm **out, struct cadre_error *err);
void cadre_nccl_world_destroy(struct nccl_world *world);
extern const struct cadre_comm_backend cadre_nccl_backend;

/* ---- enqueue.c ---- */

cadre_status cadre_nccl_enqueue(struct cadre_comm *, struct cadre_comm_op *op,
                                cadre_event *done);

/* ---- move.c, exact.c, stage.c: what a post gives the stream, under `posting` ---- */

/* The data, from `in` to `out` in the device's memory. A failure is the world's. */
cadre_status cadre_nccl_move(struct nccl_op *op, const void *in, void *out);
/* all_reduce and reduce_scatter in the tree over ranks of core/base/tree.h: the slices
 * are exchanged and added on the device, with the bits of `local`. */
cadre_status cadre_nccl_move_tree(struct nccl_op *op, const void *in, void *out);
/* Handle what a call of NCCL for `op` returned. */
cadre_status cadre_nccl_check(struct nccl_op *op, ncclResult_t result);
/* The same for the device: `what` it failed to do. */
cadre_status cadre_nccl_check_device(struct nccl_op *op, cadre_status rc,
                                     const char *what);
/* Copy the host's buffer to device memory, in the stream's order; *in and *out are then
 * where the operation works. */
cadre_status cadre_nccl_stage_in(struct nccl_op *op, const void **in, void **out);
cadre_status cadre_nccl_stage_out(struct nccl_op *op);
/* Under the world's lock: the stage is free again. */
void cadre_nccl_stage_release(struct nccl_op *op);
void cadre_nccl_stage_free(struct nccl_world *world, struct nccl_stage *stage);

/* ---- watch.c ---- */

/* CLOCK_MONOTONIC conditions, the thread. */
cadre_status cadre_nccl_watch_start(struct nccl_world *world);
void cadre_nccl_watch_stop(struct nccl_world *world);
/* Sleep until the event has happened. */
cadre_status cadre_nccl_event_wait(struct nccl_world *world, cadre_event event);
/* Has it happened? Does not wait. */
cadre_status cadre_nccl_event_test(struct nccl_world *world, cadre_event event,
                                   bool *happened);
/* Until nothing is pending, or the world has failed. */
void cadre_nccl_drain(struct nccl_world *world);
/* Under the lock: remove what is done from the queues, and call the observer. */
void cadre_nccl_reap(struct nccl_world *world);
/* The first failure of the world: everything pending fails, `blamed` (may be NULL) with
 * `code`, and the thread aborts NCCL. Later ones change nothing. */
void cadre_nccl_fail(struct nccl_world *world, const struct nccl_op *blamed,
                     cadre_status code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Under the lock. */
void cadre_nccl_fail_locked(struct nccl_world *world, const struct nccl_op *blamed,
                            cadre_status code, const char *why);
/* The failure of an operation that did not end in time. */
void cadre_nccl_late_text(const struct nccl_op *op, char *text, size_t size);
/* "rank 1: all_reduce #12 'ddp bucket 3' (f32, 4096 elements, step 40)" */
void cadre_nccl_op_text(const struct nccl_op *op, char *text, size_t size);
/* Sleep a while, longer after more `turns`. */
void cadre_nccl_pause(unsigned turns);

#endif
