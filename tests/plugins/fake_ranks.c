/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/plugins/fake_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/rng.h"
#include "core/tensor/dtype.h"
#include "tests/support/check_main.h"

enum { ALL_REDUCE = 1, ALL_GATHER, ALL_TO_ALL };

static struct fake_rank *rank_of(struct cadre_ctx *ctx)
{
    return (struct fake_rank *)(void *)ctx;
}

static struct fake_rank *rank_of_axis(const struct cadre_axis *axis)
{
    const char *at = (const char *)axis - offsetof(struct fake_rank, axis);
    return (struct fake_rank *)(uintptr_t)at;
}

static size_t bytes_of(const struct cadre_buf *buf)
{
    return buf->count * cadre_dtype_bytes(buf->dtype);
}

/* ---- collectives ---- */

static void reduce(const struct fake_rank *r, uint64_t number, struct fake_flight *mine)
{
    const struct fake_ranks *all = r->all;
    for (int m = 0; m < all->n; m++) {
        const void *in = all->rank[m].flight[number].in_copy;
        for (uint64_t i = 0; i < mine->in.count; i++)
            if (mine->in.dtype == CADRE_F64)
                ((double *)mine->result)[i] += ((const double *)in)[i];
            else
                ((float *)mine->result)[i] += ((const float *)in)[i];
    }
}

/* Slices of equal size, for both. */
static void move(const struct fake_rank *r, uint64_t number, struct fake_flight *mine)
{
    const struct fake_ranks *all = r->all;
    size_t part = bytes_of(&mine->out) / (size_t)all->n;
    for (int m = 0; m < all->n; m++) {
        const char *in = all->rank[m].flight[number].in_copy;
        size_t skip = mine->kind == ALL_TO_ALL ? part * (size_t)r->index : 0;
        memcpy((char *)mine->result + (size_t)m * part, in + skip, part);
    }
}

static cadre_status post(struct cadre_axis *axis, uint32_t kind, const char *label,
                         const struct cadre_buf *in, const struct cadre_buf *out,
                         cadre_event *done)
{
    struct fake_rank *r = rank_of_axis(axis);
    uint64_t number = r->posts++, others = (uint64_t)r->all->n - 1;
    struct fake_flight *mine = &r->flight[number];
    ck_assert_uint_lt(number, FAKE_EVENTS);
    *mine = (struct fake_flight){.label = label, .kind = kind, .in = *in, .out = *out};
    mine->in_copy = malloc(bytes_of(in) + 1);
    mine->result = calloc(bytes_of(out) + 1, 1);
    memcpy(mine->in_copy, in->data, bytes_of(in));
    r->bytes += (kind == ALL_REDUCE ? 2 : 1) * bytes_of(out) * others / (others + 1);
    pthread_barrier_wait(&r->all->barrier);
    for (int m = 0; m < r->all->n; m++) {
        const struct fake_flight *theirs = &r->all->rank[m].flight[number];
        ck_assert_uint_eq(r->all->rank[m].posts, r->posts);
        ck_assert_uint_eq(theirs->kind, kind);
        ck_assert_uint_eq(theirs->out.count, out->count);
        ck_assert_uint_eq(theirs->out.dtype, out->dtype);
        ck_assert_str_eq(theirs->label, label);
    }
    if (kind == ALL_REDUCE)
        reduce(r, number, mine);
    else
        move(r, number, mine);
    pthread_barrier_wait(&r->all->barrier);
    *done = 1000 + number;
    return CADRE_OK;
}

static cadre_status all_reduce(struct cadre_axis *axis, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               uint32_t red, cadre_event after, cadre_event *done)
{
    ck_assert_uint_eq(red, CADRE_SUM);
    ck_assert(in->dtype == CADRE_F32 || in->dtype == CADRE_F64);
    return post(axis, ALL_REDUCE, label, in, out, done);
}

static cadre_status all_gather(struct cadre_axis *axis, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               const uint64_t *offsets, cadre_event after,
                               cadre_event *done)
{
    uint64_t n = (uint64_t)rank_of_axis(axis)->all->n;
    for (uint64_t m = 0; m <= n; m++)
        ck_assert_uint_eq(offsets[m], out->count / n * m);
    ck_assert_uint_eq(in->count * n, out->count);
    return post(axis, ALL_GATHER, label, in, out, done);
}

