/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of every op. A case runs an op on given inputs and collects its outputs.
 * The bits must not depend on the number of threads nor on which copy of the kernels
 * ran, fp32 must be within a stated distance of fp64, and bf16 and f16 must be fp32
 * rounded. */
/* lint: long file because every op of the table has a case */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/cpu/cpu.h"
#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

enum { MAX_OUTPUTS = 8 };

struct run {
    struct cadre_device *device;
    const struct cadre_device_ops *ops;
    uint32_t dtype, wide;
    uint32_t rounds; /* not 0: values that would have this dtype are rounded to it */
    int64_t n; /* a size, ragged on purpose */
    struct tensor kept[20];
    int kept_count;
    struct tensor *out[MAX_OUTPUTS];
    int out_count;
};

static struct tensor *keep(struct run *run, int64_t count, uint64_t seed)
{
    struct tensor *t = &run->kept[run->kept_count++];
    *t = tensor_make(run->device, run->dtype, count, seed);
    if (run->rounds && seed)
        tensor_round(t, run->rounds);
    return t;
}

/* An output of an op that later ones read. */
static void settle(const struct run *run, struct tensor *t)
{
    if (run->rounds)
        tensor_round(t, run->rounds);
}

/* An output, or a modified input. */
static struct tensor *out(struct run *run, int64_t count, uint64_t seed)
{
    struct tensor *t = keep(run, count, seed);
    run->out[run->out_count++] = t;
    return t;
}

/* The same of the wide dtype: statistics, gradients of parameters. */
static struct tensor *wide(struct run *run, int64_t count, uint64_t seed)
{
    struct tensor *t = &run->kept[run->kept_count++];
    *t = tensor_make(run->device, run->wide, count, seed);
    run->out[run->out_count++] = t;
    return t;
}

static void ok(cadre_status status)
{
    ck_assert_int_eq(status, CADRE_OK);
}

static void gemm_case(struct run *r)
{
    const int64_t m = r->n + 1, n = 3 * r->n, k = r->n;
    struct cadre_gemm g = {.dtype = r->dtype,
                           .m = m,
                           .n = n,
                           .k = k,
                           .lda = k,
                           .ldb = k,
                           .tb = true,
                           .ldc = n,
                           .epilogue = CADRE_EPILOGUE_BIAS_GELU};
    g.a = keep(r, m * k, 1)->data;
    g.b = keep(r, n * k, 2)->data;
    g.bias = keep(r, n, 3)->data;
    g.c = out(r, m * n, 0)->data;
    g.aux = out(r, m * n, 0)->data;
    ok(r->ops->gemm(r->device, &g));
}

static void gemm_weight_case(struct run *r)
{
    const int64_t m = r->n * 2, n = r->n * 3, k = r->n + 5;
    struct cadre_gemm g = {.dtype = r->dtype,
                           .wide = true,
                           .m = m,
                           .n = n,
                           .k = k,
                           .lda = m,
                           .ldb = n,
                           .ta = true,
                           .ldc = n,
                           .beta = 1};
    g.a = keep(r, m * k, 1)->data;
    g.b = keep(r, n * k, 2)->data;
    g.c = wide(r, m * n, 3)->data;
    ok(r->ops->gemm(r->device, &g));
}

static void gemm_add_case(struct run *r)
{
    const int64_t m = r->n, n = r->n + 2, k = 2 * r->n;
    struct cadre_gemm g = {.dtype = r->dtype,
                           .m = m,
                           .n = n,
                           .k = k,
                           .lda = k,
                           .ldb = n,
                           .ldc = n,
                           .beta = 1};
    g.a = keep(r, m * k, 1)->data;
    g.b = keep(r, n * k, 2)->data;
    g.c = out(r, m * n, 3)->data;
    ok(r->ops->gemm(r->device, &g));
}

