/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre new NAME`: the folder of a new plugin, from the templates of core/sdk/. In a
 * template every "yourname" becomes the name; lines of its licence are left out, since
 * what is written belongs to the user. */
#include "core/cli/cli.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/plugin/plugin.h"

#define PLACEHOLDER "yourname"
#define LICENCE "SPDX-License-Identifier"
#define MAX_TEMPLATE (1u << 20)

/* A file of the folder; %s is the role in `from` and the plugin's name in `to`. */
struct file {
    const char *from, *to;
    mode_t mode;
};
static const struct file files[] = {
    {"%s.c", "%s.c", 0},          {"%s.ini", "%s.ini", 0},
    {"plugin.mk", "Makefile", 0}, {"readme.md", "README.md", 0},
    {"test.sh", "test.sh", 0755},
};
#define N_FILES (sizeof files / sizeof files[0])

/* What is to be written, and where from. */
struct request {
    const char *name, *role, *out;
    char templates[PATH_MAX];
};

/* ---- checks ---- */

static cadre_status check_role(const char *role, struct cadre_error *err)
{
    static const char *const roles[] = {"data", "schedule", "observer", "optimizer"};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(roles[i], role) == 0)
            return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "--role: expected data, schedule, observer or optimizer, found "
                      "'%s'",
                      role);
}

/* Two plugins of one name cannot be told apart in strategy.stack. */
static cadre_status check_unused(const char *name, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    char **names = cadre_plugin_list("");
    for (char **other = names; other && *other; other++) {
        if (rc == CADRE_OK && strcmp(*other, name) == 0)
            rc = cadre_fail(err, CADRE_E_INVALID,
                            "there is a plugin '%s' already: choose another name "
                            "(`cadre plugins` lists those that there are)",
                            name);
        free(*other);
    }
    free(names);
    return rc;
}

static cadre_status check_name(const char *name, struct cadre_error *err)
{
    if (!cadre_plugin_is_name(name) || strlen(name) > CADRE_PLUGIN_NAME_CHARS)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' cannot be the name of a plugin: expected at most %d of "
                          "[a-z0-9_], not a digit first",
                          name, CADRE_PLUGIN_NAME_CHARS);
    if (cadre_plugin_is_reserved(name))
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' is a name of the core: choose another one", name);
    return check_unused(name, err);
}

/* ---- templates ---- */

/* The folder of a build, or of the installed tree, seen from the program. */
static cadre_status find_templates(char out[PATH_MAX], struct cadre_error *err)
{
    char program[1024], relative[1024];
    cadre_path_program_dir(program, sizeof program);
    cadre_path_relative(CADRE_BINDIR, CADRE_SDKDIR, relative, sizeof relative);
    snprintf(out, PATH_MAX, "%s/sdk", program);
    if (cadre_path_has(out, "plugin.mk"))
        return CADRE_OK;
    snprintf(out, PATH_MAX, "%s/%s", program, relative);
    if (cadre_path_has(out, "plugin.mk"))
        return CADRE_OK;
    snprintf(out, PATH_MAX, "%s", CADRE_SDKDIR);
    if (cadre_path_has(out, "plugin.mk"))
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "the templates of `cadre new` are missing: searched %s/sdk, "
                      "%s/%s, %s for plugin.mk; install Debian's package cadre-dev, or "
                      "Cadre again",
                      program, program, relative, CADRE_SDKDIR);
}

static void fill_line(const char *line, size_t len, const char *name,
                      struct cadre_text *out)
{
    const char *end = line + len, *hit;
    while ((hit = memmem(line, (size_t)(end - line), PLACEHOLDER,
                         sizeof PLACEHOLDER - 1)) != NULL) {
        cadre_text_append(out, line, (size_t)(hit - line));
        cadre_text_append(out, name, strlen(name));
        line = hit + sizeof PLACEHOLDER - 1;
    }
    cadre_text_append(out, line, (size_t)(end - line));
}

static void fill(const char *text, const char *name, struct cadre_text *out)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        len += text[len] == '\n';
        if (!memmem(text, len, LICENCE, sizeof LICENCE - 1))
            fill_line(text, len, name, out);
        text += len;
    }
}

/* DIR/NAME, where name is `format` with one word in it. The caller frees. */
static char *path_of(const char *dir, const char *format, const char *word)
{
    const char *rest = strstr(format, "%s");
    char *name =
        rest ? cadre_format("%.*s%s%s", (int)(rest - format), format, word, rest + 2)
             : cadre_strdup(format);
    char *path = name ? cadre_path_join(dir, name) : NULL;
    free(name);
    return path;
}

static cadre_status write_file(const struct request *request, const struct file *file,
                               struct cadre_error *err)
{
    struct cadre_text filled = {0};
    char *text = NULL;
    size_t bytes;
    cadre_status rc;
    char *from = path_of(request->templates, file->from, request->role);
    char *to = path_of(request->out, file->to, request->name);
    if (!from || !to) {
        rc = cadre_no_memory(err, "a path");
        goto out;
    }
    CADRE_TRY_OR(cadre_path_read_file(from, MAX_TEMPLATE, &text, &bytes, err), out);
    fill(text, request->name, &filled);
    if (filled.failed) {
        rc = cadre_no_memory(err, "the file '%s'", to);
        goto out;
    }
    CADRE_TRY_OR(cadre_path_write_file(to, filled.data, filled.len, err), out);
    if (file->mode && chmod(to, file->mode) != 0)
        rc = cadre_fail(err, CADRE_E_IO, "cannot make '%s' executable", to);
out:
    cadre_text_fini(&filled);
    free(text);
    free(from);
    free(to);
    return rc;
}

/* ---- the command ---- */

static cadre_status write_folder(const struct request *request, struct cadre_error *err)
{
    if (cadre_path_exists(request->out))
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' exists already: name another folder with --out, or "
                          "remove it",
                          request->out);
    CADRE_TRY(cadre_path_make_dirs(request->out, err));
    for (size_t i = 0; i < N_FILES; i++)
        CADRE_TRY(write_file(request, &files[i], err));
    return CADRE_OK;
}

static cadre_status new (const struct cadre_cli_args *args, struct cadre_error *err)
{
    struct request request = {
        .name = args->conf,
        .role = args->role ? args->role : "data",
        .out = args->out ? args->out : args->conf,
    };
    CADRE_TRY(check_name(request.name, err));
    CADRE_TRY(check_role(request.role, err));
    CADRE_TRY(find_templates(request.templates, err));
    CADRE_TRY(write_folder(&request, err));
    printf("wrote %s.c, %s.ini, Makefile, README.md and test.sh into '%s'\n"
           "  build and try it:   cd '%s' && make check\n"
           "  then fill in what   grep -n 'FILL IN' %s.c   finds\n",
           request.name, request.name, request.out, request.out, request.name);
    return CADRE_OK;
}

static const struct cadre_cli_option options[] = {
    {.name = "--out",
     .argument = "DIR",
     .kind = CADRE_CLI_FOLDER,
     .field = CADRE_CLI_FIELD(out),
     .help = "the folder to write; default NAME"},
    {.name = "--role",
     .argument = "ROLE",
     .kind = CADRE_CLI_CHOICE,
     .choices = "data, schedule, observer, optimizer",
     .field = CADRE_CLI_FIELD(role),
     .help = "what it does (data)"},
    {0},
};

const struct cadre_cli_command cadre_command_new = {
    .name = "new",
    .synopsis = "NAME [--out DIR] [--role ROLE]",
    .summary = "write the folder of a new plugin, which builds, trains "
               "and says what to fill in",
    .argument = "NAME",
    .kind = CADRE_CLI_TEXT,
    .least = 1,
    .most = 1,
    .options = options,
    .run = new,
};
