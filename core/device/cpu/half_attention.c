/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in 16 bits: a task is a key/value head with its query heads. Where the CPU
 * multiplies bf16 the products take q, k, v, dout, and the probabilities and their
 * gradients rounded to bf16, and sum in f32, as do the softmax and the sums over tiles
 * (Dao et al. 2022). Elsewhere the task is widened, done in f32, and rounded. */
#include <math.h>
#include <string.h>

#include "core/device/cpu/half.h"

#define QUERY_TILE 64

struct half_job {
    struct cadre_half half;
    const struct cadre_attention *a;
    bool backward;
    atomic_int status;
};

/* Columns of one key/value head, and of its query heads, in rows of one sequence. */
struct slab {
    int64_t row, time, width, column;
};

static void slab_widen(const struct cadre_half *half, const struct slab *s,
                       const void *src, int64_t ld, float *dst)
{
    const uint16_t *from = (const uint16_t *)src + s->row * ld + s->column;
    cadre_half_widen_rows(half, dst, from, s->time, s->width, ld);
}

static void slab_narrow(const struct cadre_half *half, const struct slab *s, void *dst,
                        int64_t ld, const float *src)
{
    uint16_t *to = (uint16_t *)dst + s->row * ld + s->column;
    cadre_half_narrow_rows(half, to, ld, src, s->time, s->width);
}

/* The f32 problem of one key/value head, its tensors in `room`: q, out, dout and dq,
 * then k, v, dk and dv. */
static struct cadre_attention widened(const struct cadre_attention *a, int64_t index,
                                      float *room)
{
    const int64_t b = index / a->kv_heads, kv_head = index % a->kv_heads;
    const int64_t group = a->heads / a->kv_heads, D = a->head_size;
    const int64_t wide = a->time * group * D, narrow = cadre_attention_keys(a) * D;
    float *k = room + 4 * wide;
    return (struct cadre_attention){.dtype = CADRE_F32,
                                    .batch = 1,
                                    .time = a->time,
                                    .heads = group,
                                    .kv_heads = 1,
                                    .head_size = D,
                                    .position = a->position,
                                    .keys = a->keys,
                                    .full = a->full,
                                    .q = room,
                                    .k = k,
                                    .v = k + narrow,
                                    .ldq = group * D,
                                    .ldk = D,
                                    .ldv = D,
                                    .ldo = group * D,
                                    .out = room + wide,
                                    .lse = (float *)a->lse +
                                           (b * a->heads + kv_head * group) * a->time,
                                    .dout = room + 2 * wide,
                                    .dq = room + 3 * wide,
                                    .dk = k + 2 * narrow,
                                    .dv = k + 3 * narrow};
}

static void half_task(void *arg, int64_t index, int worker)
{
    struct half_job *half_job = arg;
    const struct cadre_half *half = &half_job->half;
    const struct cadre_attention *a = half_job->a;
    const int64_t kv_head = index % a->kv_heads, D = a->head_size;
    const int64_t width = a->heads / a->kv_heads * D, b = index / a->kv_heads;
    const int64_t keys = cadre_attention_keys(a);
    const struct slab heads = {b * a->time, a->time, width, kv_head * width};
    const struct slab kv = {b * keys, keys, D, kv_head * D};
    const size_t bytes = (size_t)(a->time * width + keys * D) * 4 * sizeof(float);
    float *room =
        cadre_cpu_scratch(&half->cpu->workers[worker], CADRE_SCRATCH_HALF, bytes);
    if (!room) {
        atomic_store(&half_job->status, CADRE_E_RESOURCE);
        return;
    }
    const struct cadre_attention f = widened(a, index, room);
    cadre_status rc;
    slab_widen(half, &heads, a->q, a->ldq, (float *)(uintptr_t)f.q);
    slab_widen(half, &kv, a->k, a->ldk, (float *)(uintptr_t)f.k);
    slab_widen(half, &kv, a->v, a->ldv, (float *)(uintptr_t)f.v);
    if (!half_job->backward) {
        rc = cadre_cpu_attention_alone(half->cpu, worker, &f, false);
        slab_narrow(half, &heads, a->out, a->ldo, f.out);
    } else {
        slab_widen(half, &heads, a->out, a->ldo, f.out);
        slab_widen(half, &heads, a->dout, a->ldo, (float *)(uintptr_t)f.dout);
        rc = cadre_cpu_attention_alone(half->cpu, worker, &f, true);
        slab_narrow(half, &heads, a->dq, a->ldq, f.dq);
        slab_narrow(half, &kv, a->dk, a->ldk, f.dk);
        slab_narrow(half, &kv, a->dv, a->ldv, f.dv);
    }
    if (rc != CADRE_OK)
        atomic_store(&half_job->status, rc);
}

/* ---- products in bf16 ---- */

