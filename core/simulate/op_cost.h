/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds of one op on a device of a hardware file. Of the analytic engine it shares
 * the reader of that file alone: here every op of a step is asked for by itself, with
 * the sizes that it was called with. */
#ifndef CADRE_SIMULATE_OP_COST_H
#define CADRE_SIMULATE_OP_COST_H

#include "core/device/device.h"
#include "core/plan/hardware.h"

/* FLOPs, and bytes of memory that are read or written. */
struct cadre_op_work {
    double flops, bytes;
};

/* [any thread, all of them] */

/* Can the device multiply in this element type? */
bool cadre_op_cost_knows(const struct cadre_hardware *hw, uint32_t dtype);

/* `bytes` read and written. */
double cadre_op_cost_bytes(const struct cadre_hardware *hw, double bytes);

struct cadre_op_work cadre_op_cost_product_work(const struct cadre_gemm *gemm);

/* The product's FLOPs at the part of the peak that its size reaches, or its operands,
 * its sum and its result over the memory's bandwidth, whichever is longer. 0 where the
 * type is not known. */
double cadre_op_cost_product(const struct cadre_hardware *hw,
                             const struct cadre_gemm *gemm);

struct cadre_op_work
cadre_op_cost_attention_work(const struct cadre_hardware *hw,
                             const struct cadre_attention *attention, bool backward);

/* Fused: the pairs of query and key that a mask leaves, nothing of them in memory; else
 * all pairs, and the scores pass through memory. Queries, keys, values and the result
 * are read or written once. */
double cadre_op_cost_attention(const struct cadre_hardware *hw,
                               const struct cadre_attention *attention, bool backward);

#endif
