/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tensor/dtype.h"

#include "tests/support/check_main.h"

START_TEST(each_dtype_has_its_size_and_name)
{
    static const struct {
        uint32_t dtype;
        size_t bytes;
        const char *name;
    } known[] = {
        {CADRE_F64, 8, "f64"}, {CADRE_F32, 4, "f32"}, {CADRE_BF16, 2, "bf16"},
        {CADRE_F16, 2, "f16"}, {CADRE_I32, 4, "i32"}, {CADRE_U8, 1, "u8"},
        {CADRE_I8, 1, "i8"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        ck_assert_uint_eq(cadre_dtype_bytes(known[i].dtype), known[i].bytes);
        ck_assert_str_eq(cadre_dtype_name(known[i].dtype), known[i].name);
    }
}
END_TEST

START_TEST(an_unknown_dtype_has_no_size)
{
    ck_assert_uint_eq(cadre_dtype_bytes(UINT32_MAX), 0);
    ck_assert_str_eq(cadre_dtype_name(UINT32_MAX), "?");
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("dtype");
    TCase *tc = tcase_create("dtype");
    tcase_add_test(tc, each_dtype_has_its_size_and_name);
    tcase_add_test(tc, an_unknown_dtype_has_no_size);
    suite_add_tcase(suite, tc);
    return suite;
}
