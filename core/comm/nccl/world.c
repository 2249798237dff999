/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's world: opening it, and what concerns all its communicators. */
#include <stdlib.h>
#include <string.h>

#include "core/comm/nccl/private.h"

static struct nccl_world *world_of(const struct cadre_comm *comm)
{
    return ((const struct nccl_group *)comm)->world;
}

static cadre_status nccl_wait(struct cadre_comm *comm, cadre_event event)
{
    return cadre_nccl_event_wait(world_of(comm), event);
}

static cadre_status nccl_test(struct cadre_comm *comm, cadre_event event,
                              bool *happened)
{
    return cadre_nccl_event_test(world_of(comm), event, happened);
}

static cadre_status nccl_use_device(struct cadre_comm *comm,
                                    struct cadre_device *device,
                                    struct cadre_error *err)
{
    struct nccl_world *w = world_of(comm);
    if (device && device != w->device)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "rank %d: over NCCL buffers lie in the memory of the device "
                          "that the world was opened with, not of another",
                          w->context.rank);
    cadre_nccl_drain(w);
    return CADRE_OK;
}

static void nccl_abort(struct cadre_comm *comm, const char *why)
{
    cadre_nccl_fail(world_of(comm), NULL, CADRE_E_ABORTED, "%s", why);
}

/* The watcher then polls as often as an observer needs. */
static void nccl_progress(const struct cadre_comm *comm)
{
    struct nccl_world *w = world_of(comm);
    pthread_mutex_lock(&w->lock);
    cadre_nccl_reap(w);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

const struct cadre_comm_backend cadre_nccl_backend = {
    .op_bytes = sizeof(struct nccl_op),
    .enqueue = cadre_nccl_enqueue,
    .wait = nccl_wait,
    .test = nccl_test,
    .use_device = nccl_use_device,
    .split = cadre_nccl_split,
    .abort = nccl_abort,
    .destroy = cadre_nccl_destroy,
    .progress = nccl_progress,
};

/* ---- opening ---- */

void cadre_nccl_world_destroy(struct nccl_world *w)
{
    while (w->dead) {
        struct nccl_op *op = w->dead;
        w->dead = op->next;
        cadre_nccl_stage_free(w, op->stage);
        free(op);
    }
    cadre_comm_context_fini(&w->context);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    pthread_mutex_destroy(&w->gate);
    free(w);
}

static struct nccl_world *make(const struct cadre_comm_world *from)
{
    struct nccl_world *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    cadre_comm_context_init(&w->context, from->rank, from->size, &w->step, &w->failure);
    atomic_store(&w->context.device, from->device);
    w->timeout_s = from->timeout_s;
    w->exact = from->exact;
    w->device = from->device;
    pthread_mutex_init(&w->lock, NULL);
    pthread_mutex_init(&w->gate, NULL);
    cadre_comm_cond_init(&w->changed);
    return w;
}

static cadre_status check(const struct cadre_comm_world *world, struct cadre_error *err)
{
    struct cadre_device *device = world->device;
    CADRE_TRY(cadre_comm_world_check(world, err));
    if (!device || strcmp(device->ops->name, "cuda") != 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "comm.backend = nccl works with device.kind = cuda; found "
                          "%s: use comm.backend = local",
                          device ? device->ops->name : "no device");
    return cadre_nccl_check_library(err);
}

cadre_status cadre_nccl_open(const struct cadre_comm_world *world,
                             const unsigned char id[CADRE_COMM_ID_BYTES],
                             struct cadre_comm **out, struct cadre_error *err)
{
    struct nccl_channel *all;
    struct nccl_group *group;
    ncclUniqueId unique;
    CADRE_TRY(check(world, err));
    struct nccl_world *w = make(world);
    if (!w)
        return cadre_fail(err, CADRE_E_RESOURCE, "rank %d: no memory", world->rank);
    memcpy(&unique, id, sizeof unique);
    cadre_status rc = cadre_nccl_watch_start(w);
    if (rc != CADRE_OK) {
        cadre_nccl_world_destroy(w);
        return cadre_fail(err, rc, "rank %d: cannot start a thread", world->rank);
    }
    rc = cadre_nccl_channel_open(w, &unique, &all, err);
    if (rc == CADRE_OK)
        rc = cadre_nccl_group_open(w, all, &group, err);
    if (rc != CADRE_OK) {
        cadre_nccl_watch_stop(w);
        cadre_nccl_world_destroy(w);
        return rc;
    }
    group->is_world = true;
    *out = &group->base;
    return CADRE_OK;
}
