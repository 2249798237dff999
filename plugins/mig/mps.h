/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA MPS: whether its control daemon runs. Nothing here starts or ends one. */
#ifndef CADRE_PLUGINS_MIG_MPS_H
#define CADRE_PLUGINS_MIG_MPS_H

#include <stdbool.h>
#include <stddef.h>

/* A folder without a daemon: a client that looks for one here runs without MPS, as
 * CUDA says of a daemon that it cannot reach. */
#define MIG_MPS_NOWHERE "/nonexistent/cadre-without-mps"

/* [main] Asks the daemon by nvidia-cuda-mps-control, which finds it by
 * CUDA_MPS_PIPE_DIRECTORY as the clients do, and waits for the answer, 10 s at most.
 * False: `why` (of `size` bytes) says in one line what is missing. */
bool mig_mps_runs(char *why, size_t size);

#endif
