/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tensor/fake_quantize.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

static const uint32_t dtypes[] = {CADRE_F32, CADRE_F64, CADRE_BF16, CADRE_F16};

/* What the definition says of elements x[first + i * step], i < n, in fp32 and without
 * any of the op's helpers: values, and whether the gradient passes. */
static void plain(bool weights, const struct tensor *x, int64_t first, int64_t step,
                  int64_t n, double *y, bool *passes)
{
    float low = 0, high = 0, zero = 0;
    for (int64_t i = 0; i < n; i++) {
        const float v = (float)tensor_get(x, first + i * step);
        low = fminf(low, v);
        high = fmaxf(high, v);
    }
    const float scale = weights ? fmaxf(fmaxf(-low, high) / 7.5F, FLT_MIN)
                                : fmaxf((high - low) / 255.0F, FLT_EPSILON);
    const float least = weights ? -8 : -128, most = weights ? 7 : 127;
    if (!weights)
        zero = fminf(fmaxf(-128 - rintf(low / scale), -128), 127);
    for (int64_t i = 0; i < n; i++) {
        const float v = (float)tensor_get(x, first + i * step);
        const float code = rintf(v * (1 / scale)) + zero;
        passes[first + i * step] = code >= least && code <= most;
        const int kept = (int)fminf(fmaxf(code, least), most) - (int)zero;
        y[first + i * step] = (double)((float)kept * scale);
    }
}

static void plain_all(const struct cadre_fake_quantize *a, const struct tensor *x,
                      double *y, bool *passes)
{
    const int64_t group = a->group > 0 ? a->group : a->columns;
    const int64_t in = a->down ? a->rows : a->columns;
    for (int64_t o = 0; o < (a->down ? a->columns : a->rows); o++)
        for (int64_t i = 0; i < in; i += group)
            plain(a->group > 0, x, a->down ? i * a->columns + o : o * in + i,
                  a->down ? a->columns : 1, in - i < group ? in - i : group, y, passes);
}

/* The op on x against the plain loop, with every number of threads. */
static void hold(struct cadre_fake_quantize a, struct tensor *x)
{
    struct cadre_device *device = x->device;
    const uint32_t wide =
        a.wide && (a.dtype == CADRE_BF16 || a.dtype == CADRE_F16) ? CADRE_F32 : a.dtype;
    struct tensor y = tensor_make(device, a.dtype, x->count, 0);
    struct tensor grad = tensor_make(device, wide, x->count, 9);
    struct tensor before = tensor_make(device, wide, x->count, 9);
    struct tensor want = tensor_make(device, a.dtype, x->count, 0);
    double *values = calloc((size_t)x->count, sizeof *values);
    bool *passes = calloc((size_t)x->count, sizeof *passes);
    int64_t stopped = 0;
    a.x = x->data;
    a.y = y.data;
    a.grad = grad.data;
    plain_all(&a, x, values, passes);
    ck_assert_int_eq(device->ops->fake_quantize(device, &a), CADRE_OK);
    for (int64_t i = 0; i < x->count; i++) {
        tensor_set(&want, i, values[i]);
        const double got = tensor_get(&y, i);
        ck_assert_msg(got == tensor_get(&want, i) && !(got == 0 && signbit(got)),
                      "%.9g at %lld becomes %.9g, expected %.9g", tensor_get(x, i),
                      (long long)i, got, tensor_get(&want, i));
        ck_assert(tensor_get(&grad, i) == (passes[i] ? tensor_get(&before, i) : 0));
        stopped += !passes[i];
    }
    /* the largest weights of groups: 7.5 is rounded to 8 */
    ck_assert(a.group == 0 || a.group > 8 || x->count < 1000 || stopped > 0);
    a.y = x->data; /* in place */
    a.grad = NULL;
    ck_assert_int_eq(device->ops->fake_quantize(device, &a), CADRE_OK);
    ck_assert_int_eq(memcmp(x->data, y.data,
                            (size_t)x->count * (a.dtype == CADRE_F64   ? 8
                                                : a.dtype == CADRE_F32 ? 4
                                                                       : 2)),
                     0);
    free(values);
    free(passes);
    tensor_free(&y);
    tensor_free(&grad);
    tensor_free(&before);
    tensor_free(&want);
}

