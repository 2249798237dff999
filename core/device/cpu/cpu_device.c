/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU device: opening, memory, scratch, and streams that are one queue. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/free_memory.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/device/cpu/cpu.h"

/* ---- memory ---- */

#define HUGE_PAGE ((size_t)2 << 20)

/* Stored in the 64 bytes before each block. */
struct header {
    void *base;
    size_t mapped_bytes; /* 0: from aligned_alloc */
};

/* Large blocks use huge pages: the first touch of small pages runs at a sixth of the
 * speed. The unused end of the last huge page is real memory too: where it is a notable
 * part of the block, the end lies in small pages. */
static void *map_huge(size_t bytes, struct header *header)
{
    header->mapped_bytes = (bytes + 2 * HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    header->base = mmap(NULL, header->mapped_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (header->base == MAP_FAILED)
        return NULL;
    const uintptr_t skip = -(uintptr_t)header->base % HUGE_PAGE;
    char *aligned = (char *)header->base + skip;
    const size_t rest = bytes % HUGE_PAGE;
    size_t huge = bytes - rest;
    if (rest > 0 && HUGE_PAGE - rest <= bytes / 128)
        huge += HUGE_PAGE;
    madvise(aligned, huge, MADV_HUGEPAGE); /* requests */
    madvise(aligned + huge, header->mapped_bytes - skip - huge, MADV_NOHUGEPAGE);
    return aligned;
}

void *cadre_cpu_alloc(size_t bytes)
{
    struct header header = {0};
    char *start;
    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes += 64;
    if (bytes >= HUGE_PAGE) {
        start = map_huge(bytes, &header);
    } else {
        start = aligned_alloc(64, (bytes + 63) / 64 * 64);
        header.base = start;
    }
    if (!start)
        return NULL;
    memcpy(start, &header, sizeof header);
    return start + 64;
}

void cadre_cpu_free(void *ptr)
{
    struct header header;
    if (!ptr)
        return;
    memcpy(&header, (char *)ptr - 64, sizeof header);
    if (header.mapped_bytes)
        munmap(header.base, header.mapped_bytes);
    else
        free(header.base);
}

static void *device_alloc(struct cadre_device *device, size_t bytes)
{
    (void)device;
    return cadre_cpu_alloc(bytes);
}

static void device_free(struct cadre_device *device, void *ptr)
{
    (void)device;
    cadre_cpu_free(ptr);
}

static bool host_reaches(struct cadre_device *device, const void *ptr)
{
    (void)device;
    (void)ptr;
    return true;
}

/* Copies run on the calling thread, so any thread may call them. */
static cadre_status copy(struct cadre_device *device, void *dst, const void *src,
                         size_t bytes)
{
    (void)device;
    if (bytes)
        memmove(dst, src, bytes);
    return CADRE_OK;
}

static cadre_status zero(struct cadre_device *device, void *dst, size_t bytes)
{
    (void)device;
    if (bytes)
        memset(dst, 0, bytes);
    return CADRE_OK;
}

void *cadre_cpu_scratch(struct cadre_cpu_worker *worker, enum cadre_cpu_scratch slot,
                        size_t bytes)
{
    if (worker->scratch[slot] && bytes <= worker->scratch_bytes[slot])
        return worker->scratch[slot];
    cadre_cpu_free(worker->scratch[slot]);
    worker->scratch[slot] = cadre_cpu_alloc(bytes);
    worker->scratch_bytes[slot] = worker->scratch[slot] ? bytes : 0;
    if (!worker->scratch[slot])
        cadre_log(CADRE_LOG_ERROR, "device", "no memory for %zu bytes of scratch",
                  bytes);
    return worker->scratch[slot];
}

/* ---- streams and events ---- */

static cadre_status stream_create(struct cadre_device *device, cadre_stream_id *out)
{
    *out = ++((struct cadre_cpu *)device)->next_stream;
    return CADRE_OK;
}

static void stream_destroy(struct cadre_device *device, cadre_stream_id stream)
{
    (void)device;
    (void)stream;
}

static cadre_status set_stream(struct cadre_device *device, cadre_stream_id stream)
{
    (void)device;
    (void)stream;
    return CADRE_OK;
}

static void *native_stream(struct cadre_device *device)
{
    (void)device;
    return NULL;
}

static cadre_status event_record(struct cadre_device *device, cadre_device_event *event)
{
    (void)device;
    *event = 0;
    return CADRE_OK;
}

/* Every event has happened. */
static cadre_status event_pass(struct cadre_device *device, cadre_device_event event)
{
    (void)device;
    (void)event;
    return CADRE_OK;
}

static cadre_status event_query(struct cadre_device *device, cadre_device_event event,
                                bool *happened)
{
    (void)device;
    (void)event;
    *happened = true;
    return CADRE_OK;
}

static cadre_status synchronize(struct cadre_device *device)
{
    (void)device;
    return CADRE_OK;
}

/* On the CPU any thread may call what a worker stream may call. */
static cadre_status worker_stream_open(struct cadre_device *device,
                                       struct cadre_device **out)
{
    *out = device;
    return CADRE_OK;
}

static void worker_stream_close(struct cadre_device *worker)
{
    (void)worker;
}

static cadre_status no_graph(struct cadre_device *device, uint64_t key)
{
    (void)device;
    (void)key;
    return CADRE_E_UNSUPPORTED;
}

/* oneDNN and OpenBLAS choose only by shape and instruction set. */
static cadre_status tuning_export(struct cadre_device *device, struct cadre_text *out)
{
    (void)device;
    (void)out;
    return CADRE_OK;
}

static cadre_status tuning_import(struct cadre_device *device, const char *text)
{
    (void)device;
    (void)text;
    return CADRE_OK;
}

static void range_begin(struct cadre_device *device, const char *name)
{
    (void)device;
    (void)name;
}

static void range_end(struct cadre_device *device)
{
    (void)device;
}

/* ---- opening ---- */

const struct cadre_cpu_kernels *cadre_cpu_kernels(const struct cadre_cpu *cpu,
                                                  uint32_t dtype)
{
    if (dtype == CADRE_F32)
        return cpu->f32;
    if (dtype == CADRE_F64)
        return cpu->f64;
    cadre_log(CADRE_LOG_ERROR, "device", "there is no such op on the CPU for %s",
              cadre_dtype_name(dtype));
    return NULL;
}

static void choose_kernels(struct cadre_cpu *cpu)
{
    cpu->f32 = &cadre_kernels_f32_base;
    cpu->f64 = &cadre_kernels_f64_base;
    cpu->casts = &cadre_casts_base;
    cpu->packs = &cadre_packs_base;
    cpu->bf16 = &cadre_bf16_base;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        cpu->f32 = &cadre_kernels_f32_avx2;
        cpu->f64 = &cadre_kernels_f64_avx2;
        cpu->casts = &cadre_casts_avx2;
        cpu->packs = &cadre_packs_avx2;
        cpu->bf16 = &cadre_bf16_avx2;
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        cpu->f32 = &cadre_kernels_f32_avx512;
        cpu->f64 = &cadre_kernels_f64_avx512;
        cpu->casts = &cadre_casts_avx512;
        cpu->packs = &cadre_packs_avx512;
        cpu->bf16 = &cadre_bf16_avx512;
    }
#endif
}

static void destroy(struct cadre_device *device)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    if (!cpu)
        return;
    const int threads = cpu->pool ? cadre_pool_threads(cpu->pool) : 0;
    cadre_pool_destroy(cpu->pool);
    for (int i = 0; cpu->workers && i < threads; i++) {
        cadre_gemm_cache_destroy(cpu->workers[i].gemm);
        for (int slot = 0; slot < CADRE_SCRATCH_COUNT; slot++)
            cadre_cpu_free(cpu->workers[i].scratch[slot]);
    }
    cadre_cpu_free(cpu->workers);
    cadre_cpu_free(cpu->rope_table);
    free(cpu);
}

