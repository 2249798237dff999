/* SPDX-License-Identifier: Apache-2.0 */
/* Figures with their 95 % intervals as text: "1.31 [1.28, 1.34]". Without an interval
 * only the value, "-" without a value. Each returns out. [any thread] */
#ifndef CADRE_COMPARE_REPORT_FIGURE_H
#define CADRE_COMPARE_REPORT_FIGURE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/compare/timing/signed_rank.h"

/* Room for any of them. */
enum { CADRE_FIGURE_CHARS = 96 };

/* "1.31 [1.28, 1.34]"; a third decimal where the interval is narrower than 0.02. */
const char *cadre_figure_ratio(const struct cadre_interval *figure, char *out,
                               size_t size);

/* "66 % [64, 67]"; a decimal where the interval is narrower than 2 %. */
const char *cadre_figure_percent(const struct cadre_interval *figure, char *out,
                                 size_t size);

/* "45.6 ms [44.1 ms, 47.0 ms]". */
const char *cadre_figure_seconds(const struct cadre_interval *figure, char *out,
                                 size_t size);

/* For sentences: "1.28 to 1.34" and "-0.3 % to 4.4 %"; "" without an interval. */
const char *cadre_figure_ratio_range(const struct cadre_interval *figure, char *out,
                                     size_t size);
const char *cadre_figure_percent_range(const struct cadre_interval *figure, char *out,
                                       size_t size);

/* "1.2 %", "31 %", "140 %" of a fraction, in two digits or more. */
const char *cadre_figure_share(double share, char *out, size_t size);

/* Has it both ends, with the value between them? */
bool cadre_figure_is_interval(const struct cadre_interval *figure);

/* 1 / figure, with the ends exchanged. Of positive figures. */
struct cadre_interval cadre_figure_inverse(const struct cadre_interval *figure);

#endif
