/* SPDX-License-Identifier: Apache-2.0 */
/* A folder belongs to one run at a time: DIR/.lock is locked (flock) while a process
 * trains into DIR, or compares into it. The kernel lets it go at the process's end,
 * however that comes; the file stays, empty, and means nothing. Where a file system
 * knows no locks the log says so. */
#ifndef CADRE_RUN_RUN_LOCK_H
#define CADRE_RUN_RUN_LOCK_H

#include <stdbool.h>

#include "core/base/error.h"

/* Zeroed: nothing is locked. */
struct cadre_run_lock {
    bool held;
    int fd;
};

/* Lock the folder; one that does not exist yet is left alone, and one that `lock` has
 * is kept. [main] Errors: CADRE_E_INVALID where another process has it, naming it;
 * CADRE_E_IO. */
cadre_status cadre_run_lock_take(struct cadre_run_lock *lock, const char *dir,
                                 struct cadre_error *err);

void cadre_run_lock_release(struct cadre_run_lock *lock);

#endif
