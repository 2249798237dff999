/* SPDX-License-Identifier: Apache-2.0 */
/* A run as its ranks' pages would tell it, made up. */
#ifndef CADRE_TESTS_TOP_RUN_FIXTURE_H
#define CADRE_TESTS_TOP_RUN_FIXTURE_H

#include "core/top/snapshot.h"

/* n ranks that train, alive, with `steps` steps of 0.1 s behind them: 60 ms compute, 10
 * ms each of optimizer, exposed communication, waits for ranks and data. Freed by
 * cadre_top_snapshot_fini. */
void run_fixture_make(struct cadre_top_snapshot *s, int n, int steps);

/* Step k of rank r took so much more compute time. */
void run_fixture_slow(struct cadre_top_snapshot *s, int r, int k, double more_s);

#endif
