/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, the split, and samples. A split is a list of spans: one stream of text or
 * tokens, or the windows of one record each. */
#include "core/data/dataset.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/data/chat/instruct.h"
#include "core/data/dataset_split.h"
#include "core/data/text/text.h"
#include "core/data/wfdb/ecg.h"
#include "core/data/wfdb/wfdb_annotation.h"

enum { CONTEXT_MAX = 1 << 24 };

static bool is_given(const char *text)
{
    return text && text[0] != '\0';
}

static uint64_t stream_samples(uint64_t tokens, int64_t context)
{
    return tokens > 0 ? (tokens - 1) / (uint64_t)context : 0;
}

static void add_stream(struct cadre_dataset *set, enum cadre_data_split which,
                       const void *tokens, int width, uint64_t count)
{
    struct cadre_split *split = &set->splits[which];
    set->streams[which] = (struct cadre_span){
        .tokens = tokens,
        .width = width,
        .samples = stream_samples(count, set->info.seq_len),
    };
    split->spans = &set->streams[which];
    split->span_count = 1;
    split->samples = set->streams[which].samples;
    split->tokens = count;
}

static cadre_status check_stream(const struct cadre_dataset_config *config,
                                 struct cadre_error *err)
{
    if (config->context < 1 || config->context > CONTEXT_MAX)
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.context: expected 1 to %d, found %lld", CONTEXT_MAX,
                          (long long)config->context);
    return CADRE_OK;
}

static cadre_status require_contents(uint64_t size, const char *path,
                                     struct cadre_error *err)
{
    if (size > 0)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "\"%s\": expected data, found an empty file", path);
}

static void hash_stream(struct cadre_hash *hash, const uint8_t *bytes, uint64_t size)
{
    const uint64_t end = UINT64_C(1) << 26; /* of a large file, its two ends */
    cadre_hash_update(hash, &size, sizeof size);
    if (size <= 4 * end) {
        cadre_hash_update(hash, bytes, size);
    } else {
        cadre_hash_update(hash, bytes, end);
        cadre_hash_update(hash, bytes + size - end, end);
    }
}

/* The last `held` of `count` items are for validation. */
static void hold_end(struct cadre_dataset *set, uint64_t content, uint64_t count,
                     uint64_t held)
{
    set->info.holdout =
        (struct cadre_holdout){.content = content, .count = count, .held = held};
}

static cadre_status open_text(struct cadre_dataset *set,
                              const struct cadre_dataset_config *config,
                              struct cadre_hash *hash, struct cadre_error *err)
{
    struct cadre_tokenizer *tok = NULL;
    struct cadre_hash bytes = *hash;
    cadre_status rc;
    CADRE_TRY_OR(check_stream(config, err), fail);
    rc = cadre_mapping_init(config->path, &set->map, err);
    if (rc != CADRE_OK) {
        cadre_error_prefix(err, "data.path");
        goto fail;
    }
    CADRE_TRY_OR(require_contents(set->map.size, config->path, err), fail);
    CADRE_TRY_OR(cadre_text_check(&set->map, config->path, err), fail);
    CADRE_TRY_OR(cadre_tokenizer_open(config->tokenizer, &tok, err), fail);
    set->info.vocab = cadre_tokenizer_vocab(tok);
    set->info.marks = cadre_tokenizer_marks(tok);
    set->info.seq_len = config->context;
    const uint64_t at =
        cadre_text_split(set->map.bytes, set->map.size, config->valid_fraction);
    hash_stream(&bytes, set->map.bytes, set->map.size);
    hold_end(set, cadre_hash_final(&bytes), set->map.size, set->map.size - at);
    if (!is_given(config->tokenizer) || strcmp(config->tokenizer, "byte") == 0) {
        *hash = bytes;
        add_stream(set, CADRE_SPLIT_TRAIN, set->map.bytes, 1, at);
        add_stream(set, CADRE_SPLIT_VALID, set->map.bytes + at, 1, set->map.size - at);
    } else {
        CADRE_TRY_OR(cadre_text_open(&set->map, config->path, tok,
                                     config->valid_fraction, config->cache_dir,
                                     &set->cache, err),
                     fail);
        cadre_mapping_fini(&set->map);
        cadre_hash_update(hash, &set->cache.content_hash, sizeof(uint64_t));
        for (int s = 0; s < 2; s++) {
            const struct cadre_cache_record *record = &set->cache.records[s];
            const void *wide = record->wide;
            add_stream(set, (enum cadre_data_split)s, wide ? wide : record->tokens,
                       wide ? 4 : 2, record->token_count);
        }
    }
fail:
    cadre_tokenizer_close(tok);
    return rc;
}

