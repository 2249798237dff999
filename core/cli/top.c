/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre top`: what the ranks of a run do now. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/cli/cli.h"
#include "core/top/events.h"
#include "core/top/show.h"

/* What the ranks have posted last. */
static cadre_status events(const struct cadre_cli_args *args, struct cadre_error *err)
{
    struct cadre_top_events_request request = {
        .dir = args->conf, .rank = -1, .json = args->json};
    struct cadre_text out = {0};
    if (args->rank) {
        char *end;
        errno = 0;
        const long rank = strtol(args->rank, &end, 10);
        if (end == args->rank || *end || errno || rank < 0 || rank > INT_MAX)
            return cadre_fail(err, CADRE_E_INVALID,
                              "--rank is \"%s\"; expected the number of a rank, from 0",
                              args->rank);
        request.rank = (int)rank;
    }
    cadre_status rc = cadre_top_events(&request, &out, err);
    if (rc == CADRE_OK &&
        (fputs(cadre_text_str(&out), stdout) < 0 || fflush(stdout) != 0))
        rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot write to stdout");
    cadre_text_fini(&out);
    return rc;
}

static cadre_status top(const struct cadre_cli_args *args, struct cadre_error *err)
{
    if (args->events)
        return events(args, err);
    if (args->rank)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--rank chooses one of the ranks that --events prints; add "
                          "--events");
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
    {.name = "--events",
     .help = "print the last 1,024 communication operations of each rank",
     .field = CADRE_CLI_FIELD(events)},
    {.name = "--rank",
     .argument = "R",
     .kind = CADRE_CLI_TEXT,
     .help = "of rank R alone",
     .field = CADRE_CLI_FIELD(rank)},
    {.name = "--json",
     .help = "print one frame, or the events, as JSON; docs/watching.md has the keys",
     .field = CADRE_CLI_FIELD(json)},
    {0},
};

const struct cadre_cli_command cadre_command_top = {
    .name = "top",
    .synopsis = "RUN [--once | --events [--rank R]] [--json]",
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
