/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of threads that run numbered tiles. Any thread may run any tile, so a tile's
 * result may depend on its number only.
 *
 * The caller is worker 0; the others spin for some microseconds after a job, then
 * sleep. They never spin while the pools of this process have more threads than there
 * are cores. One thread at a time uses a pool; several pools may exist. */
#ifndef CADRE_DEVICE_CPU_POOL_H
#define CADRE_DEVICE_CPU_POOL_H

#include <stdint.h>

#include "core/base/error.h"

struct cadre_pool;

typedef void cadre_pool_fn(void *arg, int64_t tile, int worker);

/* Start `threads` - 1 threads (threads >= 1), each of which first calls start (may be
 * NULL). Owned by the caller. Errors: CADRE_E_RESOURCE where threads or memory are not
 * available. */
cadre_status cadre_pool_create(int threads, void (*start)(void),
                               struct cadre_pool **out, struct cadre_error *err);

/* Stop and join the threads. Accepts NULL. No job may be running. */
void cadre_pool_destroy(struct cadre_pool *pool);

int cadre_pool_threads(const struct cadre_pool *pool);

/* Call fn(arg, tile, worker) once for each tile in [0, tiles), worker in [0, threads);
 * one worker runs one tile at a time. Returns when all have run. Signals are blocked
 * until then: no handler runs on any of the threads. */
void cadre_pool_run(struct cadre_pool *pool, int64_t tiles, cadre_pool_fn *fn,
                    void *arg);

#endif
