/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/check.h"

#include <stdio.h>

#include "core/check/catalogue.h"
#include "core/cli/cli.h"

static cadre_status check(const struct cadre_cli_args *args, struct cadre_error *err)
{
    struct cadre_check_request request = args->check;
    if (args->list) {
        cadre_catalogue_print(stdout);
        return CADRE_OK;
    }
    if (!args->conf)
        return cadre_fail(err, CADRE_E_INVALID, "usage: cadre check %s",
                          cadre_command_check.synopsis);
    request.plugin = args->conf;
    return cadre_check(&request, err);
}

static const struct cadre_cli_option options[] = {
    {.name = "--only",
     .argument = "IDS",
     .kind = CADRE_CLI_TEXT,
     .field = CADRE_CLI_FIELD(check.only),
     .help = "only these checks and groups, such as K2,state"},
    {.name = "--quick",
     .field = CADRE_CLI_FIELD(check.quick),
     .help = "what takes 20 s at most"},
    {.name = "--seed",
     .argument = "N",
     .kind = CADRE_CLI_TEXT,
     .field = CADRE_CLI_FIELD(check.seed),
     .help = "of everything random (1); the same seed, the same checks"},
    {.name = "--fuzz",
     .argument = "TIME",
     .kind = CADRE_CLI_TEXT,
     .field = CADRE_CLI_FIELD(check.fuzz),
     .help = "random trials for so long, such as 10m"},
    {.name = "--reproduce",
     .argument = "N",
     .kind = CADRE_CLI_TEXT,
     .field = CADRE_CLI_FIELD(check.reproduce),
     .help = "one of these trials again"},
    {.name = "--waive",
     .argument = "FILE",
     .kind = CADRE_CLI_FILE,
     .field = CADRE_CLI_FIELD(check.waive),
     .help = "failures to accept: an id and a reason a line"},
    {.name = "--json",
     .argument = "FILE",
     .kind = CADRE_CLI_FILE,
     .field = CADRE_CLI_FIELD(check.json),
     .help = "results as JSON"},
    {.name = "--junit",
     .argument = "FILE",
     .kind = CADRE_CLI_FILE,
     .field = CADRE_CLI_FIELD(check.junit),
     .help = "results as JUnit XML"},
    {.name = "--html",
     .argument = "FILE",
     .kind = CADRE_CLI_FILE,
     .field = CADRE_CLI_FIELD(check.html),
     .help = "results as a page"},
    {.name = "--list",
     .field = CADRE_CLI_FIELD(list),
     .help = "ids, what each check holds, and why"},
    /* of the processes of the kit itself */
    {.name = "--case",
     .argument = "ID",
     .kind = CADRE_CLI_TEXT,
     .field = CADRE_CLI_FIELD(check.one_case)},
    {.name = "--folder",
     .argument = "DIR",
     .kind = CADRE_CLI_FOLDER,
     .field = CADRE_CLI_FIELD(check.folder)},
    {0},
};

const struct cadre_cli_command cadre_command_check = {
    .name = "check",
    .synopsis =
        "PLUGIN [--only IDS] [--quick] [--seed N] [--fuzz TIME | --reproduce N] "
        "[--waive FILE] [--json FILE] [--junit FILE] [--html FILE] | --list",
    .summary = "conformance kit: try a strategy as other people's runs will",
    .argument = "PLUGIN",
    .kind = CADRE_CLI_PLUGIN,
    .most = 1,
    .options = options,
    .run = check,
};
