/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that calls MPI. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/comm/mpi/private.h"

#define EAGER_TURNS 30 /* rounds without work, before it sleeps */
#define NAP_NS 50000L /* while something is under way */
#define SLEEP_NS 20000000L /* while nothing is, except messages of the others */

cadre_status cadre_mpi_check(struct mpi_world *w, const struct mpi_op *op, int result)
{
    char text[MPI_MAX_ERROR_STRING] = "", name[256] = "nothing pending";
    int n = 0;
    if (result == MPI_SUCCESS)
        return CADRE_OK;
    MPI_Error_string(result, text, &n);
    if (op)
        cadre_mpi_op_text(op, name, sizeof name);
    cadre_mpi_fail(
        w, op, CADRE_E_COMM,
        "rank %d (host %s): %s: MPI reports %.300s; another rank may be gone, "
        "look at their logs",
        w->context.rank, w->hosts[w->context.rank], name, text);
    return CADRE_E_COMM;
}

static void return_scratch(struct mpi_op *op)
{
    struct mpi_world *w = op->group->world;
    cadre_mpi_scratch_give(w, op->move.scratch);
    cadre_mpi_scratch_give(w, op->move.rows);
    free(op->move.ints);
    op->move.scratch = op->move.rows = NULL;
    op->move.ints = NULL;
}

/* Is a request over? *request is then MPI_REQUEST_NULL. */
static cadre_status test(struct mpi_op *op, MPI_Request *request, bool *over)
{
    int flag = *request == MPI_REQUEST_NULL;
    int result = flag ? MPI_SUCCESS : MPI_Test(request, &flag, MPI_STATUS_IGNORE);
    *over = flag != 0;
    return result == MPI_SUCCESS ? CADRE_OK
                                 : cadre_mpi_check(op->group->world, op, result);
}

/* A header is compared as soon as it arrives: errors of the data are a consequence. */
static cadre_status look_at_header(struct mpi_op *op)
{
    bool over = false;
    if (op->move.header_request == MPI_REQUEST_NULL)
        return CADRE_OK;
    CADRE_TRY(test(op, &op->move.header_request, &over));
    if (over)
        CADRE_TRY(cadre_mpi_compare_message(op));
    return CADRE_OK;
}

/* Advance the operation as far as possible; true where it advanced. */
static bool advance(struct mpi_op *op)
{
    bool moved = false, over = false;
    for (;;) {
        int flag = op->move.request == MPI_REQUEST_NULL, result = MPI_SUCCESS;
        if (!flag)
            result = MPI_Test(&op->move.request, &flag, MPI_STATUS_IGNORE);
        if (look_at_header(op) != CADRE_OK)
            return true;
        if (cadre_mpi_check(op->group->world, op, result) != CADRE_OK)
            return true;
        if (!flag)
            return moved;
        if (cadre_mpi_step(op) != CADRE_OK)
            return true;
        over = op->move.ended;
        if (over || op->move.request == MPI_REQUEST_NULL)
            break;
        moved = true;
    }
    if (!over)
        return moved;
    return_scratch(op);
    return true;
}

static bool work(struct mpi_world *w)
{
    bool moved = false;
    for (struct mpi_op **at = &w->active; *at;) {
        struct mpi_op *op = *at;
        if (advance(op))
            moved = true;
        if (!op->move.ended) {
            at = &op->next_active;
            continue;
        }
        *at = op->next_active;
        cadre_mpi_finish(op);
    }
    return moved;
}

/* Sleep until there is something to do, or it is time to poll. */
static void rest(struct mpi_world *w, uint64_t seen)
{
    struct timespec until = {.tv_nsec = NAP_NS};
    w->idle++;
    if (w->active) {
        if (w->idle < EAGER_TURNS)
            sched_yield();
        else
            nanosleep(&until, NULL);
        return;
    }
    long ns = w->idle < EAGER_TURNS ? NAP_NS : SLEEP_NS;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&w->lock);
    if (w->news == seen)
        pthread_cond_timedwait(&w->work, &w->lock, &until);
    pthread_mutex_unlock(&w->lock);
}

/* After a failure, or where others have not ended: MPI_Finalize would wait. */
static void end_without(struct mpi_world *w)
{
    pthread_mutex_lock(&w->lock);
    bool failed = cadre_failure_is_set(&w->failure);
    pthread_mutex_unlock(&w->lock);
    if (failed)
        cadre_mpi_control_tell(w);
    cadre_mpi_hush(w);
    pthread_mutex_lock(&w->lock);
    while (!w->stop)
        pthread_cond_wait(&w->work, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

/* Until the world ends; false where it has failed. */
static bool run(struct mpi_world *w)
{
    for (;;) {
        pthread_mutex_lock(&w->lock);
        bool failed = cadre_failure_is_set(&w->failure);
        bool stop = w->stop;
        uint64_t seen = w->news;
        w->turned_s = cadre_now_s();
        if (!failed)
            cadre_mpi_begin(w);
        pthread_mutex_unlock(&w->lock);
        if (failed || stop)
            return !failed;
        bool moved = work(w);
        if (cadre_mpi_control_turn(w) || moved)
            w->idle = 0;
        else
            rest(w, seen);
    }
}

static cadre_status start(struct mpi_world *w)
{
    struct cadre_error err = {0};
    cadre_status rc = cadre_mpi_start(w, &err);
    if (rc == CADRE_OK && cadre_mpi_control_open(w) != CADRE_OK)
        rc = cadre_fail(&err, CADRE_E_RESOURCE, "rank %d: no memory", w->context.rank);
    pthread_mutex_lock(&w->lock);
    w->opening = err;
    w->opened = true;
    w->turned_s = cadre_now_s();
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

void *cadre_mpi_engine(void *arg)
{
    struct mpi_world *w = arg;
    prctl(PR_SET_TIMERSLACK, 1000UL); /* its sleeps are short */
    cadre_status rc = start(w);
    if (rc == CADRE_OK && run(w) && cadre_mpi_control_leave(w))
        MPI_Finalize();
    else if (rc == CADRE_OK)
        end_without(w);
    pthread_mutex_lock(&w->lock);
    w->ended = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}
