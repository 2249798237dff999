/* SPDX-License-Identifier: Apache-2.0 */
/* Texts as pieces of characters in which U+2581 stands for a blank: what the BPE models
 * of tokenizer.json and of sentencepiece share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/data/tokenizer/words.h"

enum { BLANK_BYTES = CADRE_PIECE_BLANK_BYTES };

static bool is_blank_at(const char *text, size_t size, size_t at)
{
    return size - at >= BLANK_BYTES &&
           memcmp(text + at, CADRE_PIECE_BLANK, BLANK_BYTES) == 0;
}

/* ---- the vocabulary ---- */

/* "<0x0A>" stands for one byte; -1 for other pieces. */
static int byte_of_piece(const char *piece, size_t size)
{
    int value = 0;
    if (size != 6 || memcmp(piece, "<0x", 3) != 0 || piece[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        const bool is_digit = piece[i] >= '0' && piece[i] <= '9';
        if (!is_digit && (piece[i] < 'A' || piece[i] > 'F'))
            return -1;
        value = value * 16 + piece[i] - (is_digit ? '0' : 'A' - 10);
    }
    return value;
}

cadre_status cadre_pieces_show(struct cadre_tokenizer *tok, int32_t id,
                               const char *piece, size_t size)
{
    const int byte = tok->pieces.byte_fallback ? byte_of_piece(piece, size) : -1;
    if (byte >= 0)
        return cadre_vocab_put(&tok->shown, id, &tok->single[byte], 1);
    char *text = malloc(size + 1);
    size_t n = 0;
    if (!text)
        return CADRE_E_RESOURCE;
    for (size_t at = 0; at < size;) {
        const bool is_blank = is_blank_at(piece, size, at);
        text[n++] = is_blank ? ' ' : piece[at];
        at += is_blank ? BLANK_BYTES : 1;
    }
    cadre_status rc = cadre_vocab_put(&tok->shown, id, text, n);
    free(text);
    return rc;
}

/* A blank behind another character: "a_", "_a_". */
static bool has_inner_blank(const char *piece, size_t size)
{
    size_t at = 0;
    while (is_blank_at(piece, size, at))
        at += BLANK_BYTES;
    for (; at < size; at++)
        if (is_blank_at(piece, size, at))
            return true;
    return false;
}

cadre_status cadre_pieces_index(struct cadre_tokenizer *tok, const char *path,
                                struct cadre_error *err)
{
    struct cadre_pieces *pieces = &tok->pieces;
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        tok->byte_ids[b] =
            pieces->byte_fallback ? cadre_vocab_find(&tok->vocab, name, 6) : -1;
        if (pieces->byte_fallback && tok->byte_ids[b] < 0)
            return cadre_fail(err, CADRE_E_INVALID,
                              "\"%s\": byte_fallback is set, and the vocabulary has no "
                              "piece %s",
                              path, name);
    }
    pieces->blank = cadre_vocab_find(&tok->vocab, CADRE_PIECE_BLANK, BLANK_BYTES);
    for (int32_t id = 0; id < tok->vocab.count; id++) {
        size_t size = 0;
        const char *piece = cadre_vocab_get(&tok->vocab, id, &size);
        if (piece && has_inner_blank(piece, size))
            pieces->has_inner_blanks = true;
    }
    if (pieces->has_inner_blanks && pieces->strip == CADRE_STRIP_ALL)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "\"%s\": decoder Metaspace with pieces that hold blanks "
                          "inside is not supported",
                          path);
    return CADRE_OK;
}

cadre_status cadre_pieces_decode(const struct cadre_tokenizer *tok, int32_t previous,
                                 int32_t id, const char **bytes, size_t *size)
{
    if (id < 0 || id >= tok->shown.count)
        return CADRE_E_INVALID;
    *size = 0;
    const char *text = cadre_vocab_get(&tok->shown, id, size);
    *bytes = text ? text : tok->single;
    const bool is_unknown = tok->types && tok->types[id] == CADRE_PIECE_UNKNOWN;
    const bool is_first = !is_unknown && (previous < 0 || previous == tok->bos);
    size_t most = !is_first || tok->pieces.strip == CADRE_STRIP_NONE ? 0
                  : tok->pieces.strip == CADRE_STRIP_ONE             ? 1
                                                                     : *size;
    for (; most > 0 && *size > 0 && **bytes == ' '; most--) {
        ++*bytes;
        --*size;
    }
    return CADRE_OK;
}

/* ---- encoding ---- */

