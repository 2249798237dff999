/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a data set; for dataset*.c only. */
#ifndef CADRE_DATA_DATASET_SPLIT_H
#define CADRE_DATA_DATASET_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/hash.h"
#include "core/data/cache/cache.h"
#include "core/data/dataset.h"
#include "core/data/image/images.h"
#include "core/data/text/token_file.h"

/* Samples that follow each other in one run of tokens. */
struct cadre_span {
    uint64_t first; /* index of the first sample in the split */
    uint64_t samples;
    const void *tokens;
    int width; /* bytes per token: 1, 2 or 4 */
    const uint8_t *labels; /* (samples) annotation codes; NULL for streams */
};

struct cadre_split {
    struct cadre_span *spans; /* in ascending order of first */
    uint64_t span_count;
    uint64_t samples;
    uint64_t tokens;
};

enum cadre_classes {
    CADRE_CLASSES_NONE,
    CADRE_CLASSES_AAMI,
    CADRE_CLASSES_VENTRICULAR,
};

struct cadre_instruct;

struct cadre_dataset {
    struct cadre_dataset_info info;
    enum cadre_classes classes;
    int64_t window; /* wfdb; else 0 */
    bool shuffle;
    uint64_t seed;
    struct cadre_mapping map; /* text in bytes */
    struct cadre_token_file file;
    struct cadre_cache cache;
    struct cadre_images images; /* idx, images: count is not 0 */
    struct cadre_instruct *instruct; /* NULL: another format */
    uint8_t *record_split; /* wfdb: (cache.count) enum cadre_data_split, owned */
    struct cadre_split splits[2];
    struct cadre_span streams[2]; /* the spans of streams; others are on the heap */
};

/* Give every record of the cache its split by config->valid_records or valid_fraction,
 * and make the spans. Errors: CADRE_E_INVALID a name that is no record;
 * CADRE_E_RESOURCE. */
cadre_status cadre_dataset_split_records(struct cadre_dataset *set,
                                         const struct cadre_dataset_config *config,
                                         struct cadre_error *err);

/* Open idx files and folders of images, and fill the info. */
cadre_status cadre_dataset_open_images(struct cadre_dataset *set,
                                       const struct cadre_dataset_config *config,
                                       struct cadre_hash *hash,
                                       struct cadre_error *err);
/* What cadre_dataset_sample and train_sample write; of training in epoch `epoch`. */
cadre_status cadre_dataset_image(const struct cadre_dataset *set, bool valid,
                                 uint64_t epoch, uint64_t index, int32_t *inputs,
                                 int32_t *targets, int32_t *label);
/* Open instruction data; its samples. Errors: as cadre_dataset_open and _sample. */
cadre_status cadre_dataset_open_instruct(struct cadre_dataset *set,
                                         const struct cadre_dataset_config *config,
                                         struct cadre_hash *hash,
                                         struct cadre_error *err);
cadre_status cadre_dataset_sample_instruct(const struct cadre_dataset *set,
                                           enum cadre_data_split split, uint64_t index,
                                           int32_t *inputs, int32_t *targets);

/* The span that holds sample `index`, which must be below split->samples. */
const struct cadre_span *cadre_split_find(const struct cadre_split *split,
                                          uint64_t index);

/* The class of an annotation code under the set's task. */
int32_t cadre_dataset_label(const struct cadre_dataset *set, uint8_t code);

#endif
