/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/terminal.h"
#include "core/cli/cli.h"
#include "core/plugin/plugin.h"

/* The core's options, then those of every plugin that can be found. */
static cadre_status make_all(struct cadre_options **out, struct cadre_error *err)
{
    cadre_status rc = cadre_options_create(out, err);
    if (rc != CADRE_OK)
        return rc;
    char **names = cadre_plugin_list("");
    if (!names)
        return cadre_no_memory(err, "the names of plugins");
    for (char **name = names; *name; name++) {
        const struct cadre_plugin_handle *plugin;
        if (rc == CADRE_OK)
            rc = cadre_plugin_load(*name, "", &plugin, err);
        if (rc == CADRE_OK)
            rc = cadre_plugin_add_options(plugin, *out, err);
        free(*name);
    }
    free(names);
    return rc;
}

static cadre_status show(const struct cadre_cli_args *args, struct cadre_error *err)
{
    struct cadre_options *all = NULL;
    size_t shown = 0;
    const struct cadre_options_view view = {
        .pattern = args->conf,
        .columns = cadre_terminal_break(STDOUT_FILENO),
    };
    cadre_status rc = make_all(&all, err);
    if (rc == CADRE_OK && args->json)
        rc = cadre_options_print_json(all, &view, stdout, err);
    else if (rc == CADRE_OK)
        rc = cadre_options_print_reference(all, &view, stdout, &shown, err);
    if (rc == CADRE_OK && !args->json && shown == 0)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "no option has '%s' in its name or its help; `cadre options` "
                        "lists all",
                        args->conf);
    cadre_options_destroy(all);
    return rc;
}

static const struct cadre_cli_option options[] = {
    {.name = "--json", .field = CADRE_CLI_FIELD(json), .help = "as JSON"},
    {0},
};

const struct cadre_cli_command cadre_command_options = {
    .name = "options",
    .synopsis = "[PATTERN] [--json]",
    .summary = "reference of all options, or of those with PATTERN in name or help",
    .details =
        "PATTERN is part of section.key, of the help, or of what Megatron-LM, "
        "TorchTitan, DeepSpeed, Hugging Face or nanoGPT call the option; with *, "
        "? or [ it is a pattern for all of it: `cadre options 'optim.*'`.",
    .argument = "PATTERN",
    .kind = CADRE_CLI_KEY,
    .most = 1,
    .options = options,
    .run = show,
};
