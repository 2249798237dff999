/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/base/status_slot.h"
#include "core/compare/verdict/condition.h"
#include "core/config/nearest.h"

static cadre_status not_yet(const struct cadre_cli_args *args, struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_INVALID,
                      "'%s' is not yet built; `cadre help` lists what is",
                      args->argv[1]);
}

/* Flags that a command takes, as letters. */
#define TAKES_CONF "c"
#define TAKES_SET "s"
#define TAKES_OUT "o"
#define TAKES_RUN "r"
#define TAKES_DRY "d"
#define TAKES_FROM "f"
#define TAKES_PROMPT "p"
#define TAKES_JSON "j"
#define TAKES_STEP "t"
#define TAKES_NEW "n"
#define TAKES_CHECK "k"

struct command {
    const char *name, *usage, *summary, *takes;
    cadre_status (*run)(const struct cadre_cli_args *, struct cadre_error *);
};

static const struct command commands[] = {
    {"train", "CONF [--set s.k=v]... [--out DIR] [--run NAME] [--dry-run]",
     "train; --dry-run prints placement and memory, and trains nothing",
     TAKES_CONF TAKES_SET TAKES_OUT TAKES_RUN TAKES_DRY, cadre_cli_train},
    {"compare",
     "CONF [--set s.k=v]... [--out DIR] [--fail-if COND]... [--list | --run NAME | "
     "--collect]",
     "train every run of [compare], check equality, write the report",
     TAKES_CONF TAKES_SET TAKES_OUT TAKES_STEP, cadre_cli_compare},
    {"plan", "CONF [--set s.k=v]...", "predict memory and time (not yet)",
     TAKES_CONF TAKES_SET, not_yet},
    {"eval", "CONF [--from DIR] [--set s.k=v]... [--json]",
     "evaluate a run, checkpoint or model folder on the validation data",
     TAKES_CONF TAKES_SET TAKES_OUT TAKES_FROM TAKES_JSON, cadre_cli_eval},
    {"generate",
     "CONF --prompt TEXT [--from DIR] [--tokens N] [--greedy] [--set s.k=v]...",
     "sample text", TAKES_CONF TAKES_SET TAKES_OUT TAKES_FROM TAKES_PROMPT,
     cadre_cli_generate},
    {"check",
     "PLUGIN [--only IDS] [--quick] [--seed N] [--fuzz TIME | --reproduce N] "
     "[--waive FILE] [--json FILE] [--junit FILE] [--html FILE] | --list",
     "conformance kit: try a strategy as other people's runs will",
     TAKES_CONF TAKES_CHECK, cadre_cli_check},
    {"inspect", "PATH", "say what a plugin, checkpoint, data set or run folder is",
     TAKES_CONF, cadre_cli_inspect},
    {"new", "NAME [--out DIR] [--role data|schedule|observer|optimizer]",
     "write the folder of a new plugin, which builds, trains and says what to fill in",
     TAKES_CONF TAKES_NEW, cadre_cli_new},
    {"plugins", "[--json]", "list the plugins that are found: id, version, level, path",
     TAKES_JSON, cadre_cli_plugins},
    {"options", "", "reference of all options", "", cadre_cli_options},
    {"doctor", "[--json]", "what was found on this machine, what was not, and why",
     TAKES_JSON, cadre_cli_doctor},
};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

static void print_command(const struct command *command)
{
    printf("  cadre %s%s%s\n      %s\n", command->name, *command->usage ? " " : "",
           command->usage, command->summary);
}

static void print_usage(void)
{
    printf("%s: trains transformers under swappable parallelism strategies\n\nusage:\n",
           PACKAGE_STRING);
    for (size_t i = 0; i < N_COMMANDS; i++)
        print_command(&commands[i]);
    char **plugins = cadre_cli_plugin_commands();
    for (char **name = plugins; name && *name; name++) {
        printf("  cadre %s ARGS...\n      of the plugin %s: `cadre %s --help`\n", *name,
               *name, *name);
        free(*name);
    }
    free(plugins);
    printf(
        "\nCONF is an ini file; `cadre options` lists its keys. Exit status: 0 done,\n"
        "1 the run failed, 2 wrong input, 3 runs differ or a check failed,\n"
        "4 stopped by a signal,\n"
        "5 a condition of --fail-if holds, 6 one of them is undecided.\n");
}

