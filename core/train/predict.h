/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a run will take on this machine, from its plan, beside what is free. */
#ifndef CADRE_TRAIN_PREDICT_H
#define CADRE_TRAIN_PREDICT_H

#include <stdio.h>

#include "core/base/free_memory.h"
#include "core/launch/launch.h"
#include "core/run/spec.h"

/* Bytes. What is free is 0 where the system does not say. */
struct cadre_prediction {
    int ranks; /* of this machine */
    int largest; /* the rank that asks for most */
    uint64_t most, sum; /* what that rank and all of these ask for, of any memory */
    uint64_t params, params_trained; /* of the model; those that it does not freeze */
    double work; /* estimate: libraries at work */
    uint64_t program; /* this process before anything ran */
    uint64_t host, host_free; /* without `program`, which is taken already */
    const char *host_limit; /* what limits host_free; see free_memory.h */
    uint64_t device, device_free; /* of the GPU that is asked for most; 0 without GPU */
};

/* Plan the ranks of this machine and add up what they ask for. With `out`, print the
 * plan of each. `external` is NULL where cadre starts all ranks; then all are on this
 * machine. [main] Errors: those of cadre_rank_plan. */
cadre_status cadre_predict(const struct cadre_spec *spec,
                           const struct cadre_launch_external *external, FILE *out,
                           struct cadre_prediction *prediction,
                           struct cadre_error *err);

/* Refuse a run that is predicted to take more than is free, unless run.memory_check =
 * no; the line has the figures and what would take less. Says a word in the log where
 * more than nine tenths would be taken. Errors: CADRE_E_INVALID. */
cadre_status cadre_predict_check(const struct cadre_spec *spec,
                                 const struct cadre_prediction *prediction,
                                 struct cadre_error *err);

/* The last two lines of --dry-run: the rank that asks for most, and what is in memory.
 */
void cadre_predict_print(const struct cadre_spec *spec,
                         const struct cadre_prediction *prediction, FILE *out);

#endif
