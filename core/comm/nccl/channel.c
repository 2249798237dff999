/* SPDX-License-Identifier: Apache-2.0 */
/* One communicator of NCCL with a worker stream of the device. NCCL is used
 * non-blocking, so that everything has a time limit. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/comm/nccl/private.h"

#define FINALIZE_S 20.0 /* then what is left is aborted */

void cadre_nccl_pause(unsigned turns)
{
    unsigned doublings = turns < 64 ? 0 : (turns - 64) / 16;
    long us = 20L << (doublings < 5 ? doublings : 5);
    if (turns < 64)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* What a call that returned `result` comes to; ncclInProgress where that takes longer
 * than `until`, or `failure` (may be NULL) is set. ncclSuccess too may mean that it has
 * only begun, as ncclCommSplit's does: only the communicator's state is to be believed,
 * and NCCL refuses every other call until it says ncclSuccess. */
static ncclResult_t outcome(ncclComm_t comm, ncclResult_t result, double until,
                            const struct cadre_failure *failure)
{
    if (result == ncclSuccess)
        result = ncclInProgress;
    for (unsigned turns = 0; result == ncclInProgress; turns++) {
        if ((failure && cadre_failure_is_set(failure)) || cadre_now_s() > until)
            return ncclInProgress;
        ncclResult_t call = ncclCommGetAsyncError(comm, &result);
        if (call != ncclSuccess)
            return call;
        if (result == ncclInProgress)
            cadre_nccl_pause(turns);
    }
    return result;
}

ncclResult_t cadre_nccl_settle(const struct nccl_world *world, ncclComm_t comm,
                               ncclResult_t result)
{
    return outcome(comm, result, cadre_now_s() + world->timeout_s, &world->failure);
}

/* Without a communicator yet. */
static struct nccl_channel *make(struct nccl_world *world)
{
    struct nccl_channel *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->world = world;
    pthread_mutex_init(&c->posting, NULL);
    if (world->device->ops->worker_stream_open(world->device, &c->worker) != CADRE_OK) {
        pthread_mutex_destroy(&c->posting);
        free(c);
        return NULL;
    }
    c->stream = c->worker->ops->native_stream(c->worker);
    /* before NCCL's kernels run: memory taken later may have to wait for them */
    if (!cadre_nccl_scratch(c, 1)) {
        cadre_nccl_channel_close(c);
        return NULL;
    }
    return c;
}

/* Set rank and size; the world watches it from now on. */
static ncclResult_t enter(struct nccl_channel *c)
{
    ncclResult_t result = ncclCommUserRank(c->comm, &c->rank);
    if (result == ncclSuccess)
        result = ncclCommCount(c->comm, &c->size);
    pthread_mutex_lock(&c->world->lock);
    c->next = c->world->channels;
    c->world->channels = c;
    pthread_mutex_unlock(&c->world->lock);
    return result;
}

/* The reason on one line; the begun communicator is not freed, because NCCL's thread
 * may still write to it. */
static cadre_status fail(struct nccl_channel *c, ncclResult_t result, const char *what,
                         struct cadre_error *err)
{
    const struct nccl_world *w = c->world;
    char text[512];
    if (result == ncclInProgress && cadre_failure_is_set(&w->failure))
        return cadre_fail(err, CADRE_E_ABORTED, "rank %d: %s: the run was aborted",
                          w->context.rank, what);
    if (result == ncclInProgress)
        return cadre_fail(
            err, CADRE_E_COMM,
            "rank %d of %d waited %g s for NCCL to %s: not all ranks came; "
            "look at their logs, at the network (NCCL_DEBUG=INFO), or "
            "raise comm.timeout",
            w->context.rank, w->context.size, w->timeout_s, what);
    cadre_nccl_text(result, c->comm, text, sizeof text);
    return cadre_fail(err, CADRE_E_COMM, "rank %d: NCCL failed to %s: %s; %s",
                      w->context.rank, what, text, cadre_nccl_advice(text));
}

static const char no_memory[] = "rank %d: no memory for a communicator on the GPU";

cadre_status cadre_nccl_channel_open(struct nccl_world *world, const ncclUniqueId *id,
                                     struct nccl_channel **out, struct cadre_error *err)
{
    static const char what[] = "connect the ranks";
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    struct nccl_channel *c = make(world);
    if (!c)
        return cadre_fail(err, CADRE_E_RESOURCE, no_memory, world->context.rank);
    config.blocking = 0;
    ncclResult_t result = ncclCommInitRankConfig(&c->comm, world->context.size, *id,
                                                 world->context.rank, &config);
    if (c->comm)
        result = cadre_nccl_settle(world, c->comm, result);
    if (result == ncclSuccess) {
        result = enter(c);
        *out = c;
    }
    if (result == ncclSuccess)
        return CADRE_OK;
    cadre_status rc = fail(c, result, what, err);
    *out = NULL;
    if (c->comm)
        ncclCommAbort(c->comm);
    c->comm = NULL;
    cadre_nccl_channel_close(c);
    return rc;
}

cadre_status cadre_nccl_channel_split(struct nccl_channel *parent, int color, int key,
                                      bool narrow, struct nccl_channel **out,
                                      struct cadre_error *err)
{
    struct nccl_world *world = parent->world;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    struct nccl_channel *c = make(world);
    if (!c)
        return cadre_fail(err, CADRE_E_RESOURCE, no_memory, world->context.rank);
    config.blocking = 0;
    if (narrow)
        config.maxCTAs = 1;
    pthread_mutex_lock(&parent->posting);
    ncclResult_t result = ncclInProgress;
    if (parent->comm)
        result = cadre_nccl_settle(world, parent->comm,
                                   ncclCommSplit(parent->comm,
                                                 color < 0 ? NCCL_SPLIT_NOCOLOR : color,
                                                 key, &c->comm, &config));
    if (result == ncclSuccess && c->comm)
        result = cadre_nccl_settle(world, c->comm, ncclSuccess);
    pthread_mutex_unlock(&parent->posting);
    *out = NULL;
    if (result == ncclSuccess && !c->comm) { /* in no group */
        cadre_nccl_channel_close(c);
        return CADRE_OK;
    }
    if (result == ncclSuccess)
        result = enter(c);
    if (result == ncclSuccess) {
        *out = c;
        return CADRE_OK;
    }
    return fail(c, result, "split a communicator", err);
}

void *cadre_nccl_scratch(struct nccl_channel *c, size_t bytes)
{
    const struct cadre_device_ops *ops = c->worker->ops;
    size_t size = 4096;
    while (size < bytes)
        size *= 2;
    if (c->scratch && bytes <= c->scratch_bytes)
        return c->scratch;
    /* the old one is kept: freeing it may wait for posts of other ranks */
    void *made = ops->alloc(c->worker, size);
    if (!made) {
        cadre_log(CADRE_LOG_ERROR, "comm",
                  "rank %d: the GPU has no %zu bytes left for communication",
                  c->world->context.rank, size);
        return NULL;
    }
    if (c->scratch)
        c->outgrown[c->n_outgrown++] = c->scratch;
    c->scratch = made;
    c->scratch_bytes = size;
    return made;
}

/* Wait until what was sent has arrived, then free it; what does not end is aborted. */
static void release(struct nccl_channel *c)
{
    double until = cadre_now_s() + FINALIZE_S;
    if (outcome(c->comm, ncclCommFinalize(c->comm), until, NULL) == ncclSuccess)
        ncclCommDestroy(c->comm);
    else
        ncclCommAbort(c->comm);
}

void cadre_nccl_channel_close(struct nccl_channel *c)
{
    if (!c)
        return;
    struct nccl_world *w = c->world;
    pthread_mutex_lock(&w->lock);
    while (cadre_failure_is_set(&w->failure) &&
           !w->aborted) /* the watcher is using it */
        pthread_cond_wait(&w->changed, &w->lock);
    for (struct nccl_channel **at = &w->channels; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    pthread_mutex_unlock(&w->lock);
    if (c->comm)
        release(c);
    while (c->stages) {
        struct nccl_stage *stage = c->stages;
        c->stages = stage->next;
        cadre_nccl_stage_free(w, stage);
    }
    for (int i = 0; i < c->n_outgrown; i++)
        c->worker->ops->free(c->worker, c->outgrown[i]);
    c->worker->ops->free(c->worker, c->scratch);
    c->worker->ops->worker_stream_close(c->worker);
    pthread_mutex_destroy(&c->posting);
    free(c);
}
