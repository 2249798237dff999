/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of several ranks, each a thread of the test, with plugins as they were built and
 * one that is functions of the test. Failures end the test. */
#ifndef CADRE_TESTS_THREAD_RUN_H
#define CADRE_TESTS_THREAD_RUN_H

#include "tests/train/spec_fixture.h"

enum { THREAD_RANKS = 8, THREAD_STEPS = 16 };

struct thread_run {
    struct spec_fixture *fixture;
    int steps;
    /* A plugin of role INTRA beside the stack; NULL: none. Each rank has an instance;
     * `plan` says which rank it is of. */
    const struct cadre_strategy_ops *probe;
    /* An optimizer in place of optim.name's; NULL: none. Likewise. */
    const struct cadre_strategy_ops *optimizer;
    /* On the rank's thread, after each step; NULL: nothing. */
    void (*each)(struct cadre_rank *rank, int step);
    /* out */
    int ranks;
    double loss[THREAD_STEPS + 1], norm[THREAD_STEPS + 1]; /* by step, of rank 0 */
    struct cadre_error err;
    /* inside */
    struct cadre_spec *spec;
    struct cadre_plugin_handle handle[2];
};

/* Train with the assignments in `sets`, as spec_fixture_make takes them. The status is
 * of the first rank that failed, with its text in run->err. */
cadre_status thread_run_try(struct thread_run *run, const char *sets);
/* The same; it must go well. */
void thread_run(struct thread_run *run, const char *sets);

/* Have two runs the same losses and norms, bit for bit, in every step? */
bool thread_runs_same(const struct thread_run *a, const struct thread_run *b);
/* Bytes that a rank has sent along an axis so far; 0 where there is none of that name.
 * For `each`: operations that are in flight then count in part. */
double thread_run_bytes(struct cadre_rank *rank, const char *axis);

/* The largest difference of their losses. */
double thread_runs_differ(const struct thread_run *a, const struct thread_run *b);

#endif
