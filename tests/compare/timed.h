/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of a comparison, made by hand for tests of the report: figures and verdicts
 * are what the test wants, not what is judged. A failure ends the test. */
#ifndef CADRE_TESTS_COMPARE_TIMED_H
#define CADRE_TESTS_COMPARE_TIMED_H

#include "core/compare/verdict/comparison.h"

/* Fill pieces, rounds and the speed of every run: `rounds` mirrored rounds after one
 * of warm-up, run i with a period of step_s (0.1 where there is none), intervals of 2 %
 * to both sides, round 2 disturbed by "other processes". Of a step 60 % is compute,
 * 10 % optimizer, and of several ranks 15 % exposed on dp and 5 % on the world.
 * Verdicts follow the speedups with a margin of 1 %; the fastest fair run is the
 * fastest, and leads. */
void timed_fill(struct cadre_comparison *comparison, int rounds);

/* Set the speedup of a run with its interval and its verdict; nobody is the fastest any
 * more. */
void timed_set(struct cadre_comparison *comparison, size_t run, double low,
               double value, double high, enum cadre_speed_verdict verdict);

/* Make a run one that failed: its record is gone. */
void timed_fail(struct cadre_comparison *comparison, size_t run, const char *why);

/* Take the rounds away again; before cadre_comparison_fini. */
void timed_clear(struct cadre_comparison *comparison);

#endif
