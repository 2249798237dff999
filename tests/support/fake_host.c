/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fake_host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/rng.h"
#include "tests/support/check_main.h"

static struct fake_host *host_of(struct cadre_ctx *ctx)
{
    return (struct fake_host *)(void *)ctx;
}

static struct fake_entry *entry_of(struct cadre_ctx *ctx, cadre_param_id id)
{
    ck_assert_uint_lt(id, host_of(ctx)->n_entries);
    return &host_of(ctx)->entry[id];
}

bool fake_nth(int *calls, int fail)
{
    return ++*calls == fail;
}

static size_t element_bytes(uint32_t dtype)
{
    return dtype == CADRE_F64    ? 8
           : dtype == CADRE_BF16 ? 2
           : dtype == CADRE_F16  ? 2
           : dtype == CADRE_U8   ? 1
           : dtype == CADRE_I8   ? 1
                                 : 4;
}

size_t fake_bytes(const struct cadre_buf *buf)
{
    return buf->count * element_bytes(buf->dtype);
}

/* ---- host ---- */

static cadre_status host_fail(struct cadre_ctx *ctx, cadre_status status,
                              const char *text)
{
    struct fake_host *fake = host_of(ctx);
    snprintf(fake->failure, sizeof fake->failure, "%s", text);
    return status;
}

static void host_log(struct cadre_ctx *ctx, int32_t level, const char *text)
{
}

static const void *host_service(struct cadre_ctx *ctx, const char *id)
{
    struct fake_host *fake = host_of(ctx);
    bool fails = fake_nth(&fake->services, fake->fail_service);
    return fails ? NULL : fake_service(fake, id);
}

static struct cadre_axis *mesh_axis(struct cadre_ctx *ctx, const char *name)
{
    struct cadre_axis *axis = &host_of(ctx)->axis;
    return axis->size > 0 && !strcmp(name, axis->name) ? axis : NULL;
}

static int32_t mesh_rank(const struct cadre_axis *axis)
{
    return axis ? axis->index : 0;
}

static int32_t mesh_size(const struct cadre_axis *axis)
{
    return axis ? axis->size : 1;
}

static cadre_status stream_record(struct cadre_ctx *ctx, cadre_event *out)
{
    *out = FAKE_NOW;
    return CADRE_OK;
}

static cadre_status stream_wait(struct cadre_ctx *ctx, cadre_event event)
{
    return CADRE_OK;
}

static double rng_normal(struct cadre_ctx *ctx, const char *name, uint64_t element)
{
    return cadre_rng_normal(cadre_rng_key(7, name), element);
}

/* ---- model, param ---- */

static uint32_t model_n_params(struct cadre_ctx *ctx)
{
    return host_of(ctx)->n_entries;
}

static cadre_status model_param(struct cadre_ctx *ctx, cadre_param_id id,
                                struct cadre_param_info *info)
{
    struct fake_host *fake = host_of(ctx);
    if (fake_nth(&fake->params, fake->fail_param))
        return CADRE_E_INTERNAL;
    const struct fake_entry *entry = entry_of(ctx, id);
    *info = (struct cadre_param_info){
        .struct_size = sizeof *info,
        .name = entry->name,
        .ndim = entry->columns ? 2 : 1,
        .local = {entry->count / (entry->columns ? entry->columns : 1), entry->columns},
        .count = entry->count,
        .dtype = fake->dtype,
        .grad_dtype = fake->dtype,
        .unit = entry->unit,
        .tied_to = entry->tied_to,
        .present = !entry->absent,
        .partial = entry->partial,
    };
    return CADRE_OK;
}

static cadre_status give(struct cadre_ctx *ctx, float *data, uint64_t count,
                         struct cadre_buf *out)
{
    *out = (struct cadre_buf){sizeof *out, host_of(ctx)->dtype, data, count, 0, 0};
    return CADRE_OK;
}

static cadre_status param_data(struct cadre_ctx *ctx, cadre_param_id id,
                               struct cadre_buf *out)
{
    const struct fake_entry *entry = entry_of(ctx, id);
    return give(ctx, entry->data, entry->count, out);
}

