/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/runs_report.h"

#include <stdlib.h>

#include "core/cli/cli.h"

static cadre_status report(const struct cadre_cli_args *args, struct cadre_error *err)
{
    char *command = cadre_cli_command_line(args);
    const struct cadre_runs_report_request request = {
        .dir = args->words.item,
        .n = (size_t)args->words.n,
        .out = args->out,
        .command = command,
        .archive = args->archive,
        .json = args->json,
    };
    cadre_status rc = command ? cadre_runs_report(&request, stdout, err)
                              : cadre_no_memory(err, "the command");
    free(command);
    return rc;
}

static const struct cadre_cli_option options[] = {
    {.name = "--out",
     .argument = "DIR",
     .kind = CADRE_CLI_FOLDER,
     .field = CADRE_CLI_FIELD(out),
     .help = "where to write; default: the folder of a single run, \"report\" for "
             "several"},
    CADRE_CLI_OPTION_ARCHIVE,
    {.name = "--json",
     .field = CADRE_CLI_FIELD(json),
     .help = "print the figures of report.json in place of the table, also of one run"},
    {0},
};

const struct cadre_cli_command cadre_command_report = {
    .name = "report",
    .synopsis = "RUN... [--out DIR] [--archive FILE.tar] [--json]",
    .summary = "make a page and tables of existing runs, without training",
    .details = "RUN is the folder of a run, also of another machine, of independent "
               "runs, of a comparison, or what an archive unpacks to. One run gets "
               "run.html; several are set beside each other with what differs in their "
               "options. Their speed is not ranked.",
    .argument = "RUN",
    .kind = CADRE_CLI_FOLDER,
    .least = 1,
    .most = CADRE_CLI_MANY,
    .options = options,
    .run = report,
};
