/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for other ranks: every sleep is bounded. A waiter checks for a failure of the
 * world, for a peer that is gone and for the time limit, and reports which rank is
 * missing. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/relax.h"
#include "core/comm/local/private.h"
#include "core/tensor/dtype.h"

void cadre_local_call_fill(struct local_queue *queue, const struct cadre_comm_op *op,
                           struct shared_call *call)
{
    struct local_rank *me = queue->comm->me;
    int size = queue->comm->base.size;
    const struct local_split *split = op->kind == CADRE_COMM_SPLIT ? op->out : NULL;
    bool slices = op->offsets && op->kind != CADRE_COMM_ALL_TO_ALL;
    call->kind = op->kind;
    call->dtype = op->dtype;
    call->red = op->red;
    call->root = op->root;
    call->count = op->count;
    call->offsets_hash = 14695981039346656037u; /* FNV-1a */
    for (int i = 0; slices && i <= size; i++)
        call->offsets_hash = (call->offsets_hash ^ op->offsets[i]) * 1099511628211u;
    call->sequence = op->sequence;
    call->step = atomic_load(&me->shared->step);
    call->in = op->in;
    call->out = op->out;
    call->memory = op->memory;
    call->color = split ? split->color : 0;
    call->key = split ? split->key : 0;
    call->group = 0;
    snprintf(call->label, sizeof call->label, "%s", cadre_comm_op_label(op));

    pthread_mutex_lock(&me->lock);
    struct local_note *note = &me->note;
    note->sequence = op->sequence;
    note->kind = op->kind;
    note->peer = queue->comm->group->slots[op->root].world_rank;
    note->done = 0;
    memcpy(note->label, call->label, sizeof note->label);
    cadre_local_note_write(&me->shared->note, note);
    pthread_mutex_unlock(&me->lock);
}

void cadre_local_note_done(struct local_rank *me, const struct cadre_comm_op *op)
{
    pthread_mutex_lock(&me->lock);
    if (me->note.kind == (uint32_t)op->kind && me->note.sequence == op->sequence) {
        me->note.done = 1;
        cadre_local_note_write(&me->shared->note, &me->note);
    }
    pthread_mutex_unlock(&me->lock);
}

void cadre_local_call_text(const struct shared_call *call, char *text, size_t size)
{
    const char *red = call->red == CADRE_MAX ? "max " : "";
    char more[64] = "";
    if (call->kind == CADRE_COMM_BROADCAST)
        snprintf(more, sizeof more, "from member %d, ", call->root);
    if (call->kind == CADRE_COMM_BARRIER || call->kind == CADRE_COMM_SPLIT)
        snprintf(text, size, "%s #%llu '%s' (step %llu)",
                 cadre_comm_kind_name(call->kind), (unsigned long long)call->sequence,
                 call->label, (unsigned long long)call->step);
    else
        snprintf(text, size, "%s #%llu '%s' (%s%s, %llu elements, %sstep %llu)",
                 cadre_comm_kind_name(call->kind), (unsigned long long)call->sequence,
                 call->label, red, cadre_dtype_name(call->dtype),
                 (unsigned long long)call->count, more, (unsigned long long)call->step);
}

cadre_status cadre_local_fail(struct local_rank *me, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    bool first = cadre_local_segment_store_failure(me->segment, CADRE_E_COMM, text);
    return first ? CADRE_E_COMM : CADRE_E_ABORTED;
}

/* Is this member still expected? Reads whether it is gone before reading how far it
 * came, so that one which came and then left is not reported missing. */
static bool is_missing(const struct local_await *a, int member, bool *gone)
{
    struct local_comm *c = a->queue->comm;
    struct shared_slot *slot = &c->group->slots[member];
    struct shared_rank *rank = &c->me->segment->shared->ranks[slot->world_rank];
    *gone = atomic_load(&slot->left) || atomic_load(&rank->ended);
    if (a->phase)
        return atomic_load(&slot->phase) < a->phase;
    return member == a->peer && (int32_t)(atomic_load(a->word) - a->target) < 0;
}

