/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters on their way. In stages 1 and 2 every rank keeps all of them, and after
 * the update each sends the part it updated. In stage 3 a rank keeps its part alone and
 * gathers a unit's blocks before the unit runs, the next ones' meanwhile, and lets them
 * go after (Rajbhandari et al., ZeRO, SC20, section 5.3). */
#include "plugins/zero/zero.h"

/* Does the unit need the block? */
static int needs(const struct cadre_self *self, uint32_t unit, uint32_t block)
{
    return self->needed[(size_t)unit * self->n_blocks + block];
}

static int runs(const struct cadre_self *self, uint32_t unit)
{
    for (uint32_t b = 0; b < self->n_blocks; b++)
        if (needs(self, unit, b))
            return 1;
    return 0;
}

/* The i-th unit after `unit`, when `next` is the first; -1: none or not known. */
static int64_t ahead(const struct cadre_self *self, uint32_t unit, int32_t next,
                     int64_t i)
{
    if (next < 0)
        return -1;
    int64_t at = next > (int64_t)unit ? next + i : next - i;
    return at >= 0 && at < self->n_units && runs(self, (uint32_t)at) ? at : -1;
}

uint64_t cadre_zero_values_bytes(const struct cadre_self *self)
{
    uint64_t most = 0;
    for (uint32_t u = 0; u < self->n_units; u++) {
        uint64_t bytes = 0;
        for (uint32_t b = 0; b < self->n_blocks; b++) {
            const struct zero_block *block = &self->block[b];
            int wanted = 0;
            for (int64_t i = 0; i <= self->prefetch && u + i < self->n_units; i++)
                wanted |= needs(self, u + (uint32_t)i, b);
            if (wanted)
                bytes += block->count *
                         cadre_dtype_size(self->entry[block->first].info.dtype);
        }
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Values of an entry as the core keeps them: whole, or in stage 3 this rank's range. */
static cadre_status get(struct cadre_self *self, cadre_param_id id,
                        struct cadre_buf *buf)
{
    *buf = (struct cadre_buf){.struct_size = sizeof *buf};
    return self->stage < 3
               ? self->param->data(self->host->ctx, id, buf)
               : self->param->shard(self->host->ctx, id, CADRE_KIND_PARAM, buf);
}

/* Where the core keeps the block: whole, or in stage 3 this rank's part of it. */
static cadre_status find_values(struct cadre_self *self, struct zero_block *block)
{
    uint64_t start = self->stage < 3 ? 0 : block->off[self->me];
    struct cadre_buf kept = {
        .struct_size = sizeof kept,
        .dtype = self->entry[block->first].info.dtype,
        .count = block->count,
    };
    for (cadre_param_id i = block->first; i <= block->last; i++) {
        struct cadre_buf buf;
        uint64_t at = self->entry[i].at - start;
        cadre_status rc = get(self, i, &buf);
        if (rc)
            return rc;
        if (buf.count == 0)
            continue;
        if (self->stage == 3)
            at += cadre_zero_begin(self, i, self->me);
        if (!kept.data)
            kept.data = buf.data;
        if (!buf.data ||
            (char *)buf.data != (char *)kept.data + at * cadre_dtype_size(buf.dtype))
            return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                                "the values of '%s' do not follow those of the entry "
                                "before it",
                                self->entry[i].info.name);
    }
    uint64_t begin = block->off[self->me];
    block->values = kept;
    block->mine = cadre_buf_slice(&kept, self->stage < 3 ? begin : 0,
                                  block->off[self->me + 1] - begin);
    if (self->stage == 3)
        block->values.data = NULL;
    return CADRE_OK;
}

cadre_status cadre_zero_values_bind(struct cadre_self *self)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t b = 0; !rc && b < self->n_blocks; b++)
        if (self->block[b].held)
            rc = find_values(self, &self->block[b]);
    return rc;
}

