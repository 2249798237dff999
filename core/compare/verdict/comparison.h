/* SPDX-License-Identifier: Apache-2.0 */
/* A comparison: the options and the results of each run, and what is computed from
 * them: figures and a verdict on equality.
 *
 * Formulas. N is the ranks of the run over the ranks of the baseline (the baseline's
 * own N is 1), T the wall time of a step as the rounds of pieces give it (speed.h).
 * Without pieces it is the median of the record's steps, warm-up left out: a figure
 * without an interval, from which nothing is ranked.
 *     speedup = T_base / T_run    efficiency = speedup / N
 *     overhead = T_run - T_base / N
 *
 * Equality. Five quantities are compared with the baseline's: the loss and the
 * gradient's norm of every step (AdamW hides a wrong factor of the gradient from the
 * losses), and after the last one the parameters and both states of the optimizer.
 *
 * Two runs with run.exact, the same micro-batch and the same reduction signature must
 * have the same bits of all five. Other runs must stay within limits, which are one of:
 *   measured  the baseline is trained K more times (compare.perturbations), each time
 *             the same mathematics with other rounding: with another micro-batch, so
 *             that sums are taken in another order, or from initial parameters moved by
 *             one unit in the last place. The changes are the effect of rounding on
 *             this training. Let S be the largest change of a quantity in these runs
 *             up to step k, and at least half an eps of the value, since no value of
 *             the precision is known better. The limit at step k is F S, where
 *                 F = 2/sqrt(pi) (Gamma((K+1)/2) / (sqrt(pi) alpha))^(1/K)
 *             and alpha = 1e-6: 93 for three runs, 798 for two, 12.5 for six. It bounds
 *             how often a correct run is refused: if the changes x of a step are drawn
 *             from one normal distribution around zero,
 *                 P(|x| > F max |x_i|) = E erf(|x| / (F sqrt 2))^K
 *                                     <= E (sqrt(2/pi) |x| / F)^K = alpha,
 *             because erf(z) <= 2z/sqrt(pi) and E |x|^K = 2^(K/2) Gamma((K+1)/2) /
 *             sqrt(pi). That S is a maximum over steps, and that of a parameter over
 *             elements, makes a refusal rarer still.
 *             A limit above 1 % of a loss or 10 % of a norm shows nothing: training is
 *             chaotic there. From that step on nothing is judged, and the
 *             report names the step. A mistake in the mathematics is larger than the
 *             limits long before, as tests/cli/test_faults.sh shows for ten of them.
 *   stated    at step k, 64 eps k of the value, for the first 10 steps: rounding that
 *             adds up linearly, as it does until training amplifies it; only a
 *             measurement shows how soon that is. In a run of no more steps a parameter
 *             may differ by twice the sum of the learning rates, since AdamW moves by
 *             about one of them a step whatever the gradient's size, also where the
 *             true gradient is zero and all of it is rounding. The optimizer's states
 *             are not judged. Under bf16 and fp16 it is k times their own eps: every
 *             operation rounds so, and a loss is the mean of many.
 *
 * A run that differs from the baseline in run.seed alone is another training. Runs with
 * that seed are judged against the one of them that has the baseline's other options:
 * by bits likewise, else by the limits that were measured with the baseline's seed,
 * since rounding acts on the same training from another start.
 *
 * If the baseline does not promise bits, runs that promise each other the same bits
 * must be within limits of it, and have the bits of the first of them.
 *
 * A strategy may change training by design (it says so in its plan): its run, and every
 * run with such a baseline, is judged like others, but a difference is no fault. It
 * names a setting under which it must not differ; that is trained beside `single` and
 * judged by a comparison of its own, and a difference there is a fault.
 * Norms are not judged where replicas diverge, each with its own.
 *
 * A run of independent runs (see sweep.h) is independent: it is several trainings, and
 * none of them is compared with anything. Its T is the time of all instances together
 * for the tokens of the baseline's step, so its speedup is the ratio of tokens per
 * second; its losses are those of its best instance. A comparison that contains one
 * compares the machine: on CPUs with device.threads = 0 every run takes all cores, as
 * it does alone, and N is 1.
 *
 * The price of exact mode is T of an exact run over T of the run with the same setup
 * without exact mode, minus 1. */
#ifndef CADRE_COMPARE_VERDICT_COMPARISON_H
#define CADRE_COMPARE_VERDICT_COMPARISON_H

#include <stdbool.h>
#include <stdint.h>

#include "core/compare/timing/speed.h"
#include "core/compare/verdict/param_diff.h"
#include "core/compare/verdict/replay.h"
#include "core/config/options.h"
#include "core/engine/rank.h"
#include "core/run/record.h"
#include "core/run/parts_of_step.h"

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
    CADRE_LIMIT_NONE, /* independent: nothing is compared */
};

