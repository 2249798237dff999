/* SPDX-License-Identifier: Apache-2.0 */
/* What no step can be faster than on this CPU, asked of the libraries directly.
 *
 * bench_ceiling rates THREADS [N [MIB]]: the rate of a product of N (2048) cubed in
 * fp32 and in bf16, and of a copy of MIB (256), read and written, as one line of JSON.
 *
 * bench_ceiling step LIBRARY DTYPE THREADS SECONDS ARCH LAYERS CHANNELS HEADS KV_HEADS
 *     HIDDEN VOCAB TIME BATCH: the weight products alone of one training step: forward,
 * input gradient and weight gradient of each linear and of the head, one after the
 * other in a step's order, each one call on whole matrices of their own, so that memory
 * is what a step has. LIBRARY (onednn, or for fp32 openblas or a shared object with
 * cblas_sgemm, as libmkl_rt.so.2) divides the work among its own threads. Attention's
 * own products are left out; "attention_flops" says how many they are. The bytes are
 * the least that the rest of a step must move. */
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/clock.h"
#include "core/base/median.h"
#include "tests/bench/bench_cblas.h"

void omp_set_num_threads(int threads); /* libgomp's */
char *openblas_get_corename(void);
void openblas_set_num_threads(int threads);
cblas_sgemm_run cblas_sgemm; /* OpenBLAS's */

enum { MAX_PRODUCTS = 4096, MAX_TIMES = 4096, MAX_THREADS = 256 };

/* What all products share. */
struct library {
    cblas_sgemm_run *sgemm; /* NULL: oneDNN */
    bool bf16;
    int threads;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

/* c = a b, row by row: (m, k) (k, n); ta, tb: stored transposed. */
struct product {
    int64_t m, n, k;
    bool ta, tb, wide; /* wide: c is fp32 */
    void *a, *b, *c;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[3];
};

struct shape {
    bool llama;
    int64_t layers, channels, heads, kv_heads, hidden, vocab, time, batch;
};

static void require(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bench_ceiling: %s\n", what);
    exit(1);
}

/* Memory in huge pages where the system gives them, filled with small numbers. */
static void *make(int64_t count, bool bf16)
{
    enum { HUGE_PAGE = 2 << 20, PIECE = 1 << 20 };
    const size_t element = bf16 ? 2 : 4, bytes = (size_t)count * element;
    unsigned char *x = aligned_alloc(HUGE_PAGE, (bytes + HUGE_PAGE - 1) / HUGE_PAGE *
                                                    (size_t)HUGE_PAGE);
    require(x != NULL, "no memory");
    (void)madvise(x, bytes, MADV_HUGEPAGE);
    uint32_t state = 2463534242u;
    for (size_t at = 0; at < bytes && at < PIECE; at += element) {
        state = state * 69069u + 12345u;
        const float value = (float)(int32_t)state * 0x1p-36f;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (bf16)
            bits >>= 16; /* cut off: any number will do */
        memcpy(x + at, &bits, element);
    }
    for (size_t at = PIECE; at < bytes; at += PIECE)
        memcpy(x + at, x, bytes - at < PIECE ? bytes - at : PIECE);
    return x;
}

static dnnl_memory_desc_t describe(int64_t rows, int64_t columns, bool t, bool bf16)
{
    const dnnl_dims_t dims = {rows, columns};
    const dnnl_dims_t strides = {t ? 1 : columns, t ? rows : 1};
    dnnl_memory_desc_t desc;
    require(dnnl_memory_desc_init_by_strides(
                &desc, 2, dims, bf16 ? dnnl_bf16 : dnnl_f32, strides) == dnnl_success,
            "oneDNN refuses a matrix");
    return desc;
}

/* False where oneDNN has no such product for this CPU. */
static bool product_init(struct product *p, const struct library *lib)
{
    if (lib->sgemm)
        return true;
    const dnnl_memory_desc_t desc[3] = {
        describe(p->m, p->k, p->ta, lib->bf16), describe(p->k, p->n, p->tb, lib->bf16),
        describe(p->m, p->n, false, lib->bf16 && !p->wide)};
    void *const data[3] = {p->a, p->b, p->c};
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_t pd;
    for (int i = 0; i < 3; i++)
        require(dnnl_memory_create(&p->memory[i], &desc[i], lib->engine, data[i]) ==
                    dnnl_success,
                "oneDNN refuses memory");
    if (dnnl_matmul_desc_init(&matmul, &desc[0], &desc[1], NULL, &desc[2]) !=
            dnnl_success ||
        dnnl_primitive_desc_create(&pd, &matmul, NULL, lib->engine, NULL) !=
            dnnl_success)
        return false;
    require(dnnl_primitive_create(&p->primitive, pd) == dnnl_success,
            "oneDNN refuses a product");
    dnnl_primitive_desc_destroy(pd);
    return true;
}

static void product_fini(struct product *p)
{
    for (int i = 0; i < 3; i++)
        dnnl_memory_destroy(p->memory[i]);
    dnnl_primitive_destroy(p->primitive);
}

static void product_run(const struct product *p, const struct library *lib)
{
    if (lib->sgemm) {
        lib->sgemm(CBLAS_ROWS, p->ta ? CBLAS_TRANSPOSED : CBLAS_AS_IS,
                   p->tb ? CBLAS_TRANSPOSED : CBLAS_AS_IS, (int)p->m, (int)p->n,
                   (int)p->k, 1.0f, p->a, (int)(p->ta ? p->m : p->k), p->b,
                   (int)(p->tb ? p->k : p->n), 0.0f, p->c, (int)p->n);
        return;
    }
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, p->memory[0]},
                                    {DNNL_ARG_WEIGHTS, p->memory[1]},
                                    {DNNL_ARG_DST, p->memory[2]}};
    require(dnnl_primitive_execute(p->primitive, lib->stream, 3, args) ==
                    dnnl_success &&
                dnnl_stream_wait(lib->stream) == dnnl_success,
            "a product failed");
}

