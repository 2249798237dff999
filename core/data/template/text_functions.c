/* SPDX-License-Identifier: Apache-2.0 */
/* What filters and methods do to texts. */
#include <string.h>

#include "core/data/template/characters.h"
#include "core/data/template/evaluation.h"
#include "core/data/template/value.h"

/* Bytes of the character at `at` where it is one to be trimmed. */
static size_t trimmed(const char *text, size_t size, size_t at, const json_t *chars)
{
    if (!chars)
        return cadre_characters_space(text, size, at);
    const size_t n = cadre_characters_offset(text + at, size - at, 1);
    const size_t all = json_string_length(chars);
    return cadre_value_find(json_string_value(chars), all, 0, text + at, n) < all ? n
                                                                                  : 0;
}

cadre_status cadre_template_trim(struct cadre_evaluation *e, const json_t *text,
                                 const json_t *chars, bool left, bool right, int line,
                                 json_t **out)
{
    CADRE_TRY(cadre_evaluation_need_text(e, text, line, "trim"));
    if (json_is_null(chars))
        chars = NULL;
    if (chars)
        CADRE_TRY(cadre_evaluation_need_text(e, chars, line, "trim"));
    const char *bytes = json_string_value(text);
    size_t from = 0, to = json_string_length(text);
    while (left && from < to) {
        const size_t n = trimmed(bytes, to, from, chars);
        if (n == 0)
            break;
        from += n;
    }
    while (right && to > from) {
        size_t at = to - 1;
        while (at > from && ((unsigned char)bytes[at] & 0xc0u) == 0x80u)
            at--;
        if (trimmed(bytes, to, at, chars) == 0)
            break;
        to = at;
    }
    return cadre_evaluation_give(e, json_stringn(bytes + from, to - from), line, out);
}

cadre_status cadre_template_replace(struct cadre_evaluation *e, const json_t *text,
                                    const json_t *from, const json_t *to, int64_t most,
                                    int line, json_t **out)
{
    struct cadre_text made = {0};
    CADRE_TRY(cadre_evaluation_need_text(e, text, line, "replace"));
    CADRE_TRY(cadre_evaluation_need_text(e, from, line, "replace"));
    CADRE_TRY(cadre_evaluation_need_text(e, to, line, "replace"));
    const char *bytes = json_string_value(text);
    const size_t size = json_string_length(text), n = json_string_length(from);
    const size_t added = json_string_length(to);
    cadre_status rc = CADRE_OK;
    if (n == 0)
        return cadre_evaluation_unsupported(e, line, "replace of an empty text", NULL);
    size_t at = 0;
    for (size_t found = 0; rc == CADRE_OK && most != 0; at = found + n, most--) {
        found = cadre_value_find(bytes, size, at, json_string_value(from), n);
        if (found >= size)
            break;
        cadre_text_append(&made, bytes + at, found - at);
        cadre_text_append(&made, json_string_value(to), added);
        rc = cadre_evaluation_spend(
            e, 1 + (int64_t)(added / CADRE_EVALUATION_STEP_BYTES), line);
    }
    if (rc != CADRE_OK) {
        cadre_text_fini(&made);
        return rc;
    }
    cadre_text_append(&made, bytes + at, size - at);
    return cadre_evaluation_give_text(e, &made, line, out);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Jinja's title begins words behind blanks, hyphens and opening brackets. */
static bool begins_word(char before)
{
    return (before && strchr("-({[<", before)) ||
           cadre_characters_space(&before, 1, 0) > 0;
}

cadre_status cadre_template_case(struct cadre_evaluation *e, const json_t *text,
                                 char how, int line, json_t **out)
{
    struct cadre_text made = {0};
    CADRE_TRY(cadre_evaluation_need_text(e, text, line, "a text's case"));
    const char *bytes = json_string_value(text);
    const size_t size = json_string_length(text);
    if (!cadre_characters_ascii(bytes, size))
        return cadre_evaluation_unsupported(
            e, line, "the case of a text with letters outside of ASCII", NULL);
    cadre_text_append(&made, bytes, size);
    for (size_t i = 0; !made.failed && i < size; i++) {
        const bool first = i == 0 || (how == 't' && begins_word(bytes[i - 1]));
        const bool upper = how == 'u' || (how != 'l' && first);
        if (is_letter(bytes[i]))
            made.data[i] = (char)(upper ? bytes[i] & ~0x20 : bytes[i] | 0x20);
    }
    return cadre_evaluation_give_text(e, &made, line, out);
}

static bool push(json_t *list, const char *text, size_t size)
{
    return json_array_append_new(list, json_stringn(text, size)) == 0;
}

/* Words between white space, without empty ones. */
static bool split_words(const char *text, size_t size, int64_t most, json_t *list)
{
    size_t at = cadre_characters_skip_space(text, size, 0);
    while (at < size) {
        size_t end = at;
        while (end < size && most != 0 && cadre_characters_space(text, size, end) == 0)
            end++;
        if (most == 0)
            end = size;
        if (!push(list, text + at, end - at))
            return false;
        most--;
        at = cadre_characters_skip_space(text, size, end);
    }
    return true;
}

static bool split_by(const char *text, size_t size, const json_t *by, int64_t most,
                     json_t *list)
{
    const size_t n = json_string_length(by);
    size_t at = 0;
    for (;;) {
        const size_t found =
            most != 0 ? cadre_value_find(text, size, at, json_string_value(by), n)
                      : size;
        if (!push(list, text + at, found - at))
            return false;
        if (found >= size)
            return true;
        at = found + n;
        most--;
    }
}

cadre_status cadre_template_split(struct cadre_evaluation *e, const json_t *text,
                                  const json_t *by, int64_t most, int line,
                                  json_t **out)
{
    CADRE_TRY(cadre_evaluation_need_text(e, text, line, "split"));
    const size_t size = json_string_length(text);
    CADRE_TRY(cadre_evaluation_spend(e, (int64_t)size, line));
    if (by && !json_is_null(by)) {
        CADRE_TRY(cadre_evaluation_need_text(e, by, line, "split"));
        if (json_string_length(by) == 0)
            return cadre_evaluation_fail(e, line, "split: by an empty text");
    }
    json_t *list = json_array();
    const bool words = !by || json_is_null(by);
    const bool made =
        list && (words ? split_words(json_string_value(text), size, most, list)
                       : split_by(json_string_value(text), size, by, most, list));
    if (!made) {
        json_decref(list);
        list = NULL;
    }
    return cadre_evaluation_give(e, list, line, out);
}

cadre_status cadre_template_join(struct cadre_evaluation *e, const json_t *parts,
                                 const json_t *between, int line, json_t **out)
{
    struct cadre_text made = {0};
    json_t *list = NULL;
    if (between)
        CADRE_TRY(cadre_evaluation_need_text(e, between, line, "join"));
    CADRE_TRY(cadre_evaluation_iterate(e, parts, line, &list));
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; rc == CADRE_OK && i < json_array_size(list); i++) {
        const size_t before = made.len;
        if (i > 0 && between)
            cadre_value_print(between, &made);
        if (!cadre_value_print(json_array_get(list, i), &made))
            rc = cadre_evaluation_unsupported(
                e, line, "join of", cadre_value_type(json_array_get(list, i)));
        else
            rc = cadre_evaluation_spend(
                e, 1 + (int64_t)((made.len - before) / CADRE_EVALUATION_STEP_BYTES),
                line);
    }
    json_decref(list);
    if (rc == CADRE_OK)
        return cadre_evaluation_give_text(e, &made, line, out);
    cadre_text_fini(&made);
    return rc;
}
