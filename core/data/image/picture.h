/* SPDX-License-Identifier: Apache-2.0 */
/* A PNG or JPEG file as bytes: 8 bits, grey or RGB, the values of a pixel together. */
#ifndef CADRE_DATA_IMAGE_PICTURE_H
#define CADRE_DATA_IMAGE_PICTURE_H

#include <stdint.h>
#include <stdio.h>

#include "core/base/error.h"

#define CADRE_PICTURE_SIDE 16384 /* largest, in pixels */

struct cadre_picture {
    int64_t channels, height, width; /* channels: 1 or 3 */
    uint8_t *bytes; /* (height, width, channels) */
};

/* Read a file by its first bytes, whatever its name. Palettes become RGB, and fewer
 * bits than 8 are spread over 0 to 255; profiles and gamma are not applied. The caller
 * calls fini. [any thread] Errors name the file: CADRE_E_IO, CADRE_E_INVALID neither of
 * both, cut off or damaged, CADRE_E_UNSUPPORTED transparency, 16 bits, CMYK;
 * CADRE_E_RESOURCE; *out is then untouched. */
cadre_status cadre_picture_init(const char *path, struct cadre_picture *out,
                                struct cadre_error *err);
void cadre_picture_fini(struct cadre_picture *picture);

/* The two formats; `file` is at its beginning, and stays open. For picture.c. */
cadre_status cadre_picture_png(FILE *file, const char *path, struct cadre_picture *out,
                               struct cadre_error *err);
cadre_status cadre_picture_jpeg(FILE *file, const char *path, struct cadre_picture *out,
                                struct cadre_error *err);

#endif
