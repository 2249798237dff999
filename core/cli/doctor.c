/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/cli.h"

cadre_status cadre_cli_doctor(const struct cadre_cli_args *args,
                              struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_INVALID, "'%s' is not yet built", args->argv[1]);
}
