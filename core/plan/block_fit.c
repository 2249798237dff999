/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/block_fit.h"

#include <math.h>

#include "core/plan/block_cost.h"

static double forecast(const struct cadre_hardware *hw,
                       const struct cadre_block_sample *s)
{
    const struct cadre_transformer t = {.layers = 1,
                                        .channels = s->channels,
                                        .heads = s->heads,
                                        .kv_heads = s->heads,
                                        .hidden = 4 * s->channels,
                                        .vocab = 1,
                                        .context = s->time};
    const struct cadre_candidate c = {.tensor = 1,
                                      .pipeline = 1,
                                      .context = 1,
                                      .data = 1,
                                      .micro_batch = s->batch,
                                      .dtype = CADRE_PLAN_FP32};
    const struct cadre_block_cost cost = cadre_block_cost(&t, &c, hw);
    return cost.forward + cost.backward;
}

/* Forecast over measured: the mean of the samples, and their variance around 1. */
static double compare(const struct cadre_hardware *hw,
                      const struct cadre_block_sample *sample, int n, double *variance)
{
    double sum = 0;
    *variance = 0;
    for (int i = 0; i < n; i++) {
        const double ratio = forecast(hw, &sample[i]) / sample[i].seconds;
        sum += ratio / n;
        *variance += pow(ratio - 1, 2) / n;
    }
    return sum;
}

/* The part of the memory's rate that makes the mean right, in [0.01, 1] by bisection;
 * returns the variance. */
static double fit_rows(struct cadre_hardware *hw,
                       const struct cadre_block_sample *sample, int n)
{
    double low = 0.01, high = 1, variance;
    for (int i = 0; i < 40; i++) {
        hw->device.memory_efficiency = sqrt(low * high);
        *(compare(hw, sample, n, &variance) > 1 ? &low : &high) =
            hw->device.memory_efficiency;
    }
    compare(hw, sample, n, &variance);
    return variance;
}

void cadre_block_fit(struct cadre_hardware *hw, const struct cadre_block_sample *sample,
                     int n)
{
    struct cadre_hardware at = *hw;
    double least = INFINITY, times;
    for (int percent = 150; percent >= 30; percent--) {
        at.device.product_efficiency = percent / 100.0;
        const double variance = fit_rows(&at, sample, n);
        if (variance < least) {
            least = variance;
            hw->device.product_efficiency = at.device.product_efficiency;
            hw->device.memory_efficiency = at.device.memory_efficiency;
        }
    }
    times = fmax(1, hw->device.product_efficiency);
    for (int i = 0; i < CADRE_PLAN_DTYPES; i++)
        hw->device.peak_tflops[i] *= times;
    hw->device.product_efficiency /= times;
    hw->device.attention_efficiency /= times; /* of the peak */
}
