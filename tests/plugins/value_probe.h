/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin of role INTRA, for thread_run, that records the values which a rank updates:
 * before other plugins change them in sync(UPDATE), and after the step. */
#ifndef CADRE_TESTS_VALUE_PROBE_H
#define CADRE_TESTS_VALUE_PROBE_H

#include "tests/plugins/thread_run.h"

/* One after the other; in f64, with the unit of each. */
struct seen_values {
    double *x;
    uint32_t *unit; /* NULL where it was not recorded */
    size_t n;
};

/* Of a rank, by step; 0: at the start. */
struct value_probe {
    struct seen_values step[THREAD_STEPS + 1];
};

/* By rank. INTRA comes before DATA in sync(UPDATE), and in step. */
extern struct value_probe value_probe_before[THREAD_RANKS];
extern struct value_probe value_probe_after[THREAD_RANKS];

extern const struct cadre_strategy_ops value_probe;

/* Free what was recorded, and what another table of THREAD_RANKS has. */
void value_probe_forget(void);
void value_probe_free(struct value_probe *probe);

#endif
