/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank owns which elements. A rank is named by its slot here, which is its own
 * number, or with two levels another (levels.c).
 *
 * A block is sharded at multiples of range_unit, the chunk of the global norm, as near
 * as possible to where the ranks' shares of all blocks so far are equal; the next block
 * makes up for the difference. An entry smaller than range_unit lies on one rank.
 * Frozen entries are counted apart, as no states and gradients come with them; those
 * that are stored in another form are sharded between blocks of that form.
 *
 * Ranks along another axis may hold other experts. No block has experts and other
 * entries, so that these ranks shard the others alike and reduce them in one order.
 *
 * Entries that share a weight are blocks of their own, each sharded independently of
 * the others: so two pipeline stages that hold them shard them alike. */
#include <stdlib.h>
#include <string.h>

#include "plugins/zero/zero.h"

/* The core stores the entries of a kind contiguously, each padded to this. */
#define ALIGN_BYTES 64u

static uint64_t padded(uint64_t count, uint32_t dtype)
{
    uint64_t per = ALIGN_BYTES / cadre_dtype_size(dtype);
    return (count + per - 1) / per * per;
}

static cadre_param_id owner_of(const struct cadre_self *self, cadre_param_id id)
{
    int32_t tied = self->entry[id].info.tied_to;
    return tied >= 0 ? (cadre_param_id)tied : id;
}

/* How the values are stored. */
static void find_form(struct zero_entry *entry, uint64_t range_unit)
{
    const struct cadre_param_info *info = &entry->info;
    entry->count = info->count;
    entry->dtype = info->dtype;
    entry->granule = (uint32_t)range_unit;
    if (info->form == CADRE_FORM_PLAIN)
        return;
    uint64_t per = info->form_elements, blocks = range_unit / per;
    entry->count = (info->count + per - 1) / per * info->form_bytes;
    entry->dtype = CADRE_U8;
    entry->granule = (uint32_t)(blocks ? blocks : 1) * info->form_bytes;
}

static cadre_status read_entries(struct cadre_self *self, uint64_t range_unit)
{
    for (cadre_param_id i = 0; i < self->n_entries; i++) {
        struct zero_entry *entry = &self->entry[i];
        entry->bucket = ZERO_NONE;
        CADRE_TRY(cadre_param_get(self->host, self->model, i, &entry->info));
        find_form(entry, range_unit);
        if (entry->info.present)
            self->entry[owner_of(self, i)].held = 1;
    }
    return CADRE_OK;
}

/* Is the entry one of several that share a weight? */
static int is_shared(const struct cadre_self *self, cadre_param_id id)
{
    if (self->entry[id].info.tied_to >= 0)
        return 1;
    for (cadre_param_id i = 0; i < self->n_entries; i++)
        if (self->entry[i].info.tied_to == (int32_t)id)
            return 1;
    return 0;
}

/* May `id` join the block before it, which begins with `first`? */
static int fits(const struct cadre_self *self, cadre_param_id first, cadre_param_id id)
{
    const struct zero_entry *a = &self->entry[first], *b = &self->entry[id];
    uint64_t end = self->entry[id - 1].at + self->entry[id - 1].count;
    uint64_t count = padded(end, a->dtype) + b->count;
    if (is_shared(self, first) || is_shared(self, id) || !a->held || !b->held)
        return 0;
    if (a->info.frozen != b->info.frozen || a->dtype != b->dtype)
        return 0;
    if ((a->info.expert < 0) != (b->info.expert < 0)) /* see the comment of the file */
        return 0;
    if (self->stage == 3 && a->info.unit != b->info.unit)
        return 0;
    return count * cadre_dtype_size(a->dtype) <= self->bucket_bytes;
}

static void make_blocks(struct cadre_self *self)
{
    cadre_param_id id = 0;
    while (id < self->n_entries) {
        struct zero_entry *entry = &self->entry[id];
        if (entry->info.tied_to >= 0) {
            id++;
            continue;
        }
        struct zero_block *block = &self->block[self->n_blocks];
        block->first = id;
        block->held = entry->held;
        block->frozen = entry->info.frozen;
        block->count = 0;
        do {
            entry = &self->entry[id];
            entry->at = padded(block->count, entry->dtype);
            entry->block = self->n_blocks;
            block->count = entry->at + entry->count;
            block->last = id++;
        } while (id < self->n_entries && fits(self, block->first, id));
        self->n_blocks++;
    }
    for (id = 0; id < self->n_entries; id++)
        if (self->entry[id].info.tied_to >= 0)
            self->entry[id].block = self->entry[owner_of(self, id)].block;
}

