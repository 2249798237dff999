/* SPDX-License-Identifier: Apache-2.0 */
/* Norms, sums of rows and columns, rotary embedding. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/device/cuda/parity.h"

struct shape {
    int64_t rows, channels;
};

static const struct shape lean_shapes[] = {{1, 1}, {3, 33}, {5, 257}, {33, 8}};
static const struct shape shapes[] = {{1, 1},   {2, 3},   {3, 33},   {7, 65}, {17, 129},
                                      {5, 257}, {33, 64}, {129, 17}, {2, 255}};
static const struct shape large_shapes[] = {{4096, 192}, {1023, 127}, {4097, 33},
                                            {63, 4096},  {255, 1600}, {3, 14337}};

struct shape_list {
    const struct shape *list;
    int n;
};

static struct shape_list shapes_of(const struct parity *p, bool large)
{
    if (large)
        return (struct shape_list){
            large_shapes,
            p->real ? (int)(sizeof large_shapes / sizeof *large_shapes) : 0};
    if (p->lean)
        return (struct shape_list){lean_shapes,
                                   (int)(sizeof lean_shapes / sizeof *lean_shapes)};
    return (struct shape_list){shapes, (int)(sizeof shapes / sizeof *shapes)};
}

/* ---- norms ---- */

enum { X, W, B, A, BIAS, B_SUM, SUM, Y, STATS, DY, RESIDUAL, DX, DW, DB };

enum form {
    PLAIN,
    FUSED, /* a, bias and b_sum; with a residual, and beta 1 */
    IN_PLACE, /* the sum in a, dx in the residual */
    IN_B_SUM, /* the sum in b_sum, no bias */
    FORMS
};

struct norm {
    struct shape s;
    bool layer;
    enum form form;
};

static cadre_status run_norm(struct cadre_device *device, uint32_t dtype, void **p,
                             const void *ctx)
{
    const struct norm *n = ctx;
    struct cadre_norm a = {.dtype = dtype,
                           .rows = n->s.rows,
                           .channels = n->s.channels,
                           .layer = n->layer,
                           .eps = 1e-5,
                           .x = p[X],
                           .w = p[W],
                           .b = p[B],
                           .a = p[A],
                           .bias = p[BIAS],
                           .b_sum = p[B_SUM],
                           .sum = p[SUM],
                           .y = p[Y],
                           .stats = p[STATS],
                           .dy = p[DY],
                           .residual = p[RESIDUAL],
                           .dx = p[DX],
                           .dw = p[DW],
                           .db = p[DB],
                           .beta = n->form != PLAIN};
    const cadre_status rc = device->ops->norm_fwd(device, &a);
    if (n->form != PLAIN)
        a.x = p[SUM];
    return rc == CADRE_OK ? device->ops->norm_bwd(device, &a) : rc;
}

/* For one row: the units in (x - mean) * rstd per unit in x, and the terms of dx. */
struct row {
    double most, spread, gradient, rstd;
};

static struct row row_of(const struct norm *n, const struct parity_view *v, int64_t row)
{
    const int64_t C = n->s.channels;
    const double *x = (n->form == PLAIN ? v->start[X] : v->want[SUM]) + row * C;
    struct row r = {.rstd = v->want[STATS][row * 2 + 1]};
    for (int64_t c = 0; c < C; c++) {
        r.most = fmax(r.most, fabs(x[c]));
        r.gradient = fmax(r.gradient, fabs(v->start[DY][row * C + c] * v->start[W][c]));
        r.spread = fmax(r.spread, fabs(x[c] - v->want[STATS][row * 2]) * r.rstd);
    }
    return r;
}

/* x - mean cancels, so a row of small variance loses more: by most * rstd. */
static void norm_magnitudes(const void *ctx, const struct parity_view *v, int arg,
                            double *m)
{
    const struct norm *n = ctx;
    const int64_t C = n->s.channels;
    for (int64_t c = 0; c < C && arg >= DW; c++)
        m[c] = v->start[arg] && n->form != PLAIN ? fabs(v->start[arg][c]) : 0;
    for (int64_t row = 0; row < n->s.rows; row++) {
        const struct row r = row_of(n, v, row);
        const double loss = 1 + r.most * r.rstd;
        if (arg == STATS) {
            m[row * 2] = r.most;
            m[row * 2 + 1] = r.rstd * loss;
        }
        for (int64_t c = 0; c < C; c++) {
            const int64_t at = row * C + c;
            if (arg == Y)
                m[at] =
                    loss * fabs(v->start[W][c]) + (n->layer ? fabs(v->start[B][c]) : 0);
            if (arg == DX)
                m[at] = r.rstd * r.gradient * loss * (1 + r.spread) +
                        (n->form == PLAIN ? 0 : fabs(v->start[RESIDUAL][at]));
            if (arg == DW)
                m[c] += fabs(v->start[DY][at]) * loss;
            if (arg == DB)
                m[c] += fabs(v->start[DY][at]);
        }
    }
}

