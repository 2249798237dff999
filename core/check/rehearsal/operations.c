/* SPDX-License-Identifier: Apache-2.0 */
/* "cadre.comm/1": operations are posted, matched with those of the other ranks, and
 * carried out when somebody waits for them. An operation starts when the event that it
 * follows has happened; from then on its buffers belong to it, and `out` holds NaN. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/check/rehearsal/operations.h"
#include "core/check/rehearsal/private.h"

#define FIRST_EVENT 1000u /* of operation 0 */
#define POISON 0xff /* NaN in every type of floating point */

static struct operation *operation_of(const struct cadre_player *p, cadre_event event)
{
    uint64_t n = event - FIRST_EVENT;
    return event >= FIRST_EVENT && n < p->n_operations ? p->operation[n] : NULL;
}

static bool is_collective(const struct operation *op)
{
    return op->kind != SEND && op->kind != RECV;
}

/* ---- starting ---- */

/* The bytes that `in` and `out` share, as a part of `in`. */
static void find_overlap(const struct operation *op, uint64_t *begin, uint64_t *end)
{
    const char *in = op->in.data, *out = op->out.data;
    uint64_t n = play_buf_bytes(&op->in), m = play_buf_bytes(&op->out);
    *begin = *end = 0;
    if (!in || !out || out >= in + n || in >= out + m)
        return;
    *begin = out > in ? (uint64_t)(out - in) : 0;
    *end = out + m < in + n ? (uint64_t)(out + m - in) : n;
}

static cadre_status begin(struct operation *op)
{
    uint64_t bytes = play_buf_bytes(&op->in);
    op->before = malloc(bytes + 1);
    if (!op->before)
        return CADRE_E_RESOURCE;
    if (bytes)
        memcpy(op->before, op->in.data, bytes);
    if (op->out.data)
        memset(op->out.data, POISON, play_buf_bytes(&op->out));
    op->started = true;
    return CADRE_OK;
}

static bool advance(struct cadre_player *p, struct operation *op);

/* Collectives of an axis end in their order: the earlier ones of this rank first. */
static bool complete(struct cadre_player *p, struct operation *op)
{
    for (uint32_t i = 0; is_collective(op) && i < p->n_operations; i++) {
        struct operation *earlier = p->operation[i];
        if (earlier == op)
            break;
        if (!is_collective(earlier) || earlier->finished)
            continue;
        if (!advance(p, earlier))
            return false;
        play_finish_operation(p, earlier);
    }
    if (!advance(p, op))
        return false;
    play_finish_operation(p, op);
    return true;
}

/* Starts when what it follows has happened, which then delivers first. */
static bool start(struct cadre_player *p, struct operation *op)
{
    struct operation *before = operation_of(p, op->after);
    if (op->started)
        return true;
    if (before && !before->finished) {
        if (!complete(p, before))
            return false;
    }
    return begin(op) == CADRE_OK;
}

/* ---- matching ---- */

/* The operation of rank r that belongs to this one; NULL: not posted yet. */
static struct operation *partner(struct cadre_player *p, const struct operation *op,
                                 int r)
{
    const struct cadre_player *other = &p->all->player[r];
    for (uint32_t i = 0; i < other->n_operations; i++) {
        struct operation *theirs = other->operation[i];
        if (is_collective(op)
                ? is_collective(theirs) && theirs->number == op->number
                : theirs->kind == (op->kind == SEND ? RECV : SEND) &&
                      theirs->peer == p->rank && theirs->number == op->number)
            return theirs;
    }
    return NULL;
}

static bool same_kind(const struct operation *a, const struct operation *b)
{
    if (!is_collective(a))
        return a->in.count + a->out.count == b->in.count + b->out.count &&
               a->in.dtype + a->out.dtype == b->in.dtype + b->out.dtype;
    return a->kind == b->kind && a->red == b->red && a->in.dtype == b->in.dtype &&
           a->peer == b->peer &&
           (a->kind == ALL_TO_ALL_V || a->kind == ALL_GATHER || a->kind == BROADCAST ||
            a->in.count == b->in.count) &&
           (a->kind == ALL_TO_ALL_V || a->kind == BROADCAST ||
            memcmp(a->offsets, b->offsets, sizeof a->offsets) == 0);
}

static bool check_match(struct cadre_player *p, const struct operation *op,
                        const struct operation *theirs, int r)
{
    if (same_kind(op, theirs))
        return true;
    play_refuse(
        p, CADRE_RULE_ORDER,
        "ranks post different operations: here %s of %llu elements ('%s'), on rank "
        "%d %s of %llu ('%s')",
        play_operation_name(op->kind), (unsigned long long)op->in.count + op->out.count,
        op->label, r, play_operation_name(theirs->kind),
        (unsigned long long)theirs->in.count + theirs->out.count, theirs->label);
    return false;
}

