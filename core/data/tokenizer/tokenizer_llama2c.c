/* SPDX-License-Identifier: Apache-2.0 */
/* The tokenizer.bin of llama2.c: the longest piece's size, then score, size and bytes
 * of each id. Two pieces merge where their bytes together are a piece, the best score
 * first; characters that are no piece become bytes, ids 3 to 258. Source: llama2.c
 * run.c. */
#include "core/data/tokenizer/tokenizer_kind.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/data/cache/mapping.h"

enum {
    FILE_BYTES_MAX = 1 << 27,
    PIECE_BYTES_MAX = 1024,
    RECORD_HEAD = 8, /* score, size */
    FIRST_BYTE_ID = 3,
};

static int32_t int32_at(const char *bytes)
{
    uint32_t value = 0;
    for (int i = 3; i >= 0; i--)
        value = value << 8 | (unsigned char)bytes[i];
    return (int32_t)value;
}

static float float_at(const char *bytes)
{
    int32_t bits = int32_at(bytes);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Walk the records and count them; every size is checked here. */
static cadre_status count_pieces(const char *bytes, size_t size, const char *path,
                                 int32_t *count, struct cadre_error *err)
{
    size_t at = 4;
    for (*count = 0; at < size && *count < CADRE_VOCAB_MAX; ++*count) {
        int32_t piece = size - at >= RECORD_HEAD ? int32_at(bytes + at + 4) : -1;
        if (piece < 0 || piece > PIECE_BYTES_MAX ||
            (size_t)piece > size - at - RECORD_HEAD || !isfinite(float_at(bytes + at)))
            return cadre_fail(
                err, CADRE_E_INVALID,
                "\"%s\": byte %zu: expected a score and a piece of llama2.c, "
                "found size %d: not a tokenizer file, or truncated",
                path, at, piece);
        at += RECORD_HEAD + (size_t)piece;
    }
    if (at != size || *count <= FIRST_BYTE_ID)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "\"%s\": expected the pieces of a llama2.c tokenizer, found %d", path,
            *count);
    return CADRE_OK;
}

static cadre_status fill(struct cadre_tokenizer *tok, const char *bytes, int32_t count)
{
    size_t at = 4;
    cadre_status rc = cadre_vocab_init(&tok->vocab, count);
    tok->scores = calloc((size_t)count, sizeof *tok->scores);
    if (rc != CADRE_OK || !tok->scores)
        return CADRE_E_RESOURCE;
    for (int32_t id = 0; id < count; id++) {
        size_t size = (size_t)int32_at(bytes + at + 4);
        tok->scores[id] = float_at(bytes + at);
        CADRE_TRY(cadre_vocab_set(&tok->vocab, id, bytes + at + RECORD_HEAD, size));
        at += RECORD_HEAD + size;
    }
    return CADRE_OK;
}

cadre_status cadre_tokenizer_load_llama2c(struct cadre_tokenizer *tok, const char *path,
                                          struct cadre_error *err)
{
    char *bytes = NULL;
    size_t size = 0;
    int32_t count = 0;
    tok->kind = CADRE_TOKENIZER_LLAMA2C;
    tok->bos = tok->frame.before[0] = 1;
    tok->frame.n_before = 1;
    cadre_status rc = cadre_mapping_read(path, FILE_BYTES_MAX, &bytes, &size, err);
    if (rc == CADRE_OK)
        rc = count_pieces(bytes, size, path, &count, err);
    tok->eos = count > 2 ? 2 : -1;
    if (rc == CADRE_OK) {
        rc = fill(tok, bytes, count);
        if (rc != CADRE_OK)
            cadre_fail(err, rc, "\"%s\": no memory for %d pieces", path, count);
    }
    free(bytes);
    return rc;
}

static bool find_pair(const void *context, int32_t left, int32_t right, double *cost,
                      int32_t *merged)
{
    const struct cadre_tokenizer *tok = context;
    char joined[2 * PIECE_BYTES_MAX];
    size_t a = 0, b = 0;
    const char *first = cadre_vocab_get(&tok->vocab, left, &a);
    const char *second = cadre_vocab_get(&tok->vocab, right, &b);
    memcpy(joined, first, a);
    memcpy(joined + a, second, b);
    *merged = cadre_vocab_find(&tok->vocab, joined, a + b);
    if (*merged < 0)
        return false;
    *cost = -(double)tok->scores[*merged];
    return true;
}

static cadre_status append_char(const struct cadre_tokenizer *tok, const char *text,
                                size_t bytes, struct cadre_ids *list,
                                struct cadre_error *err)
{
    int32_t ids[4] = {cadre_vocab_find(&tok->vocab, text, bytes)};
    if (ids[0] >= 0)
        return cadre_ids_append(list, ids, 1);
    for (size_t i = 0; i < bytes; i++) {
        ids[i] = (unsigned char)text[i] + FIRST_BYTE_ID;
        if (ids[i] >= tok->vocab.count)
            return cadre_fail(err, CADRE_E_INVALID,
                              "byte 0x%02x has no piece in this tokenizer",
                              (unsigned char)text[i]);
    }
    return cadre_ids_append(list, ids, bytes);
}

cadre_status cadre_tokenizer_encode_llama2c(const struct cadre_tokenizer *tok,
                                            const char *text, size_t size,
                                            struct cadre_ids *list,
                                            struct cadre_error *err)
{
    struct cadre_bpe_scratch scratch = {0};
    struct cadre_bpe_rule rule = {find_pair, tok};
    cadre_status rc;
    if (size > 0) /* as sentencepiece does: a text starts with a blank */
        CADRE_TRY_OR(append_char(tok, " ", 1, list, err), fail);
    for (size_t at = 0, bytes = 0; at < size; at += bytes) {
        bytes = cadre_utf8_char(text + at, size - at);
        CADRE_TRY_OR(append_char(tok, text + at, bytes, list, err), fail);
    }
    CADRE_TRY_OR(cadre_bpe_merge(&rule, &scratch, list->ids, &list->count), fail);
fail:
    cadre_bpe_scratch_fini(&scratch);
    return rc;
}
