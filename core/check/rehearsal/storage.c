/* SPDX-License-Identifier: Apache-2.0 */
/* The host's storage of parameters, gradients and owned values, as the plan placed
 * them. What holds no value yet holds NaN. */
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/check/rehearsal/private.h"

double play_get_value(uint32_t dtype, const void *data, uint64_t element)
{
    float narrow;
    double wide;
    if (dtype == CADRE_F64) {
        memcpy(&wide, (const char *)data + element * sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, (const char *)data + element * sizeof narrow, sizeof narrow);
    return (double)narrow;
}

void play_put_value(uint32_t dtype, void *data, uint64_t element, double value)
{
    float narrow = (float)value;
    if (dtype == CADRE_F64)
        memcpy((char *)data + element * sizeof value, &value, sizeof value);
    else
        memcpy((char *)data + element * sizeof narrow, &narrow, sizeof narrow);
}

uint64_t play_buf_bytes(const struct cadre_buf *buf)
{
    switch (buf->dtype) {
    case CADRE_F64:
        return buf->count * 8;
    case CADRE_F32:
    case CADRE_I32:
        return buf->count * 4;
    case CADRE_BF16:
    case CADRE_F16:
        return buf->count * 2;
    default:
        return buf->count;
    }
}

/* Does the core hold the whole of this kind? */
static bool is_whole(const struct entry *entry, uint32_t kind)
{
    return !entry->part[kind].placed;
}

static uint64_t part_count(const struct entry *entry, uint32_t kind)
{
    return is_whole(entry, kind) ? entry->count : entry->part[kind].count;
}

static bool has_storage(const struct entry *entry, uint32_t e, uint32_t kind)
{
    if (kind == CADRE_KIND_PARAM || kind == OWNED)
        return (entry->present || entry->copied) && play_entry_tied_to(e) < 0;
    return entry->present && !entry->frozen;
}

/* In the order of entries, each padded to 64 bytes; the whole of a kind is
 * contiguous. */
static char *lay_kind(struct cadre_player *p, uint32_t kind, char *at)
{
    uint32_t element = p->all->element;
    for (uint32_t e = 0; e < ENTRIES; e++) {
        struct entry *entry = &p->entry[e];
        if (!has_storage(entry, e, kind))
            continue;
        uint64_t bytes = part_count(entry, kind) * element;
        entry->part[kind].data = bytes ? at : NULL;
        if (kind == CADRE_KIND_PARAM && is_whole(entry, kind))
            entry->value = at;
        if (kind == CADRE_KIND_GRAD && is_whole(entry, kind))
            entry->grad = at;
        at += (bytes + 63) / 64 * 64;
    }
    return at;
}

/* What the values are at the start; a tied head has its owner's. */
static cadre_status make_wanted(struct cadre_player *p, uint32_t e)
{
    struct entry *entry = &p->entry[e];
    entry->want = cadre_calloc(entry->count, sizeof *entry->want);
    if (!entry->want)
        return CADRE_E_RESOURCE;
    for (uint64_t k = 0; k < entry->count; k++)
        entry->want[k] = play_first_value(e, play_logical_element(p, e, k));
    return CADRE_OK;
}

static void fill_values(struct cadre_player *p, uint32_t e)
{
    struct entry *entry = &p->entry[e];
    const struct part *values = &entry->part[CADRE_KIND_PARAM];
    const struct part *states = &entry->part[CADRE_KIND_OPT];
    struct part *owned = &entry->part[OWNED];
    for (uint64_t k = 0; values->data && k < part_count(entry, CADRE_KIND_PARAM); k++)
        play_put_value(
            p->all->dtype, values->data, k,
            play_first_value(e, play_logical_element(
                                    p, e, k + (values->placed ? values->begin : 0))));
    for (uint64_t k = 0; owned->data && k < owned->count; k++)
        play_put_value(
            p->all->dtype, owned->data, k,
            play_first_value(e, play_logical_element(
                                    p, e, k + (states->placed ? states->begin : 0))));
}

cadre_status play_lay_out(struct cadre_player *p)
{
    uint64_t bytes = 64;
    for (uint32_t e = 0; e < ENTRIES; e++) {
        struct entry *entry = &p->entry[e];
        entry->part[OWNED] = entry->part[CADRE_KIND_OPT];
        entry->part[OWNED].placed = true;
        entry->part[OWNED].count = part_count(entry, CADRE_KIND_OPT);
        bytes += 3 * (entry->count * p->all->element + 64);
    }
    bytes = (bytes + 63) / 64 * 64;
    p->storage = aligned_alloc(64, bytes);
    if (!p->storage)
        return CADRE_E_RESOURCE;
    p->storage_bytes = bytes;
    memset(p->storage, 0, bytes);
    char *grads = lay_kind(p, CADRE_KIND_PARAM, p->storage);
    char *owned = lay_kind(p, CADRE_KIND_GRAD, grads);
    lay_kind(p, OWNED, owned);
    for (uint32_t e = 0; e < ENTRIES; e++) {
        fill_values(p, e);
        CADRE_TRY(make_wanted(p, e));
    }
    return CADRE_OK;
}

void play_free_storage(struct cadre_player *p)
{
    free(p->storage);
    p->storage = NULL;
    for (uint32_t e = 0; e < ENTRIES; e++)
        free(p->entry[e].want);
}