static void attention_case(struct run *r)
{
    const int64_t B = 2, T = r->n, H = 4, G = 2, D = 16, N = B * T;
    struct cadre_attention a = {.dtype = r->dtype,
                                .batch = B,
                                .time = T,
                                .heads = H,
                                .kv_heads = G,
                                .head_size = D,
                                .ldq = H * D,
                                .ldk = G * D,
                                .ldv = G * D,
                                .ldo = H * D};
    a.q = keep(r, N * H * D, 1)->data;
    a.k = keep(r, N * G * D, 2)->data;
    a.v = keep(r, N * G * D, 3)->data;
    a.dout = keep(r, N * H * D, 4)->data;
    struct tensor *forward = out(r, N * H * D, 0);
    a.out = forward->data;
    a.lse = wide(r, N * H, 0)->data;
    a.dq = out(r, N * H * D, 0)->data;
    a.dk = out(r, N * G * D, 0)->data;
    a.dv = out(r, N * G * D, 0)->data;
    ok(r->ops->attention_fwd(r->device, &a));
    settle(r, forward);
    ok(r->ops->attention_bwd(r->device, &a));
}

static void norm_case(struct run *r, bool layer)
{
    const int64_t N = r->n, C = r->n * 2 + 1;
    struct cadre_norm a = {.dtype = r->dtype,
                           .rows = N,
                           .channels = C,
                           .layer = layer,
                           .eps = 1e-5,
                           .beta = 1};
    a.x = keep(r, N * C, 1)->data;
    a.w = keep(r, C, 2)->data;
    a.b = layer ? keep(r, C, 3)->data : NULL;
    a.dy = keep(r, N * C, 4)->data;
    a.residual = keep(r, N * C, 5)->data;
    a.y = out(r, N * C, 0)->data;
    a.stats = wide(r, N * 2, 0)->data;
    a.dx = out(r, N * C, 0)->data;
    a.dw = wide(r, C, 6)->data;
    a.db = layer ? wide(r, C, 7)->data : NULL;
    struct tensor *sum = NULL;
    if (layer) {
        a.a = a.x;
        a.bias = a.w;
        a.b_sum = a.dy;
        sum = out(r, N * C, 0);
        a.sum = sum->data;
        ok(r->ops->add(r->device, r->dtype, a.a, a.bias, a.b_sum, a.sum, N, C));
        settle(r, sum);
        a.x = a.sum;
        a.sum = r->rounds ? NULL : a.sum;
    }
    ok(r->ops->norm_fwd(r->device, &a));
    ok(r->ops->norm_bwd(r->device, &a));
}

static void layer_norm_case(struct run *r)
{
    norm_case(r, true);
}

static void rms_norm_case(struct run *r)
{
    norm_case(r, false);
}

static void pointwise_case(struct run *r)
{
    const int64_t n = r->n * r->n * 5;
    const struct tensor *x = keep(r, n, 1), *up = keep(r, n, 2), *dy = keep(r, n, 3);
    ok(r->ops->gelu_bwd(r->device, r->dtype, x->data, dy->data, out(r, n, 0)->data, n));
    ok(r->ops->swiglu_fwd(r->device, r->dtype, x->data, up->data, out(r, n, 0)->data,
                          n));
    struct tensor *dgate = out(r, n, 0), *dup = out(r, n, 0);
    ok(r->ops->swiglu_bwd(r->device, r->dtype, x->data, up->data, dy->data, dgate->data,
                          dup->data, n));
    struct tensor *sum = out(r, n, 0);
    ok(r->ops->add(r->device, r->dtype, x->data, keep(r, r->n, 4)->data, up->data,
                   sum->data, n / r->n, r->n));
    settle(r, sum);
    ok(r->ops->scale(r->device, r->dtype, sum->data, n, 1.0 / 3));
    settle(r, sum);
    ok(r->ops->tree_add(r->device, r->dtype, out(r, n, 0)->data, sum->data, dy->data,
                        n));
    ok(r->ops->maximum(r->device, r->dtype, out(r, n, 0)->data, sum->data, dy->data,
                       n));
}

