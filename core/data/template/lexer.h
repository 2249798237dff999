/* SPDX-License-Identifier: Apache-2.0 */
/* A template's text as tokens: what stands between tags, and what stands in them. White
 * space around tags goes as transformers sets Jinja: the line break behind a block goes
 * (trim_blocks), and the blanks before one that begins a line (lstrip_blocks). */
#ifndef CADRE_DATA_TEMPLATE_LEXER_H
#define CADRE_DATA_TEMPLATE_LEXER_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

enum cadre_token_kind {
    CADRE_TOKEN_TEXT, /* outside of tags */
    CADRE_TOKEN_PRINT, /* {{ */
    CADRE_TOKEN_PRINT_END,
    CADRE_TOKEN_BLOCK, /* {% */
    CADRE_TOKEN_BLOCK_END,
    CADRE_TOKEN_NAME,
    CADRE_TOKEN_STRING, /* without its quotes, escapes resolved */
    CADRE_TOKEN_INTEGER,
    CADRE_TOKEN_OPERATOR,
    CADRE_TOKEN_END, /* of the template */
};

struct cadre_token {
    enum cadre_token_kind kind;
    int line; /* from 1 */
    const char *text; /* (size), of the tokens' source */
    size_t size;
    int64_t value; /* of an integer */
};

struct cadre_tokens {
    char *source; /* owned; strings are resolved in it */
    size_t size;
    struct cadre_token *token; /* (count), owned; the last is END */
    size_t count, capacity;
};

/* Cut text[0, size). The caller frees with cadre_tokens_fini, also after a failure.
 * [any thread] Errors: CADRE_E_INVALID what Jinja does not read, CADRE_E_UNSUPPORTED
 * what is not read here, each with its line; CADRE_E_RESOURCE. */
cadre_status cadre_tokens_init(const char *text, size_t size, struct cadre_tokens *out,
                               struct cadre_error *err);

/* Safe on zeroed tokens. */
void cadre_tokens_fini(struct cadre_tokens *tokens);

#endif
