/* SPDX-License-Identifier: Apache-2.0 */
/* Operations from the post to their end, also after a failure. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/rank_page.h"
#include "core/base/clock.h"
#include "core/comm/mpi/private.h"

#define STUCK_S 20 /* beyond the time limit, without a round of the engine */

void cadre_mpi_op_free(struct mpi_op *op)
{
    if (!op)
        return;
    free(op->move.scratch);
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

static struct mpi_queue *queue_of(const struct mpi_op *op)
{
    struct mpi_group *g = op->group;
    return op->base.kind == CADRE_COMM_SEND   ? &g->send[op->base.root]
           : op->base.kind == CADRE_COMM_RECV ? &g->recv[op->base.root]
                                              : &g->all;
}

/* Under the lock: its place in the queues and its id; ops before it are looked up. */
static void append(struct mpi_op *op)
{
    struct mpi_world *w = op->group->world;
    op->id = ++w->ids;
    op->base.sequence = ++op->queue->posted;
    cadre_rank_page_queued(w->context.page, op->base.shown, op->base.sequence);
    op->before = op->queue->tail;
    op->follows = op->base.after ? find(w->pending, op->base.after) : NULL;
    op->queue->tail = op;
    if (w->last)
        w->last->next = op;
    else
        w->pending = op;
    w->last = op;
    w->news++;
    pthread_cond_signal(&w->work);
}

cadre_status cadre_mpi_enqueue(struct cadre_comm *comm, struct cadre_comm_op *base,
                               cadre_event *done)
{
    struct mpi_op *op = (struct mpi_op *)base;
    op->group = (struct mpi_group *)comm;
    op->queue = queue_of(op);
    op->move.request = op->move.header_request = MPI_REQUEST_NULL;
    struct mpi_world *w = op->group->world;
    cadre_status rc = CADRE_OK;
    pthread_mutex_lock(&w->lock);
    if (cadre_failure_is_set(&w->failure)) {
        cadre_mpi_await_quiet(w);
        rc = CADRE_E_ABORTED;
    } else if (base->after > w->ids)
        rc = CADRE_E_INVALID;
    else {
        append(op);
        if (done)
            *done = op->id;
    }
    pthread_mutex_unlock(&w->lock);
    if (rc == CADRE_E_INVALID)
        cadre_comm_refuse(comm, base, rc, "the event it comes after was never posted");
    if (rc != CADRE_OK)
        cadre_mpi_op_free(op);
    return rc;
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
        op->queue->began = op->base.sequence;
        *end = op;
        end = &op->next_active;
    }
}

void cadre_mpi_finish(struct mpi_op *op)
{
    struct mpi_world *w = op->group->world;
    pthread_mutex_lock(&w->lock);
    if (op->base.kind != CADRE_COMM_SPLIT)
        cadre_comm_account(&op->group->base, &op->base, op->began_s);
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

/* ---- failures ---- */

void cadre_mpi_fail_locked(struct mpi_world *w, const struct mpi_op *blamed,
                           cadre_status code, const char *why)
{
    if (!cadre_failure_set(&w->failure, code, why))
        return;
    w->blamed = blamed;
    w->tell_all = true;
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
        op->status =
            op == w->blamed ? cadre_failure_code(&w->failure) : CADRE_E_ABORTED;
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

/* ---- waiting ---- */

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
             "rank %d (host %s): a call of MPI has not come back for %.0f s",
             w->context.rank, w->hosts[w->context.rank], silent_s);
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

cadre_status cadre_mpi_event_test(struct mpi_world *w, cadre_event event,
                                  bool *happened)
{
    pthread_mutex_lock(&w->lock);
    const struct mpi_op *dead = find(w->dead, event);
    cadre_status rc = event > w->ids ? CADRE_E_INVALID : dead ? dead->status : CADRE_OK;
    *happened = rc == CADRE_OK && !find(w->pending, event);
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
