/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in 16 bits: a task is a key/value head with its query heads; it is widened,
 * done in f32, and rounded. */
#include "core/device/cpu/half.h"

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
    const int64_t wide = a->time * group * D, narrow = a->time * D;
    float *k = room + 4 * wide;
    return (struct cadre_attention){.dtype = CADRE_F32,
                                    .batch = 1,
                                    .time = a->time,
                                    .heads = group,
                                    .kv_heads = 1,
                                    .head_size = D,
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
    const int64_t width = a->heads / a->kv_heads * D,
                  row = index / a->kv_heads * a->time;
    const struct slab heads = {row, a->time, width, kv_head * width};
    const struct slab kv = {row, a->time, D, kv_head * D};
    const size_t bytes = (size_t)(a->time * (width + D) * 4) * sizeof(float);
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

cadre_status cadre_half_attention(struct cadre_device *device,
                                  const struct cadre_attention *a, bool backward)
{
    struct half_job job = {
        .half = cadre_half_of(device, a->dtype), .a = a, .backward = backward};
    cadre_gemm_thread_init();
    cadre_pool_run(job.half.cpu->pool, a->batch * a->kv_heads, half_task, &job);
    return atomic_load(&job.status);
}
