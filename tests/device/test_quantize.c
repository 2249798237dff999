/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

static const uint32_t dtypes[] = {CADRE_F32, CADRE_F64};

struct coded {
    int8_t *q;
    float *scales;
    struct tensor back;
    int64_t blocks;
};

/* There and back. */
static struct coded code(const struct tensor *x, int64_t block)
{
    struct cadre_device *device = x->device;
    struct coded c = {.back = tensor_make(device, x->dtype, x->count, 0)};
    c.blocks = (x->count + block - 1) / block;
    c.q = malloc((size_t)x->count + 1);
    c.scales = calloc((size_t)c.blocks + 1, sizeof *c.scales);
    c.q[x->count] = 99;
    c.scales[c.blocks] = 99;
    ck_assert_int_eq(device->ops->quantize(device, x->dtype, x->data, x->count, block,
                                           c.q, c.scales),
                     CADRE_OK);
    ck_assert_int_eq(device->ops->dequantize(device, c.q, c.scales, block, x->dtype,
                                             c.back.data, x->count),
                     CADRE_OK);
    ck_assert(c.q[x->count] == 99 && c.scales[c.blocks] == 99);
    return c;
}

static void coded_free(struct coded *c)
{
    free(c->q);
    free(c->scales);
    tensor_free(&c->back);
}

/* Error feedback depends on this: no value is off by more than half a step. */
static void check_bound(const struct tensor *x, const struct coded *c, int64_t block)
{
    const double ulp = x->dtype == CADRE_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    for (int64_t i = 0; i < x->count; i++) {
        const double v = tensor_get(x, i), back = tensor_get(&c->back, i);
        const double scale = (double)c->scales[i / block];
        ck_assert_int_ge(c->q[i], -127);
        ck_assert_msg(fabs(v - back) <= scale / 2 + fabs(back) * ulp,
                      "%.17g comes back as %.17g, scale %g", v, back, scale);
    }
}

START_TEST(as_defined)
{
    struct cadre_device *device = open_cpu(2);
    static const int64_t counts[] = {0, 1, 1024, 5000}, blocks[] = {1, 7, 1024, 9999};
    for (int n = 0; n < 16; n++) {
        const int64_t count = counts[n / 4], block = blocks[n % 4];
        struct tensor x = tensor_make(device, dtypes[_i], count, 1 + (uint64_t)n);
        struct coded c = code(&x, block);
        for (int64_t b = 0; b < c.blocks; b++) {
            double most = 0;
            for (int64_t i = b * block; i < count && i < (b + 1) * block; i++)
                most = fmax(most, fabs(tensor_get(&x, i)));
            ck_assert_float_eq(c.scales[b], (float)(most / 127));
        }
        for (int64_t i = 0; i < count; i++)
            ck_assert_int_eq(
                c.q[i], (int)rint(tensor_get(&x, i) / (double)c.scales[i / block]));
        check_bound(&x, &c, block);
        coded_free(&c);
        tensor_free(&x);
    }
    cadre_device_close(device);
}
END_TEST

START_TEST(half_goes_to_even)
{
    struct cadre_device *device = open_cpu(1);
    static const double in[] = {127, 0.5, 1.5, 2.5, -0.5, -1.5, 126.5, -126.5};
    static const int want[] = {127, 0, 2, 2, 0, -2, 126, -126};
    struct tensor x = tensor_make(device, dtypes[_i], 8, 1);
    for (int i = 0; i < 8; i++)
        tensor_set(&x, i, in[i]);
    struct coded c = code(&x, 8);
    ck_assert_float_eq(c.scales[0], 1);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(c.q[i], want[i]);
    coded_free(&c);
    tensor_free(&x);
    cadre_device_close(device);
}
END_TEST

/* One block each: zeros, the smallest and largest numbers keep the bound. */
START_TEST(extremes_keep_the_bound)
{
    struct cadre_device *device = open_cpu(1);
    static const double sizes[] = {0,      0x1p-149,       0x1p-148, 100 * 0x1p-149,
                                   1e-44,  190 * 0x1p-149, 1e-43,    1e-40,
                                   1e-38,  1e38,           3.4e38,   (double)FLT_MAX,
                                   5e-324, 1e-300};
    struct tensor x = tensor_make(device, dtypes[_i], 14 * 4, 5);
    for (int64_t i = 0; i < x.count; i++)
        tensor_set(&x, i, i % 4 ? sizes[i / 4] * tensor_get(&x, i) : -sizes[i / 4]);
    struct coded c = code(&x, 4);
    check_bound(&x, &c, 4);
    ck_assert_float_eq(c.scales[0], 0);
    for (int i = 0; i < 4; i++)
        ck_assert(c.q[i] == 0 && tensor_get(&c.back, i) == 0);
    coded_free(&c);
    tensor_free(&x);
    cadre_device_close(device);
}
END_TEST

