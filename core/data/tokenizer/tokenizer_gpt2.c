/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2's byte-level BPE. A pattern splits a text into words with their blank
 * before them; each word's bytes are merged by rank; words seen before are taken from a
 * cache. The files spell bytes as printable characters: 188 stand for themselves, the
 * other 68 are U+0100 to U+0143. Source: encoder.py of openai/gpt-2. */
#include "core/data/tokenizer/tokenizer_kind.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/data/cache/mapping.h"

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

/* The byte that a character of the files stands for, or -1. */
static int byte_of_char(uint32_t c)
{
    if ((c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255))
        return (int)c;
    if (c < 256 || c > 323)
        return -1;
    c -= 256; /* the 68 others in order: 0 to 32, 127 to 160, 173 */
    return c < 33 ? (int)c : c < 67 ? (int)c - 33 + 127 : 173;
}

/* Turn a spelling into its bytes; false where a character stands for none. */
static bool spell_bytes(const char *text, size_t size, char *bytes, size_t *count)
{
    size_t n = 0;
    for (size_t at = 0; at < size; n++) {
        uint32_t c = (unsigned char)text[at++];
        if (c >= 0xc0 && c < 0xe0 && at < size)
            c = (c & 0x1f) << 6 | ((unsigned char)text[at++] & 0x3f);
        else if (c >= 0x80)
            return false;
        int byte = byte_of_char(c);
        if (byte < 0)
            return false;
        bytes[n] = (char)byte;
    }
    *count = n;
    return true;
}

static cadre_status add_entry(struct cadre_tokenizer *tok, const char *key,
                              const json_t *value, const char *path,
                              struct cadre_error *err)
{
    static const char end_of_text[] = "<|endoftext|>";
    size_t size = strlen(key), count = 0;
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (id < 0 || id >= tok->vocab.count)
        return cadre_fail(err, CADRE_E_INVALID,
                          "\"%s\": \"%.40s\": expected an id of 0 to %d, found %lld",
                          path, key, tok->vocab.count - 1, (long long)id);
    char *bytes = malloc(size + 1);
    if (!bytes)
        return CADRE_E_RESOURCE;
    cadre_status rc;
    if (size == 0 || size > WORD_BYTES_MAX || !spell_bytes(key, size, bytes, &count)) {
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "\"%s\": id %lld: \"%.40s\" does not spell bytes as GPT-2 does",
                        path, (long long)id, key);
    } else {
        rc = cadre_vocab_set(&tok->vocab, (int32_t)id, bytes, count);
        if (rc == CADRE_E_INVALID)
            cadre_fail(err, rc, "\"%s\": id %lld is given twice", path, (long long)id);
    }
    free(bytes);
    if (rc == CADRE_OK && strcmp(key, end_of_text) == 0)
        tok->bos = (int32_t)id;
    return rc;
}

static cadre_status load_vocab(struct cadre_tokenizer *tok, const char *path,
                               struct cadre_error *err)
{
    json_error_t where;
    const char *key = NULL;
    json_t *value = NULL;
    char *text = NULL;
    size_t size = 0;
    cadre_status rc = cadre_mapping_read(path, FILE_BYTES_MAX, &text, &size, err);
    if (rc != CADRE_OK)
        return rc;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
    free(text);
    if (!root && json_error_code(&where) == json_error_null_byte_in_key)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "\"%s\": line %d: a token with a NUL character, which GPT-2 "
            "spells as a printable one: this is the vocabulary of another "
            "kind of tokenizer, which is not read here",
            path, where.line);
    if (!root)
        return cadre_fail(err, CADRE_E_INVALID, "\"%s\": line %d: %s", path, where.line,
                          where.text);
    if (!json_is_object(root) || json_object_size(root) == 0 ||
        json_object_size(root) > CADRE_VOCAB_MAX) {
        rc = cadre_fail(
            err, CADRE_E_INVALID,
            "\"%s\": expected an object of tokens and ids, found %zu entries", path,
            json_object_size(root));
        goto fail;
    }
    CADRE_TRY_OR(cadre_vocab_init(&tok->vocab, (int32_t)json_object_size(root)), fail);
    json_object_foreach(root, key, value)
        CADRE_TRY_OR(add_entry(tok, key, value, path, err), fail);
    for (int b = 0; b < 256; b++)
        tok->byte_ids[b] = cadre_vocab_find(&tok->vocab, &tok->single[b], 1);
fail:
    json_decref(root);
    return rc;
}

