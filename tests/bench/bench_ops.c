/* SPDX-License-Identifier: Apache-2.0 */
/* How near the CPU device comes to what the machine can do. Each line is a ratio of two
 * rates measured in turns in this run: our product against one plain call of oneDNN
 * with its own threads, a bandwidth op against a copy. Figures move with the machine's
 * load; the ratio moves less.
 *
 * Usage: bench_ops [threads [repeats [cpu]]]; "cpu" counts processor time, which is for
 * one thread on a machine that is busy. */
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/device/device.h"

void omp_set_num_threads(int threads); /* libgomp's */

static struct cadre_device *device;
static int threads = 2, repeats = 7;
static clockid_t clock_id = CLOCK_MONOTONIC;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(clock_id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void require(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bench_ops: %s failed\n", what);
    exit(1);
}

static float *make(int64_t count)
{
    float *x = device->ops->alloc(device, (size_t)count * sizeof *x);
    require(x != NULL, "alloc");
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(i * 7919 % 1000) * 1e-3f - 0.5f;
    return x;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median times of two things done in turns, after one round that is not counted. */
static void race(void (*ours)(void *), void (*ceiling)(void *), void *arg,
                 double out[2])
{
    enum { MAX_REPEATS = 101 };
    double times[2][MAX_REPEATS];
    for (int i = -1; i < repeats; i++) {
        for (int side = 0; side < 2; side++) {
            const double start = seconds();
            (side ? ceiling : ours)(arg);
            if (i >= 0)
                times[side][i] = seconds() - start;
        }
    }
    for (int side = 0; side < 2; side++) {
        qsort(times[side], (size_t)repeats, sizeof times[side][0], compare);
        out[side] = times[side][repeats / 2];
    }
}

/* ---- products ---- */

struct product {
    struct cadre_gemm gemm;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, c;
    int calls;
};

static dnnl_memory_t describe(struct product *p, dnnl_memory_desc_t *desc, int64_t rows,
                              int64_t columns, int64_t ld, bool t, const void *data)
{
    const dnnl_dims_t dims = {rows, columns}, strides = {t ? 1 : ld, t ? ld : 1};
    dnnl_memory_t memory;
    require(dnnl_memory_desc_init_by_strides(desc, 2, dims, dnnl_f32, strides) == 0,
            "oneDNN");
    require(dnnl_memory_create(&memory, desc, p->engine, (void *)(uintptr_t)data) == 0,
            "oneDNN");
    return memory;
}

static void plain_init(struct product *p)
{
    const struct cadre_gemm *g = &p->gemm;
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd;
    omp_set_num_threads(threads);
    require(dnnl_engine_create(&p->engine, dnnl_cpu, 0) == 0, "oneDNN");
    require(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags) == 0,
            "oneDNN");
    p->a = describe(p, &a, g->m, g->k, g->lda, g->ta, g->a);
    p->b = describe(p, &b, g->k, g->n, g->ldb, g->tb, g->b);
    p->c = describe(p, &c, g->m, g->n, g->ldc, false, g->c);
    require(dnnl_matmul_desc_init(&desc, &a, &b, NULL, &c) == 0, "oneDNN");
    require(dnnl_primitive_desc_create(&pd, &desc, NULL, p->engine, NULL) == 0,
            "oneDNN");
    require(dnnl_primitive_create(&p->primitive, pd) == 0, "oneDNN");
    dnnl_primitive_desc_destroy(pd);
}

static void plain_fini(struct product *p)
{
    dnnl_primitive_destroy(p->primitive);
    dnnl_memory_destroy(p->a);
    dnnl_memory_destroy(p->b);
    dnnl_memory_destroy(p->c);
    dnnl_stream_destroy(p->stream);
    dnnl_engine_destroy(p->engine);
}

static void run_ours(void *arg)
{
    struct product *p = arg;
    for (int i = 0; i < p->calls; i++)
        require(device->ops->gemm(device, &p->gemm) == CADRE_OK, "gemm");
}

static void run_plain(void *arg)
{
    struct product *p = arg;
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, p->a}, {DNNL_ARG_WEIGHTS, p->b}, {DNNL_ARG_DST, p->c}};
    omp_set_num_threads(threads);
    for (int i = 0; i < p->calls; i++) {
        require(dnnl_primitive_execute(p->primitive, p->stream, 3, args) == 0,
                "oneDNN");
        dnnl_stream_wait(p->stream);
    }
}

