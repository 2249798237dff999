/* SPDX-License-Identifier: Apache-2.0 */
/* A streaming JSON writer (RFC 8259). It writes commas, quotes and indentation; nesting
 * is checked by assert, since all callers are internal. Write errors are kept and
 * reported by cadre_json_finish. One thread at a time.
 *
 *     struct cadre_json j;
 *     cadre_json_init(&j, file, false);
 *     cadre_json_begin_object(&j);
 *     cadre_json_key(&j, "loss");
 *     cadre_json_f64(&j, loss);
 *     cadre_json_end_object(&j);
 *     CADRE_TRY(cadre_json_finish(&j)); */
#ifndef CADRE_BASE_JSON_H
#define CADRE_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/memory.h"
#include <cadre/status.h>

enum { CADRE_JSON_DEPTH = 32 };

struct cadre_json {
    FILE *file; /* borrowed; one of the two is NULL */
    struct cadre_text *text; /* borrowed */
    bool pretty;
    bool failed;
    bool after_key;
    int depth;
    char close[CADRE_JSON_DEPTH]; /* '}' or ']' of each open level */
    bool filled[CADRE_JSON_DEPTH]; /* a level that holds something needs commas */
};

/* Write to `file`, which the caller opened and will close. pretty = indented over
 * several lines; otherwise one line, as in JSON Lines. */
void cadre_json_init(struct cadre_json *json, FILE *file, bool pretty);

/* Write at the end of `text`. */
void cadre_json_init_text(struct cadre_json *json, struct cadre_text *text,
                          bool pretty);

void cadre_json_begin_object(struct cadre_json *json);
void cadre_json_end_object(struct cadre_json *json);
void cadre_json_begin_array(struct cadre_json *json);
void cadre_json_end_array(struct cadre_json *json);

/* The key of the next value; only inside an object. */
void cadre_json_key(struct cadre_json *json, const char *key);

/* Values. NULL text is null; invalid UTF-8 becomes U+FFFD. Numbers round-trip (%.17g);
 * NaN and infinities, which JSON lacks, are null. */
void cadre_json_string(struct cadre_json *json, const char *text);
void cadre_json_i64(struct cadre_json *json, int64_t value);
void cadre_json_u64(struct cadre_json *json, uint64_t value);
void cadre_json_f64(struct cadre_json *json, double value);
void cadre_json_bool(struct cadre_json *json, bool value);
void cadre_json_null(struct cadre_json *json);

/* A key and its value in one call. */
void cadre_json_put_string(struct cadre_json *json, const char *key, const char *text);
void cadre_json_put_i64(struct cadre_json *json, const char *key, int64_t value);
void cadre_json_put_f64(struct cadre_json *json, const char *key, double value);
void cadre_json_put_bool(struct cadre_json *json, const char *key, bool value);

enum { CADRE_JSON_DATE = 24 }; /* bytes of a date */

/* The time now as files of JSON have it, ISO 8601 in UTC to the second:
 * "2026-11-22T09:30:00Z". Returns `out`. [any thread] */
const char *cadre_json_date(char out[CADRE_JSON_DATE]);

/* What a file begins with, in its object: `schema_version`, which is raised where a key
 * changes its meaning or goes, `build`, the program that wrote it, and `date`, when.
 * Not for files whose bytes are hashed or compared. */
void cadre_json_put_head(struct cadre_json *json, int schema_version);

/* End the document with a line break; the writer can then start another on a new line.
 * Errors: CADRE_E_IO where anything could not be written, CADRE_E_RESOURCE for a text.
 */
cadre_status cadre_json_finish(struct cadre_json *json);

#endif
