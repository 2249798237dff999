/* SPDX-License-Identifier: Apache-2.0 */
/* PNG through libpng, which leaves by longjmp where a file is damaged: what must be
 * freed then lies outside of the function that calls setjmp. */
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/data/image/picture.h"

struct reading {
    const char *path;
    struct cadre_error *err;
    png_structp png;
    png_infop info;
    struct cadre_picture picture;
    png_bytep *rows;
    cadre_status rc;
};

static void on_error(png_structp png, const char *text)
{
    struct reading *r = png_get_error_ptr(png);
    r->rc = cadre_fail(r->err, CADRE_E_INVALID,
                       "\"%s\": it is cut off or damaged (libpng: %s); get it again",
                       r->path, text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, const char *text)
{
    (void)png;
    (void)text;
}

static cadre_status check_form(struct reading *r)
{
    const int color = png_get_color_type(r->png, r->info);
    const bool alpha =
        (color & PNG_COLOR_MASK_ALPHA) || png_get_valid(r->png, r->info, PNG_INFO_tRNS);
    if (alpha || png_get_bit_depth(r->png, r->info) == 16)
        return cadre_fail(r->err, CADRE_E_UNSUPPORTED,
                          "\"%s\": %s; expected grey or RGB of 8 bits: convert it",
                          r->path, alpha ? "it is transparent" : "it has 16 bits");
    return CADRE_OK;
}

/* Between setjmp and here no local changes. */
static cadre_status decode(struct reading *r)
{
    png_read_info(r->png, r->info);
    CADRE_TRY(check_form(r));
    png_set_expand(r->png); /* palettes, and fewer bits */
    (void)png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    r->picture.channels = png_get_channels(r->png, r->info);
    r->picture.height = (int64_t)png_get_image_height(r->png, r->info);
    r->picture.width = (int64_t)png_get_image_width(r->png, r->info);
    const size_t row = png_get_rowbytes(r->png, r->info);
    r->picture.bytes = cadre_calloc((size_t)r->picture.height, row);
    r->rows = cadre_calloc((size_t)r->picture.height, sizeof *r->rows);
    if (!r->picture.bytes || !r->rows)
        return cadre_no_memory(r->err, "a picture");
    for (int64_t y = 0; y < r->picture.height; y++)
        r->rows[y] = r->picture.bytes + (size_t)y * row;
    png_read_image(r->png, r->rows);
    png_read_end(r->png, NULL);
    return CADRE_OK;
}

static cadre_status read_png(struct reading *r, FILE *file)
{
    r->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, r, on_error, on_warning);
    r->info = r->png ? png_create_info_struct(r->png) : NULL;
    if (!r->info)
        return cadre_no_memory(r->err, "a picture");
    if (setjmp(png_jmpbuf(r->png)))
        return r->rc;
    png_set_user_limits(r->png, CADRE_PICTURE_SIDE, CADRE_PICTURE_SIDE);
    png_init_io(r->png, file);
    return decode(r);
}

cadre_status cadre_picture_png(FILE *file, const char *path, struct cadre_picture *out,
                               struct cadre_error *err)
{
    struct reading r = {.path = path, .err = err, .rc = CADRE_E_INVALID};
    const cadre_status rc = read_png(&r, file);
    if (r.png)
        png_destroy_read_struct(&r.png, &r.info, NULL);
    free(r.rows);
    if (rc == CADRE_OK)
        *out = r.picture;
    else
        cadre_picture_fini(&r.picture);
    return rc;
}
