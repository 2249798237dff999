/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/key_values.h"

#include <string.h>

#include "tests/support/check_main.h"

static struct cadre_key_values one;
static struct cadre_error err;

static cadre_status parse(const char *text)
{
    return cadre_key_values_parse("x", text, &one, &err);
}

static void teardown(void)
{
    cadre_key_values_fini(&one);
}

START_TEST(blanks_divide_values)
{
    ck_assert_int_eq(parse(" optim.lr :  1e-3\t3e-4 "), CADRE_OK);
    ck_assert_str_eq(one.key, "optim.lr");
    ck_assert_uint_eq(one.n, 2);
    ck_assert_str_eq(one.value[0], "1e-3");
    ck_assert_str_eq(one.value[1], "3e-4");
}
END_TEST

START_TEST(bars_divide_values_with_blanks)
{
    ck_assert_int_eq(parse("strategy.stack: single |pipeline:2, zero:2| ddp:2"),
                     CADRE_OK);
    ck_assert_uint_eq(one.n, 3);
    ck_assert_str_eq(one.value[0], "single");
    ck_assert_str_eq(one.value[1], "pipeline:2, zero:2");
    ck_assert_str_eq(one.value[2], "ddp:2");
}
END_TEST

START_TEST(no_values_are_a_list)
{
    ck_assert_int_eq(parse("optim.lr:"), CADRE_OK);
    ck_assert_uint_eq(one.n, 0);
}
END_TEST

static const struct {
    const char *text, *why;
} wrong[] = {
    {"", "x: found '', expected section.key:"},
    {"optim.lr 1 2", "x: found 'optim.lr 1 2', expected section.key:"},
    {"lr: 1.5", "x: found 'lr: 1.5', expected section.key:"},
    {"optim.lr: 1 || 2", "optim.lr has no value in front of or behind a '|'"},
    {"optim.lr: 1 |", "optim.lr has no value in front of or behind a '|'"},
    {"optim.lr: | 1", "optim.lr has no value in front of or behind a '|'"},
};

START_TEST(refuses)
{
    ck_assert_int_eq(parse(wrong[_i].text), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, wrong[_i].why) != NULL, "%s", err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("key_values");
    TCase *tc = tcase_create("key_values");
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, blanks_divide_values);
    tcase_add_test(tc, bars_divide_values_with_blanks);
    tcase_add_test(tc, no_values_are_a_list);
    tcase_add_loop_test(tc, refuses, 0, (int)(sizeof wrong / sizeof *wrong));
    suite_add_tcase(s, tc);
    return s;
}
