/* SPDX-License-Identifier: Apache-2.0 */
/* Source: added_vocabulary.rs of huggingface/tokenizers, find_matches. */
#include "core/data/tokenizer/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/data/tokenizer/unicode.h"

cadre_status cadre_added_tokens_add(struct cadre_added_tokens *added,
                                    const struct cadre_added_token *token)
{
    if (added->count == added->capacity) {
        const size_t capacity = 2 * added->capacity + 16;
        struct cadre_added_token *grown =
            cadre_realloc(added->tokens, capacity, sizeof *grown);
        if (!grown)
            return CADRE_E_RESOURCE;
        added->tokens = grown;
        added->capacity = capacity;
    }
    struct cadre_added_token one = *token;
    one.text = malloc(one.size + 1);
    if (!one.text)
        return CADRE_E_RESOURCE;
    memcpy(one.text, token->text, one.size);
    one.text[one.size] = '\0';
    size_t at = added->count++;
    for (; at > 0 && added->tokens[at - 1].size < one.size; at--)
        added->tokens[at] = added->tokens[at - 1];
    added->tokens[at] = one;
    if (one.size > 0)
        added->begins[one.normalized][(unsigned char)one.text[0]] = true;
    return CADRE_OK;
}

void cadre_added_tokens_fini(struct cadre_added_tokens *added)
{
    for (size_t i = 0; i < added->count; i++)
        free(added->tokens[i].text);
    free(added->tokens);
    memset(added, 0, sizeof *added);
}

static const struct cadre_added_token *token_at(const struct cadre_added_tokens *added,
                                                bool normalized, const char *text,
                                                size_t size)
{
    for (size_t i = 0; i < added->count; i++) {
        const struct cadre_added_token *token = &added->tokens[i];
        if (token->normalized == normalized && token->size <= size && token->size > 0 &&
            memcmp(token->text, text, token->size) == 0)
            return token;
    }
    return NULL;
}

/* Where the blanks that end at `end`, not before `least`, begin. */
static size_t blanks_before(const char *text, size_t least, size_t end)
{
    while (end > least) {
        size_t at = end - 1, bytes = 0;
        while (at > least && ((unsigned char)text[at] & 0xc0) == 0x80)
            at--;
        if (!cadre_unicode_is_space(cadre_unicode_read(text + at, end - at, &bytes)))
            break;
        end = at;
    }
    return end;
}

static size_t blanks_after(const char *text, size_t size, size_t at)
{
    size_t bytes = 0;
    while (at < size &&
           cadre_unicode_is_space(cadre_unicode_read(text + at, size - at, &bytes)))
        at += bytes;
    return at;
}

bool cadre_added_tokens_next(const struct cadre_added_tokens *added, bool normalized,
                             const char *text, size_t size, size_t at,
                             struct cadre_added_match *match)
{
    for (size_t i = at; added->count > 0 && i < size; i++) {
        if (!added->begins[normalized][(unsigned char)text[i]])
            continue;
        const struct cadre_added_token *token =
            token_at(added, normalized, text + i, size - i);
        if (!token)
            continue;
        match->id = token->id;
        match->begin = token->takes_left ? blanks_before(text, at, i) : i;
        match->end = i + token->size;
        if (token->takes_right)
            match->end = blanks_after(text, size, match->end);
        return true;
    }
    return false;
}

bool cadre_added_tokens_can_cut(const struct cadre_added_tokens *added)
{
    for (size_t i = 0; i < added->count; i++)
        if (added->tokens[i].takes_right ||
            (added->tokens[i].size > 1 &&
             memchr(added->tokens[i].text + 1, ' ', added->tokens[i].size - 1)))
            return false;
    return true;
}
