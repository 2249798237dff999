/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers between the chunks of a pipeline. Messages between two ranks are matched in
 * order, and both ranks know both lists. The receiver posts its receives ahead, in the
 * order in which the sender sends, each into a buffer of its own. So no pass waits for
 * a receive that was not posted, and no send waits for a later pass. */
#ifndef PIPELINE_WIRE_H
#define PIPELINE_WIRE_H

#include <cadre/helpers.h>

#include "plugins/pipeline/schedule.h"

#define PIPELINE_OUT_BUFFERS 2u /* one is written while the other is sent */
#define PIPELINE_BUFFER_TAG "activations in transit"

/* Messages from one rank, in the order of its list. */
struct pipeline_inbox {
    int32_t peer;
    uint32_t n; /* in a step */
    uint32_t *gradient; /* n: which label */
    uint32_t depth; /* buffers: most messages that wait, and one ahead */
    uint32_t posted; /* in this step */
    struct cadre_buf *buffer; /* depth */
    cadre_event *done; /* depth */
    uint32_t *holds; /* depth: the message's place in the order, or PIPELINE_FREE */
};

struct pipeline_outbox {
    int32_t peer;
    uint32_t n; /* in a step */
    uint32_t depth; /* buffers */
    uint32_t sent; /* in this step */
    struct cadre_buf buffer[PIPELINE_OUT_BUFFERS];
    cadre_event done[PIPELINE_OUT_BUFFERS];
};

#define PIPELINE_FREE UINT32_MAX

/* What a rank sends to itself, where the chunk after is its own: written and read in
 * the same buffer. */
struct pipeline_turn {
    uint32_t depth; /* buffers: most that wait at once */
    struct cadre_buf *buffer; /* depth */
    uint32_t *holds; /* depth: the message, or PIPELINE_FREE */
};

struct pipeline_wire {
    const struct cadre_host *host;
    const struct cadre_comm_svc *comm;
    const struct cadre_mem_svc *mem;
    const struct cadre_stream_svc *stream;
    struct cadre_axis *axis;
    struct pipeline_shape shape;
    uint32_t rank;
    uint32_t
        n_peers; /* 0 alone, 1 of two ranks, else the one before and the one after */
    struct pipeline_inbox inbox[2];
    struct pipeline_outbox outbox[2];
    struct pipeline_turn turn;
    uint32_t *place; /* of a message in its inbox, by gradient, chunk, micro-batch */
};

/* [main] Fill the tables for rank wire->rank of wire->shape; `list` is its schedule.
 * host, comm, mem, stream and axis are set by the caller. Frees earlier tables. */
cadre_status pipeline_wire_init(struct pipeline_wire *wire,
                                const struct pipeline_list *list);
void pipeline_wire_fini(struct pipeline_wire *wire);

/* Number of buffers, of one activation each. */
uint32_t pipeline_wire_buffers(const struct pipeline_wire *wire);

/* [main] Allocate them, `count` elements of `dtype` each; the host frees them. */
cadre_status pipeline_wire_bind(struct pipeline_wire *wire, uint32_t dtype,
                                uint64_t count);

/* [exec] Let `to`, the tables of fewer messages between the same chunks, use the
 * buffers of `from`. Only one of them is in use at a time. */
void pipeline_wire_lend(const struct pipeline_wire *from, struct pipeline_wire *to);

/* [exec] A step begins: post the first receives. */
cadre_status pipeline_wire_begin(struct pipeline_wire *wire);

/* [exec] Wait for what `action` receives and return its buffer; NULL when it receives
 * nothing. `release` returns it after the pass. */
cadre_status pipeline_wire_take(struct pipeline_wire *wire,
                                const struct pipeline_action *action,
                                const struct cadre_buf **in);
cadre_status pipeline_wire_release(struct pipeline_wire *wire,
                                   const struct pipeline_action *action);

/* [exec] A free buffer for what `action` sends; NULL when it sends nothing. `give`
 * sends it after the pass. */
cadre_status pipeline_wire_room(struct pipeline_wire *wire,
                                const struct pipeline_action *action,
                                const struct cadre_buf **out);
cadre_status pipeline_wire_give(struct pipeline_wire *wire,
                                const struct pipeline_action *action);

/* [exec] Wait until all sends are done. */
cadre_status pipeline_wire_flush(struct pipeline_wire *wire);

#endif
