/* SPDX-License-Identifier: Apache-2.0 */
/* A tile of a product in 16 bits: sums run in an f32 tile, to which the epilogue is
 * applied and which is rounded once. Where the CPU multiplies bf16, blocks of k are
 * packed for its instructions (packing by the library costs more than its product);
 * where it does not, they are widened. Only the shape determines the blocks. */
#include <string.h>

#include "core/device/cpu/half.h"

#define BLOCK_K 2048 /* widened */
#define PANELS_KEPT ((int64_t)1 << 20) /* elements of b for the next tile */
#define PANEL_K 768 /* in panels: A's rows, B's panels and c stay in the cache */

/* Scratch of a tile; unused buffers are NULL. */
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
    const int64_t floats = (widened ? (g->m + g->n) * k : 0) + 2 * g->m * g->n + g->n;
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

/* f: the product with an f32 c; its inputs are still 16 bits. The library wants them
 * widened. */
static cadre_status widened_product(const struct cadre_half *half,
                                    struct cadre_cpu_worker *worker,
                                    const struct cadre_gemm *f,
                                    const struct parts *parts)
{
    struct cadre_gemm g = *f;
    cadre_status rc = CADRE_OK;
    if (half->own)
        return cadre_own_product(worker, f);
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

/* The parts and terms of a product on a device opened `fixed`. */
struct half_leaf {
    const struct cadre_half *half;
    struct cadre_cpu_worker *worker;
    const struct parts *parts;
};

static void round_rows(const struct cadre_half *half, float *c, int64_t ldc, int64_t m,
                       int64_t n)
{
    enum { BLOCK = 256 };
    uint16_t narrow[BLOCK];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j += BLOCK) {
            const int64_t count = n - j < BLOCK ? n - j : BLOCK;
            cadre_half_narrow(half, narrow, 0, c + i * ldc + j, count);
            cadre_half_widen(half, c + i * ldc + j, narrow, 0, count);
        }
}

/* c = the sum of the terms of g, or its one product, rounded to 16 bits. */
static cadre_status half_leaf(void *arg, const struct cadre_gemm *g)
{
    const struct half_leaf *leaf = arg;
    struct cadre_gemm one = *g;
    one.n_terms = 0;
    if (g->n_terms == 0)
        CADRE_TRY(widened_product(leaf->half, leaf->worker, &one, leaf->parts));
    for (int64_t i = 0; i < g->n_terms; i++) {
        one.a = g->terms[i].a;
        one.b = g->terms[i].b;
        one.lda = g->terms[i].lda;
        one.ldb = g->terms[i].ldb;
        one.k = g->terms[i].k;
        one.tb = g->terms[i].tb;
        one.beta = i > 0;
        CADRE_TRY(widened_product(leaf->half, leaf->worker, &one, leaf->parts));
    }
    round_rows(leaf->half, g->c, g->ldc, g->m, g->n);
    return CADRE_OK;
}

static void half_join(void *arg, const struct cadre_gemm *g, void *c, const void *right)
{
    const struct half_leaf *leaf = arg;
    for (int64_t i = 0; i < g->m; i++) {
        float *row = (float *)c + i * g->ldc;
        const struct cadre_add_args sum = {
            .a = row, .b = (const float *)right + i * g->n, .y = row};
        leaf->half->kernels->tree_add(&sum, 0, g->n);
    }
    round_rows(leaf->half, c, g->ldc, g->m, g->n);
}

static cadre_status tree_product(const struct cadre_half *half,
                                 struct cadre_cpu_worker *worker,
                                 const struct cadre_gemm *f, const struct parts *room)
{
    struct half_leaf arg = {half, worker, room};
    const struct cadre_parts parts = {
        .arg = &arg, .element = sizeof(float), .leaf = half_leaf, .join = half_join};
    return cadre_parts_run(worker, &parts, f);
}

/* ---- in panels ---- */

struct panel_room {
    uint16_t *a, *b;
    float *c;
    int64_t block; /* of k */
    bool keeps; /* b holds all of k, and is kept for the next tile */
};

static bool take_panels(struct cadre_cpu_worker *worker, const struct cadre_gemm *g,
                        struct panel_room *out)
{
    const int64_t columns = (g->n + 63) / 64 * 64, depth = (g->k + 31) / 32 * 32;
    out->block = cadre_gemm_piece(g->k, (g->k + PANEL_K - 1) / PANEL_K, 32);
    out->keeps = columns * depth <= PANELS_KEPT;
    const int64_t a = (g->m * out->block + 31) / 32 * 32;
    const int64_t b = columns * (out->keeps ? depth : out->block);
    const size_t bytes = (size_t)(a + 2 * g->m * g->n) * sizeof *out->a;
    const size_t kept = (size_t)b * sizeof *out->b;
    const void *before = worker->scratch[CADRE_SCRATCH_PANELS];
    out->b = cadre_cpu_scratch(worker, CADRE_SCRATCH_PANELS, kept);
    out->a = cadre_cpu_scratch(worker, CADRE_SCRATCH_HALF_PRODUCT, bytes);
    if (!out->b || !out->a)
        return false;
    if (out->b != before)
        worker->panels_of = NULL;
    out->c = (float *)(void *)(out->a + a);
    return true;
}

/* Rows of a for [first, first + p->k) of k: in place, or a copy. */
static const uint16_t *dense_a(const struct cadre_half *half,
                               const struct cadre_gemm *g, int64_t first,
                               const struct cadre_gemm *p, uint16_t *room)
{
    const uint16_t *a = g->a;
    if (g->ta) {
        half->cpu->packs->columns(room, a + first * g->lda, g->lda, g->m, p->k);
        return room;
    }
    if (g->lda == p->k)
        return a;
    for (int64_t i = 0; i < g->m; i++)
        memcpy(room + i * p->k, a + i * g->lda + first, (size_t)p->k * sizeof *room);
    return room;
}

