/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/base/status_slot.h"
#include "core/cli/folder.h"
#include "core/cli/help.h"
#include "core/compare/verdict/condition.h"
#include "core/config/nearest.h"

const struct cadre_cli_command *const *cadre_cli_commands(void)
{
    static const struct cadre_cli_command *const commands[] = {
        &cadre_command_train,    &cadre_command_compare,
        &cadre_command_report,   &cadre_command_eval,
        &cadre_command_generate, &cadre_command_merge,
        &cadre_command_plan,     &cadre_command_check,
        &cadre_command_inspect,  &cadre_command_top,
        &cadre_command_new,      &cadre_command_plugins,
        &cadre_command_options,  &cadre_command_doctor,
        &cadre_command_help,     NULL,
    };
    return commands;
}

static bool asks_for_help(const struct cadre_cli_args *args)
{
    for (int i = 2; i < args->argc; i++)
        if (strcmp(args->argv[i], "--help") == 0 || strcmp(args->argv[i], "-h") == 0)
            return true;
    return false;
}

/* A full disk or a closed pipe is detected when the results are flushed. */
static cadre_status flush(cadre_status rc, struct cadre_error *err)
{
    if ((fflush(stdout) != 0 || ferror(stdout)) && rc == CADRE_OK)
        rc = cadre_fail(err, CADRE_E_IO, "cannot write the results to stdout");
    return rc;
}

/* Words for what another command does. */
static const char *hint_of(const char *name)
{
    static const char *const words[][2] = {
        {"run", "no command 'run'; `cadre train CONF` trains, `cadre compare CONF` "
                "compares strategies"},
        {"evaluate", "no command 'evaluate', it is `cadre eval CONF`"},
        {"resume", "no command 'resume'; `cadre train RUN_FOLDER` continues a run"},
        {"list", "no command 'list'; `cadre plugins` lists the strategies, `cadre "
                 "options` the keys"},
        {"version", "no command 'version', it is `cadre --version`"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i][0], name) == 0)
            return words[i][1];
    return NULL;
}

cadre_status cadre_cli_unknown_command(const char *name, struct cadre_error *err)
{
    struct cadre_nearest nearest = {0};
    const char *hint = hint_of(name);
    if (hint)
        return cadre_fail(err, CADRE_E_INVALID, "%s; `cadre help` lists all", hint);
    const struct cadre_cli_command *const *command = cadre_cli_commands();
    for (; *command; command++)
        cadre_nearest_offer(&nearest, name, (*command)->name);
    char **plugins = cadre_cli_plugin_commands();
    for (char **plugin = plugins; plugin && *plugin; plugin++)
        cadre_nearest_offer(&nearest, name, *plugin);
    const char *best = nearest.name;
    cadre_status rc = cadre_fail(
        err, CADRE_E_INVALID, "no command '%s'%s%s%s; `cadre help` lists them", name,
        best ? ", did you mean '" : "", best ? best : "", best ? "'" : "");
    for (char **plugin = plugins; plugin && *plugin; plugin++)
        free(*plugin);
    free(plugins);
    return rc;
}

/* A name that is no command of the core may be a plugin's. */
static cadre_status run_plugin(const struct cadre_cli_args *args,
                               struct cadre_error *err)
{
    bool found = false;
    cadre_status rc = cadre_cli_plugin(args, &found, err);
    if (found || rc != CADRE_OK)
        return flush(rc, err);
    return cadre_cli_unknown_command(args->argv[1], err);
}

static bool is_one_of(const char *word, const char *first, const char *second)
{
    return strcmp(word, first) == 0 || strcmp(word, second) == 0;
}

cadre_status cadre_cli(int argc, char **argv, struct cadre_error *err)
{
    struct cadre_cli_args args = {.argc = argc, .argv = argv};
    if (argc < 2)
        return cadre_fail(err, CADRE_E_INVALID,
                          "expected a command; `cadre help` lists them");
    if (is_one_of(argv[1], "--version", "-V")) {
        puts(PACKAGE_STRING);
        return flush(CADRE_OK, err);
    }
    const bool help = is_one_of(argv[1], "--help", "-h");
    const struct cadre_cli_command *command =
        help ? &cadre_command_help : cadre_cli_command_find(argv[1]);
    if (!command)
        return run_plugin(&args, err);
    if (!help && asks_for_help(&args))
        return flush(cadre_help_command(command, err), err);
    cadre_status rc = cadre_cli_parse(command, &args, err);
    if (rc == CADRE_OK)
        rc = cadre_cli_take_folder(command, &args, err);
    if (rc == CADRE_OK)
        rc = flush(command->run(&args, err), err);
    cadre_cli_args_fini(&args);
    return rc;
}

