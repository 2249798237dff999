/* SPDX-License-Identifier: Apache-2.0 */
/* Writes pictures for tests, by the libraries that read them. */
#ifndef CADRE_TESTS_DATA_PICTURES_H
#define CADRE_TESTS_DATA_PICTURES_H

#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>
#include <png.h>

#include "tests/support/check_main.h"

/* (height, width, channels) bytes; `color` and `bits` as libpng names them. */
static inline void write_png(const char *path, int color, int bits, int width,
                             int height, const uint8_t *bytes)
{
    FILE *f = fopen(path, "wb");
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_init_io(png, f);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, bits, color,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (color == PNG_COLOR_TYPE_PALETTE) {
        const png_color colors[2] = {{10, 20, 30}, {40, 50, 60}};
        png_set_PLTE(png, info, colors, 2);
    }
    png_write_info(png, info);
    const size_t row = png_get_rowbytes(png, info);
    for (int y = 0; y < height; y++)
        png_write_row(png, bytes + (size_t)y * row);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    fclose(f);
}

static inline void write_jpeg(const char *path, int channels, int width, int height,
                              uint8_t *bytes)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    FILE *f = fopen(path, "wb");
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, f);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1   ? JCS_GRAYSCALE
                          : channels == 3 ? JCS_RGB
                                          : JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 95, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < height; y++) {
        JSAMPROW row = bytes + (size_t)y * (size_t)(width * channels);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    fclose(f);
}

#endif
