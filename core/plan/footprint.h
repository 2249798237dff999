/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the rank that needs most, by kind. States: ZeRO's Table 1 (Rajbhandari et
 * al. 2019); activations: equations 1 to 6 of Korthikanti et al. 2022, with grouped
 * keys and a gated MLP. What no formula has (workspace, fragmentation, other
 * allocations) is the hardware file's reserve_gib: a footprint is "at least". */
#ifndef CADRE_PLAN_FOOTPRINT_H
#define CADRE_PLAN_FOOTPRINT_H

#include "core/plan/candidate.h"

struct cadre_footprint {
    double weights, gradients, states, activations; /* bytes */
    double total;
};

/* Bytes a parameter: [0] itself, [1] its gradient, [2] its optimizer states. [any
 * thread] */
void cadre_accounting_bytes(enum cadre_accounting accounting,
                            enum cadre_plan_dtype dtype, double out[3]);

/* Bytes of states of `parameters` on each of `ranks` data ranks, at ZeRO stage 0 to 3.
 * [any thread] */
struct cadre_footprint cadre_footprint_states(double parameters, int64_t zero,
                                              int64_t ranks, const double each[3]);

/* What a program keeps of a block besides: scores of attention that is not fused, and
 * the masks of its two dropouts. Cadre's blocks have no dropout. */
struct cadre_kept {
    bool scores, masks;
};

/* Bytes of activations kept for one micro-batch by one block of one rank. [any thread]
 */
double cadre_footprint_block(const struct cadre_transformer *t,
                             const struct cadre_candidate *c, struct cadre_kept keeps);

/* Bytes of blocks' activations of the first stage, which keeps most: as many
 * micro-batches as there are stages, (p - 1) / (p v) more where interleaved, and what
 * the table of plugins/pipeline/README.md says of other schedules. [any thread] */
double cadre_footprint_activations(const struct cadre_transformer *t,
                                   const struct cadre_candidate *c,
                                   struct cadre_kept keeps);

/* All of it. [any thread] */
struct cadre_footprint cadre_footprint(const struct cadre_transformer *t,
                                       const struct cadre_candidate *c,
                                       const struct cadre_hardware *hw);

/* Whether that is in the device's memory without its reserve. [any thread] */
bool cadre_footprint_fits(const struct cadre_footprint *f,
                          const struct cadre_hardware *hw);

#endif
