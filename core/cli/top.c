/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre top`: what the ranks of a run do now. */
#include "core/cli/cli.h"
#include "core/top/show.h"

static cadre_status top(const struct cadre_cli_args *args, struct cadre_error *err)
{
    const struct cadre_top_request request = {
        .dir = args->conf,
        .once = args->once || args->json,
        .json = args->json,
    };
    return cadre_top_show(&request, err);
}

static const struct cadre_cli_option options[] = {
    {.name = "--once",
     .help = "print one frame and end",
     .field = CADRE_CLI_FIELD(once)},
    {.name = "--json",
     .help = "print one frame as JSON; docs/watching.md has its keys",
     .field = CADRE_CLI_FIELD(json)},
    {0},
};

const struct cadre_cli_command cadre_command_top = {
    .name = "top",
    .synopsis = "RUN [--once] [--json]",
    .summary = "show what the ranks of a run do now, also after their death",
    .details =
        "RUN is the folder that `cadre train` trains into, or that of a sweep or "
        "a comparison: then the run that is at work is shown, or all are listed. "
        "Ranks of several hosts are seen through the folder that they share.\n\n"
        "A new frame is drawn once a second until the run has ended; Ctrl-C ends "
        "it before.",
    .argument = "RUN",
    .kind = CADRE_CLI_MODEL,
    .least = 1,
    .most = 1,
    .options = options,
    .run = top,
};
