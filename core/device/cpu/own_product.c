/* SPDX-License-Identifier: Apache-2.0 */
/* Cadre's own products: blocks of the inner dimension are packed for the kernel, and
 * their sums are added in order, over all terms. Blocks begin at the same steps
 * whatever the tile, so tiles change no bit. */
#include <string.h>

#include "core/device/cpu/cpu.h"

enum { BLOCK_K = CADRE_OWN_BLOCK, BLOCK_UNIT = 16 };
/* Of panels for other tiles: packing again costs about 3 % of a product. */
#define MOST_KEPT ((size_t)2 << 20)

/* As few blocks as may be, of nearly equal size. */
static int64_t block_of(int64_t k)
{
    return cadre_gemm_piece(k, (k + BLOCK_K - 1) / BLOCK_K, BLOCK_UNIT);
}

struct own_run {
    struct cadre_cpu_worker *worker;
    const struct cadre_cpu_kernels *kernels;
    const struct cadre_gemm *g;
    enum cadre_product_source source; /* of a and b */
    int64_t stored,
        element; /* bytes of an element of a and b, and of what is computed */
    int64_t columns; /* n filled up to whole panels */
    int64_t done; /* steps of k */
    char *panels, *a, *sums;
};

static struct own_run run_of(const struct cadre_cpu_kernels *kernels,
                             const struct cadre_gemm *g)
{
    const int64_t lanes = kernels->product_lanes;
    return (struct own_run){.kernels = kernels,
                            .g = g,
                            .source = g->dtype == CADRE_BF16  ? CADRE_SOURCE_BF16
                                      : g->dtype == CADRE_F16 ? CADRE_SOURCE_F16
                                                              : CADRE_SOURCE_REAL,
                            .stored = (int64_t)cadre_dtype_bytes(g->dtype),
                            .element =
                                (int64_t)cadre_dtype_bytes(cadre_dtype_wide(g->dtype)),
                            .columns = (g->n + lanes - 1) / lanes * lanes};
}

size_t cadre_own_panel_bytes(const struct cadre_cpu_kernels *kernels,
                             const struct cadre_gemm *gemm)
{
    const struct own_run run = run_of(kernels, gemm);
    const size_t bytes = (size_t)(run.columns * gemm->k * run.element);
    return bytes <= MOST_KEPT ? bytes : 0;
}

void cadre_own_keep(struct cadre_cpu_worker *worker, const void *b, uint64_t serial,
                    size_t bytes)
{
    struct cadre_own_kept *kept = &worker->kept;
    kept->on = bytes > 0;
    if (kept->first == b && kept->serial == serial)
        return;
    kept->first = b;
    kept->serial = serial;
    kept->room = bytes;
    kept->used = 0;
    kept->n = 0;
}

void cadre_own_pause(struct cadre_cpu_worker *worker)
{
    worker->kept.on = false;
}

/* Panels of k steps from `b` on: kept ones, or packed now and kept where there is
 * room. */
static const void *panels_of(const struct own_run *run,
                             const struct cadre_gemm_term *term, const void *b,
                             int64_t k)
{
    struct cadre_own_kept *kept = &run->worker->kept;
    const size_t bytes = (size_t)(run->columns * k * run->element);
    for (int i = 0; kept->on && i < kept->n; i++)
        if (kept->panels[i].b == b && kept->panels[i].k == k)
            return run->panels + kept->panels[i].at;
    const bool keep =
        kept->on && kept->n < CADRE_OWN_KEPT && bytes <= kept->room - kept->used;
    const size_t at = keep ? kept->used : kept->room;
    const struct cadre_product_panels args = {.to = run->panels + at,
                                              .b = b,
                                              .n = run->g->n,
                                              .k = k,
                                              .ld = term->ldb,
                                              .rows = term->tb,
                                              .source = run->source};
    run->kernels->product_panels(&args, 0, run->g->n);
    if (keep) {
        kept->panels[kept->n].b = b;
        kept->panels[kept->n].k = k;
        kept->panels[kept->n++].at = at;
        kept->used += bytes;
    }
    return run->panels + at;
}

/* Elements from a group of packed rows to the next: a line apart from a power of two,
 * whose groups would meet in few sets of the first cache. */
static int64_t group_size(const struct own_run *run, int64_t k)
{
    return run->kernels->product_group * k + 64 / run->element;
}

