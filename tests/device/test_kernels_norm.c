/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

static const int64_t shapes[][2] = {{1, 1},   {1, 7},    {3, 31},  {33, 33}, {2, 64},
                                    {65, 65}, {70, 130}, {5, 768}, {100, 16}};
#define SHAPES ((int)(sizeof shapes / sizeof *shapes))

enum { X, W, B, Y, STATS, DY, RESIDUAL, DX, DW, DB, TENSORS };

struct problem {
    struct cadre_device *device;
    struct cadre_norm a;
    struct tensor t[TENSORS];
};

static void problem_init(struct problem *p, struct cadre_device *device, uint32_t dtype,
                         const int64_t shape[2], bool layer)
{
    const int64_t N = shape[0], C = shape[1];
    const int64_t counts[TENSORS] = {[X] = N * C,
                                     [W] = C,
                                     [B] = C,
                                     [Y] = N * C,
                                     [STATS] = N * 2,
                                     [DY] = N * C,
                                     [RESIDUAL] = N * C,
                                     [DX] = N * C,
                                     [DW] = C,
                                     [DB] = C};
    p->device = device;
    for (int i = 0; i < TENSORS; i++) {
        bool output = i == Y || i == STATS || i >= DX;
        p->t[i] = tensor_make(device, dtype, counts[i], output ? 0 : (uint64_t)i + 1);
    }
    p->a = (struct cadre_norm){.dtype = dtype,
                               .rows = N,
                               .channels = C,
                               .layer = layer,
                               .eps = 1e-5,
                               .x = p->t[X].data,
                               .w = p->t[W].data,
                               .b = layer ? p->t[B].data : NULL,
                               .y = p->t[Y].data,
                               .stats = p->t[STATS].data,
                               .dy = p->t[DY].data,
                               .dx = p->t[DX].data,
                               .dw = p->t[DW].data,
                               .db = layer ? p->t[DB].data : NULL};
}

static void problem_fini(struct problem *p)
{
    for (int i = 0; i < TENSORS; i++)
        tensor_free(&p->t[i]);
}

static void check_row(const struct problem *p, int64_t row)
{
    const int64_t C = p->a.channels;
    const double limit = slack(p->a.dtype, C) * 4;
    double mean = 0, squares = 0;
    for (int64_t c = 0; c < C && p->a.layer; c++)
        mean += tensor_get(&p->t[X], row * C + c) / (double)C;
    for (int64_t c = 0; c < C; c++)
        squares += pow(tensor_get(&p->t[X], row * C + c) - mean, 2) / (double)C;
    const double rstd = 1 / sqrt(squares + p->a.eps);
    check_close(tensor_get(&p->t[STATS], row * 2), mean, limit, "mean", row);
    check_close(tensor_get(&p->t[STATS], row * 2 + 1), rstd, limit, "rstd", row);
    for (int64_t c = 0; c < C; c++) {
        double want =
            (tensor_get(&p->t[X], row * C + c) - mean) * rstd * tensor_get(&p->t[W], c);
        if (p->a.layer)
            want += tensor_get(&p->t[B], c);
        check_close(tensor_get(&p->t[Y], row * C + c), want, limit, "y", row * C + c);
    }
}

START_TEST(forward)
{
    struct cadre_device *device = open_cpu(2);
    for (int form = 0; form < 4; form++) {
        struct problem p;
        problem_init(&p, device, form & 1 ? CADRE_F64 : CADRE_F32, shapes[_i],
                     form & 2);
        ck_assert_int_eq(device->ops->norm_fwd(device, &p.a), CADRE_OK);
        for (int64_t row = 0; row < p.a.rows; row++)
            check_row(&p, row);
        problem_fini(&p);
    }
    cadre_device_close(device);
}
END_TEST

/* `sum` is written as `add` does, also over an addend, and normed. */
START_TEST(forward_of_a_sum)
{
    struct cadre_device *device = open_cpu(2);
    const struct cadre_device_ops *ops = device->ops;
    for (int form = 0; form < 16; form++) {
        const uint32_t dtype = form & 1 ? CADRE_F64 : CADRE_F32;
        const int64_t N = shapes[_i][0], C = shapes[_i][1];
        const size_t bytes = (size_t)(N * C) * cadre_dtype_bytes(dtype);
        struct problem p, q;
        struct tensor a = tensor_make(device, dtype, N * C, 9);
        struct tensor b = tensor_make(device, dtype, N * C, 10);
        problem_init(&p, device, dtype, shapes[_i], form & 2);
        problem_init(&q, device, dtype, shapes[_i], form & 2);
        p.a.a = a.data;
        p.a.bias = form & 4 ? p.t[B].data : NULL;
        p.a.b_sum = form & 8 ? b.data : NULL;
        p.a.x = NULL;
        ck_assert_int_eq(
            ops->add(device, dtype, a.data, p.a.bias, p.a.b_sum, q.t[X].data, N, C),
            CADRE_OK);
        p.a.sum = form & 8 ? b.data : a.data;
        ck_assert_int_eq(ops->norm_fwd(device, &p.a), CADRE_OK);
        ck_assert_int_eq(ops->norm_fwd(device, &q.a), CADRE_OK);
        ck_assert_mem_eq(p.a.sum, q.t[X].data, bytes);
        ck_assert_mem_eq(p.t[Y].data, q.t[Y].data, bytes);
        ck_assert_mem_eq(p.t[STATS].data, q.t[STATS].data,
                         (size_t)(2 * N) * cadre_dtype_bytes(dtype));
        problem_fini(&p);
        problem_fini(&q);
        tensor_free(&a);
        tensor_free(&b);
    }
    cadre_device_close(device);
}
END_TEST

