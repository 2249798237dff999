/* SPDX-License-Identifier: Apache-2.0 */
/* What tokenizers need of Unicode: the classes L, N and White_Space, and the composed
 * form NFC. The tables are made by tools/unicode-table and agree with `tokenizers`. */
#ifndef CADRE_DATA_TOKENIZER_UNICODE_H
#define CADRE_DATA_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* The code point at text, of which size > 0 bytes of valid UTF-8 follow; *bytes: how
 * many it takes. [any thread, like all here] */
uint32_t cadre_unicode_read(const char *text, size_t size, size_t *bytes);

/* Write a code point as UTF-8; returns the bytes, 1 to 4. */
size_t cadre_unicode_write(uint32_t code, char out[4]);

bool cadre_unicode_is_letter(uint32_t code); /* general category L* */
bool cadre_unicode_is_number(uint32_t code); /* general category N* */
bool cadre_unicode_is_space(uint32_t code); /* White_Space */

/* The NFC form of text[0, size), valid UTF-8. *out is NULL where the text is certainly
 * in that form already, else the caller frees it. Errors: CADRE_E_RESOURCE. Source:
 * Unicode Standard Annex 15. */
cadre_status cadre_unicode_nfc(const char *text, size_t size, char **out,
                               size_t *out_size);

#endif
