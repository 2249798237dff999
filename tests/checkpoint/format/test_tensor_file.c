/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <string.h>

#include "core/checkpoint/format/tensor_file.h"

START_TEST(parts_have_their_endings)
{
    char out[CADRE_CHECKPOINT_NAME];
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_checkpoint_name(CADRE_CHECKPOINT_PARAM, "w", out, &err), 0);
    ck_assert_str_eq(out, "w");
    ck_assert_int_eq(cadre_checkpoint_name(CADRE_CHECKPOINT_EXP_AVG, "w", out, &err),
                     0);
    ck_assert_str_eq(out, "w.exp_avg");
    ck_assert_int_eq(cadre_checkpoint_name(CADRE_CHECKPOINT_EXP_AVG_SQ, "w", out, &err),
                     0);
    ck_assert_str_eq(out, "w.exp_avg_sq");
}
END_TEST

START_TEST(long_names_are_refused_not_cut)
{
    char name[CADRE_CHECKPOINT_NAME];
    char out[CADRE_CHECKPOINT_NAME];
    struct cadre_error err = {0};
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    ck_assert_int_eq(cadre_checkpoint_name(CADRE_CHECKPOINT_PARAM, name, out, &err), 0);
    ck_assert_int_eq(cadre_checkpoint_name(CADRE_CHECKPOINT_EXP_AVG, name, out, &err),
                     CADRE_E_INVALID);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("tensor_file");
    TCase *tc = tcase_create("tensor_file");
    tcase_add_test(tc, parts_have_their_endings);
    tcase_add_test(tc, long_names_are_refused_not_cut);
    suite_add_tcase(suite, tc);
    return suite;
}
