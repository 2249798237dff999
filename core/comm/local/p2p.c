/* SPDX-License-Identifier: Apache-2.0 */
/* Send and receive: one channel a direction. The sender publishes its call, the
 * receiver compares it with its own and takes the data: from the sender's buffer among
 * threads, through a few chunks in the segment among processes. A send ends when the
 * receiver has everything. */
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/comm/local/private.h"
#include "core/tensor/dtype.h"

static struct shared_channel *channel(struct local_comm *c, int from, int to)
{
    struct shared_channel *all = local_at(c->me->segment, c->group->channels);
    return &all[from * c->base.size + to];
}

static char *chunk(struct local_comm *c, int from, int to, uint32_t turn)
{
    char *base = local_at(c->me->segment, c->group->p2p_staging);
    uint64_t index = (uint64_t)from * (uint64_t)c->base.size + (uint64_t)to;
    return base + (index * LOCAL_P2P_TURNS + turn % LOCAL_P2P_TURNS) * LOCAL_P2P_CHUNK;
}

static cadre_status await_word(struct local_queue *queue,
                               const struct cadre_comm_op *op, _Atomic uint32_t *word,
                               uint32_t target)
{
    struct local_await a = {
        .queue = queue, .op = op, .word = word, .target = target, .peer = op->root};
    return cadre_local_await(&a);
}

static void advance(_Atomic uint32_t *word)
{
    atomic_fetch_add(word, 1);
    cadre_local_futex_wake(word);
}

static cadre_status send_chunks(struct local_queue *queue,
                                const struct cadre_comm_op *op,
                                struct shared_channel *ch, uint64_t bytes)
{
    struct local_comm *c = queue->comm;
    for (uint64_t at = 0; at < bytes; at += LOCAL_P2P_CHUNK) {
        uint32_t turn = atomic_load(&ch->chunks_in);
        uint64_t n = bytes - at < LOCAL_P2P_CHUNK ? bytes - at : LOCAL_P2P_CHUNK;
        CADRE_TRY(await_word(queue, op, &ch->chunks_out, turn + 1 - LOCAL_P2P_TURNS));
        CADRE_TRY(cadre_local_fetch(queue, op, chunk(c, c->base.rank, op->root, turn),
                                    (const char *)op->in + at, n));
        advance(&ch->chunks_in);
    }
    return CADRE_OK;
}

static cadre_status recv_chunks(struct local_queue *queue,
                                const struct cadre_comm_op *op,
                                struct shared_channel *ch, uint64_t bytes)
{
    struct local_comm *c = queue->comm;
    for (uint64_t at = 0; at < bytes; at += LOCAL_P2P_CHUNK) {
        uint32_t turn = atomic_load(&ch->chunks_out);
        uint64_t n = bytes - at < LOCAL_P2P_CHUNK ? bytes - at : LOCAL_P2P_CHUNK;
        CADRE_TRY(await_word(queue, op, &ch->chunks_in, turn + 1));
        CADRE_TRY(cadre_local_put(queue, op, (char *)op->out + at,
                                  chunk(c, op->root, c->base.rank, turn), n));
        advance(&ch->chunks_out);
    }
    return CADRE_OK;
}

cadre_status cadre_local_run_send(struct local_queue *queue,
                                  const struct cadre_comm_op *op)
{
    struct local_comm *c = queue->comm;
    struct shared_channel *ch = channel(c, c->base.rank, op->root);
    uint64_t bytes = op->count * cadre_dtype_bytes(op->dtype);
    double began_s = cadre_now_s();
    cadre_status rc;
    cadre_local_call_fill(queue, op, &ch->call);
    ch->done_ns = cadre_local_link_book(c, cadre_local_now_ns(), op);
    advance(&ch->sent);
    if (!c->me->direct)
        CADRE_TRY_OR(send_chunks(queue, op, ch, bytes), fail);
    CADRE_TRY_OR(await_word(queue, op, &ch->taken, (uint32_t)op->sequence), fail);
    cadre_local_note_done(c->me, op);
    cadre_comm_account(&c->base, op, began_s);
    return CADRE_OK;
fail:
    cadre_local_drain(c);
    return rc;
}

static cadre_status check_match(struct local_comm *c, const struct shared_channel *ch,
                                const struct shared_call *mine, int from)
{
    char theirs_text[192], mine_text[192];
    bool alike = ch->call.count == mine->count && ch->call.dtype == mine->dtype;
    if (alike && (!c->me->direct || ch->call.memory == mine->memory))
        return CADRE_OK;
    cadre_local_call_text(&ch->call, theirs_text, sizeof theirs_text);
    cadre_local_call_text(mine, mine_text, sizeof mine_text);
    if (alike)
        return cadre_local_fail(
            c->me,
            "rank %d posted %s to rank %d, which posted %s; one of the buffers lies in "
            "device memory, the other does not",
            c->group->slots[from].world_rank, theirs_text, c->me->context.rank,
            mine_text);
    return cadre_local_fail(c->me,
                            "rank %d posted %s to rank %d, which posted %s; both must "
                            "state the same dtype and count",
                            c->group->slots[from].world_rank, theirs_text,
                            c->me->context.rank, mine_text);
}

cadre_status cadre_local_run_recv(struct local_queue *queue,
                                  const struct cadre_comm_op *op)
{
    struct local_comm *c = queue->comm;
    struct shared_channel *ch = channel(c, op->root, c->base.rank);
    uint64_t bytes = op->count * cadre_dtype_bytes(op->dtype);
    struct shared_call mine;
    cadre_status rc = CADRE_OK;
    cadre_local_call_fill(queue, op, &mine);
    CADRE_TRY(await_word(queue, op, &ch->sent, (uint32_t)op->sequence));
    double began_s = cadre_now_s();
    CADRE_TRY(check_match(c, ch, &mine, op->root));
    uint64_t arrives = ch->done_ns;
    if (!c->me->direct) {
        CADRE_TRY(recv_chunks(queue, op, ch, bytes));
    } else {
        if (!cadre_local_copy_begin(c))
            return CADRE_E_ABORTED;
        rc = cadre_local_device_begin(queue, op);
        if (rc == CADRE_OK)
            rc = cadre_local_device_end(
                queue, op, cadre_local_copy(queue, op, op->out, ch->call.in, bytes));
        cadre_local_copy_end(c);
        CADRE_TRY(rc);
    }
    CADRE_TRY(cadre_local_sleep_until(queue, arrives));
    cadre_local_note_done(c->me, op);
    advance(&ch->taken);
    cadre_comm_account(&c->base, op, began_s);
    return CADRE_OK;
}
