/* SPDX-License-Identifier: Apache-2.0 */
/* Progress on stderr while a run trains: a bar on a terminal, else a plain line every
 * log.every steps. */
#ifndef CADRE_TRAIN_PROGRESS_H
#define CADRE_TRAIN_PROGRESS_H

#include "core/run/metrics.h"

struct cadre_progress {
    const struct cadre_spec *spec;
    bool bar;
    int64_t first_step, last_step, every;
    double start_s;
};

/* Start at step `first_step` (steps done before this process), to end at `last_step`.
 * log.progress says whether a bar is drawn: auto draws one when stderr is a terminal.
 */
void cadre_progress_init(struct cadre_progress *progress, const struct cadre_spec *spec,
                         int64_t first_step, int64_t last_step);

/* A step is done. */
void cadre_progress_step(struct cadre_progress *progress, int64_t step,
                         const struct cadre_step_report *report,
                         const struct cadre_valid_result *valid);

/* Remove the bar. */
void cadre_progress_fini(struct cadre_progress *progress);

#endif
