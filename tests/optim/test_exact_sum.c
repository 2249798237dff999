/* SPDX-License-Identifier: Apache-2.0 */
#include "core/optim/exact_sum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor/dtype.h"
#include "tests/support/check_main.h"

enum { N = 20011 };

/* Numbers of very different size, from `seed`. */
static double next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    const double mantissa = (double)(int64_t)(*state >> 20) * 0x1p-44;
    return ldexp(mantissa - 0.5, (int)(*state >> 33) % 40 - 30);
}

static void *numbers(uint32_t dtype)
{
    uint64_t state = 7;
    double *wide = malloc(N * sizeof *wide);
    float *narrow = (void *)wide;
    ck_assert_ptr_nonnull(wide);
    for (int i = 0; i < N; i++) {
        const double x = next(&state);
        if (dtype == CADRE_F64)
            wide[i] = x;
        else
            narrow[i] = (float)x;
    }
    return wide;
}

/* The digits of x, cut into `pieces` that several sums take from the last to the
 * first. */
static void digits_of(uint32_t dtype, const void *x, int pieces,
                      double out[CADRE_EXACT_DIGITS])
{
    const size_t element = cadre_dtype_bytes(dtype);
    memset(out, 0, CADRE_EXACT_DIGITS * sizeof *out);
    for (int p = pieces; p-- > 0;) {
        const int64_t begin = (int64_t)N * p / pieces,
                      end = (int64_t)N * (p + 1) / pieces;
        struct cadre_exact_sum sum = {{0}};
        double digits[CADRE_EXACT_DIGITS];
        ck_assert(cadre_exact_sum_squares(
            &sum, dtype, (const char *)x + (size_t)begin * element, end - begin));
        cadre_exact_sum_digits(&sum, digits);
        for (int i = 0; i < CADRE_EXACT_DIGITS; i++) {
            ck_assert(digits[i] >= 0 && digits[i] == floor(digits[i]));
            out[i] += digits[i];
        }
    }
}

START_TEST(order_and_pieces_change_no_bit)
{
    static const uint32_t dtypes[] = {CADRE_F32, CADRE_F64};
    static const int pieces[] = {2, 3, 17, 1000};
    void *x = numbers(dtypes[_i]);
    double one[CADRE_EXACT_DIGITS], more[CADRE_EXACT_DIGITS];
    long double sum = 0;
    digits_of(dtypes[_i], x, 1, one);
    const double total = cadre_exact_sum_total(one);
    for (int i = 0; i < N; i++) {
        const long double v = _i ? ((double *)x)[i] : (double)((float *)x)[i];
        sum += v * v;
    }
    ck_assert(fabs(total - (double)sum) <= 1e-14 * (double)sum);
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
        digits_of(dtypes[_i], x, pieces[p], more);
        const double found = cadre_exact_sum_total(more);
        ck_assert(memcmp(&found, &total, sizeof total) == 0);
    }
    free(x);
}
END_TEST

START_TEST(a_value_that_is_not_finite_is_told)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        struct cadre_exact_sum sum = {{0}};
        float x[2000] = {1};
        x[1500] = bad[i];
        ck_assert(!cadre_exact_sum_squares(&sum, CADRE_F32, x, 2000));
        ck_assert(cadre_exact_sum_squares(&sum, CADRE_F32, x, 1500));
    }
    struct cadre_exact_sum sum = {{0}};
    const double large = 1e300;
    ck_assert(!cadre_exact_sum_squares(&sum, CADRE_F64, &large, 1));
}
END_TEST

/* The ends of the range of f32, whose squares are all exact. */
START_TEST(ends_of_the_range)
{
    const float x[] = {0x1p-149f, 0x1.fffffep127f, 0x1p-149f, -1, 0};
    const double want[] = {0x1p-298, 0x1.fffffep127 * 0x1.fffffep127, 0x1p-298, 1, 0};
    for (int i = 0; i < 5; i++) {
        struct cadre_exact_sum sum = {{0}};
        double digits[CADRE_EXACT_DIGITS];
        ck_assert(cadre_exact_sum_squares(&sum, CADRE_F32, &x[i], 1));
        cadre_exact_sum_digits(&sum, digits);
        ck_assert(cadre_exact_sum_total(digits) == want[i]);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("exact_sum");
    TCase *tc = tcase_create("exact_sum");
    tcase_add_loop_test(tc, order_and_pieces_change_no_bit, 0, 2);
    tcase_add_test(tc, a_value_that_is_not_finite_is_told);
    tcase_add_test(tc, ends_of_the_range);
    suite_add_tcase(suite, tc);
    return suite;
}