static int64_t groups_of(const struct own_run *run)
{
    const int64_t rows = run->kernels->product_group;
    return (run->g->m + rows - 1) / rows;
}

static bool take_room(struct own_run *run)
{
    struct cadre_cpu_worker *w = run->worker;
    const struct cadre_gemm *g = run->g;
    const int64_t k = g->k < BLOCK_K ? g->k : BLOCK_K;
    const size_t block = (size_t)(k * run->element);
    const size_t a =
        g->ta ? (size_t)(groups_of(run) * group_size(run, k) * run->element) : 0;
    const bool apart = g->beta && (g->k > BLOCK_K || g->n_terms > 1);
    const size_t sums = apart ? (size_t)(g->m * g->n * run->element) : 0;
    const void *before = w->scratch[CADRE_SCRATCH_OWN_PANELS];
    run->panels = cadre_cpu_scratch(w, CADRE_SCRATCH_OWN_PANELS,
                                    w->kept.room + block * (size_t)run->columns);
    if (run->panels != before) {
        w->kept.n = 0;
        w->kept.used = 0;
    }
    if (!run->panels || a + sums == 0)
        return run->panels != NULL;
    run->a = cadre_cpu_scratch(w, CADRE_SCRATCH_OWN, (a + 63) / 64 * 64 + sums);
    run->sums = run->a ? run->a + (a + 63) / 64 * 64 : NULL;
    return run->a != NULL;
}

/* Steps from `first` on of the first factor. One that is stored (K, M) is packed: its
 * rows lie far apart. */
static void set_factor(const struct own_run *run, const struct cadre_gemm_term *term,
                       int64_t first, struct cadre_product_args *args)
{
    const struct cadre_gemm *g = run->g;
    const char *a = term->a;
    if (!g->ta) {
        args->a = a + first * run->stored;
        args->source = run->source;
        args->row = term->lda;
        args->group = run->kernels->product_group * term->lda;
        args->step = 1;
        return;
    }
    const struct cadre_product_rows rows = {.to = run->a,
                                            .a = a + first * term->lda * run->stored,
                                            .m = g->m,
                                            .k = args->k,
                                            .ld = term->lda,
                                            .group = group_size(run, args->k),
                                            .source = run->source};
    run->kernels->product_rows(&rows, 0, groups_of(run));
    args->a = run->a;
    args->row = 1;
    args->group = rows.group;
    args->step = run->kernels->product_group;
}

/* The running sums of all but the last block lie in c, or apart where c is added. */
static void run_term(struct own_run *run, const struct cadre_gemm_term *term)
{
    const struct cadre_gemm *g = run->g;
    const int64_t block = block_of(term->k);
    for (int64_t first = 0; first < term->k; first += block) {
        const int64_t left = term->k - first, k = left < block ? left : block;
        const bool last = run->done + k == g->k, apart = g->beta && !last;
        struct cadre_product_args args = {.n = g->n,
                                          .k = k,
                                          .depth = k,
                                          .c = apart ? run->sums : g->c,
                                          .ldc = apart ? g->n : g->ldc,
                                          .adds = g->beta && last};
        if (run->done > 0) {
            args.from = g->beta ? run->sums : g->c;
            args.ld_from = g->beta ? g->n : g->ldc;
        }
        set_factor(run, term, first, &args);
        const char *b = term->b;
        b += first * (term->tb ? 1 : term->ldb) * run->stored;
        args.b = panels_of(run, term, b, k);
        run->kernels->product(&args, 0, g->m);
        run->done += k;
    }
}

cadre_status cadre_own_product(struct cadre_cpu_worker *worker,
                               const struct cadre_gemm *g)
{
    const struct cadre_gemm_term whole = {
        .a = g->a, .b = g->b, .lda = g->lda, .ldb = g->ldb, .k = g->k, .tb = g->tb};
    struct own_run run =
        run_of(g->dtype == CADRE_F64 ? worker->own_f64 : worker->own_f32, g);
    run.worker = worker;
    if (!take_room(&run))
        return CADRE_E_RESOURCE;
    if (g->n_terms == 0)
        run_term(&run, &whole);
    for (int64_t i = 0; i < g->n_terms; i++)
        run_term(&run, &g->terms[i]);
    return CADRE_OK;
}
