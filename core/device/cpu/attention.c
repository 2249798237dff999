/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by tiles of queries: a tile's scores against all keys that it sees are one
 * product, their softmax one pass, and the values another product. The backward pass
 * recomputes the probabilities from lse (Dao et al. 2022), so a thread never holds more
 * than two tiles of scores. The products are Cadre's own (kernels_product.h): keys and
 * values are packed once a task, and what a causal mask hides is left out by groups of
 * rows.
 *
 * fwd: a task is a part of the tiles of a (sequence, key/value head). bwd: one per
 * (sequence, key/value head), which adds its query heads and tiles in order.
 * half_attention.c does 16 bits. */
#include "core/device/cpu/half.h"

#include <math.h>
#include <string.h>

enum { QUERY_TILE = 64, KEY_BLOCK = CADRE_OWN_BLOCK };

struct attention_job {
    struct cadre_cpu *cpu;
    const struct cadre_attention *a;
    const struct cadre_cpu_kernels *kernels;
    int64_t keys; /* of a sequence */
    int64_t tiles, parts; /* tiles of a head; tasks of a key/value head's tiles */
    int64_t padded; /* head_size filled up to whole vectors */
    int64_t ld; /* of scores: see gather */
    size_t element;
    double scale;
    bool few; /* queries: not packed for */
    atomic_int status;
};

/* What a task packs of its sequence and key/value head: for the scores, keys by columns
 * of the product; for sums over keys, blocks of KEY_BLOCK of them. */
struct packed {
    char *keys, *values, *key_blocks, *value_blocks;
    char *q, *dout; /* of the tile */
};

/* One tile of queries of one head; its first one is at `position`. Offsets are in
 * elements. */
struct tile {
    int64_t position, rows, keys;
    int64_t q, out, lse;
    void *scores, *dscores, *inverse_sum, *delta;
};

/* A task: a key/value head of a sequence. */
struct head {
    int64_t k, v; /* offsets of its first row */
    struct packed packed;
    struct cadre_cpu_worker *worker;
};

static void *at(const struct attention_job *job, const void *base, int64_t offset)
{
    return (char *)(uintptr_t)base + (size_t)offset * job->element;
}

static struct tile make_tile(const struct attention_job *job, int64_t b, int64_t head,
                             int64_t index)
{
    const struct cadre_attention *a = job->a;
    const int64_t first = index * QUERY_TILE, left = a->time - first;
    struct tile t = {.position = a->position + first};
    t.rows = left < QUERY_TILE ? left : QUERY_TILE;
    if (a->full)
        t.position = job->keys - 1; /* the last query of a mask: it sees all */
    t.keys = a->full ? job->keys : t.position + t.rows;
    t.q = (b * a->time + first) * a->ldq + head * a->head_size;
    t.out = (b * a->time + first) * a->ldo + head * a->head_size;
    t.lse = (b * a->heads + head) * a->time + first;
    return t;
}

/* ---- scratch and packing ---- */

static char *carve(char *base, size_t *used, size_t bytes)
{
    char *part = base ? base + *used : NULL;
    *used += (bytes + 63) / 64 * 64;
    return part;
}

/* The parts of a task's packed matrices from `base` on, which may be NULL; returns
 * their bytes. */
static size_t lay_out(const struct attention_job *job, bool backward, char *base,
                      struct packed *p)
{
    const int64_t lanes = job->kernels->product_lanes;
    const int64_t keys = (job->keys + lanes - 1) / lanes * lanes;
    const size_t columns = (size_t)(keys * job->a->head_size) * job->element;
    const size_t rows = (size_t)(job->keys * job->padded) * job->element;
    const size_t tile = (size_t)(QUERY_TILE * job->padded) * job->element;
    size_t used = 0;
    *p = (struct packed){.keys = carve(base, &used, columns)};
    if (!backward) {
        p->value_blocks = carve(base, &used, rows);
        return used;
    }
    p->values = carve(base, &used, columns);
    p->key_blocks = carve(base, &used, rows);
    p->q = carve(base, &used, tile);
    p->dout = carve(base, &used, tile);
    return used;
}

/* (n, k) stored by rows, for a product over k. */
static void pack_columns(const struct attention_job *job, char *to, const void *b,
                         int64_t n, int64_t ld)
{
    const struct cadre_product_panels args = {
        .to = to, .b = b, .n = n, .k = job->a->head_size, .ld = ld, .rows = true};
    job->kernels->product_panels(&args, 0, n);
}

