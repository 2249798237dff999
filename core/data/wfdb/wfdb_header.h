/* SPDX-License-Identifier: Apache-2.0 */
/* WFDB record headers (.hea). Source: header(5) of the WFDB applications guide. */
#ifndef CADRE_DATA_WFDB_WFDB_HEADER_H
#define CADRE_DATA_WFDB_WFDB_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

enum {
    CADRE_WFDB_SIGNALS_MAX = 1024,
    CADRE_WFDB_FILE_MAX = 256,
    CADRE_WFDB_NAME_MAX = 128,
    CADRE_WFDB_UNITS_MAX = 32,
    CADRE_WFDB_DESCRIPTION_MAX = 128,
};

struct cadre_wfdb_signal {
    char file[CADRE_WFDB_FILE_MAX]; /* relative to the header, never above its folder */
    int32_t format; /* as written; cadre_wfdb_signal_read knows which */
    int32_t samples_per_frame;
    int64_t skew; /* stored samples that come before sample 0 */
    int64_t byte_offset; /* of the first stored sample in the file */
    double gain; /* ADC units per physical unit; 200 where none or 0 is given */
    int32_t baseline; /* ADC value of 0 physical units */
    char units[CADRE_WFDB_UNITS_MAX]; /* "mV" where none is given */
    int32_t adc_resolution;
    int32_t adc_zero;
    int32_t initial; /* meaningful where has_initial */
    int32_t checksum;
    bool has_initial;
    bool has_checksum;
    char description[CADRE_WFDB_DESCRIPTION_MAX]; /* the lead; "" where none is given */
};

struct cadre_wfdb_header {
    char name[CADRE_WFDB_NAME_MAX];
    double frequency; /* frames per second; 250 where none is given */
    int64_t samples; /* frames; 0: not given, the signal file's size decides */
    int32_t signals;
    struct cadre_wfdb_signal *signal; /* (signals), owned */
};

/* Parse text[0, size). `where` names it in errors. On success the caller frees with
 * cadre_wfdb_header_fini; on failure *header is untouched. Comments, blank lines and
 * CRLF are taken; a record made of segments, a signal file outside the record's folder
 * and numbers out of range are refused in words. [any thread] Errors: CADRE_E_INVALID,
 * CADRE_E_UNSUPPORTED, CADRE_E_RESOURCE. */
cadre_status cadre_wfdb_header_parse(const char *text, size_t size, const char *where,
                                     struct cadre_wfdb_header *header,
                                     struct cadre_error *err);

/* As above from a file. Errors: also CADRE_E_IO. */
cadre_status cadre_wfdb_header_read(const char *path, struct cadre_wfdb_header *header,
                                    struct cadre_error *err);

/* Safe on a zeroed header. */
void cadre_wfdb_header_fini(struct cadre_wfdb_header *header);

/* Index of the first signal whose description is `lead`, or -1. */
int32_t cadre_wfdb_header_find(const struct cadre_wfdb_header *header,
                               const char *lead);

#endif
