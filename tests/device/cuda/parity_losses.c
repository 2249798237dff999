/* SPDX-License-Identifier: Apache-2.0 */
/* Images as patches, embeddings and the loss. */
#include <math.h>
#include <stdio.h>

#include "tests/device/cuda/parity.h"

/* ---- patches ---- */

enum { PIXELS, ROWS, KINDS };

static cadre_status run_patches(struct cadre_device *device, uint32_t dtype, void **p,
                                const void *ctx)
{
    struct cadre_patches a = *(const struct cadre_patches *)ctx;
    a.dtype = dtype;
    a.pixels = p[PIXELS];
    a.rows = p[ROWS];
    a.kinds = p[KINDS];
    return device->ops->patches(device, &a);
}

static void fill_pixels(const void *ctx, int arg, double *x, int64_t count)
{
    (void)ctx;
    for (int64_t i = 0; i < count && arg == PIXELS; i++)
        x[i] = floor((x[i] + 1) / 2 * 255.99);
}

/* Rounded once from double: the CPU's bits. */
static void compare_patches(struct parity *p, uint32_t dtype, struct cadre_patches a)
{
    const int64_t rows = a.batch * (cadre_patches_count(&a) + 1);
    const struct parity_case c = {
        .name = a.nhwc ? "patches of pixels" : "patches of planes",
        .calls = {PARITY_ENTRY(patches)},
        .dtype = dtype,
        .args = {[PIXELS] = {CADRE_U8, a.batch, a.stride, .seed = 1},
                 [ROWS] = {PARITY_OP, rows, a.channels * a.size * a.size, .out = true,
                           .bits = true},
                 [KINDS] = {CADRE_I32, 1, rows, .out = true, .bits = true}},
        .run = run_patches,
        .ctx = &a,
        .fill = fill_pixels,
    };
    parity_hold(p, &c);
}

static void patches(struct parity *p, uint32_t dtype)
{
    for (int nhwc = 0; nhwc < 2; nhwc++) {
        struct cadre_patches a = {.batch = 3,
                                  .height = 8,
                                  .width = 12,
                                  .channels = 3,
                                  .size = 4,
                                  .stride = 288,
                                  .nhwc = nhwc,
                                  .mean = {0.5, 0.25, 0.1},
                                  .std = {0.25, 0.3, 1}};
        compare_patches(p, dtype, a);
        a.channels = 1;
        a.size = 2;
        a.stride = 100;
        compare_patches(p, dtype, a);
    }
}

/* ---- embeddings ---- */

enum { TOKENS, WTE, WPE, OUT, DOUT, DWTE, DWPE };

struct embed {
    int64_t batch, time, channels, begin, count, position, positions;
    bool places; /* wpe is there */
    int beta;
};

static cadre_status run_embed(struct cadre_device *device, uint32_t dtype, void **p,
                              const void *ctx)
{
    const struct embed *e = ctx;
    const struct cadre_embed a = {.dtype = dtype,
                                  .batch = e->batch,
                                  .time = e->time,
                                  .channels = e->channels,
                                  .tokens = p[TOKENS],
                                  .begin = e->begin,
                                  .count = e->count,
                                  .position = e->position,
                                  .positions = e->positions,
                                  .wte = p[WTE],
                                  .wpe = p[WPE],
                                  .out = p[OUT],
                                  .dout = p[DOUT],
                                  .dwte = p[DWTE],
                                  .dwpe = p[DWPE],
                                  .beta = e->beta};
    cadre_status rc = device->ops->embed_fwd(device, &a);
    if (rc == CADRE_OK)
        rc = device->ops->embed_bwd_tokens(device, &a);
    if (rc == CADRE_OK && p[DWPE])
        rc = device->ops->embed_bwd_positions(device, &a);
    return rc;
}

/* Some outside of the range on both sides, one very often. */
static void fill_tokens(const void *ctx, int arg, double *x, int64_t count)
{
    const struct embed *e = ctx;
    for (int64_t i = 0; i < count && arg == TOKENS; i++) {
        const double within = floor((x[i] + 1) / 2 * (double)(e->count + 4));
        x[i] = (double)e->begin + (i % 3 == 0 ? 0 : within - 2);
        if (x[i] < 0)
            x[i] = 0;
    }
}

