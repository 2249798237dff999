/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that change training by design are compared by the time to a loss, over seeds: a
 * step of theirs is another step. */
#ifndef CADRE_COMPARE_TARGETS_H
#define CADRE_COMPARE_TARGETS_H

#include "core/compare/pieces.h"

/* Rounds of one start of the baseline and of each run with `to_target`, in a random
 * order, all with run.seed = seed + round, until compare.target is reached; fills the
 * comparison's target_piece. A run that fails or does not reach it in one round is not
 * timed any more; without the baseline none is. [main, watch open]
 * Errors: as cadre_pieces_run. */
cadre_status cadre_targets_measure(const struct cadre_timetable *table,
                                   struct cadre_pieces *pieces,
                                   struct cadre_comparison *comparison,
                                   struct cadre_error *err);

#endif
