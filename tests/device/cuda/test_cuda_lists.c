/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of embeddings, loss, optimizers, norms of lists and compression compared with
 * the CPU's ops. */
#include <math.h>
#include <string.h>

#include "core/device/cuda/kernels.h"
#include "tests/device/cuda/kernel_testing.h"
#include "tests/support/check_main.h"

/* ---- embedding ---- */

enum { BATCH = 3, TIME = 29, ROWS = BATCH * TIME, WORDS = 17, PLACES = 40, BEGIN = 4 };

struct embedding {
    uint32_t dtype;
    int64_t channels;
    int beta;
    int32_t tokens[ROWS];
};

static cadre_status run_embed(struct cadre_device *cpu, void **p, const void *ctx)
{
    const struct embedding *e = ctx;
    const struct cadre_embed a = {.dtype = e->dtype,
                                  .batch = BATCH,
                                  .time = TIME,
                                  .channels = e->channels,
                                  .tokens = e->tokens,
                                  .begin = BEGIN,
                                  .count = WORDS,
                                  .position = 5,
                                  .positions = PLACES,
                                  .wte = p[0],
                                  .wpe = p[1],
                                  .out = p[2],
                                  .dout = p[3],
                                  .dwte = p[4],
                                  .dwpe = p[5],
                                  .beta = e->beta};
    cadre_status rc;
    if (cpu) {
        rc = cpu->ops->embed_fwd(cpu, &a);
        rc |= cpu->ops->embed_bwd_tokens(cpu, &a);
        rc |= cpu->ops->embed_bwd_positions(cpu, &a);
        return rc;
    }
    void *scratch = scratch_of(cadre_cuda_embed_bwd_tokens_scratch(&a));
    rc = cadre_cuda_embed_fwd(&a, NULL);
    rc |= cadre_cuda_embed_bwd_tokens(&a, scratch, NULL);
    rc |= cadre_cuda_embed_bwd_positions(&a, NULL);
    return finish(rc, scratch);
}

/* Sums in the order of the rows have the CPU's bits. */
START_TEST(embeddings)
{
    struct embedding e = {.channels = 0};
    uint64_t state = 5;
    for (int i = 0; i < ROWS; i++) /* some outside the range, one very often */
        e.tokens[i] = i % 3 == 0 ? 9 : (int32_t)((random_real(&state) + 1) * 13);
    for (int d = 0; d < 4; d++)
        for (int form = 0; form < 4; form++) {
            const uint32_t t = kernel_dtypes[d], wide = cadre_dtype_wide(t);
            e.dtype = t;
            e.channels = form % 2 ? 32 : 11;
            e.beta = form / 2;
            const int64_t C = e.channels;
            const struct kernel_case c = {.name = "embedding",
                                          .args = {{t, WORDS * C, 1},
                                                   {t, e.beta ? PLACES * C : 0, 2},
                                                   {t, ROWS * C, 0},
                                                   {t, ROWS * C, 3},
                                                   {wide, WORDS * C, e.beta ? 4 : 0},
                                                   {wide, PLACES * C, e.beta ? 5 : 0}},
                                          .run = run_embed,
                                          .ctx = &e};
            hold_to_cpu(&c);
        }
}
END_TEST

/* More rows than a tile of the sort. */
START_TEST(many_rows)
{
    enum { MANY = 5000, KINDS = 300 };
    static int32_t tokens[MANY];
    static float dout[MANY], want[KINDS], got[KINDS];
    uint64_t state = 11;
    struct cadre_embed a = {.dtype = CADRE_F32,
                            .batch = 1,
                            .time = MANY,
                            .channels = 1,
                            .tokens = tokens,
                            .count = KINDS,
                            .dout = dout,
                            .dwte = got};
    memset(want, 0, sizeof want);
    for (int i = 0; i < MANY; i++) {
        tokens[i] = (int32_t)((random_real(&state) + 1) * KINDS / 2);
        dout[i] = (float)random_real(&state);
        want[tokens[i]] += dout[i];
    }
    void *scratch = scratch_of(cadre_cuda_embed_bwd_tokens_scratch(&a));
    ck_assert_int_eq(finish(cadre_cuda_embed_bwd_tokens(&a, scratch, NULL), scratch),
                     CADRE_OK);
    ck_assert_mem_eq(got, want, sizeof want);
}
END_TEST

/* ---- loss ---- */

struct loss {
    uint32_t dtype;
    int64_t vocab;
    int32_t targets[6];
};

