/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/pipeline/wire.h"

#include <stdlib.h>

static const char *const label[2] = {"pipeline activation", "pipeline gradient"};

static uint32_t key_of(const struct pipeline_shape *shape,
                       const struct pipeline_message *message)
{
    return (message->gradient * shape->chunks + message->chunk) * shape->microbatches +
           message->microbatch;
}

static struct pipeline_inbox *inbox_of(struct pipeline_wire *wire, uint32_t peer)
{
    return &wire->inbox[wire->n_peers == 2 && wire->inbox[1].peer == (int32_t)peer];
}

static struct pipeline_outbox *outbox_of(struct pipeline_wire *wire, uint32_t peer)
{
    return &wire->outbox[wire->n_peers == 2 && wire->outbox[1].peer == (int32_t)peer];
}

/* ---- tables ---- */

/* The order in which the peer sends to this rank. */
static int read_peer(struct pipeline_wire *wire, struct pipeline_inbox *inbox)
{
    struct pipeline_list list;
    struct pipeline_message message;
    if (pipeline_list_init(&list, &wire->shape, (uint32_t)inbox->peer))
        return -1;
    inbox->gradient = calloc((size_t)list.n + 1, sizeof *inbox->gradient);
    for (uint32_t i = 0; inbox->gradient && i < list.n; i++)
        if (pipeline_gives(&wire->shape, (uint32_t)inbox->peer, &list.action[i],
                           &message) &&
            message.rank == wire->rank) {
            inbox->gradient[inbox->n] = message.gradient;
            wire->place[key_of(&wire->shape, &message)] = inbox->n++;
        }
    pipeline_list_fini(&list);
    return inbox->gradient ? 0 : -1;
}

/* Most messages in the inbox at once when a pass takes one of them: more than one where
 * activations and gradients from one peer are taken in another order than sent, or are
 * sent long before the rank comes to their chunk. */
static int measure_depth(struct pipeline_wire *wire, struct pipeline_inbox *inbox,
                         const struct pipeline_list *list)
{
    struct pipeline_message message;
    uint32_t came = 0, taken = 0, most = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        if (!pipeline_takes(&wire->shape, wire->rank, &list->action[i], &message) ||
            message.rank != (uint32_t)inbox->peer)
            continue;
        uint32_t place = wire->place[key_of(&wire->shape, &message)];
        came = place + 1 > came ? place + 1 : came;
        most = came - taken > most ? came - taken : most;
        taken++;
    }
    if (most > 0)
        most += 1 + pipeline_waiting(&wire->shape, (uint32_t)inbox->peer, wire->rank);
    inbox->depth = most;
    inbox->buffer = calloc((size_t)inbox->depth + 1, sizeof *inbox->buffer);
    inbox->done = calloc((size_t)inbox->depth + 1, sizeof *inbox->done);
    inbox->holds = calloc((size_t)inbox->depth + 1, sizeof *inbox->holds);
    return inbox->buffer && inbox->done && inbox->holds ? 0 : -1;
}

/* Most messages of the rank to itself that are written and not yet read. */
static int measure_turn(struct pipeline_wire *wire, const struct pipeline_list *list)
{
    struct pipeline_turn *turn = &wire->turn;
    struct pipeline_message message;
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        const struct pipeline_action *action = &list->action[i];
        waiting += pipeline_gives(&wire->shape, wire->rank, action, &message) &&
                   message.rank == wire->rank;
        turn->depth = waiting > turn->depth ? waiting : turn->depth;
        waiting -= pipeline_takes(&wire->shape, wire->rank, action, &message) &&
                   message.rank == wire->rank;
    }
    turn->buffer = calloc((size_t)turn->depth + 1, sizeof *turn->buffer);
    turn->holds = calloc((size_t)turn->depth + 1, sizeof *turn->holds);
    return turn->buffer && turn->holds ? 0 : -1;
}

static int fill_tables(struct pipeline_wire *wire, const struct pipeline_list *list)
{
    uint32_t p = wire->shape.stages;
    struct pipeline_message message;
    wire->n_peers = p > 2 ? 2 : p - 1;
    wire->place = calloc(2 * (size_t)wire->shape.chunks * wire->shape.microbatches + 1,
                         sizeof *wire->place);
    for (uint32_t i = 0; wire->place && i < wire->n_peers; i++) {
        uint32_t peer = (wire->rank + (i == 0 ? p - 1 : 1)) % p;
        wire->inbox[i].peer = wire->outbox[i].peer = (int32_t)peer;
        if (read_peer(wire, &wire->inbox[i]) ||
            measure_depth(wire, &wire->inbox[i], list))
            return -1;
    }
    for (uint32_t i = 0; i < list->n; i++)
        if (pipeline_gives(&wire->shape, wire->rank, &list->action[i], &message) &&
            message.rank != wire->rank)
            outbox_of(wire, message.rank)->n++;
    for (uint32_t i = 0; i < wire->n_peers; i++) {
        struct pipeline_outbox *outbox = &wire->outbox[i];
        outbox->depth =
            outbox->n < PIPELINE_OUT_BUFFERS ? outbox->n : PIPELINE_OUT_BUFFERS;
    }
    return wire->place ? measure_turn(wire, list) : -1;
}