static void library_init(struct library *lib)
{
    omp_set_num_threads(lib->sgemm ? 1 : lib->threads);
    openblas_set_num_threads(lib->sgemm == cblas_sgemm ? lib->threads : 1);
    require(dnnl_engine_create(&lib->engine, dnnl_cpu, 0) == dnnl_success &&
                dnnl_stream_create(&lib->stream, lib->engine,
                                   dnnl_stream_default_flags) == dnnl_success,
            "oneDNN does not start");
}

static void library_fini(struct library *lib)
{
    dnnl_stream_destroy(lib->stream);
    dnnl_engine_destroy(lib->engine);
}

/* ---- rates ---- */

static double product_flops(const struct product *p)
{
    return 2.0 * (double)p->m * (double)p->n * (double)p->k;
}

/* 0 where oneDNN has no such product. */
static double gemm_rate(int threads, int64_t n, bool bf16)
{
    enum { REPEATS = 7 };
    struct library lib = {.threads = threads, .bf16 = bf16};
    struct product p = {.m = n, .n = n, .k = n, .wide = true};
    double best = 0;
    library_init(&lib);
    p.a = make(n * n, bf16);
    p.b = make(n * n, bf16);
    p.c = make(n * n, false);
    const bool good = product_init(&p, &lib);
    for (int i = 0; i < REPEATS && good; i++) {
        const double begin = cadre_now_s();
        product_run(&p, &lib);
        const double rate = product_flops(&p) / (cadre_now_s() - begin);
        best = rate > best ? rate : best;
    }
    product_fini(&p);
    library_fini(&lib);
    free(p.a);
    free(p.b);
    free(p.c);
    return best;
}

struct piece {
    unsigned char *to, *from;
    size_t bytes;
};

