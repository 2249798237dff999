/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenises one record, or many at once; for ecg*.c. */
#ifndef CADRE_DATA_WFDB_ECG_RECORD_H
#define CADRE_DATA_WFDB_ECG_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/cache/cache.h"
#include "core/data/wfdb/ecg.h"
#include "core/data/wfdb/record_list.h"
#include "core/data/wfdb/wfdb_header.h"

struct cadre_ecg_record {
    const struct cadre_ecg_config *config;
    const char *name;
    char *header_path;
    struct cadre_wfdb_header header;
    int32_t index; /* of the lead, -1: the record has none */
};

/* Read the header of record r of the list; closed also after a failure. Config and list
 * are borrowed. [any thread] Errors: those of cadre_wfdb_header_read. */
cadre_status cadre_ecg_record_open(struct cadre_ecg_record *rec,
                                   const struct cadre_ecg_config *config,
                                   const struct cadre_record_list *list, size_t r,
                                   struct cadre_error *err);

/* Safe on a zeroed record. */
void cadre_ecg_record_close(struct cadre_ecg_record *rec);

/* The header's path with another suffix; NULL where there is no memory. */
char *cadre_ecg_record_path(const struct cadre_ecg_record *rec, const char *suffix);

/* The windows of a record's lead. */
struct cadre_ecg_windows {
    uint16_t *tokens; /* of every sample */
    int64_t *first; /* (count) where each window begins among them */
    uint8_t *labels; /* (count) annotation codes of the beats */
    size_t count;
};

/* Read the signal and the beats, and quantise. On success the caller frees with
 * cadre_ecg_windows_fini; on failure *windows is untouched. [any thread] Errors: those
 * of the readers; CADRE_E_INVALID units other than voltage; CADRE_E_RESOURCE. */
cadre_status cadre_ecg_windows_init(struct cadre_ecg_windows *windows,
                                    const struct cadre_ecg_record *rec,
                                    struct cadre_error *err);

/* Safe on zeroed windows. */
void cadre_ecg_windows_fini(struct cadre_ecg_windows *windows);

/* Tokenise every record of the list that has the lead into the writer, in the list's
 * order. The process's cores divide the records; the output, or the error, is the same
 * as with one core. Errors: those of the functions above and
 * of the writer. */
cadre_status cadre_ecg_build(const struct cadre_ecg_config *config,
                             const struct cadre_record_list *list,
                             struct cadre_cache_writer *writer,
                             struct cadre_error *err);

#endif
