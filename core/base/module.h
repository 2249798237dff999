/* SPDX-License-Identifier: Apache-2.0 */
/* Run-time modules: parts of the core that need a library of their own (CUDA, NCCL) and
 * are opened by name while the program runs. The program links none of those libraries.
 * A module is built with the program, from the same headers; it sees nothing of the
 * program's symbols and carries its own copy of the base files that it uses. */
#ifndef CADRE_BASE_MODULE_H
#define CADRE_BASE_MODULE_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/base/log.h"

#define CADRE_MODULE_ABI 1u

/* The one exported symbol of a module, and its type. */
#define CADRE_MODULE_ENTRY cadre_module_entry
#define CADRE_MODULE_ENTRY_NAME "cadre_module_entry"
#define CADRE_MODULE_EXPORT __attribute__((visibility("default")))

/* What the program gives: the log, whose level, rank and bar live in the program. */
struct cadre_module_host {
    uint32_t struct_size, abi;
    /* one line; drops what the level hides [any thread] */
    void (*log)(enum cadre_log_level level, const char *subsystem, const char *text);
    int (*log_rank)(void);
};

/* What a module gives. Static storage of the module, which is never closed. */
struct cadre_module {
    uint32_t struct_size, abi;
    const char *build; /* CADRE_MODULE_BUILD of its compilation */
    const char *kind; /* "device", "comm": what `table` is */
    uint32_t table_size; /* of the table's struct */
    const void *table;
};

typedef const struct cadre_module *
cadre_module_entry_fn(const struct cadre_module_host *host);

/* Of which build a file is: the package's version, as config.h has it. */
#define CADRE_MODULE_BUILD PACKAGE_STRING

/* Open NAME.so once per process, and return its table of `kind`, whose struct has
 * table_size bytes. Looked for in the folders of CADRE_MODULE_PATH (colon-separated),
 * then beside the program (build tree), in the install prefix around the program, and
 * in the configured folder; the first file found is taken, and a fault of it is an
 * error. *table lives as long as the process. [any thread]
 * Errors: CADRE_E_UNSUPPORTED: no such file, it or a library of it cannot be opened, or
 * it is of another build. */
cadre_status cadre_module_open(const char *name, const char *kind, uint32_t table_size,
                               const void **table, struct cadre_error *err);

/* In a module, first of all: take the program's log. Calls of cadre_log inside the
 * module then arrive there. */
void cadre_module_attach(const struct cadre_module_host *host);

#endif
