/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "plugins/zero/zero.h"

static void *find_spare(struct cadre_self *self, uint64_t bytes, const char *tag)
{
    for (uint32_t i = 0; i < self->n_spare; i++) {
        struct zero_spare *spare = &self->spare[i];
        if (spare->bytes != bytes || spare->tag != tag)
            continue;
        void *data = spare->data;
        *spare = self->spare[--self->n_spare];
        return data;
    }
    return NULL;
}

cadre_status cadre_zero_buffer_take(struct cadre_self *self, uint64_t count,
                                    uint32_t dtype, const char *tag,
                                    struct cadre_buf *buf)
{
    uint64_t bytes = count * cadre_dtype_size(dtype);
    *buf = (struct cadre_buf){
        .struct_size = sizeof *buf,
        .dtype = dtype,
        .count = count,
        .space = CADRE_SPACE_DEVICE,
        .data = find_spare(self, bytes, tag),
    };
    if (!buf->data)
        buf->data = self->mem->alloc(self->host->ctx, CADRE_SPACE_DEVICE, bytes, tag);
    if (buf->data)
        return CADRE_OK;
    return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %llu bytes of %s",
                        (unsigned long long)bytes, tag);
}

void cadre_zero_buffer_give(struct cadre_self *self, struct cadre_buf *buf,
                            const char *tag, uint32_t keep)
{
    uint64_t bytes = buf->count * cadre_dtype_size(buf->dtype);
    struct zero_spare *grown = NULL;
    if (!buf->data)
        return;
    if (keep)
        grown = realloc(self->spare, (self->n_spare + 1u) * sizeof *grown);
    if (grown) {
        self->spare = grown;
        self->spare[self->n_spare++] = (struct zero_spare){buf->data, bytes, tag};
    } else {
        self->mem->free(self->host->ctx, buf->data);
    }
    buf->data = NULL;
}
