/* SPDX-License-Identifier: Apache-2.0 */
/* SentencePiece's tokenizer.model: pieces of a BPE or a unigram model behind the
 * identity normalizer. The file is protobuf, of which the few fields that count are
 * read here. Source: sentencepiece_model.proto, bpe_model.cc, unigram_model.cc and
 * normalizer.cc of google/sentencepiece. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/utf8.h"
#include "core/data/cache/mapping.h"
#include "core/data/tokenizer/protobuf.h"
#include "core/data/tokenizer/tokenizer_kind.h"

enum {
    FILE_BYTES_MAX = 1 << 28,
    PIECE_BYTES_MAX = 1024,
    UNIGRAM = 1,
    BPE = 2,
};

struct loader {
    struct cadre_tokenizer *tok;
    const char *path;
    struct cadre_error *err;
    int32_t count; /* pieces */
    int64_t model_type, bos, eos, unknown;
    bool suffix; /* treat_whitespace_as_suffix */
    bool prefix, collapses, escapes; /* of the normalizer */
    struct cadre_protobuf_field charsmap, name;
};

static cadre_status damaged(const struct loader *in)
{
    return cadre_fail(in->err, CADRE_E_INVALID,
                      "\"%s\": expected the protobuf of a SentencePiece model: another "
                      "kind of file, or truncated",
                      in->path);
}

/* ---- the file ---- */

static cadre_status read_piece(struct loader *in, struct cadre_protobuf message,
                               int32_t id)
{
    struct cadre_tokenizer *tok = in->tok;
    struct cadre_protobuf_field field, piece = {0};
    float score = 0;
    uint64_t type = CADRE_PIECE_NORMAL;
    while (cadre_protobuf_next(&message, &field)) {
        if (field.number == 1 && field.wire == CADRE_PROTOBUF_BYTES)
            piece = field;
        else if (field.number == 2 && field.wire == CADRE_PROTOBUF_FIXED32)
            memcpy(&score, field.bytes, sizeof score);
        else if (field.number == 3 && field.wire == CADRE_PROTOBUF_VARINT)
            type = field.value;
    }
    if (message.failed || piece.size == 0 || piece.size > PIECE_BYTES_MAX ||
        !isfinite(score) || type < CADRE_PIECE_NORMAL || type > CADRE_PIECE_BYTE)
        return cadre_fail(in->err, CADRE_E_INVALID,
                          "\"%s\": piece %d: expected a text of 1 to %d bytes, a score "
                          "and a type: another kind of file, or damaged",
                          in->path, id, PIECE_BYTES_MAX);
    if (type == CADRE_PIECE_UNUSED)
        return cadre_fail(in->err, CADRE_E_UNSUPPORTED,
                          "\"%s\": piece %d is of type UNUSED, which is not supported",
                          in->path, id);
    if (cadre_vocab_find(&tok->vocab, piece.bytes, piece.size) >= 0)
        return cadre_fail(in->err, CADRE_E_INVALID,
                          "\"%s\": piece %d is a duplicate of an earlier one", in->path,
                          id);
    tok->scores[id] = score;
    tok->types[id] = (uint8_t)type;
    if (type == CADRE_PIECE_NORMAL) {
        tok->least_score = fminf(tok->least_score, score);
        tok->most_score = fmaxf(tok->most_score, score);
    }
    tok->has_user_defined = tok->has_user_defined || type == CADRE_PIECE_USER_DEFINED;
    if (piece.size > tok->piece_bytes_max)
        tok->piece_bytes_max = piece.size;
    return cadre_vocab_set(&tok->vocab, id, piece.bytes, piece.size);
}

static bool read_trainer(struct loader *in, struct cadre_protobuf message)
{
    struct cadre_protobuf_field field;
    while (cadre_protobuf_next(&message, &field)) {
        if (field.wire != CADRE_PROTOBUF_VARINT)
            continue;
        const int64_t value = (int32_t)field.value;
        switch (field.number) {
        case 3:
            in->model_type = value;
            break;
        case 24:
            in->suffix = value != 0;
            break;
        case 35:
            in->tok->pieces.byte_fallback = value != 0;
            break;
        case 40:
            in->unknown = value;
            break;
        case 41:
            in->bos = value;
            break;
        case 42:
            in->eos = value;
            break;
        default:
            break;
        }
    }
    return !message.failed;
}

