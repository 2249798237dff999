/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and the parts that every kind shares. */
#include "core/data/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/hash.h"
#include "core/base/path.h"
#include "core/base/utf8.h"
#include "core/data/tokenizer/tokenizer_kind.h"

enum { LLAMA2C_BOS = 1, BYTE_EOS = 0 };

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* By the names that transformers looks for, those of the fast tokenizers first. */
static const struct {
    const char *file, *beside; /* beside: needed too */
    cadre_status (*load)(struct cadre_tokenizer *tok, const char *path,
                         struct cadre_error *err);
    bool by_folder;
} kinds[] = {
    {"tokenizer.json", "tokenizer.json", cadre_tokenizer_load_json, false},
    {"tokenizer.model", "tokenizer.model", cadre_tokenizer_load_sentencepiece, false},
    {"vocab.json", "merges.txt", cadre_tokenizer_load_gpt2, true},
    {"encoder.json", "vocab.bpe", cadre_tokenizer_load_gpt2, true},
    {"tokenizer.bin", "tokenizer.bin", cadre_tokenizer_load_llama2c, false},
};

/* Which of kinds a folder holds, -1 for none. */
static int kind_in(const char *folder)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (cadre_path_has(folder, kinds[i].file) &&
            cadre_path_has(folder, kinds[i].beside))
            return (int)i;
    return -1;
}

bool cadre_tokenizer_in_folder(const char *folder)
{
    return kind_in(folder) >= 0;
}

static cadre_status load_file(struct cadre_tokenizer *tok, const char *path,
                              struct cadre_error *err)
{
    const char *slash = strrchr(path, '/');
    char folder[4096] = ".";
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + (slash == path),
                 path);
    if (ends_with(path, "vocab.json") || ends_with(path, "encoder.json"))
        return cadre_fail(err, CADRE_E_INVALID,
                          "tokenizer \"%s\" is one of two files of GPT-2's: name the "
                          "folder that has both",
                          path);
    if (ends_with(path, ".json"))
        CADRE_TRY(cadre_tokenizer_load_json(tok, path, err));
    else if (ends_with(path, ".model"))
        CADRE_TRY(cadre_tokenizer_load_sentencepiece(tok, path, err));
    else
        return cadre_tokenizer_load_llama2c(tok, path, err);
    return cadre_tokenizer_load_config(tok, folder, err);
}

static cadre_status load_folder(struct cadre_tokenizer *tok, const char *folder,
                                struct cadre_error *err)
{
    char path[4096];
    const int kind = kind_in(folder);
    if (kind < 0 || kinds[kind].by_folder)
        CADRE_TRY(cadre_tokenizer_load_gpt2(tok, folder, err));
    else if (snprintf(path, sizeof path, "%s/%s", folder, kinds[kind].file) >=
             (int)sizeof path)
        return cadre_fail(err, CADRE_E_INVALID, "\"%.60s...\" is too long", folder);
    else
        CADRE_TRY(kinds[kind].load(tok, path, err));
    return tok->kind == CADRE_TOKENIZER_LLAMA2C
               ? CADRE_OK
               : cadre_tokenizer_load_config(tok, folder, err);
}

static cadre_status load(struct cadre_tokenizer *tok, const char *spec,
                         struct cadre_error *err)
{
    struct stat st;
    tok->bos = tok->eos = tok->pad = -1;
    for (int b = 0; b < 256; b++)
        tok->single[b] = (char)b;
    if (!spec || spec[0] == '\0' || strcmp(spec, "byte") == 0) {
        tok->eos = BYTE_EOS;
        return CADRE_OK;
    }
    if (stat(spec, &st) != 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "tokenizer \"%s\": expected byte, a folder with a tokenizer, or its file "
            "tokenizer.json, tokenizer.model or tokenizer.bin (llama2.c); nothing has "
            "this name",
            spec);
    return S_ISDIR(st.st_mode) ? load_folder(tok, spec, err)
                               : load_file(tok, spec, err);
}

cadre_status cadre_tokenizer_open(const char *spec, struct cadre_tokenizer **out,
                                  struct cadre_error *err)
{
    struct cadre_tokenizer *tok = calloc(1, sizeof *tok);
    if (!tok)
        return cadre_no_memory(err, "a tokeniser");
    cadre_status rc = load(tok, spec, err);
    if (rc == CADRE_OK)
        *out = tok;
    else
        cadre_tokenizer_close(tok);
    return rc;
}

void cadre_tokenizer_close(struct cadre_tokenizer *tok)
{
    if (!tok)
        return;
    cadre_vocab_fini(&tok->vocab);
    cadre_vocab_fini(&tok->shown);
    cadre_merges_fini(&tok->merges);
    cadre_added_tokens_fini(&tok->added);
    free(tok->scores);
    free(tok->types);
    pcre2_code_free(tok->pattern);
    free(tok);
}

