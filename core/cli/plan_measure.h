/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre plan --measure`: the hardware file of this machine. */
#ifndef CADRE_CLI_PLAN_MEASURE_H
#define CADRE_CLI_PLAN_MEASURE_H

#include "core/cli/cli.h"

/* Measure a rank with the device that --set names (device.kind, device.threads; one
 * thread where it does not) and write the file that args->plan.measure names. Errors:
 * CADRE_E_INVALID for other arguments, those of the measurement and of writing. [main]
 */
cadre_status cadre_plan_measure(const struct cadre_cli_args *args,
                                struct cadre_error *err);

#endif
