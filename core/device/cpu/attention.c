/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by tiles of queries: a tile's scores against all keys that it sees are one
 * product, their softmax one pass, and the values another product. The backward pass
 * recomputes the probabilities from lse (Dao et al. 2022), so a thread never holds more
 * than two tiles of scores.
 *
 * fwd: one task per (sequence, head, tile). bwd: one per (sequence, key/value head),
 * which adds its query heads and tiles in order. half_attention.c does 16 bits. */
#include "core/device/cpu/half.h"

#include <math.h>
#include <string.h>

#define QUERY_TILE 64

struct attention_job {
    struct cadre_cpu *cpu;
    const struct cadre_attention *a;
    const struct cadre_cpu_kernels *kernels;
    int64_t tiles;
    size_t element;
    double scale;
    atomic_int status;
};

/* One tile of queries of one head; its first one is at `position`. Offsets are in
 * elements. */
struct tile {
    int64_t position, rows, keys;
    int64_t q, k, v, out, lse;
    void *scores, *dscores, *inverse_sum, *delta;
};

static void *at(const struct attention_job *job, void *base, int64_t offset)
{
    return (char *)base + (size_t)offset * job->element;
}

static struct tile make_tile(const struct attention_job *job, int64_t b, int64_t head,
                             int64_t index)
{
    const struct cadre_attention *a = job->a;
    const int64_t keys = cadre_attention_keys(a), first = index * QUERY_TILE;
    struct tile t = {.position = a->position + first};
    const int64_t left = a->time - first;
    const int64_t kv_head = head / (a->heads / a->kv_heads);
    t.rows = left < QUERY_TILE ? left : QUERY_TILE;
    if (a->full)
        t.position = keys - 1; /* the last query of a mask: it sees all */
    t.keys = a->full ? keys : t.position + t.rows;
    t.q = (b * a->time + first) * a->ldq + head * a->head_size;
    t.k = b * keys * a->ldk + kv_head * a->head_size;
    t.v = b * keys * a->ldv + kv_head * a->head_size;
    t.out = (b * a->time + first) * a->ldo + head * a->head_size;
    t.lse = (b * a->heads + head) * a->time + first;
    return t;
}

static cadre_status take_scratch(const struct attention_job *job, int worker,
                                 struct tile *t, bool backward)
{
    struct cadre_cpu_worker *w = &job->cpu->workers[worker];
    const size_t bytes =
        (size_t)(QUERY_TILE * cadre_attention_keys(job->a)) * job->element;
    t->scores = cadre_cpu_scratch(w, CADRE_SCRATCH_SCORES, bytes);
    t->inverse_sum =
        cadre_cpu_scratch(w, CADRE_SCRATCH_ROWS, 2 * QUERY_TILE * job->element);
    if (backward)
        t->dscores = cadre_cpu_scratch(w, CADRE_SCRATCH_DSCORES, bytes);
    if (!t->scores || !t->inverse_sum || (backward && !t->dscores))
        return CADRE_E_RESOURCE;
    t->delta = at(job, t->inverse_sum, QUERY_TILE);
    return CADRE_OK;
}

/* A matrix with its leading dimension. */
struct matrix {
    void *data;
    int64_t ld;
};

/* Rows of one head in a tensor; const tensors are only read. */
static struct matrix rows_of(const struct attention_job *job, const void *base,
                             int64_t offset, int64_t ld)
{
    char *data = (char *)(uintptr_t)base;
    return (struct matrix){data + (size_t)offset * job->element, ld};
}

/* scores (rows, keys) = x (rows, D) times y (keys, D) transposed */
static cadre_status outer(const struct attention_job *job, int worker,
                          const struct tile *t, struct matrix x, struct matrix y,
                          void *scores)
{
    const struct cadre_gemm g = {.dtype = job->a->dtype,
                                 .m = t->rows,
                                 .n = t->keys,
                                 .k = job->a->head_size,
                                 .a = x.data,
                                 .lda = x.ld,
                                 .b = y.data,
                                 .ldb = y.ld,
                                 .tb = true,
                                 .c = scores,
                                 .ldc = t->keys};
    return cadre_gemm_product(&job->cpu->workers[worker], &g);
}

