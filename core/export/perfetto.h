/* SPDX-License-Identifier: Apache-2.0 */
/* trace.json: a timeline of every rank, for Perfetto or chrome://tracing (Trace Event
 * Format). One process is the run, one row a rank: steps, in them passes named by
 * their micro-batch, in those units, waits, the core's work; evaluations and
 * checkpoints between steps. Operations of the communicators are async events next to
 * the row, each from its posting to its completion. Counters: loss, tokens/s, memory.
 * Time begins with the first recorded step. */
#ifndef CADRE_EXPORT_PERFETTO_H
#define CADRE_EXPORT_PERFETTO_H

#include "core/export/trace_record.h"

/* [collective: world] Write DIR/NAME, "trace.json" in a run's folder, by rank 0; the
 * record has its origin. Errors: those of cadre_gather_file. */
cadre_status cadre_perfetto_write(const struct cadre_trace_record *record,
                                  struct cadre_rank *rank, const char *dir,
                                  const char *name, struct cadre_error *err);

#endif
