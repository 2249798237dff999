/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/plan_hardware.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"

static const char SUFFIX[] = ".ini";

bool cadre_cli_hardware_beside(const char *name, char path[PATH_MAX])
{
    static const char form[] = "%s/%s/hardware/%s";
    char program[1024], relative[1024];
    cadre_path_program_dir(program, sizeof program);
    cadre_path_relative(CADRE_BINDIR, CADRE_CONFDIR, relative, sizeof relative);
    const char *const from[][2] = {
        {program, "."}, {program, ".."}, {program, relative}, {CADRE_CONFDIR, "."}};
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        const int n = snprintf(path, PATH_MAX, form, from[i][0], from[i][1], name);
        if (n < PATH_MAX && cadre_path_exists(path))
            return true;
    }
    return false;
}

static int is_hardware(const struct dirent *entry)
{
    const size_t n = strlen(entry->d_name), end = strlen(SUFFIX);
    return n > end && strcmp(entry->d_name + n - end, SUFFIX) == 0;
}

/* ": a100-80, h100", of the folder that has the table of hardware texts. */
static void list_names(struct cadre_text *out)
{
    char table[PATH_MAX];
    char *dir = cadre_cli_hardware_beside("texts.tsv", table)
                    ? cadre_path_dirname(table)
                    : NULL;
    struct dirent **entry = NULL;
    const int n = dir ? scandir(dir, &entry, is_hardware, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        const char *name = entry[i]->d_name;
        cadre_text_printf(out, "%s%.*s", i ? ", " : ": ",
                          (int)(strlen(name) - strlen(SUFFIX)), name);
        free(entry[i]);
    }
    free(entry);
    free(dir);
}

cadre_status cadre_cli_hardware_load(struct cadre_hardware *hw, const char *given,
                                     struct cadre_error *err)
{
    if (strchr(given, '/') || (cadre_path_exists(given) && !cadre_path_is_dir(given)))
        return cadre_hardware_load(hw, given, err);
    char name[PATH_MAX], path[PATH_MAX];
    const int n = snprintf(name, sizeof name, "%s%s", given, SUFFIX);
    if (n < (int)sizeof name && cadre_cli_hardware_beside(name, path))
        return cadre_hardware_load(hw, path, err);
    struct cadre_text names = {0};
    list_names(&names);
    cadre_status rc =
        cadre_fail(err, CADRE_E_INVALID,
                   "there is no hardware file '%s': expected its path, or the name of "
                   "one that comes with Cadre%s",
                   given, cadre_text_str(&names));
    cadre_text_fini(&names);
    return rc;
}