/* out (rows, D) = scores (rows, keys) times y (keys, D) */
static cadre_status mix(const struct attention_job *job, int worker,
                        const struct tile *t, const void *scores, struct matrix y,
                        struct matrix out)
{
    const struct cadre_gemm g = {.dtype = job->a->dtype,
                                 .m = t->rows,
                                 .n = job->a->head_size,
                                 .k = t->keys,
                                 .a = scores,
                                 .lda = t->keys,
                                 .b = y.data,
                                 .ldb = y.ld,
                                 .c = out.data,
                                 .ldc = out.ld};
    return cadre_gemm_product(&job->cpu->workers[worker], &g);
}

/* out (keys, D) += scores (rows, keys) transposed times x (rows, D) */
static cadre_status gather(const struct attention_job *job, int worker,
                           const struct tile *t, const void *scores, struct matrix x,
                           struct matrix out)
{
    const struct cadre_gemm g = {.dtype = job->a->dtype,
                                 .m = t->keys,
                                 .n = job->a->head_size,
                                 .k = t->rows,
                                 .a = scores,
                                 .lda = t->keys,
                                 .ta = true,
                                 .b = x.data,
                                 .ldb = x.ld,
                                 .c = out.data,
                                 .ldc = out.ld,
                                 .beta = 1};
    return cadre_gemm_product(&job->cpu->workers[worker], &g);
}

static cadre_status forward_tile(const struct attention_job *job, int worker,
                                 struct tile *t)
{
    const struct cadre_attention *a = job->a;
    const struct matrix q = rows_of(job, a->q, t->q, a->ldq);
    const struct matrix k = rows_of(job, a->k, t->k, a->ldk);
    const struct matrix v = rows_of(job, a->v, t->v, a->ldv);
    const struct matrix out = rows_of(job, a->out, t->out, a->ldo);
    CADRE_TRY(take_scratch(job, worker, t, false));
    CADRE_TRY(outer(job, worker, t, q, k, t->scores));
    const struct cadre_softmax_args softmax = {.scores = t->scores,
                                               .lse = at(job, a->lse, t->lse),
                                               .inverse_sum = t->inverse_sum,
                                               .columns = t->keys,
                                               .first = t->position,
                                               .scale = job->scale};
    job->kernels->softmax_fwd(&softmax, 0, t->rows);
    CADRE_TRY(mix(job, worker, t, t->scores, v, out));
    const struct cadre_row_scale_args scale = {
        .x = out.data, .by = t->inverse_sum, .ld = a->ldo, .columns = a->head_size};
    job->kernels->row_scale(&scale, 0, t->rows);
    return CADRE_OK;
}

static cadre_status backward_tile(const struct attention_job *job, int worker,
                                  struct tile *t)
{
    const struct cadre_attention *a = job->a;
    const struct matrix q = rows_of(job, a->q, t->q, a->ldq);
    const struct matrix k = rows_of(job, a->k, t->k, a->ldk);
    const struct matrix v = rows_of(job, a->v, t->v, a->ldv);
    const struct matrix dout = rows_of(job, a->dout, t->out, a->ldo);
    const struct matrix dq = rows_of(job, a->dq, t->q, a->ldq);
    const struct matrix dk = rows_of(job, a->dk, t->k, a->ldk);
    const struct matrix dv = rows_of(job, a->dv, t->v, a->ldv);
    CADRE_TRY(take_scratch(job, worker, t, true));
    const struct cadre_row_dot_args dot = {.a = at(job, a->out, t->out),
                                           .b = dout.data,
                                           .out = t->delta,
                                           .ld = a->ldo,
                                           .columns = a->head_size};
    job->kernels->row_dot(&dot, 0, t->rows);
    CADRE_TRY(outer(job, worker, t, q, k, t->scores));
    CADRE_TRY(outer(job, worker, t, dout, v, t->dscores));
    const struct cadre_softmax_args softmax = {.scores = t->scores,
                                               .dscores = t->dscores,
                                               .delta = t->delta,
                                               .lse = at(job, a->lse, t->lse),
                                               .columns = t->keys,
                                               .first = t->position,
                                               .scale = job->scale};
    job->kernels->softmax_bwd(&softmax, 0, t->rows);
    CADRE_TRY(mix(job, worker, t, t->dscores, k, dq));
    CADRE_TRY(gather(job, worker, t, t->dscores, q, dk));
    return gather(job, worker, t, t->scores, dout, dv);
}