cadre_status cadre_pieces_normalize(const struct cadre_pieces *pieces,
                                    enum cadre_piece_prefix prefix, const char *text,
                                    size_t size, char **out, size_t *out_size)
{
    if (pieces->collapses) {
        while (size > 0 && text[0] == ' ') {
            text++;
            size--;
        }
        while (size > 0 && text[size - 1] == ' ')
            size--;
    }
    char *to = malloc(BLANK_BYTES * (size + 1) + 1);
    size_t n = 0;
    if (!to)
        return CADRE_E_RESOURCE;
    const bool has_one = size > 0 && ((pieces->replaces && text[0] == ' ') ||
                                      is_blank_at(text, size, 0));
    if (size > 0 &&
        (prefix == CADRE_PREFIX_EVERY || (prefix != CADRE_PREFIX_NONE && !has_one))) {
        memcpy(to, CADRE_PIECE_BLANK, BLANK_BYTES);
        n = BLANK_BYTES;
    }
    for (size_t at = 0; at < size; at++) {
        if (text[at] != ' ' || !pieces->replaces) {
            to[n++] = text[at];
        } else if (!pieces->collapses || text[at - 1] != ' ') {
            memcpy(to + n, CADRE_PIECE_BLANK, BLANK_BYTES);
            n += BLANK_BYTES;
        }
    }
    /* as sentencepiece: also of U+2581 that the text itself has */
    while (pieces->collapses && n >= BLANK_BYTES && is_blank_at(to, n, n - BLANK_BYTES))
        n -= BLANK_BYTES;
    *out = to;
    *out_size = n;
    return CADRE_OK;
}

/* A piece that a text may hold: those of other types have no text. */
static bool is_textual(const struct cadre_tokenizer *tok, int32_t id)
{
    return !tok->types || tok->types[id] == CADRE_PIECE_NORMAL ||
           tok->types[id] == CADRE_PIECE_USER_DEFINED;
}

/* The longest user-defined piece at `at`, or -1. */
static int32_t user_defined_at(const struct cadre_tokenizer *tok, const char *text,
                               size_t size, size_t *bytes)
{
    size_t most = size < tok->piece_bytes_max ? size : tok->piece_bytes_max;
    for (; tok->has_user_defined && most > 0; most--) {
        const int32_t id = cadre_vocab_find(&tok->vocab, text, most);
        if (id >= 0 && tok->types[id] == CADRE_PIECE_USER_DEFINED) {
            *bytes = most;
            return id;
        }
    }
    return -1;
}

static cadre_status add_unknown(struct cadre_words *words, size_t first, size_t at,
                                size_t bytes)
{
    const struct cadre_pieces *pieces = &words->tok->pieces;
    struct cadre_ids *list = words->list;
    if (pieces->byte_fallback)
        return cadre_words_split_bytes(words, at, bytes);
    if (pieces->unknown < 0)
        return cadre_fail(words->err, CADRE_E_INVALID,
                          "the character \"%.*s\" has no token in this vocabulary, "
                          "which has none for what is unknown",
                          (int)bytes, words->text + at);
    if (pieces->fuses_unknown && list->count > first &&
        list->ids[list->count - 1] == pieces->unknown)
        return CADRE_OK;
    return cadre_ids_append(list, &pieces->unknown, 1);
}

/* Characters, user-defined pieces, bytes of what has no piece. */
static cadre_status split_pieces(struct cadre_words *words, size_t at, size_t bytes)
{
    const struct cadre_tokenizer *tok = words->tok;
    const size_t first = words->list->count, end = at + bytes;
    for (size_t step = 0; at < end; at += step) {
        int32_t id = user_defined_at(tok, words->text + at, end - at, &step);
        if (id < 0) {
            step = cadre_utf8_char(words->text + at, end - at);
            id = cadre_vocab_find(&tok->vocab, words->text + at, step);
        }
        if (id >= 0 && is_textual(tok, id))
            CADRE_TRY(cadre_ids_append(words->list, &id, 1));
        else
            CADRE_TRY(add_unknown(words, first, at, step));
    }
    return CADRE_OK;
}

/* The end of the word at `at`. Where a blank is only ever the beginning of a piece, no
 * merge reaches across it from the left, and words may be merged for themselves. */
static size_t word_end(const struct cadre_tokenizer *tok, const char *text, size_t size,
                       size_t at)
{
    const struct cadre_pieces *pieces = &tok->pieces;
    const bool is_free =
        !pieces->has_inner_blanks && pieces->blank >= 0 && !tok->keeps_words;
    if (!pieces->divides && !is_free)
        return size;
    if (!pieces->divides)
        while (is_blank_at(text, size, at))
            at += BLANK_BYTES;
    else
        at++;
    while (at < size && !is_blank_at(text, size, at))
        at++;
    return at < size ? at : size;
}

cadre_status cadre_pieces_encode(const struct cadre_tokenizer *tok,
                                 const struct cadre_bpe_rule *rule, const char *text,
                                 size_t size, struct cadre_ids *list,
                                 struct cadre_error *err)
{
    struct cadre_words words = {
        .tok = tok,
        .text = text,
        .size = size,
        .list = list,
        .err = err,
        .rule = *rule,
        .split = split_pieces,
    };
    cadre_status rc = CADRE_OK;
    for (size_t at = 0, end = 0; at < size && rc == CADRE_OK; at = end) {
        end = word_end(tok, text, size, at);
        rc = cadre_words_add(&words, at, end - at);
    }
    cadre_words_fini(&words);
    return rc;
}
