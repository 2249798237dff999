/* SPDX-License-Identifier: Apache-2.0 */
/* The file as it lies on disk, without running any of its code; then loading it. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cadre/strategy.h>

#include "core/base/path.h"
#include "core/check/groups/groups.h"
#include "core/check/kit/elf.h"
#include "core/plugin/plugin_private.h"

#define LOAD_BUDGET_S 0.1

static bool open_elf(struct cadre_case *c, char *path, struct cadre_elf *elf)
{
    struct cadre_error err = {0};
    if (!cadre_case_file(c, path, PATH_MAX))
        return false;
    if (cadre_elf_open(path, elf, &err) == CADRE_OK)
        return true;
    cadre_case_fail(c, "%s", err.text);
    return false;
}

static void whole_object(struct cadre_case *c)
{
    char path[PATH_MAX];
    struct cadre_error err = {0};
    if (cadre_case_file(c, path, sizeof path) &&
        cadre_plugin_file_check(path, NULL, NULL, &err) != CADRE_OK)
        cadre_case_fail(c, "%s", err.text);
}

/* Linkers of earlier years export these. */
static bool is_linkers(const char *name)
{
    static const char *const names[] = {"_init",       "_fini", "_edata",
                                        "__bss_start", "_end",  NULL};
    for (size_t i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void one_symbol(struct cadre_case *c)
{
    char path[PATH_MAX];
    struct cadre_elf elf;
    struct cadre_elf_symbol symbol;
    uint64_t at = 0;
    bool entry = false;
    if (!open_elf(c, path, &elf))
        return;
    while (cadre_elf_next_symbol(&elf, &at, &symbol)) {
        if (!symbol.defined || is_linkers(symbol.name))
            continue;
        if (strcmp(symbol.name, CADRE_ENTRY_NAME) == 0)
            entry = true;
        else
            cadre_case_fail(c,
                            "exports '%s' beside " CADRE_ENTRY_NAME
                            ": compile with -fvisibility=hidden",
                            symbol.name);
    }
    if (!entry)
        cadre_case_fail(c, "exports no " CADRE_ENTRY_NAME
                           ": define it with CADRE_PLUGIN of <cadre/helpers.h>");
    cadre_elf_close(&elf);
}

/* Only what runs on a GPU needs these; others are opened while the program runs. */
static void no_host_symbols(struct cadre_case *c)
{
    static const char *const gpu[] = {"libcuda.",   "libcudart.", "libcublas",
                                      "libnvidia-", "libnccl.",   NULL};
    char path[PATH_MAX];
    struct cadre_elf elf;
    struct cadre_elf_symbol symbol;
    uint64_t at = 0;
    if (!open_elf(c, path, &elf))
        return;
    while (cadre_elf_next_symbol(&elf, &at, &symbol))
        if (!symbol.defined && strncmp(symbol.name, "cadre_", 6) == 0)
            cadre_case_fail(c,
                            "needs the symbol '%s' of the host; a plugin reaches the "
                            "host through host->service alone",
                            symbol.name);
    const char *library;
    for (size_t i = 0; (library = cadre_elf_library(&elf, i)); i++)
        for (size_t g = 0; gpu[g]; g++)
            if (strncmp(library, gpu[g], strlen(gpu[g])) == 0)
                cadre_case_fail(c,
                                "is linked with %s, so it does not load where there is "
                                "none: open it with dlopen when it is needed",
                                library);
    cadre_elf_close(&elf);
}

/* Every object has one constructor of its compiler; those of sanitizers, nvcc and
 * rustc come from there too. */
static void no_constructors(struct cadre_case *c)
{
    char path[PATH_MAX];
    struct cadre_elf elf;
    if (!open_elf(c, path, &elf))
        return;
    bool given =
        cadre_elf_imports(&elf, "__cudaRegisterFatBinary") ||
        cadre_elf_imports(&elf, "__asan_") || cadre_elf_imports(&elf, "__tsan_") ||
        cadre_elf_imports(&elf, "__ubsan_") || cadre_elf_made_by(&elf, "rustc");
    if (elf.constructors > 1 && !given)
        cadre_case_fail(c,
                        "has %llu constructors, which run before the host can refuse "
                        "the plugin: make static objects local to functions",
                        (unsigned long long)elf.constructors - 1);
    if (elf.executable_stack)
        cadre_case_fail(c,
                        "asks for an executable stack: link with -Wl,-z,noexecstack");
    if (!elf.relro)
        cadre_case_warn(c, "its relocations stay writable: link with -Wl,-z,relro");
    cadre_elf_close(&elf);
}

typedef const struct cadre_plugin *entry_fn(void);

static entry_fn *open_entry(struct cadre_case *c, const char *path)
{
    entry_fn *entry = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, CADRE_ENTRY_NAME) : NULL;
    if (!symbol)
        cadre_case_fail(c, "does not load: %s",
                        library ? "it has no entry" : dlerror());
    memcpy(&entry, &symbol, sizeof entry);
    return entry;
}

static void file_name(struct cadre_case *c)
{
    char path[PATH_MAX];
    struct cadre_elf elf;
    entry_fn *entry;
    if (!open_elf(c, path, &elf))
        return;
    const char *base = cadre_path_basename(path), *soname = cadre_elf_soname(&elf);
    if (soname && strcmp(soname, base) != 0)
        cadre_case_fail(c, "the file '%s' calls itself '%s' (soname)", base, soname);
    cadre_elf_close(&elf);
    entry = open_entry(c, path);
    const struct cadre_plugin *plugin = entry ? entry() : NULL;
    const char *last = plugin && plugin->id ? strrchr(plugin->id, '.') : NULL;
    char expected[128] = "";
    if (last)
        snprintf(expected, sizeof expected, "%.120s.so", last + 1);
    if (entry && !last)
        cadre_case_fail(c, "has no id with a dot, as org.example.name");
    else if (last && strcmp(base, expected) != 0)
        cadre_case_fail(c,
                        "the file is called '%s' and the id is '%s': strategy.stack "
                        "looks for %s.so",
                        base, plugin->id, last + 1);
}

static void loads(struct cadre_case *c)
{
    char path[PATH_MAX];
    struct timespec before, after;
    if (!cadre_case_file(c, path, sizeof path))
        return;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    if (!open_entry(c, path))
        return;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    double took = (double)(after.tv_sec - before.tv_sec) +
                  1e-9 * (double)(after.tv_nsec - before.tv_nsec);
    if (took > LOAD_BUDGET_S)
        cadre_case_warn(c, "took %.0f ms of CPU time to load, in every `cadre inspect`",
                        1e3 * took);
    else
        cadre_case_note(c, "%.1f ms of CPU time", 1e3 * took);
}

/* What a plugin must not do can be seen among the functions that it needs. */
static void nothing_of_the_process(struct cadre_case *c)
{
    static const char *const forbidden[] = {
        "exit",   "_exit",     "_Exit",      "quick_exit", "setenv",
        "putenv", "unsetenv",  "clearenv",   "signal",     "sigaction",
        "chdir",  "setlocale", "longjmp",    "siglongjmp", "fork",
        "execv",  "execve",    "fesetround", "atexit",     NULL};
    char path[PATH_MAX], found[512] = "";
    struct cadre_elf elf;
    struct cadre_elf_symbol symbol;
    uint64_t at = 0;
    if (!open_elf(c, path, &elf))
        return;
    while (cadre_elf_next_symbol(&elf, &at, &symbol))
        for (size_t i = 0; forbidden[i]; i++)
            if (!symbol.defined && strcmp(symbol.name, forbidden[i]) == 0) {
                size_t used = strlen(found);
                snprintf(found + used, sizeof found - used, "%s%s", used ? ", " : "",
                         forbidden[i]);
            }
    if (found[0])
        cadre_case_warn(c,
                        "needs %s: these belong to the host's process; a runtime of "
                        "another language may have them without calling them",
                        found);
    cadre_elf_close(&elf);
}

#define CHECK(ID, TITLE, WHY, RUN)                                                     \
    {                                                                                  \
        .id = ID, .group = "load", .title = TITLE, .why = WHY, .see = "docs/check.md", \
        .level = CADRE_LEVEL_LOADABLE, .run = RUN                                      \
    }
#define CHECK_AFTER(ID, NEEDS, TITLE, WHY, RUN)                                        \
    {                                                                                  \
        .id = ID, .group = "load", .title = TITLE, .why = WHY, .see = "docs/check.md", \
        .level = CADRE_LEVEL_LOADABLE, .needs = NEEDS, .run = RUN                      \
    }

static const struct cadre_check checks[] = {
    CHECK("L1", "a whole shared object of this machine",
          "A copy that broke off crashes in dlopen, before any message.", whole_object),
    CHECK_AFTER("L2", "L1", "exports its entry and nothing else",
                "Any other symbol may be taken by the next plugin of the process in "
                "place of its own.",
                one_symbol),
    CHECK_AFTER("L3", "L1", "needs no symbol of the host and no GPU library",
                "It would load into one build of Cadre only, or on no machine without "
                "a GPU.",
                no_host_symbols),
    CHECK_AFTER("L4", "L1", "has no constructor and no executable stack",
                "A constructor runs before the plugin can be refused.",
                no_constructors),
    CHECK_AFTER("L5", "L6", "the file is called after the last part of the id",
                "strategy.stack finds a plugin by that name.", file_name),
    CHECK_AFTER("L6", "L1", "loads in a fresh process, all symbols bound at once",
                "A symbol that is missing would show in the middle of a run.", loads),
    CHECK_AFTER("L7", "L1", "needs no function that changes or ends the process",
                "exit, setenv or signal in a plugin changes every rank and plugin of "
                "the process.",
                nothing_of_the_process),
};

const struct cadre_check_group cadre_check_load = {"load", checks,
                                                   sizeof checks / sizeof checks[0]};
