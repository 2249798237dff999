/* SPDX-License-Identifier: Apache-2.0 */
/* Micro-batches in proportion to the speed of the data ranks (balance.micro_batches):
 * what the option says, and how a step's micro-batches are dealt. All here are
 * functions of their arguments, so that every rank comes to the same division.
 *
 * Deal: each rank has one micro-batch; each further one goes to the rank that would
 * have finished it first. For jobs of one size this makes the longest rank as short as
 * it can be, and it is the method of highest averages (D'Hondt): no rank gets less than
 * its share rounded down. Source: Balinski and Young, Fair Representation, 1982. */
#ifndef CADRE_ENGINE_LAYOUT_DIVISION_H
#define CADRE_ENGINE_LAYOUT_DIVISION_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

enum cadre_division_kind {
    CADRE_DIVISION_OFF,
    CADRE_DIVISION_SHARES, /* given, from certain steps on */
    CADRE_DIVISION_MEASURED,
};

#define CADRE_MAX_DEALS 64

struct cadre_division {
    enum cadre_division_kind kind;
    const char *text; /* the option's value; borrowed */
    double limit; /* balance.limit */
    int n_deals, n_shares; /* of SHARES; shares of each deal */
    uint64_t from[CADRE_MAX_DEALS]; /* the first step of each, ascending from 1 */
    double *share; /* (n_deals, n_shares), above 0 */
};

/* "off", "measured", or "2, 1" for each data rank in turn; " / STEP: 1, 1" gives the
 * shares from another step on. `text` is borrowed. On failure nothing is left. Errors:
 * CADRE_E_INVALID, CADRE_E_RESOURCE. */
cadre_status cadre_division_init(struct cadre_division *division, const char *text,
                                 double limit, struct cadre_error *err);
/* Accepts a zeroed one. */
void cadre_division_fini(struct cadre_division *division);

/* May ranks have other micro-batches in another step? */
bool cadre_division_changes(const struct cadre_division *division);

/* Most micro-batches of one of n ranks in any step, of m in all: where they may change,
 * what memory is planned for. */
int64_t cadre_division_most(const struct cadre_division *division, int64_t m, int n);

/* first (n + 1): rank r runs [first[r], first[r + 1]) of the m micro-batches of `step`
 * (from 1), equally many where they are measured. Errors: CADRE_E_INVALID fewer
 * micro-batches than ranks, another number of shares than ranks. */
cadre_status cadre_division_at(const struct cadre_division *division, uint64_t step,
                               int64_t m, int n, uint64_t *first,
                               struct cadre_error *err);

/* Deal m micro-batches to n <= m ranks by their speeds (n), above 0, none of them more
 * than `most` (n x most >= m); among equals the first rank is first. first (n + 1). */
void cadre_division_deal(const double *speed, int n, int64_t m, int64_t most,
                         uint64_t *first);

/* At most this many nodes of the reduction tree are `most` or fewer consecutive
 * micro-batches, and their levels are below this number. */
int cadre_division_nodes(int64_t most);
int cadre_division_levels(int64_t most);

#endif
