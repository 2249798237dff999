/* SPDX-License-Identifier: Apache-2.0 */
/* Gathering of parameters. In stages 1 and 2 every rank keeps all of them and sends the
 * shard it updated after the update. In stage 3 a rank keeps its shard only. It gathers
 * a unit's blocks before the unit runs, prefetches those of the next units, and frees
 * them after (Rajbhandari et al., ZeRO, SC20, section 5.3). */
#include "plugins/zero/zero.h"

int cadre_zero_needs(const struct cadre_self *self, uint32_t unit, uint32_t block)
{
    return self->needed[(size_t)unit * self->n_blocks + block];
}

static int runs(const struct cadre_self *self, uint32_t unit)
{
    for (uint32_t b = 0; b < self->n_blocks; b++)
        if (cadre_zero_needs(self, unit, b))
            return 1;
    return 0;
}

int cadre_zero_runs_all(const struct cadre_self *self)
{
    for (uint32_t u = 0; u < self->n_units; u++)
        if (!runs(self, u))
            return 0;
    return 1;
}

/* The i-th unit after `unit`, where `next` is the first; -1: none or not known. */
static int64_t ahead(const struct cadre_self *self, uint32_t unit, int32_t next,
                     int64_t i)
{
    if (next < 0)
        return -1;
    int64_t at = next > (int64_t)unit ? next + i : next - i;
    return at >= 0 && at < self->n_units && runs(self, (uint32_t)at) ? at : -1;
}

static uint64_t bytes_of(const struct cadre_self *self, uint32_t block)
{
    return self->block[block].count *
           cadre_dtype_size(self->entry[self->block[block].first].dtype);
}

/* Bytes of the blocks that are there while `unit` runs and `next` comes after it. */
static uint64_t bytes_between(const struct cadre_self *self, uint32_t unit,
                              uint32_t next)
{
    uint64_t bytes = 0;
    for (uint32_t b = 0; b < self->n_blocks; b++) {
        int wanted = cadre_zero_needs(self, unit, b);
        for (int64_t i = 0; !wanted && i < self->prefetch; i++) {
            int64_t later = ahead(self, unit, (int32_t)next, i);
            wanted = later >= 0 && cadre_zero_needs(self, (uint32_t)later, b);
        }
        bytes += wanted ? bytes_of(self, b) : 0;
    }
    return bytes;
}

/* Units run up and down, one after another. Where another rank runs some of them, a
 * schedule goes from the end of a chunk to any other chunk of this rank. */
uint64_t cadre_zero_values_bytes(const struct cadre_self *self)
{
    uint64_t most = 0;
    const int whole = cadre_zero_runs_all(self);
    for (uint32_t u = 0; u < self->n_units; u++)
        for (uint32_t v = 0; v < self->n_units; v++) {
            int near = v == u || v == u + 1 || u == v + 1;
            if (!runs(self, u) || !runs(self, v) || (whole && !near))
                continue;
            uint64_t bytes = bytes_between(self, u, v);
            most = bytes > most ? bytes : most;
        }
    return most;
}

/* The core's storage of the block: whole, or in stage 3 this rank's shard. */
static cadre_status find_values(struct cadre_self *self, struct zero_block *block)
{
    const struct zero_run run = {
        .first = block->first,
        .last = block->last,
        .count = block->count,
        .off = block->off,
        .dtype = self->entry[block->first].dtype,
        .kind = CADRE_KIND_PARAM,
        .part = self->stage == 3,
        .what = "values",
    };
    return cadre_zero_find(self, &run, &block->values, &block->mine);
}

cadre_status cadre_zero_values_bind(struct cadre_self *self)
{
    for (uint32_t b = 0; b < self->n_blocks; b++)
        if (self->block[b].held)
            CADRE_TRY(find_values(self, &self->block[b]));
    return CADRE_OK;
}

static cadre_status join(struct cadre_self *self, struct zero_block *block)
{
    if (!block->gathering)
        return CADRE_OK;
    block->gathering = 0;
    CADRE_TRY(self->comm->stream_wait(block->along, block->done));
    return cadre_zero_secondary_keep(self, block);
}

static cadre_status post(struct cadre_self *self, struct zero_block *block,
                         const char *label)
{
    struct cadre_post post = cadre_post(label, CADRE_TRAFFIC_PARAM, 0);
    if (self->levels)
        return cadre_zero_levels_gather(self, block, label);
    CADRE_TRY(self->comm->all_gather(self->axis, &block->mine, &block->values,
                                     block->off, &post));
    block->done = post.done;
    block->along = self->axis;
    block->gathering = 1;
    return CADRE_OK;
}

/* Others who read the values of a block in flight must wait for them. */
static cadre_status announce(struct cadre_self *self, const struct zero_block *block)
{
    for (cadre_param_id i = block->first; i <= block->last; i++)
        CADRE_TRY(self->param->pending(self->host->ctx, i, block->done));
    return CADRE_OK;
}

