/* SPDX-License-Identifier: Apache-2.0 */
#include "core/optim/codes.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/check_main.h"

/* Against the table as bitsandbytes makes it: by decade, sorted afterwards. */
static int by_value(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static void published(double *table, bool is_signed)
{
    int n = 0;
    for (int i = 0; i < 7; i++) {
        const int items = is_signed ? 1 << i : 2 << i;
        for (int k = 0; k < items; k++) {
            const double low = 0.1 + 0.9 * k / items,
                         high = 0.1 + 0.9 * (k + 1) / items;
            const double mean = pow(10, i - 6) * (low + high) / 2;
            table[n++] = mean;
            if (is_signed)
                table[n++] = -mean;
        }
    }
    table[n++] = 0;
    table[n++] = 1;
    ck_assert_int_eq(n, 256);
    qsort(table, 256, sizeof *table, by_value);
}

START_TEST(the_published_numbers)
{
    struct cadre_codes codes;
    double table[256];
    cadre_codes_fill(&codes, _i);
    published(table, _i);
    for (int c = 0; c < 256; c++)
        ck_assert_double_eq_tol(codes.value[c], table[c], 1e-15);
    for (int c = 0; c < 255; c++) {
        ck_assert_double_gt(codes.middle[c], codes.value[c]);
        ck_assert_double_lt(codes.middle[c], codes.value[c + 1]);
    }
    ck_assert(codes.value[_i ? 127 : 0] == 0);
    ck_assert(codes.value[255] == 1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("codes");
    TCase *tc = tcase_create("codes");
    tcase_add_loop_test(tc, the_published_numbers, 0, 2);
    suite_add_tcase(s, tc);
    return s;
}