/* Scratch of a task: dense copies of rows, K keys of them, and f32 tiles. */
struct native {
    const struct half_job *job;
    struct cadre_cpu_worker *worker;
    uint16_t *q, *k, *v, *dout; /* (tile, D), (K, D) twice, (tile, D) */
    uint16_t *p, *dp; /* (tile, K): probabilities, the gradient of scores */
    float *scores, *dscores; /* (tile, K) */
    float *tile, *other; /* (tile, D) */
    float *dk, *dv; /* (K, D) */
    float *inverse_sum, *delta; /* (tile) */
};

/* Take n elements from the front of a buffer, in lines of 64 bytes. */
static void *take(char **next, int64_t n, size_t element)
{
    char *part = *next;
    *next += ((size_t)n * element + 63) / 64 * 64;
    return part;
}

static bool take_native(struct native *t)
{
    const int64_t K = cadre_attention_keys(t->job->a), D = t->job->a->head_size;
    const int64_t tile = QUERY_TILE * D, square = QUERY_TILE * K;
    const size_t bytes = (size_t)(K * D) * 12 + (size_t)tile * 12 +
                         (size_t)square * 12 + QUERY_TILE * 8 + 1024;
    char *next = cadre_cpu_scratch(t->worker, CADRE_SCRATCH_HALF, bytes);
    if (!next)
        return false;
    t->k = take(&next, K * D, 2);
    t->v = take(&next, K * D, 2);
    t->q = take(&next, tile, 2);
    t->dout = take(&next, tile, 2);
    t->p = take(&next, square, 2);
    t->dp = take(&next, square, 2);
    t->scores = take(&next, square, 4);
    t->dscores = take(&next, square, 4);
    t->tile = take(&next, tile, 4);
    t->other = take(&next, tile, 4);
    t->dk = take(&next, K * D, 4);
    t->dv = take(&next, K * D, 4);
    t->inverse_sum = take(&next, QUERY_TILE, 4);
    t->delta = take(&next, QUERY_TILE, 4);
    return true;
}

/* dst (rows, n) = rows from `at` on of a head's columns in x */
static void copy_rows(uint16_t *dst, const void *x, int64_t at, int64_t ld,
                      int64_t rows, int64_t n)
{
    const uint16_t *src = (const uint16_t *)x + at;
    for (int64_t r = 0; r < rows; r++) {
        __builtin_prefetch(
            src + (r + 8) * ld); /* the stride defeats the hardware prefetcher */
        memcpy(dst + r * n, src + r * ld, (size_t)n * sizeof *dst);
    }
}

enum form { OUTER, MIX, GATHER };

/* OUTER: c (rows, keys) = a (rows, D) b (keys, D)^T; MIX: c (rows, D) = a (rows, keys)
 * b (keys, D); GATHER: c (keys, D) += a (rows, keys)^T b (rows, D) */
static cadre_status multiply(const struct native *t, enum form form, int64_t rows,
                             int64_t keys, const uint16_t *a, const uint16_t *b,
                             float *c)
{
    const int64_t D = t->job->a->head_size;
    const struct cadre_gemm g = {.dtype = CADRE_BF16,
                                 .wide = true,
                                 .m = form == GATHER ? keys : rows,
                                 .n = form == OUTER ? keys : D,
                                 .k = form == OUTER ? D
                                      : form == MIX ? keys
                                                    : rows,
                                 .a = a,
                                 .lda = form == OUTER ? D : keys,
                                 .ta = form == GATHER,
                                 .b = b,
                                 .ldb = D,
                                 .tb = form == OUTER,
                                 .c = c,
                                 .ldc = form == OUTER ? keys : D,
                                 .beta = form == GATHER};
    return cadre_gemm_product(t->worker, &g);
}

/* A tile of queries of one head: its rows, the first at `position`, and their
 * addresses. */
struct queries {
    int64_t position, rows, keys;
    int64_t q, out, lse;
};

static cadre_status native_forward(const struct native *t, const struct queries *s)
{
    const struct half_job *job = t->job;
    const struct cadre_attention *a = job->a;
    const struct cadre_half *half = &job->half;
    const int64_t D = a->head_size;
    copy_rows(t->q, a->q, s->q, a->ldq, s->rows, D);
    CADRE_TRY(multiply(t, OUTER, s->rows, s->keys, t->q, t->k, t->scores));
    const struct cadre_softmax_args softmax = {.scores = t->scores,
                                               .lse = (float *)a->lse + s->lse,
                                               .inverse_sum = t->inverse_sum,
                                               .ld = s->keys,
                                               .columns = s->keys,
                                               .first = s->position,
                                               .scale = 1.0 / sqrt((double)D)};
    half->kernels->softmax_fwd(&softmax, 0, s->rows);
    cadre_half_narrow(half, t->p, 0, t->scores, s->rows * s->keys);
    CADRE_TRY(multiply(t, MIX, s->rows, s->keys, t->p, t->v, t->tile));
    const struct cadre_row_scale_args scale = {
        .x = t->tile, .by = t->inverse_sum, .ld = D, .columns = D};
    half->kernels->row_scale(&scale, 0, s->rows);
    cadre_half_narrow_rows(half, (uint16_t *)a->out + s->out, a->ldo, t->tile, s->rows,
                           D);
    return CADRE_OK;
}

