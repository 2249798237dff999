/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre help`, and `cadre COMMAND --help`: the tables of the commands as text for the
 * terminal, or as JSON. */
#include "core/cli/help.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "core/base/json.h"
#include "core/base/terminal.h"
#include "core/cli/cli.h"

/* What a run of the program ends with; cadre_cli_exit_code returns these. */
static const struct {
    int code;
    const char *meaning;
} statuses[] = {
    {0, "done"},
    {1, "the run failed"},
    {2, "wrong input"},
    {3, "runs differ, or a check failed"},
    {4, "stopped by a signal"},
    {5, "a condition of --fail-if holds"},
    {6, "a condition of --fail-if is undecided"},
};
#define N_STATUSES (sizeof statuses / sizeof statuses[0])

/* ---- text ---- */

static cadre_status print(struct cadre_text *text, struct cadre_error *err)
{
    cadre_status rc = text->failed ? cadre_no_memory(err, "the help") : CADRE_OK;
    fputs(cadre_text_str(text), stdout);
    cadre_text_fini(text);
    return rc;
}

static void put_command(struct cadre_text *out, const struct cadre_cli_command *command,
                        int columns)
{
    char first[64];
    snprintf(first, sizeof first, "  cadre %s", command->name);
    cadre_terminal_wrap(out, first, 10, command->synopsis, columns);
    cadre_terminal_wrap(out, "", 6, command->summary, columns);
}

static void put_option(struct cadre_text *out, const struct cadre_cli_option *option,
                       int columns)
{
    char first[64];
    snprintf(first, sizeof first, "  %s%s%s", option->name, option->argument ? " " : "",
             option->argument ? option->argument : "");
    const bool beside = strlen(first) < 20;
    if (!beside)
        cadre_text_printf(out, "%s\n", first);
    cadre_terminal_wrap(out, beside ? first : "", 20, option->help, columns);
}

cadre_status cadre_help_command(const struct cadre_cli_command *command,
                                struct cadre_error *err)
{
    const int columns = cadre_terminal_columns(STDOUT_FILENO);
    const struct cadre_cli_option *o = command->options;
    struct cadre_text out = {0};
    put_command(&out, command, columns);
    if (o)
        cadre_text_printf(&out, "\n");
    for (; o && o->name; o++)
        if (o->help)
            put_option(&out, o, columns);
    if (command->details) {
        cadre_text_printf(&out, "\n");
        cadre_terminal_wrap(&out, "", 0, command->details, columns);
    }
    return print(&out, err);
}

/* "Exit status: 0 done, 1 ..." */
static void put_statuses(struct cadre_text *out, int columns)
{
    struct cadre_text line = {0};
    cadre_text_printf(&line, "Exit status:");
    for (size_t i = 0; i < N_STATUSES; i++)
        cadre_text_printf(&line, " %d %s%s", statuses[i].code, statuses[i].meaning,
                          i + 1 < N_STATUSES ? ";" : ".");
    cadre_terminal_wrap(out, "", 0, cadre_text_str(&line), columns);
    cadre_text_fini(&line);
}

static void put_plugins(struct cadre_text *out, int columns)
{
    char **plugins = cadre_cli_plugin_commands(), text[128];
    for (char **name = plugins; name && *name; name++) {
        snprintf(text, sizeof text, "of the plugin %.40s: `cadre %.40s --help`", *name,
                 *name);
        cadre_text_printf(out, "  cadre %s ARGS...\n", *name);
        cadre_terminal_wrap(out, "", 6, text, columns);
        free(*name);
    }
    free(plugins);
}

static cadre_status show_all(struct cadre_error *err)
{
    const int columns = cadre_terminal_columns(STDOUT_FILENO);
    const struct cadre_cli_command *const *command = cadre_cli_commands();
    struct cadre_text out = {0};
    cadre_terminal_wrap(
        &out, PACKAGE_STRING ":", 0,
        "trains transformers under swappable parallelism strategies\n\nusage:",
        columns);
    for (; *command; command++)
        put_command(&out, *command, columns);
    put_plugins(&out, columns);
    cadre_text_printf(&out, "\n");
    cadre_terminal_wrap(
        &out, "", 0,
        "CONF is an ini file, or the folder of a run for its config.ini; `cadre "
        "options` lists its keys, `cadre COMMAND --help` the options of a command, "
        "which may be written --out DIR or --out=DIR.",
        columns);
    put_statuses(&out, columns);
    return print(&out, err);
}

/* ---- JSON ---- */

