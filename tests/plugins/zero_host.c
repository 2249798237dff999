/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/plugins/zero_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

static const struct cadre_plugin_handle *zero;
struct zero_host f;

static bool nth(int *calls, int fail)
{
    return ++*calls == fail;
}

static cadre_status host_fail(struct cadre_ctx *ctx, cadre_status status,
                              const char *text)
{
    snprintf(f.failure, sizeof f.failure, "%s", text);
    return status;
}

/* ---- mesh, comm ---- */

static struct cadre_axis *mesh_axis(struct cadre_ctx *ctx, const char *name)
{
    return (struct cadre_axis *)&f;
}

static int32_t mesh_size(const struct cadre_axis *axis)
{
    return f.ranks;
}

static int32_t mesh_rank(const struct cadre_axis *axis)
{
    return f.me;
}

static cadre_status add_post(bool gather, const char *label, const struct cadre_buf *in,
                             const struct cadre_buf *out, const uint64_t *off,
                             cadre_event *done)
{
    uint64_t mine = off[f.me + 1] - off[f.me];
    if (f.posts + 1 == f.fail_post)
        return CADRE_E_COMM;
    ck_assert_int_lt(f.posts, POSTS);
    ck_assert_uint_eq(off[0], 0);
    ck_assert_uint_eq(gather ? out->count : in->count, off[f.ranks]);
    ck_assert_uint_eq(gather ? in->count : out->count, mine);
    struct post *post = &f.post[f.posts++];
    *post = (struct post){gather, false, label, in->data, out->data, {0}};
    for (int r = 0; r <= f.ranks; r++) {
        ck_assert(r == 0 || off[r] >= off[r - 1]);
        post->off[r] = off[r];
    }
    *done = 1000u + (cadre_event)f.posts;
    return CADRE_OK;
}

static cadre_status reduce_scatter(struct cadre_axis *axis, const char *label,
                                   const struct cadre_buf *in,
                                   const struct cadre_buf *out, const uint64_t *off,
                                   uint32_t red, cadre_event after, cadre_event *done)
{
    ck_assert_uint_eq(red, CADRE_SUM);
    return add_post(false, label, in, out, off, done);
}

static cadre_status all_gather(struct cadre_axis *axis, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               const uint64_t *off, cadre_event after,
                               cadre_event *done)
{
    return add_post(true, label, in, out, off, done);
}

static void carry_out(struct post *post)
{
    const uint64_t *off = post->off;
    uint64_t mine = off[f.me + 1] - off[f.me];
    for (uint64_t i = 0; !post->gather && i < mine; i++)
        post->out[i] = post->in[off[f.me] + i] * (float)f.ranks;
    for (int r = 0; post->gather && r < f.ranks; r++)
        for (uint64_t i = off[r]; i < off[r + 1]; i++)
            post->out[i] = r == f.me ? post->in[i - off[r]] : (float)(r + 1);
    post->done = true;
}

static cadre_status join(struct cadre_axis *axis, cadre_event event)
{
    if (nth(&f.joins, f.fail_join))
        return CADRE_E_ABORTED;
    ck_assert_uint_gt(event, 1000);
    ck_assert_uint_le(event, 1000u + (cadre_event)f.posts);
    for (cadre_event i = 0; i < event - 1000; i++)
        if (!f.post[i].done)
            carry_out(&f.post[i]);
    return CADRE_OK;
}

/* ---- model, param ---- */

static uint32_t model_n_params(struct cadre_ctx *ctx)
{
    return ENTRIES;
}

static cadre_status model_param(struct cadre_ctx *ctx, cadre_param_id id,
                                struct cadre_param_info *info)
{
    ck_assert_uint_lt(id, ENTRIES);
    *info = (struct cadre_param_info){
        .struct_size = sizeof *info,
        .name = "w",
        .ndim = 1,
        .count = f.entry[id].count,
        .dtype = CADRE_F32,
        .grad_dtype = CADRE_F32,
        .unit = f.entry[id].unit,
        .tied_to = id == TIED ? (int32_t)f.owner : -1,
        .present = !f.absent[f.entry[id].unit],
    };
    return CADRE_OK;
}