/* The first missing member; one that is gone has priority. -1 when all have come. */
static int find_missing(const struct local_await *a, bool *gone, int *missing)
{
    int found = -1;
    *gone = false;
    *missing = 0;
    for (int m = 0; m < a->queue->comm->base.size; m++) {
        bool this_gone;
        if (!is_missing(a, m, &this_gone))
            continue;
        ++*missing;
        if (found < 0 || (this_gone && !*gone)) {
            found = m;
            *gone = this_gone;
        }
    }
    return found;
}

/* " of ranks 0,2,4" where a group is not the world; shortened where it is long. */
static void group_text(const struct local_comm *c, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    if (c->base.size == c->me->segment->shared->config.size)
        return;
    for (int m = 0; m < c->base.size && used + 24 < size; m++)
        used += (size_t)snprintf(text + used, size - used, "%s%d",
                                 m == 0 ? " of ranks " : ",",
                                 c->group->slots[m].world_rank);
    if (used + 24 >= size)
        snprintf(text + used, size - used, ",...");
}

static cadre_status fail_missing(const struct local_await *a, int member, bool gone,
                                 int missing)
{
    struct local_comm *c = a->queue->comm;
    struct local_rank *me = c->me;
    int rank = c->group->slots[member].world_rank;
    unsigned long long step = atomic_load(&me->shared->step);
    char seen[256], others[64] = "", time[64] = "", group[96], what[340] = "";
    group_text(c, group, sizeof group);
    cadre_local_note_text(me->segment, rank, seen, sizeof seen);
    if (missing > 1)
        snprintf(others, sizeof others, " (and %d more)", missing - 1);
    if (!gone)
        snprintf(time, sizeof time, " for %g s", me->segment->shared->config.timeout_s);
    const char *label = cadre_comm_op_label(a->op);
    const char *kind = cadre_comm_kind_name(a->op->kind);
    unsigned long long sequence = a->op->sequence;
    const bool entered = cadre_local_note_is(me->segment, rank, a->op);
    cadre_status rc;
    if (!gone && me->context.explain)
        me->context.explain(&c->base, a->op, rank, false, what, sizeof what);
    if (!a->phase)
        rc = cadre_local_fail(
            me, "rank %d has not met %s #%llu '%s' of rank %d (step %llu)%s; %s %s%s",
            rank, kind, sequence, label, me->context.rank, step, time,
            gone ? "it is gone and" : "it", seen, what);
    else
        rc = cadre_local_fail(
            me, "rank %d%s has not %s %s #%llu '%s'%s (step %llu)%s; %s %s%s", rank,
            others, entered ? "left" : "entered", kind, sequence, label, group, step,
            time, gone ? "it is gone and" : "it", seen, what);
    if (rc == CADRE_E_COMM && !gone) /* the first failure; the launcher reads it */
        atomic_store(&me->segment->shared->in_vain, 1);
    return rc;
}

static bool reached(const struct local_await *a)
{
    return (int32_t)(atomic_load(a->word) - a->target) >= 0;
}

/* For less time than a sleeping thread takes to wake. */
static void spin(const struct local_await *a)
{
    enum { SPIN_NS = 30000, ROUNDS = 32 };
    const uint64_t began = cadre_local_now_ns();
    while (cadre_local_now_ns() - began < SPIN_NS)
        for (int i = 0; i < ROUNDS; i++) {
            if (reached(a))
                return;
            cadre_relax();
        }
}

cadre_status cadre_local_await(const struct local_await *a)
{
    struct local_rank *me = a->queue->comm->me;
    const struct cadre_local_config *config = &me->segment->shared->config;
    uint64_t began = 0;
    bool gone;
    int missing;
    if (a->queue->by_caller && me->spins)
        spin(a);
    while (!reached(a)) {
        uint32_t value = atomic_load(a->word);
        if (local_failed(me->segment))
            return CADRE_E_ABORTED;
        if (atomic_load(&a->queue->stop))
            return cadre_local_fail(
                me, "rank %d destroyed a communicator inside %s #%llu '%s'",
                me->context.rank, cadre_comm_kind_name(a->op->kind),
                (unsigned long long)a->op->sequence, cadre_comm_op_label(a->op));
        int member = find_missing(a, &gone, &missing);
        if (member >= 0 && gone && !reached(a))
            return fail_missing(a, member, true, missing);
        uint64_t now = cadre_local_now_ns();
        if (!began)
            began = now;
        if (member >= 0 && (double)(now - began) > config->timeout_s * 1e9)
            return fail_missing(a, member, false, missing);
        if ((int32_t)(value - a->target) < 0)
            cadre_local_futex_wait(a->word, value, LOCAL_SLICE_NS);
    }
    return CADRE_OK;
}

