/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a run: a line per step in metrics.jsonl, and summary.json at its end.
 */
#ifndef CADRE_RUN_METRICS_H
#define CADRE_RUN_METRICS_H

#include "core/run/efficiency.h"
#include "core/run/energy.h"
#include "core/run/site.h"
#include "core/run/spec.h"
#include "core/run/usage.h"

struct cadre_metrics; /* of rank 0 */

struct cadre_valid_result {
    bool has;
    double loss; /* mean over the targets evaluated, nats */
    double accuracy; /* of classes, of pairs */
    int64_t targets, samples; /* evaluated; all samples: cadre_dataset_info */
    double logits[2]; /* of pairs: of chosen and rejected answers */
};

/* Open DIR/metrics.jsonl for appending. The steps that are in it, of a run that
 * continues, count in the summary. */
cadre_status cadre_metrics_open(const struct cadre_spec *spec,
                                struct cadre_metrics **out, struct cadre_error *err);

/* Append the line of a step and flush it. Under fp16 it has loss_scale and skipped, and
 * grad_norm is null where the step was skipped. Errors: CADRE_E_IO (disk full ...). */
cadre_status cadre_metrics_step(struct cadre_metrics *metrics, int64_t step,
                                const struct cadre_step_report *report,
                                const struct cadre_valid_result *valid,
                                struct cadre_error *err);

/* Counters of all ranks at the end. Arrays have spec->run.ranks entries. */
struct cadre_run_totals {
    const double *peak_bytes;
    const struct cadre_usage *usage; /* NULL: unknown */
    const struct cadre_site *site; /* NULL: unknown */
    const struct cadre_energy *energy; /* NULL: unknown */
    const struct cadre_efficiency *efficiency; /* NULL: unknown */
    double comm_bytes; /* of this process's steps */
    double between_bytes; /* of them between nodes */
    int nodes; /* that the ranks are on */
    const double *matrices; /* whole ones that its optimizer plugin computed since */
    uint64_t params, params_trained;
    const char *device;
    int threads; /* of rank 0's device; 0: as all ranks */
    struct cadre_tuning tuning; /* of rank 0's device */
    struct cadre_valid_result valid;
};

/* Write DIR/summary.json from all steps of metrics.jsonl: `first_step` is above 1 where
 * the run continues a checkpoint of another folder. `comm_exposed_s` is their sum, of
 * rank 0, `comm_exposed_axis_s` the same by axis; `comm_bytes` and
 * `comm_between_bytes` are null where a process before this one was lost and with it
 * its count. Memory and machine are this
 * process's. */
cadre_status cadre_metrics_summary(struct cadre_metrics *metrics,
                                   const struct cadre_run_totals *totals,
                                   struct cadre_error *err);

/* Accepts NULL. */
void cadre_metrics_close(struct cadre_metrics *metrics);

#endif
