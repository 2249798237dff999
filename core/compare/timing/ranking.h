/* SPDX-License-Identifier: Apache-2.0 */
/* What rounds say of every pair of runs: a view of them, and the ranking by it, which
 * speed.h makes its verdicts of. [any thread, deterministic] */
#ifndef CADRE_COMPARE_TIMING_RANKING_H
#define CADRE_COMPARE_TIMING_RANKING_H

#include "core/compare/timing/rounds.h"

/* Rounds that are looked at. LESS_TAKEN: all of them, where those that were disturbed
 * count as if the load had been the slower run's alone. */
enum cadre_view_rounds {
    CADRE_VIEW_ALL,
    CADRE_VIEW_UNDISTURBED,
    CADRE_VIEW_LESS_TAKEN
};

struct cadre_view {
    const struct cadre_rounds *rounds;
    const struct cadre_speed_input *input;
    enum cadre_view_rounds which;
    size_t row[CADRE_SIGNED_RANK_MAX], n;
};

/* Errors: CADRE_E_INVALID more rounds than can be judged. */
cadre_status cadre_view_open(struct cadre_view *view, const struct cadre_rounds *rounds,
                             const struct cadre_speed_input *input,
                             enum cadre_view_rounds which, struct cadre_error *err);

/* log(T of a / T of b) of each of the view's n rounds. */
void cadre_view_log_ratios(const struct cadre_view *view, size_t a, size_t b,
                           double *out);

/* All tests are corrected for their number, but where the undisturbed rounds are too
 * few to show anything then: what all rounds show, they must only show again. */
bool cadre_view_is_corrected(const struct cadre_view *view, size_t tests);

/* Was there more load while b was timed than while a was? A test of its own, as single
 * readings are as rough as the kernel's ticks. *taken: how much longer, as a logarithm,
 * the median of b's pieces may have taken for that; 0 where it was not shown. */
cadre_status cadre_view_followed(const struct cadre_view *view, size_t b, size_t a,
                                 double *taken, struct cadre_error *err);

/* Two-sided p-value of "a is not faster than b by more than the margin". Load that was
 * shown to follow b is given back to it. */
cadre_status cadre_view_p_faster(const struct cadre_view *view, size_t a, size_t b,
                                 double *p, struct cadre_error *err);

/* The timed run with the least time, of what it took beside the others of its round. */
cadre_status cadre_view_least(const struct cadre_view *view, size_t *least,
                              struct cadre_error *err);

/* What one view of the rounds says. Arrays of a run each, owned. */
struct cadre_ranking {
    size_t n;
    const struct cadre_view *view;
    double *p; /* [a][b] of "a is faster than b" */
    enum cadre_speed_verdict *verdict;
    bool *leading;
    ptrdiff_t fastest;
    /* of one family of tests */
    double *family;
    bool *reject;
};

/* `least` is the run that the leading set is about. `view` is borrowed until
 * cadre_ranking_fini. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_ranking_init(struct cadre_ranking *ranking,
                                const struct cadre_view *view, size_t least,
                                struct cadre_error *err);

/* Accepts a zeroed one. */
void cadre_ranking_fini(struct cadre_ranking *ranking);

#endif
