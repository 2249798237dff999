/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2's byte-level BPE. A pattern splits a text into words with their blank
 * before them; each word's bytes are merged by rank; words seen before are taken from a
 * cache. Source: encoder.py of openai/gpt-2. */
#include "core/data/tokenizer/tokenizer_kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/data/cache/mapping.h"
#include "core/data/tokenizer/byte_spelling.h"
#include "core/data/tokenizer/id_map.h"
#include "core/data/tokenizer/words.h"

enum {
    FILE_BYTES_MAX = 1 << 28,
    WORD_BYTES_MAX = 4096, /* of a vocabulary entry */
};

/* White_Space as the pattern's \s means it; PCRE2's own takes U+180E too. */
#define WS                                                                             \
    "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"         \
    "\\x{202f}\\x{205f}\\x{3000}"
static const char pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+"
    "| ?[^" WS "\\p{L}\\p{N}]+|[" WS "]+(?![^" WS "])|[" WS "]+";

static cadre_status add_entry(struct cadre_tokenizer *tok, const char *key, size_t size,
                              int64_t id, const char *path, struct cadre_error *err)
{
    static const char end_of_text[] = "<|endoftext|>";
    const int shown = size < 40 ? (int)size : 40;
    char bytes[WORD_BYTES_MAX];
    size_t count = 0;
    if (id >= tok->vocab.count)
        return cadre_fail(err, CADRE_E_INVALID,
                          "\"%s\": \"%.*s\": expected an id of 0 to %d, found %lld",
                          path, shown, key, tok->vocab.count - 1, (long long)id);
    if (size == 0 || size > WORD_BYTES_MAX ||
        !cadre_byte_spelling_read(key, size, bytes, &count))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "\"%s\": id %lld: \"%.*s\" does not spell bytes as GPT-2 does: this is the "
            "vocabulary of another kind of tokenizer; name its tokenizer.json or "
            "tokenizer.model",
            path, (long long)id, shown, key);
    if (cadre_vocab_find(&tok->vocab, bytes, count) >= 0)
        return cadre_fail(err, CADRE_E_INVALID, "\"%s\": \"%.*s\" is a duplicate", path,
                          shown, key);
    cadre_status rc = cadre_vocab_set(&tok->vocab, (int32_t)id, bytes, count);
    if (rc == CADRE_E_INVALID)
        cadre_fail(err, rc, "\"%s\": id %lld is given twice", path, (long long)id);
    if (rc == CADRE_OK && size == sizeof end_of_text - 1 &&
        memcmp(key, end_of_text, size) == 0)
        tok->bos = tok->eos = (int32_t)id;
    return rc;
}

static cadre_status load_vocab(struct cadre_tokenizer *tok, const char *path,
                               struct cadre_error *err)
{
    struct cadre_id_map map = {0};
    char *text = NULL;
    size_t size = 0;
    cadre_status rc;
    CADRE_TRY_OR(cadre_mapping_read(path, FILE_BYTES_MAX, &text, &size, err), fail);
    CADRE_TRY_OR(cadre_id_map_read(&map, text, size, path, err), fail);
    if (map.count == 0 || map.count > CADRE_VOCAB_MAX) {
        rc = cadre_fail(
            err, CADRE_E_INVALID,
            "\"%s\": expected an object of tokens and ids, found %zu entries", path,
            map.count);
        goto fail;
    }
    CADRE_TRY_OR(cadre_vocab_init(&tok->vocab, (int32_t)map.count), fail);
    for (size_t i = 0; i < map.count; i++)
        CADRE_TRY_OR(add_entry(tok, map.keys + map.entries[i].at, map.entries[i].size,
                               map.entries[i].id, path, err),
                     fail);
    for (int b = 0; b < 256; b++)
        tok->byte_ids[b] = cadre_vocab_find(&tok->vocab, &tok->single[b], 1);
fail:
    cadre_id_map_fini(&map);
    free(text);
    return rc;
}

/* One line "left right" of the merges. */
static cadre_status add_merge(struct cadre_tokenizer *tok, const char *line,
                              size_t size, int32_t rank, const char *path,
                              struct cadre_error *err)
{
    const char *blank = memchr(line, ' ', size);
    char bytes[2 * WORD_BYTES_MAX];
    size_t left = 0, right = 0;
    struct cadre_merge merge = {.rank = rank};
    bool good = blank && size <= WORD_BYTES_MAX &&
                cadre_byte_spelling_read(line, (size_t)(blank - line), bytes, &left) &&
                cadre_byte_spelling_read(blank + 1, size - (size_t)(blank - line) - 1,
                                         bytes + left, &right);
    if (good) {
        merge.left = cadre_vocab_find(&tok->vocab, bytes, left);
        merge.right = cadre_vocab_find(&tok->vocab, bytes + left, right);
        merge.merged = cadre_vocab_find(&tok->vocab, bytes, left + right);
        good = merge.left >= 0 && merge.right >= 0 && merge.merged >= 0;
    }
    if (!good)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "\"%s\": merge %d: expected two tokens of the vocabulary whose "
            "union is one, found \"%.*s\"",
            path, rank + 1, (int)(size < 60 ? size : 60), line);
    struct cadre_merge *slot = cadre_merges_slot(&tok->merges, merge.left, merge.right);
    if (slot->left < 0)
        *slot = merge;
    return CADRE_OK;
}

