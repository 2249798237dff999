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

START_TEST(lists_are_read)
{
    static const char *const wrong[] = {"",    "a",           "1-",   "-1",      "1,",
                                        "1 2", "99999999999", "1024", "0-99999", "3x"};
    cpu_set_t set;
    ck_assert(cadre_cores_parse("0-3,8,10-10\n", &set));
    ck_assert_int_eq(CPU_COUNT(&set), 6);
    ck_assert(CPU_ISSET(0, &set) && CPU_ISSET(3, &set) && CPU_ISSET(8, &set) &&
              CPU_ISSET(10, &set));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(!cadre_cores_parse(wrong[i], &set), "'%s'", wrong[i]);
}
END_TEST

/* Binding this process to some cores does not change the job's cores. */
START_TEST(a_job_has_more_than_its_process)
{
    cpu_set_t before, one, after;
    cadre_cores_job(&before);
    ck_assert_int_ge(CPU_COUNT(&before), cadre_cores());
    sched_getaffinity(0, sizeof one, &one);
    int first = 0;
    while (!CPU_ISSET(first, &one))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    sched_setaffinity(0, sizeof one, &one);
    cadre_cores_job(&after);
    ck_assert(CPU_EQUAL(&before, &after));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("cores");
    TCase *tc = tcase_create("cores");
    tcase_add_test(tc, cores_are_those_allowed);
    tcase_add_test(tc, lists_are_read);
    tcase_add_test(tc, a_job_has_more_than_its_process);
    suite_add_tcase(s, tc);
    return s;
}