static void columns_case(struct run *r)
{
    const struct cadre_rotary turn = {.theta = 10000};
    const int64_t N = r->n * 2, H = 2, D = 2 * (r->n / 2 + 1);
    struct tensor *x = out(r, N * H * D, 2);
    ok(r->ops->rope(r->device, r->dtype, x->data, H * D, 2, r->n, H, D, &turn, 3,
                    false));
    settle(r, x);
    ok(r->ops->bias_bwd(r->device, r->dtype, x->data, N, H * D, wide(r, H * D, 3)->data,
                        1));
}

static void embedding_case(struct run *r)
{
    int32_t tokens[2 * 200];
    const int64_t T = r->n, C = r->n * 2;
    for (int64_t i = 0; i < 2 * T; i++)
        tokens[i] = (int32_t)(i * i % 7);
    struct cadre_embed a = {.dtype = r->dtype,
                            .batch = 2,
                            .time = T,
                            .channels = C,
                            .tokens = tokens,
                            .count = 6,
                            .positions = T + 1};
    a.wte = keep(r, 6 * C, 1)->data;
    a.wpe = keep(r, (T + 1) * C, 2)->data;
    a.dout = keep(r, 2 * T * C, 3)->data;
    a.out = out(r, 2 * T * C, 0)->data;
    a.dwte = wide(r, 6 * C, 0)->data;
    a.dwpe = wide(r, (T + 1) * C, 0)->data;
    ok(r->ops->embed_fwd(r->device, &a));
    ok(r->ops->embed_bwd_tokens(r->device, &a));
    ok(r->ops->embed_bwd_positions(r->device, &a));
}

static void loss_case(struct run *r)
{
    int32_t targets[200];
    double rows[200], logits[200];
    const int64_t N = r->n, V = r->n * 31;
    for (int64_t i = 0; i < N; i++)
        targets[i] = (int32_t)(i % 3 ? i : -1);
    struct cadre_xent a = {.dtype = r->dtype,
                           .rows = N,
                           .vocab = V,
                           .targets = targets,
                           .loss_rows = rows,
                           .logit_rows = logits,
                           .seed = 1.0 / 64};
    a.logits = out(r, N * V, 1)->data;
    a.max = wide(r, N, 0)->data;
    a.sum = wide(r, N, 0)->data;
    a.picked = wide(r, N, 0)->data;
    a.total = wide(r, N, 0)->data;
    ok(r->ops->xent_fwd(r->device, &a));
    ok(r->ops->xent_loss(r->device, &a));
    ok(r->ops->xent_bwd(r->device, &a));
    struct tensor *loss = wide(r, N, 0);
    for (int64_t i = 0; i < N; i++)
        tensor_set(loss, i, rows[i]);
}

