/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/chat/instruct.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/data/chat/instruct_build.h"
#include "core/data/chat/packing.h"

struct part {
    uint64_t *dialogue; /* (n): of the cache, in its order */
    uint64_t n;
    struct cadre_packing packing; /* of these */
    uint32_t *targets; /* (packing.windows) */
};

struct cadre_instruct {
    struct cadre_instruct_info info;
    struct cadre_cache cache;
    struct part parts[2];
    int64_t context;
    int words;
    int32_t end;
    bool train_on_prompt;
};

static uint64_t tokens_of(const struct cadre_instruct *set, uint64_t dialogue)
{
    return set->cache.records[dialogue].token_count / (uint64_t)set->words;
}

/* A dialogue takes a row for each of its tokens that another one follows. */
static int64_t rows_of(const struct cadre_instruct *set, uint64_t dialogue)
{
    const uint64_t n = tokens_of(set, dialogue);
    if (n > (uint64_t)set->context)
        return set->context;
    return n > 0 ? (int64_t)n - 1 : 0;
}

static int32_t token_at(const struct cadre_instruct *set,
                        const struct cadre_cache_record *record, int64_t at)
{
    int32_t wide;
    if (set->words == 1)
        return record->tokens[at];
    memcpy(&wide, record->tokens + 2 * at, sizeof wide);
    return wide;
}

static bool is_target(const struct cadre_instruct *set,
                      const struct cadre_cache_record *record, int64_t at)
{
    return set->train_on_prompt || record->labels[at] != 0;
}

/* ---- opening ---- */

static cadre_status check_cache(struct cadre_instruct *set, struct cadre_error *err)
{
    const struct cadre_cache *cache = &set->cache;
    set->info.pairs = cache->count > 0 && cadre_instruct_is_chosen(&cache->records[0]);
    for (uint64_t i = 0; i < cache->count; i++)
        if (cache->records[i].label_count != tokens_of(set, i))
            return cadre_fail(err, CADRE_E_INTERNAL,
                              "token cache: record \"%s\" has %llu masks for %llu "
                              "tokens",
                              cache->records[i].name,
                              (unsigned long long)cache->records[i].label_count,
                              (unsigned long long)tokens_of(set, i));
    return CADRE_OK;
}

/* Refuse, or tell of, what does not fit into a sample. */
static cadre_status check_lengths(const struct cadre_instruct *set,
                                  const struct cadre_instruct_config *config,
                                  struct cadre_error *err)
{
    const char *too_long = config->too_long ? config->too_long : "";
    const bool refuse = strcmp(too_long, "refuse") == 0;
    const uint64_t most = (uint64_t)set->context + 1;
    uint64_t cut = 0;
    if (*too_long && !refuse && strcmp(too_long, "truncate") != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "data.too_long: expected truncate or refuse, found \"%.60s\"",
                          too_long);
    for (uint64_t i = 0; i < set->cache.count; i++) {
        const uint64_t tokens = tokens_of(set, i);
        cut += tokens > most;
        if (refuse && tokens > most)
            return cadre_fail(err, CADRE_E_INVALID,
                              "'%s' line %s: the record has %llu tokens, expected at "
                              "most %llu (model.context, and the last target); raise "
                              "model.context, or set data.too_long = truncate",
                              config->path, set->cache.records[i].name,
                              (unsigned long long)tokens, (unsigned long long)most);
    }
    if (cut > 0)
        cadre_log(CADRE_LOG_WARN, "data",
                  "%llu of %llu records have more than %llu tokens (model.context + 1) "
                  "and lose their end (data.too_long = truncate)",
                  (unsigned long long)cut, (unsigned long long)set->cache.count,
                  (unsigned long long)most);
    return CADRE_OK;
}

/* The seed permutes the records; the first ones are for validation. Pairs stay
 * together.
 */
static cadre_status split(struct cadre_instruct *set,
                          const struct cadre_instruct_config *config)
{
    const uint64_t each = set->info.pairs ? 2 : 1, n = set->cache.count / each;
    const struct cadre_holdout holdout = {
        .content = set->cache.content_hash,
        .count = n,
        .held = cadre_holdout_share(n, config->valid_fraction),
        .key = cadre_rng_key(config->seed, "data.valid_records"),
    };
    set->info.holdout = holdout;
    for (int s = 0; s < 2; s++) {
        struct part *part = &set->parts[s];
        part->dialogue = cadre_calloc(set->cache.count + 1, sizeof *part->dialogue);
        if (!part->dialogue)
            return CADRE_E_RESOURCE;
    }
    for (uint64_t i = 0; i < n * each; i++) {
        const bool valid = cadre_holdout_has(&holdout, i / each);
        struct part *part = &set->parts[valid];
        part->dialogue[part->n++] = i;
        set->info.tokens[valid] += (uint64_t)rows_of(set, i) + 1;
    }
    return CADRE_OK;
}

static uint32_t count_targets(const struct cadre_instruct *set, const struct part *part,
                              uint64_t window)
{
    const struct cadre_packing *packing = &part->packing;
    uint32_t n = 0;
    for (uint64_t m = packing->first[window]; m < packing->first[window + 1]; m++) {
        const uint64_t dialogue = part->dialogue[packing->member[m]];
        for (int64_t t = 1; t <= rows_of(set, dialogue); t++)
            n += is_target(set, &set->cache.records[dialogue], t);
    }
    return n;
}