/* Tokens, groups in rows and in columns; the last group has what is left. */
START_TEST(as_defined)
{
    static const int64_t shapes[][2] = {{1, 1}, {3, 7}, {37, 300}, {260, 33}, {2, 513}};
    static const int64_t groups[] = {0, 2, 8, 33, 256, 1000};
    for (int threads = 1; threads <= 3; threads++) {
        struct cadre_device *device = open_cpu(threads);
        for (int s = 0; s < 5; s++)
            for (int g = 0; g < 12; g++) {
                const struct cadre_fake_quantize a = {
                    .dtype = dtypes[_i],
                    .rows = shapes[s][0],
                    .columns = shapes[s][1],
                    .group = groups[g % 6],
                    .down = g > 6,
                    .wide = g % 2 == 0,
                };
                if (a.down && a.group == 0)
                    continue;
                struct tensor x =
                    tensor_make(device, a.dtype, a.rows * a.columns, 1 + (uint64_t)g);
                for (int64_t i = 0; i < x.count; i += 5)
                    tensor_set(&x, i, i % 2 ? 0.0 : -0.0);
                hold(a, &x);
                tensor_free(&x);
            }
        cadre_device_close(device);
    }
}
END_TEST

/* y of one row, which is one group or token. */
static void row(bool weights, int n, const double *in, double *out, double *grad)
{
    struct cadre_device *device = open_cpu(1);
    struct tensor x = tensor_make(device, CADRE_F32, n, 1);
    struct tensor y = tensor_make(device, CADRE_F32, n, 0);
    struct tensor g = tensor_make(device, CADRE_F32, n, 1);
    for (int i = 0; i < n; i++) {
        tensor_set(&x, i, in[i]);
        tensor_set(&g, i, 1);
    }
    const struct cadre_fake_quantize a = {.dtype = CADRE_F32,
                                          .rows = 1,
                                          .columns = n,
                                          .group = weights ? n : 0,
                                          .x = x.data,
                                          .y = y.data,
                                          .grad = g.data};
    ck_assert_int_eq(device->ops->fake_quantize(device, &a), CADRE_OK);
    for (int i = 0; i < n; i++) {
        out[i] = tensor_get(&y, i);
        grad[i] = tensor_get(&g, i);
    }
    tensor_free(&x);
    tensor_free(&y);
    tensor_free(&g);
    cadre_device_close(device);
}

/* Scales of 1: halves go to even, 7.5 is clamped to 7 without a gradient, -7.5 is -8.
 */
START_TEST(ties)
{
    static const double w[] = {7.5, -7.5, 0.5, 1.5, -0.5, -2.5, 6.5, 0};
    static const double coded[] = {7, -8, 0, 2, 0, -2, 6, 0};
    static const double token[] = {255, 0.5, 1.5, 2.5, 254.5, 0, 100, 3};
    static const double rounded[] = {255, 0, 2, 2, 254, 0, 100, 3};
    double y[8], grad[8];
    row(true, 8, w, y, grad);
    for (int i = 0; i < 8; i++)
        ck_assert(y[i] == coded[i] && grad[i] == (i > 0));
    row(false, 8, token, y, grad);
    for (int i = 0; i < 8; i++)
        ck_assert(y[i] == rounded[i] && grad[i] == 1);
}
END_TEST

/* A token from -126.5 to 128.5: zero is -128 + 126 = -2, so 128.5, which is 128 steps,
 * has no code. */
