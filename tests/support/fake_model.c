/* SPDX-License-Identifier: Apache-2.0 */
/* cadre.model and cadre.param of the fake host. */
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/support/fake_host.h"

static struct fake_host *host_of(struct cadre_ctx *ctx)
{
    return (struct fake_host *)(void *)ctx;
}

struct fake_entry *fake_entry_of(struct cadre_ctx *ctx, cadre_param_id id)
{
    ck_assert_uint_lt(id, host_of(ctx)->n_entries);
    return &host_of(ctx)->entry[id];
}

/* ---- model ---- */

static uint32_t n_params(struct cadre_ctx *ctx)
{
    return host_of(ctx)->n_entries;
}

static uint32_t block_elements(const struct fake_entry *entry)
{
    return entry->form == CADRE_FORM_PLAIN ? 1 : CADRE_INT8_BLOCK;
}

static uint32_t block_bytes(const struct fake_host *fake,
                            const struct fake_entry *entry)
{
    return entry->form == CADRE_FORM_PLAIN ? (fake->dtype == CADRE_F64 ? 8 : 4)
                                           : CADRE_INT8_BLOCK + 4;
}

uint64_t fake_stored(const struct fake_host *fake, const struct fake_entry *entry,
                     uint32_t *dtype)
{
    bool plain = entry->form == CADRE_FORM_PLAIN;
    uint64_t per = block_elements(entry);
    *dtype = plain ? fake->dtype : CADRE_U8;
    return plain ? entry->count
                 : (entry->count + per - 1) / per * block_bytes(fake, entry);
}

static cadre_status param(struct cadre_ctx *ctx, cadre_param_id id,
                          struct cadre_param_info *info)
{
    struct fake_host *fake = host_of(ctx);
    if (fake_nth(&fake->params, fake->fail_param))
        return CADRE_E_INTERNAL;
    const struct fake_entry *entry = fake_entry_of(ctx, id);
    ck_assert_uint_eq(info->struct_size, sizeof *info);
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
        .frozen = entry->frozen,
        .form = entry->form,
        .form_elements = block_elements(entry),
        .form_bytes = block_bytes(fake, entry),
        .expert = -1,
        .adapts = -1,
    };
    return CADRE_OK;
}

const struct cadre_model_svc fake_model = {
    .struct_size = sizeof fake_model, .n_params = n_params, .param = param};

/* ---- param ---- */

static cadre_status give(uint32_t dtype, void *data, uint64_t count,
                         struct cadre_buf *out)
{
    *out = (struct cadre_buf){data, count, dtype, CADRE_SPACE_DEVICE};
    return CADRE_OK;
}

static cadre_status data(struct cadre_ctx *ctx, cadre_param_id id,
                         struct cadre_buf *out)
{
    const struct fake_entry *entry = fake_entry_of(ctx, id);
    uint32_t dtype;
    uint64_t count = fake_stored(host_of(ctx), entry, &dtype);
    return give(dtype, entry->data, count, out);
}

static cadre_status grad(struct cadre_ctx *ctx, cadre_param_id id,
                         struct cadre_buf *out)
{
    const struct fake_entry *entry = fake_entry_of(ctx, id);
    return give(host_of(ctx)->dtype, entry->detached ? NULL : entry->grad, entry->count,
                out);
}

/* Frozen entries have no gradient, so those around them are contiguous. */
static cadre_status grad_span(struct cadre_ctx *ctx, cadre_param_id first,
                              cadre_param_id last, struct cadre_buf *out)
{
    const struct fake_entry *begin = fake_entry_of(ctx, first);
    const struct fake_entry *end = fake_entry_of(ctx, last);
    uint32_t dtype = host_of(ctx)->dtype;
    for (cadre_param_id i = first; i <= last; i++)
        if (fake_entry_of(ctx, i)->separate || fake_entry_of(ctx, i)->detached)
            return CADRE_E_UNSUPPORTED;
    ck_assert(begin->grad && end->grad);
    size_t bytes = (size_t)((char *)end->grad - (char *)begin->grad);
    return give(dtype, begin->grad, bytes / (dtype == CADRE_F64 ? 8 : 4) + end->count,
                out);
}

/* Elements of this rank's range. */
static uint64_t range_count(struct cadre_ctx *ctx, cadre_param_id id, uint32_t kind)
{
    const struct fake_entry *entry = fake_entry_of(ctx, id);
    const struct fake_range *range = &entry->range[kind];
    uint32_t dtype;
    ck_assert(kind >= CADRE_KIND_PARAM && kind <= CADRE_KIND_OPT);
    return range->placed              ? range->count
           : kind == CADRE_KIND_PARAM ? fake_stored(host_of(ctx), entry, &dtype)
                                      : entry->count;
}

