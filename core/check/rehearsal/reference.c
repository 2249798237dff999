/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of a model that is not there, and the values that parameters, gradients
 * and activations have: small whole numbers, so that sums of them are exact in fp32
 * whatever their order, and different wherever something could be mixed up. */
#include "core/check/rehearsal/private.h"

struct shape {
    const char *name;
    uint64_t rows, columns; /* columns 0: a vector */
    uint32_t split;
};

/* Odd sizes, so that no range begins where another number of ranks would have it. */
static const struct shape first_unit[] = {
    {"wte.weight", 17, CHANNELS, CADRE_SHARD_VOCAB},
    {"wpe.weight", TIME, CHANNELS, CADRE_SHARD_NONE},
};
static const struct shape block_unit[] = {
    {"ln.weight", CHANNELS, 0, CADRE_SHARD_NONE},
    {"attn.qkv.weight", 36, CHANNELS, CADRE_SHARD_QKV},
    {"attn.qkv.bias", 36, 0, CADRE_SHARD_QKV},
    {"attn.proj.weight", CHANNELS, 12, CADRE_SHARD_ROW},
    {"mlp.up.weight", 48, CHANNELS, CADRE_SHARD_COLUMN},
    {"mlp.up.bias", 48, 0, CADRE_SHARD_COLUMN},
    {"mlp.down.weight", CHANNELS, 48, CADRE_SHARD_ROW},
    {"gain", 5, 0, CADRE_SHARD_NONE},
};
static const struct shape last_unit[] = {
    {"ln_f.weight", CHANNELS, 0, CADRE_SHARD_NONE},
    {"head.weight", 17, CHANNELS, CADRE_SHARD_VOCAB},
    {"head.bias", 17, 0, CADRE_SHARD_NONE},
};
#define IN_FIRST 2u
#define IN_BLOCK 8u
#define IN_BLOCKS (IN_BLOCK * (UNITS - 2))
#define TIED_HEAD (IN_FIRST + IN_BLOCKS + 1)

_Static_assert(IN_FIRST + IN_BLOCKS + 3 == ENTRIES, "the entries of all units");

static const struct shape *shape_of(uint32_t entry)
{
    if (entry < IN_FIRST)
        return &first_unit[entry];
    if (entry < IN_FIRST + IN_BLOCKS)
        return &block_unit[(entry - IN_FIRST) % IN_BLOCK];
    return &last_unit[entry - IN_FIRST - IN_BLOCKS];
}

const char *play_entry_name(uint32_t entry)
{
    static const char *const blocks[UNITS - 2][IN_BLOCK] = {
        {"h.0.ln.weight", "h.0.attn.qkv.weight", "h.0.attn.qkv.bias",
         "h.0.attn.proj.weight", "h.0.mlp.up.weight", "h.0.mlp.up.bias",
         "h.0.mlp.down.weight", "h.0.gain"},
        {"h.1.ln.weight", "h.1.attn.qkv.weight", "h.1.attn.qkv.bias",
         "h.1.attn.proj.weight", "h.1.mlp.up.weight", "h.1.mlp.up.bias",
         "h.1.mlp.down.weight", "h.1.gain"},
        {"h.2.ln.weight", "h.2.attn.qkv.weight", "h.2.attn.qkv.bias",
         "h.2.attn.proj.weight", "h.2.mlp.up.weight", "h.2.mlp.up.bias",
         "h.2.mlp.down.weight", "h.2.gain"},
    };
    if (entry < IN_FIRST || entry >= IN_FIRST + IN_BLOCKS)
        return shape_of(entry)->name;
    return blocks[(entry - IN_FIRST) / IN_BLOCK][(entry - IN_FIRST) % IN_BLOCK];
}

uint32_t play_entry_unit(uint32_t entry)
{
    if (entry < IN_FIRST)
        return 0;
    return entry < IN_FIRST + IN_BLOCKS ? 1 + (entry - IN_FIRST) / IN_BLOCK : UNITS - 1;
}

