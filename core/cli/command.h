/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of `cadre` as tables: a command's file holds its options and its struct,
 * cli.c lists all commands. Help, `cadre help --json`, manual pages and completion are
 * made from these tables alone. */
#ifndef CADRE_CLI_COMMAND_H
#define CADRE_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/base/error.h"

struct cadre_cli_args;

/* What an argument is, so that a shell can complete it. */
enum cadre_cli_kind {
    CADRE_CLI_TEXT, /* free text, a number */
    CADRE_CLI_CONF, /* an ini file, or the folder of a run */
    CADRE_CLI_MODEL, /* a folder: of a run, a checkpoint, a model */
    CADRE_CLI_FOLDER, /* a folder to write */
    CADRE_CLI_FILE, /* a file to read or write */
    CADRE_CLI_PATH, /* anything that there is */
    CADRE_CLI_PLUGIN, /* a plugin's name or file */
    CADRE_CLI_KEY, /* an option of a run, section.key */
    CADRE_CLI_ASSIGNMENT, /* section.key=value */
    CADRE_CLI_RUN, /* the NAME of a [run:NAME] of CONF */
    CADRE_CLI_COMMAND, /* a command's name */
    CADRE_CLI_CHOICE, /* one of `choices` */
};

/* "text", "conf", ...: the kind in `cadre help --json`. */
const char *cadre_cli_kind_name(enum cadre_cli_kind kind);

/* An option of one command; in a table that ends with a name of NULL. */
struct cadre_cli_option {
    const char *name; /* "--out" */
    const char *argument; /* "DIR"; NULL: the option takes none */
    enum cadre_cli_kind kind; /* of the argument */
    const char *choices; /* of a CHOICE: "data, schedule" */
    const char *help; /* one sentence; NULL: of the program's own processes, not shown
                       */
    /* Where it goes in struct cadre_cli_args: a bool without an argument, a struct
     * cadre_cli_texts where it `repeats`, else a const char *. */
    size_t field;
    bool repeats;
};

#define CADRE_CLI_FIELD(name) offsetof(struct cadre_cli_args, name)
#define CADRE_CLI_MANY 1000000

struct cadre_cli_command {
    const char *name;
    const char *synopsis; /* behind the name */
    const char *summary; /* one line */
    const char *details; /* paragraphs below the options, by "\n\n"; NULL: none */
    const char *argument; /* what stands beside the options: "CONF"; NULL: nothing */
    enum cadre_cli_kind kind; /* of the argument */
    int least, most; /* how many such arguments */
    bool continues; /* a folder as CONF is one to go on in; see folder.h */
    const struct cadre_cli_option *options; /* NULL: none */
    cadre_status (*run)(const struct cadre_cli_args *args, struct cadre_error *err);
};

/* Rows that several commands have. */
#define CADRE_CLI_OPTION_SET                                                           \
    {                                                                                  \
        .name = "--set", .argument = "SECTION.KEY=VALUE",                              \
        .kind = CADRE_CLI_ASSIGNMENT, .field = CADRE_CLI_FIELD(set), .repeats = true,  \
        .help = "set an option; wins over the file"                                    \
    }
#define CADRE_CLI_OPTION_OUT                                                           \
    {                                                                                  \
        .name = "--out", .argument = "DIR", .kind = CADRE_CLI_FOLDER,                  \
        .field = CADRE_CLI_FIELD(out),                                                 \
        .help = "the run's folder; default runs/NAME, named after the file"            \
    }
#define CADRE_CLI_OPTION_ARCHIVE                                                       \
    {                                                                                  \
        .name = "--archive", .argument = "FILE.tar", .kind = CADRE_CLI_FILE,           \
        .field = CADRE_CLI_FIELD(archive),                                             \
        .help = "pack options, summaries, raw times, certificates and report, "        \
                "without checkpoints"                                                  \
    }
#define CADRE_CLI_OPTION_FROM                                                          \
    {                                                                                  \
        .name = "--from", .argument = "DIR", .kind = CADRE_CLI_MODEL,                  \
        .field = CADRE_CLI_FIELD(from),                                                \
        .help = "take the parameters of this run, checkpoint or model folder"          \
    }
#define CADRE_CLI_OPTION_JSON                                                          \
    {                                                                                  \
        .name = "--json", .field = CADRE_CLI_FIELD(json),                              \
        .help = "machine-readable output"                                              \
    }

/* The texts of an option or argument that may be given several times, in their order,
 * ended by NULL; borrowed from argv. */
struct cadre_cli_texts {
    char **item;
    int n;
};

/* All commands in the order of the help, ended by NULL (cli.c). */
const struct cadre_cli_command *const *cadre_cli_commands(void);

/* NULL where there is none. */
const struct cadre_cli_command *cadre_cli_command_find(const char *name);

/* Sort argv behind the command's name into args: "--opt value" and "--opt=value", and
 * behind "--" arguments alone. args->argc and argv are set; the caller calls
 * cadre_cli_args_fini in any case. Errors: CADRE_E_INVALID naming the usage,
 * CADRE_E_RESOURCE. */
cadre_status cadre_cli_parse(const struct cadre_cli_command *command,
                             struct cadre_cli_args *args, struct cadre_error *err);
void cadre_cli_args_fini(struct cadre_cli_args *args);

/* One in each command's file. */
extern const struct cadre_cli_command cadre_command_train, cadre_command_compare,
    cadre_command_report, cadre_command_eval, cadre_command_generate,
    cadre_command_check, cadre_command_inspect, cadre_command_new,
    cadre_command_plugins, cadre_command_options, cadre_command_doctor,
    cadre_command_help, cadre_command_top, cadre_command_merge, cadre_command_plan;

#endif
