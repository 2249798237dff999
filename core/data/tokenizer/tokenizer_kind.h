/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of tokeniser share; included by tokenizer*.c only. */
#ifndef CADRE_DATA_TOKENIZER_TOKENIZER_KIND_H
#define CADRE_DATA_TOKENIZER_TOKENIZER_KIND_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/data/tokenizer/bpe.h"
#include "core/data/tokenizer/tokenizer.h"
#include "core/data/tokenizer/vocab.h"

enum cadre_tokenizer_kind {
    CADRE_TOKENIZER_BYTE,
    CADRE_TOKENIZER_GPT2,
    CADRE_TOKENIZER_LLAMA2C,
};

/* One merge of GPT-2: (left, right) -> merged; left is -1 in a free slot. */
struct cadre_merge {
    int32_t left;
    int32_t right;
    int32_t rank;
    int32_t merged;
};

struct cadre_tokenizer {
    enum cadre_tokenizer_kind kind;
    struct cadre_vocab vocab;
    int32_t bos;
    char single[256]; /* every byte, for decoding to one of them */
    int32_t byte_ids[256]; /* gpt2: id of each byte, -1 where it has none */
    struct cadre_merge *merges;
    uint32_t merge_mask;
    pcre2_code *pattern;
    float *scores; /* llama2c: (vocab) */
};

/* A list of ids that grows. Zero-initialised is empty; ids freed by the owner. */
struct cadre_ids {
    int32_t *ids;
    size_t count;
    size_t capacity;
};

cadre_status cadre_ids_append(struct cadre_ids *list, const int32_t *ids, size_t count);

/* Fill a zeroed tokeniser; what was built before a failure is the caller's to close. */
cadre_status cadre_tokenizer_load_gpt2(struct cadre_tokenizer *tok, const char *folder,
                                       struct cadre_error *err);
cadre_status cadre_tokenizer_load_llama2c(struct cadre_tokenizer *tok, const char *path,
                                          struct cadre_error *err);

/* Append the ids of a text that is known to be UTF-8. */
cadre_status cadre_tokenizer_encode_gpt2(const struct cadre_tokenizer *tok,
                                         const char *text, size_t size,
                                         struct cadre_ids *list,
                                         struct cadre_error *err);
cadre_status cadre_tokenizer_encode_llama2c(const struct cadre_tokenizer *tok,
                                            const char *text, size_t size,
                                            struct cadre_ids *list,
                                            struct cadre_error *err);

#endif
