/* SPDX-License-Identifier: Apache-2.0 */
/* What a comparison says of speed: from its pieces, judged by timing/speed.h, or from
 * the records alone, which rank nothing. */
#ifndef CADRE_COMPARE_VERDICT_FIGURES_H
#define CADRE_COMPARE_VERDICT_FIGURES_H

#include "core/compare/verdict/comparison.h"

/* Fill N, speed, efficiency, tokens_per_s and implausible of every run, and the
 * comparison's `speed`. Equality is judged, and step_s and bubble_replayed are known.
 *
 * A run that is not timed in a comparison with pieces has no figure of speed. The
 * fastest run and the leading set are of the runs that trained the same and whose
 * figures can be; they are judged among themselves. [main] Errors: those of
 * cadre_speed_judge. */
cadre_status cadre_figures_fill(struct cadre_comparison *comparison,
                                struct cadre_error *err);

/* The pieces of a comparison as speed.h wants them; borrowed. */
struct cadre_speed_input cadre_figures_input(const struct cadre_comparison *comparison);

/* Did it train, and may its speed be compared? */
bool cadre_figures_ranked(const struct cadre_compared_run *run);

/* Did run `exact` take another time than `plain`, disturbed rounds left out too? Not
 * ranked where one of them is not. */
enum cadre_speed_verdict cadre_figures_price(const struct cadre_comparison *comparison,
                                             size_t exact, size_t plain);

/* Are there pieces of this run? */
bool cadre_figures_timed(const struct cadre_comparison *comparison, size_t run);

#endif
