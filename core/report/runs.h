/* SPDX-License-Identifier: Apache-2.0 */
/* Several runs beside each other, as their folders tell: made at different times, and
 * maybe on different machines, so that none is ranked. [one thread] */
#ifndef CADRE_REPORT_RUNS_H
#define CADRE_REPORT_RUNS_H

#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/report/options_diff.h"
#include "core/report/run_data.h"

/* Why no run's speed is compared with another's. */
#define CADRE_RUNS_NOT_RANKED                                                          \
    "Speed is not ranked: the runs were made apart in time, so that the machine's "    \
    "other work and its drift are in their times; cadre compare times runs in turns"

/* "kind" of report.json, which that of a comparison has not. */
#define CADRE_RUNS_KIND "runs"

/* Of the keys of report.json; raised where one changes its meaning or goes. */
enum { CADRE_RUNS_SCHEMA = 1 };

struct cadre_runs {
    struct cadre_run_data **run; /* (n) owned */
    char **name; /* (n) owned, no two alike */
    char *
        *comparison; /* (n_comparisons) folders of comparisons that were given; owned */
    size_t n, n_comparisons;
    char *folder; /* owned, absolute: where the report is written; NULL: nowhere yet */
    const char *command; /* how the report was asked for; borrowed, NULL: not known */
    struct cadre_options_diff diff;
};

/* Read the runs in n folders. That of a comparison stands for its runs, without those
 * that measure rounding, that of independent runs for its instances, and what an
 * archive unpacks to for the runs and comparisons in it. *runs is ended
 * by fini, also on failure. Errors: CADRE_E_INVALID for a folder that is none of these,
 * or given twice; those of cadre_run_data_read. */
cadre_status cadre_runs_read(char *const *dir, size_t n, struct cadre_runs *runs,
                             struct cadre_error *err);
void cadre_runs_fini(struct cadre_runs *runs);

/* Runs that are not finished, of another version, on other machines, or other trainings
 * than the first: lines, each ended by '\n'; may be empty. */
void cadre_runs_notes(const struct cadre_runs *runs, struct cadre_text *out);

/* Is run i the same training as the first, so that their losses can be subtracted? */
bool cadre_runs_same_training(const struct cadre_runs *runs, size_t i);

/* The table, what differs in the options, and the notes: for a terminal of so many
 * columns, as report.md and as report.csv (RFC 4180, a line a run). Columns of the
 * table that do not fit are left out and named; those of the options stand below. */
void cadre_runs_table(const struct cadre_runs *runs, int columns,
                      struct cadre_text *out);
void cadre_runs_markdown(const struct cadre_runs *runs, struct cadre_text *out);
void cadre_runs_csv(const struct cadre_runs *runs, struct cadre_text *out);

/* report.json. */
void cadre_runs_json(const struct cadre_runs *runs, struct cadre_text *out);

/* report.html: one page that needs no other file; where runs->folder is known it links
 * to the pages of the runs. */
void cadre_runs_page(const struct cadre_runs *runs, struct cadre_text *out);

#endif
