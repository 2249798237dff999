/* SPDX-License-Identifier: Apache-2.0 */
/* Where runs lie in a folder: it is a run's, or that of a sweep (DIR/instance-K) or of
 * a comparison (DIR/runs/NAME, and DIR/pieces while it is timed). */
#ifndef CADRE_TOP_FIND_H
#define CADRE_TOP_FIND_H

#include <stddef.h>

#include "core/base/error.h"

/* Folders with status pages, sorted; owned. */
struct cadre_top_runs {
    char **dir;
    size_t n;
};

/* The folder itself, or else the runs in it. The caller ends *runs with fini, also on
 * failure. Errors: CADRE_E_INVALID naming what the folder lacks; CADRE_E_RESOURCE. */
cadre_status cadre_top_find(const char *dir, struct cadre_top_runs *runs,
                            struct cadre_error *err);
void cadre_top_runs_fini(struct cadre_top_runs *runs);

#endif
