/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/cpu/cpu.h"
#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

static const uint32_t dtypes[] = {CADRE_F32, CADRE_F64};

/* Does a belong before b? NaN first, then larger magnitude, then the lower index. */
static bool before(const struct tensor *x, int64_t a, int64_t b)
{
    const double u = fabs(tensor_get(x, a)), v = fabs(tensor_get(x, b));
    if (isnan(u) || isnan(v))
        return isnan(u) && isnan(v) ? a < b : isnan(u);
    return u == v ? a < b : u > v;
}

/* By the definition: an element is selected when fewer than k belong before it. */
static void check_naive(const struct tensor *x, int64_t k)
{
    struct tensor values = tensor_make(x->device, x->dtype, k + 1, 0);
    int32_t *indices = calloc((size_t)k + 1, sizeof *indices);
    const size_t size = cadre_dtype_bytes(x->dtype);
    int64_t n = 0;
    indices[k] = -7;
    ck_assert_int_eq(x->device->ops->topk(x->device, x->dtype, x->data, x->count, k,
                                          values.data, indices),
                     CADRE_OK);
    for (int64_t i = 0; i < x->count; i++) {
        int64_t ahead = 0;
        for (int64_t j = 0; j < x->count && ahead < k; j++)
            ahead += before(x, j, i);
        if (ahead >= k)
            continue;
        ck_assert_int_lt(n, k);
        ck_assert_int_eq(indices[n], i);
        ck_assert(memcmp((char *)values.data + (size_t)n * size,
                         (char *)x->data + (size_t)i * size, size) == 0);
        n++;
    }
    ck_assert_int_eq(n, k);
    ck_assert_int_eq(indices[k], -7);
    ck_assert(isnan(tensor_get(&values, k)));
    free(indices);
    tensor_free(&values);
}

START_TEST(as_sorted)
{
    struct cadre_device *device = open_cpu(2);
    static const int64_t counts[] = {0, 1, 2, 77, 1500};
    for (size_t c = 0; c < 5; c++) {
        struct tensor x = tensor_make(device, dtypes[_i], counts[c], 5 + c);
        const int64_t ks[] = {0, 1, 2, counts[c] / 2, counts[c]};
        for (size_t i = 0; i < 5; i++)
            if (ks[i] <= counts[c])
                check_naive(&x, ks[i]);
        tensor_free(&x);
    }
    cadre_device_close(device);
}
END_TEST

/* Few values, so that the k-th has equals; magnitudes of every size; NaN. */
START_TEST(ties_extremes_and_nan)
{
    struct cadre_device *device = open_cpu(2);
    static const double odd[] = {0.0,   -0.0,     5e-324,    -1e-45,   1e-310, 3.0,
                                 -3.0,  3.0,      1e-38,     -1e38,    3e38,   INFINITY,
                                 -3e38, INFINITY, -INFINITY, 0x1p-149, 3.0,    -3.0};
    struct tensor x = tensor_make(device, dtypes[_i], 500, 3);
    for (int64_t i = 0; i < x.count; i++)
        tensor_set(&x, i, odd[(i * 7) % 18]);
    for (int64_t k = 0; k <= x.count; k += 19)
        check_naive(&x, k);
    tensor_set(&x, 17, (double)NAN);
    tensor_set(&x, 400, -(double)NAN);
    for (int64_t k = 1; k <= 4; k++)
        check_naive(&x, k);
    for (int64_t i = 0; i < x.count; i++)
        tensor_set(&x, i, 0);
    check_naive(&x, 9);
    tensor_free(&x);
    cadre_device_close(device);
}
END_TEST

/* Many tiles, ties across their edges: the same with any number of threads, and the
 * smallest selected is not smaller than the largest left. */
