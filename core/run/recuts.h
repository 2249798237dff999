/* SPDX-License-Identifier: Apache-2.0 */
/* recuts.json in the folder of a run: the cuts that run.recut changed. Rank 0 writes it
 * when its checkpoint is complete; the launcher reads it between two starts, and rank 0
 * copies it into the summary at the end. */
#ifndef CADRE_RUN_RECUTS_H
#define CADRE_RUN_RECUTS_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/base/json.h"

struct cadre_recut {
    int64_t step; /* training continues after it with the new cut */
    const char *from, *to; /* units of each chunk, "4 4" and "5 3" */
    double before_s, after_s; /* computing of the slowest stage in a step: measured, and
                                 predicted with the new cut */
    const double *seconds; /* (n_units) of the units, as the new cut was planned */
    uint32_t n_units;
};

/* Add one to the file in `dir`. [rank 0] Errors: CADRE_E_INVALID the file is not what
 * cadre wrote, CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_recuts_add(const char *dir, const struct cadre_recut *recut,
                              struct cadre_error *err);

/* How many there are: 0 where there is no file, or a damaged one. */
uint32_t cadre_recuts_count(const char *dir);

/* seconds (n_units) of the last one. [the launching process, while there are no ranks]
 * Errors: CADRE_E_INVALID where the file has none for so many units. */
cadre_status cadre_recuts_last(const char *dir, uint32_t n_units, double *seconds,
                               struct cadre_error *err);

/* Put "recuts": [...] into the object being written, without the seconds; nothing if
 * the run had none or the file is damaged. */
void cadre_recuts_put(const char *dir, struct cadre_json *json);

#endif
