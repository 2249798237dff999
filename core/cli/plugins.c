/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre plugins`: the plugins that are found, what they are, and which level `cadre
 * check` has found them to have: of NAME.check.json beside NAME.so, which it writes,
 * with the level and the hash of the file that was checked. */
#include "core/base/json_read.h"
#include "core/cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/terminal.h"
#include "core/plugin/plugin.h"

/* A plugin that was found. Where it cannot be loaded, `plugin` is NULL and `error` says
 * why. */
struct row {
    const char *name;
    const struct cadre_plugin_handle *plugin;
    struct cadre_error error;
    char abi[16], digest[17], level[64];
};

/* The level of the record, if it is of this very file. */
static void read_level(struct row *row)
{
    char *path = cadre_plugin_record_path(row->plugin->path), *out = row->level;
    const size_t bytes = sizeof row->level;
    json_t *record = NULL;
    if (path)
        cadre_json_try_file("", path, &record, NULL);
    const char *level = json_string_value(json_object_get(record, "level"));
    const char *of = json_string_value(json_object_get(record, "digest"));
    if (!level)
        snprintf(out, bytes, "not checked");
    else if (!of || strcmp(of, row->digest) != 0)
        snprintf(out, bytes, "not checked since it changed");
    else
        snprintf(out, bytes, "%s", level);
    json_decref(record);
    free(path);
}

static void fill_row(const char *name, struct row *row)
{
    memset(row, 0, sizeof *row);
    row->name = name;
    if (cadre_plugin_load(name, "", &row->plugin, &row->error) != CADRE_OK) {
        row->plugin = NULL;
        return;
    }
    const struct cadre_plugin *desc = &row->plugin->desc;
    snprintf(row->abi, sizeof row->abi, "%u.%u", desc->abi_major, desc->abi_minor);
    snprintf(row->digest, sizeof row->digest, "%016" PRIx64, row->plugin->digest);
    read_level(row);
}

static void print_rows(const struct row *rows, size_t n)
{
    int widest = 2;
    for (size_t i = 0; i < n; i++) {
        const char *id = rows[i].plugin ? rows[i].plugin->desc.id : rows[i].name;
        widest = (int)strlen(id) > widest ? (int)strlen(id) : widest;
    }
    printf("%-*s  %-9s %-5s %-15s %s\n", widest, "id", "version", "ABI", "level",
           "path");
    for (size_t i = 0; i < n; i++) {
        const struct row *row = &rows[i];
        struct cadre_text first = {0};
        if (row->plugin)
            cadre_text_printf(&first, "%-*s  %-9s %-5s %-15s ", widest,
                              row->plugin->desc.id, row->plugin->desc.version, row->abi,
                              row->level);
        else
            cadre_text_printf(&first, "%-*s  cannot be loaded: ", widest, row->name);
        cadre_terminal_write(stdout, cadre_text_str(&first), 4,
                             row->plugin ? row->plugin->path : row->error.text);
        cadre_text_fini(&first);
    }
}

static cadre_status print_json(const struct row *rows, size_t n,
                               struct cadre_error *err)
{
    struct cadre_json json;
    cadre_json_init(&json, stdout, true);
    cadre_json_begin_array(&json);
    for (size_t i = 0; i < n; i++) {
        const struct row *row = &rows[i];
        cadre_json_begin_object(&json);
        cadre_json_put_string(&json, "name", row->name);
        if (row->plugin) {
            cadre_json_put_string(&json, "id", row->plugin->desc.id);
            cadre_json_put_string(&json, "version", row->plugin->desc.version);
            cadre_json_put_string(&json, "abi", row->abi);
            cadre_json_put_string(&json, "level", row->level);
            cadre_json_put_string(&json, "path", row->plugin->path);
            cadre_json_put_string(&json, "digest", row->digest);
        } else {
            cadre_json_put_string(&json, "error", row->error.text);
        }
        cadre_json_end_object(&json);
    }
    cadre_json_end_array(&json);
    return cadre_json_finish(&json) == CADRE_OK
               ? CADRE_OK
               : cadre_fail(err, CADRE_E_IO, "cannot write the results to stdout");
}

static cadre_status plugins(const struct cadre_cli_args *args, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    char **names = cadre_plugin_list("");
    size_t n = 0;
    while (names && names[n])
        n++;
    struct row *rows = cadre_calloc(n, sizeof *rows);
    if (!names || !rows) {
        rc = cadre_no_memory(err, "the list of plugins");
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        fill_row(names[i], &rows[i]);
    if (args->json)
        rc = print_json(rows, n, err);
    else
        print_rows(rows, n);
out:
    free(rows);
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return rc;
}

static const struct cadre_cli_option options[] = {
    CADRE_CLI_OPTION_JSON,
    {0},
};

const struct cadre_cli_command cadre_command_plugins = {
    .name = "plugins",
    .synopsis = "[--json]",
    .summary = "list the plugins that are found: id, version, level, path",
    .options = options,
    .run = plugins,
};