/* form: "fwd" x W^T, "dx" dy W, "dw" dy^T x */
static void bench_product(int64_t m, int64_t n, int64_t k, const char *form)
{
    const bool ta = form[1] == 'w' && form[0] == 'd', tb = form[0] == 'f';
    float *a = make(m * k), *b = make(k * n), *c = make(m * n);
    const double flops = 2.0 * (double)m * (double)n * (double)k;
    double time[2];
    struct product p = {.gemm = {.dtype = CADRE_F32,
                                 .m = m,
                                 .n = n,
                                 .k = k,
                                 .a = a,
                                 .lda = ta ? m : k,
                                 .ta = ta,
                                 .b = b,
                                 .ldb = tb ? k : n,
                                 .tb = tb,
                                 .c = c,
                                 .ldc = n}};
    p.calls = (int)(2e9 / flops) + 1;
    plain_init(&p);
    race(run_ours, run_plain, &p, time);
    plain_fini(&p);
    printf("gemm %-3s %5ld x %5ld x %5ld %7.1f GFLOP/s, oneDNN %7.1f, ratio %.3f\n",
           form, (long)m, (long)k, (long)n, flops * p.calls / time[0] * 1e-9,
           flops * p.calls / time[1] * 1e-9, time[1] / time[0]);
    device->ops->free(device, a);
    device->ops->free(device, b);
    device->ops->free(device, c);
}

/* ---- bandwidth ---- */

enum { COUNT = 16 << 20, CHANNELS = 768, ROWS = COUNT / CHANNELS };

struct stream {
    float *x[4], *stats;
};

static void run_copy(void *arg)
{
    struct stream *s = arg;
    require(device->ops->cast(device, CADRE_F32, s->x[1], CADRE_F32, s->x[0], COUNT) ==
                CADRE_OK,
            "cast");
}

static void run_adamw(void *arg)
{
    struct stream *s = arg;
    const double one = 1;
    const struct cadre_slice slice = {.count = COUNT,
                                      .param = s->x[0],
                                      .grad = s->x[1],
                                      .exp_avg = s->x[2],
                                      .exp_avg_sq = s->x[3],
                                      .weight_decay = 0.1};
    const struct cadre_adamw a = {.dtype = CADRE_F32,
                                  .lr = 1e-4,
                                  .beta1 = 0.9,
                                  .beta2 = 0.95,
                                  .eps = 1e-8,
                                  .step = 5,
                                  .grad_scale = &one,
                                  .slices = &slice,
                                  .n = 1};
    require(device->ops->adamw(device, &a) == CADRE_OK, "adamw");
}

static struct cadre_norm norm_args(const struct stream *s)
{
    return (struct cadre_norm){.dtype = CADRE_F32,
                               .rows = ROWS,
                               .channels = CHANNELS,
                               .layer = true,
                               .eps = 1e-5,
                               .x = s->x[0],
                               .w = s->x[3],
                               .b = s->x[3],
                               .y = s->x[1],
                               .stats = s->stats,
                               .dy = s->x[1],
                               .dx = s->x[2],
                               .dw = s->x[3] + CHANNELS,
                               .db = s->x[3] + 2 * CHANNELS};
}

static void run_norm_fwd(void *arg)
{
    const struct cadre_norm a = norm_args(arg);
    require(device->ops->norm_fwd(device, &a) == CADRE_OK, "norm_fwd");
}

