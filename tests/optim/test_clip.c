/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <math.h>
#include <stdlib.h>

#include "core/optim/optimizer.h"

START_TEST(chunks_restart_at_each_parameter)
{
    ck_assert_uint_eq(cadre_norm_chunks(0), 0);
    ck_assert_uint_eq(cadre_norm_chunks(1), 1);
    ck_assert_uint_eq(cadre_norm_chunks(CADRE_NORM_CHUNK), 1);
    ck_assert_uint_eq(cadre_norm_chunks(CADRE_NORM_CHUNK + 1), 2);
    ck_assert_uint_eq(cadre_norm_chunks(UINT64_MAX), UINT64_MAX / CADRE_NORM_CHUNK + 1);
}
END_TEST

START_TEST(clip_scales_down_only)
{
    ck_assert(cadre_clip_scale(0, 100) == 1);
    ck_assert(cadre_clip_scale(1, 0.5) == 1);
    ck_assert(cadre_clip_scale(1, 0) == 1);
    ck_assert_double_eq_tol(cadre_clip_scale(1, 4), 1 / 4.000001, 1e-16);
    ck_assert(cadre_clip_scale(4, 4) < 1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("clip");
    TCase *tc = tcase_create("clip");
    tcase_add_test(tc, chunks_restart_at_each_parameter);
    tcase_add_test(tc, clip_scales_down_only);
    suite_add_tcase(s, tc);
    return s;
}
