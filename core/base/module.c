/* SPDX-License-Identifier: Apache-2.0 */
/* Modules are never closed: their libraries keep threads and hooks. */
#include "core/base/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "core/base/memory.h"
#include "core/base/path.h"

static void log_line(enum cadre_log_level level, const char *subsystem,
                     const char *text)
{
    cadre_log(level, subsystem, "%s", text);
}

static const struct cadre_module_host this_program = {
    .struct_size = sizeof this_program,
    .abi = CADRE_MODULE_ABI,
    .log = log_line,
    .log_rank = cadre_log_rank,
};

/* Two ranks may open one module at once; the loader's table is per process too. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* Is dir/NAME.so there? Its path in `path`; `searched` grows by the folder. */
static bool look_in(const char *dir, size_t len, const char *name,
                    struct cadre_text *searched, char path[PATH_MAX])
{
    if (len == 0)
        return false;
    int n = snprintf(path, PATH_MAX, "%.*s/%s.so", (int)len, dir, name);
    cadre_text_printf(searched, "%s%.*s", searched->len ? ", " : "", (int)len, dir);
    return n > 0 && n < PATH_MAX && cadre_path_exists(path);
}

static bool look_under(const char *dir, const char *below, const char *name,
                       struct cadre_text *searched, char path[PATH_MAX])
{
    char place[PATH_MAX];
    int n = snprintf(place, sizeof place, "%s/%s", dir, below);
    return n > 0 && n < PATH_MAX && look_in(place, (size_t)n, name, searched, path);
}

static bool find_file(const char *name, struct cadre_text *searched,
                      char path[PATH_MAX])
{
    char program[PATH_MAX], relative[PATH_MAX];
    for (const char *list = getenv("CADRE_MODULE_PATH"); list && *list;) {
        size_t len = strcspn(list, ":");
        if (look_in(list, len, name, searched, path))
            return true;
        list += len + (list[len] == ':');
    }
    cadre_path_program_dir(program, sizeof program);
    cadre_path_relative(CADRE_BINDIR, CADRE_MODULEDIR, relative, sizeof relative);
    return (*program && (look_under(program, ".libs", name, searched, path) ||
                         look_under(program, relative, name, searched, path))) ||
           look_in(CADRE_MODULEDIR, strlen(CADRE_MODULEDIR), name, searched, path);
}

static cadre_status check(const struct cadre_module *module, const char *path,
                          const char *kind, uint32_t table_size,
                          struct cadre_error *err)
{
    if (!module || module->struct_size != sizeof *module ||
        module->abi != CADRE_MODULE_ABI)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "the module '%s' is from another version of Cadre: expected "
                          "module ABI %u, found %u; install it with the program",
                          path, CADRE_MODULE_ABI, module ? module->abi : 0);
    if (strcmp(module->build, CADRE_MODULE_BUILD) != 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "the module '%s' is from another build: expected %s, found "
                          "%s; install it with the program",
                          path, CADRE_MODULE_BUILD, module->build);
    if (strcmp(module->kind, kind) != 0 || module->table_size != table_size)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "the module '%s' is from another build: expected a %s table of "
            "%u bytes, found a %s table of %u; install it with the "
            "program",
            path, kind, table_size, module->kind, module->table_size);
    return CADRE_OK;
}

static cadre_status open_file(const char *path, const char *kind, uint32_t table_size,
                              const void **table, struct cadre_error *err)
{
    cadre_module_entry_fn *entry = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        const char *why = dlerror();
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "the module '%s' cannot be opened: %s", path,
                          why ? why : "no reason given");
    }
    void *symbol = dlsym(library, CADRE_MODULE_ENTRY_NAME);
    if (!symbol)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "the file '%s' has no symbol " CADRE_MODULE_ENTRY_NAME
                          ": it is not a module of Cadre",
                          path);
    memcpy(&entry, &symbol, sizeof entry);
    const struct cadre_module *module = entry(&this_program);
    cadre_status rc = check(module, path, kind, table_size, err);
    if (rc == CADRE_OK) {
        *table = module->table;
        cadre_log(CADRE_LOG_DEBUG, "module", "opened %s", path);
    }
    return rc;
}

cadre_status cadre_module_open(const char *name, const char *kind, uint32_t table_size,
                               const void **table, struct cadre_error *err)
{
    char path[PATH_MAX];
    struct cadre_text searched = {0};
    cadre_status rc;
    if (find_file(name, &searched, path)) {
        pthread_mutex_lock(&opening);
        rc = open_file(path, kind, table_size, table, err);
        pthread_mutex_unlock(&opening);
    } else
        rc = cadre_fail(err, CADRE_E_UNSUPPORTED,
                        "there is no module %s.so: it was not built (see configure's "
                        "summary) or lies elsewhere (CADRE_MODULE_PATH names folders); "
                        "searched %s",
                        name, cadre_text_str(&searched));
    cadre_text_fini(&searched);
    return rc;
}
