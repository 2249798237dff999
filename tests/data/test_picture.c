/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/image/picture.h"
#include "tests/data/pictures.h"

enum { W = 17, H = 9, MOST = W * H * 4 };

static char *dir;
static char path[1200];
static uint8_t bytes[2 * MOST];

static void setup(void)
{
    dir = test_tmpdir();
    snprintf(path, sizeof path, "%s/p", dir);
    for (int i = 0; i < 2 * MOST; i++)
        bytes[i] = (uint8_t)(i / 3);
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

static void check_picture(int64_t channels, const uint8_t *want, int slack)
{
    struct cadre_picture p;
    struct cadre_error err = {0};
    ck_assert_msg(cadre_picture_init(path, &p, &err) == CADRE_OK, "%s", err.text);
    ck_assert_int_eq(p.channels, channels);
    ck_assert_int_eq(p.width, W);
    ck_assert_int_eq(p.height, H);
    for (int64_t i = 0; i < channels * W * H; i++)
        ck_assert_int_le(abs(p.bytes[i] - want[i]), slack);
    cadre_picture_fini(&p);
}

START_TEST(png)
{
    uint8_t spread[MOST];
    write_png(path, PNG_COLOR_TYPE_GRAY, 8, W, H, bytes);
    check_picture(1, bytes, 0);
    write_png(path, PNG_COLOR_TYPE_RGB, 8, W, H, bytes);
    check_picture(3, bytes, 0);
    /* a bit a pixel, rows of 3 bytes */
    for (int i = 0; i < W * H; i++)
        spread[i] = bytes[i / W * 3 + i % W / 8] >> (7 - i % W % 8) & 1 ? 255 : 0;
    write_png(path, PNG_COLOR_TYPE_GRAY, 1, W, H, bytes);
    check_picture(1, spread, 0);
    for (int i = 0; i < W * H * 3; i++)
        spread[i] =
            (uint8_t)(10 * (i % 3 + 1) +
                      (bytes[i / 3 / W * 3 + i / 3 % W / 8] >> (7 - i / 3 % W % 8) &
                       1) *
                          30);
    write_png(path, PNG_COLOR_TYPE_PALETTE, 1, W, H, bytes);
    check_picture(3, spread, 0);
}
END_TEST

START_TEST(jpeg)
{
    uint8_t smooth[MOST];
    for (int i = 0; i < W * H * 3; i++)
        smooth[i] = (uint8_t)(60 + i / 3 % W * 4 + i / 3 / W * 3);
    write_jpeg(path, 3, W, H, smooth);
    check_picture(3, smooth, 6);
    for (int i = 0; i < W * H; i++)
        smooth[i] = smooth[3 * i];
    write_jpeg(path, 1, W, H, smooth);
    check_picture(1, smooth, 6);
}
END_TEST

static void refused(cadre_status want, const char *says)
{
    struct cadre_picture p = {.width = 77};
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_picture_init(path, &p, &err), want);
    ck_assert_msg(strstr(err.text, says) && strstr(err.text, path), "%s", err.text);
    ck_assert_int_eq(p.width, 77);
}

START_TEST(refuses_forms)
{
    write_png(path, PNG_COLOR_TYPE_RGBA, 8, W, H, bytes);
    refused(CADRE_E_UNSUPPORTED, "transparent");
    write_png(path, PNG_COLOR_TYPE_GRAY, 16, W, H, bytes);
    refused(CADRE_E_UNSUPPORTED, "16 bits");
    write_jpeg(path, 4, W, H, bytes);
    refused(CADRE_E_UNSUPPORTED, "CMYK");
    FILE *f = fopen(path, "wb");
    fputs("GIF89a", f);
    fclose(f);
    refused(CADRE_E_INVALID, "expected a PNG or JPEG file");
    remove(path);
    refused(CADRE_E_IO, "cannot open");
}
END_TEST

/* Whatever length is left, it is refused and nothing crashes. A JPEG's last two bytes
 * say that it ends; libjpeg does without them. */
START_TEST(refuses_cut_files)
{
    struct cadre_picture p;
    unsigned char file[4096];
    if (_i)
        write_jpeg(path, 3, W, H, bytes);
    else
        write_png(path, PNG_COLOR_TYPE_RGB, 8, W, H, bytes);
    FILE *f = fopen(path, "rb");
    const size_t n = fread(file, 1, sizeof file, f);
    fclose(f);
    ck_assert_uint_lt(n, sizeof file);
    for (size_t cut = 0; cut + 2 < n; cut += 1 + cut / 64) {
        f = fopen(path, "wb");
        ck_assert_uint_eq(fwrite(file, 1, cut, f), cut);
        fclose(f);
        ck_assert_msg(cadre_picture_init(path, &p, NULL) == CADRE_E_INVALID,
                      "%zu of %zu bytes", cut, n);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("picture");
    TCase *tc = tcase_create("picture");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, png);
    tcase_add_test(tc, jpeg);
    tcase_add_test(tc, refuses_forms);
    tcase_add_loop_test(tc, refuses_cut_files, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}
