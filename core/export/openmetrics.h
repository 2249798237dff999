/* SPDX-License-Identifier: Apache-2.0 */
/* How a run goes, as an OpenMetrics text that a collector of text files reads
 * (node_exporter's, for Prometheus). Written under another name and renamed: a reader
 * sees a whole text, the old or the new one. Source: OpenMetrics 1.0. */
#ifndef CADRE_EXPORT_OPENMETRICS_H
#define CADRE_EXPORT_OPENMETRICS_H

#include <stdint.h>

#include "core/base/error.h"

/* A run after a step. What is not finite is unknown, and has no sample. */
struct cadre_openmetrics {
    const char *run, *stack, *device; /* labels; any text */
    int ranks;
    int64_t step, tokens; /* since the begin of the run */
    double training_s; /* sum of step_s over the steps of this process */
    double loss, valid_loss, grad_norm, lr, tokens_per_s, step_s;
    double ledger_peak_bytes, resident_bytes; /* of rank 0; of its process */
    double step_unix_s; /* when the step ended, since 1970 */
};

/* Replace the file. Not synced to disk: a text of a second ago is worth nothing after a
 * crash. Errors: CADRE_E_IO, the old file is unchanged; CADRE_E_RESOURCE. */
cadre_status cadre_openmetrics_write(const char *path,
                                     const struct cadre_openmetrics *run,
                                     struct cadre_error *err);

#endif
