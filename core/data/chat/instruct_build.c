/* SPDX-License-Identifier: Apache-2.0 */
/* A dialogue's pieces are encoded one by one, so that the border of prompt and answer
 * is one of tokens. */
#include "core/data/chat/instruct_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/data/cache/mapping.h"
#include "core/data/chat/dialogue_file.h"
#include "core/data/chat/dialogue_render.h"
#include "core/data/chat/dialogue_text.h"

enum { KEY_VERSION = 1 }; /* raise when the same file would give other tokens */

struct build {
    const struct cadre_instruct_config *config;
    enum cadre_chat_template form;
    struct cadre_folder_template *model; /* of CADRE_CHAT_MODEL */
    const struct cadre_mapping *map;
    struct cadre_cache_writer *writer;
    struct cadre_error *err;
    uint64_t records; /* so far */
    bool pairs;
    /* of the dialogue that is encoded */
    int32_t *ids;
    uint8_t *mask;
    size_t count, capacity;
};

int cadre_instruct_words(const struct cadre_tokenizer *tokenizer)
{
    return cadre_tokenizer_vocab(tokenizer) > 65536 ? 2 : 1;
}

static cadre_status append(struct build *b, const int32_t *ids, size_t n, bool trained)
{
    if (b->count + n > b->capacity) {
        const size_t capacity = 2 * (b->count + n) + 256;
        int32_t *grown = realloc(b->ids, capacity * sizeof *grown);
        if (!grown)
            return cadre_no_memory(b->err, "a record's tokens");
        b->ids = grown;
        uint8_t *mask = realloc(b->mask, capacity);
        if (!mask)
            return cadre_no_memory(b->err, "a record's tokens");
        b->mask = mask;
        b->capacity = capacity;
    }
    if (n > 0)
        memcpy(b->ids + b->count, ids, n * sizeof *ids);
    memset(b->mask + b->count, trained, n);
    b->count += n;
    return CADRE_OK;
}

static cadre_status put_piece(void *arg, const struct cadre_piece *piece)
{
    struct build *b = arg;
    const struct cadre_tokenizer *tokenizer = b->config->tokenizer;
    const int32_t end = cadre_tokenizer_eos(tokenizer);
    int32_t *ids = NULL;
    size_t n = 0;
    cadre_status rc = CADRE_OK;
    if (piece->size > 0)
        rc = cadre_tokenizer_encode(tokenizer, piece->text, piece->size, &ids, &n,
                                    b->err);
    if (rc == CADRE_OK)
        rc = append(b, ids, n, piece->trained);
    if (rc == CADRE_OK && piece->ends)
        rc = append(b, &end, 1, piece->trained);
    free(ids);
    return rc;
}

static cadre_status write_tokens(const struct build *b)
{
    uint16_t words[4096];
    if (cadre_instruct_words(b->config->tokenizer) == 2)
        return cadre_cache_write_tokens(b->writer, (const uint16_t *)(void *)b->ids,
                                        2 * b->count);
    for (size_t at = 0; at < b->count;) {
        const size_t n = b->count - at < 4096 ? b->count - at : 4096;
        for (size_t i = 0; i < n; i++)
            words[i] = (uint16_t)b->ids[at + i];
        CADRE_TRY(cadre_cache_write_tokens(b->writer, words, n));
        at += n;
    }
    return CADRE_OK;
}

/* Mark the tokens of a span: those behind what its beginning and its end have in common
 * with the whole, each as tokens. */
static cadre_status mark(struct build *b, const char *text,
                         const struct cadre_span *span)
{
    const size_t ends[] = {span->begin, span->end};
    size_t at[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        int32_t *ids = NULL;
        size_t n = 0;
        if (ends[i] > 0)
            CADRE_TRY(cadre_tokenizer_encode(b->config->tokenizer, text, ends[i], &ids,
                                             &n, b->err));
        while (at[i] < n && at[i] < b->count && ids[at[i]] == b->ids[at[i]])
            at[i]++;
        free(ids);
    }
    if (at[1] > at[0])
        memset(b->mask + at[0], 1, at[1] - at[0]);
    return CADRE_OK;
}

/* The tokens are those of the whole text, as a model is given it elsewhere. */
static cadre_status put_rendered(struct build *b, const struct cadre_dialogue *dialogue)
{
    struct cadre_text text = {0};
    struct cadre_span *spans = cadre_calloc(dialogue->count, sizeof *spans);
    int32_t *ids = NULL;
    size_t n = 0, count = 0;
    cadre_status rc =
        spans ? cadre_dialogue_render(dialogue, b->model, &text, spans, &n, b->err)
              : cadre_no_memory(b->err, "a record's text");
    if (rc == CADRE_OK && text.len > 0)
        rc = cadre_tokenizer_encode(b->config->tokenizer, text.data, text.len, &ids,
                                    &count, b->err);
    if (rc == CADRE_OK)
        rc = append(b, ids, count, false);
    for (size_t i = 0; rc == CADRE_OK && i < n; i++)
        rc = mark(b, text.data, &spans[i]);
    free(ids);
    free(spans);
    cadre_text_fini(&text);
    return rc;
}

