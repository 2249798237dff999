/* SPDX-License-Identifier: Apache-2.0 */
/* The names of checkpoints under a root: step-00000100 is complete,
 * step-00000100.partial is being written, step-00000100.removing is being removed. A
 * name without an ending is made and removed only by a rename. One rank at a time. */
#ifndef CADRE_CHECKPOINT_FORMAT_FOLDER_H
#define CADRE_CHECKPOINT_FORMAT_FOLDER_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* RUN/checkpoints, the root of a run's checkpoints; the caller frees it. NULL: no
 * memory. */
char *cadre_folder_root(const char *run);

/* root/step-<step><ending>; the caller frees it. NULL: no memory. */
char *cadre_folder_path(const char *root, uint64_t step, const char *ending);

/* Steps of the folders without an ending, ascending; the caller frees *steps. A missing
 * root holds none. Errors: CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_folder_list(const char *root, uint64_t **steps, size_t *n,
                               struct cadre_error *err);

/* Remove what a crash left: folders ending in .partial or .removing. */
cadre_status cadre_folder_clean(const char *root, struct cadre_error *err);

/* Give step-N.partial its final name, in one step even where a folder has that name
 * already (where the file system can exchange names; elsewhere the old one is first
 * renamed to .removing). The old one is then removed. */
cadre_status cadre_folder_publish(const char *root, uint64_t step,
                                  struct cadre_error *err);

/* Remove the oldest checkpoints before `step` so that at most `keep` remain, including
 * `step`; 0 keeps all. `step` itself and later ones are never removed. */
cadre_status cadre_folder_prune(const char *root, uint64_t step, size_t keep,
                                struct cadre_error *err);

#endif
