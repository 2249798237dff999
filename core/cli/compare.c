/* SPDX-License-Identifier: Apache-2.0 */
#include "core/experiment/compare.h"

#include "core/base/log.h"
#include "core/cli/cli.h"
#include "core/comm/launch.h"

cadre_status cadre_cli_compare(const struct cadre_cli_args *args,
                               struct cadre_error *err)
{
    struct cadre_options *options = NULL;
    enum cadre_log_level level;
    struct cadre_launch_outside outside;
    cadre_status rc = cadre_launch_outside(&outside, err);
    if (rc == CADRE_OK && outside.where) /* its runs would each be that rank */
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "cadre compare starts all ranks of its runs itself, and "
                        "CADRE_INIT is \"%s\"; unset CADRE_INIT and CADRE_RANK",
                        outside.where);
    if (rc == CADRE_OK)
        rc = cadre_cli_load(args, &options, err);
    if (rc != CADRE_OK)
        return rc;
    if (cadre_log_parse_level(cadre_options_raw(options, "log.level"), &level))
        cadre_log_set_level(level);
    rc = cadre_compare(options, args->conf, args->set, args->out, err);
    cadre_options_destroy(options);
    return rc;
}
