/* SPDX-License-Identifier: Apache-2.0 */
/* A hardware file: what a plan knows of devices, nodes and links, in an ini file whose
 * keys carry their units (docs/planning.md lists them). */
#ifndef CADRE_PLAN_HARDWARE_H
#define CADRE_PLAN_HARDWARE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

enum cadre_plan_dtype {
    CADRE_PLAN_FP32,
    CADRE_PLAN_FP16,
    CADRE_PLAN_BF16,
    CADRE_PLAN_FP8, /* products alone; the rest is bf16 */
    CADRE_PLAN_FP64,
    CADRE_PLAN_DTYPES,
};

/* "fp32", ...; -1 for another text. [any thread] */
const char *cadre_plan_dtype_name(enum cadre_plan_dtype dtype);
int cadre_plan_dtype_find(const char *name);

/* Bytes of a parameter, its gradient and its optimizer states. */
enum cadre_accounting {
    CADRE_ACCOUNTING_CADRE, /* 16 bits: 2 + 4 + 12; fp32: 4 + 4 + 8 */
    CADRE_ACCOUNTING_MEGATRON, /* 2 + 4 + 12 */
    CADRE_ACCOUNTING_ZERO2019, /* 2 + 2 + 12 */
};

struct cadre_plan_link {
    double bandwidth_gb_s; /* of one device, one direction; 0: not given */
    double latency_us;
    double efficiency; /* the part of the bandwidth that a collective reaches */
};

struct cadre_hardware {
    char name[64];
    enum cadre_accounting accounting;
    struct {
        double peak_tflops[CADRE_PLAN_DTYPES]; /* 0: cannot */
        double price_per_hour; /* of one device, in any currency; 0: not given */
        double memory_gib, reserve_gib;
        double memory_gb_s, memory_efficiency;
        double product_efficiency; /* of the peak, of large products */
        double product_half_gflop; /* a product of this size reaches half of that */
        double product_efficiency_fp8;
        double update_gb_s; /* of AdamW at 30 B a parameter; 0: as memory */
        double op_us; /* fixed, of each operation beside its work */
        double alone_speedup; /* while the others of its node idle; 0, 1: none */
        double attention_efficiency; /* of the 16-bit peak, fused attention */
        bool attention_fused; /* no scores in memory, and causal halves are skipped */
    } device;
    int64_t node_devices;
    struct cadre_plan_link node, cluster; /* inside a node, between nodes */
    struct {
        bool sequence_parallel; /* where a row does not say */
        double overlap_tensor, overlap_pipeline,
            overlap_data; /* parts hidden, 0 to 1 */
        bool pipeline_beside; /* a stage computes while its messages travel */
        double overlap_gather; /* the part of computing that hides ZeRO-3's gathers */
        double gather_gb_s; /* of ZeRO-3's gathers, a rank; 0: what links give */
        double straggle; /* of the step, for each doubling of the nodes */
        double gradient_bytes; /* on the wire, of an element */
    } software;
};

/* Read `path`; `hardware.extends` is read first, beside it. *hw is written on success.
 * Errors: CADRE_E_INVALID for an unknown key with the nearest, a value that is no
 * number or out of its range, and a peak, memory or bandwidth that is missing. [main]
 */
cadre_status cadre_hardware_load(struct cadre_hardware *hw, const char *path,
                                 struct cadre_error *err);

/* A device of it that computes alone: every rate of it is alone_speedup times as high.
 * [any thread] */
struct cadre_hardware cadre_hardware_alone(const struct cadre_hardware *hw);

/* Apply "SECTION.KEY=CHANGE": +10%, -10%, x2 or a number of its own. "link" is both
 * levels, and a key's unit may be left out: link.bandwidth=+10%. Errors:
 * CADRE_E_INVALID for a key that is not one, or a value out of its range; *hw is then
 * as it was. [any thread] */
cadre_status cadre_hardware_change(struct cadre_hardware *hw, const char *assignment,
                                   struct cadre_error *err);

#endif
