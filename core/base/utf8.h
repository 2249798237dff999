/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 validity (RFC 3629: shortest form, no surrogates, up to U+10FFFF). */
#ifndef CADRE_BASE_UTF8_H
#define CADRE_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the valid character at s (1 to 4), of which n > 0 may be read; 0 where it is
 * not valid. A zero byte is a character of one byte. [any thread] */
size_t cadre_utf8_char(const char *s, size_t n);

#endif
