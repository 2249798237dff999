/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

struct shape {
    int64_t m, n, k, pad;
};

static const struct shape shapes[] = {
    {1, 1, 1, 0},       {1, 7, 31, 0},       {7, 1, 33, 3},     {31, 33, 65, 0},
    {65, 31, 7, 5},     {33, 65, 31, 0},     {128, 384, 64, 0}, {1, 400, 64, 0},
    {513, 3, 5, 2},     {600, 401, 33, 0},   {64, 64, 1, 0},    {3, 1000, 17, 1},
    {260, 500, 300, 1}, {200, 600, 1100, 1},
};

/* (rows, columns) stored as is or transposed */
static double element(const struct tensor *t, int64_t ld, bool transposed, int64_t i,
                      int64_t j)
{
    return tensor_get(t, transposed ? j * ld + i : i * ld + j);
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double expected(const struct cadre_gemm *g, const struct tensor *a,
                       const struct tensor *b, double old, const struct tensor *bias,
                       int64_t i, int64_t j)
{
    double sum = g->beta ? old : 0;
    for (int64_t k = 0; k < g->k; k++)
        sum += element(a, g->lda, g->ta, i, k) * element(b, g->ldb, g->tb, k, j);
    return bias ? sum + tensor_get(bias, j) : sum;
}

static void check_product(struct cadre_device *device, uint32_t dtype, struct shape s,
                          int form)
{
    const bool ta = form & 1, tb = form & 2;
    const int beta = form >> 2 & 1;
    const enum cadre_epilogue epilogue = (enum cadre_epilogue)((form >> 3) % 3);
    const int64_t lda = (ta ? s.m : s.k) + s.pad, ldb = (tb ? s.k : s.n) + s.pad;
    const int64_t ldc = s.n + s.pad;
    struct tensor a = tensor_make(device, dtype, (ta ? s.k : s.m) * lda, 1);
    struct tensor b = tensor_make(device, dtype, (tb ? s.n : s.k) * ldb, 2);
    struct tensor c = tensor_make(device, dtype, s.m * ldc, beta ? 3 : 0);
    struct tensor old = tensor_make(device, dtype, s.m * ldc, 3);
    struct tensor bias = tensor_make(device, dtype, s.n, 4);
    struct tensor aux = tensor_make(device, dtype, s.m * ldc, 0);
    const struct cadre_gemm g = {.dtype = dtype,
                                 .m = s.m,
                                 .n = s.n,
                                 .k = s.k,
                                 .a = a.data,
                                 .lda = lda,
                                 .ta = ta,
                                 .b = b.data,
                                 .ldb = ldb,
                                 .tb = tb,
                                 .c = c.data,
                                 .ldc = ldc,
                                 .beta = beta,
                                 .epilogue = epilogue,
                                 .bias = epilogue ? bias.data : NULL,
                                 .aux = epilogue == CADRE_EPILOGUE_BIAS_GELU ? aux.data
                                                                             : NULL};
    ck_assert_int_eq(device->ops->gemm(device, &g), CADRE_OK);
    for (int64_t i = 0; i < s.m; i++) {
        for (int64_t j = 0; j < s.n; j += 1 + s.n / 50) {
            double want = expected(&g, &a, &b, tensor_get(&old, i * ldc + j),
                                   epilogue ? &bias : NULL, i, j);
            const int64_t at = i * ldc + j;
            if (g.aux) {
                check_close(tensor_get(&aux, at), want, slack(dtype, s.k), "aux", at);
                want = gelu(want);
            }
            check_close(tensor_get(&c, at), want, slack(dtype, s.k), "c", at);
        }
        for (int64_t j = s.n; j < ldc; j++) { /* the gap between rows is not compared */
            double gap = tensor_get(&c, i * ldc + j);
            ck_assert(beta ? gap == tensor_get(&old, i * ldc + j) : isnan(gap));
        }
    }
    struct tensor *all[] = {&a, &b, &c, &old, &bias, &aux};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

/* By Cadre's own products and by the libraries. */
START_TEST(products)
{
    struct cadre_device *device = NULL;
    struct cadre_error err = {0};
    const struct cadre_device_config config = {.kind = "cpu",
                                               .threads = 2,
                                               .gemm = _i & 2 ? CADRE_GEMM_LIBRARY
                                                              : CADRE_GEMM_CADRE};
    ck_assert_msg(cadre_device_open(&config, &device, &err) == CADRE_OK, "%s",
                  err.text);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        /* all 24 forms, or five of them, different for each shape */
        const int step = test_lean() ? 5 : 1;
        for (int form = (int)i % step; form < 24; form += step)
            check_product(device, _i & 1 ? CADRE_F64 : CADRE_F32, shapes[i], form);
    }
    cadre_device_close(device);
}
END_TEST

START_TEST(empty_products)
{
    struct cadre_device *device = open_cpu(1);
    struct tensor c = tensor_make(device, CADRE_F32, 6, 1);
    struct cadre_gemm g = {.dtype = CADRE_F32,
                           .m = 2,
                           .n = 3,
                           .k = 0,
                           .c = c.data,
                           .lda = 1,
                           .ldb = 3,
                           .ldc = 3,
                           .beta = 1};
    const double before = tensor_get(&c, 5);
    ck_assert_int_eq(device->ops->gemm(device, &g), CADRE_OK);
    ck_assert(tensor_get(&c, 5) == before);
    g.beta = 0;
    ck_assert_int_eq(device->ops->gemm(device, &g), CADRE_OK);
    for (int i = 0; i < 6; i++)
        ck_assert(tensor_get(&c, i) == 0);
    g.m = 0;
    ck_assert_int_eq(device->ops->gemm(device, &g), CADRE_OK);
    g.dtype = CADRE_I32;
    ck_assert_int_eq(device->ops->gemm(device, &g), CADRE_E_DEVICE);
    tensor_free(&c);
    cadre_device_close(device);
}
END_TEST

/* More shapes than a worker keeps: the table is emptied and refilled. */
START_TEST(many_shapes)
{
    struct cadre_device *device = open_cpu(1);
    struct tensor x = tensor_make(device, CADRE_F32, 2000, 1);
    struct tensor c = tensor_make(device, CADRE_F32, 4, 0);
    for (int64_t k = 1; k <= 900; k++) {
        const struct cadre_gemm g = {.dtype = CADRE_F32,
                                     .m = 1,
                                     .n = 1,
                                     .k = k,
                                     .a = x.data,
                                     .lda = k,
                                     .b = x.data,
                                     .ldb = 1,
                                     .c = c.data,
                                     .ldc = 1};
        ck_assert_int_eq(device->ops->gemm(device, &g), CADRE_OK);
        double sum = 0;
        for (int64_t i = 0; i < k; i++)
            sum += tensor_get(&x, i) * tensor_get(&x, i);
        check_close(tensor_get(&c, 0), sum, slack(CADRE_F32, k), "dot", k);
    }
    tensor_free(&x);
    tensor_free(&c);
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("gemm");
    TCase *tc = tcase_create("gemm");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, products, 0, 4);
    tcase_add_test(tc, empty_products);
    tcase_add_test(tc, many_shapes);
    suite_add_tcase(suite, tc);
    return suite;
}
