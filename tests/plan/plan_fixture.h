/* SPDX-License-Identifier: Apache-2.0 */
/* A machine whose numbers are round, and a small transformer. */
#ifndef CADRE_TESTS_PLAN_PLAN_FIXTURE_H
#define CADRE_TESTS_PLAN_PLAN_FIXTURE_H

#include "core/plan/candidate.h"

static const struct cadre_hardware round_machine = {
    .name = "round",
    .device = {.peak_tflops = {10, 100, 100, 0},
               .memory_gib = 80,
               .memory_gb_s = 1000,
               .memory_efficiency = 1,
               .product_efficiency = 1,
               .product_efficiency_fp8 = 1,
               .attention_efficiency = 1,
               .attention_fused = true},
    .node_devices = 8,
    .node = {.bandwidth_gb_s = 100, .efficiency = 1},
    .cluster = {.bandwidth_gb_s = 10, .efficiency = 1},
    .software = {.gradient_bytes = 4, .overlap_gather = 1},
};

static const struct cadre_transformer small_model = {
    .layers = 8,
    .channels = 1024,
    .heads = 16,
    .kv_heads = 16,
    .hidden = 4096,
    .vocab = 32000,
    .context = 1024,
    .tied = true,
};

static const struct cadre_candidate one_rank = {
    .tensor = 1,
    .pipeline = 1,
    .context = 1,
    .data = 1,
    .chunks = 1,
    .micro_batch = 1,
    .global_batch = 16,
    .dtype = CADRE_PLAN_BF16,
};

#endif