static bool memory(struct cadre_device *device, uint64_t *available, uint64_t *total)
{
    struct cadre_free_memory found;
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    (void)device;
    if (!cadre_free_memory_read("", &found) || pages <= 0 || bytes <= 0)
        return false;
    *available = found.process < found.bytes ? found.process : found.bytes;
    *total = (uint64_t)pages * (uint64_t)bytes;
    return true;
}

/* lint: long because it is the table of ops */
static void fill_ops(struct cadre_device_ops *ops)
{
    *ops = (struct cadre_device_ops){
        .name = "cpu",
        .destroy = destroy,
        .alloc = device_alloc,
        .free = device_free,
        .alloc_pinned = device_alloc,
        .free_pinned = device_free,
        .memory = memory,
        .host_reaches = host_reaches,
        .copy = copy,
        .to_device = copy,
        .to_host = copy,
        .zero = zero,
        .upload = copy,
        .download = copy,
        .stream_create = stream_create,
        .stream_destroy = stream_destroy,
        .set_stream = set_stream,
        .native_stream = native_stream,
        .event_record = event_record,
        .event_wait = event_pass,
        .event_sync = event_pass,
        .event_query = event_query,
        .synchronize = synchronize,
        .worker_stream_open = worker_stream_open,
        .worker_stream_close = worker_stream_close,
        .graph_begin = no_graph,
        .graph_end = no_graph,
        .graph_launch = no_graph,
        .tuning_export = tuning_export,
        .tuning_import = tuning_import,
        .tuning_library = cadre_cpu_tuning_library,
        .range_begin = range_begin,
        .range_end = range_end,
        .gemm = cadre_cpu_gemm,
        .attention_fwd = cadre_cpu_attention_fwd,
        .attention_bwd = cadre_cpu_attention_bwd,
        .patches = cadre_cpu_patches,
        .rope = cadre_cpu_rope,
        .topk = cadre_cpu_topk,
        .quantize = cadre_cpu_quantize,
        .dequantize = cadre_cpu_dequantize,
        .scatter_add = cadre_cpu_scatter_add,
        .orthonormalize = cadre_cpu_orthonormalize,
        .axpby = cadre_cpu_axpby,
        .mul = cadre_cpu_mul,
        .rsqrt = cadre_cpu_rsqrt,
        .dot = cadre_cpu_dot,
        .transpose = cadre_cpu_transpose,
        .copy_rows = cadre_cpu_copy_rows,
        .route_fwd = cadre_cpu_route_fwd,
        .route_bwd = cadre_cpu_route_bwd,
        .rows_take = cadre_cpu_rows_take,
        .rows_put = cadre_cpu_rows_put,
        .rows_dot = cadre_cpu_rows_dot,
        .int8_encode = cadre_cpu_int8_encode,
        .int8_decode = cadre_cpu_int8_decode,
        .nf4_decode = cadre_cpu_nf4_decode,
        .fake_quantize = cadre_cpu_fake_quantize,
        .dropout = cadre_cpu_dropout,
    };
    cadre_cpu_fill_row_ops(ops);
}