START_TEST(a_token_is_clamped)
{
    static const double token[] = {-126.5, 128.5, 1, 0};
    double y[4], grad[4];
    row(false, 4, token, y, grad);
    ck_assert(y[0] == -126 && y[2] == 1 && y[3] == 0);
    ck_assert(y[1] == 128 && grad[1] == 1);
    static const double more[] = {-1.5, 253.5, 4, 0};
    row(false, 4, more, y, grad);
    /* zero = -126; 253.5 is 254, whose code 128 is clamped to 127: 253 */
    ck_assert(y[0] == -2 && y[1] == 253 && grad[1] == 0 && grad[0] == 1);
}
END_TEST

/* Zeros have the value 0; what is not finite makes its group NaN, and no other. */
START_TEST(zeros_and_not_finite)
{
    static const double zeros[] = {0, -0.0, 0, -0.0};
    static const double tiny[] = {1e-45, -1e-45, 0, 1e-40};
    static const double odd[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    double y[4], grad[4];
    for (int weights = 0; weights < 2; weights++) {
        row(weights, 4, zeros, y, grad);
        for (int i = 0; i < 4; i++)
            ck_assert(y[i] == 0 && !signbit(y[i]) && grad[i] == 1);
        row(weights, 4, tiny, y, grad);
        for (int i = 0; i < 4; i++)
            ck_assert(y[i] == 0);
        for (int k = 0; k < 3; k++) {
            const double in[] = {1, odd[k], 2, 3};
            row(weights, 4, in, y, grad);
            for (int i = 0; i < 4; i++)
                ck_assert(isnan(y[i]));
        }
    }
}
END_TEST

START_TEST(one_group_of_two)
{
    struct cadre_device *device = open_cpu(1);
    struct tensor x = tensor_make(device, CADRE_F32, 8, 1);
    tensor_set(&x, 2, (double)NAN);
    const struct cadre_fake_quantize a = {.dtype = CADRE_F32,
                                          .rows = 1,
                                          .columns = 8,
                                          .group = 4,
                                          .x = x.data,
                                          .y = x.data};
    ck_assert_int_eq(device->ops->fake_quantize(device, &a), CADRE_OK);
    for (int i = 0; i < 8; i++)
        ck_assert(isnan(tensor_get(&x, i)) == (i < 4));
    const struct cadre_fake_quantize none = {.dtype = CADRE_F32, .columns = 8};
    ck_assert_int_eq(device->ops->fake_quantize(device, &none), CADRE_OK);
    const struct cadre_fake_quantize wrong = {
        .dtype = CADRE_I32, .rows = 1, .columns = 8, .x = x.data};
    ck_assert_int_eq(device->ops->fake_quantize(device, &wrong), CADRE_E_DEVICE);
    tensor_free(&x);
    cadre_device_close(device);
}
END_TEST

/* Columns [from, to) of x. */
static struct tensor columns_of(const struct tensor *x, int64_t columns, int64_t from,
                                int64_t to)
{
    const int64_t n = to - from;
    struct tensor part = tensor_make(x->device, x->dtype, x->count / columns * n, 0);
    for (int64_t i = 0; i < part.count; i++)
        tensor_set(&part, i, tensor_get(x, i / n * columns + from + i % n));
    return part;
}

/* The same bits, where NaN is NaN. */
static void same_columns(const struct tensor *part, const struct tensor *whole,
                         int64_t columns, int64_t from, int64_t to)
{
    const int64_t n = to - from;
    for (int64_t i = 0; i < part->count; i++) {
        const double a = tensor_get(part, i);
        const double b = tensor_get(whole, i / n * columns + from + i % n);
        ck_assert_msg(a == b || (isnan(a) && isnan(b)), "%.9g at %lld, expected %.9g",
                      a, (long long)i, b);
    }
}

enum { TOKENS = 40, CHANNELS = 301, CUT = 97 };

/* Some have no value below 0 or one that is not finite, in one part alone; the largest
 * of token 8 has code 128 (but in bf16, which has no 253.5), so it is clamped. */
static struct tensor odd_tokens(struct cadre_device *device, uint32_t dtype)
{
    struct tensor x = tensor_make(device, dtype, TOKENS * CHANNELS, 1);
    for (int64_t c = 0; c < CHANNELS; c++)
        tensor_set(&x, c, c % 3 ? fabs(tensor_get(&x, c)) : -0.0);
    tensor_set(&x, 5 * CHANNELS + 300, (double)NAN);
    tensor_set(&x, 6 * CHANNELS + 2, (double)INFINITY);
    tensor_set(&x, 7 * CHANNELS + 200, -(double)INFINITY);
    tensor_set(&x, 8 * CHANNELS + 10, -1.5);
    tensor_set(&x, 8 * CHANNELS + 250, 253.5);
    return x;
}

static void quantise(const struct tensor *x, int64_t columns, const void *range,
                     void *found, struct tensor *y, struct tensor *grad)
{
    const struct cadre_fake_quantize a = {.dtype = x->dtype,
                                          .rows = TOKENS,
                                          .columns = columns,
                                          .x = x->data,
                                          .y = y ? y->data : NULL,
                                          .grad = grad ? grad->data : NULL,
                                          .found = found,
                                          .range = range};
    ck_assert_int_eq(x->device->ops->fake_quantize(x->device, &a), CADRE_OK);
}

/* Tokens in two parts, each with the range that the larger of both are: the values and
 * gradients of whole ones. */
START_TEST(in_two_parts)
{
    static const int64_t at[] = {0, CUT, CHANNELS};
    const uint32_t dtype = dtypes[_i];
    struct cadre_device *device = open_cpu(2);
    struct tensor x = odd_tokens(device, dtype), part[2], dx[2], found[2];
    struct tensor y = tensor_make(device, dtype, x.count, 0);
    struct tensor grad = tensor_make(device, dtype, x.count, 9);
    for (int k = 0; k < 2; k++) {
        part[k] = columns_of(&x, CHANNELS, at[k], at[k + 1]);
        dx[k] = columns_of(&grad, CHANNELS, at[k], at[k + 1]);
        found[k] = tensor_make(device, dtype == CADRE_F64 ? CADRE_F64 : CADRE_F32,
                               TOKENS * 2, 0);
        quantise(&part[k], at[k + 1] - at[k], NULL, found[k].data, NULL, NULL);
    }
    quantise(&x, CHANNELS, NULL, NULL, &y, &grad);
    ck_assert(dtype == CADRE_BF16 || tensor_get(&grad, 8 * CHANNELS + 250) == 0);
    ck_assert(tensor_get(&found[0], 0) == 0 && !signbit(tensor_get(&found[0], 0)));
    ck_assert(!isinf(tensor_get(&found[0], 10)) && isinf(tensor_get(&found[1], 10)));
    for (int64_t i = 0; i < TOKENS * 2; i++)
        tensor_set(&found[0], i,
                   fmax(tensor_get(&found[0], i), tensor_get(&found[1], i)));
    for (int k = 0; k < 2; k++) {
        quantise(&part[k], at[k + 1] - at[k], found[0].data, NULL, NULL, &dx[k]);
        quantise(&part[k], at[k + 1] - at[k], found[0].data, NULL, &part[k], NULL);
        same_columns(&part[k], &y, CHANNELS, at[k], at[k + 1]);
        same_columns(&dx[k], &grad, CHANNELS, at[k], at[k + 1]);
        tensor_free(&part[k]);
        tensor_free(&dx[k]);
    }
    tensor_free(&found[0]);
    tensor_free(&found[1]);
    tensor_free(&x);
    tensor_free(&y);
    tensor_free(&grad);
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("fake_quantize");
    TCase *tc = tcase_create("fake_quantize");
    tcase_add_loop_test(tc, as_defined, 0, 4);
    tcase_add_test(tc, ties);
    tcase_add_test(tc, a_token_is_clamped);
    tcase_add_test(tc, zeros_and_not_finite);
    tcase_add_test(tc, one_group_of_two);
    tcase_add_loop_test(tc, in_two_parts, 0, 4);
    suite_add_tcase(s, tc);
    return s;
}
