/* SPDX-License-Identifier: Apache-2.0 */
/* What the tokens of a compared run took: energy, a share of the devices' FLOP/s, and
 * money. NaN where not known, as of runs made by earlier builds. [any thread] */
#ifndef CADRE_COMPARE_VERDICT_CONSUMPTION_H
#define CADRE_COMPARE_VERDICT_CONSUMPTION_H

#include "core/compare/verdict/comparison.h"

/* Joules a token: the median over its timed pieces, of undisturbed rounds where there
 * are some, since other processes take energy too; without pieces that of the judged
 * training. */
double cadre_consumption_joules(const struct cadre_comparison *comparison, size_t run);

/* MFU and HFU (core/run/efficiency.h) at the run's tokens/s of the comparison. */
double cadre_consumption_mfu(const struct cadre_compared_run *run);
double cadre_consumption_hfu(const struct cadre_compared_run *run);

/* Price of a million tokens, in the currency of report.price_per_hour. */
double cadre_consumption_price(const struct cadre_compared_run *run);

#endif
