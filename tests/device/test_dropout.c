/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/base/rng.h"
#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

enum { BATCH = 6, TIME = 10, WIDTH = 22, ALL = BATCH * TIME * WIDTH };

static const uint32_t dtypes[] = {CADRE_F32, CADRE_F64, CADRE_BF16, CADRE_F16};

static const struct cadre_dropout whole = {
    .dtype = CADRE_F64,
    .key = 5,
    .part = 0.3,
    .batch = BATCH,
    .time = TIME,
    .columns = WIDTH,
    .length = TIME,
    .width = WIDTH,
};

/* x (batch * time, columns) of `seed`, 0 for ones, in place. */
static struct tensor dropped(struct cadre_device *device, struct cadre_dropout a,
                             uint64_t seed)
{
    struct tensor x = tensor_make(device, a.dtype, a.batch * a.time * a.columns, seed);
    for (int64_t i = 0; seed == 0 && i < x.count; i++)
        tensor_set(&x, i, 1);
    a.x = x.data;
    a.out = x.data;
    ck_assert_int_eq(device->ops->dropout(device, &a), CADRE_OK);
    return x;
}

START_TEST(drops_its_part)
{
    struct cadre_device *device = open_cpu(1);
    struct cadre_dropout next = whole;
    int zero = 0, same = 0;
    next.key = 6;
    struct tensor out = dropped(device, whole, 0), other = dropped(device, next, 0);
    for (int i = 0; i < ALL; i++) {
        const double x = tensor_get(&out, i);
        ck_assert(x == 0 || x == 1 / 0.7);
        zero += x == 0;
        same += (x == 0) == (tensor_get(&other, i) == 0);
    }
    ck_assert_int_gt(zero, ALL * 26 / 100);
    ck_assert_int_lt(zero, ALL * 34 / 100);
    ck_assert_int_lt(same, ALL * 65 / 100); /* 0.58 by chance */
    tensor_free(&out);
    tensor_free(&other);
    cadre_device_close(device);
}
END_TEST

/* The samples 2 and 3, the times 4 to 8, the columns 11 to 21: as in the whole. */
START_TEST(same_mask_of_a_part)
{
    struct cadre_device *device = open_cpu(1);
    struct cadre_dropout cut = whole;
    cut.first = 2;
    cut.batch = 2;
    cut.position = 4;
    cut.time = 5;
    cut.column = 11;
    cut.columns = 11;
    struct tensor out = dropped(device, whole, 0), part = dropped(device, cut, 0);
    for (int s = 0; s < 2; s++)
        for (int t = 0; t < 5; t++)
            for (int c = 0; c < 11; c++)
                ck_assert(tensor_get(&part, (s * 5 + t) * 11 + c) ==
                          tensor_get(&out, ((s + 2) * TIME + t + 4) * WIDTH + c + 11));
    tensor_free(&out);
    tensor_free(&part);
    cadre_device_close(device);
}
END_TEST

static double by_definition(const struct cadre_dropout *a, int64_t i, double x)
{
    const int64_t row = i / a->columns;
    const uint64_t sample = a->first + (uint64_t)(row / a->time);
    const uint64_t position = (uint64_t)(a->position + row % a->time);
    const uint64_t e = (sample * (uint64_t)a->length + position) * (uint64_t)a->width +
                       (uint64_t)(a->column + i % a->columns);
    uint32_t words[4];
    cadre_rng_block(a->key, e / 4, words);
    const double y =
        x * ((double)words[e % 4] < a->part * 0x1p32 ? 0 : 1 / (1 - a->part));
    return a->dtype == CADRE_F64 ? y : (double)(float)y;
}

/* Every dtype, rows longer than a strip, with any number of threads; the input stays
 * where the output is elsewhere. */
START_TEST(as_defined)
{
    for (int threads = 1; threads <= 3; threads++) {
        struct cadre_device *device = open_cpu(threads);
        struct cadre_dropout a = whole;
        a.dtype = dtypes[_i];
        a.first = UINT64_C(1) << 40;
        a.column = 7;
        a.columns = 700;
        a.width = 711;
        const int64_t n = a.batch * a.time * a.columns;
        struct tensor x = tensor_make(device, a.dtype, n, 3);
        struct tensor kept = tensor_make(device, a.dtype, n, 3);
        struct tensor y = tensor_make(device, a.dtype, n, 0);
        struct tensor want = tensor_make(device, a.dtype, n, 0);
        struct tensor in_place = dropped(device, a, 3);
        a.x = x.data;
        a.out = y.data;
        ck_assert_int_eq(device->ops->dropout(device, &a), CADRE_OK);
        for (int64_t i = 0; i < n; i++)
            tensor_set(&want, i, by_definition(&a, i, tensor_get(&x, i)));
        const size_t bytes = (size_t)n * cadre_dtype_bytes(a.dtype);
        ck_assert_int_eq(memcmp(y.data, want.data, bytes), 0);
        ck_assert_int_eq(memcmp(in_place.data, want.data, bytes), 0);
        ck_assert_int_eq(memcmp(x.data, kept.data, bytes), 0);
        tensor_free(&x);
        tensor_free(&kept);
        tensor_free(&y);
        tensor_free(&want);
        tensor_free(&in_place);
        cadre_device_close(device);
    }
}
END_TEST

START_TEST(nothing_and_wrong)
{
    struct cadre_device *device = open_cpu(1);
    struct cadre_dropout a = whole;
    a.batch = 0;
    ck_assert_int_eq(device->ops->dropout(device, &a), CADRE_OK);
    a = whole;
    a.columns = 0;
    ck_assert_int_eq(device->ops->dropout(device, &a), CADRE_OK);
    a = whole;
    a.dtype = CADRE_I32;
    ck_assert_int_eq(device->ops->dropout(device, &a), CADRE_E_DEVICE);
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("dropout");
    TCase *tc = tcase_create("dropout");
    tcase_add_test(tc, drops_its_part);
    tcase_add_test(tc, same_mask_of_a_part);
    tcase_add_loop_test(tc, as_defined, 0, 4);
    tcase_add_test(tc, nothing_and_wrong);
    suite_add_tcase(s, tc);
    return s;
}
