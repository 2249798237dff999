/* SPDX-License-Identifier: Apache-2.0 */
/* The vectors of optimizers against plain loops; test_kernels_all.c holds their bits to
 * one another. */
#include <math.h>
#include <string.h>

#include "core/base/tree.h"
#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

static const uint32_t dtypes[] = {CADRE_F32, CADRE_F64, CADRE_BF16, CADRE_F16};
static const int64_t sizes[] = {0, 1, 17, 4095, 4096, 4097, 40001};
enum { DTYPES = 4, SIZES = sizeof sizes / sizeof *sizes };

static void ok(cadre_status rc)
{
    ck_assert_int_eq(rc, CADRE_OK);
}

/* A unit in the last place of 1. */
static double unit(uint32_t dtype)
{
    return dtype == CADRE_BF16  ? 0x1p-7
           : dtype == CADRE_F16 ? 0x1p-10
           : dtype == CADRE_F32 ? 0x1p-23
                                : 0x1p-52;
}

/* x, y and what stands between the two. */
struct pair {
    struct cadre_device *device;
    uint32_t dtype;
    int64_t n;
    struct tensor x, y, old;
};

static struct pair pair_make(int i)
{
    struct pair p = {
        .device = open_cpu(2), .dtype = dtypes[i % DTYPES], .n = sizes[i / DTYPES]};
    p.x = tensor_make(p.device, p.dtype, p.n, 1);
    p.y = tensor_make(p.device, p.dtype, p.n, 2);
    p.old = tensor_make(p.device, p.dtype, p.n, 2);
    return p;
}

static void pair_free(struct pair *p)
{
    tensor_free(&p->x);
    tensor_free(&p->y);
    tensor_free(&p->old);
    cadre_device_close(p->device);
}

START_TEST(weighted_sums)
{
    struct pair p = pair_make(_i);
    const double limit = 3 * unit(p.dtype);
    ok(p.device->ops->axpby(p.device, p.dtype, 0.3, p.x.data, -2, p.y.data, p.n));
    for (int64_t i = 0; i < p.n; i++)
        check_close(tensor_get(&p.y, i),
                    0.3 * tensor_get(&p.x, i) - 2 * tensor_get(&p.old, i), limit,
                    "axpby", i);
    /* in place */
    ok(p.device->ops->axpby(p.device, p.dtype, 0.25, p.x.data, 0.5, p.x.data, p.n));
    struct tensor x = tensor_make(p.device, p.dtype, p.n, 1);
    for (int64_t i = 0; i < p.n; i++)
        check_close(tensor_get(&p.x, i), 0.75 * tensor_get(&x, i), limit, "axpby", i);
    tensor_free(&x);
    pair_free(&p);
}
END_TEST

/* out is separate, a, or b */
START_TEST(products)
{
    for (int form = 0; form < 3; form++) {
        struct pair p = pair_make(_i);
        struct tensor separate = tensor_make(p.device, p.dtype, p.n, 0);
        struct tensor x = tensor_make(p.device, p.dtype, p.n, 1);
        struct tensor *out = form == 0 ? &separate : form == 1 ? &p.x : &p.y;
        ok(p.device->ops->mul(p.device, p.dtype, out->data, p.x.data, p.y.data, p.n));
        for (int64_t i = 0; i < p.n; i++)
            check_close(tensor_get(out, i), tensor_get(&x, i) * tensor_get(&p.old, i),
                        unit(p.dtype), "mul", i);
        tensor_free(&x);
        tensor_free(&separate);
        pair_free(&p);
    }
}
END_TEST

START_TEST(inverse_roots)
{
    struct pair p = pair_make(_i);
    for (int64_t i = 0; i < p.n; i++) {
        const double x = i % 5 ? fabs(tensor_get(&p.x, i)) : 0;
        tensor_set(&p.x, i, x);
        tensor_set(&p.old, i, tensor_get(&p.x, i));
    }
    ok(p.device->ops->rsqrt(p.device, p.dtype, p.x.data, p.n, 0.125));
    for (int64_t i = 0; i < p.n; i++)
        check_close(tensor_get(&p.x, i), 1 / (sqrt(tensor_get(&p.old, i)) + 0.125),
                    3 * unit(p.dtype), "rsqrt", i);
    pair_free(&p);
}
END_TEST