cadre_status cadre_local_barrier(struct local_queue *queue,
                                 const struct cadre_comm_op *op)
{
    struct local_comm *c = queue->comm;
    struct shared_group *g = c->group;
    uint32_t generation = atomic_load(&g->generation);
    c->phase++;
    atomic_store(&g->slots[c->base.rank].phase, c->phase);
    if (atomic_fetch_add(&g->arrived, 1) + 1 == (uint32_t)g->size) {
        atomic_store(&g->last_ns, cadre_local_now_ns());
        atomic_store(&g->arrived, 0);
        atomic_store(&g->generation, generation + 1);
        cadre_local_futex_wake(&g->generation);
        return CADRE_OK;
    }
    struct local_await a = {.queue = queue,
                            .op = op,
                            .word = &g->generation,
                            .target = generation + 1,
                            .phase = c->phase};
    return cadre_local_await(&a);
}

bool cadre_local_copy_begin(struct local_comm *comm)
{
    if (!comm->me->direct)
        return true;
    atomic_fetch_add(&comm->group->copying, 1);
    if (!local_failed(comm->me->segment))
        return true;
    atomic_fetch_sub(&comm->group->copying, 1);
    return false;
}

void cadre_local_copy_end(struct local_comm *comm)
{
    if (comm->me->direct)
        atomic_fetch_sub(&comm->group->copying, 1);
}

void cadre_local_drain(struct local_comm *comm)
{
    while (comm->me->direct && atomic_load(&comm->group->copying))
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* When a wire, busy until *free_ns, has carried the bytes; GB/s is bytes a
 * nanosecond. */
static uint64_t carry(_Atomic uint64_t *free_ns, const struct cadre_link *link,
                      uint64_t from_ns, uint64_t bytes)
{
    uint64_t takes =
        link->gbytes_s > 0 ? (uint64_t)((double)bytes / link->gbytes_s) : 0;
    uint64_t busy = atomic_load(free_ns), end;
    do {
        end = (busy > from_ns ? busy : from_ns) + takes;
    } while (!atomic_compare_exchange_weak(free_ns, &busy, end));
    return end;
}

uint64_t cadre_local_link_book(struct local_comm *comm, uint64_t from_ns,
                               const struct cadre_comm_op *op)
{
    const struct cadre_local_config *config = &comm->me->segment->shared->config;
    struct shared_rank *me = comm->me->shared;
    if (config->link.gbytes_s <= 0 && config->link.latency_s <= 0)
        return 0;
    if (config->between.gbytes_s <= 0 || !cadre_comm_op_crosses(&comm->base, op))
        return carry(&me->link_free_ns, &config->link, from_ns, op->bytes) +
               (uint64_t)(config->link.latency_s * 1e9);
    const uint64_t inside = op->bytes - op->between_bytes;
    uint64_t end =
        carry(&me->between_free_ns, &config->between, from_ns, op->between_bytes);
    if (inside > 0) {
        uint64_t other = carry(&me->link_free_ns, &config->link, from_ns, inside);
        end = other > end ? other : end;
    }
    return end + (uint64_t)(config->between.latency_s * 1e9);
}

cadre_status cadre_local_sleep_until(struct local_queue *queue, uint64_t ns)
{
    for (;;) {
        uint64_t now = cadre_local_now_ns();
        if (now >= ns)
            return CADRE_OK;
        if (local_failed(queue->comm->me->segment) || atomic_load(&queue->stop))
            return CADRE_E_ABORTED;
        uint64_t left = ns - now < LOCAL_SLICE_NS ? ns - now : LOCAL_SLICE_NS;
        nanosleep(&(struct timespec){.tv_nsec = (long)left}, NULL);
    }
}
