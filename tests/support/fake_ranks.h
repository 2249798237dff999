/* SPDX-License-Identifier: Apache-2.0 */
/* Several ranks of one plugin, each a fake host on a thread with a CPU device. A
 * collective is computed when all ranks have posted it; its result is written when it
 * is waited for, not before. A buffer that is touched while it is in flight fails the
 * test, as do ranks that post different operations. Failures end the test. */
#ifndef CADRE_TESTS_FAKE_RANKS_H
#define CADRE_TESTS_FAKE_RANKS_H

#include <pthread.h>

#include "tests/support/fake_host.h"

struct fake_ranks {
    int n;
    struct fake_host rank[FAKE_RANKS]; /* the first one's settings hold for all */
    cadre_status status[FAKE_RANKS];
    uint64_t
        bytes[FAKE_RANKS]; /* sent in a step, by the formulas of core/comm/comm.h */
    pthread_barrier_t barrier;
};

/* n ranks of fake_init. */
void fake_ranks_init(struct fake_ranks *all, const struct cadre_strategy_ops *ops,
                     int n, uint32_t n_entries);
void fake_ranks_fini(struct fake_ranks *all);

/* fake_start on every rank; the status of the first failure. */
cadre_status fake_ranks_start(struct fake_ranks *all);
void fake_ranks_stop(struct fake_ranks *all);

/* One step on every rank, to the end of sync(GRADS). */
void fake_ranks_step(struct fake_ranks *all);

/* Do all ranks have the same bits in every gradient, padding included? */
bool fake_ranks_same(const struct fake_ranks *all);

#endif
