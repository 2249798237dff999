/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin as it was built. Failures end the test. */
#ifndef CADRE_TESTS_BUILT_PLUGIN_H
#define CADRE_TESTS_BUILT_PLUGIN_H

#include "core/plugin/plugin.h"

const struct cadre_plugin_handle *built_plugin_load(const char *name);

/* The output of a shell command on the file, which is "$PLUGIN" there. */
void built_plugin_says(const struct cadre_plugin_handle *plugin, const char *command,
                       const char *want);

/* The file exports only its entry; skips the test where there is no nm. */
void built_plugin_exports_its_entry(const struct cadre_plugin_handle *plugin);

#endif
