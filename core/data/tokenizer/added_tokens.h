/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens that a text holds as they are written, as <|im_end|>: found before it is
 * divided into words. */
#ifndef CADRE_DATA_TOKENIZER_ADDED_TOKENS_H
#define CADRE_DATA_TOKENIZER_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

struct cadre_added_token {
    char *text; /* not ended by a zero */
    size_t size;
    int32_t id;
    bool normalized; /* sought in the normalised text, else in the text itself */
    bool takes_left; /* with the blanks before it */
    bool takes_right; /* with the blanks behind it */
};

/* Zero-initialised is empty. */
struct cadre_added_tokens {
    struct cadre_added_token *tokens; /* (count), the longest first */
    size_t count;
    size_t capacity;
    bool begins[2][256]; /* [normalized]: some token begins with this byte */
};

/* Add a token, whose text is copied. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_added_tokens_add(struct cadre_added_tokens *added,
                                    const struct cadre_added_token *token);
void cadre_added_tokens_fini(struct cadre_added_tokens *added);

struct cadre_added_match {
    size_t begin, end; /* of the token and the blanks that it takes */
    int32_t id;
};

/* The first of the tokens (`normalized` or not) in text[at, size), the longest of those
 * that begin there; false for none. [any thread] */
bool cadre_added_tokens_next(const struct cadre_added_tokens *added, bool normalized,
                             const char *text, size_t size, size_t at,
                             struct cadre_added_match *match);

/* Whether a text may be divided before a blank that follows a printing character
 * without dividing a token or what it takes. */
bool cadre_added_tokens_can_cut(const struct cadre_added_tokens *added);

#endif
