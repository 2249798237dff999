/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated step for people and as JSON, named as what it is. */
#ifndef CADRE_SIMULATE_SIMULATION_PRINT_H
#define CADRE_SIMULATE_SIMULATION_PRINT_H

#include <stdio.h>

#include "core/simulate/simulation.h"

/* Seconds by cause, which sum to the step, bytes by tag of the rank that takes most,
 * bytes sent. [any thread] */
void cadre_simulation_print(const struct cadre_simulation *s,
                            const struct cadre_spec *spec,
                            const struct cadre_hardware *hw, FILE *out);

/* The same of every rank, as one object. Errors: CADRE_E_IO. [any thread] */
cadre_status cadre_simulation_print_json(const struct cadre_simulation *s,
                                         const struct cadre_spec *spec,
                                         const struct cadre_hardware *hw, FILE *out);

#endif