/* Chunks added in the tree, whatever the number of threads. */
START_TEST(dot_products)
{
    struct pair p = pair_make(_i);
    double sums[16] = {0}, got = -1, alone = -1;
    for (int64_t i = 0; i < p.n; i++)
        sums[i / CADRE_NORM_CHUNK] += tensor_get(&p.x, i) * tensor_get(&p.y, i);
    const size_t chunks = (size_t)(p.n + CADRE_NORM_CHUNK - 1) / CADRE_NORM_CHUNK;
    ck_assert_uint_le(chunks, 16);
    ok(p.device->ops->dot(p.device, p.dtype, p.x.data, p.y.data, p.n, &got));
    check_close(got, cadre_tree_sum(sums, chunks), 1e-12, "dot", 0);
    struct cadre_device *one = open_cpu(1);
    ok(one->ops->dot(one, p.dtype, p.x.data, p.y.data, p.n, &alone));
    ck_assert_mem_eq(&got, &alone, sizeof got);
    cadre_device_close(one);
    if (p.n > 0) {
        tensor_set(&p.x, p.n - 1, NAN);
        ok(p.device->ops->dot(p.device, p.dtype, p.x.data, p.y.data, p.n, &got));
        ck_assert(isnan(got));
    }
    pair_free(&p);
}
END_TEST

START_TEST(transposes)
{
    static const int64_t shapes[][2] = {{1, 1},   {1, 70},  {70, 1},   {0, 5},
                                        {31, 33}, {32, 32}, {129, 40}, {200, 333}};
    struct cadre_device *device = open_cpu(2);
    const uint32_t dtype = dtypes[_i];
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const int64_t rows = shapes[s][0], columns = shapes[s][1];
        struct tensor x = tensor_make(device, dtype, rows * columns, 1);
        struct tensor y = tensor_make(device, dtype, rows * columns, 0);
        ok(device->ops->transpose(device, dtype, y.data, x.data, rows, columns));
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++)
                ck_assert(tensor_get(&y, c * rows + r) ==
                          tensor_get(&x, r * columns + c));
        tensor_free(&x);
        tensor_free(&y);
    }
    cadre_device_close(device);
}
END_TEST

START_TEST(rows_are_copied)
{
    enum { ROWS = 37, COLUMNS = 11, FROM = 17, TO = 13 };
    struct cadre_device *device = open_cpu(2);
    const uint32_t dtype = dtypes[_i];
    struct tensor x = tensor_make(device, dtype, ROWS * FROM, 1);
    struct tensor y = tensor_make(device, dtype, ROWS * TO, 0);
    ok(device->ops->copy_rows(device, dtype, y.data, TO, x.data, FROM, ROWS, COLUMNS));
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < TO; c++)
            ck_assert(c < COLUMNS
                          ? tensor_get(&y, r * TO + c) == tensor_get(&x, r * FROM + c)
                          : isnan(tensor_get(&y, r * TO + c)));
    tensor_free(&x);
    tensor_free(&y);
    cadre_device_close(device);
}
END_TEST

START_TEST(other_dtypes_are_refused)
{
    struct cadre_device *device = open_cpu(1);
    uint8_t x[4] = {1, 2, 3, 4}, y[4] = {0};
    double sum;
    ck_assert_int_eq(device->ops->axpby(device, CADRE_U8, 1, x, 1, y, 4),
                     CADRE_E_DEVICE);
    ck_assert_int_eq(device->ops->mul(device, CADRE_U8, y, x, x, 4), CADRE_E_DEVICE);
    ck_assert_int_eq(device->ops->rsqrt(device, CADRE_U8, y, 4, 0), CADRE_E_DEVICE);
    ck_assert_int_eq(device->ops->dot(device, CADRE_U8, x, x, 4, &sum), CADRE_E_DEVICE);
    ck_assert_int_eq(device->ops->transpose(device, CADRE_U8, y, x, 2, 2),
                     CADRE_E_DEVICE);
    ck_assert(!memcmp(y, "\0\0\0", 4));
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("vector");
    TCase *tc = tcase_create("vector");
    tcase_add_loop_test(tc, weighted_sums, 0, DTYPES * SIZES);
    tcase_add_loop_test(tc, products, 0, DTYPES * SIZES);
    tcase_add_loop_test(tc, inverse_roots, 0, DTYPES * SIZES);
    tcase_add_loop_test(tc, dot_products, 0, DTYPES * SIZES);
    tcase_add_loop_test(tc, transposes, 0, DTYPES);
    tcase_add_loop_test(tc, rows_are_copied, 0, DTYPES);
    tcase_add_test(tc, other_dtypes_are_refused);
    suite_add_tcase(s, tc);
    return s;
}
