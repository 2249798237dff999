/* SPDX-License-Identifier: Apache-2.0 */
/* The redistributions of a unit: what the ranks hold are small whole numbers that
 * differ between ranks, points and micro-batches. */
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/check/rehearsal/private.h"

#define ROWS (BATCH * TIME)

struct point {
    uint32_t point;
    uint64_t elements;
    uint32_t unit; /* of UNIT_* */
    bool backward;
};
#define UNIT_FIRST 1u
#define UNIT_BLOCK 2u
#define UNIT_LAST 4u

/* In the order in which a unit comes to them. */
static const struct point points[] = {
    {CADRE_POINT_EMBED_OUT, ROWS *CHANNELS, UNIT_FIRST, false},
    {CADRE_POINT_ATTN_OUT, ROWS *CHANNELS, UNIT_BLOCK, false},
    {CADRE_POINT_MLP_OUT, ROWS *CHANNELS, UNIT_BLOCK, false},
    {CADRE_POINT_LOSS_MAX, ROWS, UNIT_LAST, false},
    {CADRE_POINT_LOSS_SUM, 2 * ROWS, UNIT_LAST, false},
    {CADRE_POINT_HEAD_IN, ROWS *CHANNELS, UNIT_LAST, true},
    {CADRE_POINT_MLP_IN, ROWS *CHANNELS, UNIT_BLOCK, true},
    {CADRE_POINT_ATTN_IN, ROWS *CHANNELS, UNIT_BLOCK, true},
};
#define N_POINTS (sizeof points / sizeof points[0])

static uint32_t kind_of(uint32_t unit)
{
    return unit == 0 ? UNIT_FIRST : unit == UNITS - 1 ? UNIT_LAST : UNIT_BLOCK;
}

static double held(uint32_t point, uint32_t microbatch, int rank, uint64_t k)
{
    return 1 + (double)((k + point * 3 + microbatch + (uint64_t)rank * 5) % 7);
}

static double combined(const struct rehearsal *all, uint32_t point, uint32_t microbatch,
                       uint64_t k)
{
    double sum = held(point, microbatch, 0, k);
    for (int r = 1; r < all->ranks; r++) {
        double x = held(point, microbatch, r, k);
        sum = point == CADRE_POINT_LOSS_MAX ? (x > sum ? x : sum) : sum + x;
    }
    return sum;
}

struct event { /* and where its ranges are */
    uint32_t point, unit, microbatch, form;
    bool backward;
    uint64_t elements; /* of the whole */
    uint64_t offsets[CADRE_REHEARSAL_RANKS + 1];
};

static cadre_status check_out(struct cadre_player *p, const struct event *e,
                              const struct cadre_buf *out)
{
    uint64_t begin =
        e->form == CADRE_REDISTRIBUTE_REDUCE_SCATTER ? e->offsets[p->rank] : 0;
    for (uint64_t k = 0; k < out->count; k++) {
        int from = 0;
        while (e->form == CADRE_REDISTRIBUTE_ALL_GATHER && k >= e->offsets[from + 1])
            from++;
        double want = e->form == CADRE_REDISTRIBUTE_ALL_GATHER
                          ? held(e->point, e->microbatch, from, k)
                          : combined(p->all, e->point, e->microbatch, begin + k);
        double found = play_get_value(out->dtype, out->data, k);
        if (found == want)
            continue;
        return play_refuse(
            p, CADRE_RULE_SUM,
            "the redistribution at point %u of unit %u gives %g at element "
            "%llu, expected %g: wrong, or not waited for",
            e->point, e->unit, found, (unsigned long long)k, want);
    }
    return CADRE_OK;
}

