/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/check.h"

#include <stdio.h>

#include "core/check/catalogue.h"
#include "core/cli/cli.h"

cadre_status cadre_cli_check(const struct cadre_cli_args *args, struct cadre_error *err)
{
    struct cadre_check_request request = args->check;
    if (args->list) {
        cadre_catalogue_print(stdout);
        return CADRE_OK;
    }
    request.plugin = args->conf;
    return cadre_check(&request, err);
}
