/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/metering.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/device/module.h"
#include "core/run/idle.h"

void cadre_metering_open(struct cadre_meter *meter, const struct cadre_spec *spec)
{
    struct cadre_device_identity gpu;
    if (spec->gpu)
        cadre_device_identify_cuda(spec->run.device.index, &gpu);
    cadre_meter_open(meter, NULL, spec->gpu ? gpu.pci : NULL, cadre_now_s());
}

void cadre_metering_steps(struct cadre_meter *meter, bool steps)
{
    cadre_meter_enter(meter, steps ? CADRE_METER_STEPS : CADRE_METER_OTHER,
                      cadre_now_s());
}

cadre_status cadre_metering_find(struct cadre_rank *rank, struct cadre_meter *meter,
                                 const struct cadre_spec *spec,
                                 struct cadre_energy *energy, struct cadre_error *err)
{
    CADRE_TRY(cadre_energy_gather(rank, meter, energy, err));
    energy->shared = getenv("CADRE_INSTANCE") != NULL;
    energy->step_tokens = (double)(spec->run.global_batch * spec->run.time);
    energy->idle_w = rank->index == 0 ? cadre_idle_read(spec->out) : (double)NAN;
    return CADRE_OK;
}