static cadre_status join(struct cadre_self *self, struct zero_block *block)
{
    if (!block->gathering)
        return CADRE_OK;
    block->gathering = 0;
    return self->comm->join(self->axis, block->done);
}

cadre_status cadre_zero_values_spread(struct cadre_self *self)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t b = 0; !rc && b < self->n_blocks; b++) {
        struct zero_block *block = &self->block[b];
        if (!block->held)
            continue;
        rc = self->comm->all_gather(self->axis, "zero parameters after the update",
                                    &block->mine, &block->values, block->off, 0,
                                    &block->done);
        block->gathering = rc == CADRE_OK;
    }
    return rc || self->overlap ? rc : cadre_zero_values_settle(self);
}

static cadre_status gather(struct cadre_self *self, struct zero_block *block)
{
    if (block->values.data)
        return CADRE_OK;
    cadre_status rc = cadre_zero_buffer_take(self, &self->values, block->count,
                                             block->values.dtype, &block->values);
    if (!rc)
        rc = self->comm->all_gather(self->axis, "zero parameters of a unit",
                                    &block->mine, &block->values, block->off, 0,
                                    &block->done);
    block->gathering = rc == CADRE_OK;
    return rc;
}

static cadre_status gather_unit(struct cadre_self *self, uint32_t unit)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t b = 0; !rc && b < self->n_blocks; b++)
        if (needs(self, unit, b))
            rc = gather(self, &self->block[b]);
    return rc;
}

static cadre_status attach(struct cadre_self *self, struct zero_block *block)
{
    cadre_status rc = CADRE_OK;
    for (cadre_param_id i = block->first; !rc && i <= block->last; i++) {
        struct cadre_buf part = cadre_buf_slice(&block->values, self->entry[i].at,
                                                self->entry[i].info.count);
        rc = self->param->attach(self->host->ctx, i, &part);
    }
    block->attached = 1;
    return rc;
}

cadre_status cadre_zero_values_use(struct cadre_self *self, uint32_t unit, int32_t next)
{
    cadre_status rc = self->stage == 3 ? gather_unit(self, unit) : CADRE_OK;
    for (uint32_t b = 0; !rc && b < self->n_blocks; b++) {
        struct zero_block *block = &self->block[b];
        if (!needs(self, unit, b))
            continue;
        rc = join(self, block);
        if (!rc && self->stage == 3 && !block->attached)
            rc = attach(self, block);
    }
    for (int64_t i = 0; !rc && self->stage == 3 && i < self->prefetch; i++) {
        int64_t later = ahead(self, unit, next, i);
        if (later < 0)
            break;
        rc = gather_unit(self, (uint32_t)later);
    }
    return rc;
}

static cadre_status let_go(struct cadre_self *self, struct zero_block *block)
{
    cadre_status rc = join(self, block);
    for (cadre_param_id i = block->first; !rc && block->attached && i <= block->last;
         i++)
        rc = self->param->attach(self->host->ctx, i, NULL);
    block->attached = 0;
    if (!rc)
        cadre_zero_buffer_give(self, &self->values, &block->values, block->lasting);
    return rc;
}

cadre_status cadre_zero_values_release(struct cadre_self *self, uint32_t unit,
                                       int32_t next)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t b = 0; !rc && b < self->n_blocks; b++) {
        int wanted = !needs(self, unit, b);
        for (int64_t i = 0; !wanted && i < self->prefetch + !self->prefetch; i++) {
            int64_t later = ahead(self, unit, next, i);
            wanted = later >= 0 && needs(self, (uint32_t)later, b);
        }
        if (!wanted)
            rc = let_go(self, &self->block[b]);
    }
    return rc;
}

cadre_status cadre_zero_values_settle(struct cadre_self *self)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t b = 0; !rc && b < self->n_blocks; b++) {
        struct zero_block *block = &self->block[b];
        if (self->stage < 3)
            rc = join(self, block);
        else if (block->values.data)
            rc = let_go(self, block);
    }
    return rc;
}
