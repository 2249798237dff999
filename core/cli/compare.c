/* SPDX-License-Identifier: Apache-2.0 */
#include "core/experiment/compare.h"

#include "core/base/log.h"
#include "core/cli/cli.h"

cadre_status cadre_cli_compare(const struct cadre_cli_args *args,
                               struct cadre_error *err)
{
    struct cadre_options *options = NULL;
    enum cadre_log_level level;
    cadre_status rc = cadre_cli_load(args, &options, err);
    if (rc != CADRE_OK)
        return rc;
    if (cadre_log_parse_level(cadre_options_raw(options, "log.level"), &level))
        cadre_log_set_level(level);
    rc = cadre_compare(options, args->conf, args->set, args->out, err);
    cadre_options_destroy(options);
    return rc;
}
