/* SPDX-License-Identifier: Apache-2.0 */
/* What may be said of the speed of runs, from their pieces alone.
 *
 * Of a round, T of a run is the geometric mean of its pieces (two, or one a start), and
 * d = log(T_a / T_b) compares two runs: both ran at the same time, each in the other's
 * place as often. Figures are the Hodges-Lehmann median over the rounds, intervals the
 * exact signed-rank ones at 95 %. The logarithm of the two pieces' ratio is the round's
 * control: the same program twice, so all of it is the machine.
 *
 * A round is disturbed, whatever its ratios say, where other processes and the
 * hypervisor took more than 5 % of a core in a piece, or a control lies further than 3
 * MAD (as standard deviations) from those of the other rounds, of its run as of all
 * runs, and further than the margin, or other processes were on a GPU. If controls do
 * so in more than a third of the rounds they are no outliers but the noise that the
 * intervals have in them, and disturb nothing. Every verdict is made with and without
 * the disturbed rounds; where the two differ, no difference was shown. Fewer than six
 * rounds that are not disturbed: not ranked. So a false alarm needs one of the exact
 * test of all rounds, whatever is taken for disturbed. Where the undisturbed ones are
 * too few for Holm's correction to reject at all they are asked for each pair by
 * itself, at 5 %.
 *
 * With fewer than six undisturbed rounds a verdict is still made where the load of CPUs
 * cannot explain it. A process that was busy for a share f of a piece's timed steps
 * held them up for f at most, so that without it they take at least (1 - f) of their
 * time. In every disturbed round the slower run's time is multiplied by (1 - f)^2 and
 * by the root of its faster piece over its slower one. What all rounds show after Holm
 * and in spite of that is told, with intervals of speedup that are wider by as much,
 * and no others; all else is not ranked and has no intervals. On GPUs nothing is told
 * so.
 *
 * Load may follow one run, also where it disturbs no round. Where more of it was shown
 * to come with the slower run of a pair (the signed-rank test on its shares of the
 * timed steps), what it had more in a round is given back to it in the same way, and
 * the interval of the speedup reaches as much further.
 *
 * Against the baseline a run is faster or slower if the interval of its speedup lies
 * beyond the margin, after Holm over all runs. A run is the fastest if it is faster
 * than every other one, after Holm; else those that cannot be told from the one with
 * the least time are the leading set. [any thread, deterministic] */
#ifndef CADRE_COMPARE_TIMING_SPEED_H
#define CADRE_COMPARE_TIMING_SPEED_H

#include <stdbool.h>

#include "core/compare/timing/piece.h"
#include "core/compare/timing/signed_rank.h"

#define CADRE_SPEED_ALPHA 0.05
#define CADRE_SPEED_FOREIGN 0.05 /* of a core, in a piece */
#define CADRE_SPEED_CONTROL_MADS 3.0

enum cadre_speed_verdict {
    CADRE_SPEED_NOT_RANKED,
    CADRE_SPEED_NO_DIFFERENCE, /* none shown */
    CADRE_SPEED_FASTER,
    CADRE_SPEED_SLOWER,
};

struct cadre_speed_input {
    const struct cadre_piece *piece; /* in any order; warm-up is left out */
    size_t n_pieces;
    size_t n_runs, baseline; /* a run without pieces is not ranked; without the
                                baseline's only `fastest` and `leading` are judged */
    const double *ideal; /* N of each run, for overhead; NULL: 1 */
    double margin; /* 0.01: smaller differences are none */
    bool undisturbed; /* nothing is told despite load */
};

/* Of one run. Intervals without a single round are NaN. */
struct cadre_speed_run {
    struct cadre_interval period_s;
    struct cadre_interval speedup; /* T of the baseline / T; 1 for the baseline */
    struct cadre_interval overhead_s; /* T - T of the baseline / N */
    struct cadre_interval bubble_fraction, comm_exposed_s;
    enum cadre_speed_verdict verdict; /* against the baseline, which has NOT_RANKED if
                                         nothing is ranked, else NO_DIFFERENCE */
    double detectable; /* the speedup, above 1, that rounds like these show in about
                          four of five tries; NaN: none, they are too few. NaN for the
                          baseline */
    double control; /* half the middle 95 % of its controls, as a ratio - 1: what the
                       same program differs by from itself */
    int followed; /* by load: 1 it, -1 the baseline, 0 neither was shown to be */
    bool leading; /* in the set that may be the fastest; false where nothing is ranked
                   */
    char why[160]; /* why not ranked, "" otherwise */
};

struct cadre_speed_round {
    int round;
    bool disturbed;
    ptrdiff_t run; /* where it shows most, by index; -1: not disturbed */
    char why[96]; /* "other processes took 31 % of a core", "" if not disturbed */
    double foreign; /* largest share of a core in a piece; NaN: not known */
};

struct cadre_speed {
    struct cadre_speed_run *run; /* n_runs, owned */
    size_t n_runs;
    struct cadre_speed_round *round; /* owned, in order of number, without warm-up */
    size_t n_rounds, n_disturbed;
    ptrdiff_t fastest; /* -1: none was shown */
    bool despite_load; /* verdicts are of few undisturbed rounds, as told above */
};

/* Errors: CADRE_E_INVALID for pieces that are no whole rounds of two (or one) for each
 * timed run, CADRE_E_RESOURCE. */
cadre_status cadre_speed_judge(const struct cadre_speed_input *input,
                               struct cadre_speed *out, struct cadre_error *err);

/* T of run a / T of run b with its interval, of all rounds, and whether a is faster or
 * slower than b, judged as above but for Holm: one question. Runs without pieces: NaN,
 * not ranked. Errors: as above, and CADRE_E_INVALID a or b is no run. */
cadre_status cadre_speed_pair(const struct cadre_speed_input *input, size_t a, size_t b,
                              struct cadre_interval *ratio,
                              enum cadre_speed_verdict *verdict,
                              struct cadre_error *err);

/* "not ranked", "no difference shown", "faster", "slower". */
const char *cadre_speed_verdict_name(enum cadre_speed_verdict verdict);

/* Accepts a zeroed one. */
void cadre_speed_fini(struct cadre_speed *speed);

#endif
