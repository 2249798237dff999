/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/device/cuda/nccl_testing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/check_main.h"

_Noreturn void nccl_test_fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: does not hold: %s (%s)\n", file, line, what,
            ncclGetLastError(NULL));
    _exit(3);
}

struct started {
    struct nccl_rank rank;
    nccl_rank_fn fn;
};

static void *run_rank(void *arg)
{
    const struct started *s = arg;
    must(cudaSetDevice(s->rank.rank) == cudaSuccess);
    s->fn(&s->rank);
    return NULL;
}

static void run_threads(struct started *all, int size)
{
    pthread_t threads[NCCL_TEST_RANKS];
    pthread_barrier_t gate;
    pthread_barrier_init(&gate, NULL, (unsigned)size);
    for (int r = 0; r < size; r++) {
        all[r].rank.gate = &gate;
        ck_assert_int_eq(pthread_create(&threads[r], NULL, run_rank, &all[r]), 0);
    }
    for (int r = 0; r < size; r++)
        pthread_join(threads[r], NULL);
    pthread_barrier_destroy(&gate);
}

static void run_processes(struct started *all, int size)
{
    pid_t ranks[NCCL_TEST_RANKS];
    bool well = true;
    for (int r = 0; r < size; r++) {
        ranks[r] = fork();
        ck_assert_int_ge(ranks[r], 0);
        if (ranks[r] == 0) {
            run_rank(&all[r]);
            _exit(0);
        }
    }
    for (int left = size; left > 0; left--) {
        int status = 0;
        const pid_t ended = wait(&status);
        for (int r = 0; r < size; r++) {
            if (ended == ranks[r])
                ranks[r] = 0;
            else if (status != 0 && ranks[r] > 0)
                kill(ranks[r], SIGKILL); /* it would wait for a rank that has ended */
        }
        well = well && status == 0;
    }
    ck_assert_msg(well, "a rank did not come to its end");
}

void nccl_run(int size, bool processes, nccl_rank_fn fn, const void *arg)
{
    struct started all[NCCL_TEST_RANKS];
    ncclUniqueId id;
    ck_assert_int_eq(ncclGetUniqueId(&id), ncclSuccess);
    for (int r = 0; r < size; r++)
        all[r] = (struct started){{r, size, processes, id, NULL, arg}, fn};
    if (processes)
        run_processes(all, size);
    else
        run_threads(all, size);
}

ncclComm_t nccl_world(const struct nccl_rank *r, int blocking)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    config.blocking = blocking;
    ncclResult_t rc = ncclCommInitRankConfig(&comm, r->size, r->id, r->rank, &config);
    must(rc == (blocking ? ncclSuccess : ncclInProgress));
    must(blocking || nccl_settle(comm) == ncclSuccess);
    return comm;
}

ncclResult_t nccl_settle(ncclComm_t comm)
{
    const struct timespec moment = {0, 100000};
    for (;;) {
        ncclResult_t state = ncclSuccess;
        must(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
        if (state != ncclInProgress)
            return state;
        nanosleep(&moment, NULL);
    }
}

void *nccl_device_bytes(const void *bytes, size_t n)
{
    void *at = NULL;
    must(cudaMalloc(&at, n) == cudaSuccess);
    must(!bytes || cudaMemcpy(at, bytes, n, cudaMemcpyHostToDevice) == cudaSuccess);
    return at;
}

cudaStream_t nccl_stream(void)
{
    cudaStream_t stream = NULL;
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    return stream;
}

bool nccl_device_equal(cudaStream_t stream, const void *at, const void *bytes, size_t n)
{
    char *got = malloc(n + 1);
    must(got && cudaStreamSynchronize(stream) == cudaSuccess);
    must(cudaMemcpy(got, at, n, cudaMemcpyDeviceToHost) == cudaSuccess);
    const bool equal = memcmp(got, bytes, n) == 0;
    free(got);
    return equal;
}
