/* SPDX-License-Identifier: Apache-2.0 */
/* A tile of a product in 16 bits: sums run in an f32 tile, which takes the epilogue and
 * is rounded once. Where the library does not take the inputs they are widened, in
 * blocks of k that the shape alone fixes. */
#include <string.h>

#include "core/device/cpu/half.h"

#define BLOCK_K 2048

/* Scratch of a tile; what is not needed is NULL. */
struct parts {
    float *a, *b, *c, *aux, *bias;
};

static float *take(float **next, bool wanted, int64_t floats)
{
    float *part = *next;
    if (!wanted)
        return NULL;
    *next += floats;
    return part;
}

static bool take_parts(struct cadre_cpu_worker *worker, const struct cadre_gemm *g,
                       bool widened, struct parts *out)
{
    const int64_t k = g->k < BLOCK_K ? g->k : BLOCK_K;
    const int64_t floats = (g->m + g->n) * k + 2 * g->m * g->n + g->n;
    float *next =
        cadre_cpu_scratch(worker, CADRE_SCRATCH_HALF, (size_t)floats * sizeof *next);
    if (!next)
        return false;
    out->a = take(&next, widened, g->m * k);
    out->b = take(&next, widened, g->n * k);
    out->c = take(&next, !g->wide, g->m * g->n);
    out->aux = take(&next, g->aux != NULL, g->m * g->n);
    out->bias = take(&next, g->bias != NULL, g->n);
    return true;
}

/* Rows [first, first + k) of the inner dimension of a matrix that is (outer, K), or
 * (K, outer) where `along`. */
static void widen_block(const struct cadre_half *half, float *dst, const void *src,
                        bool along, int64_t outer, int64_t ld, int64_t first, int64_t k)
{
    const uint16_t *from = (const uint16_t *)src + (along ? first * ld : first);
    cadre_half_widen_rows(half, dst, from, along ? k : outer, along ? outer : k, ld);
}

/* f: the product with an f32 c; its inputs are still 16 bits. */
static cadre_status widened_product(const struct cadre_half *half,
                                    struct cadre_cpu_worker *worker,
                                    const struct cadre_gemm *f,
                                    const struct parts *parts)
{
    struct cadre_gemm g = *f;
    cadre_status rc = CADRE_OK;
    g.dtype = CADRE_F32;
    g.a = parts->a;
    g.b = parts->b;
    for (int64_t first = 0; rc == CADRE_OK && first < f->k; first += BLOCK_K) {
        g.k = f->k - first < BLOCK_K ? f->k - first : BLOCK_K;
        g.lda = f->ta ? f->m : g.k;
        g.ldb = f->tb ? g.k : f->n;
        widen_block(half, parts->a, f->a, f->ta, f->m, f->lda, first, g.k);
        widen_block(half, parts->b, f->b, !f->tb, f->n, f->ldb, first, g.k);
        rc = cadre_gemm_product(worker, &g);
        g.beta = 1;
    }
    return rc;
}

cadre_status cadre_half_product(const struct cadre_half *half,
                                struct cadre_cpu_worker *worker,
                                const struct cadre_gemm *g)
{
    const bool widened = g->dtype != CADRE_BF16 || !half->cpu->multiplies_bf16;
    struct cadre_gemm f = *g;
    struct parts parts;
    cadre_status rc;
    if (!take_parts(worker, g, widened, &parts))
        return CADRE_E_RESOURCE;
    if (!g->wide) {
        f.c = parts.c;
        f.ldc = g->n;
        if (g->beta)
            cadre_half_widen_rows(half, parts.c, g->c, g->m, g->n, g->ldc);
    }
    for (int64_t i = 0; g->k <= 0 && !g->beta && i < g->m; i++)
        memset((float *)f.c + i * f.ldc, 0, (size_t)g->n * sizeof(float));
    if (g->k > 0) {
        rc = widened ? widened_product(half, worker, &f, &parts)
                     : cadre_gemm_product(worker, &f);
        if (rc != CADRE_OK)
            return rc;
    }
    f.bias = parts.bias;
    f.aux = parts.aux;
    if (g->bias)
        cadre_half_widen(half, parts.bias, g->bias, 0, g->n);
    cadre_gemm_epilogue(half->kernels, &f);
    if (!g->wide)
        cadre_half_narrow_rows(half, g->c, g->ldc, parts.c, g->m, g->n);
    if (g->aux && g->epilogue == CADRE_EPILOGUE_BIAS_GELU)
        cadre_half_narrow_rows(half, g->aux, g->ldc, parts.aux, g->m, g->n);
    return CADRE_OK;
}
