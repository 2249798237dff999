/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of folders: each is a class. Names are sorted by bytes, so that every
 * machine and locale sees one order. Names that begin with a dot are left out; anything
 * else that is no picture is an error. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/data/image/images.h"
#include "core/data/image/picture.h"

struct names {
    char **of;
    size_t n, room;
};

static void names_fini(struct names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->of[i]);
    free(names->of);
    memset(names, 0, sizeof *names);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static cadre_status names_add(struct names *names, const char *name,
                              struct cadre_error *err)
{
    if (names->n == names->room) {
        const size_t room = 2 * names->room + 64;
        char **grown = cadre_realloc(names->of, room, sizeof *grown);
        if (!grown)
            return cadre_no_memory(err, "names of files");
        names->of = grown;
        names->room = room;
    }
    names->of[names->n] = cadre_strdup(name);
    return names->of[names->n] ? (names->n++, CADRE_OK)
                               : cadre_no_memory(err, "a name of a file");
}

static cadre_status list(const char *folder, struct names *out, struct cadre_error *err)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    cadre_status rc = CADRE_OK;
    if (!dir)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot read the folder \"%s\"",
                                folder);
    while (rc == CADRE_OK && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            rc = names_add(out, entry->d_name, err);
    closedir(dir);
    if (out->n > 0)
        qsort(out->of, out->n, sizeof *out->of, compare);
    return rc;
}

/* The first picture says what all are. */
static cadre_status check_size(struct cadre_images *images,
                               const struct cadre_picture *picture, const char *path,
                               struct cadre_error *err)
{
    if (images->count == 0) {
        images->channels = picture->channels;
        images->height = picture->height;
        images->width = picture->width;
    }
    if (images->channels == picture->channels && images->height == picture->height &&
        images->width == picture->width)
        return CADRE_OK;
    return cadre_fail(
        err, CADRE_E_INVALID,
        "\"%s\": %lld x %lld pixels with %lld channel(s), but those before it have "
        "%lld x %lld with %lld; images have one size: convert them",
        path, (long long)picture->width, (long long)picture->height,
        (long long)picture->channels, (long long)images->width,
        (long long)images->height, (long long)images->channels);
}

struct reading {
    struct cadre_images *images;
    uint64_t room;
    struct cadre_error *err;
};

static cadre_status grow(struct reading *r)
{
    struct cadre_images *images = r->images;
    if (images->count < r->room)
        return CADRE_OK;
    const uint64_t room = 2 * r->room + 64;
    const size_t each = (size_t)cadre_images_bytes(images);
    uint8_t *bytes = cadre_realloc(images->bytes, room, each);
    if (bytes)
        images->bytes = bytes;
    uint16_t *labels = cadre_realloc(images->labels, room, sizeof *labels);
    if (labels)
        images->labels = labels;
    if (!bytes || !labels)
        return cadre_no_memory(r->err, "the images");
    r->room = room;
    return CADRE_OK;
}

static cadre_status add_picture(struct reading *r, const char *path, int64_t label)
{
    struct cadre_images *images = r->images;
    struct cadre_picture picture;
    cadre_status rc;
    CADRE_TRY(cadre_picture_init(path, &picture, r->err));
    CADRE_TRY_OR(check_size(images, &picture, path, r->err), out);
    CADRE_TRY_OR(grow(r), out);
    const size_t each = (size_t)cadre_images_bytes(images);
    memcpy(images->bytes + images->count * each, picture.bytes, each);
    images->labels[images->count++] = (uint16_t)label;
out:
    cadre_picture_fini(&picture);
    return rc;
}

static cadre_status add_class(struct reading *r, const char *folder, int64_t label)
{
    struct names files = {0};
    cadre_status rc = CADRE_OK;
    if (!cadre_path_is_dir(folder))
        return cadre_fail(
            r->err, CADRE_E_INVALID,
            "\"%s\": expected a folder for each class in data.path, found "
            "a file beside them; move it",
            folder);
    CADRE_TRY_OR(list(folder, &files, r->err), out);
    if (files.n == 0)
        rc =
            cadre_fail(r->err, CADRE_E_INVALID,
                       "\"%s\": expected pictures of its class, found an empty folder; "
                       "fill or remove it",
                       folder);
    for (size_t i = 0; rc == CADRE_OK && i < files.n; i++) {
        char *path = cadre_path_join(folder, files.of[i]);
        rc = path ? add_picture(r, path, label) : cadre_no_memory(r->err, "a path");
        free(path);
    }
out:
    names_fini(&files);
    return rc;
}

static cadre_status check_classes(const struct cadre_images_config *config, size_t n,
                                  struct cadre_error *err)
{
    if (n < 2 || n > CADRE_IMAGE_CLASSES)
        return cadre_fail(err, CADRE_E_INVALID,
                          "data.path = %s has %zu folders, expected one for each of 2 "
                          "to %d classes",
                          config->path, n, CADRE_IMAGE_CLASSES);
    if (config->classes > 0 && (size_t)config->classes != n)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "data.classes = %lld, but data.path = %s has %zu folders, one "
            "a class; leave it out or make them equal",
            (long long)config->classes, config->path, n);
    return CADRE_OK;
}

cadre_status cadre_images_read_folders(const struct cadre_images_config *config,
                                       struct cadre_images *images,
                                       struct cadre_error *err)
{
    struct reading r = {.images = images, .err = err};
    struct names classes = {0};
    cadre_status rc;
    CADRE_TRY_OR(list(config->path, &classes, err), out);
    CADRE_TRY_OR(check_classes(config, classes.n, err), out);
    for (size_t c = 0; c < classes.n; c++) {
        char *folder = cadre_path_join(config->path, classes.of[c]);
        rc =
            folder ? add_class(&r, folder, (int64_t)c) : cadre_no_memory(err, "a path");
        free(folder);
        if (rc != CADRE_OK)
            goto out;
    }
    images->names = classes.of;
    images->classes = (int64_t)classes.n;
    memset(&classes, 0, sizeof classes);
out:
    names_fini(&classes);
    return rc;
}