const char *cadre_tokenizer_kind_name(const struct cadre_tokenizer *tok)
{
    static const char *const names[] = {
        [CADRE_TOKENIZER_BYTE] = "bytes",
        [CADRE_TOKENIZER_GPT2] = "GPT-2's byte-level BPE",
        [CADRE_TOKENIZER_LLAMA2C] = "llama2.c's tokenizer.bin",
        [CADRE_TOKENIZER_BYTE_BPE] = "Hugging Face's tokenizer.json, byte-level BPE",
        [CADRE_TOKENIZER_PIECES] = "Hugging Face's tokenizer.json, BPE",
        [CADRE_TOKENIZER_SENTENCEPIECE] = "SentencePiece's tokenizer.model",
    };
    return names[tok->kind];
}

int64_t cadre_tokenizer_vocab(const struct cadre_tokenizer *tok)
{
    return tok->kind == CADRE_TOKENIZER_BYTE ? 256 : tok->vocab.count;
}

uint64_t cadre_tokenizer_fingerprint(const struct cadre_tokenizer *tok)
{
    struct cadre_hash hash;
    cadre_hash_init(&hash, (uint64_t)tok->kind);
    if (tok->file_hash != 0) {
        cadre_hash_update(&hash, &tok->file_hash, sizeof tok->file_hash);
    } else if (tok->kind != CADRE_TOKENIZER_BYTE) {
        size_t count = (size_t)tok->vocab.count;
        cadre_hash_update(&hash, tok->vocab.pool, tok->vocab.pool_size);
        cadre_hash_update(&hash, tok->vocab.entries,
                          count * sizeof *tok->vocab.entries);
        if (tok->merges.slots)
            cadre_hash_update(&hash, tok->merges.slots,
                              ((size_t)tok->merges.mask + 1) *
                                  sizeof *tok->merges.slots);
        if (tok->scores)
            cadre_hash_update(&hash, tok->scores, count * sizeof *tok->scores);
    }
    return cadre_hash_final(&hash);
}

int32_t cadre_tokenizer_bos(const struct cadre_tokenizer *tok)
{
    return tok->bos;
}

int32_t cadre_tokenizer_eos(const struct cadre_tokenizer *tok)
{
    return tok->eos;
}

struct cadre_tokenizer_marks cadre_tokenizer_marks(const struct cadre_tokenizer *tok)
{
    return (struct cadre_tokenizer_marks){
        .known = true, .bos = tok->bos, .eos = tok->eos, .pad = tok->pad};
}

bool cadre_tokenizer_is_special(const struct cadre_tokenizer *tok, int32_t id)
{
    for (size_t i = 0; i < tok->added.count; i++)
        if (tok->added.tokens[i].id == id)
            return true;
    return id >= 0 && (id == tok->bos || id == tok->eos);
}

cadre_status cadre_tokenizer_frame(const struct cadre_tokenizer *tok, int32_t **ids,
                                   size_t *count, struct cadre_error *err)
{
    const struct cadre_frame *frame = &tok->frame;
    const size_t n = frame->n_before + *count + frame->n_after;
    int32_t *framed = malloc((n + 1) * sizeof *framed);
    if (!framed)
        return cadre_no_memory(err, "a prompt of %zu tokens", n);
    memcpy(framed, frame->before, frame->n_before * sizeof *framed);
    if (*count > 0)
        memcpy(framed + frame->n_before, *ids, *count * sizeof *framed);
    memcpy(framed + frame->n_before + *count, frame->after,
           frame->n_after * sizeof *framed);
    free(*ids);
    *ids = framed;
    *count = n;
    return CADRE_OK;
}

cadre_status cadre_ids_append(struct cadre_ids *list, const int32_t *ids, size_t count)
{
    if (list->count + count > list->capacity) {
        size_t capacity = 2 * (list->count + count) + 64;
        int32_t *grown = realloc(list->ids, capacity * sizeof *grown);
        if (!grown)
            return CADRE_E_RESOURCE;
        list->ids = grown;
        list->capacity = capacity;
    }
    if (count > 0)
        memcpy(list->ids + list->count, ids, count * sizeof *ids);
    list->count += count;
    return CADRE_OK;
}

static cadre_status encode_bytes(const char *text, size_t size, struct cadre_ids *list)
{
    list->ids = malloc((size + 1) * sizeof *list->ids);
    if (!list->ids)
        return CADRE_E_RESOURCE;
    for (size_t i = 0; i < size; i++)
        list->ids[i] = (unsigned char)text[i];
    list->count = size;
    return CADRE_OK;
}

