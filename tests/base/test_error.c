/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/error.h"

#include <errno.h>
#include <string.h>

#include "tests/support/check_main.h"

START_TEST(fail_fills_one_line)
{
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_fail(&err, CADRE_E_INVALID, "a\nb %d", 3), CADRE_E_INVALID);
    ck_assert_int_eq(err.code, CADRE_E_INVALID);
    ck_assert_str_eq(err.text, "a?b 3");
    ck_assert_int_eq(cadre_fail(NULL, CADRE_E_IO, "x"), CADRE_E_IO);
}
END_TEST

START_TEST(no_memory_says_for_what)
{
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_no_memory(&err, "%d plans", 2), CADRE_E_RESOURCE);
    ck_assert_int_eq(err.code, CADRE_E_RESOURCE);
    ck_assert_str_eq(err.text, "no memory for 2 plans");
    ck_assert_int_eq(cadre_no_memory(NULL, "a plan"), CADRE_E_RESOURCE);
}
END_TEST

START_TEST(errno_and_prefix_add_context)
{
    struct cadre_error err = {0};
    cadre_fail_errno(&err, CADRE_E_IO, ENOENT, "cannot open 'x'");
    ck_assert_str_eq(err.text, "cannot open 'x': No such file or directory");
    cadre_error_prefix(&err, "line %d", 7);
    ck_assert_str_eq(err.text, "line 7: cannot open 'x': No such file or directory");
}
END_TEST

START_TEST(long_text_is_truncated)
{
    struct cadre_error err = {0};
    char big[4096];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    cadre_fail(&err, CADRE_E_INVALID, "%s", big);
    ck_assert_uint_eq(strlen(err.text), sizeof err.text - 1);
    cadre_error_prefix(&err, "%s", big);
    ck_assert_uint_eq(strlen(err.text), sizeof err.text - 1);
}
END_TEST

/* What the machine has not is no fault of the input. */
START_TEST(the_machine_is_told_from_the_input)
{
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_fail_errno(&err, CADRE_E_INVALID, ENOENT, "a"),
                     CADRE_E_INVALID);
    ck_assert_int_eq(cadre_fail_errno(&err, CADRE_E_INVALID, EMFILE, "a"),
                     CADRE_E_RESOURCE);
    ck_assert_int_eq(err.code, CADRE_E_RESOURCE);
    ck_assert_int_eq(cadre_fail_errno(&err, CADRE_E_INVALID, EIO, "a"), CADRE_E_IO);
    ck_assert_int_eq(cadre_error_of_input(CADRE_E_IO, &err), CADRE_E_IO);
    cadre_fail_errno(&err, CADRE_E_IO, ENOENT, "a");
    ck_assert_int_eq(cadre_error_of_input(CADRE_E_IO, &err), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_error_of_input(CADRE_E_RESOURCE, &err), CADRE_E_RESOURCE);
    ck_assert_int_eq(cadre_error_of_planning(CADRE_OK), CADRE_OK);
    ck_assert_int_eq(cadre_error_of_planning(CADRE_E_RESOURCE), CADRE_E_RESOURCE);
    ck_assert_int_eq(cadre_error_of_planning(CADRE_E_COMM), CADRE_E_INVALID);
    cadre_fail(&err, CADRE_E_IO, "a");
    ck_assert_int_eq(err.errnum, 0);
    ck_assert_int_eq(cadre_error_of_input(CADRE_E_IO, &err), CADRE_E_INVALID);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("error");
    TCase *tc = tcase_create("error");
    tcase_add_test(tc, fail_fills_one_line);
    tcase_add_test(tc, no_memory_says_for_what);
    tcase_add_test(tc, errno_and_prefix_add_context);
    tcase_add_test(tc, long_text_is_truncated);
    tcase_add_test(tc, the_machine_is_told_from_the_input);
    suite_add_tcase(s, tc);
    return s;
}
