/* SPDX-License-Identifier: Apache-2.0 */
/* A queue: operations of one kind of traffic carried out in order by one thread. Its
 * lock and condition are of the rank's own process; other ranks never see it. */
#include <stdlib.h>
#include <time.h>

#include "core/base/log.h"
#include "core/base/rank_page.h"
#include "core/comm/local/private.h"

#define STACK_BYTES (1u << 20)
#define EVENT_SEQUENCE_BITS 48

struct local_queue *cadre_local_queue_create(struct local_comm *comm, local_run run)
{
    struct local_rank *me = comm->me;
    struct local_queue *q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->comm = comm;
    q->run = run;
    pthread_mutex_init(&q->lock, NULL);
    cadre_comm_cond_init(&q->changed);
    pthread_mutex_lock(&me->lock);
    bool fits = me->queue_count < LOCAL_MAX_QUEUES;
    if (fits) {
        q->id = me->queue_count;
        atomic_store(&me->queues[me->queue_count++], q);
    }
    pthread_mutex_unlock(&me->lock);
    if (!fits) {
        cadre_log(CADRE_LOG_ERROR, "comm",
                  "rank %d has %d queues, the most it can have", me->context.rank,
                  LOCAL_MAX_QUEUES);
        pthread_cond_destroy(&q->changed);
        pthread_mutex_destroy(&q->lock);
        free(q);
        return NULL;
    }
    return q;
}

/* Runs the first operation, which stays at the head until it ends. */
static cadre_status run_head(struct local_queue *q)
{
    const struct cadre_comm_op *op = &q->head->base;
    struct local_rank *me = q->comm->me;
    cadre_status rc = CADRE_OK;
    if (op->after & CADRE_DEVICE_EVENT)
        rc = cadre_local_device_wait(q, op);
    else
        rc = cadre_local_event_wait(me, op->after, &q->stop);
    if (rc == CADRE_OK)
        return q->run(q, op);
    if (atomic_load(&q->stop) || local_failed(me->segment))
        return rc;
    return cadre_local_fail(
        me,
        "rank %d cannot run %s #%llu '%s': the operation it comes after "
        "was abandoned with its communicator",
        me->context.rank, cadre_comm_kind_name(op->kind),
        (unsigned long long)op->sequence, cadre_comm_op_label(op));
}

/* Runs and removes the first operation; the lock is held before and after. */
static void take_head(struct local_queue *q, bool by_caller)
{
    q->busy = true;
    q->by_caller = by_caller;
    pthread_mutex_unlock(&q->lock);
    cadre_status rc = run_head(q);
    pthread_mutex_lock(&q->lock);
    struct local_op *op = q->head;
    q->head = op->next;
    q->busy = false;
    if (rc == CADRE_OK) {
        q->completed = op->base.sequence;
    } else {
        q->failed_from = op->base.sequence;
        q->status = rc;
    }
    free(op);
    if (q->waiting > 0 || rc != CADRE_OK || (by_caller && q->head))
        pthread_cond_broadcast(&q->changed);
}

