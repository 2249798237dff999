/* SPDX-License-Identifier: Apache-2.0 */
/* What is pending, as the host sees it: queues of operations whose events are polled by
 * waiters and by one thread per world, which also enforces the time limit, asks NCCL
 * for errors and aborts when the world has failed. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/comm/nccl/private.h"
#include "core/tensor/dtype.h"

#define STACK_BYTES (1u << 20)
#define LOOK_NS 100000000L
#define LOOK_WATCHED_NS 2000000L /* while there is an observer, which needs the times */
#define POSTER_S 5 /* how long an abort waits for a post inside NCCL */
#define POSTER_LOOK_NS 1000000L

/* ---- texts ---- */

void cadre_nccl_op_text(const struct nccl_op *op, char *text, size_t size)
{
    char peer[32] = "", members[32] = "";
    if (op->base.kind == CADRE_COMM_SEND || op->base.kind == CADRE_COMM_RECV)
        snprintf(peer, sizeof peer, " %s member %d",
                 op->base.kind == CADRE_COMM_SEND ? "to" : "from", op->base.root);
    if (!op->group->is_world)
        snprintf(members, sizeof members, ", group of %d", op->group->base.size);
    snprintf(text, size, "rank %d: %s%s #%llu '%s' (%s, %llu elements, step %llu%s)",
             op->group->world->context.rank, cadre_comm_kind_name(op->base.kind), peer,
             (unsigned long long)op->base.sequence, cadre_comm_op_label(&op->base),
             cadre_dtype_name(op->base.dtype), (unsigned long long)op->base.count,
             (unsigned long long)op->base.step, members);
}

void cadre_nccl_late_text(const struct nccl_op *op, char *text, size_t size)
{
    const struct cadre_comm_context *context = &op->group->world->context;
    char name[256], what[340] = "";
    cadre_nccl_op_text(op, name, sizeof name);
    if (context->explain)
        context->explain(&op->group->base, &op->base, -1, false, what, sizeof what);
    snprintf(text, size,
             "%s did not end within %g s, and NCCL reports no error: another rank has "
             "not posted the same, or is gone; look at the other ranks' logs, or raise "
             "comm.timeout%s",
             name, op->group->world->timeout_s, what);
}

/* ---- what is done ---- */

static void finish(struct nccl_channel *c, struct nccl_op *op)
{
    double began = op->base.posted_s > c->ended_s ? op->base.posted_s : c->ended_s;
    cadre_nccl_stage_release(op);
    cadre_comm_account(&op->group->base, &op->base, began);
    c->ended_s = cadre_now_s();
    free(op);
}

static bool happened(const struct nccl_world *w, cadre_device_event event)
{
    bool yes = false;
    return w->device->ops->event_query(w->device, event, &yes) != CADRE_OK || yes;
}

void cadre_nccl_reap(struct nccl_world *w)
{
    for (struct nccl_channel *c = w->channels; c && !cadre_failure_is_set(&w->failure);
         c = c->next)
        while (c->head && happened(w, c->head->done)) {
            struct nccl_op *op = c->head;
            c->head = op->next;
            finish(c, op);
        }
}

/* ---- failures ---- */

void cadre_nccl_fail_locked(struct nccl_world *w, const struct nccl_op *blamed,
                            cadre_status code, const char *why)
{
    if (cadre_failure_is_set(&w->failure))
        return;
    cadre_nccl_reap(w);
    cadre_failure_set(&w->failure, code, why);
    pthread_mutex_lock(&w->gate);
    w->closed = true;
    pthread_mutex_unlock(&w->gate);
    for (struct nccl_channel *c = w->channels; c; c = c->next)
        while (c->head) {
            struct nccl_op *op = c->head;
            c->head = op->next;
            op->status = op == blamed ? code : CADRE_E_ABORTED;
            op->next = w->dead;
            w->dead = op;
        }
    pthread_cond_broadcast(&w->changed);
}