static void *copy_piece(void *arg)
{
    const struct piece *piece = arg;
    memcpy(piece->to, piece->from, piece->bytes);
    return NULL;
}

/* Bytes a second, read and written, the best of some. */
static double copy_rate(int threads, size_t bytes)
{
    enum { REPEATS = 9 };
    struct piece pieces[MAX_THREADS];
    pthread_t ids[MAX_THREADS];
    unsigned char *from = make((int64_t)bytes / 4, false);
    unsigned char *to = make((int64_t)bytes / 4, false);
    const size_t each = bytes / (size_t)threads;
    double best = 0;
    for (int i = 0; i < REPEATS; i++) {
        const double begin = cadre_now_s();
        for (int t = 0; t < threads; t++) {
            pieces[t] =
                (struct piece){to + (size_t)t * each, from + (size_t)t * each, each};
            require(pthread_create(&ids[t], NULL, copy_piece, &pieces[t]) == 0,
                    "no thread");
        }
        for (int t = 0; t < threads; t++)
            pthread_join(ids[t], NULL);
        const double rate = 2.0 * (double)bytes / (cadre_now_s() - begin);
        best = rate > best ? rate : best;
    }
    free(from);
    free(to);
    return best;
}

static const char *isa_name(void)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = {{dnnl_cpu_isa_avx512_core_amx, "AVX-512, AMX"},
                 {dnnl_cpu_isa_avx512_core_bf16, "AVX-512, BF16"},
                 {dnnl_cpu_isa_avx512_core, "AVX-512"},
                 {dnnl_cpu_isa_avx2, "AVX2"}};
    const int isa = (int)dnnl_get_effective_cpu_isa();
    if (isa == (int)dnnl_cpu_isa_all) /* not an x86-64 */
        return "its default";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((isa & (int)names[i].isa) == (int)names[i].isa)
            return names[i].name;
    return "its default";
}

static void print_rates(int threads, int64_t n, size_t bytes)
{
    const dnnl_version_t *v = dnnl_version();
    const double f32 = gemm_rate(threads, n, false), bf16 = gemm_rate(threads, n, true);
    printf("{\"onednn\": \"%d.%d.%d\", \"isa\": \"%s\", "
           "\"openblas\": \"%s\", \"threads\": %d, "
           "\"f32_gflops\": %.4g, \"bf16_gflops\": %.4g, "
           "\"copy_gbytes_s\": %.4g}\n",
           v->major, v->minor, v->patch, isa_name(), openblas_get_corename(), threads,
           f32 * 1e-9, bf16 * 1e-9, copy_rate(threads, bytes) * 1e-9);
}

/* ---- a step's products ---- */

struct step {
    struct library lib;
    struct product products[MAX_PRODUCTS];
    int count;
};

/* GPT-2 keeps the weights of its blocks as (in, out), everything else as (out, in). */
struct linear {
    int64_t in, out;
    bool conv1d;
    void *weight, *x, *y, *grad;
};

enum { MAX_LINEARS = 8, MAX_LAYERS = 256 };

static int linears_of(const struct shape *s, struct linear out[MAX_LINEARS])
{
    const int64_t C = s->channels, Q = C + 2 * (C / s->heads * s->kv_heads);
    const int64_t F = s->hidden;
    if (s->llama) {
        const int64_t kv = (Q - C) / 2;
        const struct linear all[] = {{.in = C, .out = C},  {.in = C, .out = kv},
                                     {.in = C, .out = kv}, {.in = C, .out = C},
                                     {.in = C, .out = F},  {.in = C, .out = F},
                                     {.in = F, .out = C}};
        memcpy(out, all, sizeof all);
        return (int)(sizeof all / sizeof *all);
    }
    const struct linear all[] = {{.in = C, .out = Q, .conv1d = true},
                                 {.in = C, .out = C, .conv1d = true},
                                 {.in = C, .out = F, .conv1d = true},
                                 {.in = F, .out = C, .conv1d = true}};
    memcpy(out, all, sizeof all);
    return (int)(sizeof all / sizeof *all);
}

