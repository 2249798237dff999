/* SPDX-License-Identifier: Apache-2.0 */
/* Alternatives are tried in the order of the pattern, as a regular expression does. */
#include "core/data/tokenizer/pretoken.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/data/tokenizer/unicode.h"

#define BEFORE_NUMBERS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define AFTER_NUMBERS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

enum cadre_pretoken cadre_pretoken_of(const char *pattern)
{
    static const char *const known[] = {
        [CADRE_PRETOKEN_GPT2] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+"
                                "| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        [CADRE_PRETOKEN_LLAMA3] = BEFORE_NUMBERS "\\p{N}{1,3}" AFTER_NUMBERS,
        [CADRE_PRETOKEN_QWEN2] = BEFORE_NUMBERS "\\p{N}" AFTER_NUMBERS,
    };
    for (int i = 0; i < CADRE_PRETOKEN_UNKNOWN; i++)
        if (strcmp(pattern, known[i]) == 0)
            return (enum cadre_pretoken)i;
    return CADRE_PRETOKEN_UNKNOWN;
}

enum class { LETTER, NUMBER, SPACE, OTHER, END };

struct text {
    const char *bytes;
    size_t size;
};

/* The class of the character at `at`, and where the next one begins. */
static enum class look(const struct text *text, size_t at, size_t *next) {
    size_t bytes = 0; *next = at; if (at >= text->size) return END;
    const uint32_t code = cadre_unicode_read(text->bytes + at, text->size - at, &bytes);
    *next = at + bytes;
    return cadre_unicode_is_letter(code)   ? LETTER
           : cadre_unicode_is_number(code) ? NUMBER
           : cadre_unicode_is_space(code)  ? SPACE
                                           : OTHER;
}

static size_t run_end(const struct text *text, size_t at, enum class class, size_t most)
{
    size_t next = at;
    for (size_t n = 0; n < most && look(text, at, &next) == class; n++)
        at = next;
    return at;
}

static bool is_line_end(const struct text *text, size_t at)
{
    return at < text->size && (text->bytes[at] == '\r' || text->bytes[at] == '\n');
}

/* The bytes of the letter `c` at `at`, 0 where there is another. In any case U+017F,
 * the long s, is an s too. */
static size_t letter_at(const struct text *text, size_t at, char c, bool any_case)
{
    const size_t left = text->size - at;
    if (left > 0 && (text->bytes[at] == c || (any_case && text->bytes[at] == c - 32)))
        return 1;
    return any_case && c == 's' && left > 1 && !memcmp(text->bytes + at, "\xc5\xbf", 2)
               ? 2
               : 0;
}

/* The end of 's, 't, 're, 've, 'm, 'll or 'd at `at`; `at` where there is none. */
static size_t contraction_end(const struct text *text, size_t at, bool any_case)
{
    static const char *const ends[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (text->bytes[at] != '\'')
        return at;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t end = at + 1, bytes = 1;
        for (const char *c = ends[i]; *c && bytes > 0; c++) {
            bytes = end < text->size ? letter_at(text, end, *c, any_case) : 0;
            end += bytes;
        }
        if (bytes > 0)
            return end;
    }
    return at;
}

/* \s+(?!\S)|\s+ : the last blank before a word is the word's. */
static size_t blanks_end(const struct text *text, size_t at)
{
    size_t end = at, last = at, next = at;
    while (look(text, end, &next) == SPACE) {
        last = end;
        end = next;
    }
    return end < text->size && last > at ? last : end;
}

static size_t gpt2_end(const struct text *text, size_t at)
{
    size_t next = at, end = contraction_end(text, at, false);
    if (end > at)
        return end;
    const size_t begin = text->bytes[at] == ' ' ? at + 1 : at;
    const enum class class = look(text, begin, &next);
    if (class != SPACE && class != END)
        return run_end(text, begin, class, SIZE_MAX);
    return blanks_end(text, at);
}

/* \s*[\r\n]+ : blanks up to the last line end among them; `at` where there is none. */
static size_t line_end(const struct text *text, size_t at)
{
    size_t end = at, next = at;
    for (size_t here = at; look(text, here, &next) == SPACE; here = next)
        if (is_line_end(text, here))
            end = next;
    return end;
}

static size_t llama3_end(const struct text *text, size_t at, size_t digits)
{
    size_t next = at, after = at, end = contraction_end(text, at, true);
    if (end > at)
        return end;
    const enum class class = look(text, at, &next);
    if (class == LETTER)
        return run_end(text, at, LETTER, SIZE_MAX);
    if (class == NUMBER)
        return run_end(text, at, NUMBER, digits);
    if (!is_line_end(text, at) && look(text, next, &after) == LETTER)
        return run_end(text, next, LETTER, SIZE_MAX);
    const size_t begin = text->bytes[at] == ' ' ? at + 1 : at;
    if (look(text, begin, &after) == OTHER) {
        end = run_end(text, begin, OTHER, SIZE_MAX);
        while (is_line_end(text, end))
            end++;
        return end;
    }
    end = line_end(text, at);
    return end > at ? end : blanks_end(text, at);
}

size_t cadre_pretoken_end(enum cadre_pretoken pattern, const char *bytes, size_t size,
                          size_t at)
{
    const struct text text = {bytes, size};
    if (pattern == CADRE_PRETOKEN_GPT2)
        return gpt2_end(&text, at);
    return llama3_end(&text, at, pattern == CADRE_PRETOKEN_LLAMA3 ? 3 : 1);
}
