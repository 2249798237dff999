/* SPDX-License-Identifier: Apache-2.0 */
/* The products of a device that was opened `fixed`: blocks of the inner dimension are
 * packed for the kernel, which continues the chain of the block before, over all terms.
 * So blocks and tiles change no bit. */
#include <string.h>

#include "core/device/cpu/cpu.h"

enum { BLOCK_K = 256 };
#define MOST_KEPT ((size_t)8 << 20)

/* The vectors of a panel, 1 to 3, that leave the fewest columns unused; one of one
 * vector takes about as long as one of two. */
static int64_t panel_width(int64_t n, int64_t lanes)
{
    int64_t best = 3, least = INT64_MAX;
    for (int64_t vectors = 3; vectors >= 1; vectors--) {
        const int64_t width = vectors * lanes, panels = (n + width - 1) / width;
        const int64_t cost = panels * (vectors == 1 ? 2 : vectors);
        if (cost < least) {
            least = cost;
            best = vectors;
        }
    }
    return best * lanes;
}

struct fixed_run {
    struct cadre_cpu_worker *worker;
    const struct cadre_cpu_kernels *kernels;
    const struct cadre_gemm *g;
    int64_t element, width, columns; /* columns: n filled up to whole panels */
    int64_t done; /* steps of k */
    char *panels, *a, *sums;
};

static struct fixed_run run_of(const struct cadre_cpu_kernels *kernels,
                               const struct cadre_gemm *g)
{
    const int64_t width = panel_width(g->n, kernels->product_lanes);
    return (struct fixed_run){.kernels = kernels,
                              .g = g,
                              .element = (int64_t)cadre_dtype_bytes(g->dtype),
                              .width = width,
                              .columns = (g->n + width - 1) / width * width};
}

size_t cadre_fixed_panel_bytes(const struct cadre_cpu_kernels *kernels,
                               const struct cadre_gemm *gemm)
{
    const struct fixed_run run = run_of(kernels, gemm);
    const size_t bytes = (size_t)(run.columns * gemm->k * run.element);
    return bytes <= MOST_KEPT ? bytes : 0;
}

void cadre_fixed_keep(struct cadre_cpu_worker *worker, const void *b, uint64_t serial,
                      size_t bytes)
{
    struct cadre_fixed_kept *kept = &worker->kept;
    kept->on = bytes > 0;
    if (kept->first == b && kept->serial == serial)
        return;
    kept->first = b;
    kept->serial = serial;
    kept->room = bytes;
    kept->used = 0;
    kept->n = 0;
}

void cadre_fixed_pause(struct cadre_cpu_worker *worker)
{
    worker->kept.on = false;
}

/* Panels of k steps from `b` on: kept ones, or packed now and kept where there is
 * room. */
static const void *panels_of(const struct fixed_run *run,
                             const struct cadre_gemm_term *term, const void *b,
                             int64_t k)
{
    struct cadre_fixed_kept *kept = &run->worker->kept;
    const size_t bytes = (size_t)(run->columns * k * run->element);
    for (int i = 0; kept->on && i < kept->n; i++)
        if (kept->panels[i].b == b && kept->panels[i].k == k)
            return run->panels + kept->panels[i].at;
    const bool keep =
        kept->on && kept->n < CADRE_FIXED_KEPT && bytes <= kept->room - kept->used;
    const size_t at = keep ? kept->used : kept->room;
    const struct cadre_product_panels args = {.to = run->panels + at,
                                              .b = b,
                                              .n = run->g->n,
                                              .k = k,
                                              .ld = term->ldb,
                                              .width = run->width,
                                              .rows = run->g->tb};
    run->kernels->product_panels(&args, 0, run->columns / run->width);
    if (keep) {
        kept->panels[kept->n].b = b;
        kept->panels[kept->n].k = k;
        kept->panels[kept->n++].at = at;
        kept->used += bytes;
    }
    return run->panels + at;
}

static bool take_room(struct fixed_run *run)
{
    struct cadre_cpu_worker *w = run->worker;
    const struct cadre_gemm *g = run->g;
    const size_t block = (size_t)((g->k < BLOCK_K ? g->k : BLOCK_K) * run->element);
    const size_t a = g->ta ? (block * (size_t)g->m + 63) / 64 * 64 : 0;
    const size_t sums = g->beta ? (size_t)(g->m * g->n * run->element) : 0;
    const void *before = w->scratch[CADRE_SCRATCH_FIXED_PANELS];
    run->panels = cadre_cpu_scratch(w, CADRE_SCRATCH_FIXED_PANELS,
                                    w->kept.room + block * (size_t)run->columns);
    if (run->panels != before) {
        w->kept.n = 0;
        w->kept.used = 0;
    }
    if (!run->panels || a + sums == 0)
        return run->panels != NULL;
    run->a = cadre_cpu_scratch(w, CADRE_SCRATCH_FIXED, a + sums);
    run->sums = run->a ? run->a + a : NULL;
    return run->a != NULL;
}

/* Steps from `first` on of the first factor. One that is stored (K, M) is packed: its
 * rows lie far apart. */
static void set_factor(const struct fixed_run *run, const struct cadre_gemm_term *term,
                       int64_t first, struct cadre_product_args *args)
{
    const struct cadre_gemm *g = run->g;
    const char *a = term->a;
    args->row = g->ta ? 1 : term->lda;
    args->step = g->ta ? g->m : 1;
    args->a = g->ta ? run->a : a + first * run->element;
    for (int64_t l = 0; g->ta && l < args->k; l++)
        memcpy(run->a + l * g->m * run->element,
               a + (first + l) * term->lda * run->element,
               (size_t)(g->m * run->element));
}

/* The running sums of all but the last block lie in c, or apart where c is added. */
static void run_term(struct fixed_run *run, const struct cadre_gemm_term *term)
{
    const struct cadre_gemm *g = run->g;
    for (int64_t first = 0; first < term->k; first += BLOCK_K) {
        const int64_t left = term->k - first, k = left < BLOCK_K ? left : BLOCK_K;
        const bool last = run->done + k == g->k, apart = g->beta && !last;
        struct cadre_product_args args = {.m = g->m,
                                          .n = g->n,
                                          .k = k,
                                          .width = run->width,
                                          .c = apart ? run->sums : g->c,
                                          .ldc = apart ? g->n : g->ldc,
                                          .adds = g->beta && last};
        if (run->done > 0) {
            args.from = g->beta ? run->sums : g->c;
            args.ld_from = g->beta ? g->n : g->ldc;
        }
        set_factor(run, term, first, &args);
        const char *b = term->b;
        b += first * (g->tb ? 1 : term->ldb) * run->element;
        args.b = panels_of(run, term, b, k);
        run->kernels->product(&args, 0, run->columns / run->width);
        run->done += k;
    }
}

cadre_status cadre_fixed_product(struct cadre_cpu_worker *worker,
                                 const struct cadre_gemm *g)
{
    const struct cadre_gemm_term whole = {
        .a = g->a, .b = g->b, .lda = g->lda, .ldb = g->ldb, .k = g->k};
    struct fixed_run run =
        run_of(g->dtype == CADRE_F64 ? worker->fixed_f64 : worker->fixed_f32, g);
    run.worker = worker;
    if (!take_room(&run))
        return CADRE_E_RESOURCE;
    if (g->n_terms == 0)
        run_term(&run, &whole);
    for (int64_t i = 0; i < g->n_terms; i++)
        run_term(&run, &g->terms[i]);
    return CADRE_OK;
}
