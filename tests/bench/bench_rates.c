/* SPDX-License-Identifier: Apache-2.0 */
/* A device's ceilings: the rate of one large product of random numbers (zeros would be
 * faster than any training) and of one large copy, read and written, each the best of
 * some repeats. Prints one line of JSON.
 *
 * Usage: bench_rates [cpu|cuda [f32|bf16|f16|f64 [n [MiB [threads]]]]]: products of (n,
 * n, n), copies of that many MiB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/device/device.h"
#include "core/tensor/half.h"

enum { REPEATS = 5, PIECE = 65536 };

struct work {
    struct cadre_device *device;
    struct cadre_gemm gemm;
    void *to;
    const void *from;
    size_t bytes;
};

static cadre_status multiply(const struct work *w)
{
    return w->device->ops->gemm(w->device, &w->gemm);
}

static cadre_status copy(const struct work *w)
{
    return w->device->ops->copy(w->device, w->to, w->from, w->bytes);
}

/* Seconds of the fastest of some calls, each waited for; the first is not counted. */
static double best(const struct work *w, cadre_status (*call)(const struct work *))
{
    double fastest = 0;
    for (int i = -1; i < REPEATS; i++) {
        double begin = cadre_now_s();
        if (call(w) != CADRE_OK || w->device->ops->synchronize(w->device) != CADRE_OK) {
            fprintf(stderr, "bench_rates: an op of the device failed\n");
            exit(1);
        }
        double took = cadre_now_s() - begin;
        if (i >= 0 && (fastest == 0 || took < fastest))
            fastest = took;
    }
    return fastest;
}

static uint32_t dtype_of(const char *name)
{
    for (uint32_t dtype = CADRE_F32; dtype <= CADRE_F16; dtype++)
        if (strcmp(cadre_dtype_name(dtype), name) == 0)
            return dtype;
    fprintf(stderr, "bench_rates: expected f32, f64, bf16 or f16, found \"%s\"\n",
            name);
    exit(2);
}

static void *take(struct cadre_device *device, size_t bytes)
{
    void *p = device->ops->alloc(device, bytes);
    if (!p || device->ops->zero(device, p, bytes) != CADRE_OK) {
        fprintf(stderr, "bench_rates: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return p;
}

static void put(void *at, uint32_t dtype, int64_t i, float x)
{
    switch (dtype) {
    case CADRE_F32:
        ((float *)at)[i] = x;
        break;
    case CADRE_F64:
        ((double *)at)[i] = (double)x;
        break;
    case CADRE_BF16:
        ((uint16_t *)at)[i] = cadre_bf16_from_f32(x);
        break;
    default:
        ((uint16_t *)at)[i] = cadre_f16_from_f32(x);
        break;
    }
}

/* Memory for `count` numbers from -1 to 1. */
static void *take_random(struct cadre_device *device, uint32_t dtype, int64_t count)
{
    const size_t each = cadre_dtype_bytes(dtype);
    unsigned char *to = take(device, (size_t)count * each), *piece = calloc(PIECE, 8);
    uint32_t x = 2463534242u;
    for (int64_t begin = 0, n; piece && begin < count; begin += n) {
        n = count - begin < PIECE ? count - begin : PIECE;
        for (int64_t i = 0; i < n; i++) {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            put(piece, dtype, i, (float)(int32_t)x * 0x1p-31f);
        }
        if (device->ops->to_device(device, to + (size_t)begin * each, piece,
                                   (size_t)n * each) != CADRE_OK) {
            fprintf(stderr, "bench_rates: numbers do not reach the device\n");
            exit(1);
        }
    }
    free(piece);
    return to;
}

int main(int argc, char **argv)
{
    const uint32_t dtype = dtype_of(argc > 2 ? argv[2] : "bf16");
    const int64_t n = argc > 3 ? atoll(argv[3]) : 8192;
    struct work w = {.bytes = (size_t)(argc > 4 ? atoll(argv[4]) : 1024) << 20};
    const struct cadre_device_config config = {.kind = argc > 1 ? argv[1] : "cuda",
                                               .threads = argc > 5 ? atoi(argv[5]) : 1};
    struct cadre_error err = {0};
    if (n < 1 || w.bytes < 1 ||
        cadre_device_open(&config, &w.device, &err) != CADRE_OK) {
        fprintf(stderr, "bench_rates: %s\n",
                *err.text ? err.text : "sizes are 1 or more");
        return 1;
    }
    const size_t square = (size_t)(n * n) * cadre_dtype_bytes(dtype);
    w.gemm = (struct cadre_gemm){.dtype = dtype,
                                 .m = n,
                                 .n = n,
                                 .k = n,
                                 .a = take_random(w.device, dtype, n * n),
                                 .b = take_random(w.device, dtype, n * n),
                                 .c = take(w.device, square),
                                 .lda = n,
                                 .ldb = n,
                                 .ldc = n};
    w.from = take(w.device, w.bytes);
    w.to = take(w.device, w.bytes);
    const double gemm_s = best(&w, multiply), copy_s = best(&w, copy);
    printf(
        "{\"device\": \"%s\", \"dtype\": \"%s\", \"n\": %lld, \"gemm_tflops\": %.4g, "
        "\"copy_gbytes_s\": %.4g}\n",
        w.device->ops->name, cadre_dtype_name(dtype), (long long)n,
        2e-12 * (double)n * (double)n * (double)n / gemm_s,
        2e-9 * (double)w.bytes / copy_s);
    void *const taken[] = {(void *)(uintptr_t)w.gemm.a, (void *)(uintptr_t)w.gemm.b,
                           w.gemm.c, (void *)(uintptr_t)w.from, w.to};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        w.device->ops->free(w.device, taken[i]);
    cadre_device_close(w.device);
    return 0;
}
