/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/cli.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/plugin/plugin.h"

/* The core's options, then those of every plugin that can be found. */
cadre_status cadre_cli_options(const struct cadre_cli_args *args,
                               struct cadre_error *err)
{
    (void)args;
    struct cadre_options *options = NULL;
    cadre_status rc = cadre_options_create(&options, err);
    if (rc != CADRE_OK)
        return rc;
    char **names = cadre_plugin_list("");
    for (char **name = names; name && *name; name++) {
        const struct cadre_plugin_handle *plugin;
        if (rc == CADRE_OK)
            rc = cadre_plugin_load(*name, "", &plugin, err);
        if (rc == CADRE_OK)
            rc = cadre_plugin_add_options(plugin, options, err);
        free(*name);
    }
    free(names);
    if (rc == CADRE_OK)
        cadre_options_print_reference(options, stdout);
    cadre_options_destroy(options);
    return rc;
}