static void *queue_main(void *arg)
{
    struct local_queue *q = arg;
    cadre_log_set_rank(q->comm->me->context.rank,
                       q->comm->me->segment->shared->config.size);
    pthread_mutex_lock(&q->lock);
    while (!q->failed_from) {
        while ((!q->head || q->busy) && !q->failed_from && !atomic_load(&q->stop))
            pthread_cond_wait(&q->changed, &q->lock);
        if (q->failed_from || atomic_load(&q->stop))
            break;
        take_head(q, false);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

static cadre_status queue_start(struct local_queue *q)
{
    if (!cadre_comm_thread_start(&q->thread, STACK_BYTES, queue_main, q)) {
        cadre_log(CADRE_LOG_ERROR, "comm", "cannot start a thread for a queue");
        return CADRE_E_RESOURCE;
    }
    q->started = true;
    return CADRE_OK;
}

cadre_status cadre_local_queue_post(struct local_queue *q, struct local_op *op,
                                    cadre_event *done)
{
    cadre_status rc = CADRE_OK;
    pthread_mutex_lock(&q->lock);
    if (q->failed_from || atomic_load(&q->stop) || local_failed(q->comm->me->segment))
        rc = CADRE_E_ABORTED;
    else if (!q->started)
        rc = queue_start(q);
    if (rc != CADRE_OK) {
        pthread_mutex_unlock(&q->lock);
        free(op);
        return rc;
    }
    op->base.sequence = ++q->posted;
    cadre_rank_page_queued(q->comm->me->context.page, op->base.shown,
                           op->base.sequence);
    if (q->head)
        q->tail->next = op;
    else
        q->head = op;
    q->tail = op;
    if (done)
        *done = q->id << EVENT_SEQUENCE_BITS | op->base.sequence;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return CADRE_OK;
}

/* An operation has ended, or, with `slices`, some time has passed. */
static void sleep_until_change(struct local_queue *q, bool slices)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOCAL_SLICE_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    q->waiting++;
    if (slices)
        pthread_cond_timedwait(&q->changed, &q->lock, &until);
    else
        pthread_cond_wait(&q->changed, &q->lock);
    q->waiting--;
}

/* Not what a device's events hold up, nor work on its memory, which has a stream of the
 * queue's thread. */
static bool may_take(const struct local_queue *q)
{
    const struct cadre_comm_op *op = q->head && !q->busy ? &q->head->base : NULL;
    return op && op->kind != CADRE_COMM_SPLIT &&
           op->memory != CADRE_COMM_DEVICE_MEMORY && !(op->after & CADRE_DEVICE_EVENT);
}

static uint64_t sequence_of(cadre_event event)
{
    return event & ((UINT64_C(1) << EVENT_SEQUENCE_BITS) - 1);
}

static struct local_queue *queue_of(struct local_rank *me, cadre_event event)
{
    uint64_t id = event >> EVENT_SEQUENCE_BITS;
    return id < LOCAL_MAX_QUEUES ? atomic_load(&me->queues[id]) : NULL;
}

bool cadre_local_event_exists(struct local_rank *me, cadre_event event)
{
    struct local_queue *q = queue_of(me, event);
    if (event & CADRE_DEVICE_EVENT)
        return atomic_load(&me->context.device) != NULL;
    if (event == 0 || !q)
        return event == 0;
    pthread_mutex_lock(&q->lock);
    bool exists = sequence_of(event) > 0 && sequence_of(event) <= q->posted;
    pthread_mutex_unlock(&q->lock);
    return exists;
}

cadre_status cadre_local_event_wait(struct local_rank *me, cadre_event event,
                                    const _Atomic bool *stop)
{
    if (event == 0)
        return CADRE_OK;
    if (!cadre_local_event_exists(me, event))
        return CADRE_E_INVALID;
    if (event & CADRE_DEVICE_EVENT) {
        struct cadre_device *device = atomic_load(&me->context.device);
        return device->ops->event_sync(device, event);
    }
    struct local_queue *q = queue_of(me, event);
    uint64_t sequence = sequence_of(event);
    cadre_status rc = CADRE_OK;
    pthread_mutex_lock(&q->lock);
    while (rc == CADRE_OK && q->completed < sequence) {
        if (q->failed_from)
            rc = q->failed_from == sequence ? q->status : CADRE_E_ABORTED;
        else if (atomic_load(&q->stop) || (stop && atomic_load(stop)))
            rc = CADRE_E_ABORTED;
        else if (!stop && may_take(q))
            take_head(q, true);
        else
            sleep_until_change(q, stop != NULL);
    }
    pthread_mutex_unlock(&q->lock);
    return rc;
}

cadre_status cadre_local_event_test(struct local_rank *me, cadre_event event,
                                    bool *happened)
{
    if (!cadre_local_event_exists(me, event))
        return CADRE_E_INVALID;
    if (event & CADRE_DEVICE_EVENT) {
        struct cadre_device *device = atomic_load(&me->context.device);
        return device->ops->event_query(device, event, happened);
    }
    struct local_queue *q = queue_of(me, event);
    uint64_t sequence = sequence_of(event);
    cadre_status rc = CADRE_OK;
    pthread_mutex_lock(&q->lock);
    *happened = q->completed >= sequence;
    if (!*happened && q->failed_from)
        rc = q->failed_from == sequence ? q->status : CADRE_E_ABORTED;
    pthread_mutex_unlock(&q->lock);
    return rc;
}

void cadre_local_queue_leave_device(struct local_queue *q)
{
    pthread_mutex_lock(&q->lock);
    while (q->started && q->head && !q->failed_from && !atomic_load(&q->stop))
        sleep_until_change(q, false);
    cadre_local_side_close(q);
    pthread_mutex_unlock(&q->lock);
}

void cadre_local_queue_stop(struct local_queue *q)
{
    pthread_mutex_lock(&q->lock);
    atomic_store(&q->stop, true);
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    if (q->started)
        pthread_join(q->thread, NULL);
    q->started = false;
    cadre_local_side_close(q);
    while (q->head) {
        struct local_op *op = q->head;
        q->head = op->next;
        free(op);
    }
}

void cadre_local_queue_destroy(struct local_queue *q)
{
    if (!q)
        return;
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    free(q);
}