/* A block with one dequantises to NaN throughout; its neighbours are unaffected. */
START_TEST(nan_is_not_lost)
{
    struct cadre_device *device = open_cpu(1);
    const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 1e300};
    for (int n = 0; n < (dtypes[_i] == CADRE_F64 ? 4 : 3); n++) {
        struct tensor x = tensor_make(device, dtypes[_i], 48, 5);
        tensor_set(&x, 20, bad[n]);
        struct coded c = code(&x, 16);
        for (int64_t i = 0; i < 48; i++)
            ck_assert_int_eq(!!isnan(tensor_get(&c.back, i)), i / 16 == 1);
        coded_free(&c);
        tensor_free(&x);
    }
    cadre_device_close(device);
}
END_TEST

START_TEST(threads_change_nothing)
{
    enum { N = 200003, BLOCK = 1024 };
    struct cadre_device *one = open_cpu(1), *four = open_cpu(4);
    struct tensor x = tensor_make(one, dtypes[_i], N, 9);
    struct tensor y = x;
    y.device = four;
    struct coded a = code(&x, BLOCK), b = code(&y, BLOCK);
    ck_assert(memcmp(a.q, b.q, N) == 0);
    ck_assert(memcmp(a.scales, b.scales, (size_t)a.blocks * sizeof *a.scales) == 0);
    ck_assert(memcmp(a.back.data, b.back.data, N * cadre_dtype_bytes(x.dtype)) == 0);
    coded_free(&a);
    coded_free(&b);
    tensor_free(&x);
    cadre_device_close(one);
    cadre_device_close(four);
}
END_TEST

/* ---- CADRE_FORM_INT8 ---- */

static const uint32_t form_dtypes[] = {CADRE_F32, CADRE_F64, CADRE_BF16, CADRE_F16};

/* 17 bits of the largest magnitude / 127. */
static double form_scale(const struct tensor *x, int64_t begin, int64_t end)
{
    double most = 0;
    int exponent;
    for (int64_t i = begin; i < end; i++)
        most = fmax(most, fabs(tensor_get(x, i)));
    const double mantissa = frexp((double)(float)(most / 127), &exponent);
    return ldexp(floor(ldexp(mantissa, 17)), exponent - 17);
}

/* In blocks of 64, at an address that is aligned to nothing. 16 bits are quantised as
 * the f32 that they are; elements come back rounded once. */
START_TEST(a_form_is_codes_and_their_scale)
{
    enum { BLOCK = CADRE_INT8_BLOCK, BYTES = CADRE_INT8_BYTES };
    static const int64_t counts[] = {0, 1, 63, 64, 65, 40001};
    struct cadre_device *device = open_cpu(3);
    const uint32_t dtype = form_dtypes[_i];
    for (int n = 0; n < 6; n++) {
        const int64_t count = counts[n], blocks = (count + BLOCK - 1) / BLOCK;
        struct tensor x = tensor_make(device, dtype, count, 3);
        struct tensor back = tensor_make(device, dtype, count, 0);
        struct tensor want = tensor_make(device, CADRE_F64, count, 0);
        char *form = malloc((size_t)(blocks * BYTES) + 2), *at = form + 1;
        memset(form, 99, (size_t)(blocks * BYTES) + 2);
        ck_assert_int_eq(device->ops->int8_encode(device, dtype, x.data, count, at),
                         CADRE_OK);
        ck_assert_int_eq(device->ops->int8_decode(device, at, dtype, back.data, count),
                         CADRE_OK);
        ck_assert(form[0] == 99 && at[blocks * BYTES] == 99);
        for (int64_t b = 0; b < blocks; b++) {
            const int64_t begin = b * BLOCK, end = begin + BLOCK;
            const double expected = form_scale(&x, begin, end < count ? end : count);
            float scale;
            memcpy(&scale, at + b * BYTES + BLOCK, sizeof scale);
            ck_assert_double_eq((double)scale, expected);
            for (int64_t i = 0; i < BLOCK; i++) {
                const bool there = begin + i < count;
                const double q = there ? rint(tensor_get(&x, begin + i) / expected) : 0;
                ck_assert_int_eq((int8_t)at[b * BYTES + i], (int)q);
                if (there)
                    tensor_set(&want, begin + i, q * expected);
            }
        }
        tensor_round(&want, dtype);
        for (int64_t i = 0; i < count; i++)
            ck_assert(tensor_get(&back, i) == tensor_get(&want, i));
        free(form);
        tensor_free(&x);
        tensor_free(&back);
        tensor_free(&want);
    }
    cadre_device_close(device);
}
END_TEST

/* Blocks of every magnitude: of one size, of all sizes at once, the smallest and the
 * largest numbers, zeros, infinity. */