static cadre_status param_grad(struct cadre_ctx *ctx, cadre_param_id id,
                               struct cadre_buf *out)
{
    const struct fake_entry *entry = entry_of(ctx, id);
    return give(ctx, entry->detached ? NULL : entry->grad, entry->count, out);
}

static cadre_status param_grad_span(struct cadre_ctx *ctx, cadre_param_id first,
                                    cadre_param_id last, struct cadre_buf *out)
{
    const struct fake_entry *begin = entry_of(ctx, first), *end = entry_of(ctx, last);
    for (cadre_param_id i = first; i <= last; i++)
        if (entry_of(ctx, i)->separate || entry_of(ctx, i)->detached)
            return CADRE_E_UNSUPPORTED;
    size_t bytes = (size_t)((char *)end->grad - (char *)begin->grad);
    uint64_t before = bytes / element_bytes(host_of(ctx)->dtype);
    return give(ctx, begin->grad, before + end->count, out);
}

static cadre_status param_shard(struct cadre_ctx *ctx, cadre_param_id id, uint32_t kind,
                                struct cadre_buf *out)
{
    const struct fake_entry *entry = entry_of(ctx, id);
    ck_assert(kind >= CADRE_KIND_PARAM && kind <= CADRE_KIND_OPT);
    const struct fake_range *range = &entry->range[kind];
    return give(ctx, entry->shard[kind], range->placed ? range->count : entry->count,
                out);
}

static cadre_status param_attach(struct cadre_ctx *ctx, cadre_param_id id,
                                 const struct cadre_buf *buf)
{
    struct fake_entry *entry = entry_of(ctx, id);
    ck_assert(entry->range[CADRE_KIND_PARAM].placed);
    ck_assert(!buf || buf->count == entry->count);
    entry->data = buf ? buf->data : NULL;
    return CADRE_OK;
}

static cadre_status param_attach_grad(struct cadre_ctx *ctx, cadre_param_id id,
                                      const struct cadre_buf *buf)
{
    struct fake_entry *entry = entry_of(ctx, id);
    ck_assert(entry->range[CADRE_KIND_GRAD].placed);
    ck_assert(!buf || buf->count == entry->count);
    entry->grad = buf ? buf->data : NULL;
    if (buf)
        memset(entry->grad, 0, fake_bytes(buf));
    return CADRE_OK;
}

static cadre_status param_accumulate(struct cadre_ctx *ctx, cadre_param_id id,
                                     const struct cadre_buf *part)
{
    struct fake_entry *entry = entry_of(ctx, id);
    const float *from = part->data;
    ck_assert_uint_eq(host_of(ctx)->map, CADRE_MICROBATCHES_CYCLIC);
    ck_assert_uint_eq(part->count, entry->range[CADRE_KIND_GRAD].count);
    for (uint64_t i = 0; i < part->count; i++)
        entry->shard[CADRE_KIND_GRAD][i] += from[i];
    entry->parts++;
    return CADRE_OK;
}

/* ---- mem ---- */

static void *mem_alloc(struct cadre_ctx *ctx, uint32_t space, uint64_t bytes,
                       const char *tag)
{
    struct fake_host *fake = host_of(ctx);
    int i = 0;
    if (fake_nth(&fake->allocs, fake->fail_alloc))
        return NULL;
    while (fake->block[i].data)
        ck_assert_int_lt(++i, FAKE_BLOCKS);
    fake->block[i].data = aligned_alloc(64, (bytes + 127) / 64 * 64);
    fake->block[i].bytes = bytes;
    fake->block[i].space = space;
    memset(fake->block[i].data, fake->fill, bytes);
    fake->taken += bytes;
    fake->now += bytes;
    fake->most = fake->now > fake->most ? fake->now : fake->most;
    return fake->block[i].data;
}

static bool in_block(const struct fake_host *fake, int i, const void *at)
{
    const char *byte = at, *begin = fake->block[i].data;
    return at && begin && byte >= begin && byte < begin + fake->block[i].bytes;
}

bool fake_took(const struct fake_host *fake, const void *at)
{
    for (int i = 0; i < FAKE_BLOCKS; i++)
        if (in_block(fake, i, at))
            return true;
    return false;
}