/* Rows of one head, for a sum over them. */
static void pack_rows(const struct attention_job *job, char *to, const void *b,
                      int64_t rows, int64_t ld)
{
    const int64_t D = job->a->head_size;
    for (int64_t first = 0; first < rows; first += KEY_BLOCK) {
        const struct cadre_product_panels args = {
            .to = at(job, to, first * job->padded),
            .b = at(job, b, first * ld),
            .n = D,
            .k = rows - first < KEY_BLOCK ? rows - first : KEY_BLOCK,
            .ld = ld};
        job->kernels->product_panels(&args, 0, D);
    }
}

static cadre_status head_begin(const struct attention_job *job, int worker, int64_t b,
                               int64_t kv_head, bool backward, struct head *h)
{
    const struct cadre_attention *a = job->a;
    struct packed *p = &h->packed;
    h->worker = &job->cpu->workers[worker];
    h->k = b * job->keys * a->ldk + kv_head * a->head_size;
    h->v = b * job->keys * a->ldv + kv_head * a->head_size;
    if (job->few && !backward)
        return CADRE_OK;
    char *room = cadre_cpu_scratch(h->worker, CADRE_SCRATCH_PACK,
                                   lay_out(job, backward, NULL, p));
    if (!room)
        return CADRE_E_RESOURCE;
    lay_out(job, backward, room, p);
    const void *k = at(job, a->k, h->k), *v = at(job, a->v, h->v);
    pack_columns(job, p->keys, k, job->keys, a->ldk);
    if (!backward) {
        pack_rows(job, p->value_blocks, v, job->keys, a->ldv);
        return CADRE_OK;
    }
    pack_columns(job, p->values, v, job->keys, a->ldv);
    pack_rows(job, p->key_blocks, k, job->keys, a->ldk);
    return CADRE_OK;
}

static cadre_status take_scratch(const struct attention_job *job, const struct head *h,
                                 struct tile *t, bool backward)
{
    const size_t bytes = (size_t)(QUERY_TILE * job->ld) * job->element;
    t->scores = cadre_cpu_scratch(h->worker, CADRE_SCRATCH_SCORES, bytes);
    t->inverse_sum =
        cadre_cpu_scratch(h->worker, CADRE_SCRATCH_ROWS, 2 * QUERY_TILE * job->element);
    if (backward)
        t->dscores = cadre_cpu_scratch(h->worker, CADRE_SCRATCH_DSCORES, bytes);
    if (!t->scores || !t->inverse_sum || (backward && !t->dscores))
        return CADRE_E_RESOURCE;
    t->delta = at(job, t->inverse_sum, QUERY_TILE);
    return CADRE_OK;
}

/* ---- products ---- */

/* scores (rows, keys) = x (rows, D) times packed keys or values */
static void outer(const struct attention_job *job, const struct tile *t, const void *x,
                  int64_t ld, const char *packed, void *scores)
{
    const struct cadre_product_args args = {.n = job->keys,
                                            .k = job->a->head_size,
                                            .depth = job->a->head_size,
                                            .cut = CADRE_CUT_COLUMNS,
                                            .seen = t->position + 1,
                                            .a = x,
                                            .group = job->kernels->product_group * ld,
                                            .row = ld,
                                            .step = 1,
                                            .b = packed,
                                            .c = scores,
                                            .ldc = job->ld};
    job->kernels->product(&args, 0, t->rows);
}

/* out (rows, D) = scores (rows, keys) times packed blocks of keys or values */
static void mix(const struct attention_job *job, const struct tile *t,
                const void *scores, const char *packed, void *out, int64_t ld)
{
    for (int64_t first = 0; first < t->keys; first += KEY_BLOCK) {
        const int64_t stored = job->keys - first, seen = t->keys - first;
        const struct cadre_product_args args = {
            .n = job->a->head_size,
            .k = seen < KEY_BLOCK ? seen : KEY_BLOCK,
            .depth = stored < KEY_BLOCK ? stored : KEY_BLOCK,
            .cut = CADRE_CUT_STEPS,
            .seen = t->position + 1 - first,
            .a = at(job, scores, first),
            .group = job->kernels->product_group * job->ld,
            .row = job->ld,
            .step = 1,
            .b = at(job, packed, first * job->padded),
            .c = out,
            .ldc = ld,
            .adds = first > 0};
        job->kernels->product(&args, 0, t->rows);
    }
}

/* out (keys, D) += scores (rows, keys) transposed times packed rows of the tile. Scores
 * are read down their columns: job->ld is a line more than keys, as rows that lie a
 * power of two apart would meet in few sets of the first cache. */
