/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer.json whose model is BPE. Its vocabulary is read beside jansson (id_map.h)
 * and taken out of the text that jansson reads. Source: models/bpe/ of
 * huggingface/tokenizers. */
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/json_read.h"
#include "core/data/cache/mapping.h"
#include "core/data/tokenizer/byte_spelling.h"
#include "core/data/tokenizer/id_map.h"
#include "core/data/tokenizer/tokenizer_json_private.h"
#include "core/data/tokenizer/unicode.h"
#include "core/data/tokenizer/words.h"

enum {
    FILE_BYTES_MAX = 1 << 28,
    PIECE_BYTES_MAX = 1 << 14,
    GAPS_MAX = 1 << 16, /* ids that no entry has, and more of a larger vocabulary */
    IDS_PER_ENTRY = 8,
};

struct loader {
    struct cadre_tokenizer *tok;
    const char *path;
    struct cadre_error *err;
    json_t *root;
    struct cadre_id_map map; /* model.vocab */
    struct cadre_vocab raw; /* as the file spells it */
};

static cadre_status refuse(const struct loader *in, const char *what,
                           const json_t *found, const char *known)
{
    char *text = found ? json_dumps(found, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    cadre_status rc = cadre_fail(in->err, CADRE_E_UNSUPPORTED,
                                 "\"%s\": %s = %.80s is not supported: expected %s",
                                 in->path, what, text ? text : "nothing", known);
    free(text);
    return rc;
}

static cadre_status wrong(const struct loader *in, const char *what)
{
    return cadre_fail(in->err, CADRE_E_INVALID, "\"%s\": %s", in->path, what);
}

/* ---- the file ---- */

/* The vocabulary's place is emptied, so that lines count as they did. */
static cadre_status parse(struct loader *in, char *text, size_t size)
{
    size_t begin = 0, end = 0;
    json_error_t why;
    bool no_memory;
    if (cadre_id_map_locate(text, size, "model", "vocab", &begin, &end) &&
        text[begin] == '{') {
        char kept = text[end];
        text[end] = '\0';
        cadre_status rc =
            cadre_id_map_read(&in->map, text + begin, end - begin, in->path, in->err);
        text[end] = kept;
        if (rc != CADRE_OK) {
            cadre_error_prefix(in->err, "model.vocab");
            return rc;
        }
        for (size_t i = begin; i < end; i++)
            text[i] = text[i] == '\n' ? '\n' : ' ';
        text[begin] = '{';
        text[end - 1] = '}';
    }
    in->root = cadre_json_load(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
                               &why, &no_memory);
    if (no_memory)
        return cadre_no_memory(in->err, "'%s'", in->path);
    if (!in->root)
        return cadre_fail(in->err, CADRE_E_INVALID, "\"%s\": line %d: %s", in->path,
                          why.line, why.text);
    return CADRE_OK;
}

static bool is_off(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_number(value) && json_number_value(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

/* The model's settings, but for its vocabulary. */
static cadre_status read_settings(struct loader *in, const json_t *model)
{
    static const char *const off[] = {"dropout", "continuing_subword_prefix",
                                      "end_of_word_suffix"};
    const json_t *type = json_object_get(model, "type");
    const char *name = json_string_value(type);
    if (!json_is_object(model))
        return wrong(in, "there is no \"model\": this is no tokenizer.json of "
                         "Hugging Face's tokenizers");
    if (type && (!name || strcmp(name, "BPE") != 0))
        return refuse(in, "model.type", type, "BPE");
    if (!json_is_array(json_object_get(model, "merges")))
        return refuse(in, "model.merges", NULL, "the list of a BPE model");
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
        if (!is_off(json_object_get(model, off[i])))
            return refuse(in, off[i], json_object_get(model, off[i]), "null");
    in->tok->keeps_words = json_is_true(json_object_get(model, "ignore_merges"));
    in->tok->pieces.byte_fallback =
        json_is_true(json_object_get(model, "byte_fallback"));
    in->tok->pieces.fuses_unknown = json_is_true(json_object_get(model, "fuse_unk"));
    return CADRE_OK;
}

/* ---- vocabulary ---- */

/* One more than the largest id of the vocabulary and the added tokens. Gaps take memory
 * too: what a small file claims is not believed. */
static cadre_status count_ids(const struct loader *in, const json_t *added,
                              int32_t *count)
{
    int64_t largest = -1;
    const json_t *one;
    size_t i;
    for (size_t k = 0; k < in->map.count; k++)
        largest = in->map.entries[k].id > largest ? in->map.entries[k].id : largest;
    json_array_foreach(added, i, one)
    {
        const json_t *id = json_object_get(one, "id");
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            !json_is_string(json_object_get(one, "content")))
            return cadre_fail(in->err, CADRE_E_INVALID,
                              "\"%s\": added_tokens, entry %zu: expected an id from 0 "
                              "on and a content",
                              in->path, i + 1);
        largest = json_integer_value(id) > largest ? json_integer_value(id) : largest;
    }
    if (in->map.count == 0 || largest >= CADRE_VOCAB_MAX)
        return cadre_fail(in->err, CADRE_E_INVALID,
                          "\"%s\": expected a vocabulary of 1 to %d ids, found %zu "
                          "entries and a largest id of %lld",
                          in->path, CADRE_VOCAB_MAX, in->map.count, (long long)largest);
    const size_t entries = in->map.count + json_array_size(added);
    if ((size_t)largest >= GAPS_MAX + IDS_PER_ENTRY * entries)
        return cadre_fail(in->err, CADRE_E_INVALID,
                          "\"%s\": the largest id is %lld, and there are %zu entries: "
                          "expected an id below %zu, with fewer gaps",
                          in->path, (long long)largest, entries,
                          GAPS_MAX + IDS_PER_ENTRY * entries);
    *count = (int32_t)largest + 1;
    return CADRE_OK;
}

static cadre_status take_entry(struct loader *in, const char *key, size_t size,
                               int32_t id)
{
    struct cadre_tokenizer *tok = in->tok;
    char bytes[PIECE_BYTES_MAX];
    size_t count = 0;
    if (cadre_vocab_find(&in->raw, key, size) >= 0)
        return cadre_fail(in->err, CADRE_E_INVALID,
                          "\"%s\": \"%.*s\" is a duplicate in the vocabulary", in->path,
                          size < 40 ? (int)size : 40, key);
    if (size > PIECE_BYTES_MAX)
        return wrong(in, "a token of the vocabulary is longer than 16384 bytes");
    cadre_status rc = cadre_vocab_set(&in->raw, id, key, size);
    if (rc == CADRE_E_INVALID)
        return cadre_fail(in->err, rc, "\"%s\": id %d is given twice", in->path, id);
    CADRE_TRY(rc);
    if (tok->kind == CADRE_TOKENIZER_PIECES) {
        CADRE_TRY(cadre_vocab_set(&tok->vocab, id, key, size));
        return cadre_pieces_show(tok, id, key, size);
    }
    if (cadre_byte_spelling_read(key, size, bytes, &count))
        return cadre_vocab_set(&tok->vocab, id, bytes, count);
    return cadre_vocab_put(&tok->vocab, id, key, size); /* no text becomes it */
}

static cadre_status read_vocab(struct loader *in, const json_t *added)
{
    struct cadre_tokenizer *tok = in->tok;
    int32_t count = 0;
    CADRE_TRY(count_ids(in, added, &count));
    CADRE_TRY(cadre_vocab_init(&tok->vocab, count));
    CADRE_TRY(cadre_vocab_init(&in->raw, count));
    if (tok->kind == CADRE_TOKENIZER_PIECES)
        CADRE_TRY(cadre_vocab_init(&tok->shown, count));
    for (size_t i = 0; i < in->map.count; i++) {
        const struct cadre_id_map_entry *entry = &in->map.entries[i];
        CADRE_TRY(
            take_entry(in, in->map.keys + entry->at, entry->size, (int32_t)entry->id));
    }
    for (int b = 0; b < 256; b++)
        tok->byte_ids[b] = cadre_vocab_find(&tok->vocab, &tok->single[b], 1);
    return tok->kind == CADRE_TOKENIZER_PIECES
               ? cadre_pieces_index(tok, in->path, in->err)
               : CADRE_OK;
}

static cadre_status read_unknown(struct loader *in, const json_t *model)
{
    const json_t *value = json_object_get(model, "unk_token");
    in->tok->pieces.unknown = -1;
    if (!json_is_string(value))
        return CADRE_OK;
    in->tok->pieces.unknown =
        cadre_vocab_find(&in->raw, json_string_value(value), json_string_length(value));
    return in->tok->pieces.unknown >= 0
               ? CADRE_OK
               : wrong(in, "model.unk_token is not in the vocabulary");
}

/* ---- merges ---- */

/* "left right", or a list of both. */
static bool divide_merge(const json_t *one, const char *part[2], size_t size[2])
{
    if (json_is_array(one)) {
        for (size_t i = 0; i < 2; i++) {
            part[i] = json_string_value(json_array_get(one, i));
            size[i] = json_string_length(json_array_get(one, i));
        }
        return json_array_size(one) == 2 && part[0] && part[1];
    }
    const char *text = json_string_value(one);
    const size_t n = json_string_length(one);
    const char *blank = text ? memchr(text, ' ', n) : NULL;
    if (!blank)
        return false;
    part[0] = text;
    size[0] = (size_t)(blank - text);
    part[1] = blank + 1;
    size[1] = n - size[0] - 1;
    return !memchr(part[1], ' ', size[1]);
}

static cadre_status read_merges(struct loader *in, const json_t *list)
{
    const json_t *one;
    size_t i;
    CADRE_TRY(cadre_merges_init(&in->tok->merges, json_array_size(list)));
    json_array_foreach(list, i, one)
    {
        char both[2 * PIECE_BYTES_MAX];
        const char *part[2] = {0};
        size_t size[2] = {0};
        struct cadre_merge merge = {.rank = (int32_t)i, .merged = -1};
        if (divide_merge(one, part, size) && size[0] <= PIECE_BYTES_MAX &&
            size[1] <= PIECE_BYTES_MAX) {
            memcpy(both, part[0], size[0]);
            memcpy(both + size[0], part[1], size[1]);
            merge.left = cadre_vocab_find(&in->raw, part[0], size[0]);
            merge.right = cadre_vocab_find(&in->raw, part[1], size[1]);
            merge.merged = cadre_vocab_find(&in->raw, both, size[0] + size[1]);
        }
        if (merge.merged < 0 || merge.left < 0 || merge.right < 0)
            return cadre_fail(in->err, CADRE_E_INVALID,
                              "\"%s\": merge %zu: expected two tokens of the "
                              "vocabulary whose union is one",
                              in->path, i + 1);
        *cadre_merges_slot(&in->tok->merges, merge.left, merge.right) = merge;
    }
    return CADRE_OK;
}

/* ---- added tokens ---- */

/* The text of an added token as a normalised text has it, which the caller frees. */
static cadre_status normalize(const struct cadre_tokenizer *tok, const char *text,
                              size_t size, char **out, size_t *n)
{
    *out = NULL;
    if (tok->composes)
        return cadre_unicode_nfc(text, size, out, n);
    if (tok->pieces.by_normalizer)
        return cadre_pieces_normalize(&tok->pieces, tok->pieces.prefix, text, size, out,
                                      n);
    return CADRE_OK;
}

static cadre_status take_added(struct loader *in, const json_t *one)
{
    struct cadre_tokenizer *tok = in->tok;
    const json_t *content = json_object_get(one, "content");
    const int32_t id = (int32_t)json_integer_value(json_object_get(one, "id"));
    const char *text = json_string_value(content);
    const size_t size = json_string_length(content);
    struct cadre_added_token token = {
        .text = (char *)text,
        .size = size,
        .id = id,
        .normalized = json_is_true(json_object_get(one, "normalized")),
        .takes_left = json_is_true(json_object_get(one, "lstrip")),
        .takes_right = json_is_true(json_object_get(one, "rstrip")),
    };
    size_t raw_size = 0;
    const char *raw = cadre_vocab_get(&in->raw, id, &raw_size);
    const int32_t other = cadre_vocab_find(&in->raw, text, size);
    char *normal = NULL;
    if (json_is_true(json_object_get(one, "single_word")))
        return refuse(in, "added_tokens: single_word", content, "false");
    if ((raw && other != id) || (!raw && other >= 0))
        return cadre_fail(in->err, CADRE_E_INVALID,
                          "\"%s\": added_tokens has \"%.40s\" as id %d, which the "
                          "vocabulary has otherwise",
                          in->path, text, id);
    if (token.normalized)
        CADRE_TRY(normalize(tok, text, size, &normal, &token.size));
    token.text = normal ? normal : (char *)text;
    cadre_status rc = cadre_added_tokens_add(&tok->added, &token);
    if (rc == CADRE_OK && !raw)
        rc = cadre_vocab_put(&tok->vocab, id, text, size);
    if (rc == CADRE_OK && tok->kind == CADRE_TOKENIZER_PIECES) {
        tok->shown.entries[id].is_set = raw ? 0 : tok->shown.entries[id].is_set;
        rc = cadre_pieces_show(tok, id, token.text, token.size);
    }
    free(normal);
    return rc == CADRE_E_INVALID ? wrong(in, "added_tokens: an id is given twice") : rc;
}

static cadre_status read_added(struct loader *in, const json_t *added)
{
    const json_t *one;
    size_t i, bytes = 0;
    bool takes_right = false, begins_blank = false;
    json_array_foreach(added, i, one) CADRE_TRY(take_added(in, one));
    for (i = 0; i < in->tok->added.count; i++) {
        const struct cadre_added_token *token = &in->tok->added.tokens[i];
        takes_right = takes_right || token->takes_right;
        begins_blank = begins_blank ||
                       (token->size > 0 && cadre_unicode_is_space(cadre_unicode_read(
                                               token->text, token->size, &bytes)));
    }
    if (takes_right && begins_blank)
        return wrong(in, "added_tokens has one with rstrip and one that begins with a "
                         "blank, which is not supported together");
    return CADRE_OK;
}

/* ---- all of it ---- */

static cadre_status load(struct loader *in)
{
    const json_t *model = json_object_get(in->root, "model");
    const json_t *added = json_object_get(in->root, "added_tokens");
    CADRE_TRY(read_settings(in, model));
    CADRE_TRY(cadre_json_parts_read(in->tok, in->root, in->path, in->err));
    CADRE_TRY(read_vocab(in, added));
    CADRE_TRY(read_unknown(in, model));
    CADRE_TRY(read_merges(in, json_object_get(model, "merges")));
    CADRE_TRY(read_added(in, added));
    return cadre_json_parts_frame(in->tok, in->root, in->path, in->err);
}

cadre_status cadre_tokenizer_load_json(struct cadre_tokenizer *tok, const char *path,
                                       struct cadre_error *err)
{
    struct loader in = {.tok = tok, .path = path, .err = err};
    char *text = NULL;
    size_t size = 0;
    cadre_status rc;
    CADRE_TRY_OR(cadre_mapping_read(path, FILE_BYTES_MAX, &text, &size, err), fail);
    tok->file_hash = cadre_hash_of(text, size, 0);
    CADRE_TRY_OR(parse(&in, text, size), fail);
    CADRE_TRY_OR(load(&in), fail);
fail:
    json_decref(in.root);
    cadre_id_map_fini(&in.map);
    cadre_vocab_fini(&in.raw);
    free(text);
    if (rc == CADRE_E_RESOURCE)
        cadre_fail(err, rc, "\"%s\": no memory for the tokeniser", path);
    return rc;
}

/* ---- encoding ---- */

struct flow {
    const struct cadre_tokenizer *tok;
    struct cadre_ids *list;
    struct cadre_error *err;
};

/* A text without added tokens. */
static cadre_status encode_plain(const struct flow *flow, const char *text, size_t size,
                                 bool is_first)
{
    const struct cadre_tokenizer *tok = flow->tok;
    const struct cadre_bpe_rule rule = {cadre_merges_find, &tok->merges};
    cadre_status rc = CADRE_OK;
    if (tok->kind == CADRE_TOKENIZER_BYTE_BPE) {
        struct cadre_words words = {
            .tok = tok,
            .text = text,
            .size = size,
            .list = flow->list,
            .err = flow->err,
            .rule = rule,
            .split = cadre_words_split_bytes,
        };
        for (size_t at = 0, end = 0; at < size && rc == CADRE_OK; at = end) {
            end = cadre_pretoken_end(tok->pretoken, text, size, at);
            rc = cadre_words_add(&words, at, end - at);
        }
        cadre_words_fini(&words);
        return rc;
    }
    if (tok->pieces.by_normalizer || !tok->pieces.replaces)
        return cadre_pieces_encode(tok, &rule, text, size, flow->list, flow->err);
    char *body = NULL;
    size_t n = 0;
    const bool is_bare = tok->pieces.prefix == CADRE_PREFIX_FIRST && !is_first;
    rc = cadre_pieces_normalize(&tok->pieces,
                                is_bare ? CADRE_PREFIX_NONE : tok->pieces.prefix, text,
                                size, &body, &n);
    if (rc == CADRE_OK)
        rc = cadre_pieces_encode(tok, &rule, body, n, flow->list, flow->err);
    free(body);
    return rc;
}

static cadre_status encode_part(const struct flow *flow, const char *text, size_t size,
                                bool is_first);

/* Divide a text at the added tokens of its kind, normalised or not. */
static cadre_status encode_between(const struct flow *flow, bool normalized,
                                   const char *text, size_t size, bool is_first)
{
    struct cadre_added_match match;
    for (size_t at = 0; at < size; at = match.end) {
        const bool more = cadre_added_tokens_next(&flow->tok->added, normalized, text,
                                                  size, at, &match);
        const size_t end = more ? match.begin : size;
        if (end > at && normalized)
            CADRE_TRY(encode_plain(flow, text + at, end - at, is_first && at == 0));
        else if (end > at)
            CADRE_TRY(encode_part(flow, text + at, end - at, is_first && at == 0));
        if (!more)
            return CADRE_OK;
        CADRE_TRY(cadre_ids_append(flow->list, &match.id, 1));
    }
    return CADRE_OK;
}

/* A text without added tokens that are sought before it is normalised. */
static cadre_status encode_part(const struct flow *flow, const char *text, size_t size,
                                bool is_first)
{
    char *normal = NULL;
    size_t n = size;
    CADRE_TRY(normalize(flow->tok, text, size, &normal, &n));
    cadre_status rc =
        encode_between(flow, true, normal ? normal : text, normal ? n : size, is_first);
    free(normal);
    return rc;
}

cadre_status cadre_tokenizer_encode_json(const struct cadre_tokenizer *tok,
                                         const char *text, size_t size,
                                         struct cadre_ids *list,
                                         struct cadre_error *err)
{
    const struct flow flow = {tok, list, err};
    return encode_between(&flow, false, text, size, true);
}
