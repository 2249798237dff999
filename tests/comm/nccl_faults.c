/* SPDX-License-Identifier: Apache-2.0 */
/* Failures over NCCL: no rank hangs, and one line gives the reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/comm/nccl_world.h"

static void sleep_a_bit(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static cadre_status await_failure(struct world *w)
{
    struct cadre_error err = {0};
    cadre_status rc;
    while ((rc = cadre_comm_failure(w->comm, &err)) == CADRE_OK)
        sleep_a_bit();
    return rc;
}

/* Only rank 0 posts the second one, and waits for it; what it posted after it, and what
 * it posts later, ends too. The others do not notice, as with NCCL. */
cadre_status nccl_late(struct world *w, const char *arg)
{
    float x[8] = {0}, y[8];
    cadre_event first, second, third;
    (void)arg;
    cadre_comm_set_step(w->comm, 41);
    CHECK(w, cadre_comm_barrier(w->comm, "all are here", 0, &first) == 0);
    CHECK(w, cadre_comm_wait(w->comm, first) == 0);
    if (w->rank != 0)
        return CADRE_OK;
    CHECK(w, cadre_comm_all_reduce(w->comm, "bucket 3", x, x, 8, CADRE_F32, CADRE_SUM,
                                   0, &second) == 0);
    CHECK(w, cadre_comm_recv(w->comm, "act", y, 8, CADRE_F32, 1, second, &third) == 0);
    CHECK(w, cadre_comm_wait(w->comm, second) == CADRE_E_COMM);
    CHECK(w, cadre_comm_wait(w->comm, third) == CADRE_E_ABORTED);
    CHECK(w, cadre_comm_wait(w->comm, first) == 0);
    CHECK(w, cadre_comm_barrier(w->comm, "later", 0, &third) == CADRE_E_ABORTED);
    return CADRE_E_COMM;
}

/* No rank waits, and events are recorded until the device has to wait for one that
 * cannot happen: the failure is reported anyway, and the streams end. */
cadre_status nccl_late_alone(struct world *w, const char *arg)
{
    float *x = comm_calloc(w, 8, sizeof *x);
    cadre_device_event event;
    cadre_event e;
    (void)arg;
    if (w->rank == 0) {
        CHECK(w, cadre_comm_all_reduce(w->comm, "bucket 7", x, x, 8, CADRE_F32,
                                       CADRE_SUM, 0, &e) == 0);
        CHECK(w, cadre_comm_stream_wait(w->comm, w->device, e) == 0);
        for (int i = 0; i < 5000; i++)
            CHECK(w, w->device->ops->event_record(w->device, &event) == 0);
        CHECK(w, await_failure(w) == CADRE_E_COMM);
        CHECK(w, w->device->ops->synchronize(w->device) == 0);
    }
    comm_free(w, x);
    return w->rank == 0 ? CADRE_E_COMM : CADRE_OK;
}

/* The stand-in reports an error at an operation (CADRE_HOST_NCCL_FAIL). */
cadre_status nccl_remote_error(struct world *w, const char *arg)
{
    cadre_status rc = CADRE_OK;
    float x[8] = {0};
    cadre_event e;
    (void)arg;
    for (int n = 0; n < 4 && rc == CADRE_OK; n++) {
        rc = cadre_comm_all_reduce(w->comm, "bucket", x, x, 8, CADRE_F32, CADRE_SUM, 0,
                                   &e);
        if (rc == CADRE_OK)
            rc = cadre_comm_wait(w->comm, e);
    }
    CHECK(w, rc == CADRE_E_COMM || rc == CADRE_E_ABORTED);
    return rc;
}

/* Every rank has a receive pending, and gives up. */
cadre_status nccl_aborted(struct world *w, const char *arg)
{
    int before = (w->rank + w->size - 1) % w->size;
    struct cadre_error err = {0};
    float *x = malloc(64 * sizeof *x);
    cadre_event e;
    (void)arg;
    CHECK(w, cadre_comm_recv(w->comm, "act", x, 64, CADRE_F32, before, 0, &e) == 0);
    cadre_comm_abort(w->comm, "loss is not finite at step 5");
    CHECK(w, cadre_comm_wait(w->comm, e) == CADRE_E_ABORTED);
    free(x); /* the sanitizers detect a late write */
    CHECK(w, cadre_comm_barrier(w->comm, "later", 0, &e) == CADRE_E_ABORTED);
    cadre_comm_abort(w->comm, "a second failure");
    CHECK(w, cadre_comm_failure(w->comm, &err) == CADRE_E_ABORTED);
    CHECK(w, strcmp(err.text, "loss is not finite at step 5") == 0);
    return CADRE_OK;
}

/* A group ends with a receive pending: so does the world of this rank. */
cadre_status nccl_left(struct world *w, const char *arg)
{
    struct cadre_comm *pair;
    struct cadre_error err = {0};
    float x = 0;
    cadre_event never = 0, e;
    (void)arg;
    CHECK(w, cadre_comm_split(w->comm, 0, 0, &pair, &err) == CADRE_OK);
    if (w->rank == 0)
        CHECK(w, cadre_comm_recv(pair, "a", &x, 1, CADRE_F32, 1, 0, &never) == 0);
    cadre_comm_destroy(pair);
    if (w->rank != 0)
        return CADRE_OK;
    CHECK(w, cadre_comm_wait(w->comm, never) == CADRE_E_COMM);
    CHECK(w, cadre_comm_barrier(w->comm, "b", never, &e) == CADRE_E_ABORTED);
    return CADRE_OK;
}

cadre_status nccl_nothing(struct world *w, const char *arg)
{
    cadre_event e;
    (void)arg;
    CHECK(w, cadre_comm_barrier(w->comm, "all", 0, &e) == 0);
    return cadre_comm_wait(w->comm, e);
}
