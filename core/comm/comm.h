/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: a group of ranks with one ordered queue of collectives, one queue per
 * point-to-point direction, and asynchronous completion.
 *
 * Posting returns at once with an event; a queue's own thread carries the operation out
 * when `after` has happened and all ranks of the group have posted it. Every rank of a
 * group posts the same collectives in the same order: op, dtype, counts, reduction and
 * root are compared between the ranks, and a difference ends the run naming both. A
 * pending receive never holds up a collective, nor another direction.
 *
 * Reductions always add in the tree over ranks of design "exact mode": node (l, j) =
 * node (l-1, 2j) + node (l-1, 2j+1), an absent child is skipped. The bits depend on the
 * number of ranks only. Buffers belong to the caller and must stay untouched until the
 * event has happened.
 *
 * No rank waits forever: an operation that does not complete within the time limit
 * fails with one line naming the missing rank, the collective, its sequence number and
 * the step. After the first failure everything pending and posted later returns
 * CADRE_E_ABORTED on the other ranks; cadre_comm_failure returns the first failure's
 * text on all ranks. */
#ifndef CADRE_COMM_COMM_H
#define CADRE_COMM_COMM_H

#include <stdint.h>

#include <cadre/types.h>

#include "core/base/error.h"
#include "core/device/device.h"

/* What one collective is called in messages and traces: "ddp bucket 3". Static storage
 * or at least as long-lived as the operation. NULL is allowed. */
typedef const char *cadre_comm_label;

struct cadre_comm_stats {
    uint64_t operations;
    /* Sent by this rank, by the textbook formula for n bytes on R ranks: all_reduce
     * 2 n (R-1)/R; reduce_scatter, all_gather, all_to_all n (R-1)/R, n the whole
     * vector; broadcast n where R > 1; send n; recv, barrier, split 0. (Thakur et al.
     * 2005) */
    uint64_t bytes;
    /* the part of `bytes` that went to ranks of other nodes (core/comm/nodes.h): of a
     * send all or nothing, of a collective the share of those ranks among the others,
     * as where each rank exchanges its slice with every other. 0 with one node */
    uint64_t between_bytes;
    double busy_s; /* queue threads at work, from the last rank's arrival on */
    double waited_s; /* the caller blocked in wait, also for ranks that are later */
    /* the part of it in which an operation of this rank was at work, so never more than
     * busy_s where one thread waits: exposed communication */
    double exposed_s;
    /* exposed communication by what was waited for: the part of exposed_s of all
     * communicators of the rank's world in which operations of this one were at work.
     * Over them both have the same sum */
    double charged_s;
};

/* An operation that is done: seconds of CLOCK_MONOTONIC when it was posted, when it
 * began to move (as busy_s counts) and when it ended. The label is as long-lived as the
 * operation. */
struct cadre_comm_done {
    const struct cadre_comm *comm;
    const char *kind; /* "all_reduce", "send", ...; static */
    cadre_comm_label label; /* "" for none */
    double posted_s, began_s, ended_s;
    uint64_t bytes; /* sent by this rank, as in cadre_comm_stats */
    uint64_t in_count, out_count; /* elements of this rank's buffers */
    uint64_t sequence; /* in its queue, from 1 */
    uint32_t dtype;
};
typedef void (*cadre_comm_observer)(void *arg, const struct cadre_comm_done *done);

struct cadre_comm_backend;
struct cadre_comm_context;
struct cadre_rank_page;

/* Made by a backend (core/comm/backend.h), which extends it. */
struct cadre_comm {
    const struct cadre_comm_backend *backend;
    struct cadre_comm_context *context; /* of all communicators of the rank's world */
    int rank, size;
    int *node; /* (size) of each rank, from 0; NULL: one node. Owned */
    bool represented; /* of a simulation: some ranks do not run, and others bring for
                         them what they bring for themselves */
    const char *name; /* of its axis; NULL: the world. The caller's, who may set it */
    struct cadre_comm_stats stats; /* under the context's lock */
    void *checksums; /* checksum.c's, under the context's lock; NULL: none. Owned */
};

/* Posting (post.c)
 *
 * [any thread of the rank, one at a time per communicator]
 * `done` may be NULL. An `after` may be an event of any communicator of the rank's
 * world, or a cadre_device_event of the device given to use_device. With a device, the
 * buffers of an operation lie all in its memory or all in host memory, on all ranks the
 * same. Errors: CADRE_E_ABORTED after a failure, CADRE_E_RESOURCE; CADRE_E_INVALID
 * (logged, the operation is not posted) for an unknown dtype, a reduction the dtype
 * does not have (f32, f64, bf16, f16, i32: SUM, MAX; u8: MAX; 16-bit types are rounded
 * once at every node of the tree), a rank outside the group, offsets that do not ascend
 * from 0, an all_to_all count that R does not divide, buffers in both memories, or an
 * `after` that was never posted. `done` is written only on success. */

/* out (count) = reduction over ranks of in (count); in == out is allowed
 * lint: long because a reduction has that many operands */
cadre_status cadre_comm_all_reduce(struct cadre_comm *comm, cadre_comm_label label,
                                   const void *in, void *out, uint64_t count,
                                   uint32_t dtype, uint32_t red, cadre_event after,
                                   cadre_event *done);
/* in (offsets[R]); rank r receives the reduced in[offsets[r] .. offsets[r+1]) in
 * out. offsets has R + 1 entries, ascending from 0, the same on all ranks, copied.
 * out may be in + offsets[r].
 * lint: long because a reduction has that many operands */
