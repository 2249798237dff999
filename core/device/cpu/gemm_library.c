/* SPDX-License-Identifier: Apache-2.0 */
/* One product on the calling thread: oneDNN's primitives, made once per shape and kept
 * by each worker; the operands are packed for it where that is faster. */
#include "core/device/cpu/gemm.h"

#include <cblas.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/device/cpu/guarded.h"
#include "core/device/cpu/half.h"

/* libgomp's, which oneDNN runs on; <omp.h> is not there for every compiler. */
void omp_set_num_threads(int threads);

/* Of a product whose first factor is transposed: steps of the inner dimension that are
 * packed at a time, and the size from which packing is faster. */
#define PACKED_STEPS 256
#define PACKED_LEAST ((int64_t)2 << 20)

enum { TABLE_SIZE = 1024, TABLE_LIMIT = 768 };

struct key {
    int64_t m, n, k, lda, ldb, ldc;
    int64_t flags; /* ta, tb, beta, bf16, packed */
};

struct entry {
    struct key key;
    dnnl_primitive_t primitive; /* NULL: the slot is free */
    dnnl_memory_t a, b, c, scratch;
    size_t scratch_bytes;
    int64_t width; /* of the panels of b, 0 where b is not in panels */
};

struct cadre_gemm_cache {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    int count;
    struct entry table[TABLE_SIZE]; /* open addressing */
};

void cadre_gemm_thread_init(void)
{
    omp_set_num_threads(1);
}

static cadre_status refused(dnnl_status_t status, const char *what)
{
    cadre_log(CADRE_LOG_ERROR, "device", "oneDNN refused to %s (status %d)", what,
              (int)status);
    return status == dnnl_out_of_memory ? CADRE_E_RESOURCE : CADRE_E_DEVICE;
}

static void entry_fini(struct entry *entry)
{
    dnnl_memory_destroy(entry->a);
    dnnl_memory_destroy(entry->b);
    dnnl_memory_destroy(entry->c);
    dnnl_memory_destroy(entry->scratch);
    dnnl_primitive_destroy(entry->primitive);
    *entry = (struct entry){0};
}

/* What the library threw instead of returning it. */
static dnnl_status_t guarded(void (*work)(void *), void *arg, dnnl_status_t *status)
{
    const enum cadre_thrown thrown = cadre_guarded(work, arg);
    if (thrown == CADRE_THROWN_NO_MEMORY)
        return dnnl_out_of_memory;
    return thrown == CADRE_THROWN_NOTHING ? *status : dnnl_runtime_error;
}

struct starting {
    struct cadre_gemm_cache *cache;
    dnnl_status_t status;
};

static void start(void *arg)
{
    struct starting *s = arg;
    s->status = dnnl_engine_create(&s->cache->engine, dnnl_cpu, 0);
    if (s->status == dnnl_success)
        s->status = dnnl_stream_create(&s->cache->stream, s->cache->engine,
                                       dnnl_stream_default_flags);
}

struct cadre_gemm_cache *cadre_gemm_cache_create(void)
{
    struct cadre_gemm_cache *cache = cadre_calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    struct starting starting = {.cache = cache};
    const dnnl_status_t status = guarded(start, &starting, &starting.status);
    /* without memory it may say that all is well and give no engine */
    if (status != dnnl_success || !cache->engine || !cache->stream) {
        refused(status == dnnl_success ? dnnl_out_of_memory : status, "start");
        cadre_gemm_cache_destroy(cache);
        return NULL;
    }
    return cache;
}

static void cache_clear(struct cadre_gemm_cache *cache)
{
    for (int i = 0; i < TABLE_SIZE; i++) {
        if (cache->table[i].primitive)
            entry_fini(&cache->table[i]);
    }
    cache->count = 0;
}

void cadre_gemm_cache_destroy(struct cadre_gemm_cache *cache)
{
    if (!cache)
        return;
    cache_clear(cache);
    if (cache->stream)
        dnnl_stream_destroy(cache->stream);
    if (cache->engine)
        dnnl_engine_destroy(cache->engine);
    free(cache);
}

static bool same_key(const struct key *a, const struct key *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->lda == b->lda &&
           a->ldb == b->ldb && a->ldc == b->ldc && a->flags == b->flags;
}