void cadre_nccl_fail(struct nccl_world *w, const struct nccl_op *blamed,
                     cadre_status code, const char *fmt, ...)
{
    char why[sizeof w->failure.text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&w->lock);
    cadre_nccl_fail_locked(w, blamed, code, why);
    pthread_mutex_unlock(&w->lock);
}

/* Under the lock: has the oldest operation of the channel exceeded its time? The time
 * runs from when it became the first of this rank. */
static void look_at_head(struct nccl_channel *c)
{
    struct nccl_world *w = c->world;
    struct nccl_op *op = c->head;
    char why[sizeof w->failure.text];
    if (op->began_s == 0 && (op->base.after == 0 || happened(w, op->base.after)))
        op->began_s = cadre_now_s();
    if (op->began_s == 0 || cadre_now_s() - op->began_s <= w->timeout_s)
        return;
    cadre_nccl_late_text(op, why, sizeof why);
    cadre_nccl_fail_locked(w, op, CADRE_E_COMM, why);
}

/* NCCL's state of the channel, unless a post asks for it itself. */
static ncclResult_t state_of(struct nccl_channel *c)
{
    ncclResult_t state = ncclSuccess;
    if (pthread_mutex_trylock(&c->posting) != 0)
        return ncclInProgress;
    if (c->comm && ncclCommGetAsyncError(c->comm, &state) != ncclSuccess)
        state = ncclSuccess;
    pthread_mutex_unlock(&c->posting);
    return state;
}

/* Under the lock. */
static void look_at_error(struct nccl_channel *c)
{
    struct nccl_world *w = c->world;
    ncclResult_t result = state_of(c);
    char text[512], name[256], why[sizeof w->failure.text];
    if (result == ncclSuccess || result == ncclInProgress)
        return;
    cadre_nccl_text(result, c->comm, text, sizeof text);
    if (c->head)
        cadre_nccl_op_text(c->head, name, sizeof name);
    else
        snprintf(name, sizeof name, "rank %d: nothing pending (step %llu)",
                 w->context.rank, (unsigned long long)atomic_load(&w->step));
    snprintf(why, sizeof why, "%s: NCCL reports %s; %s", name, text,
             cadre_nccl_advice(text));
    cadre_nccl_fail_locked(w, c->head, CADRE_E_COMM, why);
}

static void look(struct nccl_world *w)
{
    cadre_nccl_reap(w);
    for (struct nccl_channel *c = w->channels; c && !cadre_failure_is_set(&w->failure);
         c = c->next) {
        look_at_error(c);
        if (!cadre_failure_is_set(&w->failure) && c->head)
            look_at_head(c);
    }
}

/* ---- aborting: all at once, since an operation may wait for another channel's ---- */

static void *abort_main(void *arg)
{
    struct nccl_channel *c = arg;
    /* not by the time of day, which may be set meanwhile; ThreadSanitizer does not know
     * pthread_mutex_clocklock */
    const double until_s = cadre_now_s() + POSTER_S;
    bool held = pthread_mutex_trylock(&c->posting) == 0;
    while (!held && cadre_now_s() < until_s) {
        nanosleep(&(struct timespec){.tv_nsec = POSTER_LOOK_NS}, NULL);
        held = pthread_mutex_trylock(&c->posting) == 0;
    }
    pthread_mutex_lock(&c->world->lock);
    ncclComm_t comm = c->comm;
    c->comm = NULL;
    pthread_mutex_unlock(&c->world->lock);
    if (comm)
        ncclCommAbort(comm);
    if (held)
        pthread_mutex_unlock(&c->posting);
    return NULL;
}

