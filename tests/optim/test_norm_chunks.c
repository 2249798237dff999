/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include "core/device/device.h"
#include "core/optim/norm_chunks.h"

START_TEST(chunks_restart_at_each_parameter)
{
    ck_assert_uint_eq(cadre_norm_chunks(0), 0);
    ck_assert_uint_eq(cadre_norm_chunks(1), 1);
    ck_assert_uint_eq(cadre_norm_chunks(CADRE_NORM_CHUNK), 1);
    ck_assert_uint_eq(cadre_norm_chunks(CADRE_NORM_CHUNK + 1), 2);
    ck_assert_uint_eq(cadre_norm_chunks(UINT64_MAX), UINT64_MAX / CADRE_NORM_CHUNK + 1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("norm_chunks");
    TCase *tc = tcase_create("norm_chunks");
    tcase_add_test(tc, chunks_restart_at_each_parameter);
    suite_add_tcase(s, tc);
    return s;
}