static bool read_normalizer(struct loader *in, struct cadre_protobuf message)
{
    struct cadre_protobuf_field field;
    while (cadre_protobuf_next(&message, &field)) {
        if (field.number == 1 && field.wire == CADRE_PROTOBUF_BYTES)
            in->name = field;
        else if (field.number == 2 && field.wire == CADRE_PROTOBUF_BYTES)
            in->charsmap = field;
        else if (field.number == 3 && field.wire == CADRE_PROTOBUF_VARINT)
            in->prefix = field.value != 0;
        else if (field.number == 4 && field.wire == CADRE_PROTOBUF_VARINT)
            in->collapses = field.value != 0;
        else if (field.number == 5 && field.wire == CADRE_PROTOBUF_VARINT)
            in->escapes = field.value != 0;
    }
    return !message.failed;
}

/* Count the pieces and read what is around them. */
static cadre_status read_around(struct loader *in, struct cadre_protobuf message)
{
    struct cadre_protobuf_field field;
    while (cadre_protobuf_next(&message, &field)) {
        const struct cadre_protobuf inner = {.bytes = field.bytes, .size = field.size};
        if (field.wire != CADRE_PROTOBUF_BYTES)
            continue;
        in->count += field.number == 1;
        if ((field.number == 2 && !read_trainer(in, inner)) ||
            (field.number == 3 && !read_normalizer(in, inner)))
            return damaged(in);
    }
    if (message.failed || in->count == 0 || in->count > CADRE_VOCAB_MAX)
        return damaged(in);
    return CADRE_OK;
}

static cadre_status check_around(const struct loader *in)
{
    if (in->model_type != UNIGRAM && in->model_type != BPE)
        return cadre_fail(in->err, CADRE_E_UNSUPPORTED,
                          "\"%s\": model_type %lld (WORD, CHAR) is not supported: "
                          "expected UNIGRAM or BPE",
                          in->path, (long long)in->model_type);
    if (in->charsmap.size > 0)
        return cadre_fail(in->err, CADRE_E_UNSUPPORTED,
                          "\"%s\": the normalizer %.*s is not supported: expected "
                          "identity",
                          in->path, (int)in->name.size,
                          in->name.bytes ? in->name.bytes : "");
    if (in->suffix || !in->escapes)
        return cadre_fail(
            in->err, CADRE_E_UNSUPPORTED, "\"%s\": %s is not supported", in->path,
            in->suffix ? "treat_whitespace_as_suffix" : "escape_whitespaces = false");
    return CADRE_OK;
}

static cadre_status read_pieces(struct loader *in, struct cadre_protobuf message)
{
    struct cadre_tokenizer *tok = in->tok;
    struct cadre_protobuf_field field;
    int32_t id = 0;
    CADRE_TRY(cadre_vocab_init(&tok->vocab, in->count));
    CADRE_TRY(cadre_vocab_init(&tok->shown, in->count));
    tok->scores = calloc((size_t)in->count, sizeof *tok->scores);
    tok->types = calloc((size_t)in->count, sizeof *tok->types);
    if (!tok->scores || !tok->types)
        return CADRE_E_RESOURCE;
    tok->least_score = INFINITY;
    tok->most_score = -INFINITY;
    while (cadre_protobuf_next(&message, &field))
        if (field.number == 1 && field.wire == CADRE_PROTOBUF_BYTES)
            CADRE_TRY(read_piece(
                in, (struct cadre_protobuf){.bytes = field.bytes, .size = field.size},
                id++));
    return CADRE_OK;
}

/* ---- what the pieces are ---- */

/* Characters that are in a longer piece only would merge by their text. */
static cadre_status check_characters(const struct loader *in, const char *piece,
                                     size_t size)
{
    for (size_t at = 0, step = 0; at < size; at += step) {
        step = cadre_utf8_char(piece + at, size - at);
        if (step == 0)
            return damaged(in);
        if (!in->tok->is_unigram &&
            cadre_vocab_find(&in->tok->vocab, piece + at, step) < 0)
            return cadre_fail(in->err, CADRE_E_UNSUPPORTED,
                              "\"%s\": the piece \"%.*s\" holds the character "
                              "\"%.*s\", which is no piece; such a vocabulary is not "
                              "supported",
                              in->path, (int)size, piece, (int)step, piece + at);
    }
    return CADRE_OK;
}

