/* SPDX-License-Identifier: Apache-2.0 */
/* What a step leaves on the device (losses, the norm and the factor of its gradients),
 * and how it comes to the host. Where ops are queued it is read one step late, so that
 * the device always has work; two places take turns. */
#ifndef CADRE_STRATEGY_RESULTS_H
#define CADRE_STRATEGY_RESULTS_H

#include "core/strategy/rank.h"

/* Allocate, after the slices are known. Errors: CADRE_E_RESOURCE, said. */
cadre_status cadre_results_init(struct cadre_rank *rank, struct cadre_error *err);
void cadre_results_fini(struct cadre_rank *rank);

/* Planned bytes of the same, noted in `ledger`. */
void cadre_results_note(const struct cadre_rank *rank, struct cadre_ledger *ledger);

/* Is a step's report given by the next? Not under fp16, whose next step needs to know
 * whether this one overflowed. */
bool cadre_results_late(const struct cadre_rank *rank);

/* The place of a step. */
struct cadre_result *cadre_result_of(struct cadre_rank *rank, uint64_t step);

/* The chunks of this rank's replica in a place: where it trains apart, its own block.
 */
double *cadre_result_chunks(const struct cadre_rank *rank,
                            const struct cadre_result *result);

/* Bring a step's losses, or its norm, into the place, and wait. */
cadre_status cadre_result_read_losses(struct cadre_rank *rank,
                                      struct cadre_result *result);
cadre_status cadre_result_read_norm(struct cadre_rank *rank,
                                    struct cadre_result *result);

/* [stream] Let both come into the place; result->done is when they have. */
cadre_status cadre_result_download(struct cadre_rank *rank,
                                   struct cadre_result *result);

/* [collective: world] The mean loss of a place's step over every rank's micro-batches;
 * of a place that nothing waits in, none. With `votes` also those of this step, and
 * when the ranks were at work in it: one exchange for all. Errors: CADRE_E_NUMERIC
 * names step and micro-batch. */
cadre_status cadre_result_losses(struct cadre_rank *rank,
                                 const struct cadre_result *result, bool votes,
                                 struct cadre_step_report *report);

/* The norm of a place's step is finite, and its report complete. Under fp16 a norm that
 * is not finite is an overflow, and the loss scale changes. Errors: CADRE_E_NUMERIC
 * names step and parameter. */
cadre_status cadre_result_finish(struct cadre_rank *rank, struct cadre_result *result,
                                 struct cadre_step_report *report);

#endif
