/* SPDX-License-Identifier: Apache-2.0 */
/* Secondary shards: what was gathered over all ranks stays sharded over those of a node
 * until it is updated. So a block is gathered over all ranks once a step; its other
 * gathers, in backward and in further micro-batches, stay inside the node. Frozen
 * blocks are gathered over all ranks once.
 * Source: Wang et al., ZeRO++, 2023, section 3.2 (hpZ). */
#include "plugins/zero/zero.h"

#define ALIGN_BYTES 64u

int cadre_zero_secondary_on(const struct cadre_self *self)
{
    return self->secondary && self->two_levels;
}

static uint64_t element_bytes(const struct cadre_self *self,
                              const struct zero_block *block)
{
    return cadre_dtype_size(self->entry[block->first].dtype);
}

/* Where the secondary shard of a node's rank begins; for their number, the end. */
static uint64_t begin_of(const struct cadre_self *self, const struct zero_block *block,
                         uint32_t rank)
{
    const uint64_t unit = ALIGN_BYTES / element_bytes(self, block);
    const uint64_t even = (block->count + self->inside.size - 1) / self->inside.size;
    const uint64_t begin = rank * ((even + unit - 1) / unit * unit);
    return begin < block->count ? begin : block->count;
}

static uint64_t count_of(const struct cadre_self *self, const struct zero_block *block)
{
    const uint32_t me = self->inside.me;
    return begin_of(self, block, me + 1) - begin_of(self, block, me);
}

static uint64_t padded_bytes(const struct cadre_self *self,
                             const struct zero_block *block)
{
    uint64_t bytes = count_of(self, block) * element_bytes(self, block);
    return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

uint64_t cadre_zero_secondary_bytes(const struct cadre_self *self)
{
    uint64_t bytes = 0;
    for (uint32_t b = 0; cadre_zero_secondary_on(self) && b < self->n_blocks; b++)
        if (self->block[b].held)
            bytes += padded_bytes(self, &self->block[b]);
    return bytes;
}

cadre_status cadre_zero_secondary_bind(struct cadre_self *self)
{
    const uint64_t bytes = cadre_zero_secondary_bytes(self);
    uint64_t at = 0;
    if (bytes == 0)
        return CADRE_OK;
    char *memory = self->mem->alloc(self->host->ctx, CADRE_SPACE_DEVICE, bytes,
                                    "secondary shards");
    if (!memory)
        return cadre_refuse(self->host, CADRE_E_RESOURCE,
                            "no memory for %llu bytes of secondary shards",
                            (unsigned long long)bytes);
    for (uint32_t b = 0; b < self->n_blocks; b++) {
        struct zero_block *block = &self->block[b];
        if (!block->held)
            continue;
        block->kept = cadre_buf_of(memory + at, count_of(self, block),
                                   self->entry[block->first].dtype, CADRE_SPACE_DEVICE);
        at += padded_bytes(self, block);
    }
    return CADRE_OK;
}

cadre_status cadre_zero_secondary_gather(struct cadre_self *self,
                                         struct zero_block *block)
{
    struct cadre_post post =
        cadre_post("zero parameters of a unit in a node", CADRE_TRAFFIC_PARAM, 0);
    for (uint32_t r = 0; r <= self->inside.size; r++)
        self->inside_off[r] = begin_of(self, block, r);
    CADRE_TRY(self->comm->all_gather(self->inside.axis, &block->kept, &block->values,
                                     self->inside_off, &post));
    block->done = post.done;
    block->along = self->inside.axis;
    block->gathering = 1;
    return CADRE_OK;
}

cadre_status cadre_zero_secondary_keep(struct cadre_self *self,
                                       struct zero_block *block)
{
    if (!cadre_zero_secondary_on(self) || block->fresh)
        return CADRE_OK;
    block->fresh = 1;
    if (block->kept.count == 0)
        return CADRE_OK;
    struct cadre_buf mine = cadre_buf_slice(
        &block->values, begin_of(self, block, self->inside.me), block->kept.count);
    return self->ops->copy(self->host->ctx, block->kept.data, mine.data,
                           cadre_buf_bytes(&mine));
}

void cadre_zero_secondary_forget(struct cadre_self *self)
{
    for (uint32_t b = 0; b < self->n_blocks; b++)
        self->block[b].fresh = self->block[b].fresh && self->block[b].frozen;
}
