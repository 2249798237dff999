/* SPDX-License-Identifier: Apache-2.0 */
/* What all modes share: parsing ddp.compress, memory, and views of it. */
#include <stdlib.h>
#include <string.h>

#include "plugins/ddp/ddp.h"

#define MAX_RANK 1024.0
#define MAX_WARMUP 1e9

static const struct ddp_mode *const modes[] = {
    &ddp_mode_none, &ddp_mode_bf16,     &ddp_mode_fp16,   &ddp_mode_int8,
    &ddp_mode_topk, &ddp_mode_powersgd, &ddp_mode_onebit,
};

/* ---- choice ---- */

/* A plain decimal, with nothing after it; -1 for anything else. */
static double parse_number(const char *text)
{
    char *end = NULL;
    if (!*text || strspn(text, "0123456789.e-") != strlen(text))
        return -1;
    double value = strtod(text, &end);
    return *end ? -1 : value;
}

static cadre_status take_argument(struct cadre_self *self, const char *text)
{
    double value = parse_number(text);
    if (self->mode == &ddp_mode_topk) {
        self->ratio = value;
        if (value > 0 && value <= 1)
            return CADRE_OK;
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "ddp.compress = topk:%.64s: expected a ratio above 0 and "
                            "at most 1 after topk:, such as topk:0.01",
                            text);
    }
    if (self->mode == &ddp_mode_onebit) {
        self->warmup = value >= 1 && value <= MAX_WARMUP ? (uint64_t)value : 0;
        if (self->warmup > 0 && value == (double)self->warmup)
            return CADRE_OK;
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "ddp.compress = onebit:%.64s: expected a whole number of "
                            "warm-up steps from 1 to %g after onebit:, such as "
                            "onebit:1000",
                            text, MAX_WARMUP);
    }
    self->rank = value >= 1 && value <= MAX_RANK ? (uint64_t)value : 0;
    if (self->rank > 0 && value == (double)self->rank)
        return CADRE_OK;
    return cadre_refuse(self->host, CADRE_E_INVALID,
                        "ddp.compress = powersgd:%.64s: expected a whole rank from 1 "
                        "to %g after powersgd:, such as powersgd:4",
                        text, MAX_RANK);
}

cadre_status ddp_mode_parse(struct cadre_self *self, const char *text)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        size_t n = strlen(modes[i]->name);
        int argument = modes[i]->name[n - 1] == ':';
        if (argument ? strncmp(text, modes[i]->name, n) != 0
                     : strcmp(text, modes[i]->name) != 0)
            continue;
        self->mode = modes[i];
        return argument ? take_argument(self, text + n) : CADRE_OK;
    }
    return cadre_refuse(self->host, CADRE_E_INVALID,
                        "ddp.compress: expected none, bf16, fp16, int8, topk:R (such "
                        "as topk:0.01), powersgd:K (such as powersgd:4) or onebit:W "
                        "(such as onebit:1000), found '%.64s'",
                        text);
}

/* ---- memory ---- */

cadre_status ddp_mode_plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    struct ddp_need need = {0};
    if (!self->mode->need)
        return CADRE_OK;
    self->mode->need(self, &need);
    if (need.residuals)
        CADRE_TRY(
            plan->memory(plan->h, CADRE_SPACE_DEVICE, need.residuals, "residuals"));
    if (need.payloads)
        CADRE_TRY(plan->memory(plan->h, CADRE_SPACE_DEVICE, need.payloads, "payloads"));
    if (need.scratch)
        CADRE_TRY(plan->memory(plan->h, CADRE_SPACE_DEVICE, need.scratch, "scratch"));
    if (need.staging)
        CADRE_TRY(plan->memory(plan->h, CADRE_SPACE_HOST, need.staging, "staging"));
    return CADRE_OK;
}

cadre_status ddp_mode_bind(struct cadre_self *self)
{
    self->offsets = calloc(2 * (self->ranks + (size_t)1), sizeof *self->offsets);
    if (!self->offsets)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %u ranks",
                            self->ranks);
    for (uint32_t i = 0; self->mode->bind && i < self->n_buckets; i++)
        CADRE_TRY(self->mode->bind(self, &self->bucket[i]));
    return CADRE_OK;
}

static void give_back(struct cadre_self *self, struct cadre_buf *buf)
{
    if (buf->data)
        self->mem->free(self->ctx, buf->data);
    buf->data = NULL;
}

