/* SPDX-License-Identifier: Apache-2.0 */
/* The rest of comm.h, besides posting: counted and checked here, carried out by the
 * backend. */
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/base/rank_page.h"
#include "core/comm/backend.h"
#include "core/comm/hang.h"
#include "core/comm/nodes.h"

/* Let the backend count what is done, where none of its threads does so at once. */
static void progress(const struct cadre_comm *comm)
{
    if (comm->backend->progress)
        comm->backend->progress(comm);
}

static void begin_waiting(struct cadre_comm *comm, struct cadre_comm_waiter *waiter)
{
    struct cadre_comm_context *context = comm->context;
    pthread_mutex_lock(&context->lock);
    waiter->since_s = cadre_now_s();
    waiter->next = context->waiters;
    context->waiters = waiter;
    pthread_mutex_unlock(&context->lock);
}

/* Charge exposed communication to the communicators that were at work meanwhile. */
static void charge(struct cadre_comm *comm, const struct cadre_comm_waiter *waiter,
                   double exposed_s)
{
    double left_s = exposed_s;
    for (int i = 0; i < waiter->n_parts; i++) {
        double part_s = exposed_s * waiter->part[i].moved_s / waiter->moved_s;
        if (!waiter->part[i].comm)
            continue;
        waiter->part[i].comm->stats.charged_s += part_s;
        left_s -= part_s;
    }
    comm->stats.charged_s += left_s > 0 ? left_s : 0;
}

static void end_waiting(struct cadre_comm *comm, struct cadre_comm_waiter *waiter)
{
    struct cadre_comm_context *context = comm->context;
    struct cadre_comm_waiter **at = &context->waiters;
    pthread_mutex_lock(&context->lock);
    double now = cadre_now_s(), waited_s = now - waiter->since_s;
    double exposed_s = waited_s < waiter->moved_s ? waited_s : waiter->moved_s;
    comm->stats.waited_s += waited_s;
    comm->stats.exposed_s += exposed_s;
    context->waited[context->n_waited++ % CADRE_COMM_WAITS] =
        (struct cadre_comm_waited){waiter->since_s, now, waited_s - exposed_s};
    charge(comm, waiter, exposed_s);
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    pthread_mutex_unlock(&context->lock);
}

cadre_status cadre_comm_wait(struct cadre_comm *comm, cadre_event event)
{
    struct cadre_comm_waiter waiter = {0};
    if (event == 0)
        return CADRE_OK;
    struct cadre_rank_page *page = comm->context->page;
    const uint64_t phase = cadre_rank_page_enter(page, CADRE_PHASE_COMM, 0, 0);
    begin_waiting(comm, &waiter);
    cadre_status rc = comm->backend->wait(comm, event);
    progress(comm);
    end_waiting(comm, &waiter);
    cadre_rank_page_leave(page, phase);
    return rc;
}

cadre_status cadre_comm_test(struct cadre_comm *comm, cadre_event event, bool *happened)
{
    *happened = event == 0;
    if (event == 0)
        return CADRE_OK;
    progress(comm);
    return comm->backend->test(comm, event, happened);
}

cadre_status cadre_comm_gather_records(struct cadre_comm *comm, cadre_comm_label label,
                                       const void *mine, void *all, size_t bytes)
{
    uint64_t *offsets = cadre_calloc((size_t)comm->size + 1, sizeof *offsets);
    cadre_event done = 0;
    if (!offsets)
        return CADRE_E_RESOURCE;
    for (int r = 0; r <= comm->size; r++)
        offsets[r] = (uint64_t)r * bytes;
    cadre_status rc =
        cadre_comm_all_gather(comm, label, mine, all, offsets, CADRE_U8, 0, &done);
    free(offsets); /* copied */
    return rc == CADRE_OK ? cadre_comm_wait(comm, done) : rc;
}

/* An event of the device may never happen once the world has failed. */
cadre_status cadre_comm_stream_wait(struct cadre_comm *comm,
                                    struct cadre_device *device, cadre_event event)
{
    if (!(event & CADRE_DEVICE_EVENT) || !device || !device->ops->async)
        return cadre_comm_wait(comm, event);
    if (cadre_failure_is_set(comm->context->failure))
        return CADRE_E_ABORTED;
    return device->ops->event_wait(device, event);
}

cadre_status cadre_comm_use_device(struct cadre_comm *comm, struct cadre_device *device,
                                   struct cadre_error *err)
{
    struct cadre_device *async = device && device->ops->async ? device : NULL;
    cadre_status rc = comm->backend->use_device(comm, async, err);
    if (rc == CADRE_OK)
        atomic_store(&comm->context->device, async);
    return rc;
}

cadre_status cadre_comm_split(struct cadre_comm *comm, int color, int key,
                              struct cadre_comm **out, struct cadre_error *err)
{
    CADRE_TRY(comm->backend->split(comm, color, key, out, err));
    if (!*out)
        return CADRE_OK;
    cadre_status rc = cadre_nodes_inherit(comm, *out, err);
    if (rc != CADRE_OK) {
        cadre_comm_destroy(*out);
        *out = NULL;
    }
    return rc;
}

void cadre_comm_abort(struct cadre_comm *comm, const char *why)
{
    comm->backend->abort(comm, why);
}

void cadre_comm_destroy(struct cadre_comm *comm)
{
    struct cadre_comm_context *context = comm->context;
    pthread_mutex_lock(&context->lock);
    for (struct cadre_comm_waiter *w = context->waiters; w; w = w->next)
        for (int i = 0; i < w->n_parts; i++)
            if (w->part[i].comm == comm)
                w->part[i].comm = NULL;
    pthread_mutex_unlock(&context->lock);
    int *node = comm->node; /* its threads may still ask */
    void *checksums = comm->checksums;
    comm->backend->destroy(comm);
    free(checksums);
    free(node);
}

void cadre_comm_read_stats(const struct cadre_comm *comm, struct cadre_comm_stats *out)
{
    progress(comm);
    pthread_mutex_lock(&comm->context->lock);
    *out = comm->stats;
    pthread_mutex_unlock(&comm->context->lock);
}

void cadre_comm_set_step(struct cadre_comm *comm, uint64_t step)
{
    atomic_store(comm->context->step, step);
}

void cadre_comm_observe(struct cadre_comm *comm, cadre_comm_observer observer,
                        void *arg)
{
    struct cadre_comm_context *context = comm->context;
    pthread_mutex_lock(&context->lock);
    context->observer = observer;
    context->observer_arg = arg;
    pthread_mutex_unlock(&context->lock);
    progress(comm);
}

void cadre_comm_show(struct cadre_comm *comm, struct cadre_rank_page *page)
{
    pthread_mutex_lock(&comm->context->lock);
    comm->context->page = page;
    if (!comm->context->explain) /* before there are operations; others may read it */
        comm->context->explain = cadre_comm_hang_text;
    pthread_mutex_unlock(&comm->context->lock);
}

cadre_status cadre_comm_failure(const struct cadre_comm *comm, struct cadre_error *err)
{
    return cadre_failure_get(comm->context->failure, err);
}
