/* SPDX-License-Identifier: Apache-2.0 */
/* Images as a data set: the inputs of a sample are its bytes. */
#include <string.h>

#include "core/data/dataset_split.h"

static cadre_status check_patch(const struct cadre_images *images, int64_t patch,
                                struct cadre_error *err)
{
    if (patch >= 1 && images->height % patch == 0 && images->width % patch == 0)
        return CADRE_OK;
    return cadre_fail(
        err, CADRE_E_INVALID,
        "model.patch = %lld does not divide images of %lld x %lld pixels; "
        "choose a divisor of both",
        (long long)patch, (long long)images->width, (long long)images->height);
}

static cadre_status check_shift(const struct cadre_images *images,
                                struct cadre_error *err)
{
    const int64_t side =
        images->height < images->width ? images->height : images->width;
    if (images->shift >= 0 && images->shift < side)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "data.shift = %lld, expected less than the %lld pixels of a side",
                      (long long)images->shift, (long long)side);
}

cadre_status cadre_dataset_open_images(struct cadre_dataset *set,
                                       const struct cadre_dataset_config *config,
                                       struct cadre_hash *hash, struct cadre_error *err)
{
    const struct cadre_images_config images = {
        .path = config->path,
        .labels = config->labels,
        .folders = strcmp(config->format, "images") == 0,
        .nhwc = config->nhwc,
        .classes = config->classes,
        .valid_fraction = config->valid_fraction,
        .shift = config->shift,
        .flip = config->flip,
        .seed = config->seed,
    };
    struct cadre_dataset_info *info = &set->info;
    CADRE_TRY(cadre_images_init(&images, hash, &set->images, err));
    CADRE_TRY(check_patch(&set->images, config->patch, err));
    CADRE_TRY(check_shift(&set->images, err));
    info->holdout = set->images.holdout;
    info->task = CADRE_TASK_CLASSIFY;
    info->classes = set->images.classes;
    info->vocab = 2; /* patches and the class token */
    info->channels = set->images.channels;
    info->height = set->images.height;
    info->width = set->images.width;
    info->seq_len = (info->height / config->patch) * (info->width / config->patch) + 1;
    info->inputs = (cadre_images_bytes(&set->images) + 3) / 4;
    for (int s = 0; s < 2; s++) {
        struct cadre_split *split = &set->splits[s];
        split->samples = s == CADRE_SPLIT_VALID
                             ? info->holdout.held
                             : info->holdout.count - info->holdout.held;
        split->tokens = split->samples * (uint64_t)info->seq_len;
    }
    return CADRE_OK;
}

cadre_status cadre_dataset_image(const struct cadre_dataset *set, bool valid,
                                 uint64_t epoch, uint64_t index, int32_t *inputs,
                                 int32_t *targets, int32_t *label)
{
    const struct cadre_images *images = &set->images;
    const size_t bytes = (size_t)cadre_images_bytes(images);
    const uint64_t at = cadre_images_find(images, valid, index);
    inputs[set->info.inputs - 1] = 0; /* what fills up the last one */
    if (!valid && (images->shift > 0 || images->flip))
        cadre_images_augment(images, epoch, index, (uint8_t *)inputs);
    else
        memcpy(inputs, images->bytes + at * bytes, bytes);
    for (int64_t t = 0; targets && t < set->info.seq_len; t++)
        targets[t] = CADRE_TARGET_IGNORED;
    if (label)
        *label = images->labels[at];
    return CADRE_OK;
}
