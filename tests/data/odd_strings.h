/* SPDX-License-Identifier: Apache-2.0 */
/* The odd strings of tests/samples/tokenizers, and what reference implementations make
 * of them: the same ids, and the same text back. */
#ifndef CADRE_TESTS_DATA_ODD_STRINGS_H
#define CADRE_TESTS_DATA_ODD_STRINGS_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/tokenizer/tokenizer.h"
#include "tests/support/check_main.h"

static inline json_t *odd_load(const char *path)
{
    json_error_t why;
    json_t *root = json_load_file(test_sample(path), JSON_ALLOW_NUL, &why);
    ck_assert_msg(root != NULL, "%s: %s", path, why.text);
    return root;
}

static inline struct cadre_tokenizer *odd_open(const char *path)
{
    struct cadre_tokenizer *tok = NULL;
    struct cadre_error err = {0};
    ck_assert_msg(cadre_tokenizer_open(path, &tok, &err) == CADRE_OK, "%s", err.text);
    return tok;
}

/* Decode, as `generate` does; the caller frees. */
static inline char *odd_decode(const struct cadre_tokenizer *tok, const int32_t *ids,
                               size_t count, size_t *size)
{
    char *text = malloc(64 * count + 64);
    *size = 0;
    for (size_t i = 0; i < count; i++) {
        const char *bytes = NULL;
        size_t n = 0;
        /* -2: BOS inside of a text, as the references have it, starts nothing anew */
        const int32_t previous = i == 0 ? -1 : ids[i - 1];
        const int32_t bos = cadre_tokenizer_bos(tok);
        ck_assert_int_eq(
            cadre_tokenizer_decode(tok, i > 0 && previous == bos ? INT32_MAX : previous,
                                   ids[i], &bytes, &n),
            CADRE_OK);
        ck_assert_uint_lt(n, 64);
        memcpy(text + *size, bytes, n);
        *size += n;
    }
    return text;
}

static inline void odd_show(char *out, size_t room, const int32_t *ids, size_t count)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count && at < room; i++)
        at += (size_t)snprintf(out + at, room - at, "%s%d", i ? " " : "", ids[i]);
}

/* Check the tokenizer tests/samples/tokenizers/NAME. */
static inline void odd_strings_check(const char *name, bool drops_blanks)
{
    char path[256], got[4096];
    snprintf(path, sizeof path, "tokenizers/%s/text.json", name);
    json_t *texts = odd_load(path), *strings = odd_load("tokenizers/strings.json");
    snprintf(path, sizeof path, "tokenizers/%s/ids", name);
    char *ids_text = test_file_read(test_sample(path), NULL), *line = ids_text;
    snprintf(path, sizeof path, "tokenizers/%s", name);
    struct cadre_tokenizer *tok = odd_open(test_sample(path));
    ck_assert_uint_ge(json_array_size(strings), 300);
    for (size_t i = 0; i < json_array_size(strings); i++) {
        const json_t *string = json_array_get(strings, i);
        const char *text = json_string_value(string);
        struct cadre_error err = {0};
        int32_t *ids = NULL;
        size_t count = 0, back = 0;
        char key[24];
        ck_assert_msg(cadre_tokenizer_encode(tok, text, json_string_length(string),
                                             &ids, &count, &err) == CADRE_OK,
                      "string %zu: %s", i, err.text);
        odd_show(got, sizeof got, ids, count);
        const size_t n = strcspn(line, "\n");
        ck_assert_msg(strlen(got) == n && memcmp(got, line, n) == 0,
                      "%s: string %zu: expected %.*s, found %s", name, i, (int)n, line,
                      got);
        line += n + (line[n] == '\n');
        snprintf(key, sizeof key, "%zu", i);
        const json_t *other = json_object_get(texts, key);
        const json_t *want = other ? other : string;
        char *all = odd_decode(tok, ids, count, &back), *again = all;
        /* sentencepiece drops all leading blanks where it collapses runs of them;
         * those left are U+2581 of the string itself */
        while (drops_blanks && back > json_string_length(want) && *again == ' ') {
            again++;
            back--;
        }
        ck_assert_msg(back == json_string_length(want) &&
                          memcmp(again, json_string_value(want), back) == 0,
                      "%s: string %zu: expected \"%s\", found \"%.*s\"", name, i,
                      json_string_value(want), (int)back, again);
        free(all);
        free(ids);
    }
    cadre_tokenizer_close(tok);
    json_decref(texts);
    json_decref(strings);
    free(ids_text);
}

#endif