int cadre_cli_exit_code(cadre_status rc)
{
    switch (rc) {
    case CADRE_OK:
        return 0;
    case CADRE_E_INVALID:
    case CADRE_E_UNSUPPORTED:
        return 2;
    case CADRE_E_DIFFERS:
        return 3;
    case CADRE_E_STOPPED:
        return 4;
    case CADRE_E_CONDITION:
        return 5;
    case CADRE_E_UNDECIDED:
        return 6;
    default:
        return 1;
    }
}

/* As a shell takes it: what has other than plain characters is quoted. */
static void put_word(struct cadre_text *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_-+=./:,%@";
    if (*word && strspn(word, plain) == strlen(word)) {
        cadre_text_printf(out, "%s", word);
        return;
    }
    cadre_text_printf(out, "'");
    for (const char *at = word; *at; at++)
        if (*at == '\'')
            cadre_text_printf(out, "'\\''");
        else
            cadre_text_append(out, at, 1);
    cadre_text_printf(out, "'");
}

char *cadre_cli_command_line(const struct cadre_cli_args *args)
{
    struct cadre_text text = {0};
    cadre_text_printf(&text, "cadre");
    for (int i = 1; i < args->argc; i++) {
        cadre_text_printf(&text, " ");
        put_word(&text, args->argv[i]);
    }
    if (text.failed)
        cadre_text_fini(&text);
    return text.data;
}

void cadre_cli_run_name(const struct cadre_cli_args *args, char *out,
                        unsigned long size)
{
    const char *base = args->run ? args->run : cadre_path_basename(args->conf);
    const char *dot = args->run ? NULL : strrchr(base, '.');
    int length = dot && dot != base ? (int)(dot - base) : (int)strlen(base);
    snprintf(out, size, "%.*s", length, base);
}

/* Without data.path, ECG records are those of CADRE_MITDB, or of data/mitdb. */
static cadre_status default_records(struct cadre_options *options,
                                    struct cadre_error *err)
{
    const char *format = cadre_options_raw(options, "data.format");
    const char *path = cadre_options_raw(options, "data.path");
    const char *from = getenv("CADRE_MITDB");
    if (from && !*from)
        from = NULL;
    if (strcmp(format, "wfdb") != 0 || *path)
        return CADRE_OK;
    if (!from && !cadre_path_is_dir("data/mitdb"))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "data.path is empty: no ECG records; set it, or CADRE_MITDB, or "
            "put the records into data/mitdb");
    char *text = cadre_format("data.path=%s", from ? from : "data/mitdb");
    cadre_status rc =
        text ? cadre_options_set(options, text,
                                 from ? "environment CADRE_MITDB" : "found here", err)
             : cadre_no_memory(err, "a path");
    free(text);
    return rc;
}

/* They win over the file and over a run's section. */
static cadre_status apply_sets(struct cadre_options *options,
                               const struct cadre_cli_args *args,
                               struct cadre_error *err)
{
    for (int i = 0; i < args->set.n; i++)
        CADRE_TRY(cadre_options_set(options, args->set.item[i], "command line", err));
    return CADRE_OK;
}

cadre_status cadre_cli_load(const struct cadre_cli_args *args,
                            struct cadre_options **out, struct cadre_error *err)
{
    struct cadre_options *options = NULL;
    cadre_status rc;
    CADRE_TRY_OR(cadre_options_create(&options, err), fail);
    CADRE_TRY_OR(cadre_options_load(options, args->conf, err), fail);
    CADRE_TRY_OR(apply_sets(options, args, err), fail);
    CADRE_TRY_OR(cadre_options_vary(options, err), fail); /* --set may give it */
    if (args->run) {
        CADRE_TRY_OR(cadre_options_apply_run(options, args->run, err), fail);
        CADRE_TRY_OR(apply_sets(options, args, err), fail);
    }
    CADRE_TRY_OR(default_records(options, err), fail);
    cadre_status_limit(cadre_status_current(),
                       strtod(cadre_options_raw(options, "comm.timeout"), NULL));
    *out = options;
    return CADRE_OK;
fail:
    cadre_options_destroy(options);
    /* an ini file that cannot be read is a user error */
    return cadre_error_of_input(rc, err);
}
