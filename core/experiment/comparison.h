/* SPDX-License-Identifier: Apache-2.0 */
/* A comparison: what the options say of each run, what each run left, and what follows
 * from the two: figures and a verdict on equality.
 *
 * Formulas. N is the ranks of the run over the ranks of the baseline (the baseline's
 * own N is 1), T the median wall time of the same steps, warm-up left out; with
 * repeats the median of their medians.
 *     speedup = T_base / T_run    efficiency = speedup / N
 *     overhead = T_run - T_base / N
 *
 * Equality. Runs that both ask for run.exact, with the same micro-batch, must have the
 * same bits: every loss, gradient norm and final parameter. Other runs must stay within
 * limits, which come from one of two places:
 *   measured  the baseline is trained once more with another micro-batch, which is the
 *             same mathematics summed in another order. What that changes is what
 *             rounding does to this model, data and number of steps. At step k the
 *             limit is 100 times the largest difference seen up to k, plus 16 eps of
 *             the value; eps is that of the precision. 100 because two reorderings
 *             start apart by chance and both differences grow from step to step: up
 *             to 17 times was seen, among 18 pairs of runs of ddp on 2 and 4 ranks
 *             with learning rates that make training chaotic. A mistake in the
 *             mathematics (a factor of the world size, a micro-batch left out) is
 *             far larger from the first steps on, in losses or gradient norms. From
 *             the step on where the extra run's loss differs by 0.01 % or its
 *             gradient norm by 0.1 %, training is chaotic, nothing can be told from
 *             rounding, and nothing is judged. The report names that step.
 *   stated    at step k, 64 eps k of the value, for the first 20 steps: rounding that
 *             adds up linearly, as it does until training amplifies it, and how soon
 *             that is only a measurement tells. In a run of no more steps a parameter
 *             may differ by twice the sum of the learning rates, since AdamW moves by
 *             about one of them a step whatever the gradient's size, also where the
 *             true gradient is zero and all of it is rounding.
 * Runs that ask for run.exact beside a baseline that does not are within limits of it,
 * and must have the bits of the first of them with the same micro-batch.
 * Gradient norms are judged beside losses because AdamW hides a wrong factor of the
 * gradient from the losses; but not where replicas train apart, each with its own.
 *
 * A strategy may change training by design (it claims train.changed): its run, and
 * every run beside such a baseline, is judged like others, but to differ is then no
 * fault. */
#ifndef CADRE_EXPERIMENT_COMPARISON_H
#define CADRE_EXPERIMENT_COMPARISON_H

#include <stdbool.h>
#include <stdint.h>

#include "core/experiment/param_diff.h"
#include "core/experiment/record.h"
#include "core/strategy/rank.h"

enum cadre_equal {
    CADRE_EQUAL_EXACT,
    CADRE_EQUAL_WITHIN,
    CADRE_EQUAL_DIFFERS,
    CADRE_EQUAL_INDEPENDENT,
};

enum cadre_limit_kind {
    CADRE_LIMIT_BITS, /* none allowed */
    CADRE_LIMIT_MEASURED,
    CADRE_LIMIT_STATED,
    CADRE_LIMIT_NONE, /* independent: nothing is held against anything */
};

/* A difference against its limit, at the step where it comes nearest to it. */
struct cadre_margin {
    double diff, limit;
    int64_t step;
};

struct cadre_compared_run {
    /* what the options say; filled by the caller, texts owned */
    char *name, *strategy, *layout;
    char *other_training; /* keys that make it another training, "" for none */
    int ranks, threads;
    bool exact, processes, simulated_link;
    char sums[CADRE_SUMS_CHARS]; /* what makes its sums other than single's */
    struct cadre_changes changes; /* what its strategies change by design */
    int64_t micro_batch, steps;
    double eps; /* of the precision */
    /* what it left; filled by the caller */
    struct cadre_record record;
    double *repeat_s; /* median of each repeat after the first; owned */
    size_t repeats; /* in repeat_s */
    /* what follows; filled by cadre_comparison_judge */
    double step_s, tokens_per_s, speedup, efficiency, overhead_s;
    double loss_max_diff; /* over all steps, against the baseline */
    struct cadre_margin loss, grad_norm, param;
    struct cadre_param_diff diff;
    uint64_t loss_chain; /* XXH64 over the losses' bits in the order of steps */
    enum cadre_limit_kind limit;
    enum cadre_equal equal;
    ptrdiff_t twin; /* an earlier exact run with the same bits, -1: none */
    bool fair; /* ranks x threads fit the cores */
    bool by_design; /* it differs, and it or the baseline says it may */
    char why[256]; /* one sentence where equal is differs, else "" */
};

struct cadre_comparison {
    char *title; /* owned: the file's name */
    struct cadre_compared_run *run; /* owned */
    size_t n, baseline;
    int cores; /* that this process may use */
    int64_t warmup;
    bool perturbed; /* `perturbation` holds a run */
    struct cadre_record perturbation;
    int64_t perturbed_micro_batch;
    int64_t judged_steps; /* compared with limits, from the first on; by _judge */
    struct cadre_param_diff perturbed_diff; /* of its parameters; by _judge */
    char note[256]; /* why limits are stated and not measured, "" otherwise */
};

/* Compute every figure and verdict. Reads the checkpoints. All runs and the baseline
 * index must be filled. [main] Errors: as cadre_param_diff. A run that differs is no
 * error here. */
cadre_status cadre_comparison_judge(struct cadre_comparison *comparison,
                                    struct cadre_error *err);

/* Do both promise the same bits? They ask for run.exact, with one tree of micro-batches
 * and the same sums. */
bool cadre_compared_same_bits(const struct cadre_compared_run *a,
                              const struct cadre_compared_run *b);

/* Frees what it owns and zeroes it; accepts a zeroed one. */
void cadre_comparison_fini(struct cadre_comparison *comparison);

/* "exact", "within", "differs", "independent". */
const char *cadre_equal_name(enum cadre_equal equal);

/* "bits", "measured", "stated", "none". */
const char *cadre_limit_name(enum cadre_limit_kind kind);

/* The steps that the times are taken from, both ends included: after warm-up, to the
 * shortest run's last; all of them where there are no more than warm-up. */
int64_t cadre_comparison_first_step(const struct cadre_comparison *comparison);
int64_t cadre_comparison_last_step(const struct cadre_comparison *comparison);

/* Are limits measured, and does rounding alone take over before the last step? */
bool cadre_comparison_is_chaotic(const struct cadre_comparison *comparison);

/* All runs fair? Any that differs, and not by design? */
bool cadre_comparison_is_fair(const struct cadre_comparison *comparison);
const struct cadre_compared_run *
cadre_comparison_differing(const struct cadre_comparison *comparison);

#endif