/* goal[r]: where, in elements without padding, rank r's shard of the block should end
 * so that all ranks hold equally much of it and of the blocks before. */
static void aim(const struct cadre_self *self, const struct zero_block *block,
                const uint64_t *load, double *goal)
{
    uint64_t total = 0;
    for (cadre_param_id i = block->first; i <= block->last; i++)
        total += self->entry[i].count;
    for (uint32_t r = 0; r < self->ranks; r++)
        total += load[r];
    double end = 0;
    for (uint32_t r = 0; r < self->ranks; r++) {
        end += (double)total / self->ranks - (double)load[r];
        goal[r] = end;
    }
}

/* Of `left` elements, whole granules whose midpoints surely lie before a goal that is
 * `ahead` elements further: all but the last two before it, and not the last of all.
 * They need not be looked at one by one, of which a large model has 10^8. */
static uint64_t surely_before(double ahead, uint64_t left, uint64_t unit)
{
    const uint64_t most = left > unit ? (left - 1) / unit : 0;
    const double n = ahead / (double)unit - 2;
    return !(n > 0) ? 0 : n < (double)most ? (uint64_t)n : most;
}

/* A granule goes to the rank in whose goal its midpoint lies. */
static void partition_block(const struct cadre_self *self, struct zero_block *block,
                            uint64_t *load, double *goal)
{
    uint64_t done = 0;
    uint32_t r = 0;
    aim(self, block, load, goal);
    block->off[0] = 0;
    for (cadre_param_id i = block->first; i <= block->last; i++) {
        uint64_t count = self->entry[i].count, unit = self->entry[i].granule;
        for (uint64_t begin = 0; begin < count; begin += unit) {
            const double ahead =
                r + 1 < self->ranks ? goal[r] - (double)done : (double)UINT64_MAX;
            const uint64_t skipped = surely_before(ahead, count - begin, unit) * unit;
            load[r] += skipped;
            done += skipped;
            begin += skipped;
            uint64_t size = count - begin < unit ? count - begin : unit;
            while (r + 1 < self->ranks && (double)done + (double)size / 2 >= goal[r])
                block->off[++r] = self->entry[i].at + begin;
            load[r] += size;
            done += size;
        }
    }
    while (r < self->ranks)
        block->off[++r] = block->count;
}

/* What the ranks hold so far is kept apart for trained entries, frozen ones, and frozen
 * ones in bytes. */
#define LOADS 3u

static uint32_t load_of(const struct cadre_self *self, const struct zero_block *block)
{
    return !block->frozen                                            ? 0
           : self->entry[block->first].info.form == CADRE_FORM_PLAIN ? 1
                                                                     : 2;
}

static cadre_status partition_blocks(struct cadre_self *self)
{
    const size_t ranks = self->ranks;
    uint64_t *loads = calloc((LOADS + 1) * ranks, sizeof *loads);
    double *goal = calloc(ranks, sizeof *goal);
    uint64_t *fresh = loads ? loads + LOADS * ranks : NULL;
    for (int shared = 1; loads && goal && shared >= 0; shared--)
        for (uint32_t b = 0; b < self->n_blocks; b++) {
            struct zero_block *block = &self->block[b];
            uint64_t *load = loads + load_of(self, block) * ranks;
            if (is_shared(self, block->first) != shared)
                continue;
            memset(fresh, 0, ranks * sizeof *fresh);
            partition_block(self, block, shared || !block->held ? fresh : load, goal);
            for (uint32_t r = 0; block->held && r < self->ranks; r++)
                load[r] += fresh[r];
        }
    free(goal);
    free(loads);
    return loads && goal ? CADRE_OK : CADRE_E_RESOURCE;
}

/* Buckets: a block's gradients if they are reduced once a step; one entry's gradient if
 * every micro-batch is reduced, since parts of backward may run separately. */