START_TEST(threads_change_nothing)
{
    enum { N = 300007, K = 30011 };
    int32_t *indices[2];
    struct tensor values[2];
    for (int run = 0; run < 2; run++) {
        struct cadre_device *device = open_cpu(run ? 4 : 1);
        struct tensor x = tensor_make(device, dtypes[_i], N, 11);
        for (int64_t i = 0; i < N; i++)
            tensor_set(&x, i, rint(tensor_get(&x, i) * 1000));
        values[run] = tensor_make(device, dtypes[_i], K, 0);
        indices[run] = calloc(K, sizeof **indices);
        ck_assert_int_eq(device->ops->topk(device, dtypes[_i], x.data, N, K,
                                           values[run].data, indices[run]),
                         CADRE_OK);
        double least = INFINITY, most = 0;
        for (int64_t i = 0, at = 0; i < N; i++) {
            const double size = fabs(tensor_get(&x, i));
            if (at < K && indices[run][at] == i) {
                least = fmin(least, size);
                at++;
            } else {
                most = fmax(most, size);
            }
        }
        ck_assert(least >= most && most > 0);
        tensor_free(&x);
        cadre_device_close(device);
    }
    ck_assert(memcmp(indices[0], indices[1], K * sizeof **indices) == 0);
    ck_assert(
        memcmp(values[0].data, values[1].data, K * cadre_dtype_bytes(dtypes[_i])) == 0);
    for (int run = 0; run < 2; run++) {
        free(indices[run]);
        cadre_cpu_free(values[run].data);
    }
}
END_TEST

START_TEST(refused)
{
    struct cadre_device *device = open_cpu(1);
    float x[2] = {1, 2}, values[3];
    int32_t indices[3];
    ck_assert_int_eq(device->ops->topk(device, CADRE_F32, x, 2, 3, values, indices),
                     CADRE_E_DEVICE);
    ck_assert_int_eq(device->ops->topk(device, CADRE_BF16, x, 2, 1, values, indices),
                     CADRE_E_DEVICE);
    cadre_device_close(device);
}
END_TEST

/* What topk selected, subtracted and added elsewhere twice. */
START_TEST(scattered_back)
{
    enum { N = 50021, K = 20011 };
    struct cadre_device *device = open_cpu(3);
    struct tensor x = tensor_make(device, dtypes[_i], N, 4);
    struct tensor y = tensor_make(device, dtypes[_i], N, 9);
    struct tensor x0 = tensor_make(device, dtypes[_i], N, 4);
    struct tensor y0 = tensor_make(device, dtypes[_i], N, 9);
    struct tensor values = tensor_make(device, dtypes[_i], K, 0);
    int32_t *at = calloc(K, sizeof *at);
    const struct cadre_device_ops *ops = device->ops;
    ops->topk(device, dtypes[_i], x.data, N, K, values.data, at);
    ck_assert_int_eq(
        ops->scatter_add(device, dtypes[_i], x.data, N, values.data, at, K, -1), 0);
    ck_assert_int_eq(
        ops->scatter_add(device, dtypes[_i], y.data, N, values.data, at, K, 2), 0);
    for (int64_t i = 0, k = 0; i < N; i++) {
        const bool taken = k < K && at[k] == i;
        const double sent = taken ? tensor_get(&values, k) : 0;
        ck_assert(tensor_get(&x, i) == (taken ? 0 : tensor_get(&x0, i)));
        check_close(tensor_get(&y, i), tensor_get(&y0, i) + 2 * sent, 1e-6, "y", i);
        k += taken;
    }
    for (int32_t bad = -1; bad <= N; bad += N + 1) {
        at[5] = bad;
        ck_assert_int_eq(
            ops->scatter_add(device, dtypes[_i], y.data, N, values.data, at, K, 1),
            CADRE_E_DEVICE);
    }
    free(at);
    tensor_free(&x);
    tensor_free(&y);
    tensor_free(&x0);
    tensor_free(&y0);
    tensor_free(&values);
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("select");
    TCase *tc = tcase_create("select");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, as_sorted, 0, 2);
    tcase_add_loop_test(tc, ties_extremes_and_nan, 0, 2);
    tcase_add_loop_test(tc, threads_change_nothing, 0, 2);
    tcase_add_loop_test(tc, scattered_back, 0, 2);
    tcase_add_test(tc, refused);
    suite_add_tcase(suite, tc);
    return suite;
}