static void run_norm_bwd(void *arg)
{
    const struct cadre_norm a = norm_args(arg);
    require(device->ops->norm_bwd(device, &a) == CADRE_OK, "norm_bwd");
}

static void run_gelu_bwd(void *arg)
{
    struct stream *s = arg;
    require(device->ops->gelu_bwd(device, CADRE_F32, s->x[0], s->x[1], s->x[2],
                                  COUNT) == CADRE_OK,
            "gelu_bwd");
}

static void run_swiglu_fwd(void *arg)
{
    struct stream *s = arg;
    require(device->ops->swiglu_fwd(device, CADRE_F32, s->x[0], s->x[1], s->x[2],
                                    COUNT) == CADRE_OK,
            "swiglu_fwd");
}

static void run_bias_bwd(void *arg)
{
    struct stream *s = arg;
    require(device->ops->bias_bwd(device, CADRE_F32, s->x[0], ROWS, CHANNELS, s->x[3],
                                  0) == CADRE_OK,
            "bias_bwd");
}

static void run_tree_add(void *arg)
{
    struct stream *s = arg;
    require(device->ops->tree_add(device, CADRE_F32, s->x[2], s->x[0], s->x[1],
                                  COUNT) == CADRE_OK,
            "tree_add");
}

static void run_sum_squares(void *arg)
{
    struct stream *s = arg;
    const struct cadre_squares squares = {s->x[0], COUNT, (double *)(void *)s->stats};
    require(device->ops->sum_squares(device, CADRE_F32, &squares, 1) == CADRE_OK,
            "sum_squares");
}

static void run_cast_bf16(void *arg)
{
    struct stream *s = arg;
    require(device->ops->cast(device, CADRE_BF16, s->x[1], CADRE_F32, s->x[0], COUNT) ==
                CADRE_OK,
            "cast");
}

enum { VOCABULARY = 50257 };

static struct cadre_xent xent_args(const struct stream *s)
{
    static int32_t targets[COUNT / VOCABULARY];
    return (struct cadre_xent){.dtype = CADRE_F32,
                               .rows = COUNT / VOCABULARY,
                               .vocab = VOCABULARY,
                               .logits = s->x[0],
                               .targets = targets,
                               .max = s->stats,
                               .sum = s->stats + 1024,
                               .picked = s->stats + 2048,
                               .seed = 1};
}

static void run_xent_fwd(void *arg)
{
    const struct cadre_xent a = xent_args(arg);
    require(device->ops->xent_fwd(device, &a) == CADRE_OK, "xent_fwd");
}

static void run_xent_bwd(void *arg)
{
    struct cadre_xent a = xent_args(arg);
    require(device->ops->xent_bwd(device, &a) == CADRE_OK, "xent_bwd");
}

static void bench_bandwidth(void)
{
    static const struct {
        const char *name;
        void (*run)(void *);
        double streams; /* arrays of COUNT floats read or written */
    } ops[] = {
        {"adamw", run_adamw, 7},
        {"norm_fwd", run_norm_fwd, 2},
        {"norm_bwd", run_norm_bwd, 5},
        {"bias_bwd", run_bias_bwd, 1},
        {"gelu_bwd", run_gelu_bwd, 3},
        {"swiglu_fwd", run_swiglu_fwd, 3},
        {"tree_add (1 thread)", run_tree_add, 3},
        {"sum_squares", run_sum_squares, 1},
        {"cast to bf16", run_cast_bf16, 1.5},
        {"xent_fwd", run_xent_fwd, 1},
        {"xent_bwd", run_xent_bwd, 2},
    };
    struct stream s;
    for (int i = 0; i < 4; i++)
        s.x[i] = make(COUNT);
    s.stats = make(2 * ROWS);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        double time[2];
        for (int64_t j = 0; j < COUNT; j++)
            s.x[3][j] = fabsf(s.x[3][j]); /* second moments */
        race(ops[i].run, run_copy, &s, time);
        const double bytes = (double)COUNT * 4;
        printf("%-20s %6.1f GB/s, copy %6.1f GB/s, ratio %.3f\n", ops[i].name,
               bytes * ops[i].streams / time[0] * 1e-9, bytes * 2 / time[1] * 1e-9,
               ops[i].streams / 2 * time[1] / time[0]);
    }
    for (int i = 0; i < 4; i++)
        device->ops->free(device, s.x[i]);
    device->ops->free(device, s.stats);
}

