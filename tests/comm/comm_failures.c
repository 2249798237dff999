/* SPDX-License-Identifier: Apache-2.0 */
/* Failures on purpose. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/status_slot.h"
#include "tests/comm/comm_cases.h"

/* After an abort every rank's pending and later operations end and all see one text;
 * the buffers belong to the caller again (freed at once, so that the sanitizers
 * check). */
static cadre_status run_aborted(struct world *w, const char *arg)
{
    enum { N = 300000 };
    struct cadre_error err = {.code = CADRE_OK};
    cadre_status rc = CADRE_OK;
    cadre_event e;
    for (int n = 0; rc == CADRE_OK; n++) {
        float *x = comm_calloc(w, N, sizeof *x);
        CHECK(w, x);
        CHECK(w, n < 10000);
        rc = cadre_comm_all_reduce(w->comm, "beat", x, x, N, CADRE_F32, CADRE_SUM, 0,
                                   &e);
        if (n == 5 && w->rank == 0)
            cadre_comm_abort(w->comm, "loss is not finite at step 5");
        if (rc == CADRE_OK)
            rc = cadre_comm_wait(w->comm, e);
        comm_free(w, x);
    }
    CHECK(w, rc == CADRE_E_ABORTED);
    CHECK(w, cadre_comm_barrier(w->comm, "later", 0, &e) == CADRE_E_ABORTED);
    CHECK(w, cadre_comm_failure(w->comm, &err) == CADRE_E_ABORTED);
    CHECK(w, strcmp(err.text, "loss is not finite at step 5") == 0);
    cadre_comm_abort(w->comm, "a second failure");
    cadre_comm_failure(w->comm, &err);
    CHECK(w, strcmp(err.text, "loss is not finite at step 5") == 0);
    return rc;
}

cadre_status case_aborted(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_aborted, arg, rank, segment);
}

/* The last rank leaves with a collective pending that the others never post, then with
 * a pending receive; the others wait for it. No rank hangs. */
static cadre_status run_leaver(struct world *w, const char *arg)
{
    float *x = comm_calloc(w, 64, sizeof *x), *y = comm_calloc(w, 64, sizeof *y);
    cadre_event e;
    cadre_status rc = CADRE_OK;
    CHECK(w, x && y);
    if (w->rank == w->size - 1) {
        cadre_comm_recv(w->comm, "never", y, 64, CADRE_F32, 0, 0, NULL);
        cadre_comm_all_reduce(w->comm, "half", x, x, 64, CADRE_F32, CADRE_SUM, 0, &e);
    } else {
        rc = cadre_comm_recv(w->comm, "act", x, 64, CADRE_F32, w->size - 1, 0, &e);
        rc = rc == CADRE_OK ? cadre_comm_wait(w->comm, e) : rc;
        CHECK(w, rc != CADRE_OK);
    }
    cadre_comm_destroy(w->comm); /* before the buffers go */
    w->comm = NULL;
    comm_free(w, x);
    comm_free(w, y);
    return rc;
}

cadre_status case_leaver(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_leaver, arg, rank, segment);
}

static cadre_status run_unequal(struct world *w, const char *arg)
{
    float x[8] = {0};
    cadre_event e;
    cadre_status rc;
    if (w->rank == 0)
        rc = cadre_comm_send(w->comm, "act", x, 8, CADRE_F32, 1, 0, &e);
    else
        rc = cadre_comm_recv(w->comm, "grad", x, 7, CADRE_F32, 0, 0, &e);
    return rc == CADRE_OK ? cadre_comm_wait(w->comm, e) : rc;
}

cadre_status case_unequal(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_unequal, arg, rank, segment);
}

static cadre_status run_mismatch(struct world *w, const char *arg)
{
    float x[8] = {0};
    cadre_event done;
    cadre_status rc;
    cadre_comm_set_step(w->comm, 40);
    if (w->rank == w->size - 1)
        rc = cadre_comm_broadcast(w->comm, "params", x, 8, CADRE_F32, 0, 0, &done);
    else
        rc = cadre_comm_all_reduce(w->comm, "bucket 3", x, x, 8, CADRE_F32, CADRE_SUM,
                                   0, &done);
    return rc == CADRE_OK ? cadre_comm_wait(w->comm, done) : rc;
}

cadre_status case_mismatch(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_mismatch, arg, rank, segment);
}

static void sleep_s(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)(1e9 * (seconds - (double)time.tv_sec));
    nanosleep(&time, NULL);
}

/* The last rank waits in a recv that no rank answers, the others in a collective. It
 * starts after 2/5 of the timeout (arg), so that the others report first. */
static cadre_status run_hang(struct world *w, const char *arg)
{
    float x[8] = {0};
    cadre_event done;
    cadre_status rc = cadre_comm_barrier(w->comm, "all are here", 0, &done);
    CHECK(w, rc == CADRE_OK && cadre_comm_wait(w->comm, done) == CADRE_OK);
    cadre_comm_set_step(w->comm, 41);
    if (w->rank == w->size - 1)
        sleep_s(0.4 * atof(arg));
    if (w->rank == w->size - 1)
        rc = cadre_comm_recv(w->comm, "act", x, 8, CADRE_F32, 0, 0, &done);
    else
        rc = cadre_comm_all_reduce(w->comm, "bucket 3", x, x, 8, CADRE_F32, CADRE_SUM,
                                   0, &done);
    return rc == CADRE_OK ? cadre_comm_wait(w->comm, done) : rc;
}

