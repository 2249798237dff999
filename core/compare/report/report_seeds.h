/* SPDX-License-Identifier: Apache-2.0 */
/* Losses of a comparison over settings and seeds, for each form of its report. All do
 * nothing where cadre_seeds_wanted says no. [any thread] */
#ifndef CADRE_COMPARE_REPORT_REPORT_SEEDS_H
#define CADRE_COMPARE_REPORT_REPORT_SEEDS_H

#include "core/base/json.h"
#include "core/compare/verdict/comparison.h"

/* A table for a terminal, with an empty line in front. */
void cadre_report_seeds_table(const struct cadre_comparison *comparison,
                              struct cadre_text *out);

/* A section of report.md, and one of report.html. */
void cadre_report_seeds_markdown(const struct cadre_comparison *comparison,
                                 struct cadre_text *out);
void cadre_report_seeds_html(const struct cadre_comparison *comparison,
                             struct cadre_text *out);

/* The keys "settings" and "best_valid" of report.json; null where nothing is wanted. */
void cadre_report_seeds_json(const struct cadre_comparison *comparison,
                             struct cadre_json *json);

/* Lines, each ended by '\n': the best run, what the intervals are, and which runs are
 * not compared with the baseline because of their seed. */
void cadre_report_seeds_notes(const struct cadre_comparison *comparison,
                              struct cadre_text *out);

#endif
