/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre compare`: train every run of a comparison, compare each with the baseline, and
 * write the report; or one of these steps, if a batch system starts the trainings. */
#ifndef CADRE_COMPARE_COMPARE_H
#define CADRE_COMPARE_COMPARE_H

#include <stdio.h>

#include "core/compare/predictions.h"
#include "core/config/options.h"

enum cadre_compare_step {
    CADRE_COMPARE_ALL,
    CADRE_COMPARE_LIST, /* print the trainings: name, tab, ranks */
    CADRE_COMPARE_ONE, /* train one of them */
    CADRE_COMPARE_COLLECT, /* judge the existing runs, and report */
};

struct cadre_compare_request {
    const struct cadre_options
        *options; /* loaded from conf, sets applied, not resolved */
    const char *conf;
    const char *command; /* how it was called, for a shell; NULL: not known */
    char *const *sets; /* the --set texts, NULL-terminated; may be NULL */
    const char *out; /* NULL: run.out and the file's name */
    enum cadre_compare_step step;
    char *const
        *fail_if; /* conditions, NULL-terminated; may be NULL. See condition.h */
    const char *task; /* of ONE: a name that LIST prints */
    FILE *table; /* where the table of a report goes, such as stdout */
    struct cadre_prediction_request predict; /* forecasts beside what is measured */
    bool launched; /* a launcher started this process as a rank: ONE only */
};

/* Everything in the request is borrowed. Before anything trains every run is planned,
 * in each of the steps, and the data opened, so that its cache is filled.
 *
 * ALL: each run is `/proc/self/exe train CONF --run NAME --set ... --out
 * OUT/runs/NAME`, one after the other, so that it has the machine to itself. One that
 * fails is reported as failed, and the others go on. Then their speed is measured
 * (measure.h), OUT/report.json, report.csv, report.md and report.html are written, and
 * the table goes to request->table. OUT/comparison.ini is the comparison again. A
 * folder that holds a comparison is refused, unless checkpoint.resume = auto, which
 * keeps finished runs, trains the others and measures all of them anew. ONE: this
 * process becomes that `train` by exec, and so a rank if `launched`. It returns only on
 * failure, or if resume = auto finds the run done. COLLECT: nothing trains, and the
 * report is written from the existing runs.
 *
 * [main, before threads; ALL: signals INT, TERM, USR1 go to the present run while it
 * trains]
 * Errors: CADRE_E_DIFFERS a run is not equal, CADRE_E_CONDITION one of fail_if holds,
 * CADRE_E_UNDECIDED one of them is undecided, the first of these that applies (the
 * report is written); CADRE_E_STOPPED;
 * CADRE_E_INVALID, also for runs that COLLECT misses, and for a run that refused its
 * settings; CADRE_E_ABORTED a run failed (the report is written in both cases);
 * CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_compare(const struct cadre_compare_request *request,
                           struct cadre_error *err);

/* The folder of a comparison without --out: run.out and the file's name. The caller
 * frees it; NULL where there is no memory. */
char *cadre_compare_folder(const struct cadre_options *options, const char *conf);

#endif
