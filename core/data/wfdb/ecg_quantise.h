/* SPDX-License-Identifier: Apache-2.0 */
/* From the samples of a lead to tokens: millivolts less the record's median, clipped,
 * in equal steps. For ecg*.c and their tests. */
#ifndef CADRE_DATA_WFDB_ECG_QUANTISE_H
#define CADRE_DATA_WFDB_ECG_QUANTISE_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/data/wfdb/wfdb_signal.h"

/* The median of values[0, count), the mean of the middle two where count is even;
 * values are reordered. count > 0. */
double cadre_ecg_median(int32_t *values, int64_t count);

/* The token of a value in millivolts. */
uint16_t cadre_ecg_token(double mv, double range_mv, int64_t levels);

/* The other way: the middle of a token's level, in millivolts. */
double cadre_ecg_mv(uint16_t token, double range_mv, int64_t levels);

/* How a lead's values become tokens. */
struct cadre_ecg_scale {
    double gain; /* ADC units per physical unit */
    double unit_mv; /* millivolts per physical unit */
    double range_mv;
    int64_t levels;
};

/* The token of every sample, the median taken over those that are not missing; a
 * missing sample gets the token of its value.
 *
 *   samples  (count) i32, within range
 *   tokens   (count) u16, written
 *   missing  how many samples are missing, written
 *
 * Where a format has few values, as MIT-BIH's 12 bits, they are counted, and each is
 * turned into a token once: the same bits, as a token is a function of its value.
 * [any thread] Errors: CADRE_E_RESOURCE. */
cadre_status cadre_ecg_quantise(const int32_t *samples, int64_t count,
                                const struct cadre_wfdb_range *range,
                                const struct cadre_ecg_scale *scale, uint16_t *tokens,
                                int64_t *missing);

#endif
