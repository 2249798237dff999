/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of the tokens: class counts, and the entropy of a bigram model. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/data/dataset_split.h"
#include "core/data/wfdb/wfdb_annotation.h"

void cadre_dataset_class_counts(const struct cadre_dataset *set,
                                enum cadre_data_split which, uint64_t *counts)
{
    const struct cadre_split *split = &set->splits[which];
    memset(counts, 0, (size_t)set->info.classes * sizeof *counts);
    if (set->info.task != CADRE_TASK_CLASSIFY)
        return;
    for (uint64_t i = 0; set->images.count > 0 && i < split->samples; i++)
        counts[set->images.labels[cadre_images_find(&set->images,
                                                    which == CADRE_SPLIT_VALID, i)]]++;
    for (uint64_t s = 0; s < split->span_count; s++)
        for (uint64_t i = 0; i < split->spans[s].samples; i++) {
            int32_t label = cadre_dataset_label(set, split->spans[s].labels[i]);
            if (label >= 0)
                counts[label]++;
        }
}

const char *cadre_dataset_class_name(const struct cadre_dataset *set, int64_t class_id)
{
    static const char *const aami[] = {"N", "S", "V", "F", "Q"};
    static const char *const ventricular[] = {"other", "ventricular"};
    if (class_id < 0 || class_id >= set->info.classes)
        return "?";
    if (set->images.count > 0)
        return set->images.names[class_id];
    return set->classes == CADRE_CLASSES_AAMI ? aami[class_id] : ventricular[class_id];
}

/* Counts of pairs of tokens: open addressing, grown at half full. */
struct pair_counts {
    uint64_t *keys; /* first << 32 | second, plus 1; 0 is free */
    uint64_t *counts;
    uint64_t mask;
    uint64_t used;
};

static uint64_t *find_count(struct pair_counts *pairs, uint64_t key)
{
    uint64_t slot = (key * UINT64_C(0x9e3779b97f4a7c15)) >> 20 & pairs->mask;
    while (pairs->keys[slot] != 0 && pairs->keys[slot] != key)
        slot = (slot + 1) & pairs->mask;
    if (pairs->keys[slot] == 0) {
        pairs->keys[slot] = key;
        pairs->used++;
    }
    return &pairs->counts[slot];
}

static cadre_status grow(struct pair_counts *pairs)
{
    struct pair_counts old = *pairs;
    uint64_t slots = old.keys ? 2 * (old.mask + 1) : 4096;
    *pairs = (struct pair_counts){.keys = cadre_calloc(slots, sizeof(uint64_t)),
                                  .counts = cadre_calloc(slots, sizeof(uint64_t)),
                                  .mask = slots - 1};
    bool made = pairs->keys && pairs->counts;
    for (uint64_t s = 0; made && old.keys && s <= old.mask; s++)
        if (old.keys[s] != 0)
            *find_count(pairs, old.keys[s]) = old.counts[s];
    free(old.keys);
    free(old.counts);
    return made ? CADRE_OK : CADRE_E_RESOURCE;
}

static cadre_status count_sample(struct pair_counts *pairs, uint64_t *firsts,
                                 const int32_t *tokens, int64_t count)
{
    for (int64_t t = 0; t + 1 < count; t++) {
        if (2 * (pairs->used + 1) > pairs->mask && grow(pairs) != CADRE_OK)
            return CADRE_E_RESOURCE;
        ++*find_count(pairs, ((uint64_t)tokens[t] << 32 | (uint32_t)tokens[t + 1]) + 1);
        firsts[tokens[t]]++;
    }
    return CADRE_OK;
}

static cadre_status count_split(const struct cadre_dataset *set,
                                enum cadre_data_split which, struct pair_counts *pairs,
                                uint64_t *firsts, int32_t *tokens)
{
    int64_t length = set->info.seq_len;
    bool is_lm = set->info.task == CADRE_TASK_LM;
    int32_t *targets = tokens + length + 1;
    cadre_status rc = grow(pairs);
    for (uint64_t i = 0; i < set->splits[which].samples && rc == CADRE_OK; i++) {
        rc = cadre_dataset_sample(set, which, i, tokens, targets, NULL);
        tokens[length] = targets[length - 1];
        if (rc == CADRE_OK)
            rc = count_sample(pairs, firsts, tokens, length + is_lm);
    }
    return rc;
}

cadre_status cadre_dataset_bigram_entropy(const struct cadre_dataset *set,
                                          enum cadre_data_split which, double *nats,
                                          struct cadre_error *err)
{
    struct pair_counts pairs = {0};
    uint64_t *firsts = cadre_calloc((size_t)set->info.vocab, sizeof *firsts);
    int32_t *tokens = cadre_calloc((size_t)set->info.seq_len * 2 + 1, sizeof *tokens);
    double sum = 0;
    uint64_t total = 0;
    cadre_status rc = set->info.masked ? CADRE_E_UNSUPPORTED : CADRE_E_RESOURCE;
    if (firsts && tokens && !set->info.masked)
        rc = count_split(set, which, &pairs, firsts, tokens);
    for (uint64_t s = 0; rc == CADRE_OK && s <= pairs.mask; s++) {
        if (pairs.keys[s] == 0)
            continue;
        double count = (double)pairs.counts[s];
        sum -= count * log(count / (double)firsts[(pairs.keys[s] - 1) >> 32]);
        total += pairs.counts[s];
    }
    if (rc == CADRE_E_UNSUPPORTED)
        cadre_fail(err, rc, "pairs of tokens are not counted where some are masked");
    else if (rc == CADRE_E_RESOURCE)
        cadre_fail(err, rc, "no memory to count pairs of tokens");
    else if (rc != CADRE_OK)
        cadre_fail(err, rc, "a token is not below the vocabulary of %lld",
                   (long long)set->info.vocab);
    else if (total == 0)
        rc = cadre_fail(err, CADRE_E_INVALID, "the split holds no pair of tokens");
    else
        *nats = sum / (double)total;
    free(tokens);
    free(firsts);
    free(pairs.keys);
    free(pairs.counts);
    return rc;
}