static void compare_norm(struct parity *p, uint32_t dtype, struct norm n)
{
    const int64_t R = n.s.rows, C = n.s.channels;
    const bool fused = n.form != PLAIN, layer = n.layer;
    const bool biased = fused && layer && n.form != IN_B_SUM;
    const double along = 8 + 2 * sqrt((double)C);
    const double down = along + 2 * sqrt((double)R);
    char name[96];
    snprintf(name, sizeof name, "%s norm, form %d, of %lld x %lld",
             layer ? "layer" : "RMS", (int)n.form, (long long)R, (long long)C);
    /* sums of multiples of 1/16 are exact, so that the norm's input is the same */
    struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(norm_fwd), PARITY_ENTRY(norm_bwd)},
        .dtype = dtype,
        .args = {[X] = {PARITY_OP, fused ? 0 : R, C, .seed = 1},
                 [W] = {PARITY_OP, 1, C, .seed = 2},
                 [B] = {PARITY_OP, layer, C, .seed = 3},
                 [A] = {PARITY_OP, fused ? R : 0, C, .seed = 4, .grid = 16},
                 [BIAS] = {PARITY_OP, biased, C, .seed = 5, .grid = 16},
                 [B_SUM] = {PARITY_OP, fused ? R : 0, C, .seed = 6, .grid = 16},
                 [SUM] = {PARITY_OP, fused ? R : 0, C, .out = true, .bits = true},
                 [Y] = {PARITY_OP, R, C, .out = true, .sum = along},
                 [STATS] = {PARITY_WIDE, R, 2, .out = true, .sum = along},
                 [DY] = {PARITY_OP, R, C, .seed = 7},
                 [RESIDUAL] = {PARITY_OP, fused ? R : 0, C, .seed = 8},
                 [DX] = {PARITY_OP, R, C, .call = 1, .out = true, .sum = along},
                 [DW] = {PARITY_WIDE, 1, C, .seed = fused ? 9 : 0, .call = 1,
                         .out = true, .sum = down},
                 [DB] = {PARITY_WIDE, layer, C, .seed = fused ? 10 : 0, .call = 1,
                         .out = true, .sum = down}},
        .run = run_norm,
        .ctx = &n,
        .magnitudes = norm_magnitudes,
    };
    if (n.form == IN_PLACE) {
        c.args[SUM].in = A + 1;
        c.args[DX].in = RESIDUAL + 1;
    }
    if (n.form == IN_B_SUM)
        c.args[SUM].in = B_SUM + 1;
    parity_hold(p, &c);
}

/* ---- add, bias_bwd ---- */

struct sum {
    struct shape s;
    int form; /* bit 0: bias, bit 1: b, from 4: y is a, from 8: y is b */
};

static cadre_status run_add(struct cadre_device *device, uint32_t dtype, void **p,
                            const void *ctx)
{
    const struct sum *s = ctx;
    return device->ops->add(device, dtype, p[0], p[1], p[2], p[3], s->s.rows,
                            s->s.channels);
}

static void compare_add(struct parity *p, uint32_t dtype, struct sum s)
{
    const int64_t R = s.s.rows, C = s.s.channels;
    char name[96];
    snprintf(name, sizeof name, "add, form %d, of %lld x %lld", s.form, (long long)R,
             (long long)C);
    const struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(add)},
        .dtype = dtype,
        .args = {{PARITY_OP, R, C, .seed = 1},
                 {PARITY_OP, s.form & 1, C, .seed = 2},
                 {PARITY_OP, s.form & 2 ? R : 0, C, .seed = 3},
                 {PARITY_OP, R, C,
                  .in = s.form & 4   ? 1
                        : s.form & 8 ? 3
                                     : 0,
                  .out = true, .bits = true, .sum = 2, .magnitude = PARITY_ABS}},
        .run = run_add,
        .ctx = &s,
    };
    parity_hold(p, &c);
}

static cadre_status run_bias(struct cadre_device *device, uint32_t dtype, void **p,
                             const void *ctx)
{
    const struct sum *s = ctx;
    return device->ops->bias_bwd(device, dtype, p[0], s->s.rows, s->s.channels, p[1],
                                 s->form);
}

static void compare_bias(struct parity *p, uint32_t dtype, struct sum s)
{
    char name[96];
    snprintf(name, sizeof name, "bias_bwd, beta %d, of %lld x %lld", s.form,
             (long long)s.s.rows, (long long)s.s.channels);
    const struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(bias_bwd)},
        .dtype = dtype,
        .args = {{PARITY_OP, s.s.rows, s.s.channels, .seed = 1},
                 {PARITY_WIDE, 1, s.s.channels, .seed = s.form ? 2 : 0, .out = true,
                  .sum = 4 + 2 * sqrt((double)s.s.rows), .magnitude = PARITY_ABS}},
        .run = run_bias,
        .ctx = &s,
    };
    parity_hold(p, &c);
}

/* ---- rope ---- */

