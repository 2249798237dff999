/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/block_cost.h"

#include <math.h>

static double memory_rate(const struct cadre_hardware *hw)
{
    return hw->device.memory_gb_s * hw->device.memory_efficiency * 1e9;
}

static double width(enum cadre_plan_dtype dtype)
{
    switch (dtype) {
    case CADRE_PLAN_FP64:
        return 8;
    case CADRE_PLAN_FP32:
        return 4;
    case CADRE_PLAN_FP8:
        return 1;
    default:
        return 2;
    }
}

double cadre_product_seconds(const struct cadre_hardware *hw,
                             enum cadre_plan_dtype dtype, const double mkn[3],
                             double extra)
{
    const double flops = 2 * mkn[0] * mkn[1] * mkn[2];
    const double out = fmax(2, width(dtype));
    const double bytes = width(dtype) * (mkn[0] * mkn[1] + mkn[1] * mkn[2]) +
                         out * mkn[0] * mkn[2] + extra;
    const double part = dtype == CADRE_PLAN_FP8 ? hw->device.product_efficiency_fp8
                                                : hw->device.product_efficiency;
    const double rate = hw->device.peak_tflops[dtype] * 1e12 * part;
    return fmax((flops + hw->device.product_half_gflop * 1e9) / rate,
                bytes / memory_rate(hw));
}

/* Where the seconds of products are added. */
struct sum {
    struct cadre_block_cost *cost;
    const struct cadre_hardware *hw;
    enum cadre_plan_dtype dtype;
    bool frozen; /* no gradient of the weight */
    bool nf4; /* the weight is decoded before it is read */
};
#define CODE_BYTES 0.5 /* of a weight in nf4; what scales add is left out */

/* Forward, the gradient of the input, and that of the weight, which is added to a sum
 * in fp32. In fp8 the rows and their gradient are read once more and written as they
 * are and transposed: 4 bytes an element. */
static void add_product(const struct sum *to, double m, double k, double n)
{
    const struct cadre_hardware *hw = to->hw;
    struct cadre_block_cost *cost = to->cost;
    const double decode =
        to->nf4 ? (CODE_BYTES + width(to->dtype)) * k * n / memory_rate(hw) : 0;
    const double forward =
        cadre_product_seconds(hw, to->dtype, (double[]){m, k, n}, 0) + decode;
    cost->forward += forward;
    const double weight =
        to->frozen
            ? 0
            : cadre_product_seconds(hw, to->dtype, (double[]){k, m, n}, 6 * k * n);
    cost->backward += forward + weight;
    cost->weight += weight;
    if (to->dtype == CADRE_PLAN_FP8) {
        cost->forward += 4 * m * k / memory_rate(hw);
        cost->backward += 4 * m * n / memory_rate(hw);
    }
}

/* Unfused: two products over all keys; scores, mask, softmax and dropout pass memory:
 * 13 B an element forward, 21 backward. Fused: causal halves alone, 2.5 times in
 * backward, nothing in memory. */
static void add_core(struct cadre_block_cost *cost, const struct cadre_transformer *t,
                     const struct cadre_candidate *c, const struct cadre_hardware *hw)
{
    const enum cadre_plan_dtype dtype =
        c->dtype == CADRE_PLAN_FP8 ? CADRE_PLAN_BF16 : c->dtype;
    const double rows = (double)(c->micro_batch * t->context) / (double)c->context;
    const double s = (double)t->context;
    const double flops = 4 * rows * s * (double)t->channels / (double)c->tensor;
    const double rate =
        hw->device.peak_tflops[dtype] * 1e12 * hw->device.attention_efficiency;
    const double scores = rows * s * (double)t->heads / (double)c->tensor;
    double forward = flops / rate, backward = 2 * forward;
    if (hw->device.attention_fused) {
        forward /= 2;
        backward = 2.5 * forward;
    } else {
        forward += 13 * scores / memory_rate(hw);
        backward += 21 * scores / memory_rate(hw);
    }
    cost->core_forward += forward;
    cost->forward += forward;
    cost->backward += backward;
}

/* The router's product; each expert's with an even part of the rows; rows to the order
 * of experts and back (8 h forward, 12 h backward, where they are also multiplied),
 * probabilities. */
enum {
    EXPERTS_FORWARD_OPS = 4,
    EXPERTS_BACKWARD_OPS = 6,
    EXPERT_FORWARD_OPS = 2,
    EXPERT_BACKWARD_OPS = 6
};
static void add_experts(const struct sum *to, const struct cadre_transformer *t,
                        const struct cadre_candidate *c)
{
    const struct cadre_hardware *hw = to->hw;
    struct cadre_block_cost *cost = to->cost;
    const double m = (double)(c->micro_batch * t->context) / (double)c->context;
    const double h = (double)t->channels, f = (double)t->hidden;
    const double E = (double)t->experts;
    for (int64_t e = 0; e < t->experts; e++) {
        add_product(to, m / E, h, (t->gated ? 2 : 1) * f);
        add_product(to, m / E, f, h);
    }
    add_product(to, m, h, E);
    cost->forward += m * (8 * h + 6 * E) / memory_rate(hw);
    cost->backward += m * (12 * h + 6 * E) / memory_rate(hw);
    cost->forward +=
        (EXPERTS_FORWARD_OPS + (E - 1) * EXPERT_FORWARD_OPS) * hw->device.op_us * 1e-6;
    cost->backward += (EXPERTS_BACKWARD_OPS + (E - 1) * EXPERT_BACKWARD_OPS) *
                      hw->device.op_us * 1e-6;
}

