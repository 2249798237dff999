/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of norms, rows and elements compared with the CPU's ops. */
#include "core/device/cuda/kernels.h"
#include "tests/device/cuda/kernel_testing.h"
#include "tests/support/check_main.h"

struct shape {
    uint32_t dtype;
    int64_t rows, channels;
    bool layer, fused, residual;
    int beta;
};

static const int64_t shapes[][2] = {{1, 1}, {3, 31}, {9, 64}, {5, 272}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- norm ---- */

enum { X, W, B, A, BIAS, B_SUM, SUM, Y, STATS, DY, RESIDUAL, DX, DW, DB };

static cadre_status run_norm(struct cadre_device *cpu, void **p, const void *ctx)
{
    const struct shape *s = ctx;
    const struct cadre_norm a = {.dtype = s->dtype,
                                 .rows = s->rows,
                                 .channels = s->channels,
                                 .layer = s->layer,
                                 .eps = 1e-5,
                                 .x = s->fused ? p[SUM] : p[X],
                                 .w = p[W],
                                 .b = p[B],
                                 .a = p[A],
                                 .bias = p[BIAS],
                                 .b_sum = p[B_SUM],
                                 .sum = p[SUM],
                                 .y = p[Y],
                                 .stats = p[STATS],
                                 .dy = p[DY],
                                 .residual = p[RESIDUAL],
                                 .dx = p[DX],
                                 .dw = p[DW],
                                 .db = p[DB],
                                 .beta = s->beta};
    if (cpu) {
        cadre_status rc = cpu->ops->norm_fwd(cpu, &a);
        return rc == CADRE_OK ? cpu->ops->norm_bwd(cpu, &a) : rc;
    }
    cadre_status rc = finish(cadre_cuda_norm_fwd(&a, NULL), NULL);
    void *scratch = scratch_of(cadre_cuda_norm_bwd_scratch(&a));
    return rc == CADRE_OK ? finish(cadre_cuda_norm_bwd(&a, scratch, NULL), scratch)
                          : finish(rc, scratch);
}

static void norm_case(struct shape s)
{
    const uint32_t wide = cadre_dtype_wide(s.dtype);
    const int64_t n = s.rows * s.channels, C = s.channels;
    const struct kernel_case c = {
        .name = s.layer ? "layer norm" : "RMS norm",
        .args = {[X] = {s.dtype, s.fused ? 0 : n, 1},
                 [W] = {s.dtype, C, 2},
                 [B] = {s.dtype, s.layer ? C : 0, 3},
                 [A] = {s.dtype, s.fused ? n : 0, 4},
                 [BIAS] = {s.dtype, s.fused && s.layer ? C : 0, 5},
                 [B_SUM] = {s.dtype, s.fused ? n : 0, 6},
                 [SUM] = {s.dtype, s.fused ? n : 0, 0},
                 [Y] = {s.dtype, n, 0},
                 [STATS] = {wide, s.rows * 2, 0},
                 [DY] = {s.dtype, n, 7},
                 [RESIDUAL] = {s.dtype, s.residual ? n : 0, 8},
                 [DX] = {s.dtype, n, 0},
                 [DW] = {wide, C, s.beta ? 9 : 0},
                 [DB] = {wide, s.layer ? C : 0, s.beta ? 10 : 0}},
        .run = run_norm,
        .ctx = &s,
        /* one channel's 1 / std is 300, and x - mean cancels */
        .loose = C == 1          ? 2000
                 : s.rows > 1000 ? 300
                                 : 30,
    };
    hold_to_cpu(&c);
}

START_TEST(norms)
{
    for (int d = 0; d < 4; d++)
        for (int i = 0; i < SHAPES; i++)
            for (int form = 0; form < 4; form++)
                norm_case((struct shape){.dtype = kernel_dtypes[d],
                                         .rows = shapes[i][0],
                                         .channels = shapes[i][1],
                                         .layer = form % 2,
                                         .fused = form / 2,
                                         .residual = form / 2,
                                         .beta = form / 2});
}
END_TEST

/* More rows than all warps of all blocks process at once. */
START_TEST(norm_of_many_rows)
{
    norm_case(
        (struct shape){.dtype = CADRE_F32, .rows = 4300, .channels = 5, .layer = true});
}
END_TEST

/* ---- rows ---- */

static cadre_status run_add(struct cadre_device *cpu, void **p, const void *ctx)
{
    const struct shape *s = ctx;
    if (cpu)
        return cpu->ops->add(cpu, s->dtype, p[0], p[1], p[2], p[3], s->rows,
                             s->channels);
    return finish(
        cadre_cuda_add(s->dtype, p[0], p[1], p[2], p[3], s->rows, s->channels, NULL),
        NULL);
}

START_TEST(sums_of_rows)
{
    for (int d = 0; d < 4; d++)
        for (int i = 0; i < SHAPES; i++)
            for (int form = 0; form < 4; form++) {
                const uint32_t t = kernel_dtypes[d];
                const int64_t n = shapes[i][0] * shapes[i][1];
                const struct shape s = {t, shapes[i][0], shapes[i][1], 0, 0, 0, 0};
                const struct kernel_case c = {
                    .name = "add",
                    .args = {{t, n, 1},
                             {t, form % 2 ? s.channels : 0, 2},
                             {t, form / 2 ? n : 0, 3},
                             {t, n, 0}},
                    .run = run_add,
                    .ctx = &s};
                hold_to_cpu(&c);
            }
}
END_TEST

static cadre_status run_bias(struct cadre_device *cpu, void **p, const void *ctx)
{
    const struct shape *s = ctx;
    if (cpu)
        return cpu->ops->bias_bwd(cpu, s->dtype, p[0], s->rows, s->channels, p[1],
                                  s->beta);
    void *scratch =
        scratch_of(cadre_cuda_bias_bwd_scratch(s->dtype, s->rows, s->channels));
    return finish(cadre_cuda_bias_bwd(s->dtype, p[0], s->rows, s->channels, p[1],
                                      s->beta, scratch, NULL),
                  scratch);
}

START_TEST(column_sums)
{
    for (int d = 0; d < 4; d++)
        for (int beta = 0; beta < 2; beta++) {
            const uint32_t t = kernel_dtypes[d];
            const struct shape s = {t, 301, 37, 0, 0, 0, beta};
            const struct kernel_case c = {
                .name = "bias_bwd",
                .args = {{t, 301 * 37, 1}, {cadre_dtype_wide(t), 37, beta ? 2 : 0}},
                .run = run_bias,
                .ctx = &s,
                .loose = 20};
            hold_to_cpu(&c);
        }
}
END_TEST

static cadre_status run_rope(struct cadre_device *cpu, void **p, const void *ctx)
{
    const struct cadre_rotary rotary = {.theta = 1e4};
    const struct shape *s = ctx; /* rows: time; channels: head size */
    const int64_t ld = 3 * s->channels + (s->layer ? 5 : 0);
    if (cpu)
        return cpu->ops->rope(cpu, s->dtype, p[0], ld, 2, s->rows, 3, s->channels,
                              &rotary, 7, s->residual);
    return finish(cadre_cuda_rope(s->dtype, p[0], ld, 2, s->rows, 3, s->channels,
                                  &rotary, 7, s->residual, NULL),
                  NULL);
}

START_TEST(rotary)
{
    for (int d = 0; d < 4; d++)
        for (int form = 0; form < 4; form++) {
            const uint32_t t = kernel_dtypes[d];
            const struct shape s = {t, 5, form % 2 ? 32 : 6, form % 2, 0, form / 2, 0};
            const int64_t ld = 3 * s.channels + (s.layer ? 5 : 0);
            const struct kernel_case c = {.name = "rope",
                                          .args = {{t, 10 * ld, 1}},
                                          .run = run_rope,
                                          .ctx = &s,
                                          .loose = 2};
            hold_to_cpu(&c);
        }
}
END_TEST

static cadre_status run_epilogue(struct cadre_device *cpu, void **p, const void *ctx)
{
    const struct shape *s = ctx;
    struct cadre_gemm g = {.dtype = s->dtype,
                           .m = s->rows,
                           .n = s->channels,
                           .k = 1,
                           .a = p[0],
                           .b = p[1],
                           .lda = 1,
                           .ldb = s->channels,
                           .c = p[2],
                           .ldc = s->channels,
                           .epilogue = s->layer ? CADRE_EPILOGUE_BIAS_GELU
                                                : CADRE_EPILOGUE_BIAS,
                           .bias = p[3],
                           .aux = p[4]};
    if (cpu)
        return cpu->ops->gemm(cpu, &g);
    struct cadre_device *other = open_cpu(1);
    g.epilogue = CADRE_EPILOGUE_NONE;
    cadre_status rc = other->ops->gemm(other, &g);
    cadre_device_close(other);
    g.epilogue = s->layer ? CADRE_EPILOGUE_BIAS_GELU : CADRE_EPILOGUE_BIAS;
    if (rc == CADRE_OK)
        rc = finish(cadre_cuda_bias(&g, NULL), NULL);
    if (rc == CADRE_OK && s->layer)
        rc = finish(cadre_cuda_gelu_of(&g, g.c, NULL), NULL);
    return rc;
}

START_TEST(epilogues)
{
    for (int d = 0; d < 4; d++)
        for (int form = 0; form < 4; form++) {
            const uint32_t t = kernel_dtypes[d];
            const int64_t C = form % 2 ? 33 : 64;
            const struct shape s = {t, 7, C, form / 2, 0, 0, 0};
            const struct kernel_case c = {.name = "epilogue",
                                          .args = {{t, 7, 1},
                                                   {t, C, 2},
                                                   {t, 7 * C, 0},
                                                   {t, C, 3},
                                                   {t, form / 2 ? 7 * C : 0, 0}},
                                          .run = run_epilogue,
                                          .ctx = &s,
                                          .loose = 4};
            hold_to_cpu(&c);
        }
}
END_TEST

/* ---- elements ---- */

enum { COUNT = 2051 };

static cadre_status run_activations(struct cadre_device *cpu, void **p, const void *ctx)
{
    const uint32_t t = *(const uint32_t *)ctx;
    cadre_status rc;
    if (cpu) {
        rc = cpu->ops->gelu_bwd(cpu, t, p[0], p[2], p[3], COUNT);
        rc |= cpu->ops->swiglu_fwd(cpu, t, p[0], p[1], p[4], COUNT);
        rc |= cpu->ops->swiglu_bwd(cpu, t, p[0], p[1], p[2], p[5], p[6], COUNT);
        return rc;
    }
    rc = cadre_cuda_gelu_bwd(t, p[0], p[2], p[3], COUNT, NULL);
    rc |= cadre_cuda_swiglu_fwd(t, p[0], p[1], p[4], COUNT, NULL);
    rc |= cadre_cuda_swiglu_bwd(t, p[0], p[1], p[2], p[5], p[6], COUNT, NULL);
    return finish(rc, NULL);
}

START_TEST(activations)
{
    for (int d = 0; d < 4; d++) {
        const uint32_t t = kernel_dtypes[d];
        const struct kernel_case c = {.name = "activations",
                                      .args = {{t, COUNT, 1},
                                               {t, COUNT, 2},
                                               {t, COUNT, 3},
                                               {t, COUNT, 0},
                                               {t, COUNT, 0},
                                               {t, COUNT, 0},
                                               {t, COUNT, 0}},
                                      .run = run_activations,
                                      .ctx = &t,
                                      .loose = 1};
        hold_to_cpu(&c);
    }
}
END_TEST

static cadre_status run_simple(struct cadre_device *cpu, void **p, const void *ctx)
{
    const uint32_t t = *(const uint32_t *)ctx;
    cadre_status rc;
    if (cpu) {
        rc = cpu->ops->scale(cpu, t, p[0], COUNT, 0.3);
        rc |= cpu->ops->tree_add(cpu, t, p[3], p[1], p[2], COUNT);
        rc |= cpu->ops->maximum(cpu, t, p[4], p[1], p[2], COUNT);
        return rc;
    }
    rc = cadre_cuda_scale(t, p[0], COUNT, 0.3, NULL);
    rc |= cadre_cuda_tree_add(t, p[3], p[1], p[2], COUNT, NULL);
    rc |= cadre_cuda_maximum(t, p[4], p[1], p[2], COUNT, NULL);
    return finish(rc, NULL);
}

START_TEST(simple_ones)
{
    for (int d = 0; d < 4; d++) {
        const uint32_t t = kernel_dtypes[d];
        const struct kernel_case c = {.name = "scale, tree_add, maximum",
                                      .args = {{t, COUNT, 1},
                                               {t, COUNT, 2},
                                               {t, COUNT, 3},
                                               {t, COUNT, 0},
                                               {t, COUNT, 0}},
                                      .run = run_simple,
                                      .ctx = &t};
        hold_to_cpu(&c);
    }
}
END_TEST

START_TEST(integers)
{
    int32_t a[5] = {1, -2, INT32_MAX, 7, 0}, b[5] = {3, -5, 0, 7, -1}, sum[5], most[5];
    uint8_t u[3] = {0, 200, 3}, v[3] = {1, 100, 3}, high[3];
    ck_assert_int_eq(cadre_cuda_tree_add(CADRE_I32, sum, a, b, 5, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_cuda_maximum(CADRE_I32, most, a, b, 5, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_cuda_maximum(CADRE_U8, high, u, v, 3, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_cuda_maximum(99, high, u, v, 3, NULL), CADRE_E_DEVICE);
    finish(CADRE_OK, NULL);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(sum[i], a[i] + b[i]);
        ck_assert_int_eq(most[i], a[i] > b[i] ? a[i] : b[i]);
    }
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(high[i], u[i] > v[i] ? u[i] : v[i]);
}
END_TEST

static cadre_status run_cast(struct cadre_device *cpu, void **p, const void *ctx)
{
    const uint32_t *t = ctx;
    if (cpu)
        return cpu->ops->cast(cpu, t[1], p[1], t[0], p[0], COUNT);
    return finish(cadre_cuda_cast(t[1], p[1], t[0], p[0], COUNT, NULL), NULL);
}

START_TEST(casts)
{
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++) {
            const uint32_t t[2] = {kernel_dtypes[from], kernel_dtypes[to]};
            const struct kernel_case c = {.name = "cast",
                                          .args = {{t[0], COUNT, 1}, {t[1], COUNT, 0}},
                                          .run = run_cast,
                                          .ctx = t};
            hold_to_cpu(&c);
        }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("cuda_rows");
    TCase *tc = tcase_create("cuda_rows");
    tcase_add_test(tc, norms);
    tcase_add_test(tc, norm_of_many_rows);
    tcase_add_test(tc, sums_of_rows);
    tcase_add_test(tc, column_sums);
    tcase_add_test(tc, rotary);
    tcase_add_test(tc, epilogues);
    tcase_add_test(tc, activations);
    tcase_add_test(tc, simple_ones);
    tcase_add_test(tc, integers);
    tcase_add_test(tc, casts);
    suite_add_tcase(s, tc);
    return s;
}