/* "data, schedule" as an array; null where there are none. */
static void put_choices(struct cadre_json *json, const char *choices)
{
    cadre_json_key(json, "choices");
    if (!choices) {
        cadre_json_null(json);
        return;
    }
    cadre_json_begin_array(json);
    while (*choices) {
        char one[64];
        const size_t n = strcspn(choices, ", ");
        snprintf(one, sizeof one, "%.*s", (int)n, choices);
        cadre_json_string(json, one);
        choices += n + strspn(choices + n, ", ");
    }
    cadre_json_end_array(json);
}

static void put_options_json(struct cadre_json *json,
                             const struct cadre_cli_option *option)
{
    cadre_json_key(json, "options");
    cadre_json_begin_array(json);
    for (; option && option->name; option++) {
        if (!option->help)
            continue;
        cadre_json_begin_object(json);
        cadre_json_put_string(json, "name", option->name);
        cadre_json_put_string(json, "argument", option->argument);
        cadre_json_put_string(
            json, "kind", option->argument ? cadre_cli_kind_name(option->kind) : NULL);
        put_choices(json, option->choices);
        cadre_json_put_bool(json, "repeats", option->repeats);
        cadre_json_put_string(json, "help", option->help);
        cadre_json_end_object(json);
    }
    cadre_json_end_array(json);
}

static void put_command_json(struct cadre_json *json,
                             const struct cadre_cli_command *command)
{
    cadre_json_begin_object(json);
    cadre_json_put_string(json, "name", command->name);
    cadre_json_put_string(json, "synopsis", command->synopsis);
    cadre_json_put_string(json, "summary", command->summary);
    cadre_json_put_string(json, "details", command->details);
    cadre_json_put_string(json, "argument", command->argument);
    cadre_json_put_string(
        json, "kind", command->argument ? cadre_cli_kind_name(command->kind) : NULL);
    cadre_json_put_i64(json, "least", command->least);
    cadre_json_put_i64(json, "most", command->most);
    put_options_json(json, command->options);
    cadre_json_end_object(json);
}

static void put_plugins_json(struct cadre_json *json)
{
    char **plugins = cadre_cli_plugin_commands();
    cadre_json_key(json, "plugins");
    cadre_json_begin_array(json);
    for (char **name = plugins; name && *name; name++) {
        cadre_json_string(json, *name);
        free(*name);
    }
    cadre_json_end_array(json);
    free(plugins);
}

static cadre_status show_json(struct cadre_error *err)
{
    const struct cadre_cli_command *const *command = cadre_cli_commands();
    struct cadre_json json;
    cadre_json_init(&json, stdout, true);
    cadre_json_begin_object(&json);
    cadre_json_put_string(&json, "version", PACKAGE_VERSION);
    cadre_json_key(&json, "commands");
    cadre_json_begin_array(&json);
    for (; *command; command++)
        put_command_json(&json, *command);
    cadre_json_end_array(&json);
    put_plugins_json(&json);
    cadre_json_key(&json, "exit_status");
    cadre_json_begin_array(&json);
    for (size_t i = 0; i < N_STATUSES; i++) {
        cadre_json_begin_object(&json);
        cadre_json_put_i64(&json, "code", statuses[i].code);
        cadre_json_put_string(&json, "meaning", statuses[i].meaning);
        cadre_json_end_object(&json);
    }
    cadre_json_end_array(&json);
    cadre_json_end_object(&json);
    return cadre_json_finish(&json) == CADRE_OK
               ? CADRE_OK
               : cadre_fail(err, CADRE_E_IO, "cannot write the results to stdout");
}

/* ---- the command ---- */

static cadre_status help(const struct cadre_cli_args *args, struct cadre_error *err)
{
    if (args->json)
        return show_json(err);
    if (args->words.n == 0)
        return show_all(err);
    const struct cadre_cli_command *command = cadre_cli_command_find(args->conf);
    if (!command)
        return cadre_cli_unknown_command(args->conf, err);
    return cadre_help_command(command, err);
}

static const struct cadre_cli_option options[] = {
    {"--json", .field = CADRE_CLI_FIELD(json),
     .help = "every command, its options and what they complete to, as JSON"},
    {0},
};

const struct cadre_cli_command cadre_command_help = {
    .name = "help",
    .synopsis = "[COMMAND] [--json]",
    .summary = "list the commands, or the options of one",
    .argument = "COMMAND",
    .kind = CADRE_CLI_COMMAND,
    .most = 1,
    .options = options,
    .run = help,
};