/* A difference against its limit, at the step where it comes nearest to it. */
struct cadre_margin {
    double diff, limit;
    int64_t step;
};

/* Quantities compared with the baseline. The last three are states, of the last step.
 */
enum cadre_quantity {
    CADRE_QUANTITY_LOSS,
    CADRE_QUANTITY_GRAD_NORM,
    CADRE_QUANTITY_PARAM,
    CADRE_QUANTITY_EXP_AVG,
    CADRE_QUANTITY_EXP_AVG_SQ,
    CADRE_QUANTITIES,
};
enum { CADRE_STATES = CADRE_QUANTITIES - CADRE_QUANTITY_PARAM };

/* Diffs of the states, in the order of their quantities. */
struct cadre_state_diffs {
    struct cadre_param_diff of[CADRE_STATES];
};

/* Training under the setting in which a strategy that differs by design must not. */
struct cadre_equal_setting {
    bool judged;
    enum cadre_equal equal; /* to `single` with the same options of the core */
    char why[256]; /* where it differs, or could not be judged; else "" */
};

struct cadre_compared_run {
    /* from the options; filled by the caller, texts owned */
    char *name, *strategy, *layout;
    char *other_training; /* keys that make it another training, "" for none */
    int ranks, threads;
    int instances; /* number of independent runs, 0: a single run */
    bool gpu; /* device.kind is a GPU */
    bool exact, processes, simulated_link, simulated_nodes, simulated_pace;
    char sums[CADRE_SIGNATURE_CHARS]; /* its reduction signature */
    struct cadre_changes changes; /* what its strategies change by design */
    int64_t micro_batch, steps;
    int64_t params; /* of the model, as planned; 0: not known */
    double eps; /* of the precision; of fp32 under bf16 and fp16 */
    double coarse; /* eps of bf16 or fp16, 0 for a wider precision */
    uint64_t setup; /* hash of the options but run.*, bench.* and compare.*; 0: not
                       known */
    uint64_t data; /* fingerprint of the data set */
    struct cadre_options *options; /* resolved; owned, may be NULL */
    /* results of the run; filled by the caller */
    struct cadre_record record; /* of the training that is judged for equality */
    char failure[320]; /* why it has no record, "" if it has one */
    bool failed_page; /* then its folder OUT/runs/NAME has a run.html all the same */
    char untimed[320]; /* why no pieces of it are timed, "" if some are */
    bool lost; /* for a piece of it failed */
    struct cadre_step_parts *parts; /* (n_parts) of its timed pieces but the warm-up's:
                                       fractions of a step; owned */
    size_t n_parts;
    bool to_target; /* it changes training by design: its speedup and verdict are those
                       of the time to a loss */
    double predicted_s; /* a forecast of a step, by the caller; 0: there is none */
    char unpredicted[160]; /* then why, where one was asked for */
    /* computed by cadre_comparison_judge */
    double step_s; /* median of the record's steps: for a plan, never for a verdict */
    double tokens_per_s; /* of the timed pieces, else of the record */
    struct cadre_speed_run speed;
    struct cadre_interval efficiency; /* speedup / N */
    struct cadre_interval target_s; /* time to the target, also the baseline's */
    char implausible[160]; /* a figure that cannot be, "" if there is none */
    double N; /* the ideal speedup */
    double loss_max_diff; /* over all steps, against the baseline */
    struct cadre_margin margin[CADRE_QUANTITIES];
    struct cadre_state_diffs diff;
    uint64_t chain; /* of losses; cadre_record_chain */
    uint64_t digest; /* of the chain and the states' hashes */
    enum cadre_limit_kind limit;
    enum cadre_equal equal;
    struct cadre_replay schedule; /* its passes; owned, n is 0 without a schedule */
    double bubble_replayed; /* bubble fraction of the schedule alone; NaN without one */
    /* of the step in `schedule`: as measured, and its passes replayed */
    double step_bubble, step_replayed;
    ptrdiff_t bit_identical; /* an earlier exact run with the same bits, -1: none */
    bool fair; /* its time is comparable with the baseline's */
    char unfair[256]; /* why not; "" if fair */
    bool by_design; /* it differs, and it or the baseline says it may */
    struct cadre_equal_setting setting; /* of changes.equal; by the caller */
    char why[256]; /* one sentence where equal is differs, else "" */
};

/* Another training of the baseline with other rounding. */
struct cadre_perturbation {
    int64_t micro_batch; /* in place of the baseline's; 0: the same */
    int64_t seed; /* of run.perturb; 0: none */
    struct cadre_record record;
    struct cadre_state_diffs diff; /* from the baseline; by _judge */
};

