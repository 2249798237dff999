/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of report.html, each in a file of its own. */
#ifndef CADRE_COMPARE_REPORT_REPORT_PRIVATE_H
#define CADRE_COMPARE_REPORT_REPORT_PRIVATE_H

#include "core/compare/report/report.h"

/* <style>: colours are Okabe and Ito's or darker, distinct with any colour vision, and
 * white on them has a contrast of 4.5 or more. */
void cadre_report_style(struct cadre_text *out);

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

#endif
