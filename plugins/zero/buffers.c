/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "plugins/zero/zero.h"

static void *find_spare(struct zero_pool *pool, uint64_t bytes)
{
    for (uint32_t i = 0; i < pool->n_spare; i++) {
        struct zero_spare *spare = &pool->spare[i];
        if (spare->bytes != bytes)
            continue;
        void *data = spare->data;
        *spare = pool->spare[--pool->n_spare];
        return data;
    }
    return NULL;
}

cadre_status cadre_zero_buffer_take(struct cadre_self *self, struct zero_pool *pool,
                                    uint64_t count, uint32_t dtype,
                                    struct cadre_buf *buf)
{
    uint64_t bytes = count * cadre_dtype_size(dtype);
    *buf = cadre_buf_of(find_spare(pool, bytes), count, dtype, CADRE_SPACE_DEVICE);
    if (buf->data)
        return CADRE_OK;
    while (pool->n_spare > 0 && pool->held + bytes > pool->budget) {
        const struct zero_spare *last = &pool->spare[--pool->n_spare];
        self->mem->free(self->host->ctx, last->data);
        pool->held -= last->bytes;
    }
    buf->data = self->mem->alloc(self->host->ctx, CADRE_SPACE_DEVICE, bytes, pool->tag);
    if (!buf->data)
        return cadre_refuse(self->host, CADRE_E_RESOURCE,
                            "no memory for %llu bytes of %s", (unsigned long long)bytes,
                            pool->tag);
    pool->held += bytes;
    return CADRE_OK;
}

void cadre_zero_buffer_give(struct cadre_self *self, struct zero_pool *pool,
                            struct cadre_buf *buf, uint32_t keep)
{
    uint64_t bytes = cadre_buf_bytes(buf);
    struct zero_spare *grown = NULL;
    if (!buf->data)
        return;
    if (keep)
        grown = realloc(pool->spare, (pool->n_spare + 1u) * sizeof *grown);
    if (grown) {
        pool->spare = grown;
        pool->spare[pool->n_spare++] = (struct zero_spare){buf->data, bytes};
    } else {
        self->mem->free(self->host->ctx, buf->data);
        pool->held -= bytes;
    }
    buf->data = NULL;
}

/* The core's storage of an entry of the run: whole, or this rank's shard. */
static cadre_status get(struct cadre_self *self, const struct zero_run *run,
                        cadre_param_id id, struct cadre_buf *buf)
{
    struct cadre_ctx *ctx = self->host->ctx;
    *buf = (struct cadre_buf){0};
    if (run->part)
        return self->param->shard(ctx, id, run->kind, buf);
    return run->kind == CADRE_KIND_GRAD ? self->param->grad(ctx, id, buf)
                                        : self->param->data(ctx, id, buf);
}

cadre_status cadre_zero_find(struct cadre_self *self, const struct zero_run *run,
                             struct cadre_buf *whole, struct cadre_buf *mine)
{
    const uint64_t begin = run->off[self->slot];
    struct cadre_buf kept = cadre_buf_of(NULL, run->count, run->dtype, 0);
    for (cadre_param_id i = run->first; i <= run->last; i++) {
        struct cadre_buf buf;
        uint64_t at = self->entry[i].at - run->at;
        CADRE_TRY(get(self, run, i, &buf));
        if (buf.count == 0)
            continue;
        if (run->part)
            at += cadre_zero_begin(self, i, self->slot) - begin;
        if (!kept.data)
            kept.data = buf.data;
        if (!buf.data ||
            (char *)buf.data != (char *)kept.data + at * cadre_dtype_size(buf.dtype))
            return cadre_refuse(
                self->host, CADRE_E_UNSUPPORTED,
                "the %s of '%s' do not follow those of the entry before "
                "it",
                run->what, self->entry[i].info.name);
    }
    *whole = kept;
    *mine =
        cadre_buf_slice(&kept, run->part ? 0 : begin, run->off[self->slot + 1] - begin);
    if (run->part)
        whole->data = NULL;
    return CADRE_OK;
}