static cadre_status raise_event(struct cadre_player *p, const struct event *e,
                                struct cadre_buf *in, struct cadre_buf *out)
{
    const struct cadre_redistribute_ev ev = {
        .struct_size = sizeof ev,
        .point = e->point,
        .unit = e->unit,
        .microbatch = e->microbatch,
        .backward = e->backward,
        .form = e->form,
        .in = in,
        .out = out,
        .offsets = e->form == CADRE_REDISTRIBUTE_ALL_REDUCE ? NULL : e->offsets,
    };
    uint64_t first = e->form == CADRE_REDISTRIBUTE_ALL_GATHER ? e->offsets[p->rank] : 0;
    for (uint64_t k = 0; k < in->count; k++)
        play_put_value(in->dtype, in->data, k,
                       held(e->point, e->microbatch, p->rank, first + k));
    CADRE_TRY(
        CALLBACK(p, IN_STEP, "on_redistribute",
                 p->all->ops->on_redistribute(
                     p->self, play_present(p, SLOT_REDISTRIBUTE, &ev, sizeof ev))));
    return check_out(p, e, out);
}

static cadre_status run_event(struct cadre_player *p, const struct event *e)
{
    uint64_t own = e->offsets[p->rank + 1] - e->offsets[p->rank];
    bool scatter = e->form == CADRE_REDISTRIBUTE_REDUCE_SCATTER;
    bool gather = e->form == CADRE_REDISTRIBUTE_ALL_GATHER;
    struct cadre_buf in = {cadre_calloc(e->elements, p->all->element),
                           gather ? own : e->elements, p->all->dtype,
                           CADRE_SPACE_DEVICE};
    struct cadre_buf out = {cadre_calloc(e->elements, p->all->element),
                            scatter ? own : e->elements, p->all->dtype,
                            CADRE_SPACE_DEVICE};
    cadre_status rc =
        in.data && out.data ? raise_event(p, e, &in, &out) : CADRE_E_RESOURCE;
    free(in.data);
    free(out.data);
    return rc;
}

static void find_ranges(const struct cadre_player *p, struct event *e)
{
    uint64_t rows = e->elements / CHANNELS, n = (uint64_t)p->all->ranks;
    for (uint64_t r = 0; r <= n; r++)
        e->offsets[r] = rows * r / n * CHANNELS;
}

static bool is_sharded(const struct cadre_player *p, const struct point *at)
{
    return p->plan.sharded_rows && at->point != CADRE_POINT_LOSS_MAX &&
           at->point != CADRE_POINT_LOSS_SUM;
}

/* Under seq.shard the points of activations change their form, and have a counterpart
 * in the other direction. */
static uint32_t form_of(const struct cadre_player *p, const struct point *at,
                        bool backward)
{
    if (!is_sharded(p, at))
        return CADRE_REDISTRIBUTE_ALL_REDUCE;
    return at->backward == backward ? CADRE_REDISTRIBUTE_REDUCE_SCATTER
                                    : CADRE_REDISTRIBUTE_ALL_GATHER;
}

static bool is_raised(const struct cadre_player *p, const struct point *at,
                      uint32_t unit, bool backward)
{
    return (at->unit & kind_of(unit)) &&
           (at->backward == backward || is_sharded(p, at));
}

static cadre_status gather_time(struct cadre_player *p, uint32_t unit,
                                uint32_t microbatch, bool backward)
{
    struct event e = {CADRE_POINT_ATTN_KV,
                      unit,
                      microbatch,
                      backward ? CADRE_REDISTRIBUTE_REDUCE_SCATTER
                               : CADRE_REDISTRIBUTE_ALL_GATHER,
                      backward,
                      2 * ROWS * CHANNELS,
                      {0}};
    find_ranges(p, &e);
    return run_event(p, &e);
}

cadre_status play_run_redistributions(struct cadre_player *p, uint32_t unit,
                                      uint32_t microbatch, bool backward)
{
    if (p->all->ranks == 1 || !p->all->ops->on_redistribute)
        return CADRE_OK;
    if (p->plan.time && kind_of(unit) == UNIT_BLOCK)
        CADRE_TRY(gather_time(p, unit, microbatch, backward));
    for (size_t i = 0; p->plan.completes && i < N_POINTS; i++) {
        const struct point *at = &points[i];
        if (!is_raised(p, at, unit, backward))
            continue;
        struct event e = {at->point, unit,         microbatch, form_of(p, at, backward),
                          backward,  at->elements, {0}};
        find_ranges(p, &e);
        CADRE_TRY(run_event(p, &e));
    }
    return CADRE_OK;
}
