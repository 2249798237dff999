/* SPDX-License-Identifier: Apache-2.0 */
/* Ops in bf16 and f16 where layouts, tiles and roundings matter; test_kernels_all.c
 * compares each of them with fp32. */
#include "core/device/cpu/half.h"

#include <math.h>
#include <string.h>

#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

static uint32_t dtype_of(int i)
{
    return i % 2 ? CADRE_F16 : CADRE_BF16;
}

/* Who multiplies, from i / 2: the library where the CPU has bf16, it in f32, or Cadre.
 */
static struct cadre_device *open_ways(int threads, int i)
{
    const struct cadre_device_config config = {.kind = "cpu",
                                               .threads = threads,
                                               .gemm = i / 2 < 2 ? CADRE_GEMM_LIBRARY
                                                                 : CADRE_GEMM_CADRE};
    struct cadre_device *device = NULL;
    struct cadre_error err = {0};
    cadre_status rc = cadre_device_open(&config, &device, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    if (i / 2 == 1)
        ((struct cadre_cpu *)device)->multiplies_bf16 = false;
    return device;
}
enum { WAYS = 3 };

/* A unit in the last place of 1. */
static double unit(uint32_t dtype)
{
    return dtype == CADRE_BF16 ? 0x1p-7 : dtype == CADRE_F16 ? 0x1p-10 : 0x1p-23;
}

static void ok(cadre_status rc)
{
    ck_assert_int_eq(rc, CADRE_OK);
}

/* ---- products ---- */

enum { PAD = 3 };

struct product {
    struct tensor a, b, c, old, bias, aux;
    struct cadre_gemm g;
};

/* form: bits ta, tb, beta, wide; epilogue 0 to 2. Rows are PAD longer than needed. */
static void product_init(struct product *p, struct cadre_device *device, uint32_t dtype,
                         const int64_t size[3], int form, int epilogue)
{
    const int64_t m = size[0], n = size[1], k = size[2];
    const bool ta = form & 1, tb = form & 2, wide = form & 8;
    const uint32_t to = wide ? CADRE_F32 : dtype;
    p->g = (struct cadre_gemm){.dtype = dtype,
                               .wide = wide,
                               .m = m,
                               .n = n,
                               .k = k,
                               .lda = (ta ? m : k) + PAD,
                               .ldb = (tb ? k : n) + PAD,
                               .ldc = n + PAD,
                               .ta = ta,
                               .tb = tb,
                               .beta = form & 4 ? 1 : 0,
                               .epilogue = (enum cadre_epilogue)(wide ? 0 : epilogue)};
    p->a = tensor_make(device, dtype, (ta ? k : m) * p->g.lda, 1);
    p->b = tensor_make(device, dtype, (tb ? n : k) * p->g.ldb, 2);
    p->c = tensor_make(device, to, m * p->g.ldc, p->g.beta ? 3 : 0);
    p->old = tensor_make(device, to, m * p->g.ldc, p->g.beta ? 3 : 0);
    p->bias = tensor_make(device, dtype, n, 4);
    p->aux = tensor_make(device, dtype, m * p->g.ldc, 0);
    p->g.a = p->a.data;
    p->g.b = p->b.data;
    p->g.c = p->c.data;
    p->g.bias = p->g.epilogue ? p->bias.data : NULL;
    p->g.aux = p->g.epilogue == CADRE_EPILOGUE_BIAS_GELU ? p->aux.data : NULL;
}

static void product_fini(struct product *p)
{
    struct tensor *all[] = {&p->a, &p->b, &p->c, &p->old, &p->bias, &p->aux};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static double gelu(double x)
{
    return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static void check_element(const struct product *p, int64_t i, int64_t j)
{
    const struct cadre_gemm *g = &p->g;
    const int64_t at = i * g->ldc + j;
    const double round = 0.51 * unit(p->c.dtype);
    double want = g->beta ? tensor_get(&p->old, at) : 0, size = fabs(want);
    for (int64_t l = 0; l < g->k; l++) {
        const double x = tensor_get(&p->a, g->ta ? l * g->lda + i : i * g->lda + l);
        const double y = tensor_get(&p->b, g->tb ? j * g->ldb + l : l * g->ldb + j);
        want += x * y;
        size += fabs(x * y);
    }
    const double slip = 4e-7 * (size + 1) * (1 + (double)g->k / 64);
    if (g->epilogue)
        want += tensor_get(&p->bias, j);
    if (g->aux) {
        const double aux = tensor_get(&p->aux, at);
        ck_assert_msg(fabs(aux - want) <= round * fabs(want) + slip,
                      "aux[%ld, %ld]: %g, expected %g", (long)i, (long)j, aux, want);
        want = gelu(want);
    }
    const double got = tensor_get(&p->c, at);
    ck_assert_msg(fabs(got - want) <= round * fabs(want) + 2 * slip,
                  "c[%ld, %ld] of (%ld, %ld, %ld): %.9g, expected %.9g", (long)i,
                  (long)j, (long)g->m, (long)g->n, (long)g->k, got, want);
}

/* _i: dtype and way; some elements of each product */
START_TEST(products)
{
    static const int64_t sizes[][3] = {
        {1, 1, 1}, {5, 7, 3}, {33, 65, 130}, {2, 3, 4100}, {70, 401, 804}};
    const uint32_t dtype = dtype_of(_i);
    struct cadre_device *device = open_ways(2, _i);
    for (int s = 0; s < 5; s++) {
        for (int form = 0; form < 48; form++) {
            struct product p;
            product_init(&p, device, dtype, sizes[s], form % 16, form / 16);
            ok(device->ops->gemm(device, &p.g));
            for (int64_t i = 0; i < p.g.m; i += 1 + p.g.m / 7)
                for (int64_t j = 0; j < p.g.n; j += 1 + p.g.n / 7)
                    check_element(&p, i, j);
            for (int64_t at = p.g.n; at < p.c.count; at += p.g.ldc)
                ck_assert(p.g.beta || isnan(tensor_get(&p.c, at)));
            product_fini(&p);
        }
    }
    cadre_device_close(device);
}
END_TEST

START_TEST(empty_products)
{
    const uint32_t dtype = dtype_of(_i);
    struct cadre_device *device = open_cpu(1);
    for (int form = 0; form < 16; form++) {
        const int64_t size[] = {4, 5, 0};
        struct product p;
        product_init(&p, device, dtype, size, form, 1);
        ok(device->ops->gemm(device, &p.g));
        check_element(&p, 0, 0);
        check_element(&p, 3, 4);
        product_fini(&p);
    }
    cadre_device_close(device);
}
END_TEST

/* ---- attention in one buffer of q, k and v ---- */

enum { B = 2, T = 70, H = 6, G = 2, D = 8, LD = (H + 2 * G) * D + 1, N = B * T };

struct attention {
    struct tensor qkv, dqkv, out, dout, lse;
    struct cadre_attention a;
};

/* The f32 problem has the values of the other, whose dtype is `dtype`. */
static void attention_run(struct attention *s, struct cadre_device *device,
                          uint32_t dtype, uint32_t rounds)
{
    s->qkv = tensor_make(device, dtype, N * LD, 1);
    s->dqkv = tensor_make(device, dtype, N * LD, 0);
    s->out = tensor_make(device, dtype, N * H * D, 0);
    s->dout = tensor_make(device, dtype, N * H * D, 2);
    s->lse = tensor_make(device, CADRE_F32, N * H, 0);
    if (rounds) {
        tensor_round(&s->qkv, rounds);
        tensor_round(&s->dout, rounds);
    }
    const size_t k = H * D * cadre_dtype_bytes(dtype);
    const size_t v = k + G * D * cadre_dtype_bytes(dtype);
    s->a = (struct cadre_attention){.dtype = dtype,
                                    .batch = B,
                                    .time = T,
                                    .heads = H,
                                    .kv_heads = G,
                                    .head_size = D,
                                    .q = s->qkv.data,
                                    .k = (char *)s->qkv.data + k,
                                    .v = (char *)s->qkv.data + v,
                                    .ldq = LD,
                                    .ldk = LD,
                                    .ldv = LD,
                                    .ldo = H * D,
                                    .out = s->out.data,
                                    .lse = s->lse.data,
                                    .dout = s->dout.data,
                                    .dq = s->dqkv.data,
                                    .dk = (char *)s->dqkv.data + k,
                                    .dv = (char *)s->dqkv.data + v};
    ok(device->ops->attention_fwd(device, &s->a));
    if (rounds)
        tensor_round(&s->out, rounds);
    ok(device->ops->attention_bwd(device, &s->a));
    if (rounds)
        tensor_round(&s->dqkv, rounds);
}

static void check_unit(const struct tensor *got, const struct tensor *want,
                       double limit, double slip, const char *what)
{
    for (int64_t i = 0; i < got->count; i++) {
        const double x = tensor_get(got, i), y = tensor_get(want, i);
        ck_assert_msg((isnan(x) && isnan(y)) || fabs(x - y) <= limit * fabs(y) + slip,
                      "%s[%ld]: %g, expected %g", what, (long)i, x, y);
    }
}

/* NaN stays in unused columns. Where the CPU multiplies bf16 the probabilities are
 * rounded too, so that an error is relative to the terms of the sum. */
START_TEST(attention_of_one_buffer)
{
    const uint32_t dtype = dtype_of(_i);
    struct cadre_device *device = open_ways(3, _i);
    const bool native =
        dtype == CADRE_BF16 && ((struct cadre_cpu *)device)->multiplies_bf16;
    const double slip = native ? 2 * unit(dtype) : 1e-6;
    struct attention half, full;
    attention_run(&half, device, dtype, 0);
    attention_run(&full, device, CADRE_F32, dtype);
    check_unit(&half.lse, &full.lse, 1e-6, 1e-6, "lse");
    check_unit(&half.out, &full.out, unit(dtype), slip, "out");
    check_unit(&half.dqkv, &full.dqkv, unit(dtype), slip, "dqkv");
    ck_assert(isnan(tensor_get(&half.dqkv, LD - 1)));
    struct tensor *all[] = {&half.qkv, &half.dqkv, &half.out, &half.dout, &half.lse,
                            &full.qkv, &full.dqkv, &full.out, &full.dout, &full.lse};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
    cadre_device_close(device);
}
END_TEST

/* ---- rounding and tiles ---- */

/* 1 + u/2 + u/2 is 1 + u: each u/2 added separately would be lost. */
START_TEST(sums_are_rounded_once)
{
    const uint32_t dtype = dtype_of(_i);
    const double u = unit(dtype);
    struct cadre_device *device = open_cpu(1);
    struct tensor a = tensor_make(device, dtype, 4, 1), y = a;
    struct tensor bias = tensor_make(device, dtype, 4, 1);
    struct tensor b = tensor_make(device, dtype, 4, 1);
    for (int64_t i = 0; i < 4; i++) {
        tensor_set(&a, i, i == 3 ? INFINITY : i == 2 ? NAN : 1 - 2 * (double)i);
        tensor_set(&bias, i, (1 - 2 * (double)i) * u / 2);
        tensor_set(&b, i, (1 - 2 * (double)i) * u / 2);
    }
    ok(device->ops->add(device, dtype, a.data, bias.data, b.data, y.data, 1, 4));
    ck_assert(tensor_get(&y, 0) == 1 + u && tensor_get(&y, 1) == -1 - u);
    ck_assert(isnan(tensor_get(&y, 2)) && isinf(tensor_get(&y, 3)));
    ok(device->ops->tree_add(device, dtype, y.data, y.data, b.data, 2));
    ck_assert(tensor_get(&y, 0) == 1 + 2 * u); /* a tie goes to even */
    ok(device->ops->maximum(device, dtype, y.data, b.data, y.data, 4));
    ck_assert(tensor_get(&y, 0) == 1 + 2 * u && tensor_get(&y, 1) == -u / 2);
    ck_assert(isnan(tensor_get(&y, 2)) && isinf(tensor_get(&y, 3)));
    tensor_set(&y, 0, 60000);
    ok(device->ops->scale(device, dtype, y.data, 1, 2));
    ck_assert(dtype == CADRE_F16 ? isinf(tensor_get(&y, 0))
                                 : fabs(tensor_get(&y, 0) - 120000) < 500);
    tensor_free(&a);
    tensor_free(&bias);
    tensor_free(&b);
    cadre_device_close(device);
}
END_TEST

/* A range processed in two calls has the bits of one call, in place or not. */
START_TEST(divided_anywhere)
{
    enum { COUNT = 9001 };
    const uint32_t dtype = dtype_of(_i);
    struct cadre_device *device = open_cpu(2);
    const struct cadre_device_ops *ops = device->ops;
    struct tensor x = tensor_make(device, dtype, COUNT, 1);
    struct tensor g = tensor_make(device, dtype, COUNT, 2);
    struct tensor whole = tensor_make(device, dtype, COUNT, 0);
    ok(ops->gelu_bwd(device, dtype, x.data, g.data, whole.data, COUNT));
    ok(ops->tree_add(device, dtype, whole.data, whole.data, x.data, COUNT));
    ok(ops->scale(device, dtype, whole.data, COUNT, 1.0 / 3));
    for (int64_t cut = 1; cut < COUNT; cut += 1777) {
        struct tensor y = tensor_make(device, dtype, COUNT, 2);
        for (int part = 0; part < 2; part++) {
            const int64_t at = part ? cut : 0, n = part ? COUNT - cut : cut;
            const uint16_t *from = (const uint16_t *)x.data + at;
            uint16_t *to = (uint16_t *)y.data + at;
            ok(ops->gelu_bwd(device, dtype, from, to, to, n));
            ok(ops->tree_add(device, dtype, to, to, from, n));
            ok(ops->scale(device, dtype, to, n, 1.0 / 3));
        }
        ck_assert_mem_eq(y.data, whole.data, COUNT * sizeof(uint16_t));
        tensor_free(&y);
    }
    tensor_free(&x);
    tensor_free(&g);
    tensor_free(&whole);
    cadre_device_close(device);
}
END_TEST

/* Rotated as in fp32, and rotated back, at positions in the middle of a table from an
 * earlier call; the columns next to the heads are unchanged. */
START_TEST(rope_turns_back)
{
    enum { LONG = 21, COUNT = 2 * 9 * LONG };
    const struct cadre_rotary turn = {.theta = 10000};
    const uint32_t dtype = dtype_of(_i);
    struct cadre_device *device = open_cpu(2), *fresh = open_cpu(1);
    struct tensor x = tensor_make(device, dtype, COUNT, 1);
    struct tensor old = tensor_make(device, dtype, COUNT, 1);
    struct tensor full = tensor_make(fresh, CADRE_F32, COUNT, 1);
    const struct cadre_device_ops *ops = device->ops;
    tensor_round(&full, dtype);
    ok(ops->rope(device, dtype, x.data, LONG, 1, 18, 2, 10, &turn, 0, false));
    ok(ops->copy(device, x.data, old.data, COUNT * sizeof(uint16_t)));
    ok(ops->rope(device, dtype, x.data, LONG, 2, 9, 2, 10, &turn, 5, false));
    ok(ops->rope(fresh, CADRE_F32, full.data, LONG, 2, 9, 2, 10, &turn, 5, false));
    for (int64_t i = 0; i < COUNT; i++)
        ck_assert(fabs(tensor_get(&x, i) - tensor_get(&full, i)) <=
                  unit(dtype) / 2 * fabs(tensor_get(&full, i)));
    ck_assert(fabs(tensor_get(&x, 0) - tensor_get(&old, 0)) > 1e-2);
    for (int64_t at = 20; at < COUNT; at += LONG)
        ck_assert(tensor_get(&x, at) == tensor_get(&old, at));
    ok(ops->rope(device, dtype, x.data, LONG, 2, 9, 2, 10, &turn, 5, true));
    for (int64_t i = 0; i < COUNT; i++)
        check_close(tensor_get(&x, i), tensor_get(&old, i), 2 * unit(dtype), "x", i);
    tensor_free(&x);
    tensor_free(&old);
    tensor_free(&full);
    cadre_device_close(device);
    cadre_device_close(fresh);
}
END_TEST

/* Rows of tokens that another rank holds are zero; without positions, and from a
 * position on, rows are the weights' and their sums. */
START_TEST(embedding_of_a_slice)
{
    static const int32_t tokens[] = {3, 9, 4, 2, 3, 5};
    const uint32_t dtype = dtype_of(_i);
    struct cadre_device *device = open_cpu(2);
    struct tensor wte = tensor_make(device, dtype, 3 * 70, 1);
    struct tensor wpe = tensor_make(device, dtype, 8 * 70, 2);
    struct tensor out = tensor_make(device, dtype, 6 * 70, 0);
    struct tensor dwte = tensor_make(device, CADRE_F32, 3 * 70, 3);
    struct tensor dwpe = tensor_make(device, CADRE_F32, 8 * 70, 0);
    struct cadre_embed a = {.dtype = dtype,
                            .batch = 2,
                            .time = 3,
                            .channels = 70,
                            .tokens = tokens,
                            .begin = 3,
                            .count = 3,
                            .position = 4,
                            .positions = 8,
                            .wte = wte.data,
                            .out = out.data,
                            .dwte = dwte.data,
                            .dwpe = dwpe.data};
    for (int with = 0; with < 2; with++) {
        a.wpe = with ? wpe.data : NULL;
        ok(device->ops->embed_fwd(device, &a));
        for (int64_t i = 0; i < out.count; i++) {
            const int64_t row = i / 70, c = i % 70, token = tokens[row] - 3;
            const bool here = token >= 0 && token < 3;
            double want = here ? tensor_get(&wte, token * 70 + c) : 0;
            if (here && with)
                want += tensor_get(&wpe, (4 + row % 3) * 70 + c);
            ck_assert(fabs(tensor_get(&out, i) - want) <= unit(dtype) * fabs(want) / 2);
        }
    }
    a.dout = out.data;
    a.beta = 1;
    const double before = tensor_get(&dwte, 0);
    const double added = tensor_get(&out, 0) + tensor_get(&out, 4 * 70);
    ok(device->ops->embed_bwd_tokens(device, &a));
    check_close(tensor_get(&dwte, 0), before + added, 1e-6, "dwte", 0);
    a.beta = 0;
    ok(device->ops->embed_bwd_positions(device, &a));
    for (int64_t p = 0; p < 8; p++) {
        const int64_t row = p - 4;
        double want = 0;
        if (row >= 0 && row < 3)
            want = tensor_get(&out, row * 70) + tensor_get(&out, (row + 3) * 70);
        check_close(tensor_get(&dwpe, p * 70), want, 1e-6, "dwpe", p);
    }
    struct tensor *all[] = {&wte, &wpe, &out, &dwte, &dwpe};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
    cadre_device_close(device);
}
END_TEST

enum { ROWS = 5, HALF = 33 };

/* The result for logits made from `seed`. */
static void check_slice_gradient(const struct cadre_xent *a,
                                 const struct tensor *logits, uint64_t seed)
{
    struct tensor old = tensor_make(logits->device, a->dtype, ROWS * HALF, seed);
    const float *most = a->max, *sum = a->sum;
    for (int64_t i = 0; i < old.count; i++) {
        const int64_t row = i / HALF, class = a->begin + i % HALF;
        double want = exp(tensor_get(&old, i) - most[row]) / sum[row] * a->seed;
        want -= class == a->targets[row] ? a->seed : 0;
        want = a->targets[row] < 0 ? 0 : want;
        ck_assert(fabs(tensor_get(logits, i) - want) <=
                  0.51 * unit(a->dtype) * fabs(want) + 1e-6);
    }
    tensor_free(&old);
}

/* The loss combined over two slices of the classes is that of all classes. */
START_TEST(loss_of_slices)
{
    static const int32_t targets[ROWS] = {0, 65, 32, -1, 33};
    const uint32_t dtype = dtype_of(_i);
    struct cadre_device *device = open_cpu(2);
    struct tensor logits[2];
    float max[2][ROWS], sum[2][ROWS], picked[2][ROWS], most[ROWS], all[ROWS];
    float total[2][ROWS];
    double losses[ROWS], sums[ROWS];
    struct cadre_xent a[2];
    for (int s = 0; s < 2; s++) {
        logits[s] = tensor_make(device, dtype, ROWS * HALF, (uint64_t)s + 1);
        a[s] = (struct cadre_xent){.dtype = dtype,
                                   .rows = ROWS,
                                   .vocab = HALF,
                                   .begin = s * HALF,
                                   .logits = logits[s].data,
                                   .targets = targets,
                                   .max = max[s],
                                   .sum = sum[s],
                                   .picked = picked[s],
                                   .total = total[s],
                                   .loss_rows = losses,
                                   .logit_rows = sums,
                                   .seed = 0.25};
        ok(device->ops->xent_fwd(device, &a[s]));
    }
    for (int i = 0; i < ROWS; i++)
        most[i] = fmaxf(max[0][i], max[1][i]);
    for (int s = 0; s < 2; s++) {
        a[s].old_max = max[s];
        a[s].max = most;
        ok(device->ops->xent_rescale(device, &a[s]));
    }
    for (int i = 0; i < ROWS; i++) {
        double want = 0, logits_sum = 0;
        for (int j = 0; j < 2 * HALF; j++) {
            const double logit = tensor_get(&logits[j / HALF], i * HALF + j % HALF);
            want += exp(logit);
            logits_sum += targets[i] < 0 ? 0 : logit;
        }
        check_close(total[0][i] + (double)total[1][i], logits_sum, 1e-5, "total", i);
        check_close(log((double)sum[0][i] + (double)sum[1][i]) + most[i], log(want),
                    1e-6, "lse", i);
        all[i] = sum[0][i] + sum[1][i];
        picked[0][i] += picked[1][i];
        const int t = targets[i];
        ck_assert(picked[0][i] ==
                  (t < 0 ? 0 : tensor_get(&logits[t / HALF], i * HALF + t % HALF)));
    }
    a[0].sum = a[1].sum = all;
    ok(device->ops->xent_loss(device, &a[0]));
    for (int s = 0; s < 2; s++) {
        ok(device->ops->xent_bwd(device, &a[s]));
        check_slice_gradient(&a[s], &logits[s], (uint64_t)s + 1);
        tensor_free(&logits[s]);
    }
    for (int i = 0; i < ROWS; i++)
        check_close(losses[i],
                    targets[i] < 0 ? 0 : log((double)all[i]) + most[i] - picked[0][i],
                    1e-6, "loss", i);
    cadre_device_close(device);
}
END_TEST

/* Ops without a 16-bit form are refused. */
START_TEST(refusals)
{
    const uint32_t dtype = dtype_of(_i);
    struct cadre_device *device = open_cpu(1);
    const struct cadre_device_ops *ops = device->ops;
    struct tensor x = tensor_make(device, dtype, 16, 1);
    int32_t indices[4] = {0, 1, 2, 3};
    uint16_t values[4] = {0};
    int8_t q[16];
    float scales[4];
    const double one = 1;
    const struct cadre_slice slice = {.count = 4, .param = x.data, .grad = x.data};
    const struct cadre_sgd sgd = {
        .dtype = dtype, .grad_scale = &one, .slices = &slice, .n = 1};
    ck_assert_int_eq(ops->topk(device, dtype, x.data, 16, 4, values, indices),
                     CADRE_E_DEVICE);
    ck_assert_int_eq(ops->quantize(device, dtype, x.data, 16, 4, q, scales),
                     CADRE_E_DEVICE);
    ck_assert_int_eq(ops->dequantize(device, q, scales, 4, dtype, x.data, 16),
                     CADRE_E_DEVICE);
    ck_assert_int_eq(ops->scatter_add(device, dtype, x.data, 16, values, indices, 4, 1),
                     CADRE_E_DEVICE);
    ck_assert_int_eq(ops->orthonormalize(device, dtype, x.data, 4, 4), CADRE_E_DEVICE);
    ck_assert_int_eq(ops->sgd(device, &sgd), CADRE_E_DEVICE);
    tensor_free(&x);
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("half");
    TCase *tc = tcase_create("half");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, products, 0, 2 * WAYS);
    tcase_add_loop_test(tc, empty_products, 0, 2);
    tcase_add_loop_test(tc, attention_of_one_buffer, 0, 2 * WAYS);
    tcase_add_loop_test(tc, sums_are_rounded_once, 0, 2);
    tcase_add_loop_test(tc, divided_anywhere, 0, 2);
    tcase_add_loop_test(tc, rope_turns_back, 0, 2);
    tcase_add_loop_test(tc, embedding_of_a_slice, 0, 2);
    tcase_add_loop_test(tc, loss_of_slices, 0, 2);
    tcase_add_loop_test(tc, refusals, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}
