/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/mig/command.h"

#include <string.h>

cadre_status mig_command(const struct cadre_command *command)
{
    const char *what = command->argc ? command->argv[0] : "--help";
    if (strcmp(what, "--help") == 0)
        return command->print(command->h, "cadre mig list | plan | apply: not yet\n");
    if (strcmp(what, "doctor") == 0)
        return command->print(command->h, "no: `cadre mig` does not look yet\n");
    return command->refuse(command->h, CADRE_E_UNSUPPORTED,
                           "`cadre mig` lists, plans and applies nothing yet");
}
