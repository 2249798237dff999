/* SPDX-License-Identifier: Apache-2.0 */
/* Run folders as train leaves them, made by hand, and comparisons over them. A failure
 * ends the test. */
#ifndef CADRE_TESTS_EXPERIMENT_FIXTURE_H
#define CADRE_TESTS_EXPERIMENT_FIXTURE_H

#include "core/experiment/comparison.h"

enum { FIXTURE_PARAMS = 6 };

struct fixture_run {
    const char *name;
    int ranks; /* 0: 1 */
    int steps; /* 0: 6 */
    double step_s; /* 0: 0.1; the first two steps take ten times as long */
    double loss_shift; /* added to every loss */
    double norm_factor; /* of every gradient norm; 0: 1 */
    double param_shift; /* added to the second parameter, rounded to fp32 */
    double state_shift; /* added to its exp_avg, likewise */
    int nan_step; /* its loss is null; 0: none */
    bool no_checkpoint;
    bool exact;
    const char *sums; /* NULL: "" */
    const char *changed_by; /* NULL: "" */
    bool apart;
};

/* Make DIR/NAME; returns its path, which the caller frees. */
char *fixture_make(const char *dir, const struct fixture_run *run);

/* A comparison of the runs, the first the baseline, on 4 cores with a warm-up of 2
 * steps, not judged. perturbation: three runs like it set limits; NULL for none. */
void fixture_compare(const char *dir, const struct fixture_run *runs, size_t n,
                     const struct fixture_run *perturbation,
                     struct cadre_comparison *comparison);

/* The same, judged. */
void fixture_judge(const char *dir, const struct fixture_run *runs, size_t n,
                   const struct fixture_run *perturbation,
                   struct cadre_comparison *comparison);

/* Write a text file DIR/NAME. */
void fixture_write(const char *dir, const char *name, const char *text);

/* Write a model.safetensors of one fp32 tensor "w" (2, 3) at `path`. */
void fixture_model(const char *path, const float values[FIXTURE_PARAMS]);

/* Write an optimizer.safetensors with the states of "w": exp_avg as the values, the
 * second moved by `shift`, and exp_avg_sq as the values. */
void fixture_states(const char *path, const float values[FIXTURE_PARAMS], double shift);

#endif