static void gather(const struct attention_job *job, const struct tile *t,
                   const void *scores, const char *packed, void *out, int64_t ld)
{
    const struct cadre_product_args args = {.n = job->a->head_size,
                                            .k = t->rows,
                                            .depth = t->rows,
                                            .cut = CADRE_CUT_EARLY_STEPS,
                                            .seen = t->position + 1,
                                            .a = scores,
                                            .group = job->kernels->product_group,
                                            .row = 1,
                                            .step = job->ld,
                                            .b = packed,
                                            .c = out,
                                            .ldc = ld,
                                            .adds = true};
    job->kernels->product(&args, 0, t->keys);
}

static struct cadre_softmax_args softmax_of(const struct attention_job *job,
                                            const struct tile *t)
{
    return (struct cadre_softmax_args){.scores = t->scores,
                                       .ld = job->ld,
                                       .lse = at(job, job->a->lse, t->lse),
                                       .inverse_sum = t->inverse_sum,
                                       .columns = t->keys,
                                       .first = t->position,
                                       .scale = job->scale};
}

/* The forward pass of a few queries, as where tokens are generated: they do not pay for
 * packing the keys. */
static cadre_status few_queries(const struct attention_job *job, const struct head *h,
                                const struct tile *t)
{
    const struct cadre_attention *a = job->a;
    struct cadre_gemm g = {.dtype = a->dtype,
                           .m = t->rows,
                           .n = t->keys,
                           .k = a->head_size,
                           .a = at(job, a->q, t->q),
                           .lda = a->ldq,
                           .b = at(job, a->k, h->k),
                           .ldb = a->ldk,
                           .tb = true,
                           .c = t->scores,
                           .ldc = job->ld};
    CADRE_TRY(cadre_gemm_product(h->worker, &g));
    const struct cadre_softmax_args softmax = softmax_of(job, t);
    job->kernels->softmax_fwd(&softmax, 0, t->rows);
    g.a = t->scores;
    g.lda = job->ld;
    g.b = at(job, a->v, h->v);
    g.ldb = a->ldv;
    g.tb = false;
    g.c = at(job, a->out, t->out);
    g.ldc = a->ldo;
    g.n = a->head_size;
    g.k = t->keys;
    return cadre_gemm_product(h->worker, &g);
}

/* ---- tiles ---- */

static cadre_status forward_tile(const struct attention_job *job, const struct head *h,
                                 struct tile *t)
{
    const struct cadre_attention *a = job->a;
    void *out = at(job, a->out, t->out);
    CADRE_TRY(take_scratch(job, h, t, false));
    if (job->few) {
        CADRE_TRY(few_queries(job, h, t));
    } else {
        const struct cadre_softmax_args softmax = softmax_of(job, t);
        outer(job, t, at(job, a->q, t->q), a->ldq, h->packed.keys, t->scores);
        job->kernels->softmax_fwd(&softmax, 0, t->rows);
        mix(job, t, t->scores, h->packed.value_blocks, out, a->ldo);
    }
    const struct cadre_row_scale_args scale = {
        .x = out, .by = t->inverse_sum, .ld = a->ldo, .columns = a->head_size};
    job->kernels->row_scale(&scale, 0, t->rows);
    return CADRE_OK;
}

static cadre_status backward_tile(const struct attention_job *job, const struct head *h,
                                  struct tile *t)
{
    const struct cadre_attention *a = job->a;
    const struct packed *p = &h->packed;
    const void *q = at(job, a->q, t->q), *dout = at(job, a->dout, t->out);
    CADRE_TRY(take_scratch(job, h, t, true));
    const struct cadre_row_dot_args dot = {.a = at(job, a->out, t->out),
                                           .b = dout,
                                           .out = t->delta,
                                           .ld = a->ldo,
                                           .columns = a->head_size};
    job->kernels->row_dot(&dot, 0, t->rows);
    outer(job, t, q, a->ldq, p->keys, t->scores);
    outer(job, t, dout, a->ldo, p->values, t->dscores);
    struct cadre_softmax_args softmax = softmax_of(job, t);
    softmax.dscores = t->dscores;
    softmax.delta = t->delta;
    job->kernels->softmax_bwd(&softmax, 0, t->rows);
    mix(job, t, t->dscores, p->key_blocks, at(job, a->dq, t->q), a->ldq);
    pack_rows(job, p->q, q, t->rows, a->ldq);
    gather(job, t, t->dscores, p->q, at(job, a->dk, h->k), a->ldk);
    pack_rows(job, p->dout, dout, t->rows, a->ldo);
    gather(job, t, t->scores, p->dout, at(job, a->dv, h->v), a->ldv);
    return CADRE_OK;
}