static void mem_free(struct cadre_ctx *ctx, void *data)
{
    struct fake_host *fake = host_of(ctx);
    int i = 0;
    while (i < FAKE_BLOCKS && fake->block[i].data != data)
        i++;
    ck_assert_msg(i < FAKE_BLOCKS, "frees what it did not take");
    for (int p = 0; p < fake->posts; p++) {
        const struct fake_post *post = &fake->post[p];
        ck_assert_msg(post->done || (!in_block(fake, i, post->in.data) &&
                                     !in_block(fake, i, post->out.data)),
                      "a buffer of '%s' is freed on its way", post->label);
    }
    for (uint32_t e = 0; e < fake->n_entries; e++)
        ck_assert(!in_block(fake, i, fake->entry[e].data) &&
                  !in_block(fake, i, fake->entry[e].grad));
    fake->now -= fake->block[i].bytes;
    free(data);
    fake->block[i].data = NULL;
}

/* ---- values, plan ---- */

void fake_set(struct fake_host *fake, const char *key, const char *format, ...)
{
    va_list args;
    size_t i = 0, n = sizeof fake->option / sizeof *fake->option;
    while (i < n && fake->option[i].key[0] && strcmp(fake->option[i].key, key) != 0)
        i++;
    ck_assert_uint_lt(i, n);
    snprintf(fake->option[i].key, sizeof fake->option[i].key, "%s", key);
    va_start(args, format);
    vsnprintf(fake->option[i].text, sizeof fake->option[i].text, format, args);
    va_end(args);
}

static const char *value_str(const void *h, const char *key)
{
    const struct fake_host *fake = h;
    for (size_t i = 0; i < sizeof fake->option / sizeof *fake->option; i++)
        if (!strcmp(fake->option[i].key, key))
            return fake->option[i].text;
    ck_abort_msg("no value of '%s' was set", key);
    return NULL;
}

static int64_t value_i64(const void *h, const char *key)
{
    const char *text = value_str(h, key);
    return !strcmp(text, "yes") ? 1 : !strcmp(text, "no") ? 0 : strtoll(text, NULL, 10);
}

static double value_f64(const void *h, const char *key)
{
    return strtod(value_str(h, key), NULL);
}

static cadre_status planned(struct fake_host *fake)
{
    bool fails = fake_nth(&fake->plans, fake->fail_plan);
    return fails ? CADRE_E_UNSUPPORTED : CADRE_OK;
}

static cadre_status plan_use_axis(void *h, const char *axis, uint32_t batch)
{
    struct fake_host *fake = h;
    ck_assert_str_eq(axis, fake->axis.name);
    fake->batch = batch;
    return planned(fake);
}

static cadre_status plan_claim(void *h, const char *effect, const char *axis,
                               uint32_t flags)
{
    struct fake_host *fake = h;
    size_t used = strlen(fake->claims);
    snprintf(fake->claims + used, sizeof fake->claims - used, "%s%s@%s/%u",
             used ? " " : "", effect, axis ? axis : "", flags);
    return planned(fake);
}

static cadre_status plan_microbatch_map(void *h, uint32_t map)
{
    struct fake_host *fake = h;
    fake->map = map;
    return planned(fake);
}

static cadre_status plan_chunk(void *h, uint32_t begin, uint32_t end, uint32_t live,
                               uint32_t flags)
{
    struct fake_host *fake = h;
    uint32_t n = fake->n_chunks++;
    fake->chunk[n].begin = begin;
    fake->chunk[n].end = end;
    fake->chunk[n].live = live;
    fake->chunk[n].flags = flags;
    return planned(fake);
}

static cadre_status plan_live_blocks(void *h, uint32_t n)
{
    struct fake_host *fake = h;
    fake->live_blocks = n;
    return planned(fake);
}

static cadre_status plan_place_range(void *h, cadre_param_id id, uint32_t kind,
                                     uint64_t begin, uint64_t count, uint32_t space)
{
    struct fake_host *fake = h;
    struct fake_entry *entry = entry_of(&fake->ctx, id);
    ck_assert_uint_le(begin + count, entry->count);
    ck_assert(count == 0 || begin % FAKE_PAD == 0);
    ck_assert(count % FAKE_PAD == 0 || begin + count == entry->count);
    ck_assert(!entry->range[kind].placed);
    entry->range[kind] = (struct fake_range){true, begin, count, space};
    return planned(fake);
}

