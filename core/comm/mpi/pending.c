/* SPDX-License-Identifier: Apache-2.0 */
/* Operations from the post to their end, and what becomes of them after a failure. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/comm/mpi/internal.h"
#include "core/tensor/dtype.h"

#define STUCK_S 20 /* beyond the time limit, without a turn of the engine */

void cadre_mpi_op_free(struct mpi_op *op)
{
    if (!op)
        return;
    free(op->offsets);
    free(op->move.room);
    free(op->move.rows);
    free(op->move.ints);
    free(op);
}

static const struct mpi_op *find(const struct mpi_op *list, cadre_event id)
{
    while (list && list->id != id)
        list = list->next;
    return list;
}

void cadre_mpi_enqueue(struct mpi_op *op)
{
    struct mpi_world *w = op->group->world;
    op->id = ++w->ids;
    op->sequence = ++op->queue->posted;
    op->before = op->queue->tail;
    op->follows = op->after ? find(w->pending, op->after) : NULL;
    op->queue->tail = op;
    if (w->last)
        w->last->next = op;
    else
        w->pending = op;
    w->last = op;
    w->news++;
    pthread_cond_signal(&w->work);
}

void cadre_mpi_begin(struct mpi_world *w)
{
    struct mpi_op **end = &w->active;
    while (*end)
        end = &(*end)->next_active;
    for (struct mpi_op *op = w->pending; op; op = op->next) {
        if (op->began_s > 0 || op->before || op->follows)
            continue;
        op->began_s = cadre_now_s();
        op->queue->began = op->sequence;
        *end = op;
        end = &op->next_active;
    }
}

/* Under the lock. */
static void count(const struct mpi_op *op, double now)
{
    struct mpi_world *w = op->group->world;
    struct cadre_comm_stats *stats = &op->group->stats;
    uint64_t n = op->count * cadre_dtype_bytes(op->dtype);
    uint64_t size = (uint64_t)op->group->base.size;
    uint64_t most = n * (size - 1) / size, bytes = 0;
    if (op->kind == OP_SPLIT)
        return;
    if (op->kind == OP_ALL_REDUCE)
        bytes = 2 * most;
    else if (op->kind == OP_BROADCAST || op->kind == OP_SEND)
        bytes = size > 1 ? n : 0;
    else if (op->kind != OP_RECV && op->kind != OP_BARRIER)
        bytes = most;
    stats->bytes += bytes;
    stats->operations++;
    stats->busy_s += now - op->began_s;
    if (w->tell) {
        const struct cadre_comm_done done = {
            .kind = cadre_mpi_kind_name(op->kind),
            .label = op->label ? op->label : "",
            .posted_s = op->posted_s,
            .ended_s = now,
            .bytes = bytes,
        };
        w->tell(w->tell_arg, &done);
    }
}

void cadre_mpi_finish(struct mpi_op *op)
{
    struct mpi_world *w = op->group->world;
    pthread_mutex_lock(&w->lock);
    count(op, cadre_now_s());
    struct mpi_op *last = NULL;
    for (struct mpi_op **at = &w->pending; *at;) {
        if (*at == op) {
            *at = op->next;
            continue;
        }
        last = *at;
        last->before = last->before == op ? NULL : last->before;
        last->follows = last->follows == op ? NULL : last->follows;
        at = &last->next;
    }
    w->last = last;
    if (op->queue->tail == op)
        op->queue->tail = NULL;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    cadre_mpi_op_free(op);
}

/* ---- failures */

void cadre_mpi_fail_locked(struct mpi_world *w, const struct mpi_op *blamed,
                           cadre_status code, const char *why)
{
    if (w->code != CADRE_OK)
        return;
    w->code = code;
    w->blamed = blamed;
    w->tell_all = true;
    snprintf(w->why, sizeof w->why, "%s", why);
    w->news++;
    pthread_cond_signal(&w->work);
    pthread_cond_broadcast(&w->changed);
}

void cadre_mpi_fail(struct mpi_world *w, const struct mpi_op *blamed, cadre_status code,
                    const char *fmt, ...)
{
    char why[TEXT_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&w->lock);
    cadre_mpi_fail_locked(w, blamed, code, why);
    pthread_mutex_unlock(&w->lock);
}

/* Under the lock. */
static void bury(struct mpi_world *w)
{
    while (w->pending) {
        struct mpi_op *op = w->pending;
        w->pending = op->next;
        op->status = op == w->blamed ? w->code : CADRE_E_ABORTED;
        op->next = w->dead;
        w->dead = op;
    }
    w->last = NULL;
    w->quiet = true;
    pthread_cond_broadcast(&w->changed);
}

void cadre_mpi_hush(struct mpi_world *w)
{
    w->active = NULL;
    pthread_mutex_lock(&w->lock);
    bury(w);
    pthread_mutex_unlock(&w->lock);
}

/* ---- waiting */

void cadre_mpi_sleep(struct mpi_world *w)
{
    struct timespec until;
    char why[TEXT_BYTES];
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    if (pthread_cond_timedwait(&w->changed, &w->lock, &until) != ETIMEDOUT)
        return;
    double silent_s = cadre_now_s() - w->turned_s;
    if (silent_s < w->timeout_s + STUCK_S || w->quiet)
        return;
    snprintf(why, sizeof why,
             "rank %d (host %s): a call of MPI has not come back for %.0f s", w->rank,
             w->hosts[w->rank], silent_s);
    cadre_mpi_fail_locked(w, NULL, CADRE_E_COMM, why);
    w->stuck = true;
    bury(w);
}

void cadre_mpi_await_quiet(struct mpi_world *w)
{
    while (!w->quiet)
        cadre_mpi_sleep(w);
}

cadre_status cadre_mpi_event_wait(struct mpi_world *w, cadre_event event)
{
    cadre_status rc = CADRE_OK;
    pthread_mutex_lock(&w->lock);
    if (event > w->ids)
        rc = CADRE_E_INVALID;
    while (rc == CADRE_OK && find(w->pending, event))
        cadre_mpi_sleep(w);
    const struct mpi_op *dead = find(w->dead, event);
    if (rc == CADRE_OK && dead)
        rc = dead->status;
    pthread_mutex_unlock(&w->lock);
    return rc;
}

void cadre_mpi_drain(struct mpi_world *w)
{
    pthread_mutex_lock(&w->lock);
    while (w->pending)
        cadre_mpi_sleep(w);
    pthread_mutex_unlock(&w->lock);
}
