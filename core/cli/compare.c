/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/compare.h"

#include "core/base/log.h"
#include "core/cli/cli.h"
#include "core/launch/launch.h"

/* All steps except one training need a single process. */
static cadre_status refuse_ranks(const struct cadre_cli_args *args,
                                 const struct cadre_launch_external *external,
                                 struct cadre_error *err)
{
    if (!external->launcher || args->run)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "cadre compare starts all ranks of its runs itself, and "
                      "this process is rank %d of %d by %s; start it once, without "
                      "%s, or train one run with --run NAME",
                      external->rank, external->size, external->launcher,
                      external->launcher);
}

static cadre_status step_of(const struct cadre_cli_args *args,
                            enum cadre_compare_step *step, struct cadre_error *err)
{
    if ((args->run != NULL) + args->list + args->collect > 1)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--list, --run and --collect are steps of a comparison: give "
                          "one of them");
    if (args->n_fail_if > 0 && (args->list || args->run))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "--fail-if needs a report: give it with --collect, or without "
            "--list and --run");
    *step = args->list      ? CADRE_COMPARE_LIST
            : args->run     ? CADRE_COMPARE_ONE
            : args->collect ? CADRE_COMPARE_COLLECT
                            : CADRE_COMPARE_ALL;
    return CADRE_OK;
}

cadre_status cadre_cli_compare(const struct cadre_cli_args *args,
                               struct cadre_error *err)
{
    struct cadre_options *options = NULL;
    enum cadre_log_level level;
    struct cadre_launch_external external;
    struct cadre_cli_args plain = *args;
    struct cadre_compare_request request = {.conf = args->conf,
                                            .sets = args->set,
                                            .out = args->out,
                                            .task = args->run,
                                            .fail_if = args->fail_if};
    cadre_status rc;
    plain.run = NULL; /* the comparison takes every run's section by itself */
    CADRE_TRY_OR(step_of(args, &request.step, err), fail);
    CADRE_TRY_OR(cadre_launch_external(&external, err), fail);
    CADRE_TRY_OR(refuse_ranks(args, &external, err), fail);
    if (external.launcher)
        cadre_log_set_rank(external.rank, external.size);
    CADRE_TRY_OR(cadre_cli_load(&plain, &options, err), fail);
    if (cadre_log_parse_level(cadre_options_raw(options, "log.level"), &level))
        cadre_log_set_level(level);
    request.options = options;
    request.launched = external.launcher != NULL;
    rc = cadre_compare(&request, err);
fail:
    cadre_options_destroy(options);
    return rc;
}
