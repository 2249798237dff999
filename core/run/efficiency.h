/* SPDX-License-Identifier: Apache-2.0 */
/* How much of what its devices can do a run used, and what it cost:
 *     MFU = FLOPs of the model a token x tokens/s / peak FLOP/s of all devices
 *     HFU = the same with what activation checkpointing computes again
 * FLOPs: core/model/flops.h. The peak is report.peak_flops for each rank's device, else
 * that of core/device/peak.h: of each GPU once, or of each CPU core that the ranks use
 * once. Cost = report.price_per_hour of a machine x machines x hours. */
#ifndef CADRE_RUN_EFFICIENCY_H
#define CADRE_RUN_EFFICIENCY_H

#include "core/base/json.h"
#include "core/device/peak.h"
#include "core/run/energy.h"
#include "core/run/site.h"
#include "core/run/spec.h"

struct cadre_efficiency {
    double flops, hardware_flops; /* of a token */
    double peak_flops; /* of all devices together; NaN: not known */
    char source[CADRE_PEAK_TEXT + 64]; /* where it comes from, or why it is not known */
    double price_per_hour; /* of one machine, in the user's currency; 0: not given */
    int hosts;
};

/* [rank 0] Of the run that `rank` belongs to; the machines are known. Errors:
 * CADRE_E_RESOURCE. */
cadre_status
cadre_efficiency_find(const struct cadre_spec *spec, const struct cadre_rank *rank,
                      const struct cadre_site *site, const struct cadre_energy *energy,
                      struct cadre_efficiency *out, struct cadre_error *err);

/* Write flops_per_token, hardware_flops_per_token, peak_flops, peak_source, mfu, hfu
 * and mfu_why; with a price also the object price. time_s: of all steps. */
void cadre_efficiency_write(const struct cadre_efficiency *efficiency,
                            double tokens_per_s, double time_s,
                            struct cadre_json *json);

#endif