/* ---- tasks ---- */

/* Tiles part, part + parts, ... of a key/value head: later ones see more keys. */
static cadre_status forward_part(const struct attention_job *job, int worker,
                                 int64_t kv_index, int64_t part)
{
    const struct cadre_attention *a = job->a;
    const int64_t b = kv_index / a->kv_heads, kv_head = kv_index % a->kv_heads;
    const int64_t group = a->heads / a->kv_heads;
    struct head h;
    CADRE_TRY(head_begin(job, worker, b, kv_head, false, &h));
    for (int64_t i = part; i < group * job->tiles; i += job->parts) {
        struct tile t =
            make_tile(job, b, kv_head * group + i / job->tiles, i % job->tiles);
        CADRE_TRY(forward_tile(job, &h, &t));
    }
    return CADRE_OK;
}

static cadre_status backward_head(const struct attention_job *job, int worker,
                                  int64_t kv_index)
{
    const struct cadre_attention *a = job->a;
    const int64_t b = kv_index / a->kv_heads, kv_head = kv_index % a->kv_heads;
    const int64_t group = a->heads / a->kv_heads;
    const size_t row_bytes = (size_t)a->head_size * job->element;
    struct head h;
    CADRE_TRY(head_begin(job, worker, b, kv_head, true, &h));
    for (int64_t t = 0; t < job->keys; t++) {
        memset(at(job, a->dk, h.k + t * a->ldk), 0, row_bytes);
        memset(at(job, a->dv, h.v + t * a->ldv), 0, row_bytes);
    }
    for (int64_t i = 0; i < group * job->tiles; i++) {
        struct tile t =
            make_tile(job, b, kv_head * group + i / job->tiles, i % job->tiles);
        CADRE_TRY(backward_tile(job, &h, &t));
    }
    return CADRE_OK;
}

static void forward_task(void *arg, int64_t index, int worker)
{
    struct attention_job *job = arg;
    const cadre_status rc =
        forward_part(job, worker, index / job->parts, index % job->parts);
    if (rc != CADRE_OK)
        atomic_store(&job->status, rc);
}

static void backward_task(void *arg, int64_t index, int worker)
{
    struct attention_job *job = arg;
    const cadre_status rc = backward_head(job, worker, index);
    if (rc != CADRE_OK)
        atomic_store(&job->status, rc);
}

/* A forward task is a whole key/value head unless there are too few for the threads. */
static struct attention_job make_job(struct cadre_cpu *cpu,
                                     const struct cadre_attention *a, int threads)
{
    enum { TASKS = 4, FEW = 8 }; /* tasks of a thread; queries */
    struct attention_job job = {.cpu = cpu,
                                .a = a,
                                .kernels = cadre_cpu_kernels(cpu, a->dtype),
                                .keys = cadre_attention_keys(a),
                                .tiles = (a->time + QUERY_TILE - 1) / QUERY_TILE,
                                .element = cadre_dtype_bytes(a->dtype),
                                .scale = 1.0 / sqrt((double)a->head_size),
                                .few = a->time < FEW && !cpu->fixed};
    if (!job.kernels)
        return job;
    const int64_t lanes = job.kernels->product_lanes, line = 64 / (int64_t)job.element;
    const int64_t heads = a->batch * a->kv_heads;
    const int64_t most = a->heads / a->kv_heads * job.tiles;
    job.parts = threads > 1 ? (TASKS * threads + heads - 1) / heads : 1;
    job.parts = job.parts < most ? job.parts : most;
    job.padded = (a->head_size + lanes - 1) / lanes * lanes;
    job.ld = (job.keys + line - 1) / line * line + line;
    return job;
}

cadre_status cadre_cpu_attention_alone(struct cadre_cpu *cpu, int worker,
                                       const struct cadre_attention *a, bool backward)
{
    struct attention_job job = make_job(cpu, a, 1);
    if (!job.kernels)
        return CADRE_E_DEVICE;
    const int64_t tasks = a->batch * a->kv_heads;
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
    struct attention_job job = make_job(cpu, a, cadre_pool_threads(cpu->pool));
    if (!job.kernels)
        return CADRE_E_DEVICE;
    const int64_t heads = a->batch * a->kv_heads;
    cadre_gemm_thread_init();
    if (backward)
        cadre_pool_run(cpu->pool, heads, backward_task, &job);
    else
        cadre_pool_run(cpu->pool, heads * job.parts, forward_task, &job);
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
