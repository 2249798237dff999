/* SPDX-License-Identifier: Apache-2.0 */
/* JPEG through libjpeg-turbo, with its slow and exact inverse transform: the same bytes
 * on every processor. It only warns of a file that is cut off, and leaves by longjmp
 * where there is nothing to decode. */
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include "core/base/memory.h"
#include "core/data/image/picture.h"

struct reading {
    struct jpeg_error_mgr errors; /* first: the library sees this alone */
    struct jpeg_decompress_struct jpeg;
    jmp_buf back;
    const char *path;
    struct cadre_error *err;
    struct cadre_picture picture;
    cadre_status rc;
};

static void refuse(struct reading *r)
{
    char text[JMSG_LENGTH_MAX];
    r->jpeg.err->format_message((j_common_ptr)&r->jpeg, text);
    r->rc = cadre_fail(r->err, CADRE_E_INVALID,
                       "\"%s\": it is cut off or damaged (libjpeg: %s); get it again",
                       r->path, text);
}

static void on_error(j_common_ptr jpeg)
{
    struct reading *r = (struct reading *)(void *)jpeg->err;
    refuse(r);
    longjmp(r->back, 1);
}

static void on_message(j_common_ptr jpeg)
{
    (void)jpeg;
}

/* A level below 0 is a warning: of a damaged file. */
static void on_level(j_common_ptr jpeg, int level)
{
    if (level < 0)
        on_error(jpeg);
}

static cadre_status decode(struct reading *r)
{
    struct jpeg_decompress_struct *jpeg = &r->jpeg;
    jpeg_read_header(jpeg, TRUE);
    if (jpeg->num_components != 1 && jpeg->num_components != 3)
        return cadre_fail(r->err, CADRE_E_UNSUPPORTED,
                          "\"%s\": %d colours (CMYK); expected grey or RGB: convert it",
                          r->path, jpeg->num_components);
    if (jpeg->image_width > CADRE_PICTURE_SIDE ||
        jpeg->image_height > CADRE_PICTURE_SIDE)
        return cadre_fail(r->err, CADRE_E_UNSUPPORTED,
                          "\"%s\": %u x %u pixels; expected at most %d a side", r->path,
                          jpeg->image_width, jpeg->image_height, CADRE_PICTURE_SIDE);
    jpeg->dct_method = JDCT_ISLOW;
    jpeg->out_color_space = jpeg->num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(jpeg);
    r->picture.channels = jpeg->output_components;
    r->picture.height = jpeg->output_height;
    r->picture.width = jpeg->output_width;
    const size_t row = (size_t)r->picture.width * (size_t)r->picture.channels;
    r->picture.bytes = cadre_calloc((size_t)r->picture.height, row);
    if (!r->picture.bytes)
        return cadre_no_memory(r->err, "a picture");
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW at = r->picture.bytes + (size_t)jpeg->output_scanline * row;
        jpeg_read_scanlines(jpeg, &at, 1);
    }
    jpeg_finish_decompress(jpeg);
    return CADRE_OK;
}

static cadre_status read_jpeg(struct reading *r, FILE *file)
{
    r->jpeg.err = jpeg_std_error(&r->errors);
    r->errors.error_exit = on_error;
    r->errors.output_message = on_message;
    r->errors.emit_message = on_level;
    if (setjmp(r->back))
        return r->rc;
    jpeg_create_decompress(&r->jpeg);
    jpeg_stdio_src(&r->jpeg, file);
    return decode(r);
}

cadre_status cadre_picture_jpeg(FILE *file, const char *path, struct cadre_picture *out,
                                struct cadre_error *err)
{
    struct reading r = {.path = path, .err = err, .rc = CADRE_E_INVALID};
    const cadre_status rc = read_jpeg(&r, file);
    jpeg_destroy_decompress(&r.jpeg);
    if (rc == CADRE_OK)
        *out = r.picture;
    else
        cadre_picture_fini(&r.picture);
    return rc;
}
