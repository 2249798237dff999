/* SPDX-License-Identifier: Apache-2.0 */
/* Causal attention alone, forward and backward; tests/bench/cpu_attention.sh runs it.
 *
 * Usage: bench_attention THREADS SECONDS DTYPE BATCH TIME HEADS KV_HEADS HEAD_SIZE
 *
 * Prints one line of JSON: median seconds of each pass, and by how many MiB the process
 * grew while they ran, the tensors themselves left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/clock.h"
#include "core/base/median.h"
#include "core/device/device.h"
#include "core/tensor/dtype.h"

enum { MOST = 1024, PASSES = 2 };

static struct cadre_device *device;

static void require(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bench_attention: %s\n", what);
    exit(1);
}

static double resident_mib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

/* Small numbers of both signs. */
static void *make(uint32_t dtype, int64_t count)
{
    enum { PIECE = 1000 };
    const size_t element = cadre_dtype_bytes(dtype);
    float wide[PIECE];
    char *x = device->ops->alloc(device, (size_t)count * element);
    require(x != NULL, "no memory");
    for (int64_t i = 0; i < PIECE; i++)
        wide[i] = (float)(i * 7919 % PIECE) * 1e-3f - 0.5f;
    for (int64_t at = 0; at < count; at += PIECE)
        require(device->ops->cast(device, dtype, x + (size_t)at * element, CADRE_F32,
                                  wide,
                                  count - at < PIECE ? count - at : PIECE) == CADRE_OK,
                "a cast failed");
    return x;
}

static struct cadre_attention attention_of(uint32_t dtype, char **argv)
{
    const int64_t B = atoll(argv[0]), T = atoll(argv[1]), H = atoll(argv[2]);
    const int64_t kv = atoll(argv[3]), D = atoll(argv[4]);
    require(B > 0 && T > 0 && kv > 0 && H > 0 && H % kv == 0 && D > 0,
            "sizes are 1 or more, HEADS a multiple of KV_HEADS");
    const int64_t wide = B * T * H * D, narrow = B * T * kv * D;
    return (struct cadre_attention){.dtype = dtype,
                                    .batch = B,
                                    .time = T,
                                    .heads = H,
                                    .kv_heads = kv,
                                    .head_size = D,
                                    .ldq = H * D,
                                    .ldk = kv * D,
                                    .ldv = kv * D,
                                    .ldo = H * D,
                                    .q = make(dtype, wide),
                                    .k = make(dtype, narrow),
                                    .v = make(dtype, narrow),
                                    .out = make(dtype, wide),
                                    .lse = make(CADRE_F32, B * H * T),
                                    .dout = make(dtype, wide),
                                    .dq = make(dtype, wide),
                                    .dk = make(dtype, narrow),
                                    .dv = make(dtype, narrow)};
}

/* Medians of both passes in turns; the first of each is not counted. */
static void measure(const struct cadre_attention *a, double seconds,
                    double median[PASSES])
{
    static double times[PASSES][MOST];
    const double start = cadre_now_s();
    int count = -1;
    while (count < 2 || (cadre_now_s() - start < seconds && count < MOST)) {
        for (int pass = 0; pass < PASSES; pass++) {
            const double begin = cadre_now_s();
            require((pass ? device->ops->attention_bwd
                          : device->ops->attention_fwd)(device, a) == CADRE_OK,
                    "attention failed");
            if (count >= 0)
                times[pass][count] = cadre_now_s() - begin;
        }
        count++;
    }
    for (int pass = 0; pass < PASSES; pass++)
        median[pass] = cadre_median(times[pass], (size_t)count);
}

int main(int argc, char **argv)
{
    struct cadre_error err = {0};
    double median[PASSES];
    if (argc != 9) {
        fprintf(stderr, "usage: bench_attention THREADS SECONDS DTYPE BATCH TIME HEADS "
                        "KV_HEADS HEAD_SIZE\n");
        return 2;
    }
    const struct cadre_device_config config = {.kind = "cpu", .threads = atoi(argv[1])};
    require(cadre_device_open(&config, &device, &err) == CADRE_OK, err.text);
    const struct cadre_attention a =
        attention_of(strcmp(argv[3], "bf16") == 0 ? CADRE_BF16 : CADRE_F32, argv + 4);
    const double before = resident_mib();
    measure(&a, atof(argv[2]), median);
    printf("{\"forward_s\": %.6g, \"backward_s\": %.6g, \"more_mib\": %.1f}\n",
           median[0], median[1], resident_mib() - before);
    return 0; /* its memory goes with it */
}