static double loss(void *ctx)
{
    struct problem *p = ctx;
    double sum = 0;
    ck_assert_int_eq(p->device->ops->norm_fwd(p->device, &p->a), CADRE_OK);
    for (int64_t i = 0; i < p->t[Y].count; i++)
        sum += tensor_get(&p->t[Y], i) * tensor_get(&p->t[DY], i);
    return sum;
}

START_TEST(backward)
{
    struct cadre_device *device = open_cpu(2);
    for (int layer = 0; layer < 2; layer++) {
        struct problem p;
        problem_init(&p, device, CADRE_F64, shapes[_i], layer);
        const struct cadre_device_ops *ops = device->ops;
        loss(&p);
        ck_assert_int_eq(ops->norm_bwd(device, &p.a), CADRE_OK);
        check_gradient(&p.t[X], &p.t[DX], loss, &p, "x");
        check_gradient(&p.t[W], &p.t[DW], loss, &p, "w");
        if (layer)
            check_gradient(&p.t[B], &p.t[DB], loss, &p, "b");
        else
            ck_assert(isnan(tensor_get(&p.t[DB], 0)));
        problem_fini(&p);
    }
    cadre_device_close(device);
}
END_TEST

/* beta 1 adds; the residual is added, also where it is dx itself. */
START_TEST(accumulates)
{
    struct cadre_device *device = open_cpu(1);
    const struct cadre_device_ops *ops = device->ops;
    struct problem p;
    problem_init(&p, device, CADRE_F64, shapes[5], true);
    loss(&p);
    ck_assert_int_eq(ops->norm_bwd(device, &p.a), CADRE_OK);
    struct tensor dx = tensor_make(device, CADRE_F64, p.t[DX].count, 0);
    struct tensor dw = tensor_make(device, CADRE_F64, p.t[DW].count, 0);
    memcpy(dx.data, p.t[DX].data, (size_t)dx.count * sizeof(double));
    memcpy(dw.data, p.t[DW].data, (size_t)dw.count * sizeof(double));
    memcpy(p.t[DX].data, p.t[RESIDUAL].data, (size_t)dx.count * sizeof(double));
    p.a.residual = p.a.dx;
    p.a.beta = 1;
    ck_assert_int_eq(ops->norm_bwd(device, &p.a), CADRE_OK);
    for (int64_t i = 0; i < dx.count; i++)
        ck_assert(tensor_get(&p.t[DX], i) ==
                  tensor_get(&p.t[RESIDUAL], i) + tensor_get(&dx, i));
    for (int64_t i = 0; i < dw.count; i++)
        ck_assert(tensor_get(&p.t[DW], i) == 2 * tensor_get(&dw, i));
    tensor_free(&dx);
    tensor_free(&dw);
    problem_fini(&p);
    cadre_device_close(device);
}
END_TEST

START_TEST(column_sums)
{
    struct cadre_device *device = open_cpu(2);
    const uint32_t dtype = _i ? CADRE_F64 : CADRE_F32;
    for (int s = 0; s < SHAPES; s++) {
        const int64_t N = shapes[s][0], C = shapes[s][1];
        struct tensor dy = tensor_make(device, dtype, N * C, 1);
        struct tensor db = tensor_make(device, dtype, C, 0);
        for (int beta = 0; beta < 2; beta++) {
            ck_assert_int_eq(
                device->ops->bias_bwd(device, dtype, dy.data, N, C, db.data, beta),
                CADRE_OK);
            for (int64_t c = 0; c < C; c++) {
                double want = 0;
                for (int64_t n = 0; n < N; n++)
                    want += tensor_get(&dy, n * C + c);
                check_close(tensor_get(&db, c), want * (1 + beta), slack(dtype, N),
                            "db", c);
            }
        }
        tensor_free(&dy);
        tensor_free(&db);
    }
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("kernels_norm");
    TCase *tc = tcase_create("norm");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, forward, 0, SHAPES);
    tcase_add_loop_test(tc, forward_of_a_sum, 0, SHAPES);
    tcase_add_loop_test(tc, backward, 0, SHAPES);
    tcase_add_test(tc, accumulates);
    tcase_add_loop_test(tc, column_sums, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}
