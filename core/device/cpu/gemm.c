/* SPDX-License-Identifier: Apache-2.0 */
/* Products are divided into tiles, each computed by one thread: for a library tiles are
 * fixed by the shape, and those of Cadre's own products change no bit, so the bits do
 * not depend on the number of threads. */
#include "core/device/cpu/gemm.h"

#include <string.h>

#include "core/device/cpu/half.h"

/* Largest tile. Tiles are halved while there are fewer than `wanted` and a half is
 * worth a call. */
struct limits {
    int64_t rows, columns;
    int64_t wanted;
    int64_t products; /* of a half that is worth a call */
    int64_t least_rows, least_columns; /* larger tiles are halved, and a single one */
};

static const struct limits plain_tiles = {512, 384, 16, (int64_t)8 << 20, 32, 64};

/* Where the first factor is transposed, tiles are packed: what a tile reads per 256
 * steps of the inner dimension fits in a core's cache, and few other tiles read the
 * factors again. */
static const struct limits packed_tiles = {192, 768, 4, (int64_t)16 << 20, 32, 64};

/* bf16 where the CPU multiplies it (half_gemm.c). */
static const struct limits panel_tiles = {512, 384, 12, (int64_t)16 << 20, 128, 128};

/* Tiles of Cadre's own products change no bit: there are as few as the threads need.
 * A block of k of the columns' panels stays in the second cache. */
static const struct limits own_tiles = {512, 384, 1, (int64_t)1 << 20, 32, 64};

/* The tiles of a product: fixed by its shape. */
struct tiling {
    int64_t rows, columns; /* of a tile */
    int64_t row_tiles, column_tiles; /* how many */
};

static struct tiling cut(int64_t m, int64_t n, int64_t k, const struct limits *most)
{
    enum { ROW_UNIT = 32, COLUMN_UNIT = 64 };
    if (m <= 0 || n <= 0)
        return (struct tiling){0};
    int64_t row_parts = (m + most->rows - 1) / most->rows;
    int64_t column_parts = (n + most->columns - 1) / most->columns;
    int64_t rows = cadre_gemm_piece(m, row_parts, ROW_UNIT);
    int64_t columns = cadre_gemm_piece(n, column_parts, COLUMN_UNIT);
    while (row_parts * column_parts < most->wanted &&
           rows * columns * k >= 2 * most->products) {
        const bool alone = row_parts * column_parts == 1;
        if (columns >= rows && columns > (alone ? COLUMN_UNIT : most->least_columns))
            columns = cadre_gemm_piece(n, column_parts *= 2, COLUMN_UNIT);
        else if (rows > most->least_rows)
            rows = cadre_gemm_piece(m, row_parts *= 2, ROW_UNIT);
        else
            break;
    }
    return (struct tiling){.rows = rows,
                           .columns = columns,
                           .row_tiles = (m + rows - 1) / rows,
                           .column_tiles = (n + columns - 1) / columns};
}

struct gemm_job {
    struct cadre_cpu *cpu;
    const struct cadre_gemm *gemm;
    const struct cadre_cpu_kernels *kernels;
    struct tiling tiling;
    size_t element, element_c;
    bool narrow; /* 16 bits: `half` does a tile */
    bool own;
    uint64_t serial; /* of this product */
    struct cadre_half half;
    atomic_int status;
};

static void gelu_backward(const struct cadre_cpu_kernels *kernels,
                          const struct cadre_gemm *g)
{
    const size_t row = (size_t)g->ldc * cadre_dtype_bytes(g->dtype);
    for (int64_t i = 0; i < g->m; i++) {
        char *c = (char *)g->c + (size_t)i * row;
        const struct cadre_pointwise_args args = {
            .x = (const char *)g->aux + (size_t)i * row, .dy = c, .y = c};
        kernels->gelu_bwd(&args, 0, g->n);
    }
}

