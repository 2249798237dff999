/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre plan CONF --simulate`: the stack of a file, simulated. */
#ifndef CADRE_CLI_PLAN_SIMULATE_H
#define CADRE_CLI_PLAN_SIMULATE_H

#include "core/cli/cli.h"

/* [main] Errors: CADRE_E_INVALID for arguments that do not belong to it, those of the
 * hardware file, the run's options and cadre_simulate. */
cadre_status cadre_cli_plan_simulate(const struct cadre_cli_args *args,
                                     struct cadre_error *err);

/* A plan reads no data: what samples look like must follow from the options. Errors:
 * CADRE_E_UNSUPPORTED where it does not. [main] */
cadre_status cadre_cli_plan_check_data(const struct cadre_options *options,
                                       struct cadre_error *err);

#endif
