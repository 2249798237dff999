/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels on the ordinary cores: every dtype and head size, and unaligned 16-bit
 * rows; and refused arguments. */
#include <string.h>

#include "core/device/cuda/kernels.h"
#include "tests/device/cuda/attention_testing.h"
#include "tests/support/check_main.h"

static const struct attention_case cases[] = {
    {.batch = 1, .time = 1, .heads = 1, .kv_heads = 1, .head_size = 1},
    {.batch = 2, .time = 19, .heads = 4, .kv_heads = 2, .head_size = 8, .packed = 1},
    {.batch = 1, .time = 70, .heads = 2, .kv_heads = 1, .head_size = 16, .pad = 3},
    {.batch = 1, .time = 33, .heads = 6, .kv_heads = 2, .head_size = 48, .packed = 1},
    {.batch = 1, .time = 40, .heads = 1, .kv_heads = 1, .head_size = 64, .shift = 1},
    {.batch = 1, .time = 35, .heads = 2, .kv_heads = 2, .head_size = 128, .pad = 1},
    {.batch = 1, .time = 18, .heads = 2, .kv_heads = 1, .head_size = 256, .pad = 5},
};
enum { CASES = sizeof cases / sizeof *cases };

START_TEST(f32)
{
    attention_check(CADRE_F32, cases[_i]);
}
END_TEST

START_TEST(f64)
{
    attention_check(CADRE_F64, cases[_i]);
}
END_TEST

START_TEST(bf16)
{
    attention_check(CADRE_BF16, cases[_i]);
}
END_TEST

START_TEST(f16)
{
    attention_check(CADRE_F16, cases[_i]);
}
END_TEST

/* 4-byte types with rows aligned as for the tensor cores, and a longer sequence */
START_TEST(f32_longer)
{
    attention_check(CADRE_F32, (struct attention_case){.batch = 1,
                                                       .time = 150,
                                                       .heads = 2,
                                                       .kv_heads = 1,
                                                       .head_size = 64,
                                                       .packed = 1});
}
END_TEST

START_TEST(refusals)
{
    struct cadre_attention a = {.dtype = CADRE_F32,
                                .batch = 1,
                                .time = 4,
                                .heads = 3,
                                .kv_heads = 2,
                                .head_size = 8};
    ck_assert_int_eq(cadre_cuda_attention_fwd(&a, NULL, NULL), CADRE_E_DEVICE);
    a.kv_heads = 3;
    a.head_size = 257;
    ck_assert_int_eq(cadre_cuda_attention_fwd(&a, NULL, NULL), CADRE_E_DEVICE);
    ck_assert_int_eq(cadre_cuda_attention_bwd(&a, NULL, NULL), CADRE_E_DEVICE);
    a.head_size = 8;
    a.keys = 8; /* of earlier tokens, forward alone */
    a.position = 5;
    ck_assert_int_eq(cadre_cuda_attention_fwd(&a, NULL, NULL), CADRE_E_DEVICE);
    a.position = 4;
    ck_assert_int_eq(cadre_cuda_attention_bwd(&a, NULL, NULL), CADRE_E_DEVICE);
    a.keys = a.position = 0;
    a.dtype = CADRE_I32;
    ck_assert_int_eq(cadre_cuda_attention_fwd(&a, NULL, NULL), CADRE_E_DEVICE);
    a.batch = 0;
    ck_assert_int_eq(cadre_cuda_attention_bwd(&a, NULL, NULL), CADRE_OK);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("attention_plain");
    TCase *tests = tcase_create("attention_plain");
    tcase_add_loop_test(tests, f32, 0, CASES);
    tcase_add_loop_test(tests, f64, 0, CASES);
    tcase_add_loop_test(tests, bf16, 0, CASES);
    tcase_add_loop_test(tests, f16, 0, CASES);
    tcase_add_test(tests, f32_longer);
    tcase_add_test(tests, refusals);
    suite_add_tcase(suite, tests);
    return suite;
}
