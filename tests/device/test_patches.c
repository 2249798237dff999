/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

enum { B = 2, H = 4, W = 6, C = 3, S = 2, STRIDE = 76, PATCHES = 6, WIDTH = C * S * S };

static struct cadre_patches problem(uint32_t dtype, bool nhwc)
{
    return (struct cadre_patches){
        .dtype = dtype,
        .batch = B,
        .height = H,
        .width = W,
        .channels = C,
        .size = S,
        .stride = STRIDE,
        .nhwc = nhwc,
        .mean = {0.5, 0.25, 0.125},
        .std = {0.25, 0.5, 1},
    };
}

static uint8_t pixel(int64_t b, int64_t c, int64_t y, int64_t x)
{
    return (uint8_t)(b * 97 + c * 61 + y * 31 + x * 7);
}

static void fill(uint8_t *pixels, bool nhwc)
{
    memset(pixels, 0xff, (size_t)B * STRIDE);
    for (int64_t i = 0; i < B * C * H * W; i++) {
        const int64_t x = i % W, y = i / W % H, c = i / (W * H) % C,
                      b = i / (W * H * C);
        const int64_t at = nhwc ? (y * W + x) * C + c : (c * H + y) * W + x;
        pixels[b * STRIDE + at] = pixel(b, c, y, x);
    }
}

/* Element e of row `row` of an image. */
static double want(const struct cadre_patches *a, int64_t b, int64_t row, int64_t e)
{
    const int64_t c = e / (S * S), y = row / (W / S) * S + e / S % S;
    const int64_t x = row % (W / S) * S + e % S;
    return row == PATCHES ? 0 : (pixel(b, c, y, x) / 255.0 - a->mean[c]) / a->std[c];
}

/* Every element, in both layouts and every dtype: rounded once. */
START_TEST(rows_are_patches)
{
    static const uint32_t dtypes[] = {CADRE_F64, CADRE_F32, CADRE_BF16, CADRE_F16};
    static const double limits[] = {0, 1e-7, 4e-3, 5e-4};
    struct cadre_device *device = open_cpu(1 + _i % 3);
    struct cadre_patches a = problem(dtypes[_i / 2], _i % 2);
    struct tensor rows =
        tensor_make(device, a.dtype, (int64_t)B * (PATCHES + 1) * WIDTH, 0);
    uint8_t pixels[B * STRIDE];
    int32_t kinds[B * (PATCHES + 1)];
    fill(pixels, a.nhwc);
    a.pixels = pixels;
    a.rows = rows.data;
    a.kinds = kinds;
    ck_assert_int_eq(cadre_patches_count(&a), PATCHES);
    ck_assert_int_eq(device->ops->patches(device, &a), CADRE_OK);
    for (int64_t i = 0; i < rows.count; i++) {
        const int64_t row = i / WIDTH;
        const double expected =
            want(&a, row / (PATCHES + 1), row % (PATCHES + 1), i % WIDTH);
        check_close(tensor_get(&rows, i), expected, limits[_i / 2] * 4, "row", i);
    }
    for (int i = 0; i < B * (PATCHES + 1); i++)
        ck_assert_int_eq(kinds[i], i % (PATCHES + 1) == PATCHES);
    tensor_free(&rows);
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("patches");
    TCase *tc = tcase_create("patches");
    tcase_add_loop_test(tc, rows_are_patches, 0, 8);
    suite_add_tcase(suite, tc);
    return suite;
}
