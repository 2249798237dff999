/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

static struct cadre_device *device;

static void open_device(void)
{
    device = open_cpu(2);
}

static void close_device(void)
{
    cadre_device_close(device);
}

static void cast(uint32_t to, void *dst, uint32_t from, const void *src, int64_t count)
{
    ck_assert_int_eq(device->ops->cast(device, to, dst, from, src, count), CADRE_OK);
}

/* The value of 16 bits with `mantissa` bits of fraction, by the definition. */
static double half_value(uint16_t bits, int mantissa)
{
    const int exponents = 15 - mantissa, bias = (1 << (exponents - 1)) - 1;
    const int exponent = bits >> mantissa & ((1 << exponents) - 1);
    const double fraction = (double)(bits & ((1 << mantissa) - 1)) / (1 << mantissa);
    double size;
    if (exponent == (1 << exponents) - 1)
        size = fraction > 0 ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        size = ldexp(fraction, 1 - bias);
    else
        size = ldexp(1 + fraction, exponent - bias);
    return bits & 0x8000 ? -size : size;
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

START_TEST(all_of_16_bits)
{
    enum { N = 65536 };
    const uint32_t dtype = _i ? CADRE_BF16 : CADRE_F16;
    uint16_t *bits = malloc(N * sizeof *bits), *back = malloc(N * sizeof *back);
    float *f32 = malloc(N * sizeof *f32);
    double *f64 = malloc(N * sizeof *f64);
    for (int i = 0; i < N; i++)
        bits[i] = (uint16_t)i;
    cast(CADRE_F32, f32, dtype, bits, N);
    cast(CADRE_F64, f64, dtype, bits, N);
    for (int i = 0; i < N; i++) {
        const double want = half_value((uint16_t)i, _i ? 7 : 10);
        ck_assert_msg(same(f32[i], want) && same(f64[i], want),
                      "%04x is %g or %g, not %g", (unsigned)i, (double)f32[i], f64[i],
                      want);
    }
    for (int from = 0; from < 2; from++) {
        cast(dtype, back, from ? CADRE_F64 : CADRE_F32, from ? (void *)f64 : f32, N);
        for (int i = 0; i < N; i++)
            ck_assert_msg(isnan(f64[i]) ? isnan(half_value(back[i], _i ? 7 : 10))
                                        : back[i] == bits[i],
                          "%04x came back as %04x", (unsigned)i, (unsigned)back[i]);
    }
    free(bits);
    free(back);
    free(f32);
    free(f64);
}
END_TEST

/* Is `got` the nearest to x, ties to even? Its neighbours must not be nearer. */
static void check_rounding(uint16_t got, double x, int mantissa)
{
    const double value = half_value(got, mantissa);
    if (isnan(x)) {
        ck_assert(isnan(value));
        return;
    }
    if (signbit(value) != signbit(x))
        ck_abort_msg("%.17g became %.17g", x, value);
    const uint16_t infinity = (uint16_t)(0x7fff >> mantissa << mantissa);
    const double step = half_value((uint16_t)(infinity - 1), mantissa) -
                        half_value((uint16_t)(infinity - 2), mantissa);
    const double beyond = half_value((uint16_t)(infinity - 1), mantissa) + step;
    const double mine = fmin(fabs(value), beyond);
    for (int d = -1; d <= 1; d += 2) {
        const int size = (got & 0x7fff) + d;
        if (size < 0 || size > infinity)
            continue;
        const double other = fmin(half_value((uint16_t)size, mantissa), beyond);
        const double near = fabs(mine - fabs(x)), far = fabs(other - fabs(x));
        if (!(near < far || (near == far && !(got & 1)) || fabs(x) >= beyond))
            ck_abort_msg("%.17g became %.17g", x, value);
    }
}

START_TEST(rounds_to_nearest_even)
{
    enum { N = 100000 };
    const uint32_t dtype = _i ? CADRE_BF16 : CADRE_F16;
    const int mantissa = _i ? 7 : 10;
    double *f64 = malloc(N * sizeof *f64);
    float *f32 = malloc(N * sizeof *f32);
    uint16_t *half = malloc(N * sizeof *half);
    uint64_t state = 1;
    for (int i = 0; i < N; i++) {
        const double u = random_real(&state);
        f64[i] = ldexp(u, (int)(20 * random_real(&state)));
        if (i % 4 == 0) { /* a tie, and off a tie by less than f32 resolves */
            const uint16_t low = (uint16_t)((i * 31) & 0x77ff);
            f64[i] = (half_value(low, mantissa) +
                      half_value((uint16_t)(low + 1), mantissa)) /
                     2;
            f64[i] *= 1 + (i / 4 % 3 - 1) * 1e-13;
        }
    }
    f64[1] = NAN;
    f64[2] = INFINITY;
    f64[3] = -1e300;
    f64[5] = 1e-300;
    f64[6] = 65519.99999;
    f64[7] = 65520;
    cast(dtype, half, CADRE_F64, f64, N);
    for (int i = 0; i < N; i++)
        check_rounding(half[i], f64[i], mantissa);
    cast(CADRE_F32, f32, CADRE_F64, f64, N);
    cast(dtype, half, CADRE_F32, f32, N);
    for (int i = 0; i < N; i++) {
        if (!same(f32[i], (float)f64[i]))
            ck_abort_msg("%.17g became %.9g", f64[i], (double)f32[i]);
        check_rounding(half[i], f32[i], mantissa);
    }
    free(f64);
    free(f32);
    free(half);
}
END_TEST

START_TEST(between_16_bits_and_same)
{
    uint16_t x[3] = {0x3c00, 0x7c00, 0x3555}, y[3], z[3];
    double d[3] = {1, -2.5, 1e-300}, e[3];
    cast(CADRE_BF16, y, CADRE_F16, x, 3);
    ck_assert_uint_eq(y[0], 0x3f80);
    ck_assert_uint_eq(y[1], 0x7f80);
    ck_assert_uint_eq(y[2], 0x3eab); /* 0.33325195 = 0x3eaaa000: nearest is 0x3eab */
    cast(CADRE_F16, z, CADRE_BF16, y, 2);
    ck_assert_int_eq(memcmp(z, x, 4), 0);
    cast(CADRE_F16, z, CADRE_F16, x, 3);
    ck_assert_int_eq(memcmp(z, x, sizeof z), 0);
    cast(CADRE_F64, e, CADRE_F64, d, 3);
    for (int i = 0; i < 3; i++)
        ck_assert(e[i] == d[i]);
    ck_assert_int_eq(device->ops->cast(device, CADRE_I32, e, CADRE_F64, d, 3),
                     CADRE_E_DEVICE);
    ck_assert_int_eq(device->ops->cast(device, CADRE_F32, e, 99, d, 3), CADRE_E_DEVICE);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("kernels_cast");
    TCase *tc = tcase_create("cast");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, open_device, close_device);
    tcase_add_loop_test(tc, all_of_16_bits, 0, 2);
    tcase_add_loop_test(tc, rounds_to_nearest_even, 0, 2);
    tcase_add_test(tc, between_16_bits_and_same);
    suite_add_tcase(suite, tc);
    return suite;
}
