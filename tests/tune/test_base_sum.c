/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tune/base_sum.h"
#include "tests/support/check_main.h"

#include <string.h>

static const struct cadre_model_config model = {.layers = 2, .channels = 8};

static uint64_t sum_of(const char *dir, uint64_t seed)
{
    uint64_t sum = 0;
    ck_assert_int_eq(cadre_base_sum(dir, &model, seed, &sum, NULL), CADRE_OK);
    return sum;
}

START_TEST(folders)
{
    char *dir = test_tmpdir();
    struct cadre_error err;
    uint64_t sum;
    ck_assert_int_eq(cadre_base_sum(dir, &model, 1, &sum, &err), CADRE_E_INVALID);
    ck_assert(strstr(err.text, "has no model*.safetensors"));
    test_file_put(dir, "model.safetensors", "weights", 7);
    const uint64_t one = sum_of(dir, 1);
    ck_assert_uint_eq(one, sum_of(dir, 2)); /* the seed makes nothing */
    test_file_put(dir, "optimizer.safetensors", "moments", 7);
    ck_assert_uint_eq(one, sum_of(dir, 1));
    test_file_put(dir, "model.safetensors", "weightz", 7);
    ck_assert_uint_ne(one, sum_of(dir, 1));
    test_file_put(dir, "model.safetensors", "weights", 7);
    test_file_put(dir, "model-2.safetensors", "", 0);
    ck_assert_uint_ne(one, sum_of(dir, 1));
    test_tmpdir_destroy(dir);
}
END_TEST

START_TEST(initial_values)
{
    ck_assert_uint_eq(sum_of("", 1), sum_of("", 1));
    ck_assert_uint_ne(sum_of("", 1), sum_of("", 2));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("base_sum");
    TCase *tc = tcase_create("base_sum");
    tcase_add_test(tc, folders);
    tcase_add_test(tc, initial_values);
    suite_add_tcase(s, tc);
    return s;
}
