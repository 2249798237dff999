/* SPDX-License-Identifier: Apache-2.0 */
/* A text encoded word by word: each word's ids are merged for themselves, and words
 * seen before are taken from a cache. Included by tokenizer*.c only. */
#ifndef CADRE_DATA_TOKENIZER_WORDS_H
#define CADRE_DATA_TOKENIZER_WORDS_H

#include "core/data/tokenizer/tokenizer_kind.h"

struct cadre_word_slot;

/* The caller fills the first part; the rest is zero at first. */
struct cadre_words {
    const struct cadre_tokenizer *tok;
    const char *text;
    size_t size;
    struct cadre_ids *list; /* what ids are appended to */
    struct cadre_error *err;
    struct cadre_bpe_rule rule;
    /* Append the ids of text[at, at + bytes) before any merge. */
    cadre_status (*split)(struct cadre_words *words, size_t at, size_t bytes);

    struct cadre_bpe_scratch scratch;
    struct cadre_word_slot *cache;
    size_t cached;
    bool is_small; /* too small a text for a cache */
};

/* Append the ids of the word text[at, at + bytes). Errors: those of split,
 * CADRE_E_RESOURCE. */
cadre_status cadre_words_add(struct cadre_words *words, size_t at, size_t bytes);

/* A split into single bytes, by byte_ids. Errors: CADRE_E_INVALID names a byte without
 * an id. */
cadre_status cadre_words_split_bytes(struct cadre_words *words, size_t at,
                                     size_t bytes);

void cadre_words_fini(struct cadre_words *words);

#endif
