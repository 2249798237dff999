/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, causal and full: heads of many sizes, shared keys and values, rows longer
 * than their used part, q, k and v in separate rows or in those of one buffer; and
 * queries behind keys that have none, forward. */
#include <math.h>
#include <stdio.h>

#include "tests/device/cuda/parity.h"

enum { Q, K, V, OUT, LSE, DOUT, DQ, DK, DV };

struct attention {
    int64_t batch, time, heads, kv_heads, size, pad;
    bool packed, full;
};

struct behind {
    struct attention queries; /* not packed */
    int64_t position, keys;
};

static const struct attention cases[] = {
    {1, 1, 1, 1, 8, 0, false, false},    {2, 7, 2, 1, 16, 0, true, false},
    {1, 33, 3, 3, 64, 0, true, false},   {1, 65, 2, 1, 80, 0, false, false},
    {1, 17, 4, 2, 128, 8, false, false}, {1, 9, 2, 2, 256, 3, false, false},
    {1, 129, 1, 1, 64, 8, true, false},  {1, 70, 1, 1, 128, 0, true, false},
    {3, 2, 6, 2, 8, 1, true, false},     {1, 63, 1, 1, 64, 1, false, false},
    {1, 3, 1, 1, 256, 0, true, false},   {1, 127, 1, 1, 16, 0, false, false},
    {2, 17, 4, 4, 16, 0, true, true},    {1, 65, 2, 1, 64, 0, true, true},
    {1, 130, 1, 1, 128, 8, false, true}, {1, 50, 2, 2, 80, 0, true, true},
};
static const struct attention large[] = {
    {1, 1024, 2, 2, 64, 0, true, false}, {1, 1023, 2, 1, 128, 0, true, false},
    {1, 257, 2, 2, 80, 0, false, false}, {1, 513, 2, 1, 256, 8, false, false},
    {8, 127, 4, 4, 16, 0, true, false},  {1, 1000, 2, 1, 8, 0, false, false},
    {3, 255, 3, 1, 64, 8, false, false}, {1, 1024, 1, 1, 128, 3, false, false},
    {8, 197, 3, 3, 64, 0, true, true},   {1, 577, 1, 1, 128, 0, true, true},
};

static const struct behind behind[] = {
    {{1, 1, 2, 1, 8, 0, false, false}, 1, 2},
    {{1, 1, 4, 2, 64, 0, false, false}, 40, 41},
    {{2, 1, 3, 1, 80, 8, false, false}, 17, 30},
    {{1, 3, 2, 2, 128, 0, false, false}, 5, 8},
    {{1, 1, 1, 1, 256, 3, false, false}, 70, 71},
    {{2, 9, 2, 1, 16, 0, false, false}, 0, 12},
};
static const struct behind large_behind[] = {
    {{1, 1, 32, 8, 128, 0, false, false}, 4095, 4096},
    {{1, 1, 12, 12, 64, 0, false, false}, 1000, 1024},
    {{1, 100, 4, 2, 128, 0, false, false}, 900, 1000},
};

static void leading(const struct attention *a, int64_t ld[4])
{
    const int64_t own = a->heads * a->size, shared = a->kv_heads * a->size;
    ld[0] = (a->packed ? own + 2 * shared : own) + a->pad;
    ld[1] = a->packed ? ld[0] : shared + a->pad;
    ld[2] = a->packed ? ld[0] : shared + 2 * a->pad;
    ld[3] = own + a->pad;
}

static struct cadre_attention problem(const struct attention *c, uint32_t dtype,
                                      void **p)
{
    int64_t ld[4];
    leading(c, ld);
    return (struct cadre_attention){.dtype = dtype,
                                    .batch = c->batch,
                                    .time = c->time,
                                    .heads = c->heads,
                                    .kv_heads = c->kv_heads,
                                    .head_size = c->size,
                                    .full = c->full,
                                    .q = p[Q],
                                    .k = p[K],
                                    .v = p[V],
                                    .ldq = ld[0],
                                    .ldk = ld[1],
                                    .ldv = ld[2],
                                    .ldo = ld[3],
                                    .out = p[OUT],
                                    .lse = p[LSE],
                                    .dout = p[DOUT],
                                    .dq = p[DQ],
                                    .dk = p[DK],
                                    .dv = p[DV]};
}

static cadre_status run(struct cadre_device *device, uint32_t dtype, void **p,
                        const void *ctx)
{
    const struct cadre_attention a = problem(ctx, dtype, p);
    const cadre_status rc = device->ops->attention_fwd(device, &a);
    return rc == CADRE_OK ? device->ops->attention_bwd(device, &a) : rc;
}

static cadre_status run_behind(struct cadre_device *device, uint32_t dtype, void **p,
                               const void *ctx)
{
    const struct behind *c = ctx;
    struct cadre_attention a = problem(&c->queries, dtype, p);
    a.position = c->position;
    a.keys = c->keys;
    return device->ops->attention_fwd(device, &a);
}

/* A score is a sum of head_size products, its exponential loses as many units as the
 * score's size (up to 12), and a gradient is a sum over as many. In 16 bits
 * probabilities and their gradients are rounded between two products: a few units of
 * each term. */
