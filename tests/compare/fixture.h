/* SPDX-License-Identifier: Apache-2.0 */
/* Run folders as train writes them, made by hand, and comparisons over them. A failure
 * ends the test. */
#ifndef CADRE_TESTS_EXPERIMENT_FIXTURE_H
#define CADRE_TESTS_EXPERIMENT_FIXTURE_H

#include "core/compare/verdict/comparison.h"

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
    int skipped_step; /* its norm is null, as where fp16 overflowed; 0: none */
    double coarse; /* eps of a 16-bit precision, 0 for none */
    bool no_checkpoint;
    bool exact;
    const char *sums; /* NULL: "" */
    const char *changed_by; /* NULL: "" */
    bool diverging;
    const char *algorithms; /* of its GEMMs, by "lib 1"; NULL: it does not say */
    bool passes; /* leaves FIXTURE_PASSES */
    const char *site; /* more of its summary: where it ran; NULL: it does not say */
    int instances; /* each as the rest says, but that losses of instance k are k lower;
                      the last is the best; 0: it is one run */
};

/* passes.json of two pipelines of two stages, GPipe with two micro-batches, forward 1 s
 * and backward 2 s; the first is ranks 0 and 2. */
#define FIXTURE_CHUNK(begin, end)                                                      \
    "\"chunks\": [{\"begin\": " #begin ", \"end\": " #end                              \
    ", \"forward_s\": 1, \"backward_s\": 2, \"input_s\": 0, \"weight_s\": 0}]"
#define FIXTURE_FIRST                                                                  \
    FIXTURE_CHUNK(0, 2)                                                                \
    ", \"passes\": [[\"F\", 0, 0, 0, 1], [\"F\", 0, 1, 1, 2], "                        \
    "[\"B\", 0, 0, 5.5, 7.5], [\"B\", 0, 1, 7.5, 9.5]]}"
#define FIXTURE_SECOND                                                                 \
    FIXTURE_CHUNK(2, 4)                                                                \
    ", \"passes\": [[\"F\", 0, 0, 1, 2], [\"F\", 0, 1, 2, 3], "                        \
    "[\"B\", 0, 0, 3, 5], [\"B\", 0, 1, 5, 7]]}"
#define FIXTURE_PASSES                                                                 \
    "{\"step\": 9, \"span_s\": 9.5, \"ranks\": [{\"rank\": 0, \"group\": 0, "          \
    "\"index\": 0, " FIXTURE_FIRST                                                     \
    ", {\"rank\": 1, \"group\": 1, \"index\": 0, " FIXTURE_FIRST                       \
    ", {\"rank\": 2, \"group\": 0, \"index\": 1, " FIXTURE_SECOND                      \
    ", {\"rank\": 3, \"group\": 1, \"index\": 1, " FIXTURE_SECOND "]}"

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

/* The value of the last `--set KEY=VALUE` among the arguments of `cadre train`; NULL:
 * none. */
const char *fixture_set(int argc, char **argv, const char *key);

/* Be a `cadre train` with bench.steps or bench.target: make the folder and leave a
 * bench.json whose steps took `step_s` each, ten of them to the target, and 0.01 s to
 * start; below 0 the target is not reached. Half of a step is compute, an eighth waits
 * for samples, a quarter is exposed on "dp". Returns its exit status, -1 where the
 * arguments ask for no benchmark. No assertions: for children. */
int fixture_bench(int argc, char **argv, const char *folder, double step_s);

/* Write a text file DIR/NAME. */
void fixture_write(const char *dir, const char *name, const char *text);

/* Write a model.safetensors of one fp32 tensor "w" (2, 3) at `path`. */
void fixture_model(const char *path, const float values[FIXTURE_PARAMS]);

/* Write an optimizer.safetensors with the states of "w": exp_avg as the values, the
 * second moved by `shift`, and exp_avg_sq as the values. */
void fixture_states(const char *path, const float values[FIXTURE_PARAMS], double shift);

#endif
