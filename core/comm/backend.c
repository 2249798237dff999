/* SPDX-License-Identifier: Apache-2.0 */
#include "core/comm/backend.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/rank_page.h"
#include "core/comm/module.h"
#include "core/tensor/dtype.h"

#define LINE 64 /* elements: a cache line of the smallest dtype */

const char *cadre_comm_kind_name(uint32_t kind)
{
    static const char *const names[] = {
        "nothing",    "all_reduce", "reduce_scatter", "all_gather", "broadcast",
        "all_to_all", "barrier",    "split",          "send",       "recv",
    };
    return kind < sizeof names / sizeof names[0] ? names[kind] : "?";
}

cadre_comm_label cadre_comm_op_label(const struct cadre_comm_op *op)
{
    return op->label ? op->label : "";
}

/* By the formulas of cadre_comm_stats. */
static uint64_t bytes_sent(const struct cadre_comm_op *op, uint64_t size)
{
    uint64_t bytes = op->count * cadre_dtype_bytes(op->dtype);
    uint64_t others = bytes * (size - 1) / size;
    switch (op->kind) {
    case CADRE_COMM_ALL_REDUCE:
        return 2 * others;
    case CADRE_COMM_REDUCE_SCATTER:
    case CADRE_COMM_ALL_GATHER:
    case CADRE_COMM_ALL_TO_ALL:
        return others;
    case CADRE_COMM_BROADCAST:
    case CADRE_COMM_SEND:
        return size > 1 ? bytes : 0;
    default:
        return 0;
    }
}

bool cadre_comm_op_crosses(const struct cadre_comm *comm,
                           const struct cadre_comm_op *op)
{
    const int *node = comm->node;
    bool crosses = false;
    if (!node)
        return false;
    if (op->kind == CADRE_COMM_SEND || op->kind == CADRE_COMM_RECV)
        return node[op->root] != node[comm->rank];
    for (int m = 1; m < comm->size; m++)
        crosses = crosses || node[m] != node[0];
    return crosses;
}

/* Of op->bytes, by the formula of cadre_comm_stats. */
static uint64_t between_bytes(const struct cadre_comm *comm,
                              const struct cadre_comm_op *op)
{
    if (comm->size < 2 || !cadre_comm_op_crosses(comm, op))
        return 0;
    const uint64_t others = (uint64_t)comm->size - 1;
    uint64_t outside = 0;
    if (op->kind == CADRE_COMM_SEND)
        return op->bytes;
    for (int m = 0; m < comm->size; m++)
        outside += comm->node[m] != comm->node[comm->rank];
    return op->bytes / others * outside + op->bytes % others * outside / others;
}

static void even_slices(uint64_t *offsets, uint64_t size, uint64_t count, uint64_t line)
{
    uint64_t each = ((count + size - 1) / size + line - 1) / line * line;
    for (uint64_t m = 0; m <= size; m++)
        offsets[m] = m * each < count ? m * each : count;
}

struct cadre_comm_op *cadre_comm_op_create(const struct cadre_comm *comm,
                                           const struct cadre_comm_op *from)
{
    size_t size = (size_t)comm->size, own = comm->backend->op_bytes;
    bool reduces = from->kind == CADRE_COMM_ALL_REDUCE;
    bool even = reduces || from->kind == CADRE_COMM_ALL_TO_ALL;
    size_t slices = even || from->offsets ? (size + 1) * sizeof *from->offsets : 0;
    struct cadre_comm_op *op = calloc(1, own + slices);
    if (!op)
        return NULL;
    *op = *from;
    if (slices > 0) {
        uint64_t *offsets = (uint64_t *)(void *)((char *)op + own);
        if (even)
            even_slices(offsets, size, op->count, reduces ? LINE : 1);
        else
            memcpy(offsets, from->offsets, slices);
        op->offsets = offsets;
    }
    op->bytes = bytes_sent(op, size);
    op->between_bytes = between_bytes(comm, op);
    op->step = atomic_load(comm->context->step);
    op->posted_s = cadre_now_s();
    return op;
}

uint64_t cadre_comm_op_extent(const struct cadre_comm_op *op, int rank, bool in)
{
    switch (op->kind) {
    case CADRE_COMM_BARRIER:
    case CADRE_COMM_SPLIT:
        return 0;
    case CADRE_COMM_SEND:
        return in ? op->count : 0;
    case CADRE_COMM_RECV:
        return in ? 0 : op->count;
    case CADRE_COMM_BROADCAST:
        return (rank == op->root) == in ? op->count : 0;
    case CADRE_COMM_REDUCE_SCATTER:
        return in ? op->count : op->offsets[rank + 1] - op->offsets[rank];
    case CADRE_COMM_ALL_GATHER:
        return in ? op->offsets[rank + 1] - op->offsets[rank] : op->count;
    default:
        return op->count;
    }
}

uint64_t cadre_comm_slice_part(const struct cadre_comm_op *op, int m, uint64_t at,
                               uint64_t part)
{
    uint64_t length = op->offsets[m + 1] - op->offsets[m];
    uint64_t left = length > at ? length - at : 0;
    return left < part ? left : part;
}