static void add(struct step *step, struct product p)
{
    require(step->count < MAX_PRODUCTS, "too many products");
    require(product_init(&p, &step->lib), "oneDNN has no such product for this CPU");
    step->products[step->count++] = p;
}

static void add_forward(struct step *step, struct linear *l, int64_t rows)
{
    const bool bf16 = step->lib.bf16;
    l->weight = make(l->in * l->out, bf16);
    l->grad = make(l->in * l->out, false);
    l->x = make(rows * l->in, bf16);
    l->y = make(rows * l->out, bf16);
    add(step, (struct product){.m = rows,
                               .n = l->out,
                               .k = l->in,
                               .a = l->x,
                               .b = l->weight,
                               .tb = !l->conv1d,
                               .c = l->y});
}

/* dy is what the forward wrote: there no longer needed, and as large. */
static void add_backward(struct step *step, const struct linear *l, int64_t rows,
                         void *dx)
{
    add(step, (struct product){.m = rows,
                               .n = l->in,
                               .k = l->out,
                               .a = l->y,
                               .b = l->weight,
                               .tb = l->conv1d,
                               .c = dx});
    add(step, (struct product){.m = l->conv1d ? l->in : l->out,
                               .n = l->conv1d ? l->out : l->in,
                               .k = rows,
                               .a = l->conv1d ? l->x : l->y,
                               .ta = true,
                               .b = l->conv1d ? l->y : l->x,
                               .c = l->grad,
                               .wide = true});
}

static void step_init(struct step *step, const struct shape *s)
{
    const int64_t rows = s->batch * s->time;
    const int64_t most = s->hidden > s->channels ? s->hidden : s->channels;
    struct linear layers[MAX_LAYERS][MAX_LINEARS];
    struct linear head = {.in = s->channels, .out = s->vocab};
    void *dx = make(rows * most, step->lib.bf16);
    int n = 0;
    library_init(&step->lib);
    for (int64_t i = 0; i < s->layers; i++) {
        n = linears_of(s, layers[i]);
        for (int j = 0; j < n; j++)
            add_forward(step, &layers[i][j], rows);
    }
    add_forward(step, &head, rows);
    add_backward(step, &head, rows, dx);
    for (int64_t i = s->layers; i-- > 0;)
        for (int j = n; j-- > 0;)
            add_backward(step, &layers[i][j], rows, dx);
}

/* Median seconds of a step, the first one not counted. */
static double measure(const struct step *step, double seconds)
{
    static double times[MAX_TIMES];
    bool first = true;
    int count = 0;
    double begin = cadre_now_s(), start = begin;
    while (count < 2 || (begin - start < seconds && count < MAX_TIMES)) {
        for (int i = 0; i < step->count; i++)
            product_run(&step->products[i], &step->lib);
        const double now = cadre_now_s();
        if (!first)
            times[count++] = now - begin;
        first = false;
        begin = now;
    }
    return cadre_median(times, (size_t)count);
}

static double parameters_of(const struct shape *s)
{
    struct linear all[MAX_LINEARS];
    const int n = linears_of(s, all);
    const double C = (double)s->channels, V = (double)s->vocab;
    double block = 2 * C;
    for (int i = 0; i < n; i++)
        block += (double)all[i].in * (double)all[i].out +
                 (s->llama ? 0 : (double)all[i].out);
    if (s->llama)
        return (double)s->layers * block + 2 * V * C + C;
    return (double)s->layers * (block + 2 * C) + (V + (double)s->time) * C + 2 * C;
}

/* The least that the ops between products read and write, a token: the norms with the
 * residual sums in them (x, its addend, both results; backward the gradient's sum, x
 * and its result), attention (forward q, k, v and its result; backward these, the
 * gradient and three results), the pointwise op of the MLP, the loss over the logits
 * (read and turned into their gradient). */