static void optimizer_case(struct run *r)
{
    const int64_t n = r->n * r->n * 5;
    struct tensor *param = wide(r, n, 1), *first = wide(r, n, 3),
                  *second = wide(r, n, 4), *rounded = out(r, n, 1);
    const struct tensor *grad = wide(r, n, 2);
    for (int64_t i = 0; i < n; i++)
        tensor_set(second, i, fabs(tensor_get(second, i)) + 0.01);
    const double half = 0.5;
    struct cadre_slice slice = {.count = n,
                                .param = param->data,
                                .rounded = r->dtype != r->wide ? rounded->data : NULL,
                                .grad = grad->data,
                                .exp_avg = first->data,
                                .exp_avg_sq = second->data,
                                .weight_decay = 0.1};
    const struct cadre_adamw a = {.dtype = r->wide,
                                  .rounded_dtype = r->dtype,
                                  .lr = 1e-3,
                                  .beta1 = 0.9,
                                  .beta2 = 0.95,
                                  .eps = 1e-8,
                                  .step = 2,
                                  .grad_scale = &half,
                                  .slices = &slice,
                                  .n = 1};
    ok(r->ops->adamw(r->device, &a));
    slice.exp_avg = wide(r, n, 5)->data;
    const struct cadre_sgd s = {.dtype = r->wide,
                                .rounded_dtype = r->dtype,
                                .lr = 0.1,
                                .momentum = 0.9,
                                .step = 2,
                                .grad_scale = &half,
                                .slices = &slice,
                                .n = 1};
    ok(r->ops->sgd(r->device, &s));
    slice.exp_avg = wide(r, n, 6)->data;
    const struct cadre_lion l = {.dtype = r->wide,
                                 .rounded_dtype = r->dtype,
                                 .lr = 1e-3,
                                 .beta1 = 0.9,
                                 .beta2 = 0.99,
                                 .grad_scale = &half,
                                 .slices = &slice,
                                 .n = 1};
    ok(r->ops->lion(r->device, &l));
    if (r->dtype == r->wide)
        ok(r->ops->cast(r->device, r->wide, rounded->data, r->wide, param->data, n));
    settle(r, rounded);
    double sums[64];
    const int64_t chunks = (n + CADRE_NORM_CHUNK - 1) / CADRE_NORM_CHUNK;
    ck_assert_int_le(chunks, 64);
    const struct cadre_squares squares = {rounded->data, n, sums};
    ok(r->ops->sum_squares(r->device, r->dtype, &squares, 1));
    struct tensor *norms = wide(r, chunks, 0);
    for (int64_t i = 0; i < chunks; i++)
        tensor_set(norms, i, sums[i]);
}

/* States of 8 bits. A code is the next one where a number lies on a middle but for its
 * rounding, so what it stands for is far from that of another dtype. */
static void codes_case(struct run *r)
{
    const int64_t n = r->n * r->n * 3;
    const int64_t blocks = (n + CADRE_ADAMW8_BLOCK - 1) / CADRE_ADAMW8_BLOCK;
    struct tensor *param = wide(r, n, 1), *top = wide(r, blocks, 3),
                  *top_square = wide(r, blocks, 4), *first = wide(r, n, 0),
                  *second = wide(r, n, 0), *rounded = out(r, n, 1);
    const struct tensor *grad = wide(r, n, 2);
    struct cadre_codes codes;
    uint8_t *code = calloc((size_t)n, 2);
    ck_assert_ptr_nonnull(code);
    for (int c = 0; c < 256; c++)
        codes.value[c] = (c - 127) / 128.0;
    for (int c = 0; c < 255; c++)
        codes.middle[c] = (c - 126.5) / 128.0;
    for (int64_t i = 0; i < blocks; i++)
        tensor_set(top_square, i, fabs(tensor_get(top_square, i)) + 0.01);
    for (int64_t i = 0; i < n; i++) {
        code[i] = (uint8_t)(i * 7 % 256);
        code[n + i] = (uint8_t)(128 + i * 5 % 128);
    }
    const double half = 0.5;
    const struct cadre_slice slice = {.count = n,
                                      .param = param->data,
                                      .rounded =
                                          r->dtype != r->wide ? rounded->data : NULL,
                                      .grad = grad->data,
                                      .exp_avg = code,
                                      .exp_avg_sq = code + n,
                                      .weight_decay = 0.1};
    const struct cadre_absmax absmax = {top->data, top_square->data};
    const struct cadre_adamw8 a = {.adamw = {.dtype = r->wide,
                                             .rounded_dtype = r->dtype,
                                             .lr = 1e-3,
                                             .beta1 = 0.9,
                                             .beta2 = 0.95,
                                             .eps = 1e-8,
                                             .step = 2,
                                             .grad_scale = &half,
                                             .slices = &slice,
                                             .n = 1},
                                   .absmax = &absmax,
                                   .first = &codes,
                                   .second = &codes};
    ok(r->ops->adamw8(r->device, &a));
    if (r->dtype == r->wide)
        ok(r->ops->cast(r->device, r->wide, rounded->data, r->wide, param->data, n));
    settle(r, rounded);
    for (int64_t i = 0; i < n; i++) {
        tensor_set(first, i, code[i]);
        tensor_set(second, i, code[n + i]);
    }
    free(code);
}