static double any_element(int64_t block, int64_t i, double uniform, bool wide)
{
    const int lowest = wide ? -1074 : -149, range = wide ? 1208 : 277;
    const double mantissa = 2 * uniform - 1;
    const int own = (int)((block * 37 + i * 101) % range);
    switch (block % 8) {
    case 0:
        return ldexp(mantissa, lowest + (int)(block * 37 % range));
    case 1:
        return ldexp(mantissa, lowest + own);
    case 2:
        return ldexp(mantissa, -126 - (int)(block % 24));
    case 3:
        return i == 0 ? (double)FLT_MAX * (wide ? 126.99 : 1) : mantissa;
    case 4:
        return i == block % 64 ? (double)FLT_MIN * mantissa : 0;
    case 5:
        return i == 9 && block % 3 == 0 ? (double)INFINITY : 0;
    default:
        return ldexp(mantissa, (int)(block % 5));
    }
}

/* What is saved decoded is encoded again: the codes and the scale come back. */
START_TEST(a_form_survives_decoding)
{
    enum { BLOCK = CADRE_INT8_BLOCK, BYTES = CADRE_INT8_BYTES, BLOCKS = 40000 };
    struct cadre_device *device = open_cpu(2);
    const int64_t count = (int64_t)BLOCK * BLOCKS - 3;
    struct tensor x = tensor_make(device, dtypes[_i], count, 3);
    char *form = calloc(BLOCKS, BYTES), *again = calloc(BLOCKS, BYTES);
    for (int64_t i = 0; i < count; i++)
        tensor_set(&x, i,
                   any_element(i / BLOCK, i % BLOCK, fabs(fmod(tensor_get(&x, i), 1)),
                               dtypes[_i] == CADRE_F64));
    for (int pass = 0; pass < 2; pass++) {
        char *to = pass ? again : form;
        ck_assert_int_eq(device->ops->int8_encode(device, x.dtype, x.data, count, to),
                         CADRE_OK);
        ck_assert_int_eq(device->ops->int8_decode(device, to, x.dtype, x.data, count),
                         CADRE_OK);
    }
    for (int64_t b = 0; b < BLOCKS; b++)
        ck_assert_msg(memcmp(form + b * BYTES, again + b * BYTES, BYTES) == 0,
                      "block %lld", (long long)b);
    free(form);
    free(again);
    tensor_free(&x);
    cadre_device_close(device);
}
END_TEST

START_TEST(a_form_keeps_nan)
{
    struct cadre_device *device = open_cpu(1);
    struct tensor x = tensor_make(device, form_dtypes[_i], 3 * 64, 5);
    char form[3 * CADRE_INT8_BYTES];
    tensor_set(&x, 70, INFINITY);
    ck_assert_int_eq(device->ops->int8_encode(device, x.dtype, x.data, x.count, form),
                     CADRE_OK);
    ck_assert_int_eq(device->ops->int8_decode(device, form, x.dtype, x.data, x.count),
                     CADRE_OK);
    for (int64_t i = 0; i < x.count; i++)
        ck_assert_int_eq(!!isnan(tensor_get(&x, i)), i / 64 == 1);
    tensor_free(&x);
    cadre_device_close(device);
}
END_TEST

START_TEST(refused)
{
    struct cadre_device *device = open_cpu(1);
    float x[2] = {1, 2}, scale;
    int8_t q[2] = {0, 0};
    ck_assert_int_eq(device->ops->quantize(device, CADRE_F32, x, 2, 0, q, &scale),
                     CADRE_E_DEVICE);
    ck_assert_int_eq(device->ops->quantize(device, CADRE_BF16, x, 2, 2, q, &scale),
                     CADRE_E_DEVICE);
    ck_assert_int_eq(device->ops->dequantize(device, q, x, 0, CADRE_F32, x, 2),
                     CADRE_E_DEVICE);
    ck_assert_int_eq(device->ops->int8_encode(device, CADRE_I32, x, 2, q),
                     CADRE_E_DEVICE);
    ck_assert_int_eq(device->ops->int8_decode(device, x, CADRE_I32, q, 2),
                     CADRE_E_DEVICE);
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("quantize");
    TCase *tc = tcase_create("quantize");
    tcase_add_loop_test(tc, as_defined, 0, 2);
    tcase_add_loop_test(tc, half_goes_to_even, 0, 2);
    tcase_add_loop_test(tc, extremes_keep_the_bound, 0, 2);
    tcase_add_loop_test(tc, nan_is_not_lost, 0, 2);
    tcase_add_loop_test(tc, threads_change_nothing, 0, 2);
    tcase_add_loop_test(tc, a_form_is_codes_and_their_scale, 0, 4);
    tcase_add_loop_test(tc, a_form_survives_decoding, 0, 2);
    tcase_add_loop_test(tc, a_form_keeps_nan, 0, 4);
    tcase_add_test(tc, refused);
    suite_add_tcase(suite, tc);
    return suite;
}