int32_t play_entry_tied_to(uint32_t entry)
{
    return entry == TIED_HEAD ? 0 : -1;
}

uint32_t play_entry_shape(uint32_t entry, uint64_t shape[2])
{
    const struct shape *s = shape_of(entry);
    shape[0] = s->rows;
    shape[1] = s->columns ? s->columns : 1;
    return s->columns ? 2 : 1;
}

uint32_t play_entry_split(uint32_t entry)
{
    return shape_of(entry)->split;
}

/* ---- values ---- */

/* A tied head has the values of its owner. */
double play_first_value(uint32_t entry, uint64_t element)
{
    uint64_t of = entry == TIED_HEAD ? 0 : entry;
    return (double)((of * 29 + element * 7 + element / 11) % 61) - 30;
}

double play_microbatch_gradient(uint64_t step, uint64_t microbatch, uint32_t entry,
                                uint64_t element)
{
    return (double)((step * 3 + microbatch * 5 + entry * 7 + element * 2 +
                     element / 13) %
                    11) +
           1;
}

double play_activation(uint32_t boundary, uint64_t microbatch, uint64_t element)
{
    return (double)((boundary * 17 + microbatch * 5 + element) % 251);
}

double play_activation_gradient(uint32_t boundary, uint64_t microbatch,
                                uint64_t element)
{
    return -1 - (double)((boundary * 13 + microbatch * 7 + element) % 241);
}

/* ---- where a rank's elements belong ---- */

struct play_division play_division_of(const struct cadre_player *p)
{
    if (p->plan.completes)
        return (struct play_division){(uint64_t)p->rank, (uint64_t)p->all->ranks};
    return p->all->setup->divided ? (struct play_division){2, 3}
                                  : (struct play_division){0, 1};
}

static uint64_t first_row(uint64_t rows, struct play_division at)
{
    return rows * at.part / at.parts;
}

uint64_t play_logical_element(const struct cadre_player *p, uint32_t entry, uint64_t k)
{
    uint64_t shape[2], third, rows, row, column;
    const struct play_division at = play_division_of(p);
    if (play_entry_shape(entry, shape) == 1)
        shape[1] = 1;
    row = k / p->entry[entry].local[1];
    column = k % p->entry[entry].local[1];
    switch (p->entry[entry].split) {
    case CADRE_SHARD_COLUMN:
    case CADRE_SHARD_VOCAB:
        return (first_row(shape[0], at) + row) * shape[1] + column;
    case CADRE_SHARD_QKV:
        third = shape[0] / 3;
        rows = p->entry[entry].local[0] / 3;
        row = row / rows * third + first_row(third, at) + row % rows;
        return row * shape[1] + column;
    case CADRE_SHARD_ROW:
        return row * shape[1] + first_row(shape[1], at) + column;
    default:
        return k;
    }
}

/* Ranks that see the same samples but a part of their rows or time each have a part of
 * the sum: one has the rest. */
double play_own_gradient(const struct cadre_player *p, uint64_t microbatch,
                         uint32_t entry, uint64_t element)
{
    double whole = play_microbatch_gradient(p->step, microbatch, entry,
                                            play_logical_element(p, entry, element));
    if (!p->plan.time && !p->entry[entry].partial)
        return whole;
    return p->rank == 0 ? whole - 2 * (p->all->ranks - 1) : 2;
}

static bool sees_own_samples(const struct cadre_player *p)
{
    return p->plan.batch == CADRE_BATCH_SPLIT;
}

double play_expected_gradient(const struct cadre_player *p, uint32_t entry,
                              uint64_t element)
{
    double sum = 0;
    uint64_t k = play_logical_element(p, entry, element);
    bool own = sees_own_samples(p) && p->plan.diverges;
    for (uint64_t i = 0; i < (own ? p->rank_microbatches : p->all->microbatches); i++) {
        uint64_t microbatch = own ? p->first_microbatch + i * p->microbatch_stride : i;
        sum += play_microbatch_gradient(p->step, microbatch, entry, k);
    }
    return sum;
}