static cadre_status plan_memory(void *h, uint32_t space, uint64_t bytes,
                                const char *tag)
{
    struct fake_host *fake = h;
    fake->planned += bytes;
    return planned(fake);
}

/* ---- life ---- */

const void *fake_service(const struct fake_host *fake, const char *id)
{
    for (size_t i = 0; i < sizeof fake->service / sizeof *fake->service; i++)
        if (fake->service[i].id && !strcmp(fake->service[i].id, id))
            return fake->service[i].table;
    return NULL;
}

void fake_set_service(struct fake_host *fake, const char *id, const void *table)
{
    size_t i = 0, n = sizeof fake->service / sizeof *fake->service;
    while (i < n && fake->service[i].id && strcmp(fake->service[i].id, id) != 0)
        i++;
    ck_assert_uint_lt(i, n);
    fake->service[i].id = id;
    fake->service[i].table = table;
}

static void set_services(struct fake_host *fake)
{
    static const struct cadre_mesh_svc mesh = {sizeof mesh, 0, mesh_axis, mesh_rank,
                                               mesh_size};
    static const struct cadre_model_svc model = {
        .struct_size = sizeof model, .n_params = model_n_params, .param = model_param};
    static const struct cadre_param_svc param = {
        .struct_size = sizeof param,
        .data = param_data,
        .attach = param_attach,
        .grad = param_grad,
        .attach_grad = param_attach_grad,
        .grad_span = param_grad_span,
        .shard = param_shard,
        .accumulate = param_accumulate,
    };
    static const struct cadre_mem_svc mem = {sizeof mem, 0, mem_alloc, mem_free};
    static const struct cadre_stream_svc stream = {sizeof stream, 0, stream_record,
                                                   stream_wait};
    static const struct cadre_rng_svc rng = {.struct_size = sizeof rng,
                                             .normal = rng_normal};
    fake_set_service(fake, CADRE_SERVICE_MESH, &mesh);
    fake_set_service(fake, CADRE_SERVICE_COMM, &fake_comm);
    fake_set_service(fake, CADRE_SERVICE_MODEL, &model);
    fake_set_service(fake, CADRE_SERVICE_PARAM, &param);
    fake_set_service(fake, CADRE_SERVICE_MEM, &mem);
    fake_set_service(fake, CADRE_SERVICE_STREAM, &stream);
    fake_set_service(fake, CADRE_SERVICE_RNG, &rng);
}

static void set_tables(struct fake_host *fake)
{
    fake->host = (struct cadre_host){
        .struct_size = sizeof fake->host,
        .abi_minor = CADRE_ABI_MINOR,
        .ctx = &fake->ctx,
        .service = host_service,
        .fail = host_fail,
        .log = host_log,
    };
    fake->values = (struct cadre_values){
        .struct_size = sizeof fake->values,
        .h = fake,
        .i64 = value_i64,
        .f64 = value_f64,
        .str = value_str,
    };
    fake->plan = (struct cadre_plan){
        .struct_size = sizeof fake->plan,
        .range_unit = FAKE_PAD,
        .h = fake,
        .use_axis = plan_use_axis,
        .claim = plan_claim,
        .microbatch_map = plan_microbatch_map,
        .chunk = plan_chunk,
        .place_range = plan_place_range,
        .memory = plan_memory,
        .live_blocks = plan_live_blocks,
    };
}

void fake_init(struct fake_host *fake, const struct cadre_strategy_ops *ops,
               uint32_t n_entries)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    memset(fake, 0, sizeof *fake);
    set_services(fake);
    set_tables(fake);
    fake->ops = ops;
    fake->axis = (struct cadre_axis){.name = "dp", .size = 2};
    fake->dtype = CADRE_F32;
    fake->micro_batches = fake->n_units = 1;
    fake->n_entries = n_entries;
    for (uint32_t i = 0; i < n_entries; i++) {
        fake->entry[i] = (struct fake_entry){
            .name = names[i % 8], .count = 1 + i * 97 % 401, .tied_to = -1};
        fake->order[i] = n_entries - 1 - i;
    }
}

