/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of Hopper: 16-bit types, heads of 64. */
#include "core/device/device.h"
#include "tests/device/cuda/attention_testing.h"
#include "tests/support/check_main.h"

/* Sequences around the tiles of 64 and 128 rows. */
static const struct attention_case cases[] = {
    {.batch = 1, .time = 1, .heads = 1, .kv_heads = 1, .head_size = 64},
    {.batch = 2, .time = 17, .heads = 4, .kv_heads = 2, .head_size = 64, .pad = 8},
    {.batch = 1, .time = 64, .heads = 2, .kv_heads = 2, .head_size = 64, .packed = 1},
    {.batch = 1, .time = 65, .heads = 3, .kv_heads = 1, .head_size = 64, .packed = 1},
    {.batch = 1, .time = 128, .heads = 1, .kv_heads = 1, .head_size = 64, .packed = 1},
    {.batch = 1, .time = 200, .heads = 2, .kv_heads = 1, .head_size = 64, .shift = 8},
};
enum { CASES = sizeof cases / sizeof *cases };

START_TEST(bf16)
{
    attention_check(CADRE_BF16, cases[_i]);
}
END_TEST

START_TEST(f16)
{
    attention_check(CADRE_F16, cases[3 * _i + 1]);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("attention_wgmma");
    TCase *tests = tcase_create("attention_wgmma");
    tcase_add_loop_test(tests, bf16, 0, CASES);
    tcase_add_loop_test(tests, f16, 0, CASES / 3);
    suite_add_tcase(suite, tests);
    return suite;
}
