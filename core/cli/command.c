/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/command.h"

#include <stdlib.h>
#include <string.h>

#include "core/cli/cli.h"
#include "core/config/foreign.h"
#include "core/config/nearest.h"

const char *cadre_cli_kind_name(enum cadre_cli_kind kind)
{
    static const char *const names[] = {
        [CADRE_CLI_TEXT] = "text",
        [CADRE_CLI_CONF] = "conf",
        [CADRE_CLI_MODEL] = "model",
        [CADRE_CLI_FOLDER] = "folder",
        [CADRE_CLI_FILE] = "file",
        [CADRE_CLI_PATH] = "path",
        [CADRE_CLI_PLUGIN] = "plugin",
        [CADRE_CLI_KEY] = "key",
        [CADRE_CLI_ASSIGNMENT] = "assignment",
        [CADRE_CLI_RUN] = "run",
        [CADRE_CLI_COMMAND] = "command",
        [CADRE_CLI_CHOICE] = "choice",
    };
    return names[kind];
}

const struct cadre_cli_command *cadre_cli_command_find(const char *name)
{
    const struct cadre_cli_command *const *command = cadre_cli_commands();
    while (*command && strcmp((*command)->name, name) != 0)
        command++;
    return *command;
}

static cadre_status refuse(const struct cadre_cli_command *command, const char *what,
                           struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_INVALID, "%s; usage: cadre %s %s", what,
                      command->name, command->synopsis);
}

static bool takes(const struct cadre_cli_command *command, const char *name)
{
    const struct cadre_cli_option *o = command->options;
    while (o && o->name && strcmp(o->name, name) != 0)
        o++;
    return o && o->name;
}

static cadre_status unknown(const struct cadre_cli_command *command, const char *arg,
                            struct cadre_error *err)
{
    struct cadre_nearest nearest = {0};
    char flag[100], text[400];
    const struct cadre_cli_option *o = command->options;
    snprintf(flag, sizeof flag, "%.*s", (int)strcspn(arg, "="), arg);
    const struct cadre_foreign *foreign = cadre_foreign_find(flag);
    if (foreign && takes(command, "--set"))
        return cadre_fail(err, CADRE_E_INVALID,
                          "unknown flag '%s': %s; options stand in CONF, or behind "
                          "--set",
                          flag, cadre_foreign_say(foreign, text, sizeof text));
    if (strchr(flag, '.') && takes(command, "--set"))
        return cadre_fail(err, CADRE_E_INVALID,
                          "unknown flag '%s': an option of a run is set by --set "
                          "%s=VALUE",
                          flag, flag + strspn(flag, "-"));
    for (; o && o->name; o++)
        if (o->help)
            cadre_nearest_offer(&nearest, flag, o->name);
    snprintf(text, sizeof text, "unknown flag '%s'%s%s%s", flag,
             nearest.name ? ", did you mean '" : "", nearest.name ? nearest.name : "",
             nearest.name ? "'" : "");
    return refuse(command, text, err);
}

/* Append to a list that has room for every argument there is. */
static cadre_status append(const struct cadre_cli_args *args,
                           struct cadre_cli_texts *texts, char *text,
                           struct cadre_error *err)
{
    if (!texts->item)
        texts->item = cadre_calloc((size_t)args->argc + 1, sizeof *texts->item);
    if (!texts->item)
        return cadre_no_memory(err, "the arguments");
    texts->item[texts->n++] = text;
    return CADRE_OK;
}

/* The option in args->argv[*i], and its value there or in the next argument. */
static cadre_status take_option(const struct cadre_cli_command *command,
                                struct cadre_cli_args *args, int *i,
                                struct cadre_error *err)
{
    char *arg = args->argv[*i], *value = strchr(arg, '='), text[160];
    const size_t n = value ? (size_t)(value - arg) : strlen(arg);
    const struct cadre_cli_option *o = command->options;
    while (o && o->name && (strlen(o->name) != n || strncmp(o->name, arg, n) != 0))
        o++;
    if (!o || !o->name)
        return unknown(command, arg, err);
    char *at = (char *)args + o->field;
    if (!o->argument && value) {
        snprintf(text, sizeof text, "%s takes no value", o->name);
        return refuse(command, text, err);
    }
    if (!o->argument) {
        *(bool *)(void *)at = true;
        return CADRE_OK;
    }
    if (!value && *i + 1 >= args->argc) {
        snprintf(text, sizeof text, "%s needs a value", o->name);
        return refuse(command, text, err);
    }
    value = value ? value + 1 : args->argv[++*i];
    if (o->repeats)
        return append(args, (struct cadre_cli_texts *)(void *)at, value, err);
    *(const char **)(void *)at = value;
    return CADRE_OK;
}

static cadre_status take_argument(const struct cadre_cli_command *command,
                                  struct cadre_cli_args *args, char *arg,
                                  struct cadre_error *err)
{
    char text[160];
    if (args->words.n >= command->most) {
        snprintf(text, sizeof text, "'%.100s' is one argument too many", arg);
        return refuse(command, text, err);
    }
    CADRE_TRY(append(args, &args->words, arg, err));
    args->conf = args->words.item[0];
    return CADRE_OK;
}

cadre_status cadre_cli_parse(const struct cadre_cli_command *command,
                             struct cadre_cli_args *args, struct cadre_error *err)
{
    bool options = true;
    for (int i = 2; i < args->argc; i++) {
        char *arg = args->argv[i];
        if (options && strcmp(arg, "--") == 0)
            options = false;
        else if (options && arg[0] == '-' && arg[1])
            CADRE_TRY(take_option(command, args, &i, err));
        else
            CADRE_TRY(take_argument(command, args, arg, err));
    }
    if (args->words.n < command->least)
        return cadre_fail(err, CADRE_E_INVALID, "usage: cadre %s %s", command->name,
                          command->synopsis);
    return CADRE_OK;
}

void cadre_cli_args_fini(struct cadre_cli_args *args)
{
    free(args->words.item);
    free(args->set.item);
    free(args->stop.item);
    free(args->fail_if.item);
    free(args->plan.what_if.item);
    free(args->ini);
    free(args->resume);
}