static void vectors_case(struct run *r)
{
    const int64_t n = r->n * r->n * 3;
    const struct tensor *x = keep(r, n, 1);
    struct tensor *y = out(r, n, 2), *product = out(r, n, 0), *root = out(r, n, 3);
    struct tensor *turned = out(r, n, 0), *back = out(r, n, 0), *sum = wide(r, 1, 0);
    double total = 0;
    for (int64_t i = 0; i < n; i++)
        tensor_set(root, i, fabs(tensor_get(root, i)) + 0.01);
    settle(r, root);
    ok(r->ops->axpby(r->device, r->dtype, 0.3, x->data, -0.7, y->data, n));
    settle(r, y);
    ok(r->ops->mul(r->device, r->dtype, product->data, x->data, y->data, n));
    settle(r, product);
    ok(r->ops->rsqrt(r->device, r->dtype, root->data, n, 1e-3));
    settle(r, root);
    ok(r->ops->transpose(r->device, r->dtype, turned->data, y->data, r->n, 3 * r->n));
    ok(r->ops->dot(r->device, r->dtype, x->data, x->data, n, &total));
    tensor_set(sum, 0, total);
    char *blocks = malloc((size_t)(n / CADRE_INT8_BLOCK + 1) * CADRE_INT8_BYTES);
    ck_assert_ptr_nonnull(blocks);
    ok(r->ops->int8_encode(r->device, r->dtype, x->data, n, blocks));
    ok(r->ops->int8_decode(r->device, blocks, r->dtype, back->data, n));
    settle(r, back);
    free(blocks);
}

/* limit: relative L2 distance of fp32 from fp64, over each output. */
static const struct {
    const char *name;
    void (*run)(struct run *run);
    double limit;
} cases[] = {
    {"gemm", gemm_case, 1e-6},
    {"gemm_weight", gemm_weight_case, 1e-6},
    {"gemm_add", gemm_add_case, 1e-6},
    {"attention", attention_case, 2e-6},
    {"layer_norm", layer_norm_case, 1e-6},
    {"rms_norm", rms_norm_case, 1e-6},
    {"pointwise", pointwise_case, 1e-6},
    {"columns", columns_case, 1e-6},
    {"embedding", embedding_case, 1e-6},
    {"loss", loss_case, 1e-6},
    {"optimizer", optimizer_case, 1e-6},
    {"codes", codes_case, 1e-2},
    {"vectors", vectors_case, 1e-6},
};
#define CASES ((int)(sizeof cases / sizeof *cases))

static const int64_t sizes[] = {1, 7, 33, 150};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))

static void run_case(struct run *run, int index, struct cadre_device *device,
                     uint32_t dtype, uint32_t rounds, int64_t n)
{
    memset(run, 0, sizeof *run);
    run->device = device;
    run->ops = device->ops;
    run->dtype = dtype;
    run->wide = cadre_dtype_wide(dtype);
    run->rounds = rounds;
    run->n = n;
    cases[index].run(run);
}

static void run_free(struct run *run)
{
    for (int i = 0; i < run->kept_count; i++)
        tensor_free(&run->kept[i]);
}

static void check_same_bits(const struct run *a, const struct run *b, const char *name,
                            const char *what)
{
    ck_assert_int_eq(a->out_count, b->out_count);
    for (int i = 0; i < a->out_count; i++) {
        const size_t width = cadre_dtype_bytes(a->out[i]->dtype);
        for (int64_t j = 0; j < a->out[i]->count; j++) {
            const char *x = (const char *)a->out[i]->data + (size_t)j * width;
            const char *y = (const char *)b->out[i]->data + (size_t)j * width;
            if (memcmp(x, y, width) != 0)
                ck_abort_msg(
                    "%s of size %ld, output %d[%ld]: %.17g and %.17g differ with %s",
                    name, (long)a->n, i, (long)j, tensor_get(a->out[i], j),
                    tensor_get(b->out[i], j), what);
        }
    }
}

