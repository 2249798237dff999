/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/record.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/check/groups/groups.h"
#include "core/check/report.h"

static bool is_whole(const struct cadre_check_results *results)
{
    bool whole = results->digest[0] && !results->quick;
    for (size_t i = 0; i < results->n; i++)
        whole &= results->result[i].done || results->result[i].check->asked_only;
    return whole;
}

void cadre_check_record(const struct cadre_check_results *results, char *said,
                        size_t bytes)
{
    char plugin[4096], *path = NULL;
    struct cadre_error err = {0};
    *said = 0;
    if (!is_whole(results) ||
        cadre_check_find(results->plugin, plugin, sizeof plugin, &err) != CADRE_OK)
        return;
    path = cadre_plugin_record_path(plugin);
    if (!path)
        cadre_no_memory(&err, "the level");
    else
        cadre_check_results_write(results, cadre_check_results_json, path, &err);
    if (err.code == CADRE_OK)
        snprintf(said, bytes, "recorded in '%s', for `cadre plugins`", path);
    else
        snprintf(said, bytes, "the level was not recorded: %s", err.text);
    free(path);
}
