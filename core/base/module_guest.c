/* SPDX-License-Identifier: Apache-2.0 */
/* The module's side: its own cadre_log, which passes each line to the program. Linked
 * into modules instead of log.c. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/base/module.h"

/* File-scope because a loaded file belongs to one program, whose ranks may be
 * threads. */
static const struct cadre_module_host *_Atomic program;

void cadre_module_attach(const struct cadre_module_host *host)
{
    atomic_store(&program, host);
}

int cadre_log_rank(void)
{
    const struct cadre_module_host *host = atomic_load(&program);
    return host ? host->log_rank() : 0;
}

void cadre_log(enum cadre_log_level level, const char *subsystem, const char *fmt, ...)
{
    const struct cadre_module_host *host = atomic_load(&program);
    char text[1900];
    va_list ap;
    if (!host)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    host->log(level, subsystem, text);
}
