/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/tensor/rotary.h"
#include "tests/support/check_main.h"

START_TEST(a_plain_pair_turns_by_a_power_of_theta)
{
    const struct cadre_rotary plain = {.theta = 10000};
    ck_assert(cadre_rotary_frequency(&plain, 0, 4) == 1.0);
    for (int64_t i = 0; i < 4; i++)
        ck_assert(cadre_rotary_frequency(&plain, i, 4) == pow(10000, -(double)i / 4.0));
}
END_TEST

START_TEST(linear_divides_all)
{
    const struct cadre_rotary plain = {.theta = 500},
                              linear = {500, CADRE_ROTARY_LINEAR, 2.5, 0, 0, 0};
    for (int64_t i = 0; i < 8; i++)
        ck_assert(cadre_rotary_frequency(&linear, i, 8) ==
                  cadre_rotary_frequency(&plain, i, 8) / 2.5);
}
END_TEST

/* Llama 3.1's own numbers; the expected ones are those of transformers 5, in fp64. */
START_TEST(llama3_keeps_short_waves_and_stretches_long_ones)
{
    const struct cadre_rotary plain = {.theta = 500000},
                              llama3 = {500000, CADRE_ROTARY_LLAMA3, 8, 1, 4, 8192};
    int kept = 0, stretched = 0, between = 0;
    for (int64_t i = 0; i < 64; i++) {
        const double was = cadre_rotary_frequency(&plain, i, 64);
        const double is = cadre_rotary_frequency(&llama3, i, 64);
        kept += is == was;
        stretched += is == was / 8;
        between += is < was && is > was / 8;
    }
    ck_assert_int_eq(kept, 29);
    ck_assert_int_eq(between, 6);
    ck_assert_int_eq(stretched, 29);
}
END_TEST

START_TEST(equal_ones_are_found)
{
    const struct cadre_rotary a = {500000, CADRE_ROTARY_LLAMA3, 8, 1, 4, 8192};
    struct cadre_rotary b = a;
    ck_assert(cadre_rotary_equal(&a, &b));
    b.original = 4096;
    ck_assert(!cadre_rotary_equal(&a, &b));
    b = a, b.theta = 1;
    ck_assert(!cadre_rotary_equal(&a, &b));
    b = a, b.scaling = CADRE_ROTARY_PLAIN;
    ck_assert(!cadre_rotary_equal(&a, &b));
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("rotary");
    TCase *tc = tcase_create("rotary");
    tcase_add_test(tc, a_plain_pair_turns_by_a_power_of_theta);
    tcase_add_test(tc, linear_divides_all);
    tcase_add_test(tc, llama3_keeps_short_waves_and_stretches_long_ones);
    tcase_add_test(tc, equal_ones_are_found);
    suite_add_tcase(suite, tc);
    return suite;
}