cadre_status case_hang(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_hang, arg, rank, segment);
}

/* The last rank of the even group does not come: the message names the group. */
static cadre_status run_absent(struct world *w, const char *arg)
{
    struct cadre_comm *half;
    struct cadre_error err;
    cadre_event e;
    CHECK(w, w->size == 4);
    CHECK(w, cadre_comm_split(w->comm, w->rank % 2, 0, &half, &err) == CADRE_OK);
    cadre_status rc = CADRE_OK;
    if (w->rank == 2)
        while (cadre_comm_failure(w->comm, &err) == CADRE_OK) /* the others' */
            sleep_s(0.01);
    else
        rc = cadre_comm_barrier(half, "half", 0, &e);
    if (rc == CADRE_OK && w->rank != 2)
        rc = cadre_comm_wait(half, e);
    cadre_comm_destroy(half);
    return rc;
}

cadre_status case_absent(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_absent, arg, rank, segment);
}

/* An operation after one whose communicator was destroyed: all ranks see the
 * failure. */
static cadre_status run_orphaned(struct world *w, const char *arg)
{
    struct cadre_comm *pair;
    struct cadre_error err;
    float x = 0;
    cadre_event never = 0, e;
    CHECK(w, cadre_comm_split(w->comm, 0, 0, &pair, &err) == CADRE_OK);
    if (w->rank == 0)
        CHECK(w,
              cadre_comm_recv(pair, "a", &x, 1, CADRE_F32, 1, 0, &never) == CADRE_OK);
    cadre_comm_destroy(pair);
    cadre_status rc = cadre_comm_barrier(w->comm, "b", never, &e);
    return rc == CADRE_OK ? cadre_comm_wait(w->comm, e) : rc;
}

cadre_status case_orphaned(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_orphaned, arg, rank, segment);
}

/* Endless collectives; the last rank kills itself unless arg is "for ever", or "stops"
 * its process; "deaf": the others compute for an hour and check nothing. */
static cadre_status run_killed(struct world *w, const char *arg)
{
    float x[64] = {0};
    cadre_event done;
    cadre_status rc = CADRE_OK;
    for (uint64_t n = 0; rc == CADRE_OK; n++) {
        cadre_comm_set_step(w->comm, n);
        if (n == 50 && w->rank == w->size - 1 && strcmp(arg, "for ever") != 0)
            kill(getpid(), strcmp(arg, "stops") == 0 ? SIGSTOP : SIGKILL);
        if (n == 50 && strcmp(arg, "deaf") == 0)
            sleep_s(3600);
        rc = cadre_comm_all_reduce(w->comm, "beat", x, x, 64, CADRE_F32, CADRE_SUM, 0,
                                   &done);
        if (rc == CADRE_OK)
            rc = cadre_comm_wait(w->comm, done);
    }
    return rc;
}

cadre_status case_killed(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_killed, arg, rank, segment);
}

static volatile sig_atomic_t signals_seen; /* of this process */

static void count_signal(int signal)
{
    signals_seen++;
}

/* Processes: reports that its handler is set, waits for one signal, and stops; two
 * signals are an error. */
cadre_status case_stopped(void *arg, int rank, struct cadre_local_segment *segment)
{
    signal(SIGTERM, count_signal);
    if (write(STDOUT_FILENO, ".", 1) != 1)
        return CADRE_E_IO;
    while (!signals_seen)
        sleep_s(0.01);
    for (int i = 0; i < 10; i++)
        sleep_s(0.01);
    return signals_seen == 1 ? CADRE_E_STOPPED : CADRE_E_DIFFERS;
}

/* The last rank ends at once with the status given, the others wait for it. */
static cadre_status run_exits(struct world *w, const char *arg)
{
    float x[4] = {0};
    cadre_event done;
    cadre_status rc;
    if (w->rank == w->size - 1)
        return arg[0] == '0' ? CADRE_OK : arg[0] == '2' ? CADRE_E_INVALID : CADRE_E_IO;
    rc = cadre_comm_all_reduce(w->comm, "alone", x, x, 4, CADRE_F32, CADRE_SUM, 0,
                               &done);
    return rc == CADRE_OK ? cadre_comm_wait(w->comm, done) : rc;
}

cadre_status case_exits(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_exits, arg, rank, segment);
}

/* The others wait for the last rank, which is in a callback of the plugin "x" and ends
 * its process there ("quit", "fault"), or does not return ("stall"). */
static cadre_status run_misbehaves(struct world *w, const char *arg)
{
    float x[4] = {0};
    cadre_event done;
    cadre_status_enter(cadre_status_current(), "x", "step", 3);
    if (w->rank == w->size - 1) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer would report it */
        if (strcmp(arg, "quit") == 0)
            _exit(0);
        if (strcmp(arg, "fault") == 0)
            raise(SIGSEGV);
        sleep_s(3600);
    }
    cadre_status_core(cadre_status_current());
    cadre_status rc = cadre_comm_all_reduce(w->comm, "alone", x, x, 4, CADRE_F32,
                                            CADRE_SUM, 0, &done);
    return rc == CADRE_OK ? cadre_comm_wait(w->comm, done) : rc;
}

cadre_status case_misbehaves(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_misbehaves, arg, rank, segment);
}
