/* SPDX-License-Identifier: Apache-2.0 */
/* Source: the serialised forms of huggingface/tokenizers: normalizers/,
 * pre_tokenizers/, decoders/ and processors/template.rs. */
#include "core/data/tokenizer/tokenizer_json_private.h"

#include <stdlib.h>
#include <string.h>

struct part {
    struct cadre_tokenizer *tok;
    const char *path;
    const char *name; /* "normalizer" */
    struct cadre_error *err;
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool is_type(const json_t *object, const char *type)
{
    return strcmp(text_of(object, "type"), type) == 0;
}

static bool is_none(const json_t *value)
{
    return !value || json_is_null(value);
}

/* A boolean, which is `missing` where it is not given. */
static bool flag(const json_t *object, const char *key, bool missing)
{
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : missing;
}

static cadre_status refuse(const struct part *part, const json_t *value,
                           const char *known)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    cadre_status rc = cadre_fail(
        part->err, CADRE_E_UNSUPPORTED,
        "\"%s\": %s is %.160s%s, which is not supported: expected %s; data.tokenizer "
        "can name another tokenizer",
        part->path, part->name, text ? text : "?",
        text && strlen(text) > 160 ? "..." : "", known);
    free(text);
    return rc;
}

/* The list inside a Sequence; `key` names it. NULL where it is no Sequence. */
static const json_t *sequence(const json_t *value, const char *key)
{
    return is_type(value, "Sequence") ? json_object_get(value, key) : NULL;
}

/* ---- normalizer ---- */

static bool is_replace(const json_t *one, const char *from, const char *to)
{
    return is_type(one, "Replace") &&
           strcmp(text_of(json_object_get(one, "pattern"), "String"), from) == 0 &&
           strcmp(text_of(one, "content"), to) == 0;
}

static bool take_normalizer(struct cadre_tokenizer *tok, const json_t *one)
{
    struct cadre_pieces *pieces = &tok->pieces;
    if (is_type(one, "NFC")) {
        tok->composes = true;
        return !pieces->by_normalizer;
    }
    if (is_type(one, "Prepend") && !pieces->replaces && !tok->composes &&
        strcmp(text_of(one, "prepend"), CADRE_PIECE_BLANK) == 0) {
        pieces->prefix = CADRE_PREFIX_EVERY;
        pieces->by_normalizer = true;
        return true;
    }
    if (is_replace(one, " ", CADRE_PIECE_BLANK) && !tok->composes) {
        pieces->replaces = pieces->by_normalizer = true;
        return true;
    }
    return false;
}

static cadre_status read_normalizer(const struct part *part, const json_t *value)
{
    static const char known[] = "null, NFC, or Prepend and Replace of blanks by U+2581";
    const json_t *list = sequence(value, "normalizers");
    const json_t *one;
    size_t i;
    bool good = true;
    if (is_none(value))
        return CADRE_OK;
    if (!list)
        good = take_normalizer(part->tok, value);
    json_array_foreach(list, i, one) good = good && take_normalizer(part->tok, one);
    const struct cadre_pieces *pieces = &part->tok->pieces;
    if (!good || (pieces->by_normalizer && !pieces->replaces))
        return refuse(part, value, known);
    return CADRE_OK;
}

/* ---- pre_tokenizer ---- */

static bool is_byte_level(const json_t *one, bool use_regex)
{
    return is_type(one, "ByteLevel") && !flag(one, "add_prefix_space", true) &&
           flag(one, "use_regex", true) == use_regex;
}

static bool take_split(struct cadre_tokenizer *tok, const json_t *one)
{
    const char *regex = text_of(json_object_get(one, "pattern"), "Regex");
    tok->pretoken = cadre_pretoken_of(regex);
    return is_type(one, "Split") && strcmp(text_of(one, "behavior"), "Isolated") == 0 &&
           !flag(one, "invert", false) && tok->pretoken != CADRE_PRETOKEN_UNKNOWN;
}

static bool take_metaspace(struct cadre_tokenizer *tok, const json_t *one)
{
    struct cadre_pieces *pieces = &tok->pieces;
    const bool old = flag(one, "add_prefix_space", true);
    const char *scheme = text_of(one, "prepend_scheme");
    if (!*scheme)
        scheme = old ? "always" : "never";
    pieces->replaces = true;
    pieces->divides = flag(one, "split", true);
    pieces->prefix = strcmp(scheme, "always") == 0  ? CADRE_PREFIX_ALWAYS
                     : strcmp(scheme, "first") == 0 ? CADRE_PREFIX_FIRST
                                                    : CADRE_PREFIX_NONE;
    const char *mark = text_of(one, "replacement");
    return strcmp(mark, CADRE_PIECE_BLANK) == 0 && !pieces->by_normalizer &&
           !tok->composes &&
           (pieces->prefix != CADRE_PREFIX_NONE || strcmp(scheme, "never") == 0);
}

static cadre_status read_pre_tokenizer(const struct part *part, const json_t *value)
{
    static const char known[] =
        "ByteLevel without add_prefix_space, Split by the pattern of Llama 3 or Qwen2 "
        "and ByteLevel without use_regex, Metaspace of U+2581, or null";
    struct cadre_tokenizer *tok = part->tok;
    const json_t *list = sequence(value, "pretokenizers");
    tok->kind = CADRE_TOKENIZER_PIECES;
    if (is_none(value))
        return CADRE_OK;
    if (is_type(value, "Metaspace"))
        return take_metaspace(tok, value) ? CADRE_OK : refuse(part, value, known);
    tok->kind = CADRE_TOKENIZER_BYTE_BPE;
    const bool good = list ? json_array_size(list) == 2 &&
                                 take_split(tok, json_array_get(list, 0)) &&
                                 is_byte_level(json_array_get(list, 1), false)
                           : is_byte_level(value, true);
    return good && !tok->pieces.by_normalizer ? CADRE_OK : refuse(part, value, known);
}