/* ---- attention ---- */

static struct cadre_attention attention;

static void run_attention_fwd(void *arg)
{
    (void)arg;
    require(device->ops->attention_fwd(device, &attention) == CADRE_OK,
            "attention_fwd");
}

static void run_attention_bwd(void *arg)
{
    (void)arg;
    require(device->ops->attention_bwd(device, &attention) == CADRE_OK,
            "attention_bwd");
}

/* Rates count the products of the lower triangle alone. */
static void bench_attention(int64_t B, int64_t T, int64_t H, int64_t D)
{
    const int64_t count = B * T * H * D;
    float *x[9];
    double time[2];
    for (int i = 0; i < 9; i++)
        x[i] = make(count);
    attention = (struct cadre_attention){.dtype = CADRE_F32,
                                         .batch = B,
                                         .time = T,
                                         .heads = H,
                                         .kv_heads = H,
                                         .head_size = D,
                                         .q = x[0],
                                         .k = x[1],
                                         .v = x[2],
                                         .ldq = H * D,
                                         .ldk = H * D,
                                         .ldv = H * D,
                                         .ldo = H * D,
                                         .out = x[3],
                                         .lse = x[4],
                                         .dout = x[5],
                                         .dq = x[6],
                                         .dk = x[7],
                                         .dv = x[8]};
    race(run_attention_fwd, run_attention_bwd, NULL, time);
    const double flops = 2.0 * (double)count * (double)(T + 1);
    printf("attention B %ld T %4ld H %2ld D %2ld: fwd %7.1f GFLOP/s, bwd %7.1f\n",
           (long)B, (long)T, (long)H, (long)D, flops / time[0] * 1e-9,
           flops * 2.5 / time[1] * 1e-9);
    for (int i = 0; i < 9; i++)
        device->ops->free(device, x[i]);
}

int main(int argc, char **argv)
{
    static const int64_t shapes[][3] = {
        {256, 2304, 768},   {256, 3072, 768},   {256, 768, 3072},
        {1024, 50304, 768}, {2048, 2048, 2048}, {1024, 2304, 768},
        {4096, 1152, 384},  {4096, 256, 384},   {2048, 128, 128}};
    if (argc > 1)
        threads = atoi(argv[1]);
    if (argc > 2)
        repeats = atoi(argv[2]);
    if (argc > 3 && strcmp(argv[3], "cpu") == 0)
        clock_id = CLOCK_PROCESS_CPUTIME_ID;
    const struct cadre_device_config config = {.kind = "cpu", .threads = threads};
    struct cadre_error err = {0};
    if (repeats < 1 || repeats > 101 ||
        cadre_device_open(&config, &device, &err) != CADRE_OK) {
        fprintf(stderr, "usage: bench_ops [threads [repeats <= 101 [cpu]]]\n%s\n",
                err.text);
        return 2;
    }
    printf("%d threads, medians of %d\n", threads, repeats);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t *s = shapes[i]; /* of y = x W^T: rows, outputs, inputs */
        bench_product(s[0], s[1], s[2], "fwd");
        bench_product(s[0], s[2], s[1], "dx");
        bench_product(s[1], s[2], s[0], "dw");
    }
    bench_attention(4, 64, 12, 64);
    bench_attention(4, 256, 12, 64);
    bench_attention(16, 256, 6, 64);
    bench_attention(1, 1024, 12, 64);
    bench_bandwidth();
    cadre_device_close(device);
    return 0;
}