static cadre_status require_utf8(const char *text, size_t size, struct cadre_error *err)
{
    for (size_t at = 0; at < size;) {
        size_t bytes = cadre_utf8_char(text + at, size - at);
        if (bytes == 0)
            return cadre_fail(
                err, CADRE_E_INVALID,
                "byte %zu of the text (0x%02x): expected UTF-8; convert the "
                "text, or use tokenizer = byte",
                at, (unsigned char)text[at]);
        at += bytes;
    }
    return CADRE_OK;
}

static cadre_status encode_text(const struct cadre_tokenizer *tok, const char *text,
                                size_t size, struct cadre_ids *list,
                                struct cadre_error *err)
{
    switch (tok->kind) {
    case CADRE_TOKENIZER_GPT2:
        return cadre_tokenizer_encode_gpt2(tok, text, size, list, err);
    case CADRE_TOKENIZER_LLAMA2C:
        return cadre_tokenizer_encode_llama2c(tok, text, size, list, err);
    case CADRE_TOKENIZER_SENTENCEPIECE:
        return cadre_tokenizer_encode_sentencepiece(tok, text, size, list, err);
    default:
        return cadre_tokenizer_encode_json(tok, text, size, list, err);
    }
}

cadre_status cadre_tokenizer_encode(const struct cadre_tokenizer *tok, const char *text,
                                    size_t size, int32_t **ids, size_t *count,
                                    struct cadre_error *err)
{
    struct cadre_ids list = {0};
    cadre_status rc;
    if (tok->kind == CADRE_TOKENIZER_BYTE) {
        CADRE_TRY_OR(encode_bytes(text, size, &list), fail);
    } else {
        CADRE_TRY_OR(require_utf8(text, size, err), fail);
        CADRE_TRY_OR(cadre_ids_append(&list, NULL, 0), fail);
        CADRE_TRY_OR(encode_text(tok, text, size, &list, err), fail);
    }
    *ids = list.ids;
    *count = list.count;
    return CADRE_OK;
fail:
    free(list.ids);
    if (rc == CADRE_E_RESOURCE)
        cadre_fail(err, rc, "no memory for the tokens of %zu bytes", size);
    return rc;
}

/* "<0x0A>" stands for one byte in llama2.c's vocabularies; -1 for other pieces. */
static int byte_of_piece(const char *piece, size_t size)
{
    int value = 0;
    if (size != 6 || memcmp(piece, "<0x", 3) != 0 || piece[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        bool is_digit = piece[i] >= '0' && piece[i] <= '9';
        if (!is_digit && (piece[i] < 'A' || piece[i] > 'F'))
            return -1;
        value = value * 16 + piece[i] - (is_digit ? '0' : 'A' - 10);
    }
    return value;
}

cadre_status cadre_tokenizer_decode(const struct cadre_tokenizer *tok, int32_t previous,
                                    int32_t id, const char **bytes, size_t *size)
{
    if (tok->kind == CADRE_TOKENIZER_BYTE) {
        if (id < 0 || id > 255)
            return CADRE_E_INVALID;
        *bytes = &tok->single[id];
        *size = 1;
        return CADRE_OK;
    }
    if (tok->kind >= CADRE_TOKENIZER_PIECES)
        return cadre_pieces_decode(tok, previous, id, bytes, size);
    size_t found_size = 0;
    const char *found = cadre_vocab_get(&tok->vocab, id, &found_size);
    if (!found && tok->kind == CADRE_TOKENIZER_BYTE_BPE && id >= 0 &&
        id < tok->vocab.count)
        found = tok->single; /* an id between others that stands for nothing */
    if (!found)
        return CADRE_E_INVALID;
    if (tok->kind == CADRE_TOKENIZER_LLAMA2C) {
        int byte = byte_of_piece(found, found_size);
        bool drop = previous == LLAMA2C_BOS && found_size > 0 && found[0] == ' ';
        found = byte >= 0 ? &tok->single[byte] : found + drop;
        found_size = byte >= 0 ? 1 : found_size - drop;
    }
    *bytes = found;
    *size = found_size;
    return CADRE_OK;
}

/* No pattern joins a blank to what stands before it, so the text can be divided between
 * a printing ASCII byte and a blank; GPT-2's also before a line end. */
size_t cadre_tokenizer_cut(const struct cadre_tokenizer *tok, const char *text,
                           size_t size)
{
    const bool is_gpt2 = tok->kind == CADRE_TOKENIZER_GPT2;
    if (tok->kind == CADRE_TOKENIZER_BYTE)
        return size;
    if (!is_gpt2 && (tok->kind != CADRE_TOKENIZER_BYTE_BPE ||
                     !cadre_added_tokens_can_cut(&tok->added)))
        return 0;
    for (size_t at = size; at > 1; at--)
        if ((text[at - 1] == ' ' || (is_gpt2 && text[at - 1] == '\n')) &&
            text[at - 2] > ' ' && text[at - 2] < 127)
            return at - 1;
    return 0;
}
