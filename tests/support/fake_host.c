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

cadre_status fake_refuse(struct fake_host *fake, cadre_status status,
                         const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(fake->failure, sizeof fake->failure, format, args);
    va_end(args);
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

static struct cadre_axis *mesh_find(struct cadre_ctx *ctx, const char *name)
{
    struct cadre_axis *axis = &host_of(ctx)->axis;
    return axis->size > 0 && (!name || !strcmp(name, axis->name)) ? axis : NULL;
}

static struct cadre_axis *mesh_axis(struct cadre_ctx *ctx, const char *name)
{
    struct cadre_axis *axis = mesh_find(ctx, name);
    if (!axis)
        fake_refuse(host_of(ctx), CADRE_E_INVALID, "no axis '%s'", name ? name : "");
    return axis;
}

static int32_t mesh_rank(const struct cadre_axis *axis)
{
    ck_assert_ptr_nonnull(axis);
    return axis->index;
}

static int32_t mesh_size(const struct cadre_axis *axis)
{
    ck_assert_ptr_nonnull(axis);
    return axis->size;
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

/* ---- mem ---- */

/* The tag that the plan announced; FAKE_TAGS: not with so much. */
static int find_tag(const struct fake_host *fake, uint32_t space, uint64_t bytes,
                    const char *name)
{
    int i = 0;
    while (i < FAKE_TAGS &&
           (fake->tag[i].space != space || strcmp(fake->tag[i].name, name) != 0 ||
            fake->tag[i].now + bytes > fake->tag[i].planned))
        i++;
    return i;
}

static void *mem_alloc(struct cadre_ctx *ctx, uint32_t space, uint64_t bytes,
                       const char *tag)
{
    struct fake_host *fake = host_of(ctx);
    int i = 0, t = find_tag(fake, space, bytes, tag);
    if (fake_nth(&fake->allocs, fake->fail_alloc))
        return NULL;
    if (t == FAKE_TAGS) {
        fake_refuse(fake, CADRE_E_INVALID, "%d bytes of '%s' are beyond the plan",
                    (int)bytes, tag);
        return NULL;
    }
    while (fake->block[i].data)
        ck_assert_int_lt(++i, FAKE_BLOCKS);
    fake->block[i].data = aligned_alloc(64, (bytes + 127) / 64 * 64);
    fake->block[i].bytes = bytes;
    fake->block[i].space = space;
    fake->block[i].tag = t;
    fake->tag[t].now += bytes;
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
    fake->tag[fake->block[i].tag].now -= fake->block[i].bytes;
    free(data);
    fake->block[i].data = NULL;
}

/* ---- values ---- */

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
    static const struct cadre_mesh_svc mesh = {.struct_size = sizeof mesh,
                                               .axis = mesh_axis,
                                               .find = mesh_find,
                                               .rank = mesh_rank,
                                               .size = mesh_size};
    static const struct cadre_mem_svc mem = {sizeof mem, 0, mem_alloc, mem_free};
    static const struct cadre_stream_svc stream = {sizeof stream, 0, stream_record,
                                                   stream_wait};
    static const struct cadre_rng_svc rng = {.struct_size = sizeof rng,
                                             .normal = rng_normal};
    fake_set_service(fake, CADRE_SERVICE_MESH, &mesh);
    fake_set_service(fake, CADRE_SERVICE_COMM, &fake_comm);
    fake_set_service(fake, CADRE_SERVICE_MODEL, &fake_model);
    fake_set_service(fake, CADRE_SERVICE_PARAM, &fake_param);
    fake_set_service(fake, CADRE_SERVICE_TREE, &fake_tree);
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
    fake_plan_init(fake);
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

static void forget_plan(struct fake_host *fake)
{
    fake->claims[0] = fake->by_design[0] = 0;
    fake->period = 1;
    fake->planned = 0;
    memset(fake->tag, 0, sizeof fake->tag);
}

static void forget(struct fake_host *fake)
{
    fake_forget_posts(fake);
    fake_free_nodes(fake);
    for (int i = 0; i < FAKE_BLOCKS; i++) {
        free(fake->block[i].data);
        fake->block[i].data = NULL;
    }
    free(fake->memory);
    fake->memory = NULL;
    fake->services = fake->params = fake->plans = fake->allocs = fake->steps = 0;
    fake->reports = 0;
    fake->failure[0] = 0;
    fake->batch = fake->n_chunks = fake->live_blocks = 0;
    fake->map = fake->other_map ? fake->other_map : CADRE_MICROBATCHES_BLOCK;
    fake->now = fake->most = fake->taken = fake->ready = 0;
    forget_plan(fake);
    for (uint32_t i = 0; i < fake->n_entries; i++) {
        struct fake_entry *entry = &fake->entry[i];
        memset(entry->range, 0, sizeof entry->range);
        memset(entry->shard, 0, sizeof entry->shard);
        entry->data = entry->grad = NULL;
        entry->parts = entry->owed = entry->reports = 0;
        entry->pending = 0;
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
        uint32_t dtype = fake->dtype;
        uint64_t all =
            kind == CADRE_KIND_PARAM ? fake_stored(fake, entry, &dtype) : entry->count;
        uint64_t count = range->placed ? range->count : all;
        if (kind == CADRE_KIND_GRAD && entry->frozen)
            continue;
        at += fake->torn ? 64 : 0;
        if (range->placed)
            entry->shard[kind] = count ? (float *)(void *)at : NULL;
        else if (kind == CADRE_KIND_GRAD)
            entry->grad = (float *)(void *)at;
        else if (entry->tied_to < 0)
            entry->data = (float *)(void *)at;
        at += (count * element_bytes(dtype) + 63) / 64 * 64;
    }
    return at;
}

/* What lies here says which rank it comes from. */
static void fill_values(const struct fake_host *fake, struct fake_entry *entry)
{
    float *own = entry->data ? entry->data : entry->shard[CADRE_KIND_PARAM];
    uint32_t dtype;
    uint64_t count = fake_stored(fake, entry, &dtype);
    if (!entry->data)
        count = entry->range[CADRE_KIND_PARAM].count;
    if (own && dtype == CADRE_U8)
        memset(own, fake->axis.index + 1, count);
    for (uint64_t k = 0; own && dtype != CADRE_U8 && k < count; k++)
        own[k] = (float)(fake->axis.index + 1);
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
    for (uint32_t i = 0; i < fake->n_entries && fake->dtype == CADRE_F32; i++)
        fill_values(fake, &fake->entry[i]);
}

cadre_status fake_create(struct fake_host *fake)
{
    forget(fake);
    fake->self = NULL;
    fake->plan.ranks = (uint32_t)fake->axis.size;
    fake->plan.rank = (uint32_t)fake->axis.index;
    fake->plan.axis = fake->axis.size > 0 ? fake->axis.name : NULL;
    const struct cadre_create in = {.struct_size = sizeof in,
                                    .host = &fake->host,
                                    .values = &fake->values,
                                    .name = "fake"};
    return fake->ops->create(&in, &fake->self);
}

cadre_status fake_bind(struct fake_host *fake)
{
    const struct cadre_bind in = {.struct_size = sizeof in};
    return fake->ops->bind(fake->self, &in);
}

cadre_status fake_plan(struct fake_host *fake)
{
    forget_plan(fake);
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
        rc = fake_bind(fake);
    if (rc)
        fake_stop(fake);
    return rc;
}

void fake_stop(struct fake_host *fake)
{
    const struct cadre_end end = {.struct_size = sizeof end};
    if (fake->self)
        fake->ops->destroy(fake->self, &end);
    fake->self = NULL;
    fake_free_nodes(fake);
}
