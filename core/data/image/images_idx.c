/* SPDX-License-Identifier: Apache-2.0 */
/* Images and labels of idx files; four dimensions have the channels last. */
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/data/image/idx.h"
#include "core/data/image/images.h"
#include "core/data/image/picture.h"

/* The file of labels, to be freed. */
static char *labels_path(const struct cadre_images_config *config,
                         struct cadre_error *err)
{
    static const char images[] = "images-idx3", labels[] = "labels-idx1";
    const char *given = config->labels;
    char *path = NULL;
    if (given && *given && strcmp(given, "auto") != 0) {
        path = cadre_strdup(given);
    } else {
        const char *at = strstr(cadre_path_basename(config->path), images);
        if (!at) {
            cadre_fail(err, CADRE_E_INVALID,
                       "data.path = %s has no \"%s\" in its name, which is where that "
                       "of its labels has \"%s\"; name the labels by data.labels",
                       config->path, images, labels);
            return NULL;
        }
        path = cadre_format("%.*s%s%s", (int)(at - config->path), config->path, labels,
                            at + strlen(images));
    }
    if (!path)
        cadre_no_memory(err, "a path");
    return path;
}

static cadre_status check_images(const char *path, const struct cadre_idx *idx,
                                 struct cadre_error *err)
{
    const uint64_t channels = idx->n_dims == 4 ? idx->dim[3] : 1;
    if (idx->dim[1] > CADRE_PICTURE_SIDE || idx->dim[2] > CADRE_PICTURE_SIDE ||
        (channels != 1 && channels != 3))
        return cadre_fail(err, CADRE_E_INVALID,
                          "\"%s\": images of %llu x %llu pixels with %llu channels; "
                          "expected at most %d a side and 1 or 3 channels",
                          path, (unsigned long long)idx->dim[2],
                          (unsigned long long)idx->dim[1], (unsigned long long)channels,
                          CADRE_PICTURE_SIDE);
    return CADRE_OK;
}

/* Labels, and as many classes as they need or the configuration says. */
static cadre_status take_labels(const struct cadre_images_config *config,
                                const char *path, const struct cadre_idx *idx,
                                struct cadre_images *images, struct cadre_error *err)
{
    if (idx->count != images->count)
        return cadre_fail(err, CADRE_E_INVALID,
                          "\"%s\": %llu labels for the %llu images of \"%s\"; expected "
                          "one each: name the file that belongs to it by data.labels",
                          path, (unsigned long long)idx->count,
                          (unsigned long long)images->count, config->path);
    images->labels = cadre_calloc(idx->count, sizeof *images->labels);
    if (!images->labels)
        return cadre_no_memory(err, "labels");
    int64_t classes = config->classes;
    for (uint64_t i = 0; i < idx->count; i++) {
        images->labels[i] = idx->bytes[i];
        if (config->classes > 0 && idx->bytes[i] >= config->classes)
            return cadre_fail(err, CADRE_E_INVALID,
                              "\"%s\": label %llu is %d, expected labels below "
                              "data.classes = %lld; raise it, or get the file again",
                              path, (unsigned long long)i, idx->bytes[i],
                              (long long)config->classes);
        if (config->classes == 0 && idx->bytes[i] >= classes)
            classes = idx->bytes[i] + 1;
    }
    images->names = cadre_calloc((size_t)classes, sizeof *images->names);
    images->classes = images->names ? classes : 0;
    for (int64_t c = 0; c < images->classes; c++) {
        images->names[c] = cadre_format("%lld", (long long)c);
        if (!images->names[c])
            return cadre_no_memory(err, "names of classes");
    }
    return images->names ? CADRE_OK : cadre_no_memory(err, "names of classes");
}

cadre_status cadre_images_read_idx(const struct cadre_images_config *config,
                                   struct cadre_images *images, struct cadre_error *err)
{
    struct cadre_idx idx = {0}, labels = {0};
    char *path = NULL;
    cadre_status rc = CADRE_E_INVALID;
    CADRE_TRY_OR(cadre_idx_init(config->path, 3, 4, &idx, err), out);
    CADRE_TRY_OR(check_images(config->path, &idx, err), out);
    images->count = idx.dim[0];
    images->height = (int64_t)idx.dim[1];
    images->width = (int64_t)idx.dim[2];
    images->channels = idx.n_dims == 4 ? (int64_t)idx.dim[3] : 1;
    images->bytes = idx.bytes;
    idx.bytes = NULL;
    rc = CADRE_E_INVALID;
    path = labels_path(config, err);
    if (!path)
        goto out;
    CADRE_TRY_OR(cadre_idx_init(path, 1, 1, &labels, err), out);
    CADRE_TRY_OR(take_labels(config, path, &labels, images, err), out);
out:
    free(path);
    cadre_idx_fini(&idx);
    cadre_idx_fini(&labels);
    return rc;
}
