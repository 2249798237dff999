/* SPDX-License-Identifier: Apache-2.0 */
/* How the files of byte-level BPE spell bytes as printable characters: 188 stand for
 * themselves, the other 68 are U+0100 to U+0143. */
#ifndef CADRE_DATA_TOKENIZER_BYTE_SPELLING_H
#define CADRE_DATA_TOKENIZER_BYTE_SPELLING_H

#include <stdbool.h>
#include <stddef.h>

/* Turn a spelling into its bytes, at most `size` of them; false where a character
 * stands for none. [any thread] Source: encoder.py of openai/gpt-2. */
bool cadre_byte_spelling_read(const char *text, size_t size, char *bytes,
                              size_t *count);

#endif
