/* SPDX-License-Identifier: Apache-2.0 */
/* A judged comparison in the forms that it is read in. */
#ifndef CADRE_COMPARE_REPORT_REPORT_H
#define CADRE_COMPARE_REPORT_REPORT_H

#include "core/base/memory.h"
#include "core/compare/verdict/comparison.h"

/* The formulas as they are printed and stored. */
#define CADRE_FORMULA_SPEEDUP "speedup = T_base / T_run"
#define CADRE_FORMULA_EFFICIENCY "efficiency = speedup / N"
#define CADRE_FORMULA_OVERHEAD "overhead = T_run - T_base / N"
#define CADRE_FORMULA_WHERE                                                            \
    "T: median wall time of the same steps, warm-up left out; "                        \
    "N: ranks of the run / ranks of the baseline"

#define CADRE_FORMULA_WHOLE                                                            \
    "T: median wall time of the same steps, warm-up left out; "                        \
    "N: 1, as every run has all cores of the machine"
#define CADRE_FORMULA_SWEEP                                                            \
    "T of independent runs: tokens of the baseline's step / sum of the instances' "    \
    "tokens/s, so that speedup = their tokens/s together / those of the baseline"

/* What T and N are in this comparison. Static. */
const char *cadre_report_where(const struct cadre_comparison *comparison);

/* report.json. */
void cadre_report_json(const struct cadre_comparison *comparison,
                       struct cadre_text *out);

/* report.csv (RFC 4180): a header and a line a run. */
void cadre_report_csv(const struct cadre_comparison *comparison,
                      struct cadre_text *out);

/* The table for a terminal, with formulas, notes and the closing sentences. */
void cadre_report_table(const struct cadre_comparison *comparison,
                        struct cadre_text *out);

/* report.html: one page that needs no other file. */
void cadre_report_html(const struct cadre_comparison *comparison,
                       struct cadre_text *out);

/* Part of report.html: bubbles of the runs with a schedule, and a step of each drawn.
 * Nothing where no run has one. */
void cadre_report_schedules(const struct cadre_comparison *comparison,
                            struct cadre_text *out);

/* Part of report.html: the instances of runs that are made of some. Nothing where none
 * is. */
void cadre_report_instances(const struct cadre_comparison *comparison,
                            struct cadre_text *out);

/* Sentences for the end of a report: who was faster, by how much, and whether the
 * training was the same. Lines, each ended by '\n'. */
void cadre_report_sentences(const struct cadre_comparison *comparison,
                            struct cadre_text *out);

/* What must be known with the figures: unfair runs, simulated links, where limits come
 * from, independent runs. Lines, each ended by '\n'; may be empty. */
void cadre_report_notes(const struct cadre_comparison *comparison,
                        struct cadre_text *out);

/* Equality of a run in a few words: "baseline", "exact", "within (2e-07 of 3e-06)". */
void cadre_report_equality(const struct cadre_comparison *comparison, size_t run,
                           char *out, size_t size);

/* Write report.json, report.csv, report.html and a certificate a run into `dir`.
 * Errors: CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_report_write(const struct cadre_comparison *comparison,
                                const char *dir, struct cadre_error *err);

#endif