static cadre_status run_xent(struct cadre_device *cpu, void **p, const void *ctx)
{
    const struct loss *l = ctx;
    const struct cadre_xent a = {.dtype = l->dtype,
                                 .rows = 6,
                                 .vocab = l->vocab,
                                 .begin = 3,
                                 .logits = p[0],
                                 .targets = l->targets,
                                 .max = p[1],
                                 .sum = p[2],
                                 .picked = p[3],
                                 .old_max = p[4],
                                 .total = p[6],
                                 .loss_rows = p[5],
                                 .logit_rows = p[7],
                                 .seed = 0.25};
    cadre_status rc;
    if (cpu) {
        rc = cpu->ops->xent_fwd(cpu, &a);
        rc |= cpu->ops->xent_rescale(cpu, &a);
        rc |= cpu->ops->xent_loss(cpu, &a);
        return rc | cpu->ops->xent_bwd(cpu, &a);
    }
    rc = cadre_cuda_xent_fwd(&a, NULL);
    rc |= cadre_cuda_xent_rescale(&a, NULL);
    rc |= cadre_cuda_xent_loss(&a, NULL);
    return finish(rc | cadre_cuda_xent_bwd(&a, NULL), NULL);
}

START_TEST(losses)
{
    struct loss l = {.targets = {3, -1, 0, 5, 1000000, 9}};
    for (int d = 0; d < 4; d++)
        for (int form = 0; form < 3; form++) {
            const uint32_t t = kernel_dtypes[d], wide = cadre_dtype_wide(t);
            const double f64 = wide == CADRE_F32 ? 1e9 : 0; /* of sums in f32 */
            l.dtype = t;
            l.vocab = (int64_t[]){7, 1000, 4133}[form];
            const struct kernel_case c = {.name = "xent",
                                          .args = {{t, 6 * l.vocab, 1},
                                                   {wide, 6, 0},
                                                   {wide, 6, 0},
                                                   {wide, 6, 0},
                                                   {wide, 6, 2},
                                                   {CADRE_F64, 6, 0, f64},
                                                   /* sums that cancel */
                                                   {wide, 6, 0, 100},
                                                   {CADRE_F64, 6, 0, 100 * f64}},
                                          .run = run_xent,
                                          .ctx = &l,
                                          .loose = 10};
            hold_to_cpu(&c);
        }
}
END_TEST

/* ---- optimizers ---- */

enum { FIRST = 4100, SECOND = 7, SLICED = FIRST + SECOND };

struct update {
    uint32_t dtype, rounded;
    bool sgd, momentum;
    int64_t n;
    double grad_scale;
    int64_t held;
};

static cadre_status run_update(struct cadre_device *cpu, void **p, const void *ctx)
{
    const struct update *u = ctx;
    static struct cadre_slice s[40]; /* two of the memory, the rest are empty */
    const size_t by = cadre_dtype_bytes(u->dtype);
    char *q[4];
    for (int i = 0; i < 4; i++)
        q[i] = p[i];
    memset(s, 0, sizeof s);
    s[0] =
        (struct cadre_slice){FIRST, q[0], p[4], q[1], q[2], u->sgd ? NULL : q[3], 0.1};
    s[u->n - 1] = (struct cadre_slice){SECOND,
                                       q[0] + FIRST * by,
                                       p[4] ? (char *)p[4] + 2 * FIRST : NULL,
                                       q[1] + FIRST * by,
                                       q[2] ? q[2] + FIRST * by : NULL,
                                       u->sgd ? NULL : q[3] + FIRST * by,
                                       0};
    const struct cadre_adamw a = {u->dtype, u->rounded,     1e-2, 0.9,  0.95,   1e-8,
                                  3,        &u->grad_scale, s,    u->n, u->held};
    const struct cadre_sgd g = {u->dtype, u->rounded,     1e-2, u->momentum ? 0.9 : 0,
                                3,        &u->grad_scale, s,    u->n};
    if (cpu)
        return u->sgd ? cpu->ops->sgd(cpu, &g) : cpu->ops->adamw(cpu, &a);
    cadre_status rc = u->sgd ? cadre_cuda_sgd(&g, NULL) : cadre_cuda_adamw(&a, NULL);
    memset(s, 0xff, sizeof s); /* the list is the caller's again */
    return finish(rc, NULL);
}

static void update_case(struct update u)
{
    const struct kernel_case c = {
        .name = u.sgd ? "sgd" : "adamw",
        .args = {{u.dtype, SLICED, 1},
                 {u.dtype, SLICED, 2},
                 {u.dtype, u.sgd && !u.momentum ? 0 : SLICED, 3},
                 {u.dtype, u.sgd ? 0 : SLICED, 0},
                 {u.rounded, u.rounded ? SLICED : 0, 0}},
        .run = run_update,
        .ctx = &u};
    struct kernel_case squares = c;
    squares.args[3].seed = u.sgd ? 0 : 77;
    hold_to_cpu(&squares);
}