/* Beside a product of k by n: one of k by r, and one of r by n which is added to its
 * result, in forward and for the gradient of the input. */
enum { ADAPTER_FORWARD_OPS = 2, ADAPTER_BACKWARD_OPS = 4 };
static void add_adapters(const struct sum *to, const struct cadre_transformer *t,
                         const struct cadre_candidate *c)
{
    const double m = (double)(c->micro_batch * t->context) / (double)c->context;
    const double r = (double)t->adapter_rank, ranks = (double)c->tensor;
    const struct cadre_hardware *hw = to->hw;
    const struct sum own = {to->cost, hw, to->dtype, false, false};
    for (int i = 0; i < t->n_adapters; i++) {
        const struct cadre_plan_adapter *a = &t->adapter[i];
        const double in = (double)a->in / (a->rows ? ranks : 1);
        const double out = (double)a->out / (a->rows ? 1 : ranks);
        add_product(&own, m, in, r);
        add_product(&own, m, r, out);
        to->cost->forward += width(to->dtype) * m * out / memory_rate(hw);
        to->cost->backward += width(to->dtype) * m * in / memory_rate(hw);
    }
    to->cost->forward += t->n_adapters * ADAPTER_FORWARD_OPS * hw->device.op_us * 1e-6;
    to->cost->backward +=
        t->n_adapters * ADAPTER_BACKWARD_OPS * hw->device.op_us * 1e-6;
}

/* Bytes of a token: two norms (4 h forward, 8 h backward) and two additions with
 * dropout (7 h, 5 h), repeated on tensor ranks unless sequence parallel; the MLP's
 * function reads and writes its width. */
static void add_rows(struct cadre_block_cost *cost, const struct cadre_transformer *t,
                     const struct cadre_candidate *c, const struct cadre_hardware *hw)
{
    const double tokens = (double)(c->micro_batch * t->context) / (double)c->context;
    const double ranks = (double)c->tensor;
    const double repeated = (double)t->channels / (c->sequence_parallel ? ranks : 1);
    const double mlp = (double)t->hidden / ranks;
    cost->forward +=
        tokens * (22 * repeated + (t->gated ? 6 : 4) * mlp) / memory_rate(hw);
    cost->backward +=
        tokens * (26 * repeated + (t->gated ? 10 : 6) * mlp) / memory_rate(hw);
}

/* Operations of a block as Cadre runs it: two norms with the addition before them, four
 * products with their epilogues, attention, the MLP's function; backward two products
 * for each and the sums of biases. */
enum { FORWARD_OPS = 8, BACKWARD_OPS = 14 };

struct cadre_block_cost cadre_block_cost(const struct cadre_transformer *t,
                                         const struct cadre_candidate *c,
                                         const struct cadre_hardware *hw)
{
    struct cadre_block_cost cost = {0};
    const double m = (double)(c->micro_batch * t->context) / (double)c->context;
    const double h = (double)t->channels, ranks = (double)c->tensor;
    const double f = (double)t->hidden;
    const struct sum to = {&cost, hw, c->dtype, t->n_adapters > 0, t->nf4};
    add_product(&to, m, h, (h + 2 * cadre_transformer_kv(t)) / ranks);
    add_product(&to, m, h / ranks, h);
    if (t->experts > 0) {
        add_experts(&to, t, c);
    } else {
        add_product(&to, m, h, (t->gated ? 2 : 1) * f / ranks);
        add_product(&to, m, f / ranks, h);
    }
    add_adapters(&to, t, c);
    add_core(&cost, t, c, hw);
    add_rows(&cost, t, c, hw);
    cost.forward += FORWARD_OPS * hw->device.op_us * 1e-6;
    cost.backward += BACKWARD_OPS * hw->device.op_us * 1e-6;
    return cost;
}

/* Logits stay in 16 bits or more: an fp8 run has its head in bf16. They are written and
 * read twice forward (maximum, sum) and once backward, in fp32. */
struct cadre_block_cost cadre_head_cost(const struct cadre_transformer *t,
                                        const struct cadre_candidate *c,
                                        const struct cadre_hardware *hw)
{
    struct cadre_block_cost cost = {0};
    const double m = (double)(c->micro_batch * t->context) / (double)c->context;
    const double n = (double)t->vocab / (double)c->tensor;
    const enum cadre_plan_dtype dtype =
        c->dtype == CADRE_PLAN_FP8 ? CADRE_PLAN_BF16 : c->dtype;
    const struct sum to = {&cost, hw, dtype, t->n_adapters > 0, false};
    add_product(&to, m, (double)t->channels, n);
    cost.forward += 12 * m * n / memory_rate(hw);
    cost.backward += 8 * m * n / memory_rate(hw);
    return cost;
}
