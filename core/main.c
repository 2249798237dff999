/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: one function a command, exit codes in one place. */
#include "core/cli/cli.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    struct cadre_error err = {0};
    cadre_status rc = cadre_cli(argc, argv, &err);
    /* without a text somebody else speaks: the launcher of this rank */
    if (rc != CADRE_OK && err.text[0])
        fprintf(stderr, "cadre: %s\n", err.text);
    return cadre_cli_exit_code(rc);
}
