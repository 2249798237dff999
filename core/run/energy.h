/* SPDX-License-Identifier: Apache-2.0 */
/* Energy of a run: what the meters of its ranks read (core/energy/meter.h), each
 * machine and each GPU counted once, and what of it a step and a token took.
 *
 * It is the energy of whole packages and whole GPUs, with all that ran on them besides;
 * nothing is divided among ranks. NaN is not known, and a text says why: a counter that
 * stood still is one that does not work. */
#ifndef CADRE_RUN_ENERGY_H
#define CADRE_RUN_ENERGY_H

#include "core/base/json.h"
#include "core/energy/meter.h"
#include "core/engine/rank.h"

/* What one rank's meter read. */
struct cadre_energy_rank {
    uint64_t kernel; /* the same for ranks of one machine */
    char host[64],
        gpu[32]; /* its name; the GPU's PCI address, "" for none or unknown */
    bool uses_gpu, mig;
    int packages; /* that could be read */
    int64_t steps;
    double seconds[CADRE_METER_PARTS];
    double package_j[CADRE_METER_PARTS], gpu_j[CADRE_METER_PARTS];
    char why[CADRE_POWERCAP_WHY], gpu_why[CADRE_GPU_COUNTER_WHY];
};

struct cadre_energy {
    int hosts, packages, gpus; /* packages and gpus: 0 where they cannot be read */
    bool uses_gpu, mig;
    bool shared; /* with other runs that were started together with it */
    int64_t steps; /* of this process, which the energy is of */
    double step_tokens;
    double steps_s, total_s; /* wall time of the training steps; of all */
    double package_j, package_total_j; /* joules in steps_s, in total_s */
    double gpu_j, gpu_total_j;
    double idle_w; /* of the packages before the run */
    char why[CADRE_POWERCAP_WHY + 80], gpu_why[CADRE_GPU_COUNTER_WHY + 80];
};

/* Fill *out from `seen` (ranks); `shared`, `step_tokens` and `idle_w` stay as they are.
 * [any thread] */
void cadre_energy_of(const struct cadre_energy_rank *seen, int ranks,
                     struct cadre_energy *out);

/* [collective: world] Read the meter, ask every rank, and fill *out on all as
 * cadre_energy_of does. Errors: CADRE_E_RESOURCE and the communicator's. */
cadre_status cadre_energy_gather(struct cadre_rank *rank, struct cadre_meter *meter,
                                 struct cadre_energy *out, struct cadre_error *err);

/* Joules of a training step: of the GPUs where the run uses them, and of the packages
 * where these are known. NaN where not known, or where other runs share the machine. */
double cadre_energy_step_j(const struct cadre_energy *energy);

/* Write it as an object. */
void cadre_energy_write(const struct cadre_energy *energy, struct cadre_json *json);

#endif