/* Under the lock, which is released meanwhile: channels end only after `aborted`. */
static void abort_all(struct nccl_world *w)
{
    size_t n = 0, i = 0;
    for (struct nccl_channel *c = w->channels; c; c = c->next)
        n++;
    struct {
        pthread_t thread;
        struct nccl_channel *channel;
        bool started;
    } *each = calloc(n + 1, sizeof *each);
    for (struct nccl_channel *c = w->channels; each && c; c = c->next)
        each[i++].channel = c;
    pthread_mutex_unlock(&w->lock);
    for (i = 0; each && i < n; i++)
        each[i].started = cadre_comm_thread_start(&each[i].thread, STACK_BYTES,
                                                  abort_main, each[i].channel);
    for (i = 0; each && i < n; i++)
        if (each[i].started)
            pthread_join(each[i].thread, NULL);
        else
            abort_main(each[i].channel);
    free(each);
    pthread_mutex_lock(&w->lock);
    w->aborted = true;
    pthread_cond_broadcast(&w->changed);
}

static bool is_observed(struct nccl_world *w)
{
    pthread_mutex_lock(&w->context.lock);
    bool observed = w->context.observer != NULL;
    pthread_mutex_unlock(&w->context.lock);
    return observed;
}

static void *watch_main(void *arg)
{
    struct nccl_world *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += is_observed(w) ? LOOK_WATCHED_NS : LOOK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (!cadre_failure_is_set(&w->failure))
            pthread_cond_timedwait(&w->changed, &w->lock, &until);
        else if (w->aborted)
            pthread_cond_wait(&w->changed, &w->lock);
        if (cadre_failure_is_set(&w->failure) && !w->aborted)
            abort_all(w);
        else if (!cadre_failure_is_set(&w->failure))
            look(w);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

cadre_status cadre_nccl_watch_start(struct nccl_world *w)
{
    return cadre_comm_thread_start(&w->watcher, STACK_BYTES, watch_main, w)
               ? CADRE_OK
               : CADRE_E_RESOURCE;
}

void cadre_nccl_watch_stop(struct nccl_world *w)
{
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->watcher, NULL);
}

/* ---- waiting ---- */

/* Under the lock: is it pending or dead? */
static const struct nccl_op *find(const struct nccl_world *w, cadre_event event)
{
    for (const struct nccl_op *op = w->dead; op; op = op->next)
        if (op->done == event)
            return op;
    for (const struct nccl_channel *c = w->channels; c; c = c->next)
        for (const struct nccl_op *op = c->head; op; op = op->next)
            if (op->done == event)
                return op;
    return NULL;
}

cadre_status cadre_nccl_event_test(struct nccl_world *w, cadre_event event, bool *yes)
{
    if (!(event & CADRE_DEVICE_EVENT))
        return CADRE_E_INVALID;
    pthread_mutex_lock(&w->lock);
    cadre_nccl_reap(w);
    const struct nccl_op *op = find(w, event);
    bool failed = cadre_failure_is_set(&w->failure);
    cadre_status dead = op ? op->status : CADRE_OK;
    pthread_mutex_unlock(&w->lock);
    *yes = dead == CADRE_OK && !op && happened(w, event);
    return dead != CADRE_OK || *yes ? dead : failed ? CADRE_E_ABORTED : CADRE_OK;
}

cadre_status cadre_nccl_event_wait(struct nccl_world *w, cadre_event event)
{
    cadre_status rc = CADRE_OK;
    bool yes = event == 0;
    for (unsigned turns = 0; rc == CADRE_OK && !yes; turns++) {
        rc = cadre_nccl_event_test(w, event, &yes);
        if (rc == CADRE_OK && !yes)
            cadre_nccl_pause(turns);
    }
    return rc;
}

void cadre_nccl_drain(struct nccl_world *w)
{
    for (unsigned turns = 0;; turns++) {
        bool pending = false;
        pthread_mutex_lock(&w->lock);
        cadre_nccl_reap(w);
        for (const struct nccl_channel *c = w->channels; c; c = c->next)
            pending = pending || c->head;
        pending = pending && !cadre_failure_is_set(&w->failure);
        pthread_mutex_unlock(&w->lock);
        if (!pending)
            return;
        cadre_nccl_pause(turns);
    }
}
