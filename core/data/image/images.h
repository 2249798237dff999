/* SPDX-License-Identifier: Apache-2.0 */
/* Labelled images, all of them in memory: an idx file of images and one of labels, or a
 * folder that has a folder of PNG and JPEG files for each class. Images have one size.
 * Which are held back for validation follows from the seed; what a training sample
 * looks like, from the seed, the epoch and its index. */
#ifndef CADRE_DATA_IMAGE_IMAGES_H
#define CADRE_DATA_IMAGE_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/data/split/holdout.h"

#define CADRE_IMAGE_CLASSES 1000 /* most */

/* Strings are borrowed for the call. */
struct cadre_images_config {
    const char *path; /* the idx file of images, or the folder of classes */
    const char *labels; /* idx: the file of labels; NULL, "" or "auto": path with
                           "images-idx3" replaced by "labels-idx1" */
    bool folders;
    bool nhwc; /* how the bytes of a sample lie */
    int64_t classes; /* idx: labels must be below; 0: the largest, plus 1 */
    double valid_fraction;
    int64_t shift; /* most pixels by which a training image is moved */
    bool flip; /* half of the training images are mirrored */
    uint64_t seed;
};

struct cadre_images {
    int64_t channels, height, width;
    int64_t classes;
    uint64_t count;
    struct cadre_holdout holdout; /* of images */
    char **names; /* (classes) */
    uint16_t *labels; /* (count) */
    uint8_t *bytes; /* (count, height * width * channels), by `nhwc` */
    uint64_t *order; /* (count): those held back, then the others, each ascending */
    bool nhwc;
    int64_t shift;
    bool flip;
    uint64_t key; /* of the changes to training images */
};

/* The hash gets the contents, whichever way their bytes lie, and all that changes what
 * is trained on. The caller calls fini. [any thread] Errors name the file:
 * CADRE_E_INVALID, CADRE_E_IO, CADRE_E_RESOURCE; *out is then untouched. */
cadre_status cadre_images_init(const struct cadre_images_config *config,
                               struct cadre_hash *hash, struct cadre_images *out,
                               struct cadre_error *err);
void cadre_images_fini(struct cadre_images *images);

/* Bytes of an image. */
static inline int64_t cadre_images_bytes(const struct cadre_images *images)
{
    return images->channels * images->height * images->width;
}

/* Which of all images is sample `index` of the split. */
static inline uint64_t cadre_images_find(const struct cadre_images *images, bool valid,
                                         uint64_t index)
{
    return images->order[valid ? index : images->holdout.held + index];
}

/* The image of training sample `index` in epoch `epoch` to out (cadre_images_bytes):
 * moved and mirrored where the configuration says so; what comes in at a side is 0.
 * [any thread] */
void cadre_images_augment(const struct cadre_images *images, uint64_t epoch,
                          uint64_t index, uint8_t *out);

/* The kinds of files; for images.c. They fill sizes, classes, names, labels and bytes,
 * (height, width, channels) each. */
cadre_status cadre_images_read_idx(const struct cadre_images_config *config,
                                   struct cadre_images *images,
                                   struct cadre_error *err);
cadre_status cadre_images_read_folders(const struct cadre_images_config *config,
                                       struct cadre_images *images,
                                       struct cadre_error *err);

#endif
