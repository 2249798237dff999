/* SPDX-License-Identifier: Apache-2.0 */
/* Files of records: one JSON array, or JSON Lines, which begin with "[" or not. */
#ifndef CADRE_DATA_CHAT_DIALOGUE_FILE_H
#define CADRE_DATA_CHAT_DIALOGUE_FILE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* Parse the file's text[0, size) and pass each record, any JSON value, with the line on
 * which it begins (from 1), in order. `path` is for errors alone, which name it and the
 * line, also those of `each`. [any thread] Errors: CADRE_E_INVALID what is no JSON, or
 * no record; CADRE_E_RESOURCE; those of each. */
cadre_status
cadre_dialogue_file_read(const char *text, size_t size, const char *path,
                         cadre_status (*each)(void *arg, const json_t *record,
                                              uint64_t line, struct cadre_error *err),
                         void *arg, struct cadre_error *err);

#endif
