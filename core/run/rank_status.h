/* SPDX-License-Identifier: Apache-2.0 */
/* The status page of a rank (core/base/rank_page.h) over a run: made before it meets
 * the others, kept of its steps, and left in the run's folder with how it ended. A page
 * that cannot be made is a warning: the run goes on, and nobody sees the rank. [the
 * rank's thread] */
#ifndef CADRE_RUN_RANK_STATUS_H
#define CADRE_RUN_RANK_STATUS_H

#include "core/base/rank_page.h"
#include "core/run/metrics.h"

/* Make rank->page, which cadre_rank_status_close ends. The rank is planned, and has
 * planned `bytes` besides its plan; steps as in struct cadre_train_run. */
void cadre_rank_status_open(struct cadre_rank *rank, const struct cadre_spec *spec,
                            uint64_t bytes, int64_t first_step, int64_t last_step);

/* A step is done: its memory and, where there is a schedule, its passes. */
void cadre_rank_status_step(struct cadre_rank *rank);

/* A step's report has come, and the result of an evaluation with it, if there was one.
 */
void cadre_rank_status_report(struct cadre_rank *rank,
                              const struct cadre_step_report *report,
                              const struct cadre_valid_result *valid);

/* The rank ends with rc, and the text in err where that is an error. */
void cadre_rank_status_end(struct cadre_rank *rank, cadre_status rc,
                           const struct cadre_error *err);

/* After cadre_rank_fini, to which the page is lent. */
void cadre_rank_status_close(struct cadre_rank *rank);

#endif
