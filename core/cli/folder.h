/* SPDX-License-Identifier: Apache-2.0 */
/* A run's or a comparison's folder where CONF stands. */
#ifndef CADRE_CLI_FOLDER_H
#define CADRE_CLI_FOLDER_H

#include "core/cli/cli.h"

/* Where the command's CONF is a folder, put the ini file that its run left in its
 * place (config.ini; comparison.ini for `compare`), and keep the folder in
 * args->folder. A command that `continues` then works in that folder, unless --out
 * names another, and resumes there. [main] Errors: CADRE_E_INVALID for a folder
 * without such a file, CADRE_E_RESOURCE. */
cadre_status cadre_cli_take_folder(const struct cadre_cli_command *command,
                                   struct cadre_cli_args *args,
                                   struct cadre_error *err);

#endif
