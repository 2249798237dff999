/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre report`: what the folders of runs hold as pages and tables; nothing trains. */
#ifndef CADRE_REPORT_RUNS_REPORT_H
#define CADRE_REPORT_RUNS_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "core/base/error.h"

/* Borrowed. */
struct cadre_runs_report_request {
    char *const *dir; /* (n) folders, as cadre_runs_read takes them */
    size_t n;
    const char *out; /* NULL: a single run's own folder, for several "report" */
    const char *command; /* how it was asked for, for a shell; NULL: not known */
    const char *archive; /* a .tar to write besides; NULL: none */
    bool json; /* report.json's object in place of the table */
};

/* A single run gets OUT/run.html, several OUT/report.html, .md, .csv and .json; the
 * table goes to `to`. A folder with the report of a comparison is left as it is by
 * several; so is one that holds files and neither a report nor the run. [main]
 * Errors: those of cadre_runs_read and archive.h; CADRE_E_INVALID, CADRE_E_IO,
 * CADRE_E_RESOURCE. */
cadre_status cadre_runs_report(const struct cadre_runs_report_request *request,
                               FILE *to, struct cadre_error *err);

#endif
