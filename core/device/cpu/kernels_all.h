/* SPDX-License-Identifier: Apache-2.0 */
/* One copy of the kernels and its table. The file that includes this defines
 * CADRE_REAL_BITS; the build defines CADRE_ISA, the suffix of the copy. */
#include "core/device/cpu/kernels_norm.h"
#include "core/device/cpu/kernels_optim.h"
#include "core/device/cpu/kernels_pointwise.h"
#include "core/device/cpu/kernels_product.h"
#include "core/device/cpu/kernels_real.h"
#include "core/device/cpu/kernels_softmax.h"
#include "core/device/cpu/kernels_vector.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if CADRE_REAL_BITS == 64
#define TABLE JOIN(cadre_kernels_f64_, CADRE_ISA)
#else
#define TABLE JOIN(cadre_kernels_f32_, CADRE_ISA)
#endif

const struct cadre_cpu_kernels TABLE = {
    .bias_rows = bias_rows,
    .bias_bwd = bias_bwd,
    .norm_fwd = norm_fwd,
    .norm_bwd_input = norm_bwd_input,
    .norm_bwd_weight = norm_bwd_weight,
    .column_total = column_total,
    .rope = rope,
    .gelu_bwd = gelu_bwd,
    .swiglu_fwd = swiglu_fwd,
    .swiglu_bwd = swiglu_bwd,
    .add = add,
    .embed_fwd = embed_fwd,
    .embed_bwd_tokens = embed_bwd_tokens,
    .embed_bwd_positions = embed_bwd_positions,
    .xent_fwd = xent_fwd,
    .xent_rescale = xent_rescale,
    .xent_loss = xent_loss,
    .xent_bwd = xent_bwd,
    .adamw = adamw,
    .sgd = sgd,
    .lion = lion,
    .adamw8 = adamw8,
    .scale = scale,
    .tree_add = tree_add,
    .maximum = maximum,
    .axpby = axpby,
    .mul = mul,
    .rsqrt = inverse_root,
    .sum_squares = sum_squares,
    .dot = dot,
    .softmax_fwd = softmax_fwd,
    .softmax_bwd = softmax_bwd,
    .row_scale = row_scale,
    .row_dot = row_dot,
    .product = product,
    .product_panels = product_panels,
    .product_rows = product_rows,
    .product_lanes = WIDTH,
    .product_group = ROWS,
    .product_fused = FUSES,
};