static cadre_status show(const struct loader *in, int32_t id)
{
    static const char unknown[] = " \xe2\x81\x87 ";
    struct cadre_tokenizer *tok = in->tok;
    size_t size = 0;
    const char *piece = cadre_vocab_get(&tok->vocab, id, &size);
    switch (tok->types[id]) {
    case CADRE_PIECE_CONTROL:
        return cadre_vocab_put(&tok->shown, id, "", 0);
    case CADRE_PIECE_UNKNOWN:
        return cadre_vocab_put(&tok->shown, id, unknown, sizeof unknown - 1);
    case CADRE_PIECE_NORMAL:
        CADRE_TRY(check_characters(in, piece, size));
        return cadre_pieces_show(tok, id, piece, size);
    default:
        return cadre_pieces_show(tok, id, piece, size);
    }
}

static cadre_status finish(struct loader *in)
{
    struct cadre_tokenizer *tok = in->tok;
    struct cadre_pieces *pieces = &tok->pieces;
    tok->is_unigram = in->model_type == UNIGRAM;
    pieces->replaces = true;
    pieces->collapses = in->collapses;
    pieces->prefix = in->prefix ? CADRE_PREFIX_EVERY : CADRE_PREFIX_NONE;
    pieces->strip = in->prefix || in->collapses ? CADRE_STRIP_ONE : CADRE_STRIP_NONE;
    pieces->fuses_unknown = true;
    pieces->unknown = (int32_t)in->unknown;
    if (in->unknown < 0 || in->unknown >= in->count ||
        tok->types[in->unknown] != CADRE_PIECE_UNKNOWN)
        return cadre_fail(in->err, CADRE_E_INVALID,
                          "\"%s\": unk_id = %lld is not the piece of type UNKNOWN",
                          in->path, (long long)in->unknown);
    tok->bos = in->bos < in->count ? (int32_t)in->bos : -1;
    tok->eos = in->eos < in->count ? (int32_t)in->eos : -1;
    for (int32_t id = 0; id < in->count; id++)
        CADRE_TRY(show(in, id));
    return cadre_pieces_index(tok, in->path, in->err);
}

cadre_status cadre_tokenizer_load_sentencepiece(struct cadre_tokenizer *tok,
                                                const char *path,
                                                struct cadre_error *err)
{
    struct loader in = {
        .tok = tok,
        .path = path,
        .err = err,
        .model_type = UNIGRAM,
        .bos = 1,
        .eos = 2,
        .prefix = true,
        .collapses = true,
        .escapes = true,
    };
    char *bytes = NULL;
    size_t size = 0;
    cadre_status rc;
    tok->kind = CADRE_TOKENIZER_SENTENCEPIECE;
    CADRE_TRY_OR(cadre_mapping_read(path, FILE_BYTES_MAX, &bytes, &size, err), fail);
    const struct cadre_protobuf message = {.bytes = bytes, .size = size};
    tok->file_hash = cadre_hash_of(bytes, size, 0);
    CADRE_TRY_OR(read_around(&in, message), fail);
    CADRE_TRY_OR(check_around(&in), fail);
    CADRE_TRY_OR(read_pieces(&in, message), fail);
    CADRE_TRY_OR(finish(&in), fail);
    if (tok->bos >= 0) { /* as Llama's tokenizers have it without a configuration */
        tok->frame.before[0] = tok->bos;
        tok->frame.n_before = 1;
    }
fail:
    free(bytes);
    if (rc == CADRE_E_RESOURCE)
        cadre_fail(err, rc, "\"%s\": no memory for %d pieces", path, in.count);
    return rc;
}

/* ---- BPE ---- */

/* The best score first; pieces of other types never merge. */
static bool find_pair(const void *context, int32_t left, int32_t right, double *cost,
                      int32_t *merged)
{
    const struct cadre_tokenizer *tok = context;
    char joined[2 * PIECE_BYTES_MAX];
    size_t a = 0, b = 0;
    if (tok->types[left] != CADRE_PIECE_NORMAL ||
        tok->types[right] != CADRE_PIECE_NORMAL)
        return false;
    const char *first = cadre_vocab_get(&tok->vocab, left, &a);
    const char *second = cadre_vocab_get(&tok->vocab, right, &b);
    if (a + b > tok->piece_bytes_max)
        return false;
    memcpy(joined, first, a);
    memcpy(joined + a, second, b);
    *merged = cadre_vocab_find(&tok->vocab, joined, a + b);
    if (*merged < 0 || tok->types[*merged] != CADRE_PIECE_NORMAL)
        return false;
    *cost = -(double)tok->scores[*merged];
    return true;
}

