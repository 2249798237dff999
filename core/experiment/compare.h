/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre compare`: train every run of a comparison, hold each against the baseline, and
 * write the report. */
#ifndef CADRE_EXPERIMENT_COMPARE_H
#define CADRE_EXPERIMENT_COMPARE_H

#include "core/base/options.h"

/* Each run is `/proc/self/exe train CONF --run NAME --set ... --out OUT/runs/NAME`, one
 * after the other, so that it has the machine, its pools and its pages for itself;
 * repeats are interleaved. Before anything trains every run is planned.
 * Then OUT/report.json, report.csv and report.html are written and the table goes to
 * stdout.
 *
 * options: loaded from conf_path, sets applied, not resolved; borrowed. sets: the --set
 * texts, NULL-terminated, may be NULL. out: the folder, NULL: run.out and the file's
 * name; one that holds a comparison is refused, unless checkpoint.resume = auto, which
 * keeps finished runs and goes on with the others.
 *
 * [main, before threads; signals INT, TERM, USR1 go to the run at hand while it trains]
 * Errors: CADRE_E_DIFFERS a run is not equal (the report is written); CADRE_E_STOPPED;
 * CADRE_E_INVALID; CADRE_E_ABORTED a run failed; CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_compare(const struct cadre_options *options, const char *conf_path,
                           char *const *sets, const char *out, struct cadre_error *err);

#endif