static void make_buckets(struct cadre_self *self)
{
    for (cadre_param_id i = 0; i < self->n_entries; i++) {
        struct zero_entry *entry = &self->entry[i];
        if (!entry->info.present || entry->info.frozen)
            continue;
        const struct zero_block *block = &self->block[entry->block];
        uint32_t last = self->n_buckets - 1; /* unused where there is none */
        int grows = self->n_buckets > 0 && !self->each && i > 0 &&
                    self->bucket[last].last == i - 1 && entry->info.tied_to < 0 &&
                    self->entry[i - 1].block == entry->block;
        if (!grows)
            self->bucket[self->n_buckets++].first = i;
        struct zero_bucket *bucket = &self->bucket[self->n_buckets - 1];
        bucket->last = i;
        entry->bucket = self->n_buckets - 1;
        bucket->count = entry->at + entry->count - self->entry[bucket->first].at;
        uint64_t at = self->entry[bucket->first].at;
        for (uint32_t r = 0; r <= self->ranks; r++) {
            /* make_room gave as many blocks and buckets as entries their offsets;
             * NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
            uint64_t off = block->off[r] > at ? block->off[r] - at : 0;
            bucket->off[r] = off < bucket->count ? off : bucket->count;
        }
    }
}

static void mark_pooled(struct cadre_self *self)
{
    for (uint32_t i = 0; i < self->n_blocks; i++)
        for (uint32_t k = 0; k < self->n_blocks; k++)
            if (k != i && self->block[k].count == self->block[i].count)
                self->block[i].pooled = 1;
    for (uint32_t i = 0; i < self->n_buckets; i++)
        for (uint32_t k = 0; k < self->n_buckets; k++)
            if (k != i && self->bucket[k].count == self->bucket[i].count)
                self->bucket[i].pooled = 1;
}

static cadre_status note_needs(struct cadre_self *self)
{
    self->needed = calloc((size_t)self->n_units * self->n_blocks + 1, 1);
    if (!self->needed)
        return CADRE_E_RESOURCE;
    for (cadre_param_id i = 0; i < self->n_entries; i++) {
        const struct zero_entry *entry = &self->entry[i];
        if (entry->info.present && entry->info.unit < self->n_units)
            self->needed[(size_t)entry->info.unit * self->n_blocks + entry->block] = 1;
    }
    return CADRE_OK;
}

static cadre_status make_room(struct cadre_self *self)
{
    size_t n = self->n_entries + (size_t)1, stride = (size_t)self->ranks + 1;
    self->entry = calloc(n, sizeof *self->entry);
    self->block = calloc(n, sizeof *self->block);
    self->bucket = calloc(n, sizeof *self->bucket);
    self->flight = calloc(n, sizeof *self->flight);
    self->offsets = calloc(2 * n * stride, sizeof *self->offsets);
    if (!self->entry || !self->block || !self->bucket || !self->flight ||
        !self->offsets)
        return CADRE_E_RESOURCE;
    for (size_t i = 0; i < n; i++) {
        self->block[i].off = self->offsets + i * stride;
        self->bucket[i].off = self->offsets + (n + i) * stride;
    }
    return CADRE_OK;
}

cadre_status cadre_zero_partition(struct cadre_self *self, uint64_t range_unit)
{
    cadre_status rc;
    cadre_zero_release_partition(self);
    self->n_entries = self->model->n_params(self->host->ctx);
    CADRE_TRY_OR(make_room(self), out);
    CADRE_TRY_OR(read_entries(self, range_unit), out);
    make_blocks(self);
    CADRE_TRY_OR(partition_blocks(self), out);
    make_buckets(self);
    mark_pooled(self);
    rc = note_needs(self);
out:
    if (rc == CADRE_E_RESOURCE)
        cadre_refuse(self->host, rc, "no memory for the shards of %u entries",
                     self->n_entries);
    return rc;
}

void cadre_zero_release_partition(struct cadre_self *self)
{
    free(self->entry);
    free(self->block);
    free(self->bucket);
    free(self->flight);
    free(self->offsets);
    free(self->needed);
    self->needed = NULL;
    self->entry = NULL;
    self->block = NULL;
    self->bucket = NULL;
    self->flight = NULL;
    self->offsets = NULL;
    self->n_blocks = self->n_buckets = 0;
}

uint64_t cadre_zero_begin(const struct cadre_self *self, cadre_param_id id,
                          uint32_t slot)
{
    const struct zero_entry *entry = &self->entry[id];
    uint64_t off = self->block[entry->block].off[slot];
    uint64_t begin = off > entry->at ? off - entry->at : 0;
    return begin < entry->count ? begin : entry->count;
}