/* ---- unigram ---- */

/* The best way to the position after so many bytes. */
struct best {
    float score;
    int32_t id;
    int64_t from; /* -1: none yet */
};

/* Sums are rounded to float as sentencepiece's are, so that ties fall alike. */
static void offer(struct best *best, int64_t from, double score, int32_t id)
{
    if (best->from >= 0 && !(score > (double)best->score))
        return;
    *best = (struct best){(float)score, id, from};
}

static void offer_pieces(const struct cadre_tokenizer *tok, const char *text,
                         size_t size, size_t at, struct best *best)
{
    const size_t left = size - at;
    const size_t most = left < tok->piece_bytes_max ? left : tok->piece_bytes_max;
    const size_t one = cadre_utf8_char(text + at, left);
    const float so_far = best[at].score;
    bool has_one = false;
    for (size_t n = 1; n <= most; n++) {
        const int32_t id = cadre_vocab_find(&tok->vocab, text + at, n);
        if (id < 0 || (tok->types[id] != CADRE_PIECE_NORMAL &&
                       tok->types[id] != CADRE_PIECE_USER_DEFINED))
            continue;
        const double score = tok->types[id] == CADRE_PIECE_USER_DEFINED
                                 ? (double)((float)n * tok->most_score) - 0.1
                                 : (double)tok->scores[id];
        offer(&best[at + n], (int64_t)at, score + (double)so_far, id);
        has_one = has_one || n == one;
    }
    const float unknown = tok->least_score - 10.0f;
    const float sum = unknown + so_far;
    if (!has_one)
        offer(&best[at + one], (int64_t)at, (double)sum, tok->pieces.unknown);
}

/* Append the pieces from the start to `end`, an unknown run once or as bytes. */
static cadre_status trace(const struct cadre_tokenizer *tok, const char *text,
                          const struct best *best, size_t end, struct cadre_ids *list)
{
    size_t *stops = malloc((end + 1) * sizeof *stops);
    size_t n = 0;
    cadre_status rc = CADRE_OK;
    if (!stops)
        return CADRE_E_RESOURCE;
    for (size_t at = end; at > 0; at = (size_t)best[at].from)
        stops[n++] = at;
    for (; n > 0 && rc == CADRE_OK; n--) {
        const struct best *piece = &best[stops[n - 1]];
        const bool is_unknown = piece->id == tok->pieces.unknown;
        if (is_unknown && tok->pieces.byte_fallback) {
            for (size_t i = (size_t)piece->from; i < stops[n - 1]; i++)
                if (rc == CADRE_OK)
                    rc = cadre_ids_append(list, &tok->byte_ids[(unsigned char)text[i]],
                                          1);
        } else if (!is_unknown || list->count == 0 ||
                   list->ids[list->count - 1] != piece->id) {
            rc = cadre_ids_append(list, &piece->id, 1);
        }
    }
    free(stops);
    return rc;
}

static cadre_status encode_unigram(const struct cadre_tokenizer *tok, const char *text,
                                   size_t size, struct cadre_ids *list)
{
    struct best *best = malloc((size + 1) * sizeof *best);
    if (!best)
        return CADRE_E_RESOURCE;
    for (size_t i = 0; i <= size; i++)
        best[i] = (struct best){.id = -1, .from = -1};
    for (size_t at = 0; at < size; at += cadre_utf8_char(text + at, size - at))
        offer_pieces(tok, text, size, at, best);
    cadre_status rc = trace(tok, text, best, size, list);
    free(best);
    return rc;
}

cadre_status cadre_tokenizer_encode_sentencepiece(const struct cadre_tokenizer *tok,
                                                  const char *text, size_t size,
                                                  struct cadre_ids *list,
                                                  struct cadre_error *err)
{
    const struct cadre_bpe_rule rule = {find_pair, tok};
    char *body = NULL;
    size_t n = 0;
    CADRE_TRY(cadre_pieces_normalize(&tok->pieces, tok->pieces.prefix, text, size,
                                     &body, &n));
    cadre_status rc = tok->is_unigram
                          ? encode_unigram(tok, body, n, list)
                          : cadre_pieces_encode(tok, &rule, body, n, list, err);
    free(body);
    return rc;
}