void cadre_gemm_epilogue(const struct cadre_cpu_kernels *kernels,
                         const struct cadre_gemm *g)
{
    const bool gelu = g->epilogue == CADRE_EPILOGUE_BIAS_GELU;
    const struct cadre_bias_args args = {.c = g->c,
                                         .bias = g->bias,
                                         .aux = gelu ? g->aux : NULL,
                                         .ldc = g->ldc,
                                         .columns = g->n,
                                         .gelu = gelu};
    if (g->epilogue == CADRE_EPILOGUE_GELU_BWD)
        gelu_backward(kernels, g);
    else if (g->epilogue != CADRE_EPILOGUE_NONE)
        kernels->bias_rows(&args, 0, g->m);
}

/* The factors of a tile that begins at that row and column. */
static struct cadre_gemm_term move_term(const struct gemm_job *job,
                                        const struct cadre_gemm_term *term, int64_t row,
                                        int64_t column)
{
    const struct cadre_gemm *g = job->gemm;
    struct cadre_gemm_term to = *term;
    to.a = (const char *)term->a + (size_t)(g->ta ? row : row * to.lda) * job->element;
    to.b = (const char *)term->b +
           (size_t)(to.tb ? column * to.ldb : column) * job->element;
    return to;
}

/* Panels of b are kept for the other tiles of the same columns. */
static cadre_status own_tile(const struct gemm_job *job,
                             struct cadre_cpu_worker *worker,
                             const struct cadre_gemm *tile)
{
    const void *b = tile->n_terms ? tile->terms[0].b : tile->b;
    const size_t bytes = cadre_own_panel_bytes(job->kernels, tile);
    cadre_own_keep(worker, b, job->serial, job->tiling.row_tiles > 1 ? bytes : 0);
    cadre_status rc = job->narrow ? cadre_half_product(&job->half, worker, tile)
                      : tile->parts > 1
                          ? cadre_parts_product(worker, job->kernels, tile)
                          : cadre_own_product(worker, tile);
    cadre_own_pause(worker);
    return rc;
}

static void gemm_tile(void *arg, int64_t index, int worker)
{
    struct gemm_job *job = arg;
    const struct cadre_gemm *g = job->gemm;
    const struct tiling *t = &job->tiling;
    const int64_t row = index % t->row_tiles * t->rows;
    const int64_t column = index / t->row_tiles * t->columns;
    struct cadre_gemm tile = *g;
    tile.m = g->m - row < t->rows ? g->m - row : t->rows;
    tile.n = g->n - column < t->columns ? g->n - column : t->columns;
    tile.a = (const char *)g->a + (size_t)(g->ta ? row : row * g->lda) * job->element;
    tile.b =
        (const char *)g->b + (size_t)(g->tb ? column * g->ldb : column) * job->element;
    const size_t offset = (size_t)(row * g->ldc + column) * job->element_c;
    tile.c = (char *)g->c + offset;
    tile.aux = g->aux ? (char *)g->aux + offset : NULL;
    if (g->bias)
        tile.bias = (const char *)g->bias + (size_t)column * job->element;
    struct cadre_gemm_term terms[CADRE_GEMM_TERMS] = {0};
    struct cadre_cpu_worker *self = &job->cpu->workers[worker];
    cadre_status rc = CADRE_OK;
    tile.terms = terms;
    for (int64_t i = 0; i < g->n_terms; i++)
        terms[i] = move_term(job, &g->terms[i], row, column);
    if (g->k > 0 && job->own)
        rc = own_tile(job, self, &tile);
    else if (job->narrow)
        rc = cadre_half_product(&job->half, self, &tile);
    else if (g->k > 0)
        rc = cadre_gemm_product(self, &tile);
    else if (!g->beta)
        for (int64_t i = 0; i < tile.m; i++)
            memset((char *)tile.c + (size_t)(i * g->ldc) * job->element, 0,
                   (size_t)tile.n * job->element);
    if (rc != CADRE_OK)
        atomic_store(&job->status, rc);
    else if (!job->narrow)
        cadre_gemm_epilogue(job->kernels, &tile);
}

