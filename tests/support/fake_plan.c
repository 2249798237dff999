/* SPDX-License-Identifier: Apache-2.0 */
/* What a plugin tells the fake host in `plan`. Placed ranges and chunks are kept from
 * one plan to the next. */
#include <stdio.h>
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/support/fake_host.h"

static cadre_status planned(struct fake_host *fake)
{
    bool fails = fake_nth(&fake->plans, fake->fail_plan);
    return fails ? CADRE_E_UNSUPPORTED : CADRE_OK;
}

/* A plugin with several axes is none of this host's. */
static cadre_status check_axis(struct fake_host *fake, const char *axis)
{
    if (!axis || strcmp(axis, fake->axis.name) != 0)
        return fake_refuse(fake, CADRE_E_UNSUPPORTED, "axis '%s', expected '%s'",
                           axis ? axis : "(none)", fake->axis.name);
    return CADRE_OK;
}

static cadre_status use_axis(void *h, const char *axis, uint32_t batch)
{
    struct fake_host *fake = h;
    CADRE_TRY(check_axis(fake, axis));
    fake->batch = batch;
    return planned(fake);
}

static void add_claim(struct fake_host *fake, const char *what, const char *axis,
                      uint32_t number)
{
    size_t used = strlen(fake->claims);
    snprintf(fake->claims + used, sizeof fake->claims - used, "%s%s@%s/%u",
             used ? " " : "", what, axis, number);
}

static cadre_status claim(void *h, const char *effect, const char *axis, uint32_t flags)
{
    struct fake_host *fake = h;
    CADRE_TRY(check_axis(fake, axis));
    add_claim(fake, effect, axis, flags);
    return planned(fake);
}

static cadre_status reduces(void *h, const char *axis, uint32_t level)
{
    struct fake_host *fake = h;
    CADRE_TRY(check_axis(fake, axis));
    ck_assert_uint_le(level, 254);
    add_claim(fake, "reduces", axis, level);
    return planned(fake);
}

static cadre_status by_design(void *h, const char *equal)
{
    struct fake_host *fake = h;
    snprintf(fake->by_design, sizeof fake->by_design, "%s", equal);
    return planned(fake);
}

static cadre_status microbatch_map(void *h, uint32_t map, const uint64_t *first)
{
    struct fake_host *fake = h;
    ck_assert((map == CADRE_MICROBATCHES_RANGES) == (first != NULL));
    if (fake->other_map && fake->other_map != map)
        return fake_refuse(fake, CADRE_E_UNSUPPORTED, "two maps of micro-batches");
    fake->map = map;
    fake->first_map[0] = 0;
    for (int i = 0; first && i <= fake->axis.size && i < FAKE_MAP; i++)
        fake->first_map[i] = first[i];
    return planned(fake);
}

static cadre_status period(void *h, uint64_t n)
{
    struct fake_host *fake = h;
    fake->period = n;
    return planned(fake);
}

static cadre_status chunk(void *h, uint32_t begin, uint32_t end, uint32_t live,
                          uint32_t flags)
{
    struct fake_host *fake = h;
    uint32_t n = fake->n_chunks++;
    fake->chunk[n].begin = begin;
    fake->chunk[n].end = end;
    fake->chunk[n].live = live;
    fake->chunk[n].flags = flags;
    return planned(fake);
}

static cadre_status live_blocks(void *h, uint32_t n)
{
    struct fake_host *fake = h;
    fake->live_blocks = n;
    return planned(fake);
}

/* Ranges begin and end between blocks of the parameter's form, and those of trained
 * parameters at multiples of range_unit. */
static cadre_status place_range(void *h, cadre_param_id id, uint32_t kind,
                                uint64_t begin, uint64_t count, uint32_t space)
{
    struct fake_host *fake = h;
    struct fake_entry *entry = fake_entry_of(&fake->ctx, id);
    uint32_t dtype;
    uint64_t all = fake_stored(fake, entry, &dtype);
    uint64_t unit = entry->form ? CADRE_INT8_BLOCK + 4 : FAKE_PAD;
    ck_assert(!entry->frozen || kind == CADRE_KIND_PARAM);
    ck_assert_uint_le(begin + count, all);
    ck_assert(count == 0 || begin % unit == 0);
    ck_assert(count % unit == 0 || begin + count == all);
    ck_assert(!entry->range[kind].placed);
    entry->range[kind] = (struct fake_range){true, begin, count, space};
    return planned(fake);
}

static cadre_status memory(void *h, uint32_t space, uint64_t bytes, const char *tag)
{
    struct fake_host *fake = h;
    int i = 0;
    while (i < FAKE_TAGS && fake->tag[i].name[0] &&
           (fake->tag[i].space != space || strcmp(fake->tag[i].name, tag) != 0))
        i++;
    ck_assert_int_lt(i, FAKE_TAGS);
    ck_assert_uint_lt(strlen(tag), sizeof fake->tag[i].name);
    snprintf(fake->tag[i].name, sizeof fake->tag[i].name, "%s", tag);
    fake->tag[i].space = space;
    fake->tag[i].planned += bytes;
    fake->planned += bytes;
    return planned(fake);
}

void fake_plan_init(struct fake_host *fake)
{
    fake->plan = (struct cadre_plan){
        .struct_size = sizeof fake->plan,
        .h = fake,
        .range_unit = FAKE_PAD,
        .use_axis = use_axis,
        .claim = claim,
        .reduces = reduces,
        .by_design = by_design,
        .microbatch_map = microbatch_map,
        .period = period,
        .chunk = chunk,
        .live_blocks = live_blocks,
        .place_range = place_range,
        .memory = memory,
    };
}
