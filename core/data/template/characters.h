/* SPDX-License-Identifier: Apache-2.0 */
/* Characters of a text as Python counts them: code points, of UTF-8 that is valid. */
#ifndef CADRE_DATA_TEMPLATE_CHARACTERS_H
#define CADRE_DATA_TEMPLATE_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the white space at text[at, size), 0 where there is none. White space is
 * what Python's str.isspace says. */
size_t cadre_characters_space(const char *text, size_t size, size_t at);

/* The first place at or behind `at` without white space. */
size_t cadre_characters_skip_space(const char *text, size_t size, size_t at);

/* The end of text[0, size) without the white space at its end. */
size_t cadre_characters_trim_end(const char *text, size_t size);

/* Code points. */
int64_t cadre_characters_count(const char *text, size_t size);

/* The byte at which code point `index` begins; size where there are fewer. */
size_t cadre_characters_offset(const char *text, size_t size, int64_t index);

/* Whether all bytes are ASCII. */
bool cadre_characters_ascii(const char *text, size_t size);

#endif
