/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tensor/shape.h"

#include "tests/support/check_main.h"

START_TEST(count_is_the_product_of_the_dimensions)
{
    struct cadre_shape shape = {.ndim = 3, .dim = {2, 3, 5, 1000}};
    ck_assert_uint_eq(cadre_shape_count(&shape), 30);
    shape.ndim = 1;
    ck_assert_uint_eq(cadre_shape_count(&shape), 2);
}
END_TEST

START_TEST(a_scalar_counts_one_and_an_empty_one_none)
{
    struct cadre_shape shape = {.ndim = 0};
    ck_assert_uint_eq(cadre_shape_count(&shape), 1);
    shape = (struct cadre_shape){.ndim = 2, .dim = {7, 0}};
    ck_assert_uint_eq(cadre_shape_count(&shape), 0);
}
END_TEST

START_TEST(a_count_does_not_stop_at_32_bits)
{
    struct cadre_shape shape = {.ndim = 2, .dim = {1u << 20, 1u << 20}};
    ck_assert_uint_eq(cadre_shape_count(&shape), UINT64_C(1) << 40);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("shape");
    TCase *tc = tcase_create("shape");
    tcase_add_test(tc, count_is_the_product_of_the_dimensions);
    tcase_add_test(tc, a_scalar_counts_one_and_an_empty_one_none);
    tcase_add_test(tc, a_count_does_not_stop_at_32_bits);
    suite_add_tcase(suite, tc);
    return suite;
}