/* Has every rank that takes part posted and started its operation? */
static bool gather_partners(struct cadre_player *p, struct operation *op,
                            struct operation **all)
{
    for (int r = 0; r < p->all->ranks; r++) {
        all[r] = NULL;
        if (r == p->rank)
            all[r] = op;
        else if (is_collective(op) || r == op->peer)
            all[r] = partner(p, op, r);
        else
            continue;
        if (!all[r] || !check_match(p, op, all[r], r) ||
            !start(&p->all->player[r], all[r]))
            return false;
    }
    return true;
}

static bool advance(struct cadre_player *p, struct operation *op)
{
    struct operation *all[CADRE_REHEARSAL_RANKS] = {NULL};
    if (op->computed)
        return true;
    if (!start(p, op) || !gather_partners(p, op, all))
        return false;
    if (play_compute_operation(p, op, all) != CADRE_OK)
        return false;
    p->all->progress++;
    return true;
}

/* ---- ending ---- */

static bool is_poison(const char *at, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if ((unsigned char)at[i] != POISON)
            return false;
    return true;
}

void play_finish_operation(struct cadre_player *p, struct operation *op)
{
    uint64_t lower, upper, bytes = play_buf_bytes(&op->in);
    if (op->finished)
        return;
    find_overlap(op, &lower, &upper);
    if (op->out.data && !is_poison(op->out.data, play_buf_bytes(&op->out)))
        play_break_rule(
            p, CADRE_RULE_BUFFER,
            "the buffer into which %s '%s' delivers was written between post and "
            "wait",
            play_operation_name(op->kind), op->label);
    if (bytes &&
        (memcmp(op->in.data, op->before, lower) != 0 ||
         memcmp((char *)op->in.data + upper, op->before + upper, bytes - upper) != 0))
        play_break_rule(
            p, CADRE_RULE_BUFFER,
            "the buffer that %s '%s' sends was written between post and wait",
            play_operation_name(op->kind), op->label);
    if (op->out.data)
        memcpy(op->out.data, op->result, play_buf_bytes(&op->out));
    /* what it sent stays: another rank may still have to compute from it */
    op->finished = true;
    free(op->result);
    op->result = NULL;
}

cadre_status play_wait_event(struct cadre_player *p, cadre_event event, const char *who)
{
    struct operation *op = operation_of(p, event);
    if (event <= COMPUTED_EVENT)
        return CADRE_OK;
    if (!op)
        return play_refuse(p, CADRE_RULE_ARGUMENT,
                           "%s of the event %llu, which nobody on this rank has made",
                           who, (unsigned long long)event);
    while (!op->finished && !complete(p, op)) {
        if (p->failure.code != CADRE_OK)
            return p->failure.code;
        if (play_wait_turn(p))
            continue;
        if (p->all->stop)
            return CADRE_E_ABORTED;
        return play_refuse(
            p, CADRE_RULE_ORDER,
            "waits for %s '%s', number %llu of this rank, and every other "
            "rank waits for something else or has ended its step",
            play_operation_name(op->kind), op->label,
            (unsigned long long)op->number + 1);
    }
    play_finish_operation(p, op);
    return CADRE_OK;
}

void play_free_operations(struct cadre_player *p)
{
    for (uint32_t i = 0; i < p->n_operations; i++) {
        free(p->operation[i]->before);
        free(p->operation[i]->result);
        free(p->operation[i]);
    }
    free(p->operation);
    p->operation = NULL;
    p->n_operations = p->cap_operations = 0;
}

/* ---- posting ---- */

static struct operation *add(struct cadre_player *p)
{
    if (p->n_operations == p->cap_operations) {
        uint32_t cap = p->cap_operations ? 2 * p->cap_operations : 64;
        struct operation **grown = cadre_realloc(p->operation, cap, sizeof *grown);
        if (!grown)
            return NULL;
        p->operation = grown;
        p->cap_operations = cap;
    }
    struct operation *op = cadre_calloc(1, sizeof *op);
    if (op)
        p->operation[p->n_operations++] = op;
    return op;
}

/* One of the operations in flight is over, whichever the seed takes. */
static void hurry(struct cadre_player *p)
{
    struct rehearsal *all = p->all;
    struct cadre_player *of = &all->player[play_draw(all, (uint64_t)all->ranks)];
    if (of->n_operations == 0)
        return;
    struct operation *op = of->operation[play_draw(all, of->n_operations)];
    if (!op->finished)
        complete(of, op);
}

