/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/machine.h"

#include <string.h>

#include "tests/support/check_main.h"

START_TEST(the_processor_has_a_name)
{
    char name[128], tiny[4];
    ck_assert_uint_gt(strlen(cadre_machine_cpu(name, sizeof name)), 0);
    ck_assert_ptr_null(strchr(name, '\n'));
    ck_assert_uint_lt(strlen(cadre_machine_cpu(tiny, sizeof tiny)), sizeof tiny);
}
END_TEST

START_TEST(libraries_are_one_line)
{
    struct cadre_text text = {0};
    cadre_machine_libraries(&text);
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&text), "oneDNN"));
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&text), "; "));
    ck_assert_ptr_null(strchr(cadre_text_str(&text), '\n'));
    cadre_text_fini(&text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("machine");
    TCase *tc = tcase_create("machine");
    tcase_add_test(tc, the_processor_has_a_name);
    tcase_add_test(tc, libraries_are_one_line);
    suite_add_tcase(suite, tc);
    return suite;
}
