/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of unicode.c, sorted by code point; included by unicode*.c only. */
#ifndef CADRE_DATA_TOKENIZER_UNICODE_TABLE_H
#define CADRE_DATA_TOKENIZER_UNICODE_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct cadre_unicode_range {
    uint32_t first;
    uint32_t last;
    uint32_t value; /* combining class; 0 where the range is a class of characters */
};

/* A character and what it is made of; b = 0: of a alone. Hangul is computed. */
struct cadre_unicode_pair {
    uint32_t code;
    uint32_t a;
    uint32_t b;
};

extern const struct cadre_unicode_range cadre_unicode_letters[];
extern const size_t cadre_unicode_n_letters;
extern const struct cadre_unicode_range cadre_unicode_numbers[];
extern const size_t cadre_unicode_n_numbers;
extern const struct cadre_unicode_range cadre_unicode_marks[]; /* class not 0 */
extern const size_t cadre_unicode_n_marks;
extern const struct cadre_unicode_pair cadre_unicode_pairs[];
extern const size_t cadre_unicode_n_pairs;

/* Indices of pairs that compose, sorted by a, then b. */
extern const uint16_t cadre_unicode_composed[];
extern const size_t cadre_unicode_n_composed;

#endif
