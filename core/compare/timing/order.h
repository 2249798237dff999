/* SPDX-License-Identifier: Apache-2.0 */
/* How pieces are ordered: in a round every run has two, in an order drawn at random for
 * the round and then in its mirror (a c b | b c a), so that a linear drift of the
 * machine cancels in every pair, and so that exchanging two runs is as likely as not:
 * the randomisation that makes the tests of speed.h exact. [any thread] */
#ifndef CADRE_COMPARE_TIMING_ORDER_H
#define CADRE_COMPARE_TIMING_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CADRE_ROUNDS_LEAST = 6, /* below it nothing is ranked */
    CADRE_ROUNDS_DEFAULT = 8,
};

/* Rounds n that Holm's procedure needs so that one of `runs` timed runs can be told
 * from all others: 2^(1-n) <= alpha / (runs - 1), and 6 at least. */
int cadre_rounds_needed(size_t runs, double alpha);

/* Rounds of a comparison: 8, or those that are needed. */
int cadre_rounds_wanted(size_t runs, double alpha);

/* The runs of round `round` in their order: 2 n indices with mirror, else n. `seed` is
 * the comparison's. */
void cadre_round_order(uint64_t seed, int round, size_t n, bool mirror, size_t *order);

#endif
