/* SPDX-License-Identifier: Apache-2.0 */
/* The help of one command. `cadre help` is a command of its own (command.h). */
#ifndef CADRE_CLI_HELP_H
#define CADRE_CLI_HELP_H

#include "core/cli/command.h"

/* Print usage, summary, options and details of the command to stdout, as wide as the
 * terminal. [main] Errors: CADRE_E_RESOURCE. */
cadre_status cadre_help_command(const struct cadre_cli_command *command,
                                struct cadre_error *err);

#endif