cadre_status cadre_cpu_open(const struct cadre_device_config *config,
                            struct cadre_device **out, struct cadre_error *err)
{
    const int threads = config->threads;
    cadre_status rc;
    struct cadre_cpu *cpu = cadre_calloc(1, sizeof *cpu);
    if (!cpu)
        return cadre_no_memory(err, "a device");
    fill_ops(&cpu->table);
    cpu->device.ops = &cpu->table;
    choose_kernels(cpu);
    cpu->fixed = config->fixed;
    cpu->own = config->fixed || config->gemm == CADRE_GEMM_CADRE ||
               (config->gemm == CADRE_GEMM_AUTO && cpu->f32->product_fused);
    cpu->multiplies_bf16 = !cpu->fixed && (cpu->own ? config->gemm == CADRE_GEMM_AUTO &&
                                                          cadre_gemm_gains_by_bf16()
                                                    : cadre_gemm_takes_bf16());
    cadre_cpu_quiet_blas();
    const size_t bytes = (size_t)threads * sizeof *cpu->workers;
    CADRE_TRY_OR(cadre_pool_create(threads, cadre_gemm_thread_init, &cpu->pool, err),
                 fail);
    cpu->workers = cadre_cpu_alloc(bytes);
    if (!cpu->workers) {
        rc = cadre_no_memory(err, "%d threads", threads);
        goto fail;
    }
    memset(cpu->workers, 0, bytes);
    for (int i = 0; i < threads; i++) {
        cpu->workers[i].own_f32 = cpu->f32;
        cpu->workers[i].own_f64 = cpu->f64;
        cpu->workers[i].gemm = cadre_gemm_cache_create();
        if (!cpu->workers[i].gemm) {
            rc = cadre_fail(err, CADRE_E_RESOURCE, "oneDNN cannot be started");
            goto fail;
        }
    }
    *out = &cpu->device;
    return CADRE_OK;
fail:
    destroy(&cpu->device);
    return rc;
}