cadre_status pipeline_wire_init(struct pipeline_wire *wire,
                                const struct pipeline_list *list)
{
    pipeline_wire_fini(wire);
    if (fill_tables(wire, list) == 0)
        return CADRE_OK;
    pipeline_wire_fini(wire);
    return cadre_refuse(wire->host, CADRE_E_RESOURCE,
                        "no memory for the tables of %u micro-batches",
                        wire->shape.microbatches);
}

void pipeline_wire_fini(struct pipeline_wire *wire)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct pipeline_inbox *inbox = &wire->inbox[i];
        free(inbox->gradient);
        free(inbox->buffer);
        free(inbox->done);
        free(inbox->holds);
        inbox->gradient = inbox->holds = NULL;
        inbox->buffer = NULL;
        inbox->done = NULL;
        inbox->n = inbox->depth = 0;
        wire->outbox[i] = (struct pipeline_outbox){0};
    }
    free(wire->turn.buffer);
    free(wire->turn.holds);
    wire->turn = (struct pipeline_turn){0};
    free(wire->place);
    wire->place = NULL;
    wire->n_peers = 0;
}

uint32_t pipeline_wire_buffers(const struct pipeline_wire *wire)
{
    uint32_t n = wire->turn.depth;
    for (uint32_t i = 0; i < wire->n_peers; i++)
        n += wire->inbox[i].depth + wire->outbox[i].depth;
    return n;
}

static cadre_status make(struct pipeline_wire *wire, uint32_t dtype, uint64_t count,
                         struct cadre_buf *buf)
{
    *buf = cadre_buf_of(NULL, count, dtype, CADRE_SPACE_DEVICE);
    buf->data = wire->mem->alloc(wire->host->ctx, CADRE_SPACE_DEVICE,
                                 cadre_buf_bytes(buf), PIPELINE_BUFFER_TAG);
    if (buf->data)
        return CADRE_OK;
    return cadre_refuse(wire->host, CADRE_E_RESOURCE,
                        "no memory for activations in transit; lower "
                        "train.micro_batch");
}

cadre_status pipeline_wire_bind(struct pipeline_wire *wire, uint32_t dtype,
                                uint64_t count)
{
    for (uint32_t i = 0; i < wire->n_peers; i++) {
        for (uint32_t b = 0; b < wire->inbox[i].depth; b++)
            CADRE_TRY(make(wire, dtype, count, &wire->inbox[i].buffer[b]));
        for (uint32_t b = 0; b < wire->outbox[i].depth; b++)
            CADRE_TRY(make(wire, dtype, count, &wire->outbox[i].buffer[b]));
    }
    for (uint32_t b = 0; b < wire->turn.depth; b++)
        CADRE_TRY(make(wire, dtype, count, &wire->turn.buffer[b]));
    return CADRE_OK;
}

void pipeline_wire_lend(const struct pipeline_wire *from, struct pipeline_wire *to)
{
    for (uint32_t i = 0; i < to->n_peers; i++) {
        for (uint32_t b = 0; b < to->inbox[i].depth; b++)
            to->inbox[i].buffer[b] = from->inbox[i].buffer[b];
        to->outbox[i].depth = from->outbox[i].depth;
        for (uint32_t b = 0; b < to->outbox[i].depth; b++)
            to->outbox[i].buffer[b] = from->outbox[i].buffer[b];
    }
    for (uint32_t b = 0; b < to->turn.depth; b++)
        to->turn.buffer[b] = from->turn.buffer[b];
}

/* ---- a step ---- */

/* Post the next receives, as many as there are free buffers. */
static cadre_status post_ahead(struct pipeline_wire *wire, struct pipeline_inbox *inbox)
{
    for (uint32_t b = 0; b < inbox->depth && inbox->posted < inbox->n; b++) {
        if (inbox->holds[b] != PIPELINE_FREE)
            continue;
        struct cadre_post post = cadre_post(label[inbox->gradient[inbox->posted]],
                                            CADRE_TRAFFIC_ACTIVATION, 0);
        CADRE_TRY(wire->stream->record(wire->host->ctx, &post.after));
        CADRE_TRY(wire->comm->recv(wire->axis, &inbox->buffer[b], inbox->peer, &post));
        inbox->done[b] = post.done;
        inbox->holds[b] = inbox->posted++;
    }
    return CADRE_OK;
}

