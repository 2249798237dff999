/* SPDX-License-Identifier: Apache-2.0 */
/* Strict ini files. iniparser reads them; a second pass over the text keeps order and
 * line numbers, which iniparser drops, and refuses what iniparser would silently
 * change. [main]: iniparser's error callback is process-wide. */
#ifndef CADRE_CONFIG_INI_H
#define CADRE_CONFIG_INI_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

/* Above an entry stands in a file that Cadre wrote who set it, "# (SOURCE)"; an option
 * that nobody set has this source. */
#define CADRE_INI_DEFAULT "default"
#define CADRE_INI_SOURCE_BEGIN "# ("
#define CADRE_INI_SOURCE_END ")"

struct cadre_ini_entry {
    char *section; /* lower case */
    char *key; /* lower case; NULL for the line [section] itself */
    char *value; /* raw text without its quotes; NULL where key is */
    int line; /* from 1 */
    bool by_default; /* the line above gives the source CADRE_INI_DEFAULT */
};

struct cadre_ini {
    struct cadre_ini_entry *entries; /* in the order of the file */
    size_t n;
};

/* Longest line of a file and longest value, in bytes; iniparser's own limit for a line
 * is a little above. */
enum { CADRE_INI_LINE_BYTES = 1000, CADRE_INI_VALUE_BYTES = 900 };

/* Read a file strictly. Refused, each with "file:line: ...": a key outside a section, a
 * key set twice, `key: value`, a value truncated by an unquoted ; or #, text after a
 * closing quote, a quote that is never closed, a line that ends in a backslash, a
 * byte-order mark, control bytes, text that is not UTF-8, lines of more than
 * CADRE_INI_LINE_BYTES. *ini is the caller's (fini), empty on failure. Errors:
 * CADRE_E_INVALID, CADRE_E_IO. */
cadre_status cadre_ini_load(struct cadre_ini *ini, const char *path,
                            struct cadre_error *err);
void cadre_ini_fini(struct cadre_ini *ini);

/* Whether a text may stand before the equals sign: letters, digits, _ . - + @ */
bool cadre_ini_is_key(const char *text);

/* How to write a value so that it reads back the same: the quote to put around it (0
 * for none), or -1 where an ini file cannot hold it (control bytes, not UTF-8, both
 * kinds of quotes where one is needed, too long). [any thread] */
int cadre_ini_quote(const char *value);

#endif