static cadre_status all_to_all(struct cadre_axis *axis, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               cadre_event after, cadre_event *done)
{
    ck_assert_ptr_ne(in->data, out->data);
    return post(axis, ALL_TO_ALL, label, in, out, done);
}

static cadre_status join(struct cadre_axis *axis, cadre_event event)
{
    struct fake_rank *r = rank_of_axis(axis);
    if (event < 1000)
        return CADRE_OK;
    struct fake_flight *mine = &r->flight[event - 1000];
    ck_assert_uint_lt(event - 1000, r->posts);
    if (mine->joined)
        return CADRE_OK;
    ck_assert_msg(memcmp(mine->in.data, mine->in_copy, bytes_of(&mine->in)) == 0,
                  "'%s' was touched while it travelled", mine->label);
    memcpy(mine->out.data, mine->result, bytes_of(&mine->out));
    mine->joined = true;
    r->joins++;
    return CADRE_OK;
}

static const struct cadre_comm_svc comm = {
    .struct_size = sizeof comm,
    .all_reduce = all_reduce,
    .all_gather = all_gather,
    .all_to_all = all_to_all,
    .join = join,
};

/* ---- the other services ---- */

static struct cadre_axis *mesh_axis(struct cadre_ctx *ctx, const char *name)
{
    return &rank_of(ctx)->axis;
}

static int32_t axis_rank(const struct cadre_axis *axis)
{
    return axis->index;
}

static int32_t axis_size(const struct cadre_axis *axis)
{
    return axis->size;
}

static const struct cadre_mesh_svc mesh = {sizeof mesh, 0, mesh_axis, axis_rank,
                                           axis_size};

static uint32_t n_params(struct cadre_ctx *ctx)
{
    return rank_of(ctx)->all->n_params;
}

static cadre_status param_info(struct cadre_ctx *ctx, cadre_param_id id,
                               struct cadre_param_info *info)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    const struct fake_ranks *all = rank_of(ctx)->all;
    *info = (struct cadre_param_info){
        .struct_size = sizeof *info,
        .ndim = all->shape[id][1] ? 2 : 1,
        .name = names[id % 8],
        .local = {all->shape[id][0], all->shape[id][1]},
        .count = fake_ranks_count(all, id),
        .dtype = all->dtype,
        .grad_dtype = all->dtype,
        .tied_to = all->tied_to[id],
        .present = 1,
    };
    return CADRE_OK;
}

static const struct cadre_model_svc model = {
    .struct_size = sizeof model, .n_params = n_params, .param = param_info};

static cadre_status give(struct fake_rank *r, uint64_t begin, uint64_t end,
                         struct cadre_buf *out)
{
    *out =
        (struct cadre_buf){.struct_size = sizeof *out,
                           .dtype = r->all->dtype,
                           .data = r->grad + begin,
                           .count = (end - begin) / cadre_dtype_bytes(r->all->dtype)};
    return CADRE_OK;
}

static cadre_status param_grad(struct cadre_ctx *ctx, cadre_param_id id,
                               struct cadre_buf *out)
{
    struct fake_rank *r = rank_of(ctx);
    give(r, r->all->offset[id], r->all->offset[id], out);
    out->count = fake_ranks_count(r->all, id);
    return CADRE_OK;
}

static cadre_status grad_span(struct cadre_ctx *ctx, cadre_param_id first,
                              cadre_param_id last, struct cadre_buf *out)
{
    struct fake_rank *r = rank_of(ctx);
    return give(r, r->all->offset[first], r->all->offset[last + 1], out);
}

static const struct cadre_param_svc param = {
    .struct_size = sizeof param, .grad = param_grad, .grad_span = grad_span};

/* Not zeroed: a plugin may not count on that. */
static void *mem_alloc(struct cadre_ctx *ctx, uint32_t space, uint64_t bytes,
                       const char *tag)
{
    struct fake_rank *r = rank_of(ctx);
    void *at = aligned_alloc(64, (bytes + 127) / 64 * 64);
    memset(at, 0xff, bytes);
    r->taken += bytes;
    return at;
}

static void mem_free(struct cadre_ctx *ctx, void *pointer)
{
    free(pointer);
}

static const struct cadre_mem_svc mem = {sizeof mem, 0, mem_alloc, mem_free};

static double rng_normal(struct cadre_ctx *ctx, const char *name, uint64_t element)
{
    return cadre_rng_normal(cadre_rng_key(7, name), element);
}