static cadre_status shard(struct cadre_ctx *ctx, cadre_param_id id, uint32_t kind,
                          struct cadre_buf *out)
{
    const struct fake_entry *entry = fake_entry_of(ctx, id);
    uint32_t dtype;
    fake_stored(host_of(ctx), entry, &dtype);
    return give(kind == CADRE_KIND_PARAM ? dtype : host_of(ctx)->dtype,
                entry->shard[kind], range_count(ctx, id, kind), out);
}

static cadre_status range(struct cadre_ctx *ctx, cadre_param_id id, uint32_t kind,
                          uint64_t *begin, uint64_t *count)
{
    const struct fake_range *placed = &fake_entry_of(ctx, id)->range[kind];
    *begin = placed->placed ? placed->begin : 0;
    *count = range_count(ctx, id, kind);
    return CADRE_OK;
}

static cadre_status attach(struct cadre_ctx *ctx, cadre_param_id id,
                           const struct cadre_buf *buf)
{
    struct fake_entry *entry = fake_entry_of(ctx, id);
    uint32_t dtype;
    uint64_t count = fake_stored(host_of(ctx), entry, &dtype);
    ck_assert(entry->range[CADRE_KIND_PARAM].placed);
    ck_assert(!buf || (buf->count == count && buf->dtype == dtype));
    entry->data = buf ? buf->data : NULL;
    return CADRE_OK;
}

static cadre_status attach_grad(struct cadre_ctx *ctx, cadre_param_id id,
                                const struct cadre_buf *buf)
{
    struct fake_entry *entry = fake_entry_of(ctx, id);
    ck_assert(entry->range[CADRE_KIND_GRAD].placed);
    ck_assert(!buf || buf->count == entry->count);
    entry->grad = buf ? buf->data : NULL;
    if (buf)
        memset(entry->grad, 0, fake_bytes(buf));
    return CADRE_OK;
}

static cadre_status owned(struct cadre_ctx *ctx, cadre_param_id id,
                          struct cadre_buf *out)
{
    const struct fake_entry *entry = fake_entry_of(ctx, id);
    uint64_t begin, count;
    range(ctx, id, CADRE_KIND_OPT, &begin, &count);
    count = entry->frozen || entry->tied_to >= 0 ? 0 : count;
    return give(host_of(ctx)->dtype, count ? entry->data + begin : NULL, count, out);
}

static cadre_status pending(struct cadre_ctx *ctx, cadre_param_id id, cadre_event event)
{
    fake_entry_of(ctx, id)->pending = event;
    return CADRE_OK;
}

/* The sum of a micro-batch, which the core adds where a range was placed. */
static void accumulate(struct fake_host *fake, struct fake_entry *entry,
                       const struct cadre_buf *sum, cadre_event ready)
{
    const float *from = sum->data;
    fake_end_post(fake, ready);
    entry->parts++;
    if (!entry->range[CADRE_KIND_GRAD].placed)
        return;
    for (uint64_t i = 0; i < sum->count; i++)
        entry->shard[CADRE_KIND_GRAD][i] += from[i];
}

static cadre_status reduced(struct cadre_ctx *ctx, cadre_param_id id,
                            const struct cadre_buf *sum, cadre_event ready)
{
    struct fake_host *fake = host_of(ctx);
    struct fake_entry *entry = fake_entry_of(ctx, id);
    bool placed = entry->range[CADRE_KIND_GRAD].placed;
    const void *own = placed ? entry->shard[CADRE_KIND_GRAD] : entry->grad;
    uint64_t count = range_count(ctx, id, CADRE_KIND_GRAD);
    if (fake_nth(&fake->reports, fake->fail_reduced))
        return CADRE_E_INTERNAL;
    if (sum->count != count || sum->dtype != fake->dtype)
        return fake_refuse(fake, CADRE_E_INVALID,
                           "a sum of '%s' of %d elements, expected %d", entry->name,
                           (int)sum->count, (int)count);
    if (entry->owed == 0)
        return fake_refuse(fake, CADRE_E_INVALID, "a sum of '%s' that nobody gave",
                           entry->name);
    entry->owed--;
    entry->reports++;
    entry->sum = *sum;
    entry->sum_ready = ready;
    if (fake->map == CADRE_MICROBATCHES_CYCLIC)
        accumulate(fake, entry, sum, ready);
    else
        ck_assert(count == 0 || sum->data == own);
    if (fake->on_reduced)
        fake->on_reduced(fake, id, ready);
    return CADRE_OK;
}

/* An optimizer whose first moment is the gradient. */
static cadre_status moments(struct cadre_ctx *ctx, uint64_t held, double *decay)
{
    host_of(ctx)->held = held;
    *decay = 0;
    return CADRE_OK;
}

const struct cadre_param_svc fake_param = {
    .struct_size = sizeof fake_param,
    .data = data,
    .attach = attach,
    .grad = grad,
    .attach_grad = attach_grad,
    .grad_span = grad_span,
    .shard = shard,
    .range = range,
    .owned = owned,
    .pending = pending,
    .reduced = reduced,
    .moments = moments,
};