uint64_t cadre_comm_slice_longest(const struct cadre_comm_op *op, int size)
{
    uint64_t longest = 0;
    for (int m = 0; m < size; m++) {
        uint64_t length = op->offsets[m + 1] - op->offsets[m];
        longest = length > longest ? length : longest;
    }
    return longest;
}

cadre_status cadre_comm_refuse(const struct cadre_comm *comm,
                               const struct cadre_comm_op *op, cadre_status rc,
                               const char *why)
{
    cadre_log(CADRE_LOG_ERROR, "comm", "rank %d: %s '%s' refused: %s",
              comm->context->rank, cadre_comm_kind_name(op->kind),
              cadre_comm_op_label(op), why);
    return rc;
}

/* An operation of `comm` was at work while the waiter waited. */
static void add_part(struct cadre_comm_waiter *waiter, struct cadre_comm *comm,
                     double moved_s)
{
    int i = 0;
    waiter->moved_s += moved_s;
    while (i < waiter->n_parts && waiter->part[i].comm != comm)
        i++;
    if (i == CADRE_COMM_WAITER_PARTS)
        return;
    if (i == waiter->n_parts) {
        waiter->part[waiter->n_parts++].comm = comm;
        waiter->part[i].moved_s = 0;
    }
    waiter->part[i].moved_s += moved_s;
}

/* The part of an operation from began_s to ended_s that lay in waits which are over by
 * now. The last ones are looked at first; they ended last. */
static double exposed_before(struct cadre_comm_context *context, double began_s,
                             double ended_s)
{
    double sum = 0;
    for (uint64_t i = 0; i < CADRE_COMM_WAITS && i < context->n_waited; i++) {
        struct cadre_comm_waited *w =
            &context->waited[(context->n_waited - 1 - i) % CADRE_COMM_WAITS];
        if (w->until_s <= began_s)
            break;
        double from_s = w->since_s > began_s ? w->since_s : began_s;
        double part = (w->until_s < ended_s ? w->until_s : ended_s) - from_s;
        part = part < w->rest_s ? part : w->rest_s;
        if (part <= 0)
            continue;
        w->rest_s -= part;
        sum += part;
    }
    return sum;
}

void cadre_comm_account(struct cadre_comm *comm, const struct cadre_comm_op *op,
                        double began_s)
{
    struct cadre_comm_context *context = comm->context;
    const struct cadre_comm_done done = {
        .comm = comm,
        .kind = cadre_comm_kind_name(op->kind),
        .label = cadre_comm_op_label(op),
        .posted_s = op->posted_s,
        .began_s = began_s,
        .ended_s = cadre_now_s(),
        .bytes = op->bytes,
        .in_count = cadre_comm_op_extent(op, comm->rank, true),
        .out_count = cadre_comm_op_extent(op, comm->rank, false),
        .sequence = op->sequence,
        .dtype = op->dtype,
    };
    pthread_mutex_lock(&context->lock);
    comm->stats.operations++;
    comm->stats.bytes += op->bytes;
    comm->stats.between_bytes += op->between_bytes;
    comm->stats.busy_s += done.ended_s - began_s;
    for (struct cadre_comm_waiter *w = context->waiters; w; w = w->next) {
        double from_s = began_s > w->since_s ? began_s : w->since_s;
        if (done.ended_s > from_s)
            add_part(w, comm, done.ended_s - from_s);
    }
    const double before_s = exposed_before(context, began_s, done.ended_s);
    comm->stats.exposed_s += before_s;
    comm->stats.charged_s += before_s;
    cadre_rank_page_ended(context->page, op->shown, done.ended_s);
    if (context->observer)
        context->observer(context->observer_arg, &done);
    const bool noted = comm->checksums != NULL;
    pthread_mutex_unlock(&context->lock);
    if (noted)
        context->note(comm, op);
}

void cadre_comm_context_init(struct cadre_comm_context *context, int rank, int size,
                             _Atomic uint64_t *step, struct cadre_failure *failure)
{
    context->rank = rank;
    context->size = size;
    context->step = step;
    context->failure = failure;
    pthread_mutex_init(&context->lock, NULL);
}

void cadre_comm_context_fini(struct cadre_comm_context *context)
{
    pthread_mutex_destroy(&context->lock);
}

cadre_status cadre_comm_world_check(const struct cadre_comm_world *world,
                                    struct cadre_error *err)
{
    if (world->size < 1 || world->rank < 0 || world->rank >= world->size)
        return cadre_fail(err, CADRE_E_INVALID, "rank is %d of %d; expected 0 to %d",
                          world->rank, world->size, world->size - 1);
    if (!(world->timeout_s > 0) || isinf(world->timeout_s))
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.timeout is %g; expected seconds above 0",
                          world->timeout_s);
    return CADRE_OK;
}

bool cadre_comm_thread_start(pthread_t *thread, size_t stack_bytes,
                             void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    pthread_attr_t attr;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, stack_bytes);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(thread, &attr, run, arg) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return started;
}

void cadre_comm_cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attr);
    pthread_condattr_destroy(&attr);
}
