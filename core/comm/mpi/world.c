/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's world: opening it, and what concerns all its communicators. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/comm/mpi/private.h"

#define STACK_BYTES ((size_t)8 << 20) /* of MPI's own making */
#define LIMIT (UINT64_C(1) << 30)
#define TREE_RANKS 256 /* cadre_reduce_block */

static struct mpi_world *world_of(const struct cadre_comm *comm)
{
    return ((const struct mpi_group *)comm)->world;
}

static cadre_status mpi_wait(struct cadre_comm *comm, cadre_event event)
{
    return cadre_mpi_event_wait(world_of(comm), event);
}

static cadre_status mpi_test(struct cadre_comm *comm, cadre_event event, bool *happened)
{
    return cadre_mpi_event_test(world_of(comm), event, happened);
}

static cadre_status mpi_use_device(struct cadre_comm *comm, struct cadre_device *device,
                                   struct cadre_error *err)
{
    struct mpi_world *w = world_of(comm);
    if (device)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "rank %d: comm.backend = mpi works in the host's memory, and "
                          "the device is %s; use comm.backend = nccl",
                          w->context.rank, device->ops->name);
    cadre_mpi_drain(w);
    return CADRE_OK;
}

static void mpi_abort(struct cadre_comm *comm, const char *why)
{
    cadre_mpi_fail(world_of(comm), NULL, CADRE_E_ABORTED, "%s", why);
}

const struct cadre_comm_backend cadre_mpi_backend = {
    .op_bytes = sizeof(struct mpi_op),
    .enqueue = cadre_mpi_enqueue,
    .wait = mpi_wait,
    .test = mpi_test,
    .use_device = mpi_use_device,
    .split = cadre_mpi_split,
    .abort = mpi_abort,
    .destroy = cadre_mpi_destroy,
};

/* ---- opening ---- */

void cadre_mpi_world_free(struct mpi_world *w)
{
    while (w->dead) {
        struct mpi_op *op = w->dead;
        w->dead = op->next;
        cadre_mpi_op_free(op);
    }
    while (w->free_scratch) {
        struct mpi_scratch *scratch = w->free_scratch;
        w->free_scratch = scratch->next;
        free(scratch);
    }
    cadre_mpi_control_free(w);
    cadre_comm_context_fini(&w->context);
    pthread_cond_destroy(&w->changed);
    pthread_cond_destroy(&w->work);
    pthread_mutex_destroy(&w->lock);
    free(w->hosts);
    free(w);
}

/* Tests lower the number of elements that one call of MPI spans, to cover counts that
 * exceed an int. */
static uint64_t limit(void)
{
    const char *text = getenv("CADRE_MPI_LIMIT");
    unsigned long long n = text ? strtoull(text, NULL, 10) : 0;
    return n > 0 && n < LIMIT ? n : LIMIT;
}

static struct mpi_world *make(const struct cadre_comm_world *from)
{
    struct mpi_world *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    cadre_comm_context_init(&w->context, from->rank, from->size, &w->step, &w->failure);
    w->timeout_s = from->timeout_s;
    w->exact = from->exact;
    w->limit = limit();
    w->hosts = calloc((size_t)from->size, sizeof *w->hosts);
    w->control.request = w->control.beat_in = w->control.beat_out = MPI_REQUEST_NULL;
    pthread_mutex_init(&w->lock, NULL);
    cadre_comm_cond_init(&w->changed);
    cadre_comm_cond_init(&w->work);
    if (w->hosts)
        return w;
    cadre_mpi_world_free(w);
    return NULL;
}

static cadre_status check(const struct cadre_comm_world *world, struct cadre_error *err)
{
    struct cadre_device *device = world->device;
    CADRE_TRY(cadre_comm_world_check(world, err));
    if (world->exact && world->size > TREE_RANKS)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "run.exact = yes over MPI is for %d ranks at most, found %d",
                          TREE_RANKS, world->size);
    if (device && device->ops->async)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "comm.backend = mpi works in the host's memory, and the device "
            "is %s; use comm.backend = nccl",
            device->ops->name);
    return CADRE_OK;
}

/* MPI_Init waits for all ranks without a time limit. */
static cadre_status await_opening(struct mpi_world *w, struct cadre_error *err)
{
    double until = cadre_now_s() + w->timeout_s;
    pthread_mutex_lock(&w->lock);
    w->turned_s = until;
    while (!w->opened && cadre_now_s() < until)
        cadre_mpi_sleep(w);
    bool opened = w->opened;
    if (opened && w->opening.code != CADRE_OK)
        *err = w->opening;
    pthread_mutex_unlock(&w->lock);
    if (opened && w->opening.code != CADRE_OK) {
        cadre_status rc = w->opening.code;
        pthread_join(w->engine, NULL);
        cadre_mpi_world_free(w);
        return rc;
    }
    if (opened)
        return CADRE_OK;
    pthread_detach(w->engine); /* which is inside MPI and keeps the world */
    return cadre_fail(
        err, CADRE_E_COMM,
        "rank %d: MPI did not start within %g s: some of the %d ranks have "
        "not come, or their hosts do not reach each other",
        w->context.rank, w->timeout_s, w->context.size);
}

cadre_status cadre_mpi_open(const struct cadre_comm_world *world,
                            const unsigned char id[CADRE_COMM_ID_BYTES],
                            struct cadre_comm **out, struct cadre_error *err)
{
    struct cadre_error why = {0};
    CADRE_TRY(check(world, err));
    struct mpi_world *w = make(world);
    if (!w)
        return cadre_fail(err, CADRE_E_RESOURCE, "rank %d: no memory", world->rank);
    if (!cadre_comm_thread_start(&w->engine, STACK_BYTES, cadre_mpi_engine, w)) {
        cadre_mpi_world_free(w);
        return cadre_fail(err, CADRE_E_RESOURCE, "rank %d: cannot start a thread",
                          world->rank);
    }
    cadre_status rc = await_opening(w, &why);
    if (rc != CADRE_OK)
        return cadre_fail(err, rc, "%s", why.text);
    struct mpi_group *g = cadre_mpi_group_make(w, 1, NULL);
    if (!g)
        return cadre_fail(err, CADRE_E_RESOURCE, "rank %d: no memory", world->rank);
    *out = &g->base;
    return CADRE_OK;
}