static int64_t largest_plus_one(const struct cadre_token_file *file)
{
    int64_t largest = -1;
    for (uint64_t i = 0; i < file->count; i++)
        largest = file->tokens[i] > largest ? file->tokens[i] : largest;
    return largest + 1;
}

/* Also of what is validated on, before a step is spent. */
static cadre_status check_ids(const struct cadre_token_file *file, const char *path,
                              int64_t vocab, struct cadre_error *err)
{
    uint64_t at = 0;
    while (at < file->count && file->tokens[at] < vocab)
        at++;
    if (at == file->count)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "data.path: \"%s\": token %llu has the id %d, expected ids below "
                      "model.vocab = %lld; raise it, or leave it out to take that of "
                      "the data",
                      path, (unsigned long long)at, file->tokens[at], (long long)vocab);
}

static cadre_status open_tokens(struct cadre_dataset *set,
                                const struct cadre_dataset_config *config,
                                struct cadre_hash *hash, struct cadre_error *err)
{
    const struct cadre_token_file *file = &set->file;
    CADRE_TRY(check_stream(config, err));
    CADRE_TRY(cadre_token_file_init(config->path, &set->file, err));
    CADRE_TRY(require_contents(file->count, config->path, err));
    set->info.seq_len = config->context;
    set->info.vocab = config->vocab;
    if (config->vocab > 0)
        CADRE_TRY(check_ids(file, config->path, config->vocab, err));
    else
        set->info.vocab = largest_plus_one(file);
    hash_stream(hash, (const uint8_t *)file->tokens, file->count * sizeof(uint16_t));
    uint64_t kept = (uint64_t)((double)file->count * (1 - config->valid_fraction));
    hold_end(set, cadre_hash_final(hash), file->count, file->count - kept);
    add_stream(set, CADRE_SPLIT_TRAIN, file->tokens, 2, kept);
    add_stream(set, CADRE_SPLIT_VALID, file->tokens + kept, 2, file->count - kept);
    return CADRE_OK;
}

static cadre_status parse_task(struct cadre_dataset *set, const char *task,
                               struct cadre_error *err)
{
    set->classes = CADRE_CLASSES_NONE;
    if (!is_given(task) || strcmp(task, "foundation") == 0)
        return CADRE_OK;
    if (strcmp(task, "beats") == 0)
        set->classes = CADRE_CLASSES_AAMI;
    else if (strcmp(task, "vbd") == 0)
        set->classes = CADRE_CLASSES_VENTRICULAR;
    else
        return cadre_fail(
            err, CADRE_E_INVALID,
            "data.task: expected foundation, beats or vbd, found \"%.60s\"", task);
    set->info.task = CADRE_TASK_CLASSIFY;
    set->info.classes = set->classes == CADRE_CLASSES_AAMI ? CADRE_AAMI_CLASSES : 2;
    return CADRE_OK;
}

