/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a run's steps for other programs, beside metrics.jsonl, while it runs:
 * log.tensorboard (tfevents.h) and log.openmetrics (openmetrics.h). By rank 0. */
#ifndef CADRE_EXPORT_EXPORT_H
#define CADRE_EXPORT_EXPORT_H

#include "core/run/metrics.h"

struct cadre_export;

/* Open what the options ask for; first_step: steps done before. `spec` and `rank` are
 * borrowed until close. Errors: CADRE_E_IO, CADRE_E_INVALID where log.openmetrics
 * cannot be written, CADRE_E_RESOURCE. [one thread: rank 0's] */
cadre_status cadre_export_open(const struct cadre_spec *spec,
                               const struct cadre_rank *rank, int64_t first_step,
                               struct cadre_export **out, struct cadre_error *err);

/* A step is done: as cadre_metrics_step. The events are flushed with each step; memory
 * is looked at, and the text replaced, at most once a second. A text that can no longer
 * be written is told once, and ends nothing. Errors: CADRE_E_IO for the events. */
cadre_status cadre_export_step(struct cadre_export *export, int64_t step,
                               const struct cadre_step_report *report,
                               const struct cadre_valid_result *valid,
                               struct cadre_error *err);

/* Replace the text once more, with the last step. Accepts NULL. */
void cadre_export_close(struct cadre_export *export);

#endif
