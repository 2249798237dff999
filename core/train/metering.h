/* SPDX-License-Identifier: Apache-2.0 */
/* The meter of a rank in its loop, and what it says at the end. */
#ifndef CADRE_TRAIN_METERING_H
#define CADRE_TRAIN_METERING_H

#include "core/run/energy.h"
#include "core/run/spec.h"

/* Open the meter of a bound rank: its machine's packages, and its GPU where the run is
 * on GPUs. The caller ends it by cadre_meter_close. [the rank's thread] */
void cadre_metering_open(struct cadre_meter *meter, const struct cadre_spec *spec);

/* Training steps run from now on, or something else. Work before must have ended. */
void cadre_metering_steps(struct cadre_meter *meter, bool steps);

/* [collective: world] Energy of all ranks' machines; on rank 0 with the idle power.
 * Errors: as cadre_energy_gather. */
cadre_status cadre_metering_find(struct cadre_rank *rank, struct cadre_meter *meter,
                                 const struct cadre_spec *spec,
                                 struct cadre_energy *energy, struct cadre_error *err);

#endif