static cadre_status add_merges(struct cadre_tokenizer *tok, const char *text,
                               size_t size, const char *path, struct cadre_error *err)
{
    size_t lines = 0;
    int32_t rank = 0;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    CADRE_TRY(cadre_merges_init(&tok->merges, lines));
    for (size_t at = 0, end = 0; at < size; at = end + 1) {
        const char *stop = memchr(text + at, '\n', size - at);
        end = stop ? (size_t)(stop - text) : size;
        size_t bytes = end - at;
        bytes -= bytes > 0 && text[at + bytes - 1] == '\r';
        if (bytes == 0 || (at == 0 && bytes >= 8 && memcmp(text, "#version", 8) == 0))
            continue;
        CADRE_TRY(add_merge(tok, text + at, bytes, rank++, path, err));
    }
    return CADRE_OK;
}

static cadre_status compile_pattern(struct cadre_tokenizer *tok,
                                    struct cadre_error *err)
{
    int code = 0;
    PCRE2_SIZE at = 0;
    tok->pattern = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                 PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
    if (!tok->pattern)
        return cadre_fail(err, CADRE_E_INTERNAL, "pattern: PCRE2 error %d at %zu", code,
                          at);
    pcre2_jit_compile(tok->pattern,
                      PCRE2_JIT_COMPLETE); /* optional: only speed depends on it */
    return CADRE_OK;
}

/* The first of two names that exists in the folder; the first if none does. */
static void pick_file(char *path, size_t size, const char *folder, const char *first,
                      const char *second)
{
    snprintf(path, size, "%s/%s", folder, second);
    if (access(path, R_OK) != 0)
        snprintf(path, size, "%s/%s", folder, first);
}

cadre_status cadre_tokenizer_load_gpt2(struct cadre_tokenizer *tok, const char *folder,
                                       struct cadre_error *err)
{
    char path[4096];
    char *text = NULL;
    size_t size = 0;
    cadre_status rc;
    tok->kind = CADRE_TOKENIZER_GPT2;
    CADRE_TRY_OR(compile_pattern(tok, err), fail);
    pick_file(path, sizeof path, folder, "encoder.json", "vocab.json");
    CADRE_TRY_OR(load_vocab(tok, path, err), fail);
    pick_file(path, sizeof path, folder, "vocab.bpe", "merges.txt");
    CADRE_TRY_OR(cadre_mapping_read(path, FILE_BYTES_MAX, &text, &size, err), fail);
    CADRE_TRY_OR(add_merges(tok, text, size, path, err), fail);
    tok->frame.before[0] = tok->bos;
    tok->frame.n_before = tok->bos >= 0;
fail:
    free(text);
    if (rc == CADRE_E_RESOURCE)
        cadre_fail(err, rc, "\"%s\": no memory for the tokeniser", folder);
    return rc;
}

cadre_status cadre_tokenizer_encode_gpt2(const struct cadre_tokenizer *tok,
                                         const char *text, size_t size,
                                         struct cadre_ids *list,
                                         struct cadre_error *err)
{
    struct cadre_words words = {
        .tok = tok,
        .text = text,
        .size = size,
        .list = list,
        .err = err,
        .rule = {cadre_merges_find, &tok->merges},
        .split = cadre_words_split_bytes,
    };
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    cadre_status rc = CADRE_OK;
    if (!match)
        rc = CADRE_E_RESOURCE;
    for (size_t at = 0; at < size && rc == CADRE_OK;) {
        int found = pcre2_match(tok->pattern, (PCRE2_SPTR)text, size, at,
                                PCRE2_NO_UTF_CHECK, match, NULL);
        if (found < 0) {
            rc = cadre_fail(err, CADRE_E_INTERNAL,
                            "byte %zu of the text: PCRE2 error %d", at, found);
            break;
        }
        const PCRE2_SIZE *span = pcre2_get_ovector_pointer(match);
        rc = cadre_words_add(&words, span[0], span[1] - span[0]);
        at = span[1];
    }
    pcre2_match_data_free(match);
    cadre_words_fini(&words);
    return rc;
}
