/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's stand-in: when operations run, and the failures of NCCL that it emulates. */
#include "tests/device/cuda/nccl_testing.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/check_main.h"

enum { some = 5 };

static void sleep_ms(long ms)
{
    const struct timespec moment = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&moment, NULL);
}

/* `some` int32 of the device, all of them x. */
static int32_t *ints(int32_t x)
{
    int32_t all[some];
    for (int i = 0; i < some; i++)
        all[i] = x;
    return nccl_device_bytes(all, sizeof all);
}

static bool are(cudaStream_t stream, const int32_t *at, int32_t x)
{
    int32_t all[some];
    for (int i = 0; i < some; i++)
        all[i] = x;
    return nccl_device_equal(stream, at, all, sizeof all);
}

static ncclResult_t sum(int32_t *at, size_t n, ncclComm_t comm, cudaStream_t stream)
{
    return ncclAllReduce(at, at, n, ncclInt32, ncclSum, comm, stream);
}

/* An event after the stream's work. */
static cudaEvent_t behind(cudaStream_t stream)
{
    cudaEvent_t event = NULL;
    must(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
    must(cudaEventRecord(event, stream) == cudaSuccess);
    return event;
}

/* Query the event for a while; it does not happen, and no error is reported. */
static void hangs(ncclComm_t comm, cudaEvent_t event)
{
    for (int i = 0; i < 20; i++) {
        ncclResult_t state = ncclInternalError;
        must(cudaEventQuery(event) == cudaErrorNotReady);
        must(ncclCommGetAsyncError(comm, &state) == 0 && state == ncclSuccess);
        sleep_ms(1);
    }
}

static void end(cudaStream_t stream, cudaEvent_t event, int32_t *at)
{
    must(cudaStreamSynchronize(stream) == cudaSuccess);
    must(!event || cudaEventQuery(event) == cudaSuccess);
    must(!event || cudaEventDestroy(event) == cudaSuccess);
    must(cudaStreamDestroy(stream) == cudaSuccess && cudaFree(at) == cudaSuccess);
}

/* ---- when operations run ---- */

/* Nothing runs until one rank waits; then the other's part runs by itself, with the
 * work before it in its stream. */
static void late(const struct nccl_rank *r)
{
    ncclComm_t comm = nccl_world(r, 1);
    cudaStream_t stream = nccl_stream();
    int32_t *at = ints(-1);
    must(cudaMemsetAsync(at, 0, sizeof *at * some, stream) == cudaSuccess);
    must(sum(at, some, comm, stream) == 0);
    cudaEvent_t event = behind(stream);
    must(cudaEventQuery(event) == cudaErrorNotReady);
    pthread_barrier_wait(r->gate);
    must(r->rank != 0 || are(stream, at, 0));
    pthread_barrier_wait(r->gate);
    while (cudaEventQuery(event) != cudaSuccess)
        sleep_ms(1);
    must(are(stream, at, 0) && ncclCommDestroy(comm) == 0);
    end(stream, event, at);
}

START_TEST(runs_late)
{
    nccl_run(3, false, late, NULL);
}
END_TEST

/* In the order of the communicator across streams, but not after work of other streams
 * that no event orders. */
static void ordered(const struct nccl_rank *r)
{
    ncclComm_t comm = nccl_world(r, 1);
    cudaStream_t first = nccl_stream(), second = nccl_stream();
    int32_t *at = ints(1), *other = ints(1);
    must(sum(at, some, comm, first) == 0 && sum(at, some, comm, second) == 0);
    must(are(second, at, 4));
    must(cudaMemsetAsync(other, 0, sizeof *other * some, first) == cudaSuccess);
    must(sum(other, some, comm, second) == 0);
    must(are(second, other, 2)); /* the missing wait shows */
    must(are(first, other, 0) && ncclCommDestroy(comm) == 0);
    end(first, NULL, at);
    end(second, NULL, other);
}

START_TEST(runs_in_order)
{
    nccl_run(2, false, ordered, NULL);
}
END_TEST

/* blocking = 0: in no stream before it was queried, and no other call meanwhile. */
static void unasked(const struct nccl_rank *r)
{
    ncclComm_t comm = nccl_world(r, 0), child = NULL;
    cudaStream_t stream = nccl_stream();
    int32_t *at = ints(1), size;
    must(sum(at, some, comm, stream) == ncclInProgress);
    must(ncclCommCount(comm, &size) == ncclInvalidArgument);
    must(sum(at, some, comm, stream) == ncclInvalidArgument);
    must(nccl_settle(comm) == ncclSuccess);
    must(are(stream, at, 2));
    must(ncclGroupStart() == 0);
    must(ncclSend(at, some, ncclInt32, 1 - r->rank, comm, stream) == 0);
    must(ncclRecv(at, some, ncclInt32, 1 - r->rank, comm, stream) == 0);
    must(ncclGroupEnd() == ncclInProgress && nccl_settle(comm) == ncclSuccess);
    must(ncclCommSplit(comm, 0, 0, &child, NULL) == ncclSuccess);
    while (!__atomic_load_n(&child, __ATOMIC_ACQUIRE)) /* without asking the parent */
        sleep_ms(1);
    must(ncclCommFinalize(comm) == ncclInvalidArgument);
    must(nccl_settle(comm) == ncclSuccess && ncclCommDestroy(child) == ncclSuccess);
    must(cudaStreamSynchronize(stream) == cudaSuccess);
    must(ncclCommFinalize(comm) == ncclInProgress);
    must(nccl_settle(comm) == ncclSuccess && ncclCommDestroy(comm) == 0);
    end(stream, NULL, at);
}

START_TEST(runs_in_the_background)
{
    nccl_run(2, _i, unasked, NULL);
}
END_TEST

static void *ask(void *comm)
{
    ncclResult_t state;
    must(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
    return NULL;
}

/* Two threads ask for a split that the other rank does not come to. */
static void asked_twice(const struct nccl_rank *r)
{
    ncclComm_t comm = nccl_world(r, 0), child = NULL;
    pthread_t other;
    must(pthread_create(&other, NULL, ask, comm) == 0);
    must(pthread_join(other, NULL) == 0); /* nothing is in progress */
    if (r->rank == 0) {
        must(ncclCommSplit(comm, 0, 0, &child, NULL) == ncclSuccess);
        ask(comm);
        must(pthread_create(&other, NULL, ask, comm) == 0);
        must(pthread_join(other, NULL) == 0);
        must(nccl_settle(comm) == ncclInternalError);
    }
    must(ncclCommAbort(comm) == ncclSuccess);
}

START_TEST(one_asks)
{
    nccl_run(2, false, asked_twice, NULL);
}
END_TEST

/* Rank 0 queries nothing: its part still gets into its stream, after a peer has waited
 * for long. */
static void never_asked(const struct nccl_rank *r)
{
    ncclComm_t comm = nccl_world(r, 0);
    cudaStream_t stream = nccl_stream();
    int32_t *at = ints(1);
    must(sum(at, some, comm, stream) == ncclInProgress);
    must(r->rank == 0 || (nccl_settle(comm) == ncclSuccess && are(stream, at, 2)));
    pthread_barrier_wait(r->gate);
    must(nccl_settle(comm) == ncclSuccess && are(stream, at, 2));
    must(ncclCommDestroy(comm) == ncclSuccess);
    end(stream, NULL, at);
}

START_TEST(runs_without_queries)
{
    nccl_run(2, false, never_asked, NULL);
}
END_TEST

/* ---- aborts and deaths ---- */

static void *abort_soon(void *comm)
{
    sleep_ms(20);
    must(ncclCommAbort(comm) == ncclSuccess);
    return NULL;
}

/* Rank 0 waits for what rank 1 never posts until another thread of rank 0 aborts; rank
 * 1 does not notice. */
static void aborted(const struct nccl_rank *r)
{
    ncclComm_t comm = nccl_world(r, 1);
    cudaStream_t stream = nccl_stream();
    int32_t *at = ints(1);
    cudaEvent_t event = NULL;
    if (r->rank == 0) {
        ncclResult_t state;
        pthread_t thread;
        must(sum(at, some, comm, stream) == 0);
        must(pthread_create(&thread, NULL, abort_soon, comm) == 0);
        must(cudaStreamSynchronize(stream) == cudaSuccess);
        pthread_join(thread, NULL);
        must(ncclCommGetAsyncError(comm, &state) == ncclInvalidArgument);
        must(sum(at, some, comm, stream) == ncclInvalidArgument);
        pthread_barrier_wait(r->gate);
    } else {
        pthread_barrier_wait(r->gate);
        must(ncclSend(at, some, ncclInt32, 0, comm, stream) == 0);
        event = behind(stream);
        hangs(comm, event);
        must(ncclCommAbort(comm) == ncclSuccess);
    }
    end(stream, event, at);
}

START_TEST(abort_of_one)
{
    nccl_run(2, false, aborted, NULL);
}
END_TEST

static void left_alone(const struct nccl_rank *r)
{
    ncclComm_t comm = nccl_world(r, 1);
    cudaStream_t stream = nccl_stream();
    int32_t *at = ints(1);
    if (r->rank == 1)
        _exit(0);
    must(sum(at, some, comm, stream) == 0);
    cudaEvent_t event = behind(stream);
    hangs(comm, event);
    must(ncclCommAbort(comm) == ncclSuccess);
    end(stream, event, at);
}

START_TEST(death_of_one)
{
    nccl_run(2, true, left_alone, NULL);
}
END_TEST

/* Different counts, or lengths: both hang, and print why. */
static void unequal(const struct nccl_rank *r)
{
    const bool letters = *(const bool *)r->arg;
    const size_t n = (size_t)(some - r->rank);
    ncclComm_t comm = nccl_world(r, 1);
    cudaStream_t stream = nccl_stream();
    int32_t *at = ints(1);
    ncclResult_t rc = !letters       ? sum(at, n, comm, stream)
                      : r->rank == 0 ? ncclSend(at, n, ncclInt32, 1, comm, stream)
                                     : ncclRecv(at, n, ncclInt32, 0, comm, stream);
    must(rc == ncclSuccess);
    cudaEvent_t event = behind(stream);
    while (!strstr(ncclGetLastError(comm), "which hangs"))
        must(cudaEventQuery(event) == cudaErrorNotReady);
    hangs(comm, event);
    pthread_barrier_wait(r->gate);
    must(ncclCommAbort(comm) == ncclSuccess);
    end(stream, event, at);
}

START_TEST(unequal_hangs)
{
    const bool letters = _i;
    nccl_run(2, false, unequal, &letters);
}
END_TEST

/* ---- refusals ---- */

/* Two ranks on one device. */
static void doubled(const struct nccl_rank *r)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    config.blocking = *(const int *)r->arg;
    must(cudaSetDevice(0) == cudaSuccess);
    const ncclResult_t rc = ncclCommInitRankConfig(&comm, 2, r->id, r->rank, &config);
    must(rc == (config.blocking ? ncclInvalidUsage : ncclInProgress));
    must(config.blocking || nccl_settle(comm) == ncclInvalidUsage);
    must(strstr(ncclGetLastError(NULL), "Duplicate GPU detected"));
    must(!config.blocking == (comm != NULL));
    must(!comm || ncclCommAbort(comm) == ncclSuccess);
}

START_TEST(duplicates)
{
    const int blocking = _i / 2;
    nccl_run(2, _i % 2, doubled, &blocking);
}
END_TEST

static void one_each(const struct nccl_rank *r)
{
    setenv("NCCL_HOSTID", r->rank ? "one" : "another", 1);
    must(cudaSetDevice(0) == cudaSuccess);
    ncclComm_t comm = nccl_world(r, 1);
    cudaStream_t stream = nccl_stream();
    int32_t *at = ints(3);
    must(sum(at, some, comm, stream) == 0 && are(stream, at, 6));
    must(ncclCommDestroy(comm) == 0);
    end(stream, NULL, at);
}

START_TEST(duplicates_of_hosts)
{
    nccl_run(2, true, one_each, NULL);
}
END_TEST

START_TEST(worlds_refused)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL, again = NULL;
    ncclResult_t state;
    ncclUniqueId id, none = {"nothing"};
    int rank;
    ck_assert(ncclGetUniqueId(&id) == ncclSuccess);
    ck_assert(ncclCommInitRank(&comm, 2, id, 2) == ncclInvalidArgument);
    ck_assert(ncclCommInitRank(&comm, 2, none, 0) == ncclInvalidArgument);
    config.blocking = 0;
    ck_assert(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
    for (int i = 0; i < 10; i++) { /* rank 1 never comes */
        ck_assert(ncclCommGetAsyncError(comm, &state) == 0 && state == ncclInProgress);
        sleep_ms(1);
    }
    ck_assert(ncclCommUserRank(comm, &rank) == ncclInvalidArgument);
    ck_assert(ncclCommInitRankConfig(&again, 2, id, 0, &config) == ncclInProgress);
    ck_assert(nccl_settle(again) == ncclInvalidArgument); /* a rank twice */
    ck_assert(ncclCommAbort(again) == ncclSuccess);
    ck_assert(ncclCommAbort(comm) == ncclSuccess);
    ck_assert(ncclCommAbort(comm) == ncclInvalidArgument);
    ck_assert(ncclGetUniqueId(&id) == ncclSuccess);
    ck_assert(ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess);
    ck_assert(ncclCommInitRank(&again, 1, id, 0) == ncclSystemError); /* an id twice */
    ck_assert(ncclCommDestroy(comm) == ncclSuccess);
    config.magic = 1;
    ck_assert(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInvalidArgument);
}
END_TEST

START_TEST(calls_refused)
{
    ncclComm_t comm = NULL;
    ncclUniqueId id;
    int32_t here[some] = {0};
    ck_assert(ncclGetUniqueId(&id) == ncclSuccess);
    ck_assert(ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess);
    cudaStream_t stream = nccl_stream();
    int32_t *at = ints(1);
    ck_assert(sum(here, some, comm, stream) == ncclInvalidArgument);
    ck_assert(sum(at, some + 1, comm, stream) == ncclInvalidArgument);
    ck_assert(ncclAllReduce(at, at, some, ncclInt32, ncclProd, comm, stream) ==
              ncclInvalidArgument);
    ck_assert(ncclSend(at, some, ncclInt32, 1, comm, stream) == ncclInvalidArgument);
    ck_assert(ncclBroadcast(at, at, some, ncclInt32, -1, comm, stream) ==
              ncclInvalidArgument);
    ck_assert(ncclGroupEnd() == ncclInvalidUsage);
    /* A group with a wrong call does nothing. */
    ck_assert(ncclGroupStart() == ncclSuccess);
    ck_assert(ncclSend(at, some, ncclInt32, 0, comm, stream) == ncclSuccess);
    ck_assert(ncclRecv(here, some, ncclInt32, 0, comm, stream) == ncclInvalidArgument);
    ck_assert(ncclGroupEnd() == ncclInvalidArgument);
    ck_assert(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == 0);
    ck_assert(sum(at, some, comm, stream) == ncclInvalidArgument);
    cudaGraph_t graph;
    ck_assert(cudaStreamEndCapture(stream, &graph) == 0 &&
              cudaGraphDestroy(graph) == 0);
    ck_assert(are(stream, at, 1));
    ck_assert(ncclCommFinalize(comm) == ncclSuccess);
    ck_assert(sum(at, some, comm, stream) == ncclInvalidArgument);
    ck_assert(ncclCommDestroy(comm) == ncclSuccess);
    ck_assert(ncclCommDestroy(comm) == ncclInvalidArgument);
    end(stream, NULL, at);
}
END_TEST

/* ---- faults on request ---- */

START_TEST(versions)
{
    int version = 0;
    ck_assert(ncclGetVersion(&version) == ncclSuccess && version == NCCL_VERSION_CODE);
    setenv("CADRE_HOST_NCCL_VERSION", "21805", 1);
    ck_assert(ncclGetVersion(&version) == ncclSuccess && version == 21805);
    for (int i = 0; i < ncclNumResults; i++)
        ck_assert_str_ne(ncclGetErrorString(i), "unknown result code");
    ck_assert_str_eq(ncclGetErrorString(ncclNumResults), "unknown result code");
}
END_TEST

START_TEST(fault_of_init)
{
    ncclComm_t comm = NULL;
    ncclUniqueId id;
    setenv("CADRE_HOST_NCCL_FAIL", "init", 1);
    ck_assert(ncclGetUniqueId(&id) == ncclSuccess);
    ck_assert(ncclCommInitRank(&comm, 1, id, 0) == ncclSystemError && !comm);
}
END_TEST

/* Rank 1's second operation fails; rank 0 only sees that it does not end. */
static void faulty(const struct nccl_rank *r)
{
    ncclComm_t comm = nccl_world(r, 1);
    cudaStream_t stream = nccl_stream();
    int32_t *at = ints(1);
    must(sum(at, some, comm, stream) == 0 && are(stream, at, 2));
    must(sum(at, some, comm, stream) == 0);
    cudaEvent_t event = behind(stream);
    if (r->rank == 0)
        hangs(comm, event);
    for (ncclResult_t state = ncclSuccess; r->rank == 1 && state == ncclSuccess;) {
        must(cudaEventQuery(event) == cudaErrorNotReady);
        must(ncclCommGetAsyncError(comm, &state) == 0);
        must(state == ncclSuccess || state == ncclRemoteError);
    }
    must(r->rank == 0 || sum(at, some, comm, stream) == ncclRemoteError);
    must(ncclCommAbort(comm) == ncclSuccess);
    end(stream, event, at);
}

START_TEST(fault_of_operation)
{
    setenv("CADRE_HOST_NCCL_FAIL", "async", 1);
    setenv("CADRE_HOST_NCCL_FAIL_AT", "2", 1);
    setenv("CADRE_HOST_NCCL_FAIL_RANK", "1", 1);
    nccl_run(2, _i, faulty, NULL);
}
END_TEST

static void prepare(void)
{
    setenv("CADRE_STANDIN_DEVICES", "4", 1);
}

Suite *test_suite(void)
{
    Suite *s = suite_create("nccl's stand-in: order and faults");
    TCase *t = tcase_create("faults");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, prepare, NULL);
    tcase_add_test(t, runs_late);
    tcase_add_test(t, runs_in_order);
    tcase_add_loop_test(t, runs_in_the_background, 0, 2);
    tcase_add_test(t, one_asks);
    tcase_add_test(t, runs_without_queries);
    tcase_add_test(t, abort_of_one);
    tcase_add_test(t, death_of_one);
    tcase_add_loop_test(t, unequal_hangs, 0, 2);
    tcase_add_loop_test(t, duplicates, 0, 4);
    tcase_add_test(t, duplicates_of_hosts);
    tcase_add_test(t, worlds_refused);
    tcase_add_test(t, calls_refused);
    tcase_add_test(t, versions);
    tcase_add_test(t, fault_of_init);
    tcase_add_loop_test(t, fault_of_operation, 0, 2);
    suite_add_tcase(s, t);
    return s;
}
