/* SPDX-License-Identifier: Apache-2.0 */
/* Products: every transpose, beta, epilogue and wide result, with rows longer than
 * their used part. */
#include <math.h>
#include <stdio.h>

#include "tests/device/cuda/parity.h"

enum { A, B, C, BIAS, AUX, SUMS };

struct shape {
    int64_t m, n, k, pad;
};

/* bits: transposes 1 and 2, beta 4, then the kind of product */
enum { FORMS = 56 };
enum { PLAIN, WITH_BIAS, WITH_GELU, WIDE, GELU_BWD, SUM_A, SUM_B };
static const enum cadre_epilogue epilogues[] = {
    [PLAIN] = CADRE_EPILOGUE_NONE,          [WITH_BIAS] = CADRE_EPILOGUE_BIAS,
    [WITH_GELU] = CADRE_EPILOGUE_BIAS_GELU, [WIDE] = CADRE_EPILOGUE_NONE,
    [GELU_BWD] = CADRE_EPILOGUE_GELU_BWD,   [SUM_A] = CADRE_EPILOGUE_SUM_A,
    [SUM_B] = CADRE_EPILOGUE_SUM_B,
};

static const struct shape shapes[] = {
    {1, 1, 1, 0},     {2, 3, 7, 1},      {17, 33, 63, 0},
    {65, 127, 33, 3}, {129, 17, 257, 8}, {7, 255, 3, 0},
    {8, 64, 128, 0},  {3, 5, 0, 2},      {33, 2, 129, 0},
};
static const struct shape large[] = {
    {1024, 1024, 1024, 0}, {257, 1023, 511, 1}, {1, 50257, 64, 0}, {4096, 33, 129, 0},
    {63, 256, 3072, 8},    {128, 256, 4096, 0}, {17, 50257, 8, 0}};

static cadre_status run(struct cadre_device *device, uint32_t dtype, void **p,
                        const void *ctx)
{
    struct cadre_gemm g = *(const struct cadre_gemm *)ctx;
    g.dtype = dtype;
    g.a = p[A];
    g.b = p[B];
    g.c = p[C];
    g.bias = p[BIAS];
    g.aux = p[AUX];
    g.sums = p[SUMS];
    return device->ops->gemm(device, &g);
}

/* Where the epilogue is a separate kernel, the product is rounded before it, and the
 * input of gelu again; some of cublasLt's algorithms round it before they add c. The
 * magnitude of a result of gelu, or of its gradient, is at least half of that of its
 * input. */
static void hold(struct parity *p, uint32_t dtype, struct shape s, int form,
                 bool with_aux)
{
    const int what = form >> 3;
    struct cadre_gemm g = {.m = s.m,
                           .n = s.n,
                           .k = s.k,
                           .ta = (form & 1) || what == SUM_A,
                           .tb = (form >> 1 & 1) && what != SUM_B,
                           .beta = form >> 2 & 1,
                           .wide = what == WIDE || what >= SUM_A,
                           .epilogue = epilogues[what]};
    g.lda = (g.ta ? g.m : g.k) + (what == SUM_A ? 0 : s.pad);
    g.ldb = (g.tb ? g.k : g.n) + (what == SUM_B ? 0 : s.pad);
    g.ldc = g.n + s.pad;
    const bool gelu = what == WITH_GELU || what == GELU_BWD;
    const bool bias = what == WITH_BIAS || what == WITH_GELU;
    const int64_t sums = what == SUM_A ? s.m : what == SUM_B ? s.n : 0;
    const double along = 4 + 2 * sqrt((double)s.k);
    char name[96];
    snprintf(name, sizeof name, "gemm of %lld x %lld x %lld, ld %+lld, form %d",
             (long long)s.m, (long long)s.n, (long long)s.k, (long long)s.pad, form);
    const struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(gemm)},
        .dtype = dtype,
        .args = {[A] = {PARITY_OP, g.ta ? s.k : s.m, g.ta ? s.m : s.k, g.lda,
                        .seed = 1},
                 [B] = {PARITY_OP, g.tb ? s.n : s.k, g.tb ? s.k : s.n, g.ldb,
                        .seed = 2},
                 [C] = {g.wide ? PARITY_WIDE : PARITY_OP, s.m, s.n, g.ldc,
                        .seed = g.beta ? 3 : 0, .out = true,
                        .sum = gelu ? 3 * along + 8 : along,
                        .narrow = gelu                          ? 5
                                  : bias || (g.beta && !g.wide) ? 1
                                                                : 0,
                        .magnitude = PARITY_ABS},
                 [BIAS] = {PARITY_OP, bias, s.n, .seed = 4},
                 [AUX] = {PARITY_OP, gelu && with_aux ? s.m : 0, s.n, g.ldc,
                          .seed = what == GELU_BWD ? 5 : 0, .out = what == WITH_GELU,
                          .sum = along, .narrow = 1, .magnitude = PARITY_ABS},
                 [SUMS] = {PARITY_WIDE, sums > 0, sums, .seed = g.beta ? 6 : 0,
                           .out = true, .sum = along, .magnitude = PARITY_ABS}},
        .run = run,
        .ctx = &g,
    };
    parity_hold(p, &c);
}

void parity_gemms(struct parity *p)
{
    enum {
        SHAPES = sizeof shapes / sizeof *shapes,
        MORE = sizeof large / sizeof *large
    };
    for (int d = 0; d < 4; d++) {
        for (int i = 0; i < SHAPES; i++) /* from every form modulo 5: all are covered */
            for (int form = i % 5; form < FORMS; form += p->lean ? 9 : i < 2 ? 3 : 5)
                hold(p, parity_dtypes[d], shapes[i], form, true);
        for (int i = 0; i < MORE && p->real; i++) /* two each: 5 is prime to 56 */
            for (int form = 5 * (4 * i + d); form <= 5 * (4 * i + d + 28);
                 form += 5 * 28)
                hold(p, parity_dtypes[d], large[i], form % FORMS, true);
        hold(p, parity_dtypes[d], shapes[2], 2 * 8, false);
    }
}
