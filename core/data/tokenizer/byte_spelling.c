/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/tokenizer/byte_spelling.h"

#include <stdint.h>

/* The byte that a character of the files stands for, or -1. */
static int byte_of_char(uint32_t c)
{
    if ((c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255))
        return (int)c;
    if (c < 256 || c > 323)
        return -1;
    c -= 256; /* the 68 others in order: 0 to 32, 127 to 160, 173 */
    return c < 33 ? (int)c : c < 67 ? (int)c - 33 + 127 : 173;
}

bool cadre_byte_spelling_read(const char *text, size_t size, char *bytes, size_t *count)
{
    size_t n = 0;
    for (size_t at = 0; at < size; n++) {
        uint32_t c = (unsigned char)text[at++];
        if (c >= 0xc0 && c < 0xe0 && at < size)
            c = (c & 0x1f) << 6 | ((unsigned char)text[at++] & 0x3f);
        else if (c >= 0x80)
            return false;
        int byte = byte_of_char(c);
        if (byte < 0)
            return false;
        bytes[n] = (char)byte;
    }
    *count = n;
    return true;
}
