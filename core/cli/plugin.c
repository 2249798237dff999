/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of plugins: `cadre mig list` is the command of the plugin mig. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/status_slot.h"
#include "core/cli/cli.h"
#include "core/plugin/plugin.h"

/* One call: its output goes to stdout, or into `capture`. */
struct call {
    struct cadre_text *capture;
    struct cadre_error *err;
    bool refused;
};

static cadre_status print(void *h, const char *text)
{
    const struct call *call = h;
    if (call->capture)
        cadre_text_append(call->capture, text, strlen(text));
    else if (fputs(text, stdout) == EOF)
        return cadre_fail(call->err, CADRE_E_IO, "cannot write the results to stdout");
    return CADRE_OK;
}

static int ask(void *h, const char *question)
{
    const struct call *call = h;
    char answer[64];
    if (call->capture || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return -1;
    /* a question is printed below the output that it is about */
    fflush(stdout);
    fprintf(stderr, "%s [y/N] ", question);
    if (!fgets(answer, sizeof answer, stdin))
        return 0;
    answer[strcspn(answer, "\r\n")] = 0;
    return strcmp(answer, "y") == 0 || strcmp(answer, "yes") == 0;
}

static cadre_status refuse(void *h, cadre_status status, const char *text)
{
    struct call *call = h;
    call->refused = true;
    return cadre_fail(call->err, status, "%s", text);
}

/* argv: what follows the plugin's name, ended by NULL. */
static cadre_status run(const struct cadre_plugin_handle *plugin, uint32_t argc,
                        const char *const *argv, struct cadre_text *capture,
                        struct cadre_error *err)
{
    struct call call = {.capture = capture, .err = err};
    const struct cadre_command command = {
        .struct_size = sizeof command,
        .argc = argc,
        .argv = argv,
        .h = &call,
        .print = print,
        .ask = ask,
        .refuse = refuse,
    };
    struct cadre_status_slot *slot = cadre_status_current();
    const uint64_t former = cadre_status_enter(slot, plugin->name, "command", 0);
    cadre_status rc = plugin->desc.command(&command);
    cadre_status_leave(slot, former);
    if (rc != CADRE_OK && !call.refused && !(err && err->text[0]))
        cadre_fail(err, rc, "the command of the plugin %s failed: %s", plugin->name,
                   cadre_strerror(rc));
    return rc;
}

static void free_names(char **names)
{
    for (char **name = names; name && *name; name++)
        free(*name);
    free(names);
}

static bool is_listed(const char *name)
{
    char **names = cadre_plugin_list("");
    bool listed = false;
    for (char **other = names; other && *other; other++)
        listed |= strcmp(*other, name) == 0;
    free_names(names);
    return listed;
}

cadre_status cadre_cli_plugin(const struct cadre_cli_args *args, bool *found,
                              struct cadre_error *err)
{
    const struct cadre_plugin_handle *plugin;
    const char *name = args->argv[1];
    *found = is_listed(name);
    if (!*found)
        return CADRE_OK;
    CADRE_TRY(cadre_plugin_load(name, "", &plugin, err));
    if (!plugin->desc.command)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' has no command of its own; `cadre inspect "
                          "%s` says what it is",
                          name, name);
    return run(plugin, (uint32_t)args->argc - 2, (const char *const *)args->argv + 2,
               NULL, err);
}

char **cadre_cli_plugin_commands(void)
{
    char **names = cadre_plugin_list("");
    size_t kept = 0;
    for (size_t i = 0; names && names[i]; i++) {
        const struct cadre_plugin_handle *plugin;
        if (cadre_plugin_load(names[i], "", &plugin, NULL) == CADRE_OK &&
            plugin->desc.command)
            names[kept++] = names[i];
        else
            free(names[i]);
    }
    if (names)
        names[kept] = NULL;
    return names;
}

void cadre_cli_plugin_describe(const char *name, struct cadre_text *out)
{
    static const char *const argv[] = {"doctor", NULL};
    const struct cadre_plugin_handle *plugin;
    struct cadre_error err = {0};
    if (!is_listed(name)) {
        cadre_text_printf(out, "no: there is no plugin '%s' here", name);
        return;
    }
    cadre_status rc = cadre_plugin_load(name, "", &plugin, &err);
    if (rc == CADRE_OK && !plugin->desc.command)
        cadre_fail(&err, rc = CADRE_E_INVALID, "the plugin '%s' has no command", name);
    if (rc == CADRE_OK)
        rc = run(plugin, 1, argv, out, &err);
    if (rc != CADRE_OK)
        cadre_text_printf(out, "no: %s\n", err.text);
}
