/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/tokenizer/unicode.h"

#include <stdlib.h>

#include "core/base/memory.h"
#include "core/data/tokenizer/unicode_table.h"

/* Hangul syllables are their parts by arithmetic: chapter 3.12 of the standard. */
enum {
    HANGUL = 0xac00,
    LEAD = 0x1100,
    VOWEL = 0x1161,
    TAIL = 0x11a7,
    LEADS = 19,
    VOWELS = 21,
    TAILS = 28,
    SYLLABLES = LEADS * VOWELS * TAILS,
    FIRST_MARK = 0x300, /* below it every character is in NFC beside any other */
    PARTS_MAX = 4, /* of one character, decomposed */
};

uint32_t cadre_unicode_read(const char *text, size_t size, size_t *bytes)
{
    const unsigned char *s = (const unsigned char *)text;
    const size_t n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    uint32_t code = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n && i < size; i++)
        code = code << 6 | (s[i] & 0x3fu);
    *bytes = n < size ? n : size;
    return code;
}

size_t cadre_unicode_write(uint32_t code, char out[4])
{
    static const unsigned char lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    const size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(lead[n] | code);
    return n;
}

static const struct cadre_unicode_range *find(const struct cadre_unicode_range *range,
                                              size_t n, uint32_t code)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (range[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && range[low].first <= code ? &range[low] : NULL;
}

bool cadre_unicode_is_letter(uint32_t code)
{
    if (code < 0x80)
        return (code | 0x20) >= 'a' && (code | 0x20) <= 'z';
    return find(cadre_unicode_letters, cadre_unicode_n_letters, code) != NULL;
}

bool cadre_unicode_is_number(uint32_t code)
{
    if (code < 0x80)
        return code >= '0' && code <= '9';
    return find(cadre_unicode_numbers, cadre_unicode_n_numbers, code) != NULL;
}

bool cadre_unicode_is_space(uint32_t code)
{
    return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xa0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

/* ---- NFC ---- */

static uint32_t class_of(uint32_t code)
{
    const struct cadre_unicode_range *range =
        find(cadre_unicode_marks, cadre_unicode_n_marks, code);
    return range ? range->value : 0;
}

static const struct cadre_unicode_pair *pair_of(uint32_t code)
{
    size_t low = 0, high = cadre_unicode_n_pairs;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (cadre_unicode_pairs[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < cadre_unicode_n_pairs && cadre_unicode_pairs[low].code == code
               ? &cadre_unicode_pairs[low]
               : NULL;
}

/* The parts of a character, in order; returns how many. */
static size_t decompose(uint32_t code, uint32_t parts[PARTS_MAX])
{
    if (code >= HANGUL && code < HANGUL + SYLLABLES) {
        const uint32_t at = code - HANGUL;
        parts[0] = LEAD + at / (VOWELS * TAILS);
        parts[1] = VOWEL + at % (VOWELS * TAILS) / TAILS;
        parts[2] = TAIL + at % TAILS;
        return at % TAILS ? 3 : 2;
    }
    uint32_t last[PARTS_MAX];
    size_t n_last = 0, n = 0;
    const struct cadre_unicode_pair *pair = code < 0xc0 ? NULL : pair_of(code);
    for (; pair && n_last < PARTS_MAX - 1; pair = pair_of(code)) {
        if (pair->b)
            last[n_last++] = pair->b;
        code = pair->a;
    }
    parts[n++] = code;
    while (n_last > 0)
        parts[n++] = last[--n_last];
    return n;
}

/* The character that a and b make, or 0. */
static uint32_t compose(uint32_t a, uint32_t b)
{
    if (a >= LEAD && a < LEAD + LEADS && b >= VOWEL && b < VOWEL + VOWELS)
        return HANGUL + ((a - LEAD) * VOWELS + b - VOWEL) * TAILS;
    if (a >= HANGUL && a < HANGUL + SYLLABLES && (a - HANGUL) % TAILS == 0 &&
        b > TAIL && b < TAIL + TAILS)
        return a + b - TAIL;
    size_t low = 0, high = cadre_unicode_n_composed;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct cadre_unicode_pair *pair =
            &cadre_unicode_pairs[cadre_unicode_composed[middle]];
        if (pair->a == a && pair->b == b)
            return pair->code;
        if (pair->a < a || (pair->a == a && pair->b < b))
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

struct letter {
    uint32_t code;
    uint32_t mark; /* combining class */
};

/* Marks in a run stand by their class, those of one class as they were. */
static void order_marks(struct letter *text, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const struct letter one = text[i];
        size_t at = i;
        for (; one.mark && at > 0 && text[at - 1].mark > one.mark; at--)
            text[at] = text[at - 1];
        text[at] = one;
    }
}

/* A mark joins the last starter unless another of its class or above lies between. */
static size_t compose_all(struct letter *text, size_t n)
{
    size_t kept = 0, starter = n;
    for (size_t i = 0; i < n; i++) {
        const bool near = starter < n && kept == starter + 1;
        const bool is_blocked =
            starter == n || (!near && text[kept - 1].mark >= text[i].mark);
        const uint32_t both =
            is_blocked ? 0 : compose(text[starter].code, text[i].code);
        if (both) {
            text[starter].code = both;
            continue;
        }
        if (text[i].mark == 0)
            starter = kept;
        text[kept++] = text[i];
    }
    return kept;
}

static bool is_composed(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) /* U+0300 is cc 80 */
        if ((unsigned char)text[i] >= 0xcc)
            return false;
    return true;
}

cadre_status cadre_unicode_nfc(const char *text, size_t size, char **out,
                               size_t *out_size)
{
    *out = NULL;
    if (is_composed(text, size))
        return CADRE_OK;
    struct letter *letters = cadre_calloc(2 * size + PARTS_MAX, sizeof *letters);
    char *bytes = letters ? cadre_calloc(3 * size + 1, 1) : NULL;
    size_t n = 0, used = 0, step = 0;
    for (size_t at = 0; bytes && at < size; at += step) {
        uint32_t parts[PARTS_MAX];
        const uint32_t code = cadre_unicode_read(text + at, size - at, &step);
        const size_t count = decompose(code, parts);
        for (size_t i = 0; i < count; i++)
            letters[n++] = (struct letter){
                parts[i], parts[i] < FIRST_MARK ? 0 : class_of(parts[i])};
    }
    order_marks(letters, bytes ? n : 0);
    n = bytes ? compose_all(letters, n) : 0;
    for (size_t i = 0; i < n; i++)
        used += cadre_unicode_write(letters[i].code, bytes + used);
    free(letters);
    if (!bytes)
        return CADRE_E_RESOURCE;
    *out = bytes;
    *out_size = used;
    return CADRE_OK;
}