cadre_status pipeline_wire_begin(struct pipeline_wire *wire)
{
    for (uint32_t b = 0; b < wire->turn.depth; b++)
        wire->turn.holds[b] = PIPELINE_FREE;
    for (uint32_t i = 0; i < wire->n_peers; i++) {
        struct pipeline_inbox *inbox = &wire->inbox[i];
        inbox->posted = 0;
        wire->outbox[i].sent = 0;
        for (uint32_t b = 0; b < inbox->depth; b++)
            inbox->holds[b] = PIPELINE_FREE;
        CADRE_TRY(post_ahead(wire, inbox));
    }
    return CADRE_OK;
}

/* The buffer of the message that the action takes; the inbox has enough buffers for any
 * order of the two lists. */
static uint32_t find_buffer(const struct pipeline_wire *wire,
                            const struct pipeline_inbox *inbox,
                            const struct pipeline_message *message)
{
    uint32_t place = wire->place[key_of(&wire->shape, message)], b = 0;
    while (b < inbox->depth && inbox->holds[b] != place)
        b++;
    return b;
}

/* The buffer of the turn that holds `what`: a message, or PIPELINE_FREE; as many of
 * both are there as the list wants. */
static uint32_t find_turn(const struct pipeline_wire *wire, uint32_t what)
{
    uint32_t b = 0;
    while (b + 1 < wire->turn.depth && wire->turn.holds[b] != what)
        b++;
    return b;
}

cadre_status pipeline_wire_take(struct pipeline_wire *wire,
                                const struct pipeline_action *action,
                                const struct cadre_buf **in)
{
    struct pipeline_message message;
    *in = NULL;
    if (!pipeline_takes(&wire->shape, wire->rank, action, &message))
        return CADRE_OK;
    if (message.rank == wire->rank) {
        *in = &wire->turn.buffer[find_turn(wire, key_of(&wire->shape, &message))];
        return CADRE_OK;
    }
    struct pipeline_inbox *inbox = inbox_of(wire, message.rank);
    uint32_t b = find_buffer(wire, inbox, &message);
    if (b == inbox->depth)
        return cadre_refuse(wire->host, CADRE_E_INTERNAL,
                            "micro-batch %u of chunk %u was not asked for",
                            message.microbatch, message.chunk);
    CADRE_TRY(wire->comm->stream_wait(wire->axis, inbox->done[b]));
    *in = &inbox->buffer[b];
    return CADRE_OK;
}

cadre_status pipeline_wire_release(struct pipeline_wire *wire,
                                   const struct pipeline_action *action)
{
    struct pipeline_message message;
    if (!pipeline_takes(&wire->shape, wire->rank, action, &message))
        return CADRE_OK;
    if (message.rank == wire->rank) {
        wire->turn.holds[find_turn(wire, key_of(&wire->shape, &message))] =
            PIPELINE_FREE;
        return CADRE_OK;
    }
    struct pipeline_inbox *inbox = inbox_of(wire, message.rank);
    inbox->holds[find_buffer(wire, inbox, &message)] = PIPELINE_FREE;
    return post_ahead(wire, inbox);
}

cadre_status pipeline_wire_room(struct pipeline_wire *wire,
                                const struct pipeline_action *action,
                                const struct cadre_buf **out)
{
    struct pipeline_message message;
    *out = NULL;
    if (!pipeline_gives(&wire->shape, wire->rank, action, &message))
        return CADRE_OK;
    if (message.rank == wire->rank) {
        uint32_t b = find_turn(wire, PIPELINE_FREE);
        wire->turn.holds[b] = key_of(&wire->shape, &message);
        *out = &wire->turn.buffer[b];
        return CADRE_OK;
    }
    struct pipeline_outbox *outbox = outbox_of(wire, message.rank);
    uint32_t b = outbox->sent % outbox->depth;
    CADRE_TRY(wire->comm->stream_wait(wire->axis, outbox->done[b]));
    *out = &outbox->buffer[b];
    return CADRE_OK;
}

cadre_status pipeline_wire_give(struct pipeline_wire *wire,
                                const struct pipeline_action *action)
{
    struct pipeline_message message;
    if (!pipeline_gives(&wire->shape, wire->rank, action, &message) ||
        message.rank == wire->rank)
        return CADRE_OK;
    struct pipeline_outbox *outbox = outbox_of(wire, message.rank);
    uint32_t b = outbox->sent++ % outbox->depth;
    struct cadre_post post =
        cadre_post(label[message.gradient], CADRE_TRAFFIC_ACTIVATION, 0);
    CADRE_TRY(wire->stream->record(wire->host->ctx, &post.after));
    CADRE_TRY(wire->comm->send(wire->axis, &outbox->buffer[b], outbox->peer, &post));
    outbox->done[b] = post.done;
    return CADRE_OK;
}

cadre_status pipeline_wire_flush(struct pipeline_wire *wire)
{
    for (uint32_t i = 0; i < wire->n_peers; i++)
        for (uint32_t b = 0; b < PIPELINE_OUT_BUFFERS; b++) {
            CADRE_TRY(wire->comm->stream_wait(wire->axis, wire->outbox[i].done[b]));
            wire->outbox[i].done[b] = 0;
        }
    return CADRE_OK;
}
