/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/template/characters.h"

#include "core/base/utf8.h"

static uint32_t decode(const char *text, size_t bytes)
{
    const unsigned char *s = (const unsigned char *)text;
    if (bytes == 1)
        return s[0];
    uint32_t point = s[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++)
        point = point << 6 | (s[i] & 0x3fu);
    return point;
}

static bool is_space(uint32_t point)
{
    return (point >= 0x09 && point <= 0x0d) || (point >= 0x1c && point <= 0x20) ||
           point == 0x85 || point == 0xa0 || point == 0x1680 ||
           (point >= 0x2000 && point <= 0x200a) || point == 0x2028 || point == 0x2029 ||
           point == 0x202f || point == 0x205f || point == 0x3000;
}

size_t cadre_characters_space(const char *text, size_t size, size_t at)
{
    const size_t bytes = at < size ? cadre_utf8_char(text + at, size - at) : 0;
    return bytes > 0 && is_space(decode(text + at, bytes)) ? bytes : 0;
}

size_t cadre_characters_skip_space(const char *text, size_t size, size_t at)
{
    for (;;) {
        const size_t bytes = cadre_characters_space(text, size, at);
        if (bytes == 0)
            return at;
        at += bytes;
    }
}

size_t cadre_characters_trim_end(const char *text, size_t size)
{
    while (size > 0) {
        size_t at = size - 1;
        while (at > 0 && ((unsigned char)text[at] & 0xc0u) == 0x80u)
            at--;
        if (cadre_characters_space(text, size, at) == 0)
            return size;
        size = at;
    }
    return size;
}

int64_t cadre_characters_count(const char *text, size_t size)
{
    int64_t n = 0;
    for (size_t i = 0; i < size; i++)
        n += ((unsigned char)text[i] & 0xc0u) != 0x80u;
    return n;
}

size_t cadre_characters_offset(const char *text, size_t size, int64_t index)
{
    for (size_t i = 0; i < size; i++)
        if (((unsigned char)text[i] & 0xc0u) != 0x80u && index-- == 0)
            return i;
    return size;
}

bool cadre_characters_ascii(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] >= 0x80u)
            return false;
    return true;
}
