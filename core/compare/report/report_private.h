/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of report.html, each in a file of its own. */
#ifndef CADRE_COMPARE_REPORT_REPORT_PRIVATE_H
#define CADRE_COMPARE_REPORT_REPORT_PRIVATE_H

#include "core/base/json.h"
#include "core/compare/report/report.h"

/* Where the time of run i's step went: medians over its timed pieces, as fractions of
 * theirs times its own. Returns NULL, or why it is not known: *parts is so then. */
const char *cadre_report_parts(const struct cadre_comparison *comparison, size_t i,
                               struct cadre_step_parts *parts);

/* `step_parts` of report.json, and why they are null. */
void cadre_report_parts_json(struct cadre_json *json,
                             const struct cadre_comparison *comparison, size_t i);

/* Stacked bars: the time of a step by its parts, beside memory by kind. Nothing where
 * neither is known. */
void cadre_report_where_it_went(const struct cadre_comparison *comparison,
                                struct cadre_text *out);

/* Speedups over ranks and the ideal. Nothing where runs do not differ in ranks. */
void cadre_report_scaling(const struct cadre_comparison *comparison,
                          struct cadre_text *out);

/* Curves of losses and their differences, bars of the figures. */
void cadre_report_charts(const struct cadre_comparison *comparison,
                         struct cadre_text *out);

/* All pieces in the order of time, disturbed rounds shaded. Nothing where none was
 * timed. */
void cadre_report_pieces(const struct cadre_comparison *comparison,
                         struct cadre_text *out);

/* Date, machine, and what is trained: a list. */
void cadre_report_setup(const struct cadre_comparison *comparison,
                        struct cadre_text *out);

/* What a run's tokens took, as keys of it in report.json. */
void cadre_report_put_consumption(struct cadre_json *json,
                                  const struct cadre_comparison *comparison,
                                  size_t run);

/* Whose energy it is, or why it is not known; what MFU is. Lines. */
void cadre_report_note_consumption(const struct cadre_comparison *comparison,
                                   struct cadre_text *out);

/* The forecast of a run, as a key of it in report.json. */
void cadre_report_put_prediction(struct cadre_json *json,
                                 const struct cadre_comparison *comparison, size_t run);

/* A line for each run beside what was measured. Nothing without a hardware file. */
void cadre_report_note_predictions(const struct cadre_comparison *comparison,
                                   struct cadre_text *out);

#endif