static const uint32_t dtypes[] = {CADRE_F32, CADRE_F64, CADRE_BF16, CADRE_F16};

/* _i: case * 4 + dtype */
START_TEST(any_number_of_threads)
{
    const uint32_t dtype = dtypes[_i % 4];
    struct cadre_device *one = open_cpu(1);
    for (int threads = 2; threads <= 3; threads++) {
        struct cadre_device *several = open_cpu(threads);
        for (int s = 0; s < SIZES; s++) {
            struct run a, b;
            run_case(&a, _i / 4, one, dtype, 0, sizes[s]);
            run_case(&b, _i / 4, several, dtype, 0, sizes[s]);
            check_same_bits(&a, &b, cases[_i / 4].name, "the number of threads");
            run_free(&a);
            run_free(&b);
        }
        cadre_device_close(several);
    }
    cadre_device_close(one);
}
END_TEST

/* Attention's products are chains of fused steps, where the copy has such vectors: the
 * base copy, which has none, is near the others, and those have the same bits. */
static void check_copies(const struct run *a, const struct run *b, int index,
                         bool fused_alike, const char *what)
{
    static const double limits[] = {[CADRE_F32] = 2e-6,
                                    [CADRE_F64] = 1e-14,
                                    [CADRE_BF16] = 1e-2,
                                    [CADRE_F16] = 2e-3};
    if (fused_alike || cases[index].run != attention_case) {
        check_same_bits(a, b, cases[index].name, what);
        return;
    }
    if (a->n == 1) /* scores of one key have no slope to compare */
        return;
    for (int i = 0; i < a->out_count; i++)
        check_norm_close(a->out[i], b->out[i], limits[a->dtype], cases[index].name);
}

START_TEST(any_instruction_set)
{
    const uint32_t dtype = dtypes[_i % 4];
    struct cadre_device *base = open_cpu(1);
    struct cadre_cpu *cpu = (struct cadre_cpu *)base;
    cpu->f32 = &cadre_kernels_f32_base;
    cpu->f64 = &cadre_kernels_f64_base;
    cpu->casts = &cadre_casts_base;
    cpu->packs = &cadre_packs_base;
    cpu->bf16 = &cadre_bf16_base;
    for (int s = 0; s < SIZES; s++) {
        struct run a, b;
        struct cadre_device *best = open_cpu(1);
        run_case(&a, _i / 4, base, dtype, 0, sizes[s]);
        run_case(&b, _i / 4, best, dtype, 0, sizes[s]);
        const bool fuses = ((struct cadre_cpu *)best)->f32->product_fused;
        check_copies(&a, &b, _i / 4, !fuses, "the best kernels");
#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx2")) {
            struct cadre_cpu *avx2 = (struct cadre_cpu *)best;
            avx2->f32 = &cadre_kernels_f32_avx2;
            avx2->f64 = &cadre_kernels_f64_avx2;
            avx2->casts = &cadre_casts_avx2;
            avx2->packs = &cadre_packs_avx2;
            avx2->bf16 = &cadre_bf16_avx2;
            struct run c;
            run_case(&c, _i / 4, best, dtype, 0, sizes[s]);
            check_copies(&c, &b, _i / 4, true, "AVX2");
            run_free(&c);
        }
#endif
        run_free(&b);
        run_free(&a);
        cadre_device_close(best);
    }
    cadre_device_close(base);
}
END_TEST

static void *rank_main(void *arg)
{
    struct cadre_device *device = open_cpu(2);
    struct run *runs = arg;
    for (int i = 0; i < CASES; i++)
        run_case(&runs[i], i, device, i % 2 ? CADRE_F32 : CADRE_BF16, 0, 33);
    return device;
}

