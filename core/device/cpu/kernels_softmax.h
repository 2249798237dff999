/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of attention's softmax, of the loss and of the embedding. Included once per
 * copy by kernels_all.h. */
#ifndef CADRE_DEVICE_CPU_KERNELS_SOFTMAX_H
#define CADRE_DEVICE_CPU_KERNELS_SOFTMAX_H

#include "core/device/cpu/kernels_norm.h"
#include "core/device/cpu/kernels_real.h"

/* y = exp((x - most) * by), which may be x; returns the sum of y. */
INLINE real exp_row(const real *x, real *y, int64_t n, real most, real by)
{
    SIMD
    for (int64_t i = 0; i < n; i++)
        y[i] = real_exp((x[i] - most) * by);
    return row_sum(y, n);
}

/* Columns processed of a row that is visible up to `seen`: whole vectors. */
INLINE int64_t whole_lanes(int64_t seen, int64_t columns)
{
    const int64_t whole = (seen + LANES - 1) / LANES * LANES;
    return whole < columns ? whole : columns;
}

/* s[j] = value for j in [seen, whole), without a branch that depends on `seen`. */
INLINE void close_row(real *s, int64_t seen, int64_t whole, real value)
{
    const int64_t last = (seen - 1) / LANES * LANES;
    const int rest = (int)(seen - last);
    if (whole - last == LANES) {
        SIMD
        for (int l = 0; l < LANES; l++)
            s[last + l] = l < rest ? s[last + l] : value;
        return;
    }
    for (int64_t j = seen; j < whole; j++)
        s[j] = value;
}

static void softmax_fwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_softmax_args *a = args;
    const real by = (real)a->scale;
    for (int64_t row = begin; row < end; row++) {
        real *s = (real *)a->scores + row * a->ld;
        const int64_t seen = a->first + row + 1, whole = whole_lanes(seen, a->columns);
        const size_t unseen = (size_t)(a->columns - whole) * sizeof *s;
        close_row(s, seen, whole, s[0]);
        const real most = row_max(s, whole);
        SIMD
        for (int64_t j = 0; j < whole; j++)
            s[j] = real_exp((s[j] - most) * by);
        close_row(s, seen, whole, 0);
        memset(s + whole, 0, unseen);
        const real sum = row_sum(s, whole);
        ((real *)a->inverse_sum)[row] = REAL(1.0) / sum;
        ((real *)a->lse)[row] = most * by + real_log(sum);
    }
}

static void softmax_bwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_softmax_args *a = args;
    const real by = (real)a->scale;
    for (int64_t row = begin; row < end; row++) {
        real *p = (real *)a->scores + row * a->ld;
        real *d = (real *)a->dscores + row * a->ld;
        const int64_t seen = a->first + row + 1, whole = whole_lanes(seen, a->columns);
        const real lse = ((const real *)a->lse)[row];
        const real delta = ((const real *)a->delta)[row];
        const size_t unseen = (size_t)(a->columns - whole) * sizeof *p;
        SIMD
        for (int64_t j = 0; j < whole; j++) {
            real probability = real_exp(p[j] * by - lse);
            p[j] = probability;
            d[j] = probability * (d[j] - delta) * by;
        }
        close_row(p, seen, whole, 0);
        close_row(d, seen, whole, 0);
        memset(p + whole, 0, unseen);
        memset(d + whole, 0, unseen);
    }
}

static void row_scale(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_row_scale_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        real *x = (real *)a->x + row * a->ld;
        const real by = ((const real *)a->by)[row];
        SIMD
        for (int64_t j = 0; j < a->columns; j++)
            x[j] *= by;
    }
}

static void row_dot(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_row_dot_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        const real *x = (const real *)a->a + row * a->ld;
        const real *y = (const real *)a->b + row * a->ld;
        ((real *)a->out)[row] = row_product(x, y, a->columns);
    }
}

/* A row's exponentials are summed in blocks, the blocks in double: a vocabulary is
 * long.
 */
#define XENT_BLOCK 1024

INLINE double long_row_sum(const real *x, int64_t n)
{
    double sum = 0;
    for (int64_t first = 0; first < n; first += XENT_BLOCK) {
        const int64_t left = n - first;
        sum += (double)row_sum(x + first, left < XENT_BLOCK ? left : XENT_BLOCK);
    }
    return sum;
}