struct cadre_comparison {
    char *title; /* owned: run.name of the file, or its own name */
    char *command; /* owned: what was called; NULL: not known */
    char *predicted_by; /* owned: the hardware file of forecasts; NULL: none */
    struct cadre_compared_run *run; /* owned */
    size_t n, baseline;
    int cores; /* that this process may use */
    bool whole; /* every run takes all cores: N is 1 */
    int64_t warmup;
    /* timing; filled by the caller */
    struct cadre_piece *piece; /* owned; of all timed runs */
    size_t n_pieces;
    int rounds; /* fixed beforehand; 0: nothing is timed */
    uint64_t order; /* seed of the orders of runs in rounds */
    int attempts; /* at timing before this one, which was stopped or done again */
    bool mirrored; /* two pieces of a run in a round; false: one start of several */
    double margin; /* differences below this fraction are none */
    double target; /* that loss, 0: none */
    struct cadre_piece *target_piece; /* owned; of the baseline and of runs to_target, a
                                         seed a round; period_s is all their time */
    size_t n_target_pieces;
    char unranked[320]; /* why no run is ranked, "" if some may be */
    /* arranged and filled by the caller, owned */
    struct cadre_perturbation *perturbation;
    size_t n_perturbations;
    /* by _judge */
    struct cadre_speed
        speed; /* of all timed runs; run[i].speed is a copy of its part */
    bool measured; /* limits come from the perturbations */
    double factor; /* F, where they do */
    int64_t judged_steps; /* compared with limits, from the first on */
    char note[256]; /* why limits are stated and not measured, "" otherwise */
};

/* Compute every figure and verdict. Reads the checkpoints. All runs and the baseline
 * index must be filled. [main] Errors: as cadre_param_diff. A run that differs is no
 * error here. */
cadre_status cadre_comparison_judge(struct cadre_comparison *comparison,
                                    struct cadre_error *err);

/* Fill fair and unfair of every run, from its record where it has one. */
void cadre_comparison_find_unfair(struct cadre_comparison *comparison);

/* Must run i train the same as the run that it is judged against, cadre_seeds_baseline?
 * That is the baseline, or for another seed the run of that seed with the baseline's
 * options, which itself is compared with nothing. */
bool cadre_compared_same_training(const struct cadre_comparison *comparison, size_t i);

/* Do both promise the same bits: run.exact, the same reduction tree of micro-batches
 * and the same reduction signature? */
bool cadre_compared_same_bits(const struct cadre_compared_run *a,
                              const struct cadre_compared_run *b);

/* Did both use one GEMM library and the same chosen algorithms, as far as known? Runs
 * that did not may have other bits, even with run.exact. */
bool cadre_compared_same_gemm(const struct cadre_compared_run *a,
                              const struct cadre_compared_run *b);

/* Frees what it owns and zeroes it; accepts a zeroed one. */
void cadre_comparison_fini(struct cadre_comparison *comparison);

/* "exact", "within", "differs", "independent". */
const char *cadre_equal_name(enum cadre_equal equal);

/* "bits", "measured", "stated", "none". */
const char *cadre_limit_name(enum cadre_limit_kind kind);

/* "loss", "grad_norm", "param", "exp_avg", "exp_avg_sq". */
const char *cadre_quantity_name(enum cadre_quantity quantity);

/* The file of a checkpoint that holds a state, and the end of its tensors' names. */
const char *cadre_state_file(size_t state);
const char *cadre_state_suffix(size_t state);

/* F for K perturbations. */
double cadre_limit_factor(size_t perturbations);

/* Seconds that the perturbations trained. */
double cadre_comparison_perturbed_s(const struct cadre_comparison *comparison);

/* The price of exact mode of `run`: T of it / T of the run with the same setup without
 * exact mode, minus 1, from the rounds of both; where nothing was timed from the
 * records, without an interval. Returns the index of that other run, -1 if there is
 * none, `run` is not exact, or one of them was not timed while others were. */
ptrdiff_t cadre_comparison_price(const struct cadre_comparison *comparison, size_t run,
                                 struct cadre_interval *price);

/* The steps that the times are taken from, both ends included: after warm-up, to the
 * shortest run's last; all of them where there are no more than warm-up. */
int64_t cadre_comparison_first_step(const struct cadre_comparison *comparison);
int64_t cadre_comparison_last_step(const struct cadre_comparison *comparison);

/* Are limits measured, and does rounding alone take over before the last step? */
bool cadre_comparison_is_chaotic(const struct cadre_comparison *comparison);

/* Is any run one of independent runs? */
bool cadre_comparison_has_instances(const struct cadre_comparison *comparison);

/* All runs fair? Any that differs, and not by design? */
bool cadre_comparison_is_fair(const struct cadre_comparison *comparison);
const struct cadre_compared_run *
cadre_comparison_differing(const struct cadre_comparison *comparison);

#endif