static void forget(struct fake_host *fake)
{
    fake_forget_posts(fake);
    for (int i = 0; i < FAKE_BLOCKS; i++) {
        free(fake->block[i].data);
        fake->block[i].data = NULL;
    }
    free(fake->memory);
    fake->memory = NULL;
    fake->services = fake->params = fake->plans = fake->allocs = fake->steps = 0;
    fake->claims[0] = fake->failure[0] = 0;
    fake->batch = fake->map = fake->n_chunks = fake->live_blocks = 0;
    fake->now = fake->most = fake->taken = fake->planned = fake->ready = 0;
    for (uint32_t i = 0; i < fake->n_entries; i++) {
        struct fake_entry *entry = &fake->entry[i];
        memset(entry->range, 0, sizeof entry->range);
        memset(entry->shard, 0, sizeof entry->shard);
        entry->data = entry->grad = NULL;
        entry->parts = 0;
    }
}

void fake_fini(struct fake_host *fake)
{
    forget(fake);
}

/* Room for one kind as the core lays it out: in the order of entries, each padded. */
static char *lay_out_kind(struct fake_host *fake, uint32_t kind, char *at)
{
    for (uint32_t i = 0; i < fake->n_entries; i++) {
        struct fake_entry *entry = &fake->entry[i];
        const struct fake_range *range = &entry->range[kind];
        uint64_t count = range->placed ? range->count : entry->count;
        at += fake->torn ? 64 : 0;
        if (range->placed)
            entry->shard[kind] = count ? (float *)(void *)at : NULL;
        else if (kind == CADRE_KIND_GRAD)
            entry->grad = (float *)(void *)at;
        else if (entry->tied_to < 0)
            entry->data = (float *)(void *)at;
        at += (count * element_bytes(fake->dtype) + 63) / 64 * 64;
    }
    return at;
}

static void lay_out(struct fake_host *fake)
{
    size_t bytes = 64;
    for (uint32_t i = 0; i < fake->n_entries; i++)
        bytes += 2 * (fake->entry[i].count * element_bytes(fake->dtype) + 128);
    fake->memory = aligned_alloc(64, bytes / 64 * 64);
    memset(fake->memory, 0, bytes / 64 * 64);
    fake->grads = lay_out_kind(fake, CADRE_KIND_PARAM, fake->memory);
    const char *end = lay_out_kind(fake, CADRE_KIND_GRAD, fake->grads);
    fake->grads_bytes = (uint64_t)(end - fake->grads);
    for (uint32_t i = 0; i < fake->n_entries && fake->dtype == CADRE_F32; i++) {
        const struct fake_entry *entry = &fake->entry[i];
        float *own = entry->data ? entry->data : entry->shard[CADRE_KIND_PARAM];
        uint64_t count =
            entry->data ? entry->count : entry->range[CADRE_KIND_PARAM].count;
        for (uint64_t k = 0; own && k < count; k++)
            own[k] = (float)(fake->axis.index + 1);
    }
}

cadre_status fake_create(struct fake_host *fake)
{
    forget(fake);
    fake->self = NULL;
    fake->plan.ranks = (uint32_t)fake->axis.size;
    fake->plan.rank = (uint32_t)fake->axis.index;
    return fake->ops->create(&fake->host, &fake->values, &fake->self);
}

cadre_status fake_plan(struct fake_host *fake)
{
    cadre_status rc = fake->ops->plan(fake->self, &fake->plan);
    if (!fake->memory)
        lay_out(fake);
    return rc;
}

cadre_status fake_start(struct fake_host *fake)
{
    cadre_status rc = fake_create(fake);
    if (rc)
        return rc;
    rc = fake_plan(fake);
    if (!rc)
        rc = fake->ops->bind(fake->self);
    if (rc)
        fake_stop(fake);
    return rc;
}

void fake_stop(struct fake_host *fake)
{
    if (fake->self)
        fake->ops->destroy(fake->self);
    fake->self = NULL;
}