struct rope {
    int64_t batch, time, heads, size, pad, position;
    bool inverse;
    enum cadre_rotary_scaling scaling;
};

static cadre_status run_rope(struct cadre_device *device, uint32_t dtype, void **p,
                             const void *ctx)
{
    const struct rope *r = ctx;
    const struct cadre_rotary rotary = {1e4, r->scaling, 8, 1, 4, 64};
    return device->ops->rope(device, dtype, p[0], r->heads * r->size + r->pad, r->batch,
                             r->time, r->heads, r->size, &rotary, r->position,
                             r->inverse);
}

static void compare_rope(struct parity *p, uint32_t dtype, struct rope r)
{
    /* angles are doubles: a unit of one of f64 grows with the position */
    const double turns = dtype == CADRE_F64 ? 4 * (double)(r.position + r.time) : 0;
    char name[96];
    snprintf(name, sizeof name,
             "rope of %lld x %lld tokens, %lld heads of %lld, ld %+lld",
             (long long)r.batch, (long long)r.time, (long long)r.heads,
             (long long)r.size, (long long)r.pad);
    const struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(rope)},
        .dtype = dtype,
        .args = {{PARITY_OP, r.batch * r.time, r.heads * r.size,
                  r.heads * r.size + r.pad, .seed = 1, .out = true, .sum = 6 + turns,
                  .floor = 1.5}},
        .run = run_rope,
        .ctx = &r,
    };
    parity_hold(p, &c);
}

static void ropes(struct parity *p, uint32_t dtype)
{
    static const struct rope cases[] = {
        {2, 3, 3, 8, 0, 0, false, CADRE_ROTARY_PLAIN},
        {1, 7, 1, 2, 5, 3, true, CADRE_ROTARY_PLAIN},
        {2, 5, 2, 64, 64, 7, false, CADRE_ROTARY_PLAIN},
        {1, 2, 3, 80, 1, 1000, true, CADRE_ROTARY_PLAIN},
        {1, 33, 1, 128, 0, 0, false, CADRE_ROTARY_PLAIN},
        {1, 3, 1, 256, 3, 17, true, CADRE_ROTARY_PLAIN},
        {2, 9, 2, 32, 0, 40, false, CADRE_ROTARY_LLAMA3},
        {1, 9, 1, 16, 3, 5, true, CADRE_ROTARY_LINEAR},
    };
    static const struct rope large[] = {
        {2, 1024, 2, 64, 0, 0, false, CADRE_ROTARY_PLAIN},
        {1, 1023, 2, 128, 256, 0, true, CADRE_ROTARY_PLAIN},
        {1, 129, 8, 80, 7, 4000, false, CADRE_ROTARY_PLAIN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i += p->lean ? 3 : 1)
        compare_rope(p, dtype, cases[i]);
    for (size_t i = 0; i < sizeof large / sizeof *large && p->real; i++)
        compare_rope(p, dtype, large[i]);
}

/* Rows as wide as a block keeps in registers; and more of them than all blocks take in
 * a turn, which is too much for the stand-in. */
static void wide_norms(struct parity *p, uint32_t dtype)
{
    compare_norm(p, dtype, (struct norm){{6, 520}, false, PLAIN});
    if (p->real)
        compare_norm(p, dtype, (struct norm){{2117, 520}, true, FUSED});
    if (p->real)
        compare_norm(p, dtype, (struct norm){{1061, 1032}, false, IN_PLACE});
}

/* Every form in small, some in large. */
static void one_shape(struct parity *p, uint32_t dtype, struct shape s, int i)
{
    const bool few = p->lean || s.rows * s.channels > 40000;
    for (int form = 0; form < FORMS; form++)
        if (!few || form == i % FORMS)
            compare_norm(p, dtype, (struct norm){s, (form + i) % 2, (enum form)form});
    static const int sums[] = {0, 1, 2, 3, 4 + 3, 8 + 3};
    for (int k = 0; k < 6; k++)
        if (!few || k % 4 == i % 4)
            compare_add(p, dtype, (struct sum){s, sums[k]});
    for (int beta = 0; beta < 2; beta++)
        compare_bias(p, dtype, (struct sum){s, beta});
}

void parity_rows(struct parity *p)
{
    for (int d = 0; d < 4; d++)
        for (int large = 0; large < 2; large++) {
            const struct shape_list list = shapes_of(p, large);
            for (int i = 0; i < list.n; i++)
                one_shape(p, parity_dtypes[d], list.list[i], i + (large ? d : 0));
        }
    for (int d = 0; d < 4; d++) {
        ropes(p, parity_dtypes[d]);
        wide_norms(p, parity_dtypes[d]);
        compare_bias(p, parity_dtypes[d], (struct sum){{257, 7}, 1});
        if (p->real) /* as wide as a vocabulary */
            compare_bias(p, parity_dtypes[d], (struct sum){{9, 50257}, 0});
        if (p->real)
            compare_add(p, parity_dtypes[d], (struct sum){{5, 50257}, 3});
    }
}