void ddp_mode_release(struct cadre_self *self)
{
    for (uint32_t i = 0; i < self->n_buckets; i++) {
        give_back(self, &self->bucket[i].residual);
        give_back(self, &self->bucket[i].left);
        give_back(self, &self->bucket[i].right);
    }
    give_back(self, &self->scratch);
    give_back(self, &self->staging);
    free(self->offsets);
}

cadre_status ddp_take(struct cadre_self *self, uint32_t dtype, uint64_t count,
                      const char *tag, struct cadre_buf *out)
{
    uint64_t bytes = count * cadre_dtype_size(dtype);
    *out = cadre_buf_of(NULL, count, dtype, CADRE_SPACE_DEVICE);
    if (count == 0)
        return CADRE_OK;
    out->data = self->mem->alloc(self->ctx, CADRE_SPACE_DEVICE, bytes, tag);
    if (out->data)
        return self->ops->zero(self->ctx, out->data, bytes);
    return cadre_refuse(self->host, CADRE_E_RESOURCE,
                        "no memory for %llu bytes of gradients' %s",
                        (unsigned long long)bytes, tag);
}

cadre_status ddp_scratch_reserve(struct cadre_self *self, uint64_t bytes)
{
    if (bytes <= self->scratch.count)
        return CADRE_OK;
    give_back(self, &self->scratch);
    return ddp_take(self, CADRE_U8, bytes, "scratch", &self->scratch);
}

cadre_status ddp_staging_reserve(struct cadre_self *self, uint64_t bytes)
{
    if (bytes <= self->staging.count)
        return CADRE_OK;
    give_back(self, &self->staging);
    self->staging =
        cadre_buf_of(self->mem->alloc(self->ctx, CADRE_SPACE_HOST, bytes, "staging"),
                     bytes, CADRE_U8, CADRE_SPACE_HOST);
    if (self->staging.data)
        return CADRE_OK;
    return cadre_refuse(self->host, CADRE_E_RESOURCE,
                        "no host memory for %llu bytes of signs",
                        (unsigned long long)bytes);
}

/* ---- views and small steps ---- */

struct cadre_buf ddp_view(const struct cadre_buf *buf, uint64_t at, uint32_t dtype,
                          uint64_t count)
{
    return cadre_buf_of((char *)buf->data + at, count, dtype, buf->space);
}

struct cadre_buf ddp_scratch(const struct cadre_self *self, uint32_t dtype,
                             uint64_t begin, uint64_t count)
{
    return ddp_view(&self->scratch, begin * cadre_dtype_size(dtype), dtype, count);
}

cadre_status ddp_subtract(struct cadre_self *self, const struct cadre_buf *x,
                          const struct cadre_buf *y)
{
    CADRE_TRY(self->ops->scale(self->ctx, y, -1));
    return self->ops->add(self->ctx, x, x, y);
}

cadre_status ddp_copy(struct cadre_self *self, const struct cadre_buf *dst,
                      const struct cadre_buf *src)
{
    return self->ops->copy(self->ctx, dst->data, src->data, cadre_buf_bytes(dst));
}

cadre_status ddp_computed(struct cadre_self *self, cadre_event *out)
{
    *out = 0;
    return self->stream->record(self->ctx, out);
}

cadre_status ddp_gather(struct cadre_self *self, struct ddp_bucket *bucket)
{
    struct cadre_buf mine = ddp_view(&bucket->left, self->index * bucket->slice_bytes,
                                     CADRE_U8, bucket->slice_bytes);
    cadre_event after = 0;
    for (uint32_t r = 0; r <= self->ranks; r++)
        self->offsets[r] = r * bucket->slice_bytes;
    CADRE_TRY(ddp_computed(self, &after));
    struct cadre_post post = ddp_post(bucket, after);
    CADRE_TRY(
        self->comm->all_gather(self->axis, &mine, &bucket->left, self->offsets, &post));
    bucket->done = post.done;
    return CADRE_OK;
}

/* ---- the mode that compresses nothing: gradients are summed in place ---- */

static cadre_status send_whole(struct cadre_self *self, struct ddp_bucket *bucket)
{
    struct cadre_post post = ddp_post(bucket, bucket->ready);
    CADRE_TRY(self->comm->all_reduce(self->axis, &bucket->grad, &bucket->grad,
                                     CADRE_SUM, &post));
    bucket->done = post.done;
    return CADRE_OK;
}

static cadre_status finish_whole(struct cadre_self *self, struct ddp_bucket *bucket)
{
    return self->comm->stream_wait(self->axis, bucket->done);
}

const struct ddp_mode ddp_mode_none = {
    .name = "none", .in_place = 1, .send = send_whole, .finish = finish_whole};
