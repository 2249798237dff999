/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of a WFDB record. Source: signal(5) of the WFDB applications guide. */
#ifndef CADRE_DATA_WFDB_WFDB_SIGNAL_H
#define CADRE_DATA_WFDB_WFDB_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/wfdb/wfdb_header.h"

/* Read one signal whole, in ADC units, and check it against the header.
 *
 *   header_path  the .hea file; signal files are looked up next to it
 *   index        0 to header->signals - 1
 *   samples      (*count) i32, written; the caller frees
 *
 * Sample 0 is the stored sample after `skew`, so a skewed signal is shorter. Reads the
 * file in chunks: the memory used is that of the result, which the file's size bounds.
 * Formats 8, 16, 24, 32, 61, 80, 160, 212, 310, 311; one sample per frame. [any thread]
 * Errors: CADRE_E_IO; CADRE_E_UNSUPPORTED other formats; CADRE_E_INVALID a file too
 * short for the header, a wrong initial value or checksum; CADRE_E_RESOURCE. */
cadre_status cadre_wfdb_signal_read(const char *header_path,
                                    const struct cadre_wfdb_header *header,
                                    int32_t index, int32_t **samples, int64_t *count,
                                    struct cadre_error *err);

/* What a sample of a format can be: within [low, high]; `missing` means "no sample
 * here", INT64_MAX where no value does. Of a format that is not read, all 32 bits. */
struct cadre_wfdb_range {
    int64_t low, high, missing;
};
void cadre_wfdb_range(int32_t format, struct cadre_wfdb_range *range);

/* Whether a stored value means "no sample here" in this format. */
bool cadre_wfdb_is_missing(int32_t format, int32_t sample);

#endif