static void hold(struct parity *p, uint32_t dtype, struct attention a)
{
    const int64_t N = a.batch * a.time, own = a.heads * a.size;
    const int64_t shared = a.kv_heads * a.size;
    int64_t ld[4];
    leading(&a, ld);
    const double sum = 24 + 2 * sqrt((double)a.size) + 4 * sqrt((double)a.time);
    const double narrow = cadre_dtype_bytes(dtype) == 2 ? 12 : 0;
    const int q = a.packed ? Q + 1 : 0, dq = a.packed ? DQ + 1 : 0;
    char name[96];
    snprintf(name, sizeof name,
             "attention of %lld x %lld, %lld/%lld heads of %lld, ld %+lld%s%s",
             (long long)a.batch, (long long)a.time, (long long)a.heads,
             (long long)a.kv_heads, (long long)a.size, (long long)a.pad,
             a.packed ? ", packed" : "", a.full ? ", full" : "");
    struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(attention_fwd), PARITY_ENTRY(attention_bwd)},
        .dtype = dtype,
        .args = {[Q] = {PARITY_OP, N, own, ld[0], .seed = 1, .range = 3},
                 [K] = {PARITY_OP, N, shared, ld[1], .seed = 2, .in = q, .at = own},
                 [V] = {PARITY_OP, N, shared, ld[2], .seed = 3, .in = q,
                        .at = own + shared},
                 [OUT] = {PARITY_OP, N, own, ld[3], .out = true},
                 [LSE] = {PARITY_WIDE, a.batch * a.heads, a.time, .out = true,
                          .sum = sum, .floor = 1},
                 [DOUT] = {PARITY_OP, N, own, ld[3], .seed = 4},
                 [DQ] = {PARITY_OP, N, own, ld[0], .call = 1, .out = true},
                 [DK] = {PARITY_OP, N, shared, ld[1], .call = 1, .out = true, .in = dq,
                         .at = own},
                 [DV] = {PARITY_OP, N, shared, ld[2], .call = 1, .out = true, .in = dq,
                         .at = own + shared}},
        .run = run,
        .ctx = &a,
        .chosen = true,
    };
    static const int results[] = {OUT, DQ, DK, DV};
    for (int i = 0; i < 4; i++) {
        c.args[results[i]].sum = 4 * sum;
        c.args[results[i]].narrow = narrow;
        c.args[results[i]].magnitude = PARITY_RMS;
        c.args[results[i]].floor = 0.05; /* of one token they are 0 */
    }
    parity_hold(p, &c);
}

static void hold_behind(struct parity *p, uint32_t dtype, struct behind c)
{
    const struct attention a = c.queries;
    const int64_t N = a.batch * a.time, own = a.heads * a.size;
    const int64_t keys = a.batch * c.keys, shared = a.kv_heads * a.size;
    int64_t ld[4];
    leading(&a, ld);
    const double sum = 24 + 2 * sqrt((double)a.size) + 4 * sqrt((double)c.keys);
    char name[96];
    snprintf(name, sizeof name,
             "attention of %lld x %lld at %lld of %lld keys, %lld/%lld heads of %lld",
             (long long)a.batch, (long long)a.time, (long long)c.position,
             (long long)c.keys, (long long)a.heads, (long long)a.kv_heads,
             (long long)a.size);
    const struct parity_case one = {
        .name = name,
        .calls = {PARITY_ENTRY(attention_fwd)},
        .dtype = dtype,
        .args = {[Q] = {PARITY_OP, N, own, ld[0], .seed = 1, .range = 3},
                 [K] = {PARITY_OP, keys, shared, ld[1], .seed = 2},
                 [V] = {PARITY_OP, keys, shared, ld[2], .seed = 3},
                 [OUT] = {PARITY_OP, N, own, ld[3], .out = true, .sum = 4 * sum,
                          .narrow = cadre_dtype_bytes(dtype) == 2 ? 12 : 0,
                          .magnitude = PARITY_RMS, .floor = 0.05},
                 [LSE] = {PARITY_WIDE, a.batch * a.heads, a.time, .out = true,
                          .sum = sum, .floor = 1}},
        .run = run_behind,
        .ctx = &c,
    };
    parity_hold(p, &one);
}

/* With the fewest cases: the kernels of two head sizes on the tensor cores, causal and
 * full; off their alignment the same take the kernels of any head. */
static bool is_taken(const struct parity *p, size_t i, int d)
{
    if (p->real || !p->leanest)
        return p->real || (i + (size_t)d) % (p->lean ? 5 : 2) == 0;
    return d < 2 ? i == 3 : d == 2 ? i == 6 || i == 7 : i == 13 || i == 14;
}

void parity_attentions(struct parity *p)
{
    for (int d = 0; d < 4; d++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            if (is_taken(p, i, d))
                hold(p, parity_dtypes[d], cases[i]);
        for (size_t i = 0; i < sizeof large / sizeof *large && p->real; i++)
            hold(p, parity_dtypes[d], large[i]);
        for (size_t i = 0; i < sizeof behind / sizeof *behind; i++)
            if (p->real || (i + (size_t)d) % (p->lean ? 3 : 1) == 0)
                hold_behind(p, parity_dtypes[d], behind[i]);
        for (size_t i = 0; i < sizeof large_behind / sizeof *large_behind && p->real;
             i++)
            hold_behind(p, parity_dtypes[d], large_behind[i]);
    }
}
