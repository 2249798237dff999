/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

static const uint32_t dtypes[] = {CADRE_F32, CADRE_F64};

static struct cadre_device *device;

static void setup(void)
{
    device = open_cpu(2);
}

static void teardown(void)
{
    cadre_device_close(device);
}

static double eps_of(uint32_t dtype)
{
    return dtype == CADRE_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
}

static void make_orthonormal(struct tensor *x, int64_t columns)
{
    const cadre_status rc = device->ops->orthonormalize(device, x->dtype, x->data,
                                                        x->count / columns, columns);
    ck_assert_int_eq(rc, CADRE_OK);
}

static double dot(const struct tensor *a, int64_t i, const struct tensor *b, int64_t j,
                  int64_t columns)
{
    double sum = 0;
    for (int64_t r = 0; r < a->count / columns; r++)
        sum += tensor_get(a, r * columns + i) * tensor_get(b, r * columns + j);
    return sum;
}

static void check_orthonormal(const struct tensor *x, int64_t columns)
{
    for (int64_t i = 0; i < columns; i++)
        for (int64_t j = 0; j <= i; j++)
            ck_assert_double_eq_tol(dot(x, i, x, j, columns), i == j,
                                    16 * eps_of(x->dtype));
}

/* Column k of the old is the sum of its projections onto the new ones, up to k. */
static void check_span(const struct tensor *old, const struct tensor *x,
                       int64_t columns)
{
    for (int64_t k = 0; k < columns; k++) {
        double rest = dot(old, k, old, k, columns);
        const double whole = rest;
        for (int64_t j = 0; j <= k; j++)
            rest -= pow(dot(old, k, x, j, columns), 2);
        ck_assert_double_le(fabs(rest), 200 * eps_of(x->dtype) * whole);
    }
}

START_TEST(random_columns)
{
    static const int64_t shapes[][2] = {{1, 1}, {3, 3}, {50, 1}, {777, 8}, {64, 64}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const int64_t rows = shapes[s][0], columns = shapes[s][1];
        struct tensor x = tensor_make(device, dtypes[_i], rows * columns, 3 + s);
        struct tensor old = tensor_make(device, dtypes[_i], rows * columns, 3 + s);
        make_orthonormal(&x, columns);
        check_orthonormal(&x, columns);
        check_span(&old, &x, columns);
        tensor_free(&x);
        tensor_free(&old);
    }
}
END_TEST

/* Columns nearly equal, equal, zero, and of every size still yield a full basis. */
START_TEST(dependent_columns)
{
    enum { ROWS = 40, COLUMNS = 6 };
    struct tensor x = tensor_make(device, dtypes[_i], (int64_t)ROWS * COLUMNS, 8);
    for (int64_t r = 0; r < ROWS; r++) {
        const double a = tensor_get(&x, r * COLUMNS);
        const double tiny = dtypes[_i] == CADRE_F64 ? 1e-200 : 1e-30;
        tensor_set(&x, r * COLUMNS + 1, a * 2);
        tensor_set(&x, r * COLUMNS + 2, 0);
        tensor_set(&x, r * COLUMNS + 3, tensor_get(&x, r * COLUMNS + 3) * tiny);
        tensor_set(&x, r * COLUMNS + 4, a + 1e-3 * tensor_get(&x, r * COLUMNS + 4));
    }
    make_orthonormal(&x, COLUMNS);
    check_orthonormal(&x, COLUMNS);
    memset(x.data, 0, (size_t)x.count * cadre_dtype_bytes(x.dtype));
    make_orthonormal(&x, COLUMNS);
    check_orthonormal(&x, COLUMNS);
    ck_assert(tensor_get(&x, 0) == 1 && tensor_get(&x, COLUMNS + 1) == 1);
    tensor_free(&x);
}
END_TEST

START_TEST(nan_stays_nan)
{
    static const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (size_t b = 0; b < 3; b++) {
        struct tensor x = tensor_make(device, dtypes[_i], 20, 5);
        tensor_set(&x, 7, bad[b]); /* row 3, column 1 of two */
        make_orthonormal(&x, 2);
        ck_assert_double_eq_tol(dot(&x, 0, &x, 0, 2), 1, 1e-6);
        ck_assert(isnan(tensor_get(&x, 7)));
        tensor_free(&x);
    }
}
END_TEST

START_TEST(refused)
{
    float x[6] = {1, 2, 3, 4, 5, 6};
    const struct cadre_device_ops *ops = device->ops;
    ck_assert_int_eq(ops->orthonormalize(device, CADRE_F32, x, 2, 3), CADRE_E_DEVICE);
    ck_assert_int_eq(ops->orthonormalize(device, CADRE_BF16, x, 3, 2), CADRE_E_DEVICE);
    ck_assert_int_eq(ops->orthonormalize(device, CADRE_F32, x, 0, 0), CADRE_OK);
    ck_assert_float_eq(x[0], 1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("orthonormal");
    TCase *tc = tcase_create("orthonormal");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, random_columns, 0, 2);
    tcase_add_loop_test(tc, dependent_columns, 0, 2);
    tcase_add_loop_test(tc, nan_stays_nan, 0, 2);
    tcase_add_test(tc, refused);
    suite_add_tcase(suite, tc);
    return suite;
}