static void hash_order(struct cadre_player *p, const struct operation *op)
{
    const uint64_t what[] = {op->kind, op->red, op->in.count, op->out.count,
                             op->in.dtype};
    if (p->rank == 0)
        p->all->report->order = cadre_hash_of(what, sizeof what, p->all->report->order);
}

static void number(struct cadre_player *p, struct operation *op)
{
    if (is_collective(op))
        op->number = p->collectives++;
    else
        op->number = op->kind == SEND ? p->sends[op->peer]++ : p->receives[op->peer]++;
}

cadre_status play_post_operation(struct cadre_player *p, const struct operation *wanted,
                                 struct cadre_post *post)
{
    if (!post || post->struct_size < sizeof *post || !post->label)
        return play_refuse(
            p, CADRE_RULE_ARGUMENT,
            "posts %s without a cadre_post, or one without struct_size or "
            "label: cadre_post of <cadre/helpers.h> fills it",
            play_operation_name(wanted->kind));
    if (post->after > COMPUTED_EVENT && !operation_of(p, post->after))
        return play_refuse(
            p, CADRE_RULE_ARGUMENT,
            "posts '%s' after the event %llu, which nobody on this rank has "
            "made",
            post->label, (unsigned long long)post->after);
    if (p->failure.code != CADRE_OK && !p->all->stop)
        play_break_rule(p, CADRE_RULE_STATUS,
                        "posts %s '%s' although the host refused a call before (%s): "
                        "return the status of every call",
                        play_operation_name(wanted->kind), post->label,
                        p->failure.text);
    struct operation *op = add(p);
    if (!op)
        return CADRE_E_RESOURCE;
    *op = *wanted;
    snprintf(op->label, sizeof op->label, "%s", post->label);
    op->after = post->after;
    number(p, op);
    hash_order(p, op);
    p->sent += play_operation_sends(op, p->all->ranks, p->rank);
    post->done = FIRST_EVENT + p->n_operations - 1;
    p->all->progress++;
    const struct operation *before = operation_of(p, op->after);
    if (!before || before->finished)
        CADRE_TRY(begin(op));
    if (p->all->setup->shuffled && play_draw(p->all, 3) == 0)
        hurry(p);
    return CADRE_OK;
}

cadre_status play_test_operation(struct cadre_player *p, cadre_event event,
                                 uint32_t *happened)
{
    struct operation *op = operation_of(p, event);
    *happened = event <= COMPUTED_EVENT || (op && op->finished);
    if (*happened || !op)
        return *happened
                   ? CADRE_OK
                   : play_refuse(p, CADRE_RULE_ARGUMENT,
                                 "tests the event %llu, which nobody on this rank has "
                                 "made",
                                 (unsigned long long)event);
    /* a plugin that polls sees it happen some polls later */
    if (++p->polls % 4 == 0 && complete(p, op)) {
        *happened = 1;
    } else if (p->polls > 100000) {
        return play_refuse(p, CADRE_RULE_ORDER,
                           "polls '%s' without end, and the other ranks do not come",
                           op->label);
    } else {
        for (int r = 0; r < p->all->ranks; r++)
            if (p->all->player[r].late_until_s > 0)
                usleep(200); /* the others' time must pass */
        play_take_turns(p);
    }
    return CADRE_OK;
}

static bool overlaps(const struct cadre_buf *buf, const char *at, uint64_t bytes)
{
    const char *data = buf->data;
    return data && bytes && at < data + play_buf_bytes(buf) && data < at + bytes;
}

void play_check_release(struct cadre_player *p, const void *at, uint64_t bytes)
{
    for (uint32_t i = 0; i < p->n_operations; i++) {
        const struct operation *op = p->operation[i];
        if (op->finished ||
            !(overlaps(&op->out, at, bytes) || overlaps(&op->in, at, bytes)))
            continue;
        play_refuse(p, CADRE_RULE_BUFFER,
                    "mem.free of a buffer of %s '%s', which nobody has waited for",
                    play_operation_name(op->kind), op->label);
        return;
    }
}

cadre_status play_touch(struct cadre_player *p, const void *at, uint64_t bytes,
                        bool write, const char *what)
{
    for (uint32_t i = 0; i < p->n_operations; i++) {
        const struct operation *op = p->operation[i];
        if (op->finished || !op->started ||
            !(overlaps(&op->out, at, bytes) || (write && overlaps(&op->in, at, bytes))))
            continue;
        return play_refuse(p, CADRE_RULE_BUFFER,
                           "%s on a buffer of %s '%s', which nobody has waited for",
                           what, play_operation_name(op->kind), op->label);
    }
    return CADRE_OK;
}
