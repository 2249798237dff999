/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre mig ...`: look at MIG instances, plan them, and on demand make them. */
#ifndef MIG_COMMAND_H
#define MIG_COMMAND_H

#include <cadre/command.h>

/* The plugin's command: list, plan, apply and doctor. Nothing is changed on a GPU but
 * by `apply --admin`. [main] Errors: CADRE_E_INVALID for arguments,
 * CADRE_E_UNSUPPORTED where what was asked for is not there or does not fit. */
cadre_status mig_command(const struct cadre_command *command);

#endif