static cadre_status give(float *data, uint64_t count, struct cadre_buf *out)
{
    *out = (struct cadre_buf){sizeof *out, CADRE_F32, data, count, 0, 0};
    return CADRE_OK;
}

static cadre_status param_data(struct cadre_ctx *ctx, cadre_param_id id,
                               struct cadre_buf *out)
{
    return give(f.entry[id].data, f.entry[id].count, out);
}

static cadre_status param_grad(struct cadre_ctx *ctx, cadre_param_id id,
                               struct cadre_buf *out)
{
    return give(f.entry[id].grad, f.entry[id].count, out);
}

static cadre_status param_shard(struct cadre_ctx *ctx, cadre_param_id id, uint32_t kind,
                                struct cadre_buf *out)
{
    return give(f.entry[id].shard[kind], f.entry[id].range[kind].count, out);
}

static cadre_status param_attach(struct cadre_ctx *ctx, cadre_param_id id,
                                 const struct cadre_buf *buf)
{
    struct entry *entry = &f.entry[id];
    ck_assert(entry->range[CADRE_KIND_PARAM].placed);
    ck_assert(!buf || buf->count == entry->count);
    entry->data = buf ? buf->data : NULL;
    return CADRE_OK;
}

static cadre_status param_attach_grad(struct cadre_ctx *ctx, cadre_param_id id,
                                      const struct cadre_buf *buf)
{
    struct entry *entry = &f.entry[id];
    ck_assert(entry->range[CADRE_KIND_GRAD].placed);
    ck_assert(!buf || buf->count == entry->count);
    entry->grad = buf ? buf->data : NULL;
    for (uint64_t i = 0; buf && i < entry->count; i++)
        entry->grad[i] = 0; /* the first contribution overwrites */
    return CADRE_OK;
}

static cadre_status param_add_leaf(struct cadre_ctx *ctx, cadre_param_id id,
                                   const struct cadre_buf *part)
{
    struct entry *entry = &f.entry[id];
    const float *from = part->data;
    ck_assert(f.cyclic);
    ck_assert_uint_eq(part->count, entry->range[CADRE_KIND_GRAD].count);
    for (uint64_t i = 0; i < part->count; i++)
        entry->shard[CADRE_KIND_GRAD][i] += from[i];
    entry->leaves++;
    return CADRE_OK;
}

/* ---- mem ---- */

static void *mem_alloc(struct cadre_ctx *ctx, uint32_t space, uint64_t bytes,
                       const char *tag)
{
    if (nth(&f.allocs, f.fail_alloc))
        return NULL;
    for (int i = 0; i < BLOCKS; i++)
        if (!f.block[i].data) {
            f.block[i] = (struct block){calloc(1, bytes + 1), bytes};
            f.now += bytes;
            f.most = f.now > f.most ? f.now : f.most;
            return f.block[i].data;
        }
    ck_abort_msg("too many buffers");
    return NULL;
}

static bool inside(const struct block *block, const float *at)
{
    const char *byte = (const char *)at;
    return at && byte >= block->data && byte < block->data + block->bytes;
}

static void mem_free(struct cadre_ctx *ctx, void *data)
{
    for (int i = 0; i < BLOCKS; i++) {
        struct block *block = &f.block[i];
        if (block->data != data)
            continue;
        for (int p = 0; p < f.posts; p++)
            ck_assert_msg(f.post[p].done || (!inside(block, f.post[p].in) &&
                                             !inside(block, f.post[p].out)),
                          "a buffer of '%s' is freed on its way", f.post[p].label);
        for (int e = 0; e < ENTRIES; e++)
            ck_assert(!inside(block, f.entry[e].data) &&
                      !inside(block, f.entry[e].grad));
        f.now -= block->bytes;
        free(data);
        block->data = NULL;
        return;
    }
    ck_abort_msg("frees what it did not take");
}

