/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/folder.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "core/compare/settings.h"
#include "core/run/bench.h"

static cadre_status refuse(const struct cadre_cli_command *command, const char *dir,
                           const char *ini, struct cadre_error *err)
{
    const bool compares = command == &cadre_command_compare;
    if (!compares && cadre_path_has(dir, CADRE_COMPARISON_INI))
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' is the folder of a comparison, whose runs are in "
                          "'%s/runs': name one of these (`cadre compare %s` continues "
                          "the comparison)",
                          dir, dir, dir);
    if (compares && cadre_path_has(dir, "config.ini"))
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' is the folder of one run: name an ini file, or the "
                          "folder of a comparison, which has " CADRE_COMPARISON_INI,
                          dir);
    if (!compares && (cadre_path_has(dir, "model.safetensors") ||
                      cadre_path_has(dir, "model.safetensors.index.json")))
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' is a model without the options of a run: name an ini "
                          "file, and the model by %s",
                          dir,
                          command == &cadre_command_train ? "model.init" : "--from");
    return cadre_fail(err, CADRE_E_INVALID,
                      "'%s' is a folder without %s: name an ini file, or the folder of "
                      "a %s",
                      dir, ini, compares ? "comparison" : "run");
}

/* Before what the user set, which wins. */
static cadre_status put_resume(struct cadre_cli_args *args, struct cadre_error *err)
{
    struct cadre_cli_texts *set = &args->set;
    args->resume = cadre_strdup("checkpoint.resume=auto");
    if (!set->item)
        set->item = cadre_calloc((size_t)args->argc + 1, sizeof *set->item);
    if (!args->resume || !set->item)
        return cadre_no_memory(err, "the arguments");
    memmove(set->item + 1, set->item, (size_t)set->n * sizeof *set->item);
    set->item[0] = args->resume;
    set->n++;
    return CADRE_OK;
}

cadre_status cadre_cli_take_folder(const struct cadre_cli_command *command,
                                   struct cadre_cli_args *args, struct cadre_error *err)
{
    const char *ini =
        command == &cadre_command_compare ? CADRE_COMPARISON_INI : "config.ini";
    if (command->kind != CADRE_CLI_CONF || !args->conf ||
        !cadre_path_is_dir(args->conf))
        return CADRE_OK;
    if (!cadre_path_has(args->conf, ini))
        return refuse(command, args->conf, ini, err);
    args->folder = args->conf;
    args->ini = cadre_path_join(args->folder, ini);
    if (!args->ini)
        return cadre_no_memory(err, "a path");
    args->conf = args->ini;
    if (!command->continues || args->out)
        return CADRE_OK;
    args->out = args->folder;
    /* a benchmark takes the place of the one before it */
    return cadre_bench_made(args->folder) ? CADRE_OK : put_resume(args, err);
}
