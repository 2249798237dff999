/* SPDX-License-Identifier: Apache-2.0 */
#include "core/simulate/op_cost.h"

#include <math.h>

/* Scores that are kept in 16 bits, with their mask: written and read in forward, and
 * with their gradient in backward. */
#define SCORE_BYTES_FORWARD 13
#define SCORE_BYTES_BACKWARD 21

static double peak(const struct cadre_hardware *hw, uint32_t dtype)
{
    double tflops = 0;
    if (dtype == CADRE_F32)
        tflops = hw->device.peak_tflops[CADRE_PLAN_FP32];
    else if (dtype == CADRE_F16)
        tflops = hw->device.peak_tflops[CADRE_PLAN_FP16];
    else if (dtype == CADRE_BF16)
        tflops = hw->device.peak_tflops[CADRE_PLAN_BF16];
    return tflops * 1e12;
}

bool cadre_op_cost_knows(const struct cadre_hardware *hw, uint32_t dtype)
{
    return peak(hw, dtype) > 0;
}

double cadre_op_cost_bytes(const struct cadre_hardware *hw, double bytes)
{
    return bytes / (hw->device.memory_gb_s * 1e9 * hw->device.memory_efficiency);
}

struct cadre_op_work cadre_op_cost_product_work(const struct cadre_gemm *gemm)
{
    const double m = (double)gemm->m, n = (double)gemm->n, k = (double)gemm->k;
    const double element = (double)cadre_dtype_bytes(gemm->dtype);
    const uint32_t result = gemm->wide ? cadre_dtype_wide(gemm->dtype) : gemm->dtype;
    double written = (double)cadre_dtype_bytes(result) * m * n;
    if (gemm->beta)
        written *= 2;
    if (gemm->aux)
        written += element * m * n;
    return (struct cadre_op_work){2 * m * n * k, element * k * (m + n) + written};
}

double cadre_op_cost_product(const struct cadre_hardware *hw,
                             const struct cadre_gemm *gemm)
{
    const struct cadre_op_work work = cadre_op_cost_product_work(gemm);
    if (!cadre_op_cost_knows(hw, gemm->dtype) || work.flops == 0)
        return 0;
    const double flops = work.flops + hw->device.product_half_gflop * 1e9;
    const double rate = peak(hw, gemm->dtype) * hw->device.product_efficiency;
    return fmax(flops / rate, cadre_op_cost_bytes(hw, work.bytes));
}

/* Of a sequence and head. */
static double pairs(const struct cadre_attention *a)
{
    const double queries = (double)a->time, keys = (double)cadre_attention_keys(a);
    if (a->full)
        return queries * keys;
    return queries * ((double)a->position + (queries + 1) / 2);
}

struct cadre_op_work cadre_op_cost_attention_work(const struct cadre_hardware *hw,
                                                  const struct cadre_attention *a,
                                                  bool backward)
{
    const double heads = (double)(a->batch * a->heads), size = (double)a->head_size;
    const double all = (double)a->time * (double)cadre_attention_keys(a);
    const double element = (double)cadre_dtype_bytes(a->dtype);
    const double queries = element * heads * (double)a->time * size;
    const double keys = element * (double)(a->batch * a->kv_heads) *
                        (double)cadre_attention_keys(a) * size;
    if (hw->device.attention_fused)
        return (struct cadre_op_work){
            4 * heads * size * pairs(a) * (backward ? 2.5 : 1),
            backward ? 4 * queries + 4 * keys : 2 * queries + 2 * keys};
    return (struct cadre_op_work){
        4 * heads * size * all * (backward ? 2 : 1),
        heads * all * (backward ? SCORE_BYTES_BACKWARD : SCORE_BYTES_FORWARD)};
}

double cadre_op_cost_attention(const struct cadre_hardware *hw,
                               const struct cadre_attention *a, bool backward)
{
    const struct cadre_op_work work = cadre_op_cost_attention_work(hw, a, backward);
    if (!cadre_op_cost_knows(hw, a->dtype))
        return 0;
    const double rate = peak(hw, a->dtype) * hw->device.attention_efficiency;
    const double bytes_s = cadre_op_cost_bytes(hw, work.bytes);
    return hw->device.attention_fused ? fmax(work.flops / rate, bytes_s)
                                      : work.flops / rate + bytes_s;
}