static cadre_status native_backward(const struct native *t, const struct queries *s)
{
    const struct half_job *job = t->job;
    const struct cadre_attention *a = job->a;
    const struct cadre_half *half = &job->half;
    const int64_t D = a->head_size;
    copy_rows(t->q, a->q, s->q, a->ldq, s->rows, D);
    copy_rows(t->dout, a->dout, s->out, a->ldo, s->rows, D);
    cadre_half_widen_rows(half, t->tile, (const uint16_t *)a->out + s->out, s->rows, D,
                          a->ldo);
    cadre_half_widen(half, t->other, t->dout, 0, s->rows * D);
    const struct cadre_row_dot_args dot = {
        .a = t->tile, .b = t->other, .out = t->delta, .ld = D, .columns = D};
    half->kernels->row_dot(&dot, 0, s->rows);
    CADRE_TRY(multiply(t, OUTER, s->rows, s->keys, t->q, t->k, t->scores));
    CADRE_TRY(multiply(t, OUTER, s->rows, s->keys, t->dout, t->v, t->dscores));
    const struct cadre_softmax_args softmax = {.scores = t->scores,
                                               .dscores = t->dscores,
                                               .delta = t->delta,
                                               .lse = (float *)a->lse + s->lse,
                                               .ld = s->keys,
                                               .columns = s->keys,
                                               .first = s->position,
                                               .scale = 1.0 / sqrt((double)D)};
    half->kernels->softmax_bwd(&softmax, 0, s->rows);
    cadre_half_narrow(half, t->p, 0, t->scores, s->rows * s->keys);
    cadre_half_narrow(half, t->dp, 0, t->dscores, s->rows * s->keys);
    CADRE_TRY(multiply(t, MIX, s->rows, s->keys, t->dp, t->k, t->tile));
    cadre_half_narrow_rows(half, (uint16_t *)a->dq + s->q, a->ldq, t->tile, s->rows, D);
    CADRE_TRY(multiply(t, GATHER, s->rows, s->keys, t->dp, t->q, t->dk));
    return multiply(t, GATHER, s->rows, s->keys, t->p, t->dout, t->dv);
}

/* The query heads of a key/value head, tile by tile. */
static cadre_status native_heads(const struct native *t, int64_t b, int64_t kv_head)
{
    const struct cadre_attention *a = t->job->a;
    const int64_t group = a->heads / a->kv_heads, T = a->time;
    cadre_status rc = CADRE_OK;
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int64_t first = 0; first < T && rc == CADRE_OK; first += QUERY_TILE) {
            const int64_t left = T - first, column = head * a->head_size;
            const int64_t rows = left < QUERY_TILE ? left : QUERY_TILE;
            const int64_t all = cadre_attention_keys(a);
            const int64_t position = a->full ? all - 1 : a->position + first;
            const struct queries s = {.position = position,
                                      .rows = rows,
                                      .keys = a->full ? all : position + rows,
                                      .q = (b * T + first) * a->ldq + column,
                                      .out = (b * T + first) * a->ldo + column,
                                      .lse = (b * a->heads + head) * T + first};
            rc = t->job->backward ? native_backward(t, &s) : native_forward(t, &s);
        }
    return rc;
}

static void native_task(void *arg, int64_t index, int worker)
{
    struct half_job *job = arg;
    const struct cadre_attention *a = job->a;
    const struct cadre_half *half = &job->half;
    const int64_t b = index / a->kv_heads, kv_head = index % a->kv_heads;
    const int64_t K = cadre_attention_keys(a), D = a->head_size;
    const struct slab kv = {b * K, K, D, kv_head * D};
    struct native t = {.job = job, .worker = &half->cpu->workers[worker]};
    if (!take_native(&t)) {
        atomic_store(&job->status, CADRE_E_RESOURCE);
        return;
    }
    copy_rows(t.k, a->k, kv.row * a->ldk + kv.column, a->ldk, K, D);
    copy_rows(t.v, a->v, kv.row * a->ldv + kv.column, a->ldv, K, D);
    if (job->backward) {
        memset(t.dk, 0, (size_t)(K * D) * sizeof *t.dk);
        memset(t.dv, 0, (size_t)(K * D) * sizeof *t.dv);
    }
    cadre_status rc = native_heads(&t, b, kv_head);
    if (rc != CADRE_OK)
        atomic_store(&job->status, rc);
    if (job->backward && rc == CADRE_OK) {
        slab_narrow(half, &kv, a->dk, a->ldk, t.dk);
        slab_narrow(half, &kv, a->dv, a->ldv, t.dv);
    }
}

cadre_status cadre_half_attention(struct cadre_device *device,
                                  const struct cadre_attention *a, bool backward)
{
    struct half_job job = {
        .half = cadre_half_of(device, a->dtype), .a = a, .backward = backward};
    cadre_gemm_thread_init();
    const bool native = a->dtype == CADRE_BF16 && job.half.cpu->multiplies_bf16;
    cadre_pool_run(job.half.cpu->pool, a->batch * a->kv_heads,
                   native ? native_task : half_task, &job);
    return atomic_load(&job.status);
}
