/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoint a run resumes from. [one rank of a process, before ranks start] */
#ifndef CADRE_CHECKPOINT_RESUME_H
#define CADRE_CHECKPOINT_RESUME_H

#include <stdint.h>

#include "core/base/error.h"

/* The checkpoint that `resume`, the value of checkpoint.resume, names. The caller frees
 * *path, NULL for none; *step is its number of optimizer steps. `out` is the run's
 * folder. Errors: CADRE_E_INVALID no such folder, or damaged; CADRE_E_IO. */
cadre_status cadre_resume_find(const char *resume, const char *out, char **path,
                               int64_t *step, struct cadre_error *err);

/* The same for the newest in the run's own folder. */
cadre_status cadre_resume_find_own(const char *out, char **path, int64_t *step,
                                   struct cadre_error *err);

/* Refuse to resume after `step` steps where the run's folder holds a later checkpoint:
 * continuing would leave two histories in one folder. Errors: CADRE_E_INVALID;
 * CADRE_E_IO where `resume` is auto, so that it could not be read before. */
cadre_status cadre_resume_refuse_older(const char *resume, const char *out,
                                       int64_t step, struct cadre_error *err);

#endif