static void forward_task(void *arg, int64_t index, int worker)
{
    struct attention_job *job = arg;
    const int64_t head = index / job->tiles;
    struct tile t = make_tile(job, head / job->a->heads, head % job->a->heads,
                              job->tiles - 1 - index % job->tiles);
    cadre_status rc = forward_tile(job, worker, &t);
    if (rc != CADRE_OK)
        atomic_store(&job->status, rc);
}

static void backward_task(void *arg, int64_t index, int worker)
{
    struct attention_job *job = arg;
    const struct cadre_attention *a = job->a;
    const int64_t b = index / a->kv_heads, kv_head = index % a->kv_heads;
    const int64_t group = a->heads / a->kv_heads;
    const int64_t keys = cadre_attention_keys(a);
    const size_t row_bytes = (size_t)a->head_size * job->element;
    for (int64_t t = 0; t < keys; t++) {
        const int64_t row = b * keys + t, column = kv_head * a->head_size;
        memset(at(job, a->dk, row * a->ldk + column), 0, row_bytes);
        memset(at(job, a->dv, row * a->ldv + column), 0, row_bytes);
    }
    for (int64_t i = 0; i < group * job->tiles; i++) {
        struct tile t =
            make_tile(job, b, kv_head * group + i / job->tiles, i % job->tiles);
        cadre_status rc = backward_tile(job, worker, &t);
        if (rc != CADRE_OK) {
            atomic_store(&job->status, rc);
            return;
        }
    }
}

static struct attention_job make_job(struct cadre_cpu *cpu,
                                     const struct cadre_attention *a)
{
    return (struct attention_job){.cpu = cpu,
                                  .a = a,
                                  .kernels = cadre_cpu_kernels(cpu, a->dtype),
                                  .tiles = (a->time + QUERY_TILE - 1) / QUERY_TILE,
                                  .element = cadre_dtype_bytes(a->dtype),
                                  .scale = 1.0 / sqrt((double)a->head_size)};
}

cadre_status cadre_cpu_attention_alone(struct cadre_cpu *cpu, int worker,
                                       const struct cadre_attention *a, bool backward)
{
    struct attention_job job = make_job(cpu, a);
    if (!job.kernels)
        return CADRE_E_DEVICE;
    const int64_t tasks = a->batch * (backward ? a->kv_heads : a->heads * job.tiles);
    for (int64_t i = 0; i < tasks; i++)
        (backward ? backward_task : forward_task)(&job, i, worker);
    return atomic_load(&job.status);
}

static cadre_status run(struct cadre_device *device, const struct cadre_attention *a,
                        bool backward)
{
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    if (cadre_dtype_is_half(a->dtype))
        return cadre_half_attention(device, a, backward);
    struct attention_job job = make_job(cpu, a);
    if (!job.kernels)
        return CADRE_E_DEVICE;
    cadre_gemm_thread_init();
    if (backward)
        cadre_pool_run(cpu->pool, a->batch * a->kv_heads, backward_task, &job);
    else
        cadre_pool_run(cpu->pool, a->batch * a->heads * job.tiles, forward_task, &job);
    return atomic_load(&job.status);
}

cadre_status cadre_cpu_attention_fwd(struct cadre_device *device,
                                     const struct cadre_attention *a)
{
    return run(device, a, false);
}

cadre_status cadre_cpu_attention_bwd(struct cadre_device *device,
                                     const struct cadre_attention *a)
{
    return run(device, a, true);
}
