/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/comm/launch.h"
#include "core/train/train.h"

static cadre_status finish_line(const struct cadre_spec *spec, struct cadre_error *err)
{
    if (printf("%s: %lld steps with %s done, in '%s'\n", spec->name,
               (long long)spec->steps, spec->stack, spec->out) < 0)
        return cadre_fail(err, CADRE_E_IO, "cannot write to stdout");
    return CADRE_OK;
}

cadre_status cadre_cli_train(const struct cadre_cli_args *args, struct cadre_error *err)
{
    struct cadre_train_place place = {.argv = args->argv};
    struct cadre_options *options = NULL;
    struct cadre_spec *spec = NULL;
    enum cadre_log_level level;
    char name[64];
    int size = 0;
    cadre_status rc;
    CADRE_TRY(
        cadre_launch_child(&place.child, &place.rank, &size, &place.segment_fd, err));
    CADRE_TRY(cadre_launch_outside(&place.outside, err));
    CADRE_TRY(cadre_cli_load(args, &options, err));
    if (cadre_log_parse_level(cadre_options_raw(options, "log.level"), &level))
        cadre_log_set_level(level);
    if (place.child)
        cadre_log_set_rank(place.rank, size);
    cadre_cli_run_name(args, name, sizeof name);
    struct cadre_spec_request request = {
        .out = args->out,
        .name = name,
        .given_ranks = place.outside.size,
        .device_index = place.child                    ? place.rank
                        : place.outside.local_rank > 0 ? place.outside.local_rank
                                                       : 0,
        .need_data = true,
    };
    CADRE_TRY(cadre_spec_create(options, &request, &spec, err));
    if (args->dry_run)
        rc = cadre_train_dry_run(spec, stdout, err);
    else
        rc = cadre_train(&spec, &place, err);
    if (rc == CADRE_OK && !args->dry_run && !place.child && place.outside.rank == 0)
        rc = finish_line(spec, err);
fail:
    cadre_spec_destroy(spec);
    return rc;
}
