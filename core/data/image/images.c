/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/image/images.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/rng.h"

/* The seed permutes the images; the first ones are for validation: files are often
 * sorted. */
static cadre_status divide(const struct cadre_images_config *config,
                           struct cadre_images *images, struct cadre_error *err)
{
    const uint64_t n = images->count;
    const struct cadre_holdout holdout = {
        .content =
            cadre_hash_of(images->bytes, n * (uint64_t)cadre_images_bytes(images), n),
        .count = n,
        .held = cadre_holdout_share(n, config->valid_fraction),
        .key = cadre_rng_key(config->seed, "data.valid_images"),
    };
    uint64_t valid = 0, train = holdout.held;
    images->holdout = holdout;
    images->order = cadre_calloc(n, sizeof *images->order);
    if (!images->order)
        return cadre_no_memory(err, "the split of the images");
    for (uint64_t i = 0; i < n; i++)
        images->order[cadre_holdout_has(&holdout, i) ? valid++ : train++] = i;
    return CADRE_OK;
}

/* (height, width, channels) to (channels, height, width) of every image, in place. */
static cadre_status lay_planes(struct cadre_images *images, struct cadre_error *err)
{
    const int64_t C = images->channels, area = images->height * images->width;
    uint8_t *one = C > 1 ? cadre_calloc((size_t)(C * area), 1) : NULL;
    if (C == 1)
        return CADRE_OK;
    if (!one)
        return cadre_no_memory(err, "an image");
    for (uint64_t i = 0; i < images->count; i++) {
        uint8_t *image = images->bytes + i * (uint64_t)(C * area);
        memcpy(one, image, (size_t)(C * area));
        for (int64_t at = 0; at < area; at++)
            for (int64_t c = 0; c < C; c++)
                image[c * area + at] = one[at * C + c];
    }
    free(one);
    return CADRE_OK;
}

static void hash_all(const struct cadre_images *images, struct cadre_hash *hash)
{
    const uint64_t facts[] = {images->count,
                              (uint64_t)images->channels,
                              (uint64_t)images->height,
                              (uint64_t)images->width,
                              (uint64_t)images->classes,
                              (uint64_t)images->shift,
                              images->flip,
                              images->holdout.held};
    cadre_hash_update(hash, facts, sizeof facts);
    cadre_hash_update(hash, images->labels, images->count * sizeof *images->labels);
    cadre_hash_update(hash, images->bytes,
                      images->count * (uint64_t)cadre_images_bytes(images));
    for (int64_t c = 0; c < images->classes; c++)
        cadre_hash_update_string(hash, images->names[c]);
}

cadre_status cadre_images_init(const struct cadre_images_config *config,
                               struct cadre_hash *hash, struct cadre_images *out,
                               struct cadre_error *err)
{
    struct cadre_images images = {.nhwc = config->nhwc,
                                  .shift = config->shift,
                                  .flip = config->flip,
                                  .key = cadre_rng_key(config->seed, "data.augment")};
    cadre_status rc;
    CADRE_TRY_OR((config->folders ? cadre_images_read_folders
                                  : cadre_images_read_idx)(config, &images, err),
                 fail);
    CADRE_TRY_OR(divide(config, &images, err), fail);
    hash_all(&images, hash);
    if (!config->nhwc)
        CADRE_TRY_OR(lay_planes(&images, err), fail);
    *out = images;
    return CADRE_OK;
fail:
    cadre_images_fini(&images);
    return rc;
}

void cadre_images_fini(struct cadre_images *images)
{
    for (int64_t c = 0; images->names && c < images->classes; c++)
        free(images->names[c]);
    free(images->names);
    free(images->labels);
    free(images->bytes);
    free(images->order);
    memset(images, 0, sizeof *images);
}

/* From -shift to shift, of draw `draw` of a sample in an epoch. */
static int64_t draw_shift(const struct cadre_images *images, uint64_t key,
                          uint64_t draw)
{
    const uint64_t range = 2 * (uint64_t)images->shift + 1;
    return (int64_t)cadre_rng_below(key, draw, range) - images->shift;
}

void cadre_images_augment(const struct cadre_images *images, uint64_t epoch,
                          uint64_t index, uint8_t *out)
{
    const int64_t C = images->channels, H = images->height, W = images->width;
    const uint8_t *in = images->bytes + cadre_images_find(images, false, index) *
                                            (uint64_t)cadre_images_bytes(images);
    char name[32];
    snprintf(name, sizeof name, "epoch.%llu", (unsigned long long)epoch);
    const uint64_t key = cadre_rng_key(images->key, name);
    const int64_t down = draw_shift(images, key, 3 * index);
    const int64_t right = draw_shift(images, key, 3 * index + 1);
    const bool flip = images->flip && cadre_rng_below(key, 3 * index + 2, 2);
    /* of an element: where the next pixel, line and channel are */
    const int64_t dx = images->nhwc ? C : 1, dy = dx * W, dc = images->nhwc ? 1 : H * W;
    for (int64_t i = 0; i < C * H * W; i++) {
        const int64_t x = i % W, y = i / W % H, c = i / (W * H);
        const int64_t from_x = (flip ? W - 1 - x : x) - right, from_y = y - down;
        const bool inside = from_x >= 0 && from_x < W && from_y >= 0 && from_y < H;
        out[c * dc + y * dy + x * dx] =
            inside ? in[c * dc + from_y * dy + from_x * dx] : 0;
    }
}
