/* SPDX-License-Identifier: Apache-2.0 */
/* What lies beside a tokenizer in a model folder: its start and end tokens, and whether
 * prompts get them. Source: tokenization_utils_base.py and tokenization_llama.py of
 * huggingface/transformers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json_read.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/data/tokenizer/tokenizer_kind.h"

enum { FILE_BYTES_MAX = 1 << 26 };

/* The object of a file of the folder; NULL where there is none. */
static cadre_status read_object(const char *folder, const char *name, json_t **root,
                                struct cadre_error *err)
{
    char *path = cadre_path_join(folder, name), *text = NULL;
    size_t size = 0;
    cadre_status rc = path ? CADRE_OK : cadre_no_memory(err, "a path");
    *root = NULL;
    if (rc == CADRE_OK && cadre_path_exists(path)) {
        rc = cadre_path_read_file(path, FILE_BYTES_MAX, &text, &size, err);
        if (rc == CADRE_OK)
            rc = cadre_json_read(text, size, path, root, err);
        if (rc == CADRE_OK && !json_is_object(*root))
            rc = cadre_fail(err, CADRE_E_INVALID, "\"%s\": expected an object", path);
    }
    free(text);
    free(path);
    return rc;
}

static bool is_token(const struct cadre_tokenizer *tok, int32_t id, const char *text,
                     size_t size)
{
    size_t n = 0;
    const char *bytes = cadre_vocab_get(&tok->vocab, id, &n);
    return bytes && n == size && memcmp(bytes, text, n) == 0;
}

/* The id of a token as it is written, added tokens first; -1 for none. */
static int32_t id_of(const struct cadre_tokenizer *tok, const char *text)
{
    const size_t size = strlen(text);
    for (size_t i = 0; i < tok->added.count; i++)
        if (is_token(tok, tok->added.tokens[i].id, text, size))
            return tok->added.tokens[i].id;
    for (int32_t id = 0; id < tok->vocab.count; id++)
        if (is_token(tok, id, text, size))
            return id;
    return -1;
}

/* A token "bos_token" of an object: a text, or an object with its content. */
static void take_token(const struct cadre_tokenizer *tok, const json_t *root,
                       const char *key, int32_t *id)
{
    const json_t *value = json_object_get(root, key);
    const char *text = json_string_value(
        json_is_object(value) ? json_object_get(value, "content") : value);
    if (*id < 0 && text)
        *id = id_of(tok, text);
}

/* A number "bos_token_id" of config.json, or a list of which the first counts. */
static void take_id(const struct cadre_tokenizer *tok, const json_t *root,
                    const char *key, int32_t *id)
{
    const json_t *value = json_object_get(root, key);
    if (json_is_array(value))
        value = json_array_get(value, 0);
    const json_int_t found = json_is_integer(value) ? json_integer_value(value) : -1;
    if (*id < 0 && found >= 0 && found < tok->vocab.count)
        *id = (int32_t)found;
}

static bool is_llama(const json_t *config)
{
    const char *class = json_string_value(json_object_get(config, "tokenizer_class"));
    return class &&
           (strncmp(class, "Llama", 5) == 0 || strncmp(class, "CodeLlama", 9) == 0);
}

/* add_bos_token and add_eos_token make the frame where transformers' class does so. */
static void take_frame(struct cadre_tokenizer *tok, const json_t *config)
{
    const json_t *bos = json_object_get(config, "add_bos_token");
    const json_t *eos = json_object_get(config, "add_eos_token");
    struct cadre_frame *frame = &tok->frame;
    const bool counts = tok->kind == CADRE_TOKENIZER_SENTENCEPIECE || is_llama(config);
    if (counts && json_is_boolean(bos)) {
        frame->before[0] = tok->bos;
        frame->n_before = json_is_true(bos) && tok->bos >= 0;
    }
    if (counts && json_is_boolean(eos)) {
        frame->after[0] = tok->eos;
        frame->n_after = json_is_true(eos) && tok->eos >= 0;
    }
}

/* GPT-2's two files say nothing of another class's words, nor of tokens added later. */
static cadre_status check_gpt2(const struct cadre_tokenizer *tok, const char *folder,
                               const json_t *config, struct cadre_error *err)
{
    const char *class = json_string_value(json_object_get(config, "tokenizer_class"));
    const char *key;
    json_t *one;
    if (class && strncmp(class, "GPT2Tokenizer", 13) != 0)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "\"%s\" has vocab.json and merges.txt of a %.60s, whose words "
            "they do not give; add its tokenizer.json, which "
            "transformers' save_pretrained writes",
            folder, class);
    json_object_foreach(json_object_get(config, "added_tokens_decoder"), key, one)
    {
        const long id = strtol(key, NULL, 10);
        const char *text = json_string_value(json_object_get(one, "content"));
        if (!text || id < 0 || id >= tok->vocab.count ||
            !is_token(tok, (int32_t)id, text, strlen(text)))
            return cadre_fail(err, CADRE_E_UNSUPPORTED,
                              "\"%s\": tokenizer_config.json adds the token %s, which "
                              "vocab.json has not; add its tokenizer.json, which "
                              "transformers' save_pretrained writes",
                              folder, key);
    }
    return CADRE_OK;
}

cadre_status cadre_tokenizer_load_config(struct cadre_tokenizer *tok,
                                         const char *folder, struct cadre_error *err)
{
    static const char *const files[] = {"tokenizer_config.json",
                                        "special_tokens_map.json", "config.json"};
    enum { N_FILES = sizeof files / sizeof files[0], LAST = N_FILES - 1 };
    const bool is_gpt2 = tok->kind == CADRE_TOKENIZER_GPT2;
    const bool is_json = tok->file_hash && tok->kind != CADRE_TOKENIZER_SENTENCEPIECE;
    json_t *root[N_FILES] = {0};
    int32_t bos = -1, eos = -1;
    cadre_status rc = CADRE_OK;
    for (int i = 0; i < N_FILES && rc == CADRE_OK; i++) {
        rc = read_object(folder, files[i], &root[i], err);
        if (i < LAST) {
            take_token(tok, root[i], "bos_token", &bos);
            take_token(tok, root[i], "eos_token", &eos);
            take_token(tok, root[i], "pad_token", &tok->pad);
        }
    }
    if (is_json) {
        if (bos < 0 && tok->frame.n_before == 1) /* of the post_processor */
            bos = tok->frame.before[0];
        take_id(tok, root[LAST], "bos_token_id", &bos);
        take_id(tok, root[LAST], "eos_token_id", &eos);
    }
    if (rc == CADRE_OK && is_gpt2)
        rc = check_gpt2(tok, folder, root[0], err);
    if (!is_gpt2) {
        tok->bos = bos >= 0 ? bos : tok->bos;
        tok->eos = eos >= 0 ? eos : tok->eos;
        take_frame(tok, root[0]);
    }
    for (int i = 0; i < N_FILES; i++)
        json_decref(root[i]);
    return rc;
}