/* The arithmetic is the CPU's, and so are the bits. */
START_TEST(optimizers)
{
    for (int d = 0; d < 2; d++)
        for (int form = 0; form < 6; form++) {
            struct update u = {.dtype = d ? CADRE_F64 : CADRE_F32,
                               .rounded =
                                   (uint32_t[]){0, CADRE_BF16, CADRE_F16}[form % 3],
                               .n = form % 2 ? 40 : 2,
                               .grad_scale = 0.5};
            update_case(u);
            u.held = 2;
            update_case(u);
            u.sgd = true;
            u.momentum = form % 2;
            update_case(u);
            u.grad_scale = form % 2 ? (double)NAN : (double)INFINITY;
            update_case(u);
        }
}
END_TEST

/* ---- sums ---- */

static cadre_status run_sums(struct cadre_device *cpu, void **p, const void *ctx)
{
    const uint32_t t = *(const uint32_t *)ctx;
    double *out = p[2];
    const struct cadre_squares list[2] = {{p[0], 4096 * 2 + 3, out},
                                          {p[1], 5, out + 3}};
    if (cpu)
        return cpu->ops->sum_squares(cpu, t, list, 2);
    return finish(cadre_cuda_sum_squares(t, list, 2, NULL), NULL);
}

START_TEST(squares)
{
    for (int d = 0; d < 4; d++) {
        const uint32_t t = kernel_dtypes[d];
        const struct kernel_case c = {
            .name = "sum_squares",
            .args = {{t, 4096 * 2 + 3, 1}, {t, 5, 2}, {CADRE_F64, 4, 0}},
            .run = run_sums,
            .ctx = &t,
            .loose = 1};
        hold_to_cpu(&c);
    }
}
END_TEST

static cadre_status run_total(struct cadre_device *cpu, void **p, const void *ctx)
{
    const uint64_t n = *(const uint64_t *)ctx;
    double *out = p[1], *x = p[0];
    for (uint64_t i = 0; i < n; i++)
        x[i] = fabs(x[i]);
    if (cpu)
        return cpu->ops->norm_total(cpu, x, n, 0.5, 0.25, out) |
               cpu->ops->norm_total(cpu, x, n, 0, 0.25, out + 2);
    return finish(cadre_cuda_norm_total(x, n, 0.5, 0.25, out, NULL) |
                      cadre_cuda_norm_total(x, n, 0, 0.25, out + 2, NULL),
                  NULL);
}

START_TEST(totals)
{
    const uint64_t counts[] = {1, 2, 3, 511, 512, 513, 1500, 4097};
    double *out = scratch_of(3 * sizeof *out), bad = NAN, rows[3] = {1, 2, 4};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const struct kernel_case c = {
            .name = "norm_total",
            .args = {{CADRE_F64, (int64_t)counts[i], 1}, {CADRE_F64, 4, 0}},
            .run = run_total,
            .ctx = &counts[i]};
        hold_to_cpu(&c);
    }
    ck_assert_int_eq(cadre_cuda_norm_total(&bad, 1, 1, 1, out, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_cuda_sum_rows(rows, 3, out + 2, NULL), CADRE_OK);
    finish(CADRE_OK, NULL);
    ck_assert(isnan(out[0]) && isnan(out[1]));
    ck_assert(out[2] == 7);
    finish(CADRE_OK, out);
}
END_TEST

/* ---- compression ---- */

enum { COUNT = 9001, BEST = 777, BLOCK = 300, BLOCKS = (COUNT + BLOCK - 1) / BLOCK };

/* x is rounded to few values, so that many are equal. */
static cadre_status run_topk(struct cadre_device *cpu, void **p, const void *ctx)
{
    const uint32_t t = *(const uint32_t *)ctx;
    struct cadre_device *any = open_cpu(1);
    static int32_t indices[BEST];
    struct tensor x = {any, t, COUNT, p[0]}, places = {any, CADRE_F64, BEST, p[2]};
    for (int64_t i = 0; i < COUNT; i++)
        tensor_set(&x, i, floor(tensor_get(&x, i) * 8) / 8);
    tensor_set(&x, 5000, NAN);
    tensor_set(&x, 6000, -INFINITY);
    cadre_status rc;
    if (cpu) {
        rc = cpu->ops->topk(cpu, t, p[0], COUNT, BEST, p[1], indices);
    } else {
        void *scratch = scratch_of(cadre_cuda_topk_scratch(COUNT));
        rc = finish(cadre_cuda_topk(t, p[0], COUNT, BEST, p[1], indices, scratch, NULL),
                    scratch);
    }
    for (int i = 0; i < BEST; i++)
        tensor_set(&places, i, indices[i]);
    cadre_device_close(any);
    return rc;
}