/* Sums in the order of the rows: the CPU's bits. */
static void compare_embed(struct parity *p, uint32_t dtype, struct embed e)
{
    const int64_t N = e.batch * e.time, C = e.channels;
    const double down = 2 + sqrt((double)N);
    char name[96];
    snprintf(name, sizeof name, "embedding of %lld x %lld x %lld, %lld words, beta %d",
             (long long)e.batch, (long long)e.time, (long long)C, (long long)e.count,
             e.beta);
    const struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(embed_fwd), PARITY_ENTRY(embed_bwd_tokens),
                  e.places ? PARITY_ENTRY(embed_bwd_positions) : 0},
        .dtype = dtype,
        .args = {[TOKENS] = {CADRE_I32, 1, N, .seed = 1},
                 [WTE] = {PARITY_OP, e.count, C, .seed = 2},
                 [WPE] = {PARITY_OP, e.places ? e.positions : 0, C, .seed = 3},
                 [OUT] = {PARITY_OP, N, C, .out = true, .bits = true, .sum = 1,
                          .magnitude = PARITY_ABS},
                 [DOUT] = {PARITY_OP, N, C, .seed = 4},
                 [DWTE] = {PARITY_WIDE, e.count, C, .seed = e.beta ? 5 : 0, .call = 1,
                           .out = true, .bits = true, .sum = down,
                           .magnitude = PARITY_ABS},
                 [DWPE] = {PARITY_WIDE, e.places ? e.positions : 0, C,
                           .seed = e.beta ? 6 : 0, .call = 2, .out = true, .bits = true,
                           .sum = down, .magnitude = PARITY_ABS}},
        .run = run_embed,
        .ctx = &e,
        .fill = fill_tokens,
    };
    parity_hold(p, &c);
}