static const void *host_service(struct cadre_ctx *ctx, const char *id)
{
    static const struct cadre_mesh_svc mesh = {sizeof mesh, 0, mesh_axis, mesh_rank,
                                               mesh_size};
    static const struct cadre_comm_svc comm = {.struct_size = sizeof comm,
                                               .reduce_scatter = reduce_scatter,
                                               .all_gather = all_gather,
                                               .join = join};
    static const struct cadre_model_svc model = {
        .struct_size = sizeof model, .n_params = model_n_params, .param = model_param};
    static const struct cadre_param_svc param = {.struct_size = sizeof param,
                                                 .data = param_data,
                                                 .attach = param_attach,
                                                 .grad = param_grad,
                                                 .attach_grad = param_attach_grad,
                                                 .shard = param_shard,
                                                 .add_leaf = param_add_leaf};
    static const struct cadre_mem_svc mem = {sizeof mem, 0, mem_alloc, mem_free};
    if (nth(&f.services, f.fail_service))
        return NULL;
    return !strcmp(id, CADRE_SERVICE_MESH)    ? (const void *)&mesh
           : !strcmp(id, CADRE_SERVICE_COMM)  ? (const void *)&comm
           : !strcmp(id, CADRE_SERVICE_MODEL) ? (const void *)&model
           : !strcmp(id, CADRE_SERVICE_PARAM) ? (const void *)&param
                                              : (const void *)&mem;
}

/* ---- values, plan ---- */

static int64_t value_i64(const void *h, const char *key)
{
    return !strcmp(key, "stage")      ? f.stage
           : !strcmp(key, "prefetch") ? f.prefetch
                                      : f.overlap;
}

static double value_f64(const void *h, const char *key)
{
    return f.bucket_mb;
}

static const char *value_str(const void *h, const char *key)
{
    return !strcmp(key, "offload") ? f.offload : f.each ? "microbatch" : "step";
}

static cadre_status plan_use_axis(void *h, const char *axis, uint32_t batch)
{
    ck_assert_str_eq(axis, "dp");
    ck_assert_uint_eq(batch, CADRE_BATCH_SPLIT);
    return CADRE_OK;
}

static cadre_status plan_claim(void *h, const char *effect, const char *axis,
                               uint32_t flags)
{
    size_t len = strlen(f.claims);
    snprintf(f.claims + len, sizeof f.claims - len, "%s@%s ", effect, axis);
    return CADRE_OK;
}

static cadre_status plan_leaves(void *h, uint32_t map)
{
    f.cyclic = map == CADRE_LEAVES_CYCLIC;
    return CADRE_OK;
}

static cadre_status plan_place_range(void *h, cadre_param_id id, uint32_t kind,
                                     uint64_t begin, uint64_t count, uint32_t space)
{
    struct entry *entry = &f.entry[id];
    ck_assert_uint_le(begin + count, entry->count);
    ck_assert(count == 0 || begin % UNIT == 0);
    ck_assert(count % UNIT == 0 || begin + count == entry->count);
    ck_assert(!entry->range[kind].placed);
    entry->range[kind] = (struct range){true, begin, count, space};
    return CADRE_OK;
}

static cadre_status plan_memory(void *h, uint32_t space, uint64_t bytes,
                                const char *tag)
{
    f.told += bytes;
    return CADRE_OK;
}

/* ---- life ---- */

