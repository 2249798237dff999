/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/built_plugin.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/check_main.h"

const struct cadre_plugin_handle *built_plugin_load(const char *name)
{
    const struct cadre_plugin_handle *plugin = NULL;
    struct cadre_error err = {0};
    cadre_status rc = cadre_plugin_load(name, NULL, &plugin, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    return plugin;
}

void built_plugin_says(const struct cadre_plugin_handle *plugin, const char *command,
                       const char *want)
{
    char text[256] = "";
    setenv("PLUGIN", plugin->path, 1);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    size_t n = fread(text, 1, sizeof text - 1, pipe);
    text[n] = 0;
    ck_assert_int_eq(pclose(pipe), 0);
    ck_assert_str_eq(text, want);
}

void built_plugin_exports_its_entry(const struct cadre_plugin_handle *plugin)
{
    if (system("nm --version > /dev/null 2>&1"))
        test_skip("no nm");
    built_plugin_says(plugin, "nm -D --defined-only \"$PLUGIN\" | sed 's/.* //'",
                      CADRE_ENTRY_NAME "\n");
}
