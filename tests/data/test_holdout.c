/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/split/holdout.h"

#include <string.h>

#include "tests/support/check_main.h"

static struct cadre_holdout make(uint64_t held, uint64_t key)
{
    return (struct cadre_holdout){
        .content = 7, .count = 1000, .held = held, .key = key};
}

/* At least one is held where a fraction is asked for, and one is always trained on. */
START_TEST(share_leaves_one_of_each)
{
    ck_assert_uint_eq(cadre_holdout_share(1000, 0.1), 100);
    ck_assert_uint_eq(cadre_holdout_share(10, 0), 0);
    ck_assert_uint_eq(cadre_holdout_share(10, 0.01), 1);
    ck_assert_uint_eq(cadre_holdout_share(10, 0.999), 9);
    ck_assert_uint_eq(cadre_holdout_share(1, 0.9), 0);
    ck_assert_uint_eq(cadre_holdout_share(0, 0.9), 0);
}
END_TEST

START_TEST(as_many_are_held_as_it_says)
{
    const uint64_t keys[] = {0, 3, UINT64_MAX};
    for (int k = 0; k < 3; k++) {
        const struct cadre_holdout h = make(137, keys[k]);
        uint64_t n = 0;
        for (uint64_t i = 0; i < h.count; i++)
            n += cadre_holdout_has(&h, i);
        ck_assert_uint_eq(n, 137);
    }
    const struct cadre_holdout end = make(137, 0);
    ck_assert(!cadre_holdout_has(&end, 862) && cadre_holdout_has(&end, 863));
}
END_TEST

START_TEST(seen_is_what_the_other_trained_on)
{
    const struct cadre_holdout tenth = make(100, 0), half = make(500, 0);
    const struct cadre_holdout drawn = make(100, 5), other = make(100, 6);
    struct cadre_holdout changed = make(500, 0);
    ck_assert_double_eq(cadre_holdout_seen(&tenth, &half), 0.8);
    ck_assert_double_eq(cadre_holdout_seen(&half, &tenth), 0);
    ck_assert_double_eq(cadre_holdout_seen(&tenth, &tenth), 0);
    ck_assert_double_eq(cadre_holdout_seen(&drawn, &drawn), 0);
    ck_assert_double_gt(cadre_holdout_seen(&drawn, &other), 0.75);
    ck_assert_double_lt(cadre_holdout_seen(&drawn, &other), 1);
    const struct cadre_holdout none = make(0, 5);
    ck_assert_double_eq(cadre_holdout_seen(&none, &other), 1);
    ck_assert_double_eq(cadre_holdout_seen(&drawn, &none), 0);
    changed.content = 8;
    ck_assert_double_eq(cadre_holdout_seen(&tenth, &changed), 0);
    changed.content = 7, changed.count = 1001;
    ck_assert_double_eq(cadre_holdout_seen(&tenth, &changed), 0);
    const struct cadre_holdout empty = {0};
    ck_assert_double_eq(cadre_holdout_seen(&empty, &empty), 0);
}
END_TEST

START_TEST(one_line_and_back)
{
    const struct cadre_holdout h = {.content = UINT64_MAX,
                                    .count = UINT64_C(9000000000000000000),
                                    .held = UINT64_C(8999999999999999999),
                                    .key = UINT64_MAX - 1};
    static const char *const wrong[] = {"",          "7 1",         "7 2 1 0",
                                        "7 1 2 0 x", "zz 1 2 0",    "7 1 2",
                                        "7 -1 2 0",  "7 1 2 0\n7 1"};
    struct cadre_holdout read;
    char line[CADRE_HOLDOUT_CHARS];
    cadre_holdout_write(&h, line);
    ck_assert(cadre_holdout_parse(line, &read));
    ck_assert(read.content == h.content && read.count == h.count &&
              read.held == h.held && read.key == h.key);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_msg(!cadre_holdout_parse(wrong[i], &read), "%s", wrong[i]);
        ck_assert_uint_eq(read.content, 0);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("holdout");
    TCase *tc = tcase_create("holdout");
    tcase_add_test(tc, share_leaves_one_of_each);
    tcase_add_test(tc, as_many_are_held_as_it_says);
    tcase_add_test(tc, seen_is_what_the_other_trained_on);
    tcase_add_test(tc, one_line_and_back);
    suite_add_tcase(s, tc);
    return s;
}
