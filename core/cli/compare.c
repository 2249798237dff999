/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/compare.h"

#include <stdlib.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/cli/cli.h"
#include "core/cli/plan_hardware.h"
#include "core/cli/plan_predict.h"
#include "core/cli/result.h"
#include "core/compare/verdict/condition.h"
#include "core/launch/launch.h"
#include "core/report/archive.h"

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
    if (args->fail_if.n > 0 && (args->list || args->run))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "--fail-if needs a report: give it with --collect, or without "
            "--list and --run");
    if (args->json && (args->list || args->run))
        return cadre_fail(err, CADRE_E_INVALID,
                          "--json tells a report's figures: give it with --collect, or "
                          "without --list and --run");
    if (args->predict && (args->list || args->run))
        return cadre_fail(err, CADRE_E_INVALID,
                          "--predict adds forecasts to a report: give it with "
                          "--collect, or without --list and --run");
    if (args->archive && (args->list || args->run))
        return cadre_fail(err, CADRE_E_INVALID,
                          "--archive packs a report: give it with --collect, or "
                          "without --list and --run");
    if (args->archive)
        CADRE_TRY(cadre_archive_check_name(args->archive, err));
    *step = args->list      ? CADRE_COMPARE_LIST
            : args->run     ? CADRE_COMPARE_ONE
            : args->collect ? CADRE_COMPARE_COLLECT
                            : CADRE_COMPARE_ALL;
    return CADRE_OK;
}

/* A verdict that fails the command has a report too, and stays the command's. */
static cadre_status pack(const struct cadre_cli_args *args, char *folder,
                         cadre_status judged, struct cadre_error *err)
{
    struct cadre_runs runs = {0};
    struct cadre_error why = {0};
    const bool reported = judged == CADRE_OK || judged == CADRE_E_DIFFERS ||
                          judged == CADRE_E_CONDITION || judged == CADRE_E_UNDECIDED;
    if (!args->archive || !reported)
        return judged;
    cadre_status rc = cadre_runs_read(&folder, 1, &runs, &why);
    if (rc == CADRE_OK)
        rc = cadre_archive_write(&runs, NULL, args->archive, &why);
    if (rc == CADRE_OK)
        cadre_log(CADRE_LOG_INFO, "compare", "archive '%s'", args->archive);
    else if (judged != CADRE_OK)
        cadre_log(CADRE_LOG_ERROR, "compare", "%s", why.text);
    else if (err)
        *err = why;
    cadre_runs_fini(&runs);
    return judged != CADRE_OK ? judged : rc;
}

/* One object on stdout, also after a failure. */
static cadre_status tell_json(const struct cadre_cli_args *args, const char *folder,
                              cadre_status rc, struct cadre_error *err)
{
    const struct cadre_cli_result result = {
        .command = "compare",
        .folder = folder,
        .rc = rc,
        .error = err->text,
    };
    return args->json ? cadre_cli_result_print(&result, err) : rc;
}

static cadre_status compare(const struct cadre_cli_args *args, struct cadre_error *err)
{
    struct cadre_options *options = NULL;
    enum cadre_log_level level;
    struct cadre_launch_external external;
    struct cadre_cli_args plain = *args;
    struct cadre_compare_request request = {.conf = args->conf,
                                            .sets = args->set.item,
                                            .out = args->out,
                                            .task = args->run,
                                            .table = args->json ? stderr : stdout,
                                            .fail_if = args->fail_if.item};
    struct cadre_hardware hardware;
    char *folder = NULL, *command = cadre_cli_command_line(args);
    cadre_status rc = command ? CADRE_OK : cadre_no_memory(err, "the command");
    if (rc != CADRE_OK)
        goto fail;
    plain.run = NULL; /* the comparison takes every run's section by itself */
    CADRE_TRY_OR(step_of(args, &request.step, err), fail);
    if (args->predict) {
        CADRE_TRY_OR(cadre_cli_hardware_load(&hardware, args->predict, err), fail);
        request.predict = (struct cadre_prediction_request){
            args->predict, cadre_plan_predict, &hardware};
    }
    CADRE_TRY_OR(cadre_launch_external(&external, err), fail);
    CADRE_TRY_OR(refuse_ranks(args, &external, err), fail);
    if (external.launcher)
        cadre_log_set_rank(external.rank, external.size);
    CADRE_TRY_OR(cadre_cli_load(&plain, &options, err), fail);
    if (cadre_log_parse_level(cadre_options_raw(options, "log.level"), &level))
        cadre_log_set_level(level);
    if (args->folder)
        cadre_log(CADRE_LOG_INFO, "compare", "%s the comparison in '%s'",
                  args->out == args->folder ? "continuing" : "repeating", args->folder);
    request.options = options;
    request.command = command;
    request.launched = external.launcher != NULL;
    rc = cadre_compare(&request, err);
fail:
    folder = options && !args->out ? cadre_compare_folder(options, args->conf)
             : args->out           ? cadre_strdup(args->out)
                                   : NULL;
    if (folder)
        rc = pack(args, folder, rc, err);
    rc = tell_json(args, folder, rc, err);
    free(folder);
    free(command);
    cadre_options_destroy(options);
    return rc;
}

static const struct cadre_cli_option options[] = {
    CADRE_CLI_OPTION_SET,
    CADRE_CLI_OPTION_OUT,
    {.name = "--list",
     .field = CADRE_CLI_FIELD(list),
     .help = "print the trainings, their ranks, the processes to start"},
    {.name = "--run",
     .argument = "NAME",
     .kind = CADRE_CLI_RUN,
     .field = CADRE_CLI_FIELD(run),
     .help = "train one of them, as a rank if a launcher says so"},
    {.name = "--collect",
     .field = CADRE_CLI_FIELD(collect),
     .help = "report on the trainings that exist, train nothing"},
    {.name = "--fail-if",
     .argument = "COND",
     .kind = CADRE_CLI_TEXT,
     .field = CADRE_CLI_FIELD(fail_if),
     .repeats = true,
     .help = "exit status 5 if such as 'speedup(NAME) < 0.9' holds for the whole 95 % "
             "interval, 6 if it is undecided; also efficiency, overhead, "
             "price, bubble, exposed; <, <=, >, >="},
    CADRE_CLI_OPTION_ARCHIVE,
    {.name = "--predict",
     .argument = "HARDWARE.ini",
     .kind = CADRE_CLI_FILE,
     .field = CADRE_CLI_FIELD(predict),
     .help =
         "set forecasts of this hardware file, or of one that comes with Cadre (h100), "
         "beside what is measured, and log their errors in predictions.tsv"},
    {.name = "--json",
     .field = CADRE_CLI_FIELD(json),
     .help = "print one JSON object at the end: folder, status, figures of each run"},
    {0},
};

const struct cadre_cli_command cadre_command_compare = {
    .name = "compare",
    .synopsis = "CONF [--set SECTION.KEY=VALUE]... [--out DIR] [--fail-if COND]... "
                "[--list | --run NAME | --collect] [--archive FILE.tar] "
                "[--predict HARDWARE.ini] [--json]",
    .summary = "train every run of [compare], check equality, write the report",
    .argument = "CONF",
    .kind = CADRE_CLI_CONF,
    .least = 1,
    .most = 1,
    .continues = true,
    .details = "Where CONF is the folder of a comparison, its comparison.ini is read, "
               "and the comparison goes on in that folder: finished runs are kept.",
    .options = options,
    .run = compare,
};
