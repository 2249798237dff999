/* SPDX-License-Identifier: Apache-2.0 */
/* The products of a training step in fp32, each shape in its three forms: forward x
 * W^T, the input's gradient dy W, and the weight's dy^T x added to c. In turns by
 * Cadre's own kernels (device.gemm = cadre), by the library's tiles (device.gemm =
 * library), and by CBLAS libraries on whole matrices with their own threads.
 *
 * Usage: bench_products [THREADS [ROUNDS [LIBRARY...]]]; a LIBRARY is a shared object
 * with cblas_sgemm, such as libopenblas.so.0, libblis.so.4 or libmkl_rt.so. A line has
 * Cadre's GFLOP/s and, for each of the others, Cadre's rate over its own: the median of
 * the rounds (and quartiles). Rates move with the machine's load, ratios of a round
 * less. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/median.h"
#include "core/device/device.h"
#include "tests/bench/bench_cblas.h"

enum { MOST_LIBRARIES = 6, MOST_ROUNDS = 99, OWN = 0, TILES = 1, CBLAS = 2 };
enum { MOST_WAYS = CBLAS + MOST_LIBRARIES };

static struct cadre_device *device[2];
static struct {
    const char *path;
    cblas_sgemm_run *run;
} library[MOST_LIBRARIES];
static int threads = 1, rounds = 9, ways = CBLAS;
static double log_ratio[MOST_WAYS];
static int products;

static void require(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bench_products: %s failed\n", what);
    exit(1);
}

static void open_library(const char *path)
{
    library[ways - CBLAS].path = path;
    library[ways++ - CBLAS].run = cblas_open(path, threads);
}

static float *make(int64_t count)
{
    float *x = device[0]->ops->alloc(device[0], (size_t)count * sizeof *x);
    require(x != NULL, "alloc");
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(i * 7919 % 1000) * 1e-3f - 0.5f;
    return x;
}

static void run(const struct cadre_gemm *g, int way)
{
    if (way < CBLAS)
        require(device[way]->ops->gemm(device[way], g) == CADRE_OK, "gemm");
    else
        library[way - CBLAS].run(CBLAS_ROWS, g->ta ? CBLAS_TRANSPOSED : CBLAS_AS_IS,
                                 g->tb ? CBLAS_TRANSPOSED : CBLAS_AS_IS, (int)g->m,
                                 (int)g->n, (int)g->k, 1, g->a, (int)g->lda, g->b,
                                 (int)g->ldb, (float)g->beta, g->c, (int)g->ldc);
}

/* Seconds of `calls` products in each round; one round more is not counted. */
static void race(const struct cadre_gemm *g, int calls,
                 double seconds[MOST_WAYS][MOST_ROUNDS])
{
    for (int round = -1; round < rounds; round++)
        for (int way = 0; way < ways; way++) {
            const double start = cadre_now_s();
            for (int i = 0; i < calls; i++)
                run(g, way);
            if (round >= 0)
                seconds[way][round] = cadre_now_s() - start;
        }
}

static void bench(const char *name, const char *form, int64_t m, int64_t n, int64_t k)
{
    static double seconds[MOST_WAYS][MOST_ROUNDS];
    const bool ta = form[1] == 'w' && form[0] == 'd', tb = form[0] == 'f';
    float *a = make(m * k), *b = make(k * n), *c = make(m * n);
    const double flops = 2.0 * (double)m * (double)n * (double)k;
    const int calls = (int)(3e8 * threads / flops) + 1;
    const struct cadre_gemm g = {.dtype = CADRE_F32,
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
                                 .ldc = n,
                                 .beta = ta};
    race(&g, calls, seconds);
    printf("| %s | %s | %lld x %lld x %lld |", name, form, (long long)m, (long long)k,
           (long long)n);
    for (int way = 1; way < ways; way++) {
        double ratio[MOST_ROUNDS];
        for (int r = 0; r < rounds; r++)
            ratio[r] = seconds[way][r] / seconds[OWN][r];
        const double median = cadre_median(ratio, (size_t)rounds);
        printf(" %.2f (%.2f to %.2f) |", median,
               cadre_quantile(ratio, (size_t)rounds, 0.25),
               cadre_quantile(ratio, (size_t)rounds, 0.75));
        log_ratio[way] += log(median);
    }
    printf(" %.0f |\n",
           flops * calls / cadre_median(seconds[OWN], (size_t)rounds) * 1e-9);
    fflush(stdout);
    products++;
    device[0]->ops->free(device[0], a);
    device[0]->ops->free(device[0], b);
    device[0]->ops->free(device[0], c);
}

static void open_devices(void)
{
    static const enum cadre_device_gemm by[2] = {CADRE_GEMM_CADRE, CADRE_GEMM_LIBRARY};
    struct cadre_error err = {0};
    for (int i = 0; i < 2; i++) {
        const struct cadre_device_config config = {
            .kind = "cpu", .threads = threads, .gemm = by[i]};
        if (cadre_device_open(&config, &device[i], &err) != CADRE_OK)
            fprintf(stderr, "bench_products: %s\n", err.text);
        require(device[i] != NULL, "a device");
    }
}

static void print_head(void)
{
    printf("| shape | form | rows x inner x columns | over the library's tiles |");
    for (int i = 0; i < ways - CBLAS; i++) {
        const char *slash = strrchr(library[i].path, '/');
        printf(" over %s |", slash ? slash + 1 : library[i].path);
    }
    printf(" Cadre, GFLOP/s |\n|---|---|---|");
    for (int way = 1; way <= ways; way++)
        printf("---|");
    printf("\n");
}

int main(int argc, char **argv)
{
    /* of the bench's shapes (tests/bench/lib.sh): tokens, inputs, outputs */
    static const struct {
        const char *name;
        int64_t tokens, in, out;
    } linears[] = {
        {"small", 4096, 384, 1152},    {"small", 4096, 384, 384},
        {"small", 4096, 384, 1536},    {"small", 4096, 1536, 384},
        {"ecg", 2048, 128, 384},       {"ecg", 2048, 128, 128},
        {"ecg", 2048, 128, 512},       {"ecg", 2048, 512, 128},
        {"124M-256", 1024, 768, 2304}, {"124M-256", 1024, 768, 3072},
        {"124M-256", 1024, 3072, 768}, {"124M-64", 256, 768, 2304},
        {"124M-64", 256, 3072, 768},   {"llama", 2048, 512, 1376},
    };
    threads = argc > 1 ? atoi(argv[1]) : 1;
    rounds = argc > 2 ? atoi(argv[2]) : 9;
    require(threads > 0 && rounds > 0 && rounds <= MOST_ROUNDS &&
                argc - 3 <= MOST_LIBRARIES,
            "reading the arguments");
    open_devices();
    for (int i = 3; i < argc; i++)
        open_library(argv[i]);
    print_head();
    for (size_t i = 0; i < sizeof linears / sizeof *linears; i++) {
        const int64_t n = linears[i].tokens, in = linears[i].in, out = linears[i].out;
        bench(linears[i].name, "fwd", n, out, in);
        bench(linears[i].name, "dx", n, in, out);
        bench(linears[i].name, "dw", out, in, n);
    }
    printf("| all | | geometric mean |");
    for (int way = 1; way < ways; way++)
        printf(" %.2f |", exp(log_ratio[way] / products));
    printf(" |\n");
    for (int i = 0; i < 2; i++)
        cadre_device_close(device[i]);
    return 0;
}