static void xent_fwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_xent *a = args;
    real block[XENT_BLOCK];
    for (int64_t row = begin; row < end; row++) {
        const real *x = (const real *)a->logits + row * (a->ld ? a->ld : a->vocab);
        const real most = row_max(x, a->vocab);
        double sum = 0;
        for (int64_t first = 0; first < a->vocab; first += XENT_BLOCK) {
            const int64_t left = a->vocab - first;
            const int64_t n = left < XENT_BLOCK ? left : XENT_BLOCK;
            const real part = exp_row(x + first, block, n, most, REAL(1.0));
            sum += (double)part;
        }
        const int64_t target = (int64_t)a->targets[row] - a->begin;
        const bool here = a->targets[row] >= 0 && target >= 0 && target < a->vocab;
        ((real *)a->max)[row] = most;
        ((real *)a->sum)[row] = (real)sum;
        ((real *)a->picked)[row] = here ? x[target] : 0;
        if (a->total)
            ((real *)a->total)[row] =
                a->targets[row] < 0 ? 0 : (real)long_row_sum(x, a->vocab);
    }
}

static void xent_rescale(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_xent *a = args;
    const real *old = a->old_max, *most = a->max;
    real *sum = a->sum;
    for (int64_t row = begin; row < end; row++)
        sum[row] *= real_exp(old[row] - most[row]);
}

static void xent_loss(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_xent *a = args;
    const real *most = a->max, *sum = a->sum, *picked = a->picked;
    for (int64_t row = begin; row < end; row++) {
        double loss = log((double)sum[row]) + ((double)most[row] - (double)picked[row]);
        a->loss_rows[row] = a->targets[row] < 0 ? 0.0 : loss;
        if (a->total)
            a->logit_rows[row] = (double)((const real *)a->total)[row];
    }
}

static void xent_bwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_xent *a = args;
    for (int64_t row = begin; row < end; row++) {
        real *x = (real *)a->logits + row * a->vocab;
        const real most = ((const real *)a->max)[row];
        const real seed = (real)a->seed;
        const real by = seed / ((const real *)a->sum)[row];
        if (a->targets[row] < 0) {
            memset(x, 0, (size_t)a->vocab * sizeof *x);
            continue;
        }
        SIMD
        for (int64_t j = 0; j < a->vocab; j++)
            x[j] = real_exp(x[j] - most) * by;
        const int64_t target = (int64_t)a->targets[row] - a->begin;
        if (target >= 0 && target < a->vocab)
            x[target] -= seed;
    }
}

/* ---- embedding ---- */

static void embed_fwd(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_embed *a = args;
    const int64_t C = a->channels;
    for (int64_t row = begin; row < end; row++) {
        const int64_t token = (int64_t)a->tokens[row] - a->begin;
        const bool here = token >= 0 && token < a->count;
        const real *position = NULL;
        real *out = (real *)a->out + row * C;
        if (a->wpe)
            position = (const real *)a->wpe + (a->position + row % a->time) * C;
        if (here) {
            const real *embedding = (const real *)a->wte + token * C;
            memcpy(out, embedding, (size_t)C * sizeof *out);
        } else {
            memset(out, 0, (size_t)C * sizeof *out);
        }
        if (!here || !position)
            continue;
        SIMD
        for (int64_t c = 0; c < C; c++)
            out[c] += position[c];
    }
}

/* Columns [begin, end) of every row; dwte already holds the initial value. */
static void embed_bwd_tokens(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_embed *a = args;
    const int64_t C = a->channels, rows = a->batch * a->time;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t token = (int64_t)a->tokens[row] - a->begin;
        if (token < 0 || token >= a->count)
            continue;
        const real *dout = (const real *)a->dout + row * C;
        real *dwte = (real *)a->dwte + token * C;
        SIMD
        for (int64_t c = begin; c < end; c++)
            dwte[c] += dout[c];
    }
}

static void embed_bwd_positions(const void *args, int64_t begin, int64_t end)
{
    const struct cadre_embed *a = args;
    const int64_t C = a->channels;
    for (int64_t p = begin; p < end; p++) {
        real *dwpe = (real *)a->dwpe + p * C;
        const int64_t t = p - a->position;
        if (!a->beta)
            memset(dwpe, 0, (size_t)C * sizeof *dwpe);
        if (t < 0 || t >= a->time)
            continue;
        for (int64_t b = 0; b < a->batch; b++) {
            const real *dout = (const real *)a->dout + (b * a->time + t) * C;
            SIMD
            for (int64_t c = 0; c < C; c++)
                dwpe[c] += dout[c];
        }
    }
}

#endif
