/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/cores.h"

#include <sched.h>

#include "tests/support/check_main.h"

START_TEST(cores_are_those_allowed)
{
    cpu_set_t one;
    ck_assert_int_ge(cadre_cores(), 1);
    ck_assert_int_eq(sched_getaffinity(0, sizeof one, &one), 0);
    int first = 0;
    while (!CPU_ISSET(first, &one))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_int_eq(cadre_cores(), 1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("cores");
    TCase *tc = tcase_create("cores");
    tcase_add_test(tc, cores_are_those_allowed);
    suite_add_tcase(s, tc);
    return s;
}