cadre_status cadre_comm_reduce_scatter(struct cadre_comm *comm, cadre_comm_label label,
                                       const void *in, void *out,
                                       const uint64_t *offsets, uint32_t dtype,
                                       uint32_t red, cadre_event after,
                                       cadre_event *done);
/* out (offsets[R]): rank r contributes in (offsets[r+1] - offsets[r]); in may be
 * out + offsets[r] */
cadre_status cadre_comm_all_gather(struct cadre_comm *comm, cadre_comm_label label,
                                   const void *in, void *out, const uint64_t *offsets,
                                   uint32_t dtype, cadre_event after,
                                   cadre_event *done);
cadre_status cadre_comm_broadcast(struct cadre_comm *comm, cadre_comm_label label,
                                  void *buf, uint64_t count, uint32_t dtype, int root,
                                  cadre_event after, cadre_event *done);
/* in and out (count each): slice r of in goes to rank r, slice r of out came from
 * r; count is a multiple of R */
cadre_status cadre_comm_all_to_all(struct cadre_comm *comm, cadre_comm_label label,
                                   const void *in, void *out, uint64_t count,
                                   uint32_t dtype, cadre_event after,
                                   cadre_event *done);
/* Matched in order per (from, to), with equal dtype and count. A send has happened
 * when the receiver has the data: two ranks that exchange post both before they
 * wait. */
cadre_status cadre_comm_send(struct cadre_comm *comm, cadre_comm_label label,
                             const void *buf, uint64_t count, uint32_t dtype, int to,
                             cadre_event after, cadre_event *done);
cadre_status cadre_comm_recv(struct cadre_comm *comm, cadre_comm_label label, void *buf,
                             uint64_t count, uint32_t dtype, int from,
                             cadre_event after, cadre_event *done);
cadre_status cadre_comm_barrier(struct cadre_comm *comm, cadre_comm_label label,
                                cadre_event after, cadre_event *done);

/* ---- waiting, and what concerns a communicator as a whole (comm.c) ---- */

/* Sleep until the event has happened; its operation's status. Event 0 returns OK.
 * Device events too. */
cadre_status cadre_comm_wait(struct cadre_comm *comm, cadre_event event);
/* *happened: has the event happened? Does not wait. Errors: of its operation;
 * CADRE_E_INVALID for one that was never posted. */
cadre_status cadre_comm_test(struct cadre_comm *comm, cadre_event event,
                             bool *happened);
/* [collective] all (R records of `bytes` bytes): every rank's `mine` in rank order;
 * mine may be its place in all. Host memory; returns when it is there. Errors: as a
 * post and as cadre_comm_wait. */
cadre_status cadre_comm_gather_records(struct cadre_comm *comm, cadre_comm_label label,
                                       const void *mine, void *all, size_t bytes);

/* Work that `device`'s current stream is given from now on runs after the event, which
 * is a communicator's or the device's. The host waits only where the transport has no
 * stream wait (`local`). Status as cadre_comm_wait. [thread that drives the device] */
cadre_status cadre_comm_stream_wait(struct cadre_comm *comm,
                                    struct cadre_device *device, cadre_event event);

/* The device whose memory buffers may lie in, for all communicators of the rank's
 * world, from the next post on. NULL, or a device whose ops are synchronous: host
 * memory only. Waits for what the rank has pending; on return the previous device is no
 * longer used and may be closed. [no other thread posts] */
cadre_status cadre_comm_use_device(struct cadre_comm *comm, struct cadre_device *device,
                                   struct cadre_error *err);

/* [collective over the parent] Ranks of equal `color` form a group ordered by
 * `key`, then by rank in the parent. color < 0: this rank is in none, *out is NULL. */
cadre_status cadre_comm_split(struct cadre_comm *comm, int color, int key,
                              struct cadre_comm **out, struct cadre_error *err);

/* End everything pending on every rank of the world with `why` as the first failure,
 * unless there was one. [any thread, does not block] */
void cadre_comm_abort(struct cadre_comm *comm, const char *why);

/* Does not wait for other ranks: what is still pending here is aborted, and a
 * collective already begun with others makes the world fail. Destroy splits before
 * parents. NULL is not allowed. */
void cadre_comm_destroy(struct cadre_comm *comm);

void cadre_comm_read_stats(const struct cadre_comm *comm, struct cadre_comm_stats *out);

/* Set the rank's optimizer step, which messages name. [any thread] */
void cadre_comm_set_step(struct cadre_comm *comm, uint64_t step);

/* Call `observer` for every operation of the rank's communicators that ends from now
 * on, before its event has happened, on the communicators' threads, one call at a time.
 * It must not block. NULL removes it: no call is running on return. */
void cadre_comm_observe(struct cadre_comm *comm, cadre_comm_observer observer,
                        void *arg);

/* Keep the rank's status page (core/base/rank_page.h) of what is posted and waited for
 * from now on, for all communicators of the rank's world; NULL ends it. [no other
 * thread posts] */
void cadre_comm_show(struct cadre_comm *comm, struct cadre_rank_page *page);

/* The first failure of the world as text, the same on all ranks: CADRE_E_COMM, or
 * CADRE_E_ABORTED where `abort` was called; CADRE_OK and untouched err while there is
 * none. [any thread] */
cadre_status cadre_comm_failure(const struct cadre_comm *comm, struct cadre_error *err);

#endif