void zero_host_open(void)
{
    struct cadre_error err = {0};
    static const uint64_t counts[PER_LAYER] = {7, UNIT * 9, 100, 33};
    cadre_status rc = cadre_plugin_load("zero", NULL, &zero, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    memset(&f, 0, sizeof f);
    f.ranks = 4;
    f.me = 1;
    f.stage = f.prefetch = 1;
    f.overlap = true;
    f.offload = "none";
    f.bucket_mb = 0.001;
    f.micro_batches = 1;
    for (uint32_t i = 0; i < ENTRIES; i++) {
        f.entry[i].count = counts[(i + 3) % PER_LAYER];
        f.entry[i].unit = (i + PER_LAYER - 1) / PER_LAYER;
    }
    f.entry[0].count = f.entry[TIED].count = UNIT * 23 + 5;
    f.entry[TIED].unit = UNITS - 1;
}

static void forget(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        free(f.block[i].data);
        f.block[i].data = NULL;
    }
    free(f.memory);
    f.memory = NULL;
    f.now = f.most = f.told = 0;
    f.services = f.allocs = f.joins = f.posts = f.steps = 0;
    f.claims[0] = f.failure[0] = 0;
    for (int i = 0; i < ENTRIES; i++) {
        struct entry *entry = &f.entry[i];
        *entry = (struct entry){.count = entry->count, .unit = entry->unit};
    }
}

/* Storage as the core lays it out: a kind in the order of entries, each padded. */
static void lay_out(void)
{
    float *at = f.memory = calloc(2 * ENTRIES * 1024, sizeof *at);
    for (uint32_t kind = CADRE_KIND_PARAM; kind <= CADRE_KIND_GRAD; kind++)
        for (int i = 0; i < ENTRIES; i++) {
            struct entry *entry = &f.entry[i];
            bool placed = entry->range[kind].placed;
            uint64_t count = placed ? entry->range[kind].count : entry->count;
            if (f.torn)
                at += UNIT;
            if (placed)
                entry->shard[kind] = count ? at : NULL;
            else
                entry->whole[kind] = at;
            at += (count + UNIT - 1) / UNIT * UNIT;
        }
    for (int i = 0; i < ENTRIES; i++) {
        struct entry *entry = &f.entry[i];
        entry->data = entry->whole[CADRE_KIND_PARAM];
        entry->grad = entry->whole[CADRE_KIND_GRAD];
        if (i == TIED)
            entry->data = NULL; /* its owner's */
        float *mine = entry->data ? entry->data : entry->shard[CADRE_KIND_PARAM];
        uint64_t count =
            entry->data ? entry->count : entry->range[CADRE_KIND_PARAM].count;
        for (uint64_t k = 0; i != TIED && k < count; k++)
            mine[k] = (float)(f.me + 1);
    }
}

cadre_status zero_host_start(struct cadre_self **self)
{
    static const struct cadre_host host = {.struct_size = sizeof host,
                                           .abi_minor = CADRE_ABI_MINOR,
                                           .service = host_service,
                                           .fail = host_fail};
    static const struct cadre_values values = {.struct_size = sizeof values,
                                               .i64 = value_i64,
                                               .f64 = value_f64,
                                               .str = value_str};
    struct cadre_plan plan = {.struct_size = sizeof plan,
                              .ranks = (uint32_t)f.ranks,
                              .n_units = UNITS,
                              .microbatches = f.micro_batches * (uint64_t)f.ranks,
                              .range_unit = UNIT,
                              .use_axis = plan_use_axis,
                              .claim = plan_claim,
                              .leaves = plan_leaves,
                              .place_range = plan_place_range,
                              .memory = plan_memory};
    forget();
    cadre_status rc = zero->ops.create(&host, &values, self);
    if (rc)
        return rc;
    rc = zero->ops.plan(*self, &plan);
    lay_out();
    if (!rc)
        rc = zero->ops.bind(*self);
    if (rc)
        zero->ops.destroy(*self);
    return rc;
}

void zero_host_close(void)
{
    forget();
}

const struct cadre_plugin_handle *zero_host_plugin(void)
{
    return zero;
}

/* ---- a step ---- */

static cadre_status raise(struct cadre_self *self, uint32_t kind, uint32_t unit,
                          int32_t next, uint32_t mb)
{
    struct cadre_block_ev ev = {
        .struct_size = sizeof ev,
        .kind = kind,
        .unit = unit,
        .microbatch = mb,
        .next_unit = next >= 0 && !f.absent[next] ? next : -1,
    };
    return zero->ops.on_block(self, &ev);
}

