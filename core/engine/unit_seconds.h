/* SPDX-License-Identifier: Apache-2.0 */
/* Measured seconds of the model's units on this machine's device. */
#ifndef CADRE_ENGINE_UNIT_SECONDS_H
#define CADRE_ENGINE_UNIT_SECONDS_H

#include "core/engine/layout/run_spec.h"

/* seconds (n_units): forward, input and weight backward of each unit on one micro-batch
 * of the run, including the forward that activation checkpointing repeats; median of a
 * few after a warm-up. Blocks are alike, so only one is measured. `model` is a planned
 * rank's; it has no storage before and after. Opens the run's device and allocates the
 * memory of one unit at a time. [main] Errors: those of the device, CADRE_E_RESOURCE.
 */
cadre_status cadre_unit_seconds_measure(const struct cadre_run_spec *spec,
                                        struct cadre_model *model, double *seconds,
                                        struct cadre_error *err);

/* The same on a device that is open, such as a simulated one. [its thread] */
cadre_status cadre_unit_seconds_measure_on(const struct cadre_run_spec *spec,
                                           struct cadre_device *device,
                                           struct cadre_model *model, double *seconds,
                                           struct cadre_error *err);

#endif
