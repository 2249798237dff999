/* SPDX-License-Identifier: Apache-2.0 */
/* ECG as language: around every beat a window of one lead, in tokens. A token is the
 * millivolts after gain and baseline, minus the record's median, clipped to +-range_mv,
 * in `levels` equal steps. Windows are [t - w/2, t - w/2 + w); those that leave the
 * record or hold a sample marked missing are dropped. */
#ifndef CADRE_DATA_WFDB_ECG_H
#define CADRE_DATA_WFDB_ECG_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/data/cache/cache.h"

struct cadre_ecg_config {
    const char *path; /* a folder, searched with those below it, or one record */
    const char *lead;
    int64_t window; /* 2 to 65536 */
    int64_t levels; /* 2 to 65536 */
    double range_mv;
};

/* Tokenise every record that has the lead, or map the cache. One cache
 * record each, in the order of their names (path below the folder, without .hea):
 * tokens (windows * window), labels (windows) = annotation codes of the beats. A record
 * without the lead is skipped with a log line. A few
 * records a core are in memory at a time. On success the caller frees with
 * cadre_cache_fini. [any thread] Errors: CADRE_E_INVALID (options; no record; no record
 * with the lead; a record's files; records of different sampling rates),
 * CADRE_E_UNSUPPORTED, CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_ecg_open(const struct cadre_ecg_config *config,
                            const char *cache_dir, struct cadre_cache *cache,
                            struct cadre_error *err);

#endif