/* Each element is what the rank that owns it says. */
static void check_values(const struct entry *entry)
{
    const struct entry *owner = entry == &f.entry[TIED] ? &f.entry[f.owner] : entry;
    const struct range *own = &owner->range[CADRE_KIND_OPT];
    ck_assert_ptr_nonnull(owner->data);
    for (uint64_t k = 0; k < owner->count; k++) {
        bool mine = k >= own->begin && k < own->begin + own->count;
        bool fresh = f.stage == 3 || f.steps > 0;
        float is = owner->data[k], self = (float)(f.me + 1);
        ck_assert(!mine || is == self);
        ck_assert(mine || !fresh || (is >= 1 && is != self));
    }
}

static cadre_status forward(struct cadre_self *self, uint32_t mb)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t u = 0; !rc && u < UNITS; u++) {
        int32_t next = (int32_t)u + (u + 1 < UNITS);
        if (f.absent[u])
            continue;
        rc = raise(self, CADRE_BEFORE_FORWARD, u, next, mb);
        for (uint32_t i = 0; !rc && i < ENTRIES; i++)
            if (f.entry[i].unit == u)
                check_values(&f.entry[i]);
        if (!rc)
            rc = raise(self, CADRE_AFTER_FORWARD, u, next, mb);
    }
    return rc;
}

static cadre_status give_gradient(struct cadre_self *self, cadre_param_id id,
                                  uint32_t mb)
{
    struct entry *entry = &f.entry[id];
    struct cadre_buf grad;
    give(entry->grad, entry->count, &grad);
    struct cadre_grad_ev ev = {
        .struct_size = sizeof ev,
        .flags = mb + 1 == f.micro_batches ? CADRE_GRAD_FINAL : 0,
        .param = id,
        .microbatch = mb,
        .grad = &grad,
    };
    ck_assert_ptr_nonnull(entry->grad);
    for (uint64_t k = 0; k < entry->count; k++)
        entry->grad[k] = mb == 0 || f.cyclic ? 1 : entry->grad[k] + 1;
    return zero->ops.on_grad(self, &ev);
}

static cadre_status backward(struct cadre_self *self, uint32_t mb)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t left = UNITS; !rc && left > 0; left--) {
        uint32_t u = left - 1;
        int32_t next = (int32_t)u - 1;
        if (f.absent[u])
            continue;
        rc = raise(self, CADRE_BEFORE_BACKWARD, u, next, mb);
        for (uint32_t n = ENTRIES; !rc && n > 0; n--)
            if (f.entry[n - 1].unit == u)
                rc = give_gradient(self, n - 1, mb);
        if (!rc)
            rc = raise(self, CADRE_AFTER_BACKWARD, u, next, mb);
    }
    return rc;
}

static struct cadre_self *stepping;

static cadre_status run(void *h, const struct cadre_step *step)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t mb = 0; !rc && mb < step->n_microbatches; mb++) {
        rc = forward(stepping, mb);
        if (!rc)
            rc = backward(stepping, mb);
    }
    return rc;
}

cadre_status zero_host_step(struct cadre_self *self)
{
    const struct cadre_step step = {.struct_size = sizeof step,
                                    .n_microbatches = f.micro_batches};
    const struct cadre_next next = {sizeof next, 0, NULL, run};
    stepping = self;
    for (int i = 0; i < ENTRIES; i++) {
        struct entry *entry = &f.entry[i];
        uint64_t count = entry->range[CADRE_KIND_GRAD].count;
        if (entry->shard[CADRE_KIND_GRAD])
            memset(entry->shard[CADRE_KIND_GRAD], 0, count * sizeof(float));
    }
    cadre_status rc = zero->ops.step(self, &step, &next);
    if (!rc)
        rc = zero->ops.sync(self, CADRE_SYNC_GRADS);
    if (!rc)
        rc = zero->ops.sync(self, CADRE_SYNC_PARAMS);
    f.steps++;
    return rc;
}
