/* SPDX-License-Identifier: Apache-2.0 */
/* Equality of the runs of a comparison; comparison.h says by which rules. */
#ifndef CADRE_COMPARE_VERDICT_JUDGE_H
#define CADRE_COMPARE_VERDICT_JUDGE_H

#include "core/compare/verdict/comparison.h"

/* Fill the verdicts, margins, hashes and diffs of every run, and what limits come from.
 * Reads the checkpoints. [main] Errors: as cadre_param_diff. */
cadre_status cadre_judge(struct cadre_comparison *comparison, struct cadre_error *err);

/* Diffs of the states of `record` from those of `reference`; the hashes are those of
 * `record`. A state that neither has is alike. Errors: as cadre_param_diff. */
cadre_status cadre_judge_states(const struct cadre_record *record,
                                const struct cadre_record *reference,
                                struct cadre_state_diffs *out, struct cadre_error *err);

/* The hash of a run's chain and its states' hashes, in this order: two runs have the
 * same one where all is the same. */
uint64_t cadre_judge_digest(uint64_t chain, const struct cadre_state_diffs *states);

#endif
