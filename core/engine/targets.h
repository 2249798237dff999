/* SPDX-License-Identifier: Apache-2.0 */
/* How many targets a step's loss is the mean over: all of the global batch, or those
 * that the data does not mask. Every rank counts those of all ranks, from the samples'
 * indices alone. */
#ifndef CADRE_ENGINE_TARGETS_H
#define CADRE_ENGINE_TARGETS_H

#include "core/engine/rank.h"

/* Of step `step` (from 1), all ranks together; at least 1, so that a step whose targets
 * are all masked has the loss 0. */
double cadre_targets_of_step(const struct cadre_rank *rank, uint64_t step);

/* The same for the loss seed: where replicas diverge each has a loss of its own, and an
 * equal part of the targets. */
double cadre_targets_of_seed(const struct cadre_rank *rank, uint64_t step);

#endif