static cadre_status open_wfdb(struct cadre_dataset *set,
                              const struct cadre_dataset_config *config,
                              struct cadre_hash *hash, struct cadre_error *err)
{
    struct cadre_ecg_config ecg = {config->path, config->lead, config->window,
                                   config->levels, config->range_mv};
    CADRE_TRY(parse_task(set, config->task, err));
    CADRE_TRY(cadre_ecg_open(&ecg, config->cache_dir, &set->cache, err));
    set->window = config->window;
    set->info.vocab = config->levels;
    set->info.seq_len = config->window - (set->info.task == CADRE_TASK_LM);
    set->info.records = set->cache.count;
    CADRE_TRY(cadre_dataset_split_records(set, config, err));
    cadre_hash_update(hash, &set->cache.content_hash, sizeof(uint64_t));
    cadre_hash_update(hash, set->record_split, set->cache.count);
    cadre_hash_update_string(hash, set->classes == CADRE_CLASSES_NONE ? "foundation"
                                                                      : config->task);
    return CADRE_OK;
}

static bool is_images(const char *format)
{
    return strcmp(format, "idx") == 0 || strcmp(format, "images") == 0;
}

static cadre_status open_format(struct cadre_dataset *set,
                                const struct cadre_dataset_config *config,
                                struct cadre_hash *hash, struct cadre_error *err)
{
    const char *format = config->format ? config->format : "";
    if (!is_given(config->path))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "data.path is empty: expected a file (text, tokens, idx, instruct) or a "
            "folder of records (wfdb) or of classes (images)");
    if (!(config->valid_fraction >= 0 && config->valid_fraction < 1))
        return cadre_fail(err, CADRE_E_INVALID,
                          "data.valid_fraction: expected 0 to below 1, found %g",
                          config->valid_fraction);
    if (strcmp(format, "text") == 0)
        return open_text(set, config, hash, err);
    if (strcmp(format, "tokens") == 0)
        return open_tokens(set, config, hash, err);
    if (strcmp(format, "wfdb") == 0)
        return open_wfdb(set, config, hash, err);
    if (is_images(format))
        return cadre_dataset_open_images(set, config, hash, err);
    if (strcmp(format, "instruct") == 0) {
        CADRE_TRY(check_stream(config, err));
        return cadre_dataset_open_instruct(set, config, hash, err);
    }
    return cadre_fail(err, CADRE_E_INVALID,
                      "data.format: expected text, tokens, wfdb, idx, images or "
                      "instruct, found "
                      "\"%.60s\"",
                      format);
}

static uint64_t finish_fingerprint(const struct cadre_dataset *set,
                                   const struct cadre_dataset_config *config,
                                   struct cadre_hash *hash)
{
    const uint64_t facts[] = {(uint64_t)set->info.vocab, (uint64_t)set->info.seq_len,
                              set->info.train_samples,   set->info.valid_samples,
                              (uint64_t)config->shuffle, config->seed};
    cadre_hash_update_string(hash, config->format);
    cadre_hash_update(hash, facts, sizeof facts);
    return cadre_hash_final(hash);
}

cadre_status cadre_dataset_open(const struct cadre_dataset_config *config,
                                struct cadre_dataset **out, struct cadre_error *err)
{
    struct cadre_dataset *set = calloc(1, sizeof *set);
    struct cadre_hash hash;
    cadre_status rc;
    if (!set)
        return cadre_no_memory(err, "a data set");
    cadre_hash_init(&hash, 0);
    set->shuffle = config->shuffle;
    set->seed = config->seed;
    CADRE_TRY_OR(open_format(set, config, &hash, err), fail);
    if (set->images.count == 0)
        set->info.inputs = set->info.seq_len;
    set->info.train_samples = set->splits[CADRE_SPLIT_TRAIN].samples;
    set->info.valid_samples = set->splits[CADRE_SPLIT_VALID].samples;
    set->info.train_tokens = set->splits[CADRE_SPLIT_TRAIN].tokens;
    set->info.valid_tokens = set->splits[CADRE_SPLIT_VALID].tokens;
    set->info.fingerprint = finish_fingerprint(set, config, &hash);
    *out = set;
    return CADRE_OK;
fail:
    cadre_dataset_close(set);
    return rc;
}

void cadre_dataset_close(struct cadre_dataset *set)
{
    if (!set)
        return;
    for (int s = 0; s < 2; s++)
        if (set->splits[s].spans != &set->streams[s])
            free(set->splits[s].spans);
    free(set->record_split);
    cadre_cache_fini(&set->cache);
    cadre_images_fini(&set->images);
    cadre_instruct_close(set->instruct);
    cadre_token_file_fini(&set->file);
    cadre_mapping_fini(&set->map);
    free(set);
}