/* The other backward epilogues run the op of their name after the product: same
 * bits. */
static cadre_status backward_epilogue(struct cadre_device *device,
                                      const struct cadre_gemm *g)
{
    const struct cadre_device_ops *ops = device->ops;
    const size_t row = (size_t)g->ldc * cadre_dtype_bytes(g->dtype);
    cadre_status rc = CADRE_OK;
    if (g->epilogue == CADRE_EPILOGUE_SUM_A)
        return ops->bias_bwd(device, g->dtype, g->a, g->k, g->m, g->sums, g->beta);
    if (g->epilogue == CADRE_EPILOGUE_SUM_B)
        return ops->bias_bwd(device, g->dtype, g->b, g->k, g->n, g->sums, g->beta);
    if (g->ldc == g->n)
        return ops->gelu_bwd(device, g->dtype, g->aux, g->c, g->c, g->m * g->n);
    for (int64_t i = 0; i < g->m && rc == CADRE_OK; i++) {
        char *c = (char *)g->c + (size_t)i * row;
        rc = ops->gelu_bwd(device, g->dtype, (const char *)g->aux + (size_t)i * row, c,
                           c, g->n);
    }
    return rc;
}

static bool is_native(const struct cadre_cpu *cpu, const struct cadre_gemm *g)
{
    return g->dtype == CADRE_BF16 && cpu->multiplies_bf16;
}

/* A few rows, as where tokens are generated, do not pay for packing the columns. */
static bool is_own(const struct cadre_cpu *cpu, const struct cadre_gemm *g)
{
    enum { LEAST_ROWS = 8 };
    return cpu->fixed || (cpu->own && g->m >= LEAST_ROWS && !is_native(cpu, g));
}

static struct tiling tiling_of(const struct cadre_cpu *cpu, const struct cadre_gemm *g)
{
    struct limits own = own_tiles;
    const int threads = cadre_pool_threads(cpu->pool);
    own.wanted = threads > 1 ? 2 * threads : 1;
    return cut(g->m, g->n, g->k,
               is_own(cpu, g)      ? &own
               : is_native(cpu, g) ? &panel_tiles
               : g->ta             ? &packed_tiles
                                   : &plain_tiles);
}

static cadre_status product(struct cadre_device *device, const struct cadre_gemm *g)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    const uint32_t wide = cadre_dtype_wide(g->dtype);
    struct gemm_job job = {.cpu = cpu,
                           .gemm = g,
                           .kernels = cadre_cpu_kernels(cpu, wide),
                           .tiling = tiling_of(cpu, g),
                           .element = cadre_dtype_bytes(g->dtype),
                           .element_c = cadre_dtype_bytes(g->wide ? wide : g->dtype),
                           .narrow = wide != g->dtype,
                           .own = is_own(cpu, g)};
    if (!job.kernels || (!cpu->fixed && (g->parts > 1 || g->n_terms > 0)))
        return CADRE_E_DEVICE;
    job.serial = ++cpu->products;
    if (job.narrow) {
        job.half = cadre_half_of(device, g->dtype);
        job.half.serial = job.serial;
        job.half.own = job.own;
    }
    cadre_gemm_thread_init();
    cadre_pool_run(cpu->pool, job.tiling.row_tiles * job.tiling.column_tiles, gemm_tile,
                   &job);
    return atomic_load(&job.status);
}

cadre_status cadre_cpu_gemm(struct cadre_device *device, const struct cadre_gemm *g)
{
    struct cadre_gemm plain = *g;
    if (g->epilogue <= CADRE_EPILOGUE_BIAS_GELU ||
        (g->epilogue == CADRE_EPILOGUE_GELU_BWD && !cadre_dtype_is_half(g->dtype)))
        return product(device, g);
    plain.epilogue = CADRE_EPILOGUE_NONE;
    plain.aux = NULL;
    cadre_status rc = product(device, &plain);
    return rc == CADRE_OK ? backward_epilogue(device, g) : rc;
}