static cadre_status make_windows(struct cadre_instruct *set, int s, bool pack)
{
    struct part *part = &set->parts[s];
    int64_t *lengths = cadre_calloc(part->n + 1, sizeof *lengths);
    if (!lengths)
        return CADRE_E_RESOURCE;
    for (uint64_t i = 0; i < part->n; i++)
        lengths[i] = rows_of(set, part->dialogue[i]);
    cadre_status rc =
        cadre_packing_init(lengths, part->n, pack ? set->context : 0, &part->packing);
    free(lengths);
    if (rc != CADRE_OK)
        return rc;
    set->info.samples[s] = part->packing.windows;
    part->targets = cadre_calloc(part->packing.windows + 1, sizeof *part->targets);
    if (!part->targets)
        return CADRE_E_RESOURCE;
    for (uint64_t w = 0; w < part->packing.windows; w++)
        part->targets[w] = count_targets(set, part, w);
    return CADRE_OK;
}

/* Records whose prompt fills a sample are kept, so that their places stay, and add
 * nothing to a loss. */
static cadre_status check_targets(const struct cadre_instruct *set,
                                  const struct cadre_instruct_config *config,
                                  struct cadre_error *err)
{
    const struct part *part = &set->parts[0];
    uint64_t without = 0;
    for (uint64_t w = 0; w < part->packing.windows; w++)
        without += part->targets[w] == 0;
    if (without > 0 && without == part->packing.windows)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s': no record has a target among its first %lld tokens: "
                          "the prompts are longer than model.context; raise it",
                          config->path, (long long)set->context + 1);
    if (without > 0)
        cadre_log(CADRE_LOG_WARN, "data",
                  "%llu of %llu samples have no target: their prompts are longer than "
                  "model.context = %lld",
                  (unsigned long long)without,
                  (unsigned long long)part->packing.windows, (long long)set->context);
    return CADRE_OK;
}

cadre_status cadre_instruct_open(const struct cadre_instruct_config *config,
                                 struct cadre_instruct **out, struct cadre_error *err)
{
    struct cadre_instruct *set = calloc(1, sizeof *set);
    cadre_status rc;
    if (!set)
        return cadre_no_memory(err, "instruction data");
    set->context = config->context;
    set->words = cadre_instruct_words(config->tokenizer);
    set->end = cadre_tokenizer_eos(config->tokenizer);
    set->train_on_prompt = config->train_on_prompt;
    CADRE_TRY_OR(cadre_instruct_build(config, &set->cache, err), fail);
    CADRE_TRY_OR(check_cache(set, err), fail);
    if (set->info.pairs && config->pack) {
        rc = cadre_fail(err, CADRE_E_UNSUPPORTED,
                        "data.pack = yes: '%s' has pairs of answers, which are not "
                        "packed; set it to no",
                        config->path);
        goto fail;
    }
    CADRE_TRY_OR(check_lengths(set, config, err), fail);
    rc = split(set, config);
    for (int s = 0; s < 2 && rc == CADRE_OK; s++)
        rc = make_windows(set, s, config->pack);
    if (rc != CADRE_OK) {
        cadre_no_memory(err, "instruction data");
        goto fail;
    }
    CADRE_TRY_OR(check_targets(set, config, err), fail);
    *out = set;
    return CADRE_OK;
fail:
    cadre_instruct_close(set);
    return rc;
}

void cadre_instruct_close(struct cadre_instruct *set)
{
    if (!set)
        return;
    for (int s = 0; s < 2; s++) {
        free(set->parts[s].dialogue);
        free(set->parts[s].targets);
        cadre_packing_fini(&set->parts[s].packing);
    }
    cadre_cache_fini(&set->cache);
    free(set);
}

void cadre_instruct_info(const struct cadre_instruct *set,
                         struct cadre_instruct_info *info)
{
    *info = set->info;
}

/* ---- samples ---- */

void cadre_instruct_sample(const struct cadre_instruct *set, int s, uint64_t index,
                           int32_t *inputs, int32_t *targets)
{
    const struct part *part = &set->parts[s];
    const struct cadre_packing *packing = &part->packing;
    int64_t at = 0;
    for (uint64_t m = packing->first[index]; m < packing->first[index + 1]; m++) {
        const uint64_t dialogue = part->dialogue[packing->member[m]];
        const struct cadre_cache_record *record = &set->cache.records[dialogue];
        for (int64_t t = 0; t < rows_of(set, dialogue); t++, at++) {
            inputs[at] = token_at(set, record, t);
            if (targets)
                targets[at] = is_target(set, record, t + 1)
                                  ? token_at(set, record, t + 1)
                                  : CADRE_INSTRUCT_IGNORED;
        }
    }
    for (; at < set->context; at++) {
        inputs[at] = set->end;
        if (targets)
            targets[at] = CADRE_INSTRUCT_IGNORED;
    }
}

void cadre_instruct_positions(const struct cadre_instruct *set, int s, uint64_t index,
                              int32_t *positions)
{
    const struct part *part = &set->parts[s];
    const struct cadre_packing *packing = &part->packing;
    int64_t at = 0;
    for (uint64_t m = packing->first[index]; m < packing->first[index + 1]; m++) {
        const int64_t rows = rows_of(set, part->dialogue[packing->member[m]]);
        for (int64_t t = 0; t < rows; t++)
            positions[at++] = (int32_t)t;
    }
    for (int64_t t = 0; at < set->context; t++)
        positions[at++] = (int32_t)t;
}

uint64_t cadre_instruct_targets(const struct cadre_instruct *set, int s, uint64_t index)
{
    return set->parts[s].targets[index];
}