static cadre_status run_quantize(struct cadre_device *cpu, void **p, const void *ctx)
{
    const uint32_t t = *(const uint32_t *)ctx;
    static int8_t q[COUNT];
    double *codes = p[2];
    cadre_status rc;
    if (cpu) {
        rc = cpu->ops->quantize(cpu, t, p[0], COUNT, BLOCK, q, p[1]);
        rc |= cpu->ops->dequantize(cpu, q, p[1], BLOCK, t, p[3], COUNT);
    } else {
        rc = cadre_cuda_quantize(t, p[0], COUNT, BLOCK, q, p[1], NULL);
        rc |= cadre_cuda_dequantize(q, p[1], BLOCK, t, p[3], COUNT, NULL);
        finish(rc, NULL);
    }
    for (int i = 0; i < COUNT; i++)
        codes[i] = q[i];
    return rc;
}

START_TEST(selects)
{
    for (int d = 0; d < 2; d++) {
        const uint32_t t = kernel_dtypes[d];
        const struct kernel_case k = {
            .name = "topk",
            .args = {{t, COUNT, 1}, {t, BEST, 0}, {CADRE_F64, BEST, 0}},
            .run = run_topk,
            .ctx = &t};
        const struct kernel_case q = {.name = "quantize",
                                      .args = {{t, COUNT, 1},
                                               {CADRE_F32, BLOCKS, 0},
                                               {CADRE_F64, COUNT, 0},
                                               {t, COUNT, 0}},
                                      .run = run_quantize,
                                      .ctx = &t};
        hold_to_cpu(&k);
        hold_to_cpu(&q);
    }
}
END_TEST

START_TEST(scatters)
{
    float x[4] = {1, 2, 3, 4}, values[2] = {10, 20};
    int32_t good[2] = {3, 0}, bad[2] = {1, 4}, flag = 7;
    ck_assert_int_eq(
        cadre_cuda_scatter_add(CADRE_F32, x, 4, values, good, 2, 0.5, &flag, NULL),
        CADRE_OK);
    finish(CADRE_OK, NULL);
    ck_assert_int_eq(flag, 0);
    ck_assert(x[0] == 11 && x[1] == 2 && x[2] == 3 && x[3] == 9);
    ck_assert_int_eq(
        cadre_cuda_scatter_add(CADRE_F32, x, 4, values, bad, 2, 0.5, &flag, NULL),
        CADRE_OK);
    finish(CADRE_OK, NULL);
    ck_assert_int_eq(flag, 1);
    ck_assert(x[0] == 11 && x[1] == 2);
}
END_TEST

static cadre_status run_orthonormal(struct cadre_device *cpu, void **p, const void *ctx)
{
    const uint32_t t = *(const uint32_t *)ctx;
    struct cadre_device *any = open_cpu(1);
    struct tensor x = {any, t, 90 * 4, p[0]};
    for (int64_t r = 0; r < 90; r++)
        tensor_set(&x, r * 4 + 2, 0); /* becomes a coordinate's direction */
    cadre_device_close(any);
    if (cpu)
        return cpu->ops->orthonormalize(cpu, t, p[0], 90, 4);
    void *scratch = scratch_of(cadre_cuda_orthonormalize_scratch(4));
    return finish(cadre_cuda_orthonormalize(t, p[0], 90, 4, scratch, NULL), scratch);
}

START_TEST(bases)
{
    for (int d = 0; d < 2; d++) {
        const uint32_t t = kernel_dtypes[d];
        const struct kernel_case c = {.name = "orthonormalize",
                                      .args = {{t, 90 * 4, 1}},
                                      .run = run_orthonormal,
                                      .ctx = &t,
                                      .loose = 10};
        hold_to_cpu(&c);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("cuda_lists");
    TCase *tc = tcase_create("cuda_lists");
    tcase_add_test(tc, embeddings);
    tcase_add_test(tc, many_rows);
    tcase_add_test(tc, losses);
    tcase_add_test(tc, optimizers);
    tcase_add_test(tc, squares);
    tcase_add_test(tc, totals);
    tcase_add_test(tc, selects);
    tcase_add_test(tc, scatters);
    tcase_add_test(tc, bases);
    suite_add_tcase(s, tc);
    return s;
}