/* The library's call for rows [first, first + block) of k. */
static struct cadre_gemm block_product(const struct cadre_gemm *g, int64_t first,
                                       int64_t block)
{
    const int64_t k = g->k - first < block ? g->k - first : block;
    return (struct cadre_gemm){.dtype = CADRE_BF16,
                               .wide = true,
                               .m = g->m,
                               .n = g->n,
                               .k = k,
                               .lda = k,
                               .ldb = g->n,
                               .c = g->c,
                               .ldc = g->n,
                               .beta = first > 0 || g->beta};
}

/* Do the panels of every block fit? Their width is that of the first. */
static int64_t common_width(struct cadre_cpu_worker *worker, const struct cadre_gemm *g,
                            int64_t block)
{
    int64_t width = 0;
    for (int64_t first = 0; first < g->k; first += block) {
        const struct cadre_gemm p = block_product(g, first, block);
        const int64_t here = cadre_gemm_panel_width(worker, &p);
        if (here <= 0 || here > 64 || (first > 0 && here != width))
            return 0;
        width = here;
    }
    if (width == 0)
        return 0;
    return (g->n + width - 1) / width * width <= (g->n + 63) / 64 * 64 ? width : 0;
}

/* c (dense) = a b + beta c in panels of that width */
static cadre_status panel_product(const struct cadre_half *half,
                                  struct cadre_cpu_worker *worker,
                                  const struct cadre_gemm *g,
                                  const struct panel_room *room, int64_t width)
{
    const bool there = room->keeps && worker->panels_of == g->b &&
                       worker->panels_serial == half->serial;
    const int64_t columns = (g->n + 63) / 64 * 64;
    cadre_status rc = CADRE_OK;
    for (int64_t first = 0; rc == CADRE_OK && first < g->k; first += room->block) {
        struct cadre_gemm p = block_product(g, first, room->block);
        const struct cadre_panels panels = {
            .k = p.k, .n = g->n, .width = width, .rows = g->tb, .ld = g->ldb};
        const int64_t at = g->tb ? first : first * g->ldb;
        uint16_t *b = room->keeps ? room->b + first * columns : room->b;
        if (!there)
            half->cpu->packs->panels(&panels, b, (const uint16_t *)g->b + at);
        p.a = dense_a(half, g, first, &p, room->a);
        p.b = b;
        rc = cadre_gemm_panel_product(worker, &p);
    }
    worker->panels_of = room->keeps ? g->b : NULL;
    worker->panels_serial = half->serial;
    return rc;
}

/* The product of f, whose c is f32. */
static cadre_status native_product(const struct cadre_half *half,
                                   struct cadre_cpu_worker *worker,
                                   const struct cadre_gemm *f)
{
    const bool dense = f->ldc == f->n;
    struct cadre_gemm g = *f;
    struct panel_room room;
    if (!take_panels(worker, f, &room))
        return CADRE_E_RESOURCE;
    if (!dense) {
        g.c = room.c;
        g.ldc = g.n;
        g.beta = 0;
    }
    const int64_t width = common_width(worker, &g, room.block);
    if (!width)
        return cadre_gemm_product(worker, f);
    cadre_status rc = panel_product(half, worker, &g, &room, width);
    for (int64_t i = 0; i < f->m && !dense && rc == CADRE_OK; i++) {
        float *to = (float *)f->c + i * f->ldc, *from = room.c + i * f->n;
        const struct cadre_add_args sum = {.a = to, .b = from, .y = to};
        if (f->beta)
            half->kernels->tree_add(&sum, 0, f->n);
        else
            memcpy(to, from, (size_t)f->n * sizeof *to);
    }
    return rc;
}

static void finish(const struct cadre_half *half, const struct cadre_gemm *g,
                   const float *c)
{
    const bool gelu = g->epilogue == CADRE_EPILOGUE_BIAS_GELU;
    const struct cadre_finish_args args = {
        .c = c,
        .bias = g->epilogue == CADRE_EPILOGUE_NONE ? NULL : g->bias,
        .aux = gelu ? g->aux : NULL,
        .out = g->c,
        .ld = g->ldc,
        .columns = g->n,
        .gelu = gelu};
    half->bf16->finish(&args, 0, g->m);
}

cadre_status cadre_half_product(const struct cadre_half *half,
                                struct cadre_cpu_worker *worker,
                                const struct cadre_gemm *g)
{
    const bool widened = g->dtype != CADRE_BF16 || !half->cpu->multiplies_bf16;
    struct cadre_gemm f = *g;
    struct parts parts;
    if (!take_parts(worker, g, widened && !half->own, &parts))
        return CADRE_E_RESOURCE;
    if (!g->wide) {
        f.c = parts.c;
        f.ldc = g->n;
        if (g->beta)
            cadre_half_widen_rows(half, parts.c, g->c, g->m, g->n, g->ldc);
    }
    for (int64_t i = 0; g->k <= 0 && !g->beta && i < g->m; i++)
        memset((float *)f.c + i * f.ldc, 0, (size_t)g->n * sizeof(float));
    if (g->k > 0 && (g->parts > 1 || g->n_terms > 0)) {
        CADRE_TRY(tree_product(half, worker, &f, &parts));
    } else if (g->k > 0) {
        CADRE_TRY(widened ? widened_product(half, worker, &f, &parts)
                          : native_product(half, worker, &f));
    }
    if (half->bf16 && !g->wide) {
        finish(half, g, parts.c);
        return CADRE_OK;
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