/* Ranks as threads: each drives its own device, all at once, with the same bits. */
START_TEST(several_devices)
{
    enum { RANKS = 3 };
    static struct run runs[RANKS][CASES];
    pthread_t ranks[RANKS];
    void *device[RANKS];
    for (int i = 0; i < RANKS; i++)
        ck_assert_int_eq(pthread_create(&ranks[i], NULL, rank_main, runs[i]), 0);
    for (int i = 0; i < RANKS; i++)
        ck_assert_int_eq(pthread_join(ranks[i], &device[i]), 0);
    for (int i = 0; i < CASES; i++) {
        for (int rank = 1; rank < RANKS; rank++)
            check_same_bits(&runs[0][i], &runs[rank][i], cases[i].name, "the rank");
        for (int rank = 0; rank < RANKS; rank++)
            run_free(&runs[rank][i]);
    }
    for (int i = 0; i < RANKS; i++)
        cadre_device_close(device[i]);
}
END_TEST

START_TEST(fp32_follows_fp64)
{
    struct cadre_device *device = open_cpu(2);
    for (int s = 1; s < SIZES; s++) {
        struct run a, b;
        run_case(&a, _i, device, CADRE_F32, 0, sizes[s]);
        run_case(&b, _i, device, CADRE_F64, 0, sizes[s]);
        for (int i = 0; i < a.out_count; i++)
            check_norm_close(a.out[i], b.out[i], cases[_i].limit, cases[_i].name);
        run_free(&a);
        run_free(&b);
    }
    cadre_device_close(device);
}
END_TEST

/* An output of the dtype is a unit in the last place away from the rounded one at most:
 * the sums of a product may be in another order. A wide one has fp32's slack. */
static void check_rounded(const struct run *half, const struct run *full,
                          const char *name)
{
    const double unit = half->dtype == CADRE_BF16 ? 0x1p-8 : 0x1p-11;
    for (int i = 0; i < half->out_count; i++) {
        const struct tensor *a = half->out[i];
        struct tensor *b = full->out[i];
        if (a->dtype == half->dtype)
            tensor_round(b, a->dtype);
        const double limit = a->dtype == half->dtype ? 2 * unit : 0;
        for (int64_t j = 0; j < a->count; j++) {
            const double x = tensor_get(a, j), y = tensor_get(b, j);
            if (fabs(x - y) > limit * fabs(y) + 1e-5 * (1 + fabs(y)) || isnan(x))
                ck_abort_msg("%s of size %ld, output %d[%ld]: %.9g, fp32 has %.9g",
                             name, (long)half->n, i, (long)j, x, y);
        }
    }
}

/* _i: case * 2 + dtype. Attention is widened: test_half.c tests that of bf16 products,
 * which rounds between them. */
START_TEST(half_is_fp32_rounded)
{
    const uint32_t dtype = _i % 2 ? CADRE_F16 : CADRE_BF16;
    struct cadre_device *device = open_cpu(2);
    if (cases[_i / 2].run == attention_case)
        ((struct cadre_cpu *)device)->multiplies_bf16 = false;
    for (int s = 0; s < SIZES; s++) {
        struct run a, b;
        run_case(&a, _i / 2, device, dtype, 0, sizes[s]);
        run_case(&b, _i / 2, device, CADRE_F32, dtype, sizes[s]);
        check_rounded(&a, &b, cases[_i / 2].name);
        run_free(&a);
        run_free(&b);
    }
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("kernels_all");
    TCase *tc = tcase_create("every op");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, any_number_of_threads, 0, CASES * 4);
    tcase_add_loop_test(tc, any_instruction_set, 0, CASES * 4);
    tcase_add_test(tc, several_devices);
    tcase_add_loop_test(tc, fp32_follows_fp64, 0, CASES);
    tcase_add_loop_test(tc, half_is_fp32_rounded, 0, CASES * 2);
    suite_add_tcase(suite, tc);
    return suite;
}
