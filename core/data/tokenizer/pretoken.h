/* SPDX-License-Identifier: Apache-2.0 */
/* The patterns that divide a text into words before byte-level BPE. Those of GPT-2,
 * Llama 3 and Qwen2 are known, each by its exact text, and matched by hand. */
#ifndef CADRE_DATA_TOKENIZER_PRETOKEN_H
#define CADRE_DATA_TOKENIZER_PRETOKEN_H

#include <stddef.h>

enum cadre_pretoken {
    CADRE_PRETOKEN_GPT2,
    CADRE_PRETOKEN_LLAMA3, /* numbers by threes, contractions in any case */
    CADRE_PRETOKEN_QWEN2, /* numbers by digits, contractions in any case */
    CADRE_PRETOKEN_UNKNOWN,
};

/* Which of them a regular expression is, CADRE_PRETOKEN_UNKNOWN for another. */
enum cadre_pretoken cadre_pretoken_of(const char *pattern);

/* The end of the word that begins at `at` < size of a text of valid UTF-8. [any thread]
 * Source: the patterns in tokenizer.json of openai-community/gpt2,
 * meta-llama/Meta-Llama-3-8B, Qwen/Qwen2-7B. */
size_t cadre_pretoken_end(enum cadre_pretoken pattern, const char *text, size_t size,
                          size_t at);

#endif