void cadre_dataset_info(const struct cadre_dataset *set,
                        struct cadre_dataset_info *info)
{
    *info = set->info;
}

const struct cadre_span *cadre_split_find(const struct cadre_split *split,
                                          uint64_t index)
{
    uint64_t low = 0, high = split->span_count - 1;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (split->spans[middle].first <= index)
            low = middle;
        else
            high = middle - 1;
    }
    return &split->spans[low];
}

int32_t cadre_dataset_label(const struct cadre_dataset *set, uint8_t code)
{
    if (set->classes == CADRE_CLASSES_VENTRICULAR)
        return code == CADRE_WFDB_PVC || code == CADRE_WFDB_VESC;
    return cadre_wfdb_aami_class(code);
}

static int32_t token_at(const struct cadre_span *span, uint64_t at)
{
    if (span->width < 4)
        return span->width == 1 ? ((const uint8_t *)span->tokens)[at]
                                : ((const uint16_t *)span->tokens)[at];
    const uint32_t wide = ((const uint32_t *)span->tokens)[at];
    return wide < INT32_MAX ? (int32_t)wide : INT32_MAX;
}

cadre_status cadre_dataset_sample(const struct cadre_dataset *set,
                                  enum cadre_data_split which, uint64_t index,
                                  int32_t *inputs, int32_t *targets, int32_t *label)
{
    const struct cadre_split *split = &set->splits[which];
    int64_t length = set->info.seq_len;
    bool is_lm = set->info.task == CADRE_TASK_LM;
    if (index >= split->samples)
        return CADRE_E_INVALID;
    if (set->images.count > 0)
        return cadre_dataset_image(set, which == CADRE_SPLIT_VALID, 0, index, inputs,
                                   targets, label);
    if (label)
        *label = -1;
    if (set->instruct)
        return cadre_dataset_sample_instruct(set, which, index, inputs, targets);
    const struct cadre_span *span = cadre_split_find(split, index);
    uint64_t within = index - span->first;
    uint64_t at = within * (uint64_t)(set->window ? set->window : length);
    int32_t highest = 0;
    for (int64_t t = 0; t < length; t++) {
        inputs[t] = token_at(span, at + (uint64_t)t);
        highest = inputs[t] > highest ? inputs[t] : highest;
    }
    for (int64_t t = 0; targets && t < length; t++)
        targets[t] =
            is_lm ? token_at(span, at + (uint64_t)t + 1) : CADRE_TARGET_IGNORED;
    if (targets && is_lm)
        highest = targets[length - 1] > highest ? targets[length - 1] : highest;
    if (label && !is_lm)
        *label = cadre_dataset_label(set, span->labels[within]);
    return highest < set->info.vocab ? CADRE_OK : CADRE_E_INVALID;
}

uint64_t cadre_dataset_order(const struct cadre_dataset *set, uint64_t position)
{
    const uint64_t n = set->info.train_samples, each = set->info.pairs ? 2 : 1;
    const uint64_t at = position % n;
    char name[48];
    if (!set->shuffle)
        return at;
    snprintf(name, sizeof name, "data.epoch.%llu", (unsigned long long)(position / n));
    const uint64_t key = cadre_rng_key(set->seed, name);
    return each * cadre_rng_permute(key, at / each, n / each) + at % each;
}

cadre_status cadre_dataset_train_sample(const struct cadre_dataset *set,
                                        uint64_t position, int32_t *inputs,
                                        int32_t *targets, int32_t *label)
{
    const uint64_t index = cadre_dataset_order(set, position);
    if (set->images.count > 0)
        return cadre_dataset_image(set, false, position / set->info.train_samples,
                                   index, inputs, targets, label);
    return cadre_dataset_sample(set, CADRE_SPLIT_TRAIN, index, inputs, targets, label);
}