/* ---- decoder ---- */

/* Replace, ByteFallback, Fuse and perhaps Strip, in this order. */
static bool take_pieces_decoder(struct cadre_tokenizer *tok, const json_t *list)
{
    const size_t n = json_array_size(list);
    const json_t *strip = json_array_get(list, 3);
    if (n < 3 || n > 4 ||
        !is_replace(json_array_get(list, 0), CADRE_PIECE_BLANK, " ") ||
        !is_type(json_array_get(list, 1), "ByteFallback") ||
        !is_type(json_array_get(list, 2), "Fuse"))
        return false;
    if (!strip)
        return true;
    tok->pieces.strip = CADRE_STRIP_ONE;
    return is_type(strip, "Strip") && strcmp(text_of(strip, "content"), " ") == 0 &&
           json_integer_value(json_object_get(strip, "start")) == 1 &&
           json_integer_value(json_object_get(strip, "stop")) == 0;
}

static bool take_metaspace_decoder(struct cadre_tokenizer *tok, const json_t *value)
{
    const bool never = strcmp(text_of(value, "prepend_scheme"), "never") == 0 ||
                       !flag(value, "add_prefix_space", true);
    tok->pieces.strip = never ? CADRE_STRIP_NONE : CADRE_STRIP_ALL;
    return is_type(value, "Metaspace") && !tok->pieces.byte_fallback &&
           strcmp(text_of(value, "replacement"), CADRE_PIECE_BLANK) == 0;
}

static cadre_status read_decoder(const struct part *part, const json_t *value)
{
    struct cadre_tokenizer *tok = part->tok;
    if (tok->kind == CADRE_TOKENIZER_BYTE_BPE)
        return is_type(value, "ByteLevel") ? CADRE_OK
                                           : refuse(part, value, "ByteLevel");
    const json_t *list = sequence(value, "decoders");
    if (list ? take_pieces_decoder(tok, list) : take_metaspace_decoder(tok, value))
        return CADRE_OK;
    return refuse(part, value,
                  "a Sequence of Replace, ByteFallback, Fuse and Strip, or Metaspace "
                  "without byte_fallback");
}

cadre_status cadre_json_parts_read(struct cadre_tokenizer *tok, const json_t *root,
                                   const char *path, struct cadre_error *err)
{
    static const struct {
        const char *name;
        cadre_status (*read)(const struct part *part, const json_t *value);
    } parts[] = {
        {"normalizer", read_normalizer},
        {"pre_tokenizer", read_pre_tokenizer},
        {"decoder", read_decoder},
    };
    static const char *const unused[] = {"truncation", "padding"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const struct part part = {tok, path, parts[i].name, err};
        CADRE_TRY(parts[i].read(&part, json_object_get(root, parts[i].name)));
    }
    for (size_t i = 0; i < sizeof unused / sizeof unused[0]; i++) {
        const struct part part = {tok, path, unused[i], err};
        const json_t *value = json_object_get(root, unused[i]);
        if (!is_none(value))
            return refuse(&part, value, "null, as save_pretrained writes it");
    }
    return CADRE_OK;
}

/* ---- post_processor ---- */

/* The ids of a special token of a template, before or behind the text. */
static bool take_special(struct cadre_tokenizer *tok, const json_t *processor,
                         const char *name, bool behind)
{
    const json_t *token =
        json_object_get(json_object_get(processor, "special_tokens"), name);
    const json_t *ids = json_object_get(token, "ids"), *one;
    struct cadre_frame *frame = &tok->frame;
    int32_t *to = behind ? frame->after : frame->before;
    size_t *n = behind ? &frame->n_after : &frame->n_before, i;
    bool good = json_array_size(ids) > 0;
    json_array_foreach(ids, i, one)
    {
        const json_int_t id = json_is_integer(one) ? json_integer_value(one) : -1;
        good = good && id >= 0 && id < tok->vocab.count && *n < CADRE_FRAME_MAX;
        if (good)
            to[(*n)++] = (int32_t)id;
    }
    return good;
}

static bool take_template(struct cadre_tokenizer *tok, const json_t *processor)
{
    const json_t *single = json_object_get(processor, "single"), *one;
    size_t i;
    int texts = 0;
    bool good = true;
    json_array_foreach(single, i, one)
    {
        const json_t *special = json_object_get(one, "SpecialToken");
        if (special)
            good = good && take_special(tok, processor, text_of(special, "id"), texts);
        else
            texts += json_object_get(one, "Sequence") != NULL;
    }
    return good && texts == 1;
}

static cadre_status take_processor(const struct part *part, const json_t *value)
{
    if (is_none(value) || is_type(value, "ByteLevel"))
        return CADRE_OK;
    if (is_type(value, "TemplateProcessing") && take_template(part->tok, value))
        return CADRE_OK;
    return refuse(part, value, "null, ByteLevel or TemplateProcessing of known tokens");
}

cadre_status cadre_json_parts_frame(struct cadre_tokenizer *tok, const json_t *root,
                                    const char *path, struct cadre_error *err)
{
    const struct part part = {tok, path, "post_processor", err};
    const json_t *value = json_object_get(root, part.name), *one;
    const json_t *list = sequence(value, "processors");
    size_t i;
    if (!list)
        return take_processor(&part, value);
    json_array_foreach(list, i, one) CADRE_TRY(take_processor(&part, one));
    return CADRE_OK;
}
