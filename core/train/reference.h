/* SPDX-License-Identifier: Apache-2.0 */
/* What the reference of tune.method = dpo gives, found before the first step. */
#ifndef CADRE_TRAIN_REFERENCE_H
#define CADRE_TRAIN_REFERENCE_H

#include "core/run/spec.h"

/* [collective: world, drained] The log-probabilities of the samples of steps
 * (first_step, last_step], and of `eval_batches` validation batches (negative: none),
 * by forward passes through the schedule under the parameters that the rank holds,
 * without adapters. A sample is measured in the micro-batch where it comes first in the
 * whole run, so what is found does not depend on where a run was resumed. Nothing
 * without pairs. Errors: those of cadre_rank_step and of reading samples. */
cadre_status cadre_reference_measure(struct cadre_rank *rank,
                                     const struct cadre_spec *spec, int64_t first_step,
                                     int64_t last_step, int64_t eval_batches,
                                     struct cadre_error *err);

#endif