static double activations_of(const struct shape *s, double element)
{
    const double C = (double)s->channels, F = (double)s->hidden;
    const double Q = C + 2 * C / (double)s->heads * (double)s->kv_heads;
    const double pointwise = s->llama ? 3 * F + 6 * F : 2 * F + 3 * F;
    const double block = 2 * (4 * C + 5 * C) + (Q + C) + (2 * Q + 2 * C) + pointwise;
    return element * ((double)s->layers * block + 2 * (double)s->vocab + 4 * C);
}

static struct shape shape_of(char **argv)
{
    struct shape s = {.llama = strcmp(argv[0], "llama") == 0,
                      .layers = atoll(argv[1]),
                      .channels = atoll(argv[2]),
                      .heads = atoll(argv[3]),
                      .kv_heads = atoll(argv[4]),
                      .hidden = atoll(argv[5]),
                      .vocab = atoll(argv[6]),
                      .time = atoll(argv[7]),
                      .batch = atoll(argv[8])};
    require(s.layers > 0 && s.layers <= MAX_LAYERS && s.heads > 0 && s.kv_heads > 0 &&
                s.channels >= s.heads && s.hidden > 0 && s.vocab > 0 && s.time > 0 &&
                s.batch > 0,
            "a shape's numbers are 1 or more, its layers at most 256");
    return s;
}

static void print_step(char **argv)
{
    static struct step step;
    const struct shape s = shape_of(argv + 4);
    const double tokens = (double)s.batch * (double)s.time;
    double flops = 0;
    const int threads = atoi(argv[2]);
    require(threads > 0, "THREADS is 1 or more");
    step.lib = (struct library){.bf16 = strcmp(argv[1], "bf16") == 0,
                                .threads = threads,
                                .sgemm = strcmp(argv[0], "onednn") == 0 ? NULL
                                         : strcmp(argv[0], "openblas") == 0
                                             ? cblas_sgemm
                                             : cblas_open(argv[0], threads)};
    require(!step.lib.sgemm || !step.lib.bf16, "bf16 is asked of oneDNN alone");
    step_init(&step, &s);
    for (int i = 0; i < step.count; i++)
        flops += product_flops(&step.products[i]);
    printf("{\"step_s\": %.6g, \"tokens\": %.0f, \"flops\": %.6g, "
           "\"attention_flops\": %.6g, \"parameters\": %.0f, \"adamw_bytes\": %.6g, "
           "\"activation_bytes\": %.6g}\n",
           measure(&step, atof(argv[3])), tokens, flops,
           6 * (double)s.layers * (double)s.channels * (double)s.time * tokens,
           parameters_of(&s), parameters_of(&s) * (step.lib.bf16 ? 30 : 28),
           tokens * activations_of(&s, step.lib.bf16 ? 2 : 4));
}

int main(int argc, char **argv)
{
    if (argc == 15 && strcmp(argv[1], "step") == 0) {
        print_step(argv + 2);
        return 0;
    }
    if (argc >= 3 && strcmp(argv[1], "rates") == 0) {
        const int threads = atoi(argv[2]);
        const int64_t n = argc > 3 ? atoll(argv[3]) : 2048;
        const int64_t mib = argc > 4 ? atoll(argv[4]) : 256;
        require(threads > 0 && threads <= MAX_THREADS && n > 0 && mib > 0,
                "THREADS, N and MIB are 1 or more, THREADS at most 256");
        print_rates(threads, n, (size_t)mib << 20);
        return 0;
    }
    fprintf(stderr, "usage: bench_ceiling rates THREADS [N [MIB]] | bench_ceiling step "
                    "LIBRARY DTYPE THREADS SECONDS ARCH LAYERS CHANNELS HEADS KV_HEADS "
                    "HIDDEN VOCAB TIME BATCH\n");
    return 2;
}