/* The help of the flags that a command takes. */
static void print_flags(const struct command *command)
{
    static const char *const flags[][2] = {
        {TAKES_SET, "--set s.k=v  set option k of section s; wins over the file"},
        {TAKES_OUT,
         "--out DIR    the run's folder; default runs/NAME, named after the file"},
        {TAKES_RUN, "--run NAME   with the settings of [run:NAME] of a comparison"},
        {TAKES_DRY,
         "--dry-run    print placement and memory of each rank, train nothing"},
        {TAKES_FROM, "--from DIR   a run, checkpoint or model folder"},
        {TAKES_PROMPT,
         "--prompt TEXT  --tokens N (200)  --greedy: the likeliest token"},
        {TAKES_JSON, "--json       machine-readable output"},
        {TAKES_NEW, "--out DIR    the folder to write; default NAME\n"
                    "      --role ROLE  what it does: data (default), schedule, "
                    "observer, optimizer"},
        {TAKES_STEP,
         "--list       print the trainings, their ranks, the processes to start\n"
         "      --run NAME   train one of them, as a rank if a launcher says so\n"
         "      --collect    report on the trainings that exist, train nothing\n"
         "      --fail-if 'speedup(NAME) < 0.9'  exit status 5 if it holds for the "
         "whole\n"
         "                   95 % interval, 6 if it is undecided; also efficiency, "
         "overhead,\n"
         "                   price, bubble, exposed; <, <=, >, >="},
        {TAKES_CHECK,
         "--only IDS   only these checks and groups, such as K2,state\n"
         "      --quick      what takes 20 s at most\n"
         "      --seed N     of everything random (1); the same seed, the same checks\n"
         "      --fuzz TIME  random trials for so long, such as 10m\n"
         "      --reproduce N  one of these trials again\n"
         "      --waive FILE   failures to accept: an id and a reason a line\n"
         "      --json FILE  --junit FILE  --html FILE  results, as a file\n"
         "      --list       ids, what each check holds, and why"},
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (strstr(command->takes, flags[i][0]))
            printf("      %s\n", flags[i][1]);
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

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static cadre_status unknown_command(const char *name, struct cadre_error *err)
{
    struct cadre_nearest nearest = {0};
    for (size_t i = 0; i < N_COMMANDS; i++)
        cadre_nearest_offer(&nearest, name, commands[i].name);
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
    return unknown_command(args->argv[1], err);
}

/* A flag with its value in the next argument, where the command takes it. */
struct flag {
    const char *name, *takes;
    const char **value;
    bool *on;
};

static cadre_status take_value(const struct cadre_cli_args *args, int *i,
                               const struct command *command, const char **value,
                               struct cadre_error *err)
{
    if (*i + 1 >= args->argc)
        return cadre_fail(err, CADRE_E_INVALID, "%s needs a value; usage: cadre %s %s",
                          args->argv[*i], command->name, command->usage);
    *value = args->argv[++*i];
    return CADRE_OK;
}

static cadre_status take_flag(struct cadre_cli_args *args, int *i,
                              const struct command *command, struct cadre_error *err)
{
    const char *set = NULL, *fail_if = NULL, *arg = args->argv[*i];
    const struct flag flags[] = {
        {"--set", TAKES_SET, &set, NULL},
        {"--out", TAKES_OUT, &args->out, NULL},
        {"--out", TAKES_NEW, &args->out, NULL},
        {"--role", TAKES_NEW, &args->role, NULL},
        {"--run", TAKES_RUN, &args->run, NULL},
        {"--run", TAKES_STEP, &args->run, NULL},
        {"--list", TAKES_STEP, NULL, &args->list},
        {"--collect", TAKES_STEP, NULL, &args->collect},
        {"--fail-if", TAKES_STEP, &fail_if, NULL},
        {"--from", TAKES_FROM, &args->from, NULL},
        {"--prompt", TAKES_PROMPT, &args->prompt, NULL},
        {"--tokens", TAKES_PROMPT, &args->tokens, NULL},
        {"--greedy", TAKES_PROMPT, NULL, &args->greedy},
        {"--dry-run", TAKES_DRY, NULL, &args->dry_run},
        {"--json", TAKES_JSON, NULL, &args->json},
        {"--only", TAKES_CHECK, &args->check.only, NULL},
        {"--quick", TAKES_CHECK, NULL, &args->check.quick},
        {"--seed", TAKES_CHECK, &args->check.seed, NULL},
        {"--fuzz", TAKES_CHECK, &args->check.fuzz, NULL},
        {"--reproduce", TAKES_CHECK, &args->check.reproduce, NULL},
        {"--waive", TAKES_CHECK, &args->check.waive, NULL},
        {"--json", TAKES_CHECK, &args->check.json, NULL},
        {"--junit", TAKES_CHECK, &args->check.junit, NULL},
        {"--html", TAKES_CHECK, &args->check.html, NULL},
        {"--list", TAKES_CHECK, NULL, &args->list},
        /* of the kit's own processes */
        {"--case", TAKES_CHECK, &args->check.one_case, NULL},
        {"--folder", TAKES_CHECK, &args->check.folder, NULL},
    };
    for (size_t f = 0; f < sizeof flags / sizeof flags[0]; f++) {
        if (strcmp(arg, flags[f].name) != 0 || !strstr(command->takes, flags[f].takes))
            continue;
        if (flags[f].on) {
            *flags[f].on = true;
            return CADRE_OK;
        }
        cadre_status rc = take_value(args, i, command, flags[f].value, err);
        if (rc == CADRE_OK && set)
            args->set[args->n_set++] = args->argv[*i];
        if (rc == CADRE_OK && fail_if)
            args->fail_if[args->n_fail_if++] = args->argv[*i];
        return rc;
    }
    return cadre_fail(err, CADRE_E_INVALID, "unknown flag '%s'; usage: cadre %s %s",
                      arg, command->name, command->usage);
}

static cadre_status parse(struct cadre_cli_args *args, const struct command *command,
                          struct cadre_error *err)
{
    for (int i = 2; i < args->argc; i++) {
        const char *arg = args->argv[i];
        if (arg[0] == '-' && arg[1] == '-') {
            CADRE_TRY(take_flag(args, &i, command, err));
        } else if (!args->conf && strstr(command->takes, TAKES_CONF)) {
            args->conf = arg;
        } else {
            return cadre_fail(err, CADRE_E_INVALID,
                              "'%s' is one argument too many; usage: cadre %s %s", arg,
                              command->name, command->usage);
        }
    }
    bool lists = args->list && strstr(command->takes, TAKES_CHECK);
    if (!args->conf && strstr(command->takes, TAKES_CONF) && !lists)
        return cadre_fail(err, CADRE_E_INVALID, "usage: cadre %s %s", command->name,
                          command->usage);
    return CADRE_OK;
}

cadre_status cadre_cli(int argc, char **argv, struct cadre_error *err)
{
    struct cadre_cli_args args = {.argc = argc, .argv = argv};
    if (argc < 2)
        return cadre_fail(err, CADRE_E_INVALID,
                          "expected a command; `cadre help` lists them");
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "-h") == 0) {
        print_usage();
        return flush(CADRE_OK, err);
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts(PACKAGE_STRING);
        return flush(CADRE_OK, err);
    }
    const struct command *command = find_command(argv[1]);
    if (!command)
        return run_plugin(&args, err);
    if (asks_for_help(&args)) {
        print_command(command);
        print_flags(command);
        return flush(CADRE_OK, err);
    }
    args.set = cadre_calloc((size_t)argc, sizeof *args.set);
    args.fail_if = cadre_calloc((size_t)argc, sizeof *args.fail_if);
    cadre_status rc = args.set && args.fail_if ? parse(&args, command, err)
                                               : cadre_no_memory(err, "the arguments");
    if (rc == CADRE_OK)
        rc = flush(command->run(&args, err), err);
    free(args.set);
    free(args.fail_if);
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

cadre_status cadre_cli_load(const struct cadre_cli_args *args,
                            struct cadre_options **out, struct cadre_error *err)
{
    struct cadre_options *options = NULL;
    cadre_status rc;
    CADRE_TRY_OR(cadre_options_create(&options, err), fail);
    CADRE_TRY_OR(cadre_options_load(options, args->conf, err), fail);
    if (args->run)
        CADRE_TRY_OR(cadre_options_apply_run(options, args->run, err), fail);
    for (int i = 0; i < args->n_set; i++)
        CADRE_TRY_OR(cadre_options_set(options, args->set[i], "command line", err),
                     fail);
    CADRE_TRY_OR(default_records(options, err), fail);
    cadre_status_limit(cadre_status_current(),
                       strtod(cadre_options_raw(options, "comm.timeout"), NULL));
    *out = options;
    return CADRE_OK;
fail:
    cadre_options_destroy(options);
    /* an ini file that cannot be read is a user error */
    return rc == CADRE_E_IO ? CADRE_E_INVALID : rc;
}
