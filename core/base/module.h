/* SPDX-License-Identifier: Apache-2.0 */
/* Run-time modules: parts of the core that need a library of their own (CUDA, NCCL) and
 * are opened by name while the program runs. The program links none of those libraries.
 * A module is built with the program, from the same headers; it uses none of the
 * program's symbols and contains its own copy of the base files that it needs. */
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

/* What the program provides: the log, whose level, rank and bar belong to the
 * program. */
struct cadre_module_host {
    uint32_t struct_size, abi;
    /* one line; drops what the level hides [any thread] */
    void (*log)(enum cadre_log_level level, const char *subsystem, const char *text);
    int (*log_rank)(void);
};

/* What a module provides. Static storage of the module, which is never closed. */
struct cadre_module {
    uint32_t struct_size, abi;
    const char *build; /* CADRE_MODULE_BUILD it was compiled with */
    const char *kind; /* "device", "comm": what `table` is */
    uint32_t table_size; /* of the table's struct */
    const void *table;
};

typedef const struct cadre_module *
cadre_module_entry_fn(const struct cadre_module_host *host);

/* The build of a file: the package's version from config.h. */
#define CADRE_MODULE_BUILD PACKAGE_STRING

/* Open NAME.so once per process, and return its table of `kind`, whose struct has
 * table_size bytes. Looked for in the folders of CADRE_MODULE_PATH (colon-separated),
 * then next to the program (build tree), in the install prefix around the program, and
 * in the configured folder; the first file found is used, and a defect of it is an
 * error. *table lives as long as the process. [any thread] Errors: CADRE_E_UNSUPPORTED:
 * no such file, it or a library of it cannot be opened, or it is from another build. */
cadre_status cadre_module_open(const char *name, const char *kind, uint32_t table_size,
                               const void **table, struct cadre_error *err);

/* Called first in a module: use the program's log, to which calls of cadre_log inside
 * the module then go. */
void cadre_module_attach(const struct cadre_module_host *host);

/* In one file of a module, after config.h: the exported symbol, which returns the
 * object `table_` as a module of `kind_` to a program of the same build. */
#define CADRE_MODULE_DEFINE(kind_, table_)                                             \
    static const struct cadre_module this_module = {                                   \
        .struct_size = sizeof this_module,                                             \
        .abi = CADRE_MODULE_ABI,                                                       \
        .build = CADRE_MODULE_BUILD,                                                   \
        .kind = (kind_),                                                               \
        .table_size = sizeof(table_),                                                  \
        .table = &(table_),                                                            \
    };                                                                                 \
    CADRE_MODULE_EXPORT const struct cadre_module *CADRE_MODULE_ENTRY(                 \
        const struct cadre_module_host *host);                                         \
    CADRE_MODULE_EXPORT const struct cadre_module *CADRE_MODULE_ENTRY(                 \
        const struct cadre_module_host *host)                                          \
    {                                                                                  \
        if (host->struct_size == sizeof *host && host->abi == CADRE_MODULE_ABI)        \
            cadre_module_attach(host);                                                 \
        return &this_module;                                                           \
    }                                                                                  \
    _Static_assert(sizeof(table_) > 0, "a module gives a table")

#endif
