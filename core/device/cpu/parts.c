/* SPDX-License-Identifier: Apache-2.0 */
/* A product whose inner dimension is cut into parts, which are added in the tree of
 * core/base/tree.h while the tile is in the cache. */
#include "core/device/cpu/cpu.h"

struct tree {
    const struct cadre_parts *parts;
    const struct cadre_gemm *g;
    char *scratch; /* a dense tile a level */
};

static size_t tile_bytes(const struct cadre_parts *parts, const struct cadre_gemm *g)
{
    return ((size_t)(g->m * g->n) * parts->element + 63) / 64 * 64;
}

static void cut_term(const struct cadre_gemm *g, int64_t part,
                     struct cadre_gemm_term *term)
{
    const size_t element = cadre_dtype_bytes(g->dtype);
    term->k /= g->parts;
    const int64_t first = part * term->k;
    term->a =
        (const char *)term->a + (size_t)(first * (g->ta ? term->lda : 1)) * element;
    if (!term->same_b)
        term->b = (const char *)term->b +
                  (size_t)(first * (term->tb ? 1 : term->ldb)) * element;
}

/* c = beta * c + the product of one part */
static cadre_status leaf(const struct tree *t, int64_t part, void *c, int64_t ldc,
                         int beta)
{
    struct cadre_gemm g = *t->g;
    struct cadre_gemm_term terms[CADRE_GEMM_TERMS],
        whole = {g.a, g.b, g.lda, g.ldb, g.k, g.tb, false};
    for (int64_t i = 0; i < g.n_terms; i++) {
        terms[i] = g.terms[i];
        cut_term(&g, part, &terms[i]);
    }
    cut_term(&g, part, &whole);
    if (g.n_terms == 0) {
        g.a = whole.a;
        g.b = whole.b;
    }
    g.terms = terms;
    g.k = whole.k;
    g.parts = 1;
    g.c = c;
    g.ldc = ldc;
    g.beta = beta;
    return t->parts->leaf(t->parts->arg, &g);
}

/* The node over parts [first, first + 2^level): its left child is computed in c, the
 * right one in the scratch of its level, which is free again after the addition; one
 * that is a part is added as it is computed. */
static cadre_status node(const struct tree *t, int level, int64_t first, void *c,
                         int64_t ldc)
{
    if (level == 0)
        return leaf(t, first, c, ldc, 0);
    const int64_t half = (int64_t)1 << (level - 1);
    CADRE_TRY(node(t, level - 1, first, c, ldc));
    if (first + half >= t->g->parts)
        return CADRE_OK;
    if (level == 1 && t->parts->adds)
        return leaf(t, first + 1, c, ldc, 1);
    void *right = t->scratch + (size_t)(level - 1) * tile_bytes(t->parts, t->g);
    CADRE_TRY(node(t, level - 1, first + half, right, t->g->n));
    struct cadre_gemm joined = *t->g;
    joined.ldc = ldc;
    t->parts->join(t->parts->arg, &joined, c, right);
    return CADRE_OK;
}

cadre_status cadre_parts_run(struct cadre_cpu_worker *worker,
                             const struct cadre_parts *parts,
                             const struct cadre_gemm *g)
{
    struct cadre_gemm whole = *g;
    struct tree t = {.parts = parts, .g = &whole};
    int levels = 0;
    whole.parts = g->parts > 1 ? g->parts : 1;
    while ((int64_t)1 << levels < whole.parts)
        levels++;
    if (levels > 0)
        t.scratch = cadre_cpu_scratch(worker, CADRE_SCRATCH_PARTS,
                                      (size_t)levels * tile_bytes(parts, g));
    if (levels > 0 && !t.scratch)
        return CADRE_E_RESOURCE;
    return node(&t, levels, 0, g->c, g->ldc);
}

struct real_parts {
    struct cadre_cpu_worker *worker;
    const struct cadre_cpu_kernels *kernels;
    size_t element;
};

static cadre_status real_leaf(void *arg, const struct cadre_gemm *g)
{
    const struct real_parts *real = arg;
    return cadre_own_product(real->worker, g);
}

static void real_join(void *arg, const struct cadre_gemm *g, void *c, const void *right)
{
    const struct real_parts *real = arg;
    for (int64_t i = 0; i < g->m; i++) {
        char *row = (char *)c + (size_t)(i * g->ldc) * real->element;
        const struct cadre_add_args sum = {.a = row,
                                           .b = (const char *)right +
                                                (size_t)(i * g->n) * real->element,
                                           .y = row};
        real->kernels->tree_add(&sum, 0, g->n);
    }
}

cadre_status cadre_parts_product(struct cadre_cpu_worker *worker,
                                 const struct cadre_cpu_kernels *kernels,
                                 const struct cadre_gemm *g)
{
    struct real_parts real = {worker, kernels, cadre_dtype_bytes(g->dtype)};
    const struct cadre_parts parts = {.arg = &real,
                                      .element = real.element,
                                      .leaf = real_leaf,
                                      .join = real_join,
                                      .adds = true};
    return cadre_parts_run(worker, &parts, g);
}
