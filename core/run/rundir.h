/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a run: config.ini, metrics.jsonl, summary.json, checkpoints/. */
#ifndef CADRE_RUN_RUNDIR_H
#define CADRE_RUN_RUNDIR_H

#include "core/run/run_lock.h"
#include "core/run/spec.h"

/* Make the folder and write config.ini. A folder that holds other files is refused; one
 * that already holds a run is refused unless `resuming`. A benchmark continues no run:
 * it is refused also then, but takes the place of an older benchmark. The result of an
 * older benchmark is removed, and the status pages of earlier ranks. `lock` is taken
 * unless it is NULL, and the caller's to release. [one rank] Errors: CADRE_E_INVALID,
 * CADRE_E_IO. */
cadre_status cadre_rundir_prepare(const struct cadre_spec *spec, bool resuming,
                                  struct cadre_run_lock *lock, struct cadre_error *err);

/* Drop lines of metrics.jsonl that belong to steps after `step`: a resumed run writes
 * them again. A missing file is no error. */
cadre_status cadre_rundir_cut_metrics(const char *dir, int64_t step,
                                      struct cadre_error *err);

#endif
