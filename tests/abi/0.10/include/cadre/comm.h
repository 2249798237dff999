/* SPDX-License-Identifier: Apache-2.0 */
/* The service for communication between ranks. */
#ifndef CADRE_COMM_H
#define CADRE_COMM_H

#include <cadre/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cadre_axis;

/* What is sent: counted apart, and what a codec is asked about. */
#define CADRE_TRAFFIC_OTHER 0u
#define CADRE_TRAFFIC_PARAM 1u
#define CADRE_TRAFFIC_GRAD 2u
#define CADRE_TRAFFIC_ACTIVATION 3u
#define CADRE_TRAFFIC_STATE 4u

/* An operation besides its buffers; cadre_post of <cadre/helpers.h> fills it. */
struct cadre_post {
    uint32_t struct_size;
    uint32_t kind; /* CADRE_TRAFFIC_* */
    const char *label; /* static text that names the operation in reports of hangs */
    cadre_event after; /* in: the operation starts once this event has happened */
    /* out: the event after which the operation is complete. Until then the caller must
     * neither write nor free the buffers, nor read `out`. */
    cadre_event done;
};

/* "cadre.comm/1" [exec; bind, run]: collectives and point-to-point transfers over the R
 * ranks of an axis. All are asynchronous: a call posts the operation and returns at
 * once. All ranks of an axis post the same collectives in the same order. Over one rank
 * they copy.
 *   red     CADRE_SUM or CADRE_MAX, over a fixed tree of the ranks
 *   offsets R + 1 ascending entries in elements, from 0, equal on all ranks; copied by
 *           the call
 * Counts of elements are in parentheses. Where wire.codec is claimed for the axis and
 * encodes the kind, all_gather sends encoded values, and `out` is complete when its
 * event was waited for. */
#define CADRE_SERVICE_COMM "cadre.comm/1"
struct cadre_comm_svc {
    uint32_t struct_size;
    uint32_t pad_;
    /* out (n) = reduction of in (n) over the ranks; out may be in */
    cadre_status (*all_reduce)(struct cadre_axis *, const struct cadre_buf *in,
                               const struct cadre_buf *out, uint32_t red,
                               struct cadre_post *);
    /* in (offsets[R]); out of rank r = the reduced in[offsets[r], offsets[r+1]) */
    cadre_status (*reduce_scatter)(struct cadre_axis *, const struct cadre_buf *in,
                                   const struct cadre_buf *out, const uint64_t *offsets,
                                   uint32_t red, struct cadre_post *);
    /* out (offsets[R]) = in of all ranks; in of rank r (offsets[r+1] - offsets[r]) */
    cadre_status (*all_gather)(struct cadre_axis *, const struct cadre_buf *in,
                               const struct cadre_buf *out, const uint64_t *offsets,
                               struct cadre_post *);
    /* buf: read on rank `root`, written on the others */
    cadre_status (*broadcast)(struct cadre_axis *, const struct cadre_buf *buf,
                              int32_t root, struct cadre_post *);
    /* R equal slices: slice r of in goes to rank r, slice r of out comes from rank r */
    cadre_status (*all_to_all)(struct cadre_axis *, const struct cadre_buf *in,
                               const struct cadre_buf *out, struct cadre_post *);
    /* Unequal slices: each rank has its own offsets (R + 1); slice r of a rank's `in`
     * is as long as the slice that rank r's `out` has for it. The call may wait. */
    cadre_status (*all_to_all_v)(struct cadre_axis *, const struct cadre_buf *in,
                                 const uint64_t *in_offsets,
                                 const struct cadre_buf *out,
                                 const uint64_t *out_offsets, struct cadre_post *);
    /* Sends and receives are matched in order per pair of ranks, with equal dtype and
     * count. A send is done when the receiver has the data: two ranks that exchange
     * buffers must post both operations before they wait. */
    cadre_status (*send)(struct cadre_axis *, const struct cadre_buf *buf, int32_t to,
                         struct cadre_post *);
    cadre_status (*recv)(struct cadre_axis *, const struct cadre_buf *buf, int32_t from,
                         struct cadre_post *);
    cadre_status (*barrier)(struct cadre_axis *, struct cadre_post *);
    /* Work that is queued on the compute stream from now on runs after the event. On
     * the CPU the caller blocks. The time waited counts as exposed communication; on
     * the axis of schedule.order as bubble. */
    cadre_status (*stream_wait)(struct cadre_axis *, cadre_event event);
    /* *happened = 1 where the event has happened; does not wait. */
    cadre_status (*test)(struct cadre_axis *, cadre_event event, uint32_t *happened);
    /* Reserved: a receive from whichever rank sends first. Refused. */
    cadre_status (*recv_any)(struct cadre_axis *, const struct cadre_buf *buf,
                             int32_t *from, struct cadre_post *);
};

#ifdef __cplusplus
}
#endif
#endif