/* By a template of our own, behind a start of its own. */
static cadre_status put_pieces(struct build *b, const struct cadre_dialogue *dialogue)
{
    const int32_t bos = cadre_tokenizer_bos(b->config->tokenizer);
    if (bos >= 0 && bos != cadre_tokenizer_eos(b->config->tokenizer))
        CADRE_TRY(append(b, &bos, 1, false));
    const cadre_status rc = cadre_dialogue_text(dialogue, b->form, put_piece, b);
    return rc == CADRE_E_RESOURCE ? cadre_no_memory(b->err, "a record's text") : rc;
}

static cadre_status write_dialogue(struct build *b,
                                   const struct cadre_dialogue *dialogue, uint64_t line,
                                   const char *side)
{
    char name[48];
    b->count = 0;
    CADRE_TRY(b->model ? put_rendered(b, dialogue) : put_pieces(b, dialogue));
    snprintf(name, sizeof name, "%llu%s", (unsigned long long)line, side);
    CADRE_TRY(cadre_cache_write_record(b->writer, name));
    CADRE_TRY(write_tokens(b));
    return cadre_cache_write_labels(b->writer, b->mask, b->count);
}

static cadre_status write_record(struct build *b, const struct cadre_dialogue *dialogue,
                                 int n, uint64_t line)
{
    if (b->records++ == 0)
        b->pairs = n == 2;
    if (b->pairs != (n == 2))
        return cadre_fail(b->err, CADRE_E_INVALID,
                          "expected %s, as the records before have, found %s; keep "
                          "pairs in a file of their own",
                          b->pairs ? "a chosen and a rejected answer" : "one answer",
                          b->pairs ? "one answer" : "a chosen and a rejected one");
    for (int i = 0; i < n; i++)
        CADRE_TRY(write_dialogue(b, &dialogue[i], line,
                                 n == 1   ? ""
                                 : i == 0 ? " chosen"
                                          : " rejected"));
    return CADRE_OK;
}

static cadre_status each_record(void *arg, const json_t *record, uint64_t line,
                                struct cadre_error *err)
{
    struct build *b = arg;
    struct cadre_dialogue dialogue[2] = {{0}, {0}};
    int n = 0;
    b->err = err;
    cadre_status rc = cadre_dialogue_read(record, dialogue, &n, err);
    if (rc == CADRE_OK) {
        rc = write_record(b, dialogue, n, line);
        if (rc == CADRE_E_IO && err && err->code == CADRE_OK)
            cadre_fail(err, rc, "cannot write the token cache");
    }
    cadre_dialogue_fini(&dialogue[0]);
    cadre_dialogue_fini(&dialogue[1]);
    return rc;
}

static cadre_status build_cache(void *context, struct cadre_cache_writer *writer,
                                struct cadre_error *err)
{
    struct build *b = context;
    b->writer = writer;
    b->records = 0;
    return cadre_dialogue_file_read((const char *)b->map->bytes, b->map->size,
                                    b->config->path, each_record, b, err);
}

/* What makes other tokens of the same records. */
static uint64_t key_of(const struct build *b)
{
    const struct cadre_instruct_config *config = b->config;
    struct cadre_hash hash;
    const uint64_t facts[] = {cadre_tokenizer_fingerprint(config->tokenizer),
                              b->map->size, (uint64_t)b->map->mtime_ns,
                              (uint64_t)b->form};
    cadre_hash_init(&hash, KEY_VERSION);
    cadre_hash_update_string(&hash, "instruct");
    cadre_hash_update_string(&hash, config->path);
    cadre_hash_update(&hash, facts, sizeof facts);
    if (b->model) {
        const uint64_t model = cadre_folder_template_hash(b->model);
        cadre_hash_update(&hash, &model, sizeof model);
    }
    return cadre_hash_final(&hash);
}

static cadre_status open_model(struct build *b, struct cadre_error *err)
{
    if (b->form != CADRE_CHAT_MODEL)
        return CADRE_OK;
    const cadre_status rc =
        cadre_folder_template_open(b->config->tokenizer_spec, &b->model, err);
    if (rc != CADRE_OK)
        cadre_error_prefix(err, "data.template = model");
    return rc;
}

cadre_status cadre_instruct_build(const struct cadre_instruct_config *config,
                                  struct cadre_cache *cache, struct cadre_error *err)
{
    struct cadre_mapping map = {0};
    struct build b = {.config = config, .map = &map};
    CADRE_TRY(cadre_chat_template_parse(config->template_name, &b.form, err));
    if (cadre_tokenizer_eos(config->tokenizer) < 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "data.tokenizer: expected one with an end of sequence, which "
                          "ends each answer; this one has none");
    CADRE_TRY(open_model(&b, err));
    cadre_status rc = cadre_mapping_init(config->path, &map, err);
    if (rc != CADRE_OK)
        cadre_error_prefix(err, "data.path");
    else
        rc = cadre_cache_init(config->cache_dir, key_of(&b), build_cache, &b, cache,
                              err);
    cadre_mapping_fini(&map);
    cadre_folder_template_close(b.model);
    free(b.ids);
    free(b.mask);
    return rc;
}

bool cadre_instruct_is_chosen(const struct cadre_cache_record *record)
{
    const char *side = strchr(record->name, ' ');
    return side && strcmp(side, " chosen") == 0;
}
