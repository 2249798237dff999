/* SPDX-License-Identifier: Apache-2.0 */
/* From what blocks of small models were measured to take to the parts of a device's
 * rates with which block_cost.h forecasts them. */
#ifndef CADRE_PLAN_BLOCK_FIT_H
#define CADRE_PLAN_BLOCK_FIT_H

#include "core/plan/hardware.h"

/* A GPT-2 block (an MLP of 4 channels) in fp32 on one rank. */
struct cadre_block_sample {
    int64_t channels, heads, time, batch;
    double seconds; /* forward and backward of one micro-batch */
};

/* Set product_efficiency and memory_efficiency of *hw, whose other rates were measured,
 * so that the formula is nearest to `n` samples: the mean of forecast over measured is
 * 1, its variance the least. Peaks that products of blocks exceed, as something slowed
 * those that were measured by themselves, are raised. [any thread] */
void cadre_block_fit(struct cadre_hardware *hw, const struct cadre_block_sample *sample,
                     int n);

#endif
