/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of NCCL's stand-in in a test: threads or processes with a device each. */
#ifndef CADRE_TESTS_DEVICE_CUDA_NCCL_TESTING_H
#define CADRE_TESTS_DEVICE_CUDA_NCCL_TESTING_H

#include <pthread.h>
#include <stdbool.h>

#include "tests/support/cuda_host/nccl.h"

#define NCCL_TEST_RANKS 4

struct nccl_rank {
    int rank, size;
    bool process;
    ncclUniqueId id;
    pthread_barrier_t *gate; /* of all ranks, where they are threads */
    const void *arg;
};
typedef void (*nccl_rank_fn)(const struct nccl_rank *r);

/* In a rank, on any thread: end the test's process where the condition is false. */
#define must(holds)                                                                    \
    do {                                                                               \
        if (!(holds))                                                                  \
            nccl_test_fail(__FILE__, __LINE__, #holds);                                \
    } while (0)
_Noreturn void nccl_test_fail(const char *file, int line, const char *what);

/* Run `fn` as each rank, with device `rank` set; the test fails where one does not
 * end. */
void nccl_run(int size, bool processes, nccl_rank_fn fn, const void *arg);

/* The rank's communicator of all; blocking = 0 or 1. */
ncclComm_t nccl_world(const struct nccl_rank *r, int blocking);
/* Poll until nothing is in progress; the error then. */
ncclResult_t nccl_settle(ncclComm_t comm);

/* Device memory with the bytes, or with 0xff for NULL; freed by cudaFree. */
void *nccl_device_bytes(const void *bytes, size_t n);
cudaStream_t nccl_stream(void);
/* Are the device's bytes these? Waits for the stream first. */
bool nccl_device_equal(cudaStream_t stream, const void *at, const void *bytes,
                       size_t n);

#endif
