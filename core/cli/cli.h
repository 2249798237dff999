/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `cadre`. Results go to stdout, everything else to stderr. */
#ifndef CADRE_CLI_CLI_H
#define CADRE_CLI_CLI_H

#include <stdbool.h>

#include "core/base/memory.h"
#include "core/check/check.h"
#include "core/cli/command.h"
#include "core/config/options.h"
#include "core/run/spec.h"

/* Run the command in argv. On failure err holds the one line for the user. [main] */
cadre_status cadre_cli(int argc, char **argv, struct cadre_error *err);

/* 0 done, 1 the run failed, 2 wrong input, 3 a comparison differs, 4 stopped by a
 * signal, 5 a condition of --fail-if holds, 6 one is undecided. */
int cadre_cli_exit_code(cadre_status rc);

struct cadre_cli_args {
    int argc;
    char **argv; /* of the program */
    struct cadre_cli_texts words; /* the arguments that are no options */
    const char *conf; /* the first of them: the ini file, or what the command names */
    const char *folder; /* of a run, where that was named as CONF; NULL: a file was */
    char *ini, *resume; /* the file in it, and the option that continues it; owned */
    const char *out; /* --out */
    const char *run; /* --run */
    const char *prompt, *system; /* of what is generated */
    const char *from; /* --from: parameters to use */
    const char *tokens; /* --tokens: how many to generate */
    const char *temperature, *top_k, *top_p, *seed; /* of generated tokens */
    const char *role; /* --role: of a new plugin */
    const char *archive; /* --archive: a file to write */
    const char *predict; /* --predict: a hardware file */
    const char *rank; /* --rank: of a run */
    bool dry_run, json, greedy, no_cache, once, chat, events;
    bool list, collect; /* of a comparison */
    struct cadre_check_request check; /* its flags; the plugin is `conf` */
    struct {
        const char *hardware, *ranks, *replay, *emit, *top;
        const char *explain, *stack, *price, *measure, *trace, *html, *chakra;
        struct cadre_cli_texts what_if;
        bool simulate, fit, cost;
    } plan; /* of `cadre plan` */
    struct cadre_cli_texts set; /* --set */
    struct cadre_cli_texts stop; /* --stop */
    struct cadre_cli_texts fail_if; /* --fail-if */
};

/* Options from args: the file, the requested [run:NAME], then every --set. *out is the
 * caller's. */
cadre_status cadre_cli_load(const struct cadre_cli_args *args,
                            struct cadre_options **out, struct cadre_error *err);

/* The command as it was given, quoted as a shell takes it; the program is `cadre`. The
 * caller frees it; NULL: no memory. */
char *cadre_cli_command_line(const struct cadre_cli_args *args);

/* Name of a run after its file: "conf/ecg.ini" -> "ecg". Writes at most size bytes. */
void cadre_cli_run_name(const struct cadre_cli_args *args, char *out,
                        unsigned long size);

/* One rank with trained parameters, for eval and generate: those of --from, else of the
 * run whose config.ini CONF is, else of model.init, else of the run that CONF made.
 * *named_by (may be NULL): which of them, "--from", "run", "model.init", or
 * "tune.adapter" where an adapter is set beside them; static storage. cadre_rank_fini,
 * then cadre_spec_destroy. */
cadre_status cadre_cli_load_model(const struct cadre_cli_args *args, bool need_data,
                                  struct cadre_spec **spec, struct cadre_rank *rank,
                                  const char **named_by, struct cadre_error *err);

/* `cadre NAME ARGS` if NAME is no command of the core: run the command of the plugin
 * NAME, argv[1] being NAME, and set *found. Without such a plugin in the search folders
 * *found is false and nothing is done. Errors: those of loading it, CADRE_E_INVALID if
 * it has no command, and those of its command. */
cadre_status cadre_cli_plugin(const struct cadre_cli_args *args, bool *found,
                              struct cadre_error *err);

/* Names of plugins that have a command, sorted; as cadre_plugin_list. Files that cannot
 * be loaded are left out. */
char **cadre_cli_plugin_commands(void);

/* What the command of the plugin prints for argv {"doctor"}, or one line "no: reason".
 */
void cadre_cli_plugin_describe(const char *name, struct cadre_text *out);

/* There is no command `name`: CADRE_E_INVALID with the nearest one. */
cadre_status cadre_cli_unknown_command(const char *name, struct cadre_error *err);

#endif