static uint64_t hash_key(const struct key *key)
{
    const int64_t part[] = {key->m,   key->n,   key->k,    key->lda,
                            key->ldb, key->ldc, key->flags};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        hash = (hash ^ (uint64_t)part[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* A matrix of (rows, columns), stored transposed where `t` is set. */
static dnnl_status_t describe(dnnl_memory_desc_t *desc, int64_t rows, int64_t columns,
                              int64_t ld, bool t, uint32_t dtype)
{
    const dnnl_dims_t dims = {rows, columns};
    const dnnl_dims_t strides = {t ? 1 : ld, t ? ld : 1};
    return dnnl_memory_desc_init_by_strides(
        desc, 2, dims, dtype == CADRE_BF16 ? dnnl_bf16 : dnnl_f32, strides);
}

static dnnl_status_t make_attributes(const struct cadre_gemm *g,
                                     dnnl_primitive_attr_t *attr)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(attr);
    if (status == dnnl_success)
        status =
            dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (status != dnnl_success || !g->beta)
        return status;
    status = dnnl_post_ops_create(&ops);
    if (status == dnnl_success)
        status = dnnl_post_ops_append_sum(ops, 1.0f);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(*attr, ops);
    if (ops)
        dnnl_post_ops_destroy(ops);
    return status;
}

static dnnl_status_t make_memories(struct cadre_gemm_cache *cache, struct entry *entry,
                                   const dnnl_memory_desc_t desc[3],
                                   const_dnnl_primitive_desc_t primitive)
{
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(primitive, dnnl_query_scratchpad_md, 0);
    entry->scratch_bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    dnnl_status_t status =
        dnnl_memory_create(&entry->a, &desc[0], cache->engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success)
        status =
            dnnl_memory_create(&entry->b, &desc[1], cache->engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success)
        status =
            dnnl_memory_create(&entry->c, &desc[2], cache->engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success && entry->scratch_bytes)
        status = dnnl_memory_create(&entry->scratch, scratch, cache->engine,
                                    DNNL_MEMORY_NONE);
    return status;
}

/* The width of panels (k, n), 0 where the library uses another layout. */
static int64_t panel_width(const dnnl_memory_desc_t *b)
{
    const dnnl_blocking_desc_t *blocks = &b->format_desc.blocking;
    const dnnl_dim_t width = blocks->inner_blks[1];
    if (b->format_kind != dnnl_blocked || blocks->inner_nblks != 3 || b->offset0 ||
        b->extra.flags || blocks->inner_idxs[0] != 0 || blocks->inner_idxs[1] != 1 ||
        blocks->inner_idxs[2] != 0 || blocks->inner_blks[0] != 16 ||
        blocks->inner_blks[2] != 2 || width % 16)
        return 0;
    const dnnl_dim_t depth = (b->dims[0] + 31) / 32 * 32;
    const bool dense =
        b->padded_dims[0] == depth && blocks->strides[0] == 32 * width &&
        b->padded_dims[1] == (b->dims[1] + width - 1) / width * width &&
        (b->padded_dims[1] == width || blocks->strides[1] == depth * width);
    return dense ? width : 0;
}

/* An entry being made; what the library gave for it outlives what it throws. */
struct making {
    struct cadre_gemm_cache *cache;
    struct entry *entry;
    const struct cadre_gemm *g;
    bool packed;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t primitive;
    dnnl_status_t status;
};

static void make_entry(void *arg)
{
    struct making *m = arg;
    const struct cadre_gemm *g = m->g;
    dnnl_memory_desc_t desc[3];
    dnnl_matmul_desc_t matmul;
    dnnl_status_t status = describe(&desc[0], g->m, g->k, g->lda, g->ta, g->dtype);
    if (status == dnnl_success)
        status = describe(&desc[1], g->k, g->n, g->ldb, g->tb, g->dtype);
    if (status == dnnl_success && m->packed)
        status = dnnl_memory_desc_init_by_tag(&desc[1], 2, desc[1].dims, dnnl_bf16,
                                              dnnl_format_tag_any);
    if (status == dnnl_success)
        status = describe(&desc[2], g->m, g->n, g->ldc, false, CADRE_F32);
    if (status == dnnl_success)
        status = dnnl_matmul_desc_init(&matmul, &desc[0], &desc[1], NULL, &desc[2]);
    if (status == dnnl_success)
        status = make_attributes(g, &m->attr);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(&m->primitive, &matmul, m->attr,
                                            m->cache->engine, NULL);
    if (status == dnnl_success && m->packed) {
        desc[1] = *dnnl_primitive_desc_query_md(m->primitive, dnnl_query_weights_md, 0);
        m->entry->width = panel_width(&desc[1]);
    }
    if (status == dnnl_success)
        status = make_memories(m->cache, m->entry, desc, m->primitive);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&m->entry->primitive, m->primitive);
    m->status = status;
}

static dnnl_status_t entry_init(struct cadre_gemm_cache *cache, struct entry *entry,
                                const struct cadre_gemm *g, bool packed)
{
    struct making m = {.cache = cache, .entry = entry, .g = g, .packed = packed};
    const dnnl_status_t status = guarded(make_entry, &m, &m.status);
    if (m.primitive)
        dnnl_primitive_desc_destroy(m.primitive);
    if (m.attr)
        dnnl_primitive_attr_destroy(m.attr);
    return status == dnnl_success && !entry->primitive ? dnnl_out_of_memory : status;
}

/* The entry of g's shape, made at its first use. A full table is emptied: the library
 * keeps the compiled code in a cache of its own. */
static cadre_status find_entry(struct cadre_gemm_cache *cache,
                               const struct cadre_gemm *g, bool packed,
                               struct entry **out)
{
    const struct key key = {.m = g->m,
                            .n = g->n,
                            .k = g->k,
                            .lda = g->lda,
                            .ldb = g->ldb,
                            .ldc = g->ldc,
                            .flags = g->ta | g->tb << 1 | (g->beta ? 4 : 0) |
                                     (g->dtype == CADRE_BF16 ? 8 : 0) |
                                     (packed ? 16 : 0)};
    const uint64_t hash = hash_key(&key);
    size_t slot = hash % TABLE_SIZE;
    for (; cache->table[slot].primitive; slot = (slot + 1) % TABLE_SIZE) {
        if (same_key(&cache->table[slot].key, &key)) {
            *out = &cache->table[slot];
            return CADRE_OK;
        }
    }
    if (cache->count >= TABLE_LIMIT) {
        cache_clear(cache);
        slot = hash % TABLE_SIZE;
    }
    struct entry *entry = &cache->table[slot];
    dnnl_status_t status = entry_init(cache, entry, g, packed);
    if (status != dnnl_success) {
        entry_fini(entry);
        return refused(status, "make a matrix product");
    }
    entry->key = key;
    cache->count++;
    *out = entry;
    return CADRE_OK;
}

struct running {
    struct cadre_gemm_cache *cache;
    struct entry *entry;
    const struct cadre_gemm *g;
    void *scratch;
    dnnl_status_t status;
};

static void execute(void *arg)
{
    struct running *r = arg;
    struct entry *entry = r->entry;
    dnnl_exec_arg_t args[4] = {{DNNL_ARG_SRC, entry->a},
                               {DNNL_ARG_WEIGHTS, entry->b},
                               {DNNL_ARG_DST, entry->c},
                               {DNNL_ARG_SCRATCHPAD, entry->scratch}};
    /* the library takes its inputs as void * and only reads them */
    dnnl_memory_set_data_handle(entry->a, (void *)(uintptr_t)r->g->a);
    dnnl_memory_set_data_handle(entry->b, (void *)(uintptr_t)r->g->b);
    dnnl_memory_set_data_handle(entry->c, r->g->c);
    if (entry->scratch)
        dnnl_memory_set_data_handle(entry->scratch, r->scratch);
    r->status = dnnl_primitive_execute(entry->primitive, r->cache->stream,
                                       entry->scratch ? 4 : 3, args);
    if (r->status == dnnl_success)
        r->status = dnnl_stream_wait(r->cache->stream);
}

static cadre_status product_dnnl(struct cadre_cpu_worker *worker,
                                 const struct cadre_gemm *g, bool packed)
{
    struct running running = {.cache = worker->gemm, .g = g};
    CADRE_TRY(find_entry(worker->gemm, g, packed, &running.entry));
    if (running.entry->scratch) {
        running.scratch =
            cadre_cpu_scratch(worker, CADRE_SCRATCH_GEMM, running.entry->scratch_bytes);
        if (!running.scratch)
            return CADRE_E_RESOURCE;
    }
    const dnnl_status_t status = guarded(execute, &running, &running.status);
    return status == dnnl_success ? CADRE_OK : refused(status, "run a matrix product");
}

bool cadre_gemm_takes_bf16(void)
{
    const int isa = (int)dnnl_get_effective_cpu_isa();
    const int bf16 = (int)dnnl_cpu_isa_avx512_core_bf16;
    return (isa & bf16) == bf16;
}

/* Does this Intel processor know AVX512-FP16? It came after Cooper Lake. */
static bool intel_with_fp16(void)
{
#if defined(__x86_64__)
    enum { LEAF = 7, FP16 = 1 << 23 };
    unsigned a, b, c, d;
    __builtin_cpu_init();
    return __builtin_cpu_is("intel") && __get_cpuid_count(LEAF, 0, &a, &b, &c, &d) &&
           (d & FP16);
#else
    return false;
#endif
}

bool cadre_gemm_gains_by_bf16(void)
{
    const int isa = (int)dnnl_get_effective_cpu_isa();
    const int amx = (int)dnnl_cpu_isa_avx512_core_amx;
    return cadre_gemm_takes_bf16() && ((isa & amx) == amx || !intel_with_fp16());
}

int64_t cadre_gemm_panel_width(struct cadre_cpu_worker *worker,
                               const struct cadre_gemm *g)
{
    struct entry *entry = NULL;
    return find_entry(worker->gemm, g, true, &entry) == CADRE_OK ? entry->width : 0;
}

cadre_status cadre_gemm_panel_product(struct cadre_cpu_worker *worker,
                                      const struct cadre_gemm *g)
{
    return product_dnnl(worker, g, true);
}

/* Rows (rows, columns) of `element` bytes from one leading dimension to another. */
static void copy_rows(void *dst, int64_t ld_dst, const void *src, int64_t ld_src,
                      int64_t rows, int64_t bytes)
{
    for (int64_t i = 0; i < rows; i++)
        memcpy((char *)dst + i * ld_dst, (const char *)src + i * ld_src, (size_t)bytes);
}

/* A product with a transposed first factor, such as a weight's gradient. The library's
 * fast kernels need contiguous columns of it and of c, which a tile does not have: they
 * are packed some steps of k at a time. */
static cadre_status product_packed(struct cadre_cpu_worker *worker,
                                   const struct cadre_gemm *g)
{
    const int64_t element = (int64_t)cadre_dtype_bytes(g->dtype);
    const int64_t k = g->k < PACKED_STEPS ? g->k : PACKED_STEPS;
    const int64_t a_bytes = (k * g->m * element + 63) / 64 * 64,
                  b_bytes = (k * g->n * element + 63) / 64 * 64;
    const int64_t c_row = g->n * (int64_t)sizeof(float);
    const int64_t ldc = g->ldc * (int64_t)sizeof(float);
    char *a = cadre_cpu_scratch(worker, CADRE_SCRATCH_PACK,
                                (size_t)(a_bytes + b_bytes + g->m * c_row));
    if (!a)
        return CADRE_E_RESOURCE;
    char *b = a + a_bytes;
    struct cadre_gemm p = *g;
    cadre_status rc = CADRE_OK;
    if (g->ldc != g->n) {
        p.c = b + b_bytes;
        p.ldc = g->n;
        if (g->beta)
            copy_rows(p.c, c_row, g->c, ldc, g->m, c_row);
    }
    for (int64_t first = 0; rc == CADRE_OK && first < g->k; first += PACKED_STEPS) {
        p.k = g->k - first < PACKED_STEPS ? g->k - first : PACKED_STEPS;
        p.a = (const char *)g->a + first * g->lda * element;
        p.b = (const char *)g->b + first * g->ldb * element;
        if (g->lda != g->m) {
            copy_rows(a, g->m * element, p.a, g->lda * element, p.k, g->m * element);
            p.a = a;
            p.lda = g->m;
        }
        if (g->ldb != g->n) {
            copy_rows(b, g->n * element, p.b, g->ldb * element, p.k, g->n * element);
            p.b = b;
            p.ldb = g->n;
        }
        rc = product_dnnl(worker, &p, false);
        p.beta = 1;
    }
    if (g->ldc != g->n)
        copy_rows(g->c, ldc, p.c, c_row, g->m, c_row);
    return rc;
}

cadre_status cadre_gemm_product(struct cadre_cpu_worker *worker,
                                const struct cadre_gemm *g)
{
    if (g->dtype == CADRE_F32 && g->ta && !g->tb && g->m * g->n * g->k > PACKED_LEAST)
        return product_packed(worker, g);
    if (g->dtype != CADRE_F64)
        return product_dnnl(worker, g, false);
    cblas_dgemm(CblasRowMajor, g->ta ? CblasTrans : CblasNoTrans,
                g->tb ? CblasTrans : CblasNoTrans, (blasint)g->m, (blasint)g->n,
                (blasint)g->k, 1.0, g->a, (blasint)g->lda, g->b, (blasint)g->ldb,
                g->beta ? 1.0 : 0.0, g->c, (blasint)g->ldc);
    return CADRE_OK;
}
