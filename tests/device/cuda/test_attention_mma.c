/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels on the tensor cores: 16-bit types, heads of 64 and 128. */
#include <stdlib.h>

#include "core/device/device.h"
#include "tests/device/cuda/attention_testing.h"
#include "tests/support/check_main.h"

/* Sequences around the tiles of 32, 64 and 128 rows. */
static const struct attention_case cases[] = {
    {.batch = 1, .time = 1, .heads = 1, .kv_heads = 1, .head_size = 64},
    {.batch = 2, .time = 17, .heads = 4, .kv_heads = 2, .head_size = 64, .pad = 8},
    {.batch = 1, .time = 64, .heads = 2, .kv_heads = 2, .head_size = 64, .packed = 1},
    {.batch = 1, .time = 65, .heads = 3, .kv_heads = 1, .head_size = 64, .packed = 1},
    {.batch = 1, .time = 200, .heads = 2, .kv_heads = 1, .head_size = 64, .shift = 8},
    {.batch = 1, .time = 5, .heads = 1, .kv_heads = 1, .head_size = 128, .packed = 1},
    {.batch = 2, .time = 33, .heads = 2, .kv_heads = 1, .head_size = 128, .pad = 16},
    {.batch = 1, .time = 130, .heads = 1, .kv_heads = 1, .head_size = 128, .packed = 1},
};
enum { CASES = sizeof cases / sizeof *cases };

/* A GPU before Hopper. */
static void set_up(void)
{
    setenv("CADRE_STANDIN_MAJOR", "8", 1);
}

START_TEST(bf16)
{
    attention_check(CADRE_BF16, cases[_i]);
}
END_TEST

/* Only the packing of numbers differs from bf16: every third case. */
START_TEST(f16)
{
    attention_check(CADRE_F16, cases[3 * _i + 1]);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("attention_mma");
    TCase *tests = tcase_create("attention_mma");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_loop_test(tests, bf16, 0, CASES);
    tcase_add_loop_test(tests, f16, 0, (CASES + 1) / 3);
    suite_add_tcase(suite, tests);
    return suite;
}
