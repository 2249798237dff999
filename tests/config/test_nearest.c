/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/nearest.h"

#include <string.h>

#include "tests/support/check_main.h"

START_TEST(distances)
{
    ck_assert_uint_eq(cadre_edit_distance("", ""), 0);
    ck_assert_uint_eq(cadre_edit_distance("", "abc"), 3);
    ck_assert_uint_eq(cadre_edit_distance("abc", ""), 3);
    ck_assert_uint_eq(cadre_edit_distance("kitten", "sitting"), 3);
    ck_assert_uint_eq(cadre_edit_distance("modle", "model"), 1);
    ck_assert_uint_eq(cadre_edit_distance("ca", "abc"), 3);
    ck_assert_uint_eq(cadre_edit_distance("GPT2", "gpt2"), 0);
}
END_TEST

START_TEST(very_long_words_are_cut)
{
    char a[300], b[300];
    memset(a, 'a', sizeof a);
    memset(b, 'b', sizeof b);
    a[299] = b[299] = 0;
    ck_assert_uint_eq(cadre_edit_distance(a, b), 64);
    ck_assert_uint_eq(cadre_edit_distance(a, a), 0);
}
END_TEST

START_TEST(keeps_the_nearest_and_only_near_ones)
{
    struct cadre_nearest nearest = {0};
    cadre_nearest_offer(&nearest, "stps", "epochs");
    ck_assert_ptr_null(nearest.name);
    cadre_nearest_offer(&nearest, "stps", "stops");
    cadre_nearest_offer(&nearest, "stps", "steps");
    ck_assert_str_eq(nearest.name, "stops");
    cadre_nearest_offer(&nearest, "stps", "stps");
    ck_assert_str_eq(nearest.name, "stps");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("nearest");
    TCase *tc = tcase_create("nearest");
    tcase_add_test(tc, distances);
    tcase_add_test(tc, very_long_words_are_cut);
    tcase_add_test(tc, keeps_the_nearest_and_only_near_ones);
    suite_add_tcase(s, tc);
    return s;
}