static uint32_t merge_slot(const struct cadre_tokenizer *tok, int32_t left,
                           int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint32_t slot =
        (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & tok->merge_mask;
    while (tok->merges[slot].left >= 0 &&
           (tok->merges[slot].left != left || tok->merges[slot].right != right))
        slot = (slot + 1) & tok->merge_mask;
    return slot;
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
    bool good =
        blank && size <= WORD_BYTES_MAX &&
        spell_bytes(line, (size_t)(blank - line), bytes, &left) &&
        spell_bytes(blank + 1, size - (size_t)(blank - line) - 1, bytes + left, &right);
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
    uint32_t slot = merge_slot(tok, merge.left, merge.right);
    if (tok->merges[slot].left < 0)
        tok->merges[slot] = merge;
    return CADRE_OK;
}

static cadre_status add_merges(struct cadre_tokenizer *tok, const char *text,
                               size_t size, const char *path, struct cadre_error *err)
{
    uint32_t slots = 16;
    int32_t rank = 0;
    for (size_t i = 0; i < size; i++)
        rank += text[i] == '\n';
    while (slots < (uint32_t)rank * 2 + 4)
        slots *= 2;
    tok->merge_mask = slots - 1;
    tok->merges = malloc(slots * sizeof *tok->merges);
    if (!tok->merges)
        return CADRE_E_RESOURCE;
    memset(tok->merges, 0xff, slots * sizeof *tok->merges);
    rank = 0;
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
fail:
    free(text);
    if (rc == CADRE_E_RESOURCE)
        cadre_fail(err, rc, "\"%s\": no memory for the tokeniser", folder);
    return rc;
}

static bool find_pair(const void *context, int32_t left, int32_t right, double *cost,
                      int32_t *merged)
{
    const struct cadre_tokenizer *tok = context;
    const struct cadre_merge *merge = &tok->merges[merge_slot(tok, left, right)];
    *cost = merge->rank;
    *merged = merge->merged;
    return merge->left >= 0;
}

enum {
    CACHE_SLOTS = 1 << 16,
    CACHE_WORDS_MAX = CACHE_SLOTS / 2,
};

/* Words of this text already merged: where they stand in it and in the list of ids. */
struct cached_word {
    size_t at;
    uint32_t bytes; /* 0: free */
    uint32_t count;
    size_t first_id;
};

struct encoder {
    const struct cadre_tokenizer *tok;
    const char *text;
    struct cadre_ids *list;
    struct cadre_bpe_scratch scratch;
    struct cached_word *cache;
    size_t words;
    struct cadre_error *err;
};

static struct cached_word *find_word(struct encoder *en, size_t at, size_t bytes)
{
    size_t slot = cadre_hash_of(en->text + at, bytes, 1) % CACHE_SLOTS;
    struct cached_word *word = &en->cache[slot];
    while (word->bytes != 0 &&
           (word->bytes != bytes ||
            memcmp(en->text + word->at, en->text + at, bytes) != 0)) {
        slot = (slot + 1) % CACHE_SLOTS;
        word = &en->cache[slot];
    }
    return word;
}

static cadre_status merge_word(struct encoder *en, size_t at, size_t bytes)
{
    struct cadre_bpe_rule rule = {find_pair, en->tok};
    size_t first = en->list->count, count = bytes;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)en->text[at + i];
        int32_t id = en->tok->byte_ids[byte];
        if (id < 0)
            return cadre_fail(en->err, CADRE_E_INVALID,
                              "byte %zu of the text (0x%02x) has no token in this "
                              "vocabulary",
                              at + i, byte);
        cadre_status rc = cadre_ids_append(en->list, &id, 1);
        if (rc != CADRE_OK)
            return rc;
    }
    cadre_status rc =
        cadre_bpe_merge(&rule, &en->scratch, en->list->ids + first, &count);
    en->list->count = first + count;
    return rc;
}

static cadre_status encode_word(struct encoder *en, size_t at, size_t bytes)
{
    if (bytes > 64)
        return merge_word(en, at, bytes);
    struct cached_word *word = find_word(en, at, bytes);
    if (word->bytes != 0) {
        cadre_status rc = cadre_ids_append(en->list, NULL, 0);
        for (uint32_t i = 0; i < word->count && rc == CADRE_OK; i++) {
            int32_t id = en->list->ids[word->first_id + i];
            rc = cadre_ids_append(en->list, &id, 1);
        }
        return rc;
    }
    size_t first = en->list->count;
    cadre_status rc = merge_word(en, at, bytes);
    if (rc == CADRE_OK && en->words < CACHE_WORDS_MAX) {
        *word = (struct cached_word){at, (uint32_t)bytes,
                                     (uint32_t)(en->list->count - first), first};
        en->words++;
    }
    return rc;
}

cadre_status cadre_tokenizer_encode_gpt2(const struct cadre_tokenizer *tok,
                                         const char *text, size_t size,
                                         struct cadre_ids *list,
                                         struct cadre_error *err)
{
    struct encoder en = {.tok = tok, .text = text, .list = list, .err = err};
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    cadre_status rc = CADRE_OK;
    en.cache = calloc(CACHE_SLOTS, sizeof *en.cache);
    if (!match || !en.cache)
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
        rc = encode_word(&en, span[0], span[1] - span[0]);
        at = span[1];
    }
    pcre2_match_data_free(match);
    cadre_bpe_scratch_fini(&en.scratch);
    free(en.cache);
    return rc;
}
