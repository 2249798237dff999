/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction data as a data set: samples with masked targets, whose number differs,
 * and positions of their own where records are packed. */
#include "core/data/chat/instruct.h"
#include "core/data/dataset_split.h"

cadre_status cadre_dataset_open_instruct(struct cadre_dataset *set,
                                         const struct cadre_dataset_config *config,
                                         struct cadre_hash *hash,
                                         struct cadre_error *err)
{
    struct cadre_tokenizer *tokenizer = NULL;
    struct cadre_instruct_info info;
    CADRE_TRY(cadre_tokenizer_open(config->tokenizer, &tokenizer, err));
    const struct cadre_instruct_config instruct = {
        .path = config->path,
        .template_name = config->template_name,
        .tokenizer_spec = config->tokenizer,
        .too_long = config->too_long,
        .cache_dir = config->cache_dir,
        .tokenizer = tokenizer,
        .context = config->context,
        .valid_fraction = config->valid_fraction,
        .seed = config->seed,
        .train_on_prompt = config->train_on_prompt,
        .pack = config->pack,
    };
    set->info.vocab = cadre_tokenizer_vocab(tokenizer);
    set->info.marks = cadre_tokenizer_marks(tokenizer);
    cadre_status rc = cadre_instruct_open(&instruct, &set->instruct, err);
    cadre_tokenizer_close(tokenizer);
    if (rc != CADRE_OK)
        return rc;
    cadre_instruct_info(set->instruct, &info);
    set->info.seq_len = config->context;
    set->info.masked = true;
    set->info.packed = config->pack;
    set->info.pairs = info.pairs;
    set->info.holdout = info.holdout;
    for (int s = 0; s < 2; s++) {
        set->splits[s].samples = info.samples[s];
        set->splits[s].tokens = info.tokens[s];
    }
    const uint64_t facts[] = {info.holdout.content, config->train_on_prompt,
                              config->pack};
    cadre_hash_update(hash, facts, sizeof facts);
    return CADRE_OK;
}

cadre_status cadre_dataset_sample_instruct(const struct cadre_dataset *set,
                                           enum cadre_data_split split, uint64_t index,
                                           int32_t *inputs, int32_t *targets)
{
    int32_t highest = 0, lowest = 0;
    cadre_instruct_sample(set->instruct, split, index, inputs, targets);
    for (int64_t t = 0; t < set->info.seq_len; t++) {
        const int32_t target = targets ? targets[t] : 0;
        highest = inputs[t] > highest ? inputs[t] : highest;
        highest = target > highest ? target : highest;
        lowest = inputs[t] < lowest ? inputs[t] : lowest;
    }
    return highest < set->info.vocab && lowest == 0 ? CADRE_OK : CADRE_E_INVALID;
}

cadre_status cadre_dataset_positions(const struct cadre_dataset *set,
                                     enum cadre_data_split split, uint64_t index,
                                     int32_t *positions)
{
    if (index >= set->splits[split].samples)
        return CADRE_E_INVALID;
    if (set->instruct)
        cadre_instruct_positions(set->instruct, split, index, positions);
    else
        for (int64_t t = 0; t < set->info.seq_len; t++)
            positions[t] = (int32_t)t;
    return CADRE_OK;
}

uint64_t cadre_dataset_targets(const struct cadre_dataset *set, uint64_t position,
                               uint64_t n)
{
    uint64_t sum = 0;
    if (!set->instruct)
        return n * (set->info.task == CADRE_TASK_LM ? (uint64_t)set->info.seq_len : 1);
    for (uint64_t i = 0; i < n; i++)
        sum += cadre_instruct_targets(set->instruct, CADRE_SPLIT_TRAIN,
                                      cadre_dataset_order(set, position + i));
    return sum;
}
