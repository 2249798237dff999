/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/plan_hardware.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"

static const char SUFFIX[] = ".ini";

char *cadre_cli_hardware_beside(const char *name)
{
    char program[1024], relative[1024];
    cadre_path_program_dir(program, sizeof program);
    cadre_path_relative(CADRE_BINDIR, CADRE_CONFDIR, relative, sizeof relative);
    char *places[] = {
        cadre_format("%s/hardware/%s", program, name),
        cadre_format("%s/../hardware/%s", program, name),
        cadre_format("%s/%s/hardware/%s", program, relative, name),
        cadre_format("%s/hardware/%s", CADRE_CONFDIR, name),
    };
    char *found = NULL;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (!found && places[i] && cadre_path_exists(places[i]))
            found = places[i];
        else
            free(places[i]);
    }
    return found;
}

static int is_hardware(const struct dirent *entry)
{
    const size_t n = strlen(entry->d_name), end = strlen(SUFFIX);
    return n > end && strcmp(entry->d_name + n - end, SUFFIX) == 0;
}

/* ": a100-80, h100", of the folder that has the table of hardware texts. */
static void list_names(struct cadre_text *out)
{
    char *table = cadre_cli_hardware_beside("texts.tsv");
    char *dir = table ? cadre_path_dirname(table) : NULL;
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
    free(table);
}

cadre_status cadre_cli_hardware_load(struct cadre_hardware *hw, const char *given,
                                     struct cadre_error *err)
{
    if (strchr(given, '/') || (cadre_path_exists(given) && !cadre_path_is_dir(given)))
        return cadre_hardware_load(hw, given, err);
    char *name = cadre_format("%s%s", given, SUFFIX);
    char *found = name ? cadre_cli_hardware_beside(name) : NULL;
    struct cadre_text names = {0};
    cadre_status rc;
    if (found) {
        rc = cadre_hardware_load(hw, found, err);
    } else {
        list_names(&names);
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "there is no hardware file '%s': expected its path, or the "
                        "name of one that comes with Cadre%s",
                        given, cadre_text_str(&names));
    }
    cadre_text_fini(&names);
    free(found);
    free(name);
    return rc;
}
