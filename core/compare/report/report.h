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
#define CADRE_FORMULA_MFU                                                              \
    "MFU = FLOPs of the model a token x tokens/s / peak FLOP/s of all devices"
#define CADRE_FORMULA_N "N: ranks of the run / ranks of the baseline; "
#define CADRE_FORMULA_N_WHOLE "N: 1, as every run has all cores of the machine; "
#define CADRE_FORMULA_T_ROUNDS                                                         \
    "T: seconds a step in the same rounds; figures are Hodges-Lehmann medians over "   \
    "rounds, in brackets the exact 95 % interval of the signed-rank test"
#define CADRE_FORMULA_T "T: median wall time of the same steps, warm-up left out"
#define CADRE_FORMULA_ROUNDS CADRE_FORMULA_N CADRE_FORMULA_T_ROUNDS
#define CADRE_FORMULA_ROUNDS_WHOLE CADRE_FORMULA_N_WHOLE CADRE_FORMULA_T_ROUNDS
#define CADRE_FORMULA_WHERE CADRE_FORMULA_N CADRE_FORMULA_T
#define CADRE_FORMULA_WHOLE CADRE_FORMULA_N_WHOLE CADRE_FORMULA_T
#define CADRE_FORMULA_SWEEP                                                            \
    "T of independent runs: tokens of the baseline's step / sum of the instances' "    \
    "tokens/s, so that speedup = their tokens/s together / those of the baseline"

/* Of the keys of report.json; raised where one changes its meaning or goes. */
enum { CADRE_REPORT_SCHEMA = 2 };

/* Was anything timed in rounds? Else times are those of the judged training. */
bool cadre_report_is_timed(const struct cadre_comparison *comparison);

/* Seconds a step: of the timed pieces, else of the record; NaN for a failed run. */
double cadre_report_step_s(const struct cadre_compared_run *run);

/* The timed pieces' bubble fraction and exposed communication (s a step), else those of
 * the record; NaN where not known. */
double cadre_report_bubble(const struct cadre_compared_run *run);
double cadre_report_exposed_s(const struct cadre_compared_run *run);

/* Rounds, without warm-up, in which the run has a piece. */
size_t cadre_report_rounds(const struct cadre_comparison *comparison, size_t run);

/* Is the piece of a disturbed round? */
bool cadre_report_is_disturbed(const struct cadre_comparison *comparison,
                               const struct cadre_piece *piece);

/* Does something cast doubt on its speed: it failed, is unfair, has an implausible
 * figure, or did not train the same, and not by design? */
bool cadre_report_is_doubtful(const struct cadre_compared_run *run);

/* The run that was shown to be the fastest, -1: none, or one that did not train the
 * same. */
ptrdiff_t cadre_report_fastest(const struct cadre_comparison *comparison);

/* Have the run and the baseline a training to be compared? */
bool cadre_report_is_judged(const struct cadre_comparison *comparison, size_t run);

/* The time of the call in UTC, "2025-01-31T12:00:00Z". Returns out. */
const char *cadre_report_date(char *out, size_t size);

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

/* report.md: conclusions, the table and the notes as GitHub renders them. */
void cadre_report_markdown(const struct cadre_comparison *comparison,
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

/* The sentences of sentences.h, as lines each ended by '\n'. */
void cadre_report_sentences(const struct cadre_comparison *comparison,
                            struct cadre_text *out);

/* What must be known with the figures: unfair runs, simulated links, where limits come
 * from, independent runs. Lines, each ended by '\n'; may be empty. */
void cadre_report_notes(const struct cadre_comparison *comparison,
                        struct cadre_text *out);

/* Equality of a run in a few words: "baseline", "exact", "within (2e-07 of 3e-06)",
 * "failed", "not judged". */
void cadre_report_equality(const struct cadre_comparison *comparison, size_t run,
                           char *out, size_t size);

/* Write report.json, report.csv, report.md, report.html and a certificate of each run
 * that did not fail into `dir`.
 * Errors: CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_report_write(const struct cadre_comparison *comparison,
                                const char *dir, struct cadre_error *err);

#endif
