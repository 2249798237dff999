/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/param_diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/types.h>

#include "core/base/path.h"
#include "core/checkpoint/format/safetensors.h"
#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

static char *dir, *one, *two;
static const float values[FIXTURE_PARAMS] = {0.5F, 1.0F, -2.0F, 0.0F, 1e-3F, 3.0F};

static void setup(void)
{
    dir = test_tmpdir();
    one = cadre_path_join(dir, "one.safetensors");
    two = cadre_path_join(dir, "two.safetensors");
    fixture_model(one, values);
    fixture_model(two, values);
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
    free(one);
    free(two);
}

/* The difference where element `index` of the second file is `value`. */
static struct cadre_param_diff diff_of(int index, float value)
{
    struct cadre_param_diff diff;
    struct cadre_error err = {0};
    float changed[FIXTURE_PARAMS];
    memcpy(changed, values, sizeof changed);
    changed[index] = value;
    fixture_model(two, changed);
    cadre_status rc = cadre_param_diff(two, one, "", &diff, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    return diff;
}

START_TEST(equal_files_have_no_difference)
{
    struct cadre_param_diff a, b = diff_of(1, 1.0F);
    struct cadre_error err = {0};
    ck_assert(b.same_bits && b.max == 0 && b.ulp_max == 0);
    ck_assert_uint_eq(b.elements, FIXTURE_PARAMS);
    ck_assert(b.largest == 3);
    ck_assert_str_eq(b.worst, "");
    ck_assert_int_eq(cadre_param_diff(one, one, "", &a, &err), CADRE_OK);
    ck_assert_uint_eq(a.hash, b.hash);
}
END_TEST

START_TEST(counts_values_between)
{
    struct cadre_param_diff diff = diff_of(1, nextafterf(nextafterf(1.0F, 2), 2));
    ck_assert(!diff.same_bits);
    ck_assert_uint_eq(diff.ulp_max, 2);
    ck_assert(diff.max == ldexp(1, -22));
    ck_assert_str_eq(diff.worst, "w");
    /* across zero: -1e-45 to 0 is one value */
    ck_assert_uint_eq(diff_of(3, -0x1p-149F).ulp_max, 1);
}
END_TEST

START_TEST(zero_of_another_sign_has_other_bits)
{
    struct cadre_param_diff diff = diff_of(3, -0.0F);
    ck_assert(!diff.same_bits && diff.max == 0 && diff.ulp_max == 0);
}
END_TEST

START_TEST(nan_is_the_largest_difference)
{
    struct cadre_param_diff diff = diff_of(2, NAN);
    ck_assert(!diff.same_bits && isnan(diff.max));
    ck_assert(diff.ulp_max == UINT64_MAX);
    ck_assert(isnan(diff_of(5, INFINITY).max));
}
END_TEST

START_TEST(hash_is_of_the_first_file)
{
    struct cadre_param_diff changed = diff_of(0, 7), back;
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_param_diff(one, two, "", &back, &err), CADRE_OK);
    ck_assert_uint_ne(changed.hash, back.hash);
    ck_assert(changed.max == back.max);
}
END_TEST

START_TEST(refuses_other_tensors_and_missing_files)
{
    const struct cadre_safetensors_spec specs[] = {
        {.name = "w", .dtype = CADRE_F32, .ndim = 2, .dim = {3, 2}},
        {.name = "v", .dtype = CADRE_F32, .ndim = 2, .dim = {2, 3}},
        {.name = "w", .dtype = CADRE_F64, .ndim = 2, .dim = {2, 3}},
    };
    struct cadre_param_diff diff;
    for (size_t i = 0; i < 3; i++) {
        struct cadre_error err = {0};
        ck_assert_int_eq(cadre_safetensors_create(two, &specs[i], 1, &err), CADRE_OK);
        ck_assert_int_eq(cadre_param_diff(two, one, "", &diff, &err), CADRE_E_INVALID);
        ck_assert_ptr_nonnull(strstr(err.text, "tensor"));
    }
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_safetensors_create(two, specs, 2, &err), CADRE_OK);
    ck_assert_int_eq(cadre_param_diff(two, one, "", &diff, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "holds 2 tensors"));
    fixture_write(dir, "two.safetensors", "short");
    ck_assert_int_eq(cadre_param_diff(two, one, "", &diff, NULL), CADRE_E_INVALID);
    err = (struct cadre_error){0};
    ck_assert_int_eq(cadre_param_diff("/nowhere", one, "", &diff, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "is missing"));
}
END_TEST

START_TEST(a_suffix_chooses_tensors)
{
    struct cadre_param_diff avg, sq, none;
    struct cadre_error err = {0};
    fixture_states(one, values, 0);
    fixture_states(two, values, 0.5);
    ck_assert_int_eq(cadre_param_diff(two, one, ".exp_avg", &avg, &err), CADRE_OK);
    ck_assert(!avg.same_bits && avg.max == 0.5 && avg.elements == FIXTURE_PARAMS);
    ck_assert_str_eq(avg.worst, "w.exp_avg");
    ck_assert_int_eq(cadre_param_diff(two, one, ".exp_avg_sq", &sq, &err), CADRE_OK);
    ck_assert(sq.same_bits && sq.hash != avg.hash);
    ck_assert_int_eq(cadre_param_diff(two, one, ".other", &none, &err), CADRE_OK);
    ck_assert(none.same_bits && none.elements == 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("param_diff");
    TCase *tc = tcase_create("param_diff");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, equal_files_have_no_difference);
    tcase_add_test(tc, counts_values_between);
    tcase_add_test(tc, zero_of_another_sign_has_other_bits);
    tcase_add_test(tc, nan_is_the_largest_difference);
    tcase_add_test(tc, hash_is_of_the_first_file);
    tcase_add_test(tc, a_suffix_chooses_tensors);
    tcase_add_test(tc, refuses_other_tensors_and_missing_files);
    suite_add_tcase(suite, tc);
    return suite;
}