static void embeddings(struct parity *p, uint32_t dtype)
{
    static const struct embed cases[] = {
        {1, 1, 1, 0, 1, 0, 1, true, 0},    {3, 7, 33, 4, 17, 5, 40, true, 1},
        {2, 65, 64, 0, 3, 0, 65, true, 0}, {1, 129, 17, 100, 257, 0, 0, false, 1},
        {7, 2, 255, 9, 33, 1, 3, true, 1},
    };
    static const struct embed large[] = {
        {1, 1024, 768, 0, 257, 0, 1024, true, 0},
        {4, 1024, 8, 0, 50257, 0, 1024, true, 0},
        {3, 1023, 17, 25000, 25257, 0, 1024, true, 1},
        {1, 4096, 64, 0, 2, 0, 0, false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!p->lean || i % 2 == 1)
            compare_embed(p, dtype, cases[i]);
    for (size_t i = 0; i < sizeof large / sizeof *large && p->real; i++)
        compare_embed(p, dtype, large[i]);
}

/* ---- loss ---- */

enum { LOGITS, TARGETS, MAX, SUM, PICKED, OLD_MAX, LOSS, TOTAL, TOTALS };

struct loss {
    int64_t rows, vocab, begin;
    double seed, range;
};

static cadre_status run_loss(struct cadre_device *device, uint32_t dtype, void **p,
                             const void *ctx)
{
    const struct loss *l = ctx;
    const struct cadre_xent a = {.dtype = dtype,
                                 .rows = l->rows,
                                 .vocab = l->vocab,
                                 .begin = l->begin,
                                 .logits = p[LOGITS],
                                 .targets = p[TARGETS],
                                 .max = p[MAX],
                                 .sum = p[SUM],
                                 .picked = p[PICKED],
                                 .total = p[TOTAL],
                                 .old_max = p[OLD_MAX],
                                 .loss_rows = p[LOSS],
                                 .logit_rows = p[TOTALS],
                                 .seed = l->seed};
    cadre_status rc = device->ops->xent_fwd(device, &a);
    if (rc == CADRE_OK)
        rc = device->ops->xent_rescale(device, &a);
    if (rc == CADRE_OK)
        rc = device->ops->xent_loss(device, &a);
    return rc == CADRE_OK ? device->ops->xent_bwd(device, &a) : rc;
}

/* Ignored rows, targets in other slices on both sides, and most in this one. The
 * slice's own maximum is near the range of the logits. */
static void fill_targets(const void *ctx, int arg, double *x, int64_t count)
{
    const struct loss *l = ctx;
    for (int64_t i = 0; i < count && arg == OLD_MAX; i++)
        x[i] += l->range;
    for (int64_t i = 0; i < count && arg == TARGETS; i++)
        x[i] = i % 5 == 1   ? -1
               : i % 7 == 2 ? (double)(l->begin + l->vocab)
               : i % 7 == 3
                   ? 0
                   : (double)l->begin + floor((x[i] + 1) / 2 * (double)l->vocab);
}

/* The target's probability less one cancels; the loss is a difference of sizes of
 * logits, whose sum has the wide dtype. */
static void loss_magnitudes(const void *ctx, const struct parity_view *v, int arg,
                            double *m)
{
    const struct loss *l = ctx;
    for (int64_t row = 0; row < l->rows; row++) {
        const int64_t target = (int64_t)v->start[TARGETS][row] - l->begin;
        if (arg == LOGITS && target >= 0 && target < l->vocab)
            m[row * l->vocab + target] += l->seed;
        if (arg == TOTAL || arg == TOTALS)
            m[row] = l->range * (double)l->vocab;
        if (arg == LOSS)
            m[row] = 1 + 2 * l->range + log((double)l->vocab);
    }
}

/* An exponential loses as many units as its argument is large. */
static void compare_loss(struct parity *p, uint32_t dtype, struct loss l)
{
    const int64_t R = l.rows, V = l.vocab;
    const double along = 12 + 4 * l.range + 2 * sqrt((double)V);
    char name[96];
    snprintf(name, sizeof name, "loss of %lld x %lld logits", (long long)R,
             (long long)V);
    const struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(xent_fwd), PARITY_ENTRY(xent_rescale),
                  PARITY_ENTRY(xent_loss), PARITY_ENTRY(xent_bwd)},
        .dtype = dtype,
        .args = {[LOGITS] = {PARITY_OP, R, V, .seed = 1, .range = l.range, .call = 3,
                             .out = true, .sum = 2 * along},
                 [TARGETS] = {CADRE_I32, 1, R, .seed = 2},
                 [MAX] = {PARITY_WIDE, 1, R, .out = true, .bits = true},
                 [SUM] = {PARITY_WIDE, 1, R, .call = 1, .out = true, .sum = along},
                 [PICKED] = {PARITY_WIDE, 1, R, .out = true, .bits = true},
                 [OLD_MAX] = {PARITY_WIDE, 1, R, .seed = 3},
                 [LOSS] = {CADRE_F64, 1, R, .call = 2, .out = true, .sum = along},
                 [TOTAL] = {PARITY_WIDE, 1, R, .out = true, .sum = 4},
                 [TOTALS] = {CADRE_F64, 1, R, .call = 2, .out = true, .sum = 4}},
        .run = run_loss,
        .ctx = &l,
        .fill = fill_targets,
        .magnitudes = loss_magnitudes,
    };
    parity_hold(p, &c);
}

static void losses(struct parity *p, uint32_t dtype)
{
    static const struct loss cases[] = {
        {1, 1, 0, 1, 1},    {3, 7, 2, 0.25, 1},     {17, 33, 0, 1, 8},
        {2, 65, 100, 1, 8}, {33, 129, 129, 0.1, 1}, {7, 257, 3, 1.0 / 7, 8},
        {3, 1023, 0, 1, 4}, {2, 5027, 5027, 1, 8},
    };
    static const struct loss large[] = {
        {7, 50257, 0, 1.0 / 63, 8},
        {9, 25129, 25128, 1.0 / 255, 1},
        {4096, 129, 0, 1.0 / 4096, 8},
        {257, 1000, 7, 1, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!p->lean || i % 3 == 1)
            compare_loss(p, dtype, cases[i]);
    for (size_t i = 0; i < sizeof large / sizeof *large && p->real; i++)
        compare_loss(p, dtype, large[i]);
}

void parity_losses(struct parity *p)
{
    for (int d = 0; d < 4; d++) {
        patches(p, parity_dtypes[d]);
        embeddings(p, parity_dtypes[d]);
        losses(p, parity_dtypes[d]);
    }
}