cadre_status cadre_zero_all_gather_updated(struct cadre_self *self)
{
    for (uint32_t b = 0; b < self->n_blocks; b++) {
        struct zero_block *block = &self->block[b];
        if (!block->held || block->frozen)
            continue;
        CADRE_TRY(post(self, block, "zero parameters after the update"));
        if (self->overlap)
            CADRE_TRY(announce(self, block));
    }
    return self->overlap ? CADRE_OK : cadre_zero_values_settle(self);
}

static cadre_status gather(struct cadre_self *self, struct zero_block *block)
{
    if (block->values.data)
        return CADRE_OK;
    CADRE_TRY(cadre_zero_buffer_take(self, &self->values, block->count,
                                     block->values.dtype, &block->values));
    return block->fresh ? cadre_zero_secondary_gather(self, block)
                        : post(self, block, "zero parameters of a unit");
}

static cadre_status gather_unit(struct cadre_self *self, uint32_t unit)
{
    for (uint32_t b = 0; b < self->n_blocks; b++)
        if (cadre_zero_needs(self, unit, b))
            CADRE_TRY(gather(self, &self->block[b]));
    return CADRE_OK;
}

/* Is there room for the unit beside what is gathered? Where a schedule turns round,
 * what lies behind may still be there: prefetching ends then, and a unit that runs
 * takes its room. */
static int has_room(const struct cadre_self *self, uint32_t unit)
{
    uint64_t bytes = 0;
    for (uint32_t b = 0; b < self->n_blocks; b++)
        if (self->block[b].values.data || cadre_zero_needs(self, unit, b))
            bytes += bytes_of(self, b);
    return bytes <= self->values.budget;
}

static cadre_status attach(struct cadre_self *self, struct zero_block *block)
{
    block->attached = 1;
    for (cadre_param_id i = block->first; i <= block->last; i++) {
        struct cadre_buf part =
            cadre_buf_slice(&block->values, self->entry[i].at, self->entry[i].count);
        CADRE_TRY(self->param->attach(self->host->ctx, i, &part));
    }
    return CADRE_OK;
}

static cadre_status let_go(struct cadre_self *self, struct zero_block *block)
{
    CADRE_TRY(join(self, block));
    for (cadre_param_id i = block->first; block->attached && i <= block->last; i++)
        CADRE_TRY(self->param->attach(self->host->ctx, i, NULL));
    block->attached = 0;
    cadre_zero_buffer_give(self, &self->values, &block->values, block->pooled);
    return CADRE_OK;
}

/* All but what the unit needs. */
static cadre_status make_room(struct cadre_self *self, uint32_t unit)
{
    for (uint32_t b = 0; b < self->n_blocks; b++)
        if (self->block[b].values.data && !cadre_zero_needs(self, unit, b))
            CADRE_TRY(let_go(self, &self->block[b]));
    return CADRE_OK;
}

cadre_status cadre_zero_values_use(struct cadre_self *self, uint32_t unit, int32_t next)
{
    if (self->stage == 3 && !has_room(self, unit))
        CADRE_TRY(make_room(self, unit));
    if (self->stage == 3)
        CADRE_TRY(gather_unit(self, unit));
    for (uint32_t b = 0; b < self->n_blocks; b++) {
        struct zero_block *block = &self->block[b];
        if (!cadre_zero_needs(self, unit, b))
            continue;
        CADRE_TRY(join(self, block));
        if (self->stage == 3 && !block->attached)
            CADRE_TRY(attach(self, block));
    }
    for (int64_t i = 0; self->stage == 3 && i < self->prefetch; i++) {
        int64_t later = ahead(self, unit, next, i);
        if (later < 0 || !has_room(self, (uint32_t)later))
            break;
        CADRE_TRY(gather_unit(self, (uint32_t)later));
    }
    return CADRE_OK;
}

cadre_status cadre_zero_values_release(struct cadre_self *self, uint32_t unit,
                                       int32_t next)
{
    for (uint32_t b = 0; b < self->n_blocks; b++) {
        int wanted = !cadre_zero_needs(self, unit, b);
        for (int64_t i = 0; !wanted && i < self->prefetch + !self->prefetch; i++) {
            int64_t later = ahead(self, unit, next, i);
            wanted = later >= 0 && cadre_zero_needs(self, (uint32_t)later, b);
        }
        if (!wanted)
            CADRE_TRY(let_go(self, &self->block[b]));
    }
    return CADRE_OK;
}

cadre_status cadre_zero_values_settle(struct cadre_self *self)
{
    for (uint32_t b = 0; b < self->n_blocks; b++) {
        struct zero_block *block = &self->block[b];
        if (self->stage < 3)
            CADRE_TRY(join(self, block));
        else if (block->values.data)
            CADRE_TRY(let_go(self, block));
    }
    return CADRE_OK;
}