static const struct cadre_rng_svc rng = {.struct_size = sizeof rng,
                                         .normal = rng_normal};

static const void *service(struct cadre_ctx *ctx, const char *id)
{
    static const struct {
        const char *id;
        const void *table;
    } tables[] = {
        {CADRE_SERVICE_MESH, &mesh},   {CADRE_SERVICE_COMM, &comm},
        {CADRE_SERVICE_MODEL, &model}, {CADRE_SERVICE_PARAM, &param},
        {CADRE_SERVICE_MEM, &mem},     {CADRE_SERVICE_STREAM, &cadre_stream_service},
        {CADRE_SERVICE_RNG, &rng},     {CADRE_SERVICE_OPS, &cadre_ops_service},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (!strcmp(tables[i].id, id))
            return tables[i].table;
    return NULL;
}

static cadre_status host_fail(struct cadre_ctx *ctx, cadre_status status,
                              const char *text)
{
    snprintf(rank_of(ctx)->failure, sizeof rank_of(ctx)->failure, "%s", text);
    return status;
}

/* ---- values and plan ---- */

static int64_t value_i64(const void *h, const char *key)
{
    return ((const struct fake_ranks *)h)->overlap;
}

static double value_f64(const void *h, const char *key)
{
    return ((const struct fake_ranks *)h)->bucket_mb;
}

static const char *value_str(const void *h, const char *key)
{
    return ((const struct fake_ranks *)h)->compress;
}

static cadre_status plan_use_axis(void *h, const char *axis, uint32_t batch)
{
    return CADRE_OK;
}

static cadre_status plan_claim(void *h, const char *effect, const char *axis,
                               uint32_t flags)
{
    return CADRE_OK;
}

static cadre_status plan_leaves(void *h, uint32_t map)
{
    return CADRE_OK;
}

static cadre_status plan_memory(void *h, uint32_t space, uint64_t bytes,
                                const char *tag)
{
    ((struct fake_ranks *)h)->planned += bytes;
    return CADRE_OK;
}

/* ---- life ---- */

uint64_t fake_ranks_count(const struct fake_ranks *all, uint32_t id)
{
    return all->shape[id][0] * (all->shape[id][1] ? all->shape[id][1] : 1);
}

void fake_ranks_init(struct fake_ranks *all, const struct cadre_strategy_ops *ops,
                     int n)
{
    memset(all, 0, sizeof *all);
    all->ops = ops;
    all->n = n;
    all->dtype = CADRE_F32;
    all->compress = "none";
    all->bucket_mb = 25;
    all->overlap = true;
    all->n_params = 3;
    all->shape[0][0] = 40;
    all->shape[0][1] = 30;
    all->shape[1][0] = 77;
    all->shape[2][0] = 20;
    all->shape[2][1] = 33;
    for (uint32_t id = 0; id < FAKE_PARAMS; id++)
        all->tied_to[id] = -1;
    pthread_barrier_init(&all->barrier, NULL, (unsigned)n);
}

static cadre_status start_rank(struct fake_rank *r)
{
    struct fake_ranks *all = r->all;
    r->ctx.host = (struct cadre_host){.struct_size = sizeof r->ctx.host,
                                      .ctx = &r->ctx,
                                      .service = service,
                                      .fail = host_fail};
    r->ctx.values = (struct cadre_values){.struct_size = sizeof r->ctx.values,
                                          .h = all,
                                          .i64 = value_i64,
                                          .f64 = value_f64,
                                          .str = value_str};
    const struct cadre_plan plan = {.struct_size = sizeof plan,
                                    .exact = all->exact,
                                    .h = all,
                                    .use_axis = plan_use_axis,
                                    .claim = plan_claim,
                                    .leaves = plan_leaves,
                                    .memory = plan_memory};
    cadre_status rc = all->ops->create(&r->ctx.host, &r->ctx.values, &r->self);
    if (rc)
        return rc;
    all->planned = 0;
    rc = all->ops->plan(r->self, &plan);
    if (!rc)
        rc = all->ops->bind(r->self);
    if (rc) {
        all->ops->destroy(r->self);
        r->self = NULL;
    }
    return rc;
}

cadre_status fake_ranks_start(struct fake_ranks *all)
{
    static const struct cadre_plugin_handle handle = {.name = "ddp"};
    const struct cadre_device_config config = {.kind = "cpu", .threads = 1};
    for (uint32_t id = 0; id < all->n_params; id++)
        all->offset[id + 1] =
            all->offset[id] +
            (fake_ranks_count(all, id) * cadre_dtype_bytes(all->dtype) + 63) / 64 * 64;
    for (int i = 0; i < all->n; i++) {
        struct fake_rank *r = &all->rank[i];
        r->all = all;
        r->index = i;
        r->axis = (struct cadre_axis){.name = "dp", .size = all->n, .index = i};
        r->ctx.services = &r->services;
        r->ctx.plugin = &handle;
        r->taken = 0;
        if (!r->services.device)
            ck_assert_int_eq(cadre_device_open(&config, &r->services.device, NULL), 0);
        free(r->grad);
        r->grad = aligned_alloc(64, all->offset[all->n_params]);
        cadre_status rc = start_rank(r);
        if (rc)
            return rc;
    }
    return CADRE_OK;
}

void fake_ranks_stop(struct fake_ranks *all)
{
    for (int i = 0; i < all->n; i++) {
        if (all->rank[i].self)
            all->ops->destroy(all->rank[i].self);
        all->rank[i].self = NULL;
    }
}

void fake_ranks_fini(struct fake_ranks *all)
{
    fake_ranks_stop(all);
    for (int i = 0; i < all->n; i++) {
        free(all->rank[i].grad);
        cadre_device_close(all->rank[i].services.device);
    }
    pthread_barrier_destroy(&all->barrier);
}

/* ---- a step ---- */

static cadre_status backward(void *h, const struct cadre_step *step)
{
    struct fake_rank *r = h;
    for (uint32_t id = r->all->n_params; id-- > 0;) {
        struct cadre_buf grad;
        param_grad(&r->ctx, id, &grad);
        for (uint64_t i = 0; i < grad.count; i++) {
            double value = r->all->gradient(r->all, r->index, id, i);
            if (grad.dtype == CADRE_F64)
                ((double *)grad.data)[i] = value;
            else
                ((float *)grad.data)[i] = (float)value;
        }
        struct cadre_grad_ev ev = {.struct_size = sizeof ev,
                                   .flags = CADRE_GRAD_FINAL,
                                   .param = id,
                                   .grad = &grad};
        cadre_status rc = r->all->ops->on_grad(r->self, &ev);
        if (rc)
            return rc;
    }
    r->posts_in_backward = r->posts;
    return CADRE_OK;
}

static void *step_of(void *arg)
{
    struct fake_rank *r = arg;
    const struct cadre_step step = {.struct_size = sizeof step, .n_microbatches = 1};
    const struct cadre_next next = {sizeof next, 0, r, backward};
    memset(r->grad, 0, r->all->offset[r->all->n_params]);
    r->posts = r->joins = r->bytes = 0;
    r->status = r->all->ops->step(r->self, &step, &next);
    if (!r->status)
        r->status = r->all->ops->sync(r->self, CADRE_SYNC_GRADS);
    return NULL;
}

void fake_ranks_step(struct fake_ranks *all)
{
    all->step++;
    for (int i = 0; i < all->n; i++)
        ck_assert_int_eq(
            pthread_create(&all->rank[i].thread, NULL, step_of, &all->rank[i]), 0);
    for (int i = 0; i < all->n; i++)
        pthread_join(all->rank[i].thread, NULL);
    for (int i = 0; i < all->n; i++) {
        struct fake_rank *r = &all->rank[i];
        ck_assert_msg(r->status == CADRE_OK, "rank %d: %d %s", i, r->status,
                      r->failure);
        ck_assert_uint_eq(r->joins, r->posts);
        for (uint64_t k = 0; k < r->posts; k++) {
            free(r->flight[k].in_copy);
            free(r->flight[k].result);
        }
    }
}

double fake_ranks_get(const struct fake_ranks *all, int rank, uint32_t id,
                      uint64_t element)
{
    const char *at = all->rank[rank].grad + all->offset[id];
    return all->dtype == CADRE_F64 ? ((const double *)(const void *)at)[element]
                                   : (double)((const float *)(const void *)at)[element];
}

bool fake_ranks_same(const struct fake_ranks *all)
{
    for (int i = 1; i < all->n; i++)
        if (memcmp(all->rank[0].grad, all->rank[i].grad, all->offset[all->n_params]) !=
            0)
            return false;
    return true;
}
