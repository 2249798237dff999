/* SPDX-License-Identifier: Apache-2.0 */
/* "cadre.param/1": storage of parameters and gradients, and the report of sums. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/check/rehearsal/private.h"

static cadre_status enter_entry(struct cadre_player *p, cadre_param_id id,
                                const void *argument, const char *what)
{
    CADRE_TRY(play_enter(p, IN_BIND | IN_RUN, what));
    if (id >= ENTRIES || !argument)
        return play_refuse(p, CADRE_RULE_ARGUMENT, "%s of entry %u of %u%s", what, id,
                           ENTRIES, argument ? "" : ", with NULL");
    return CADRE_OK;
}

static struct cadre_buf whole(const struct cadre_player *p, char *data, uint64_t count)
{
    return (struct cadre_buf){data, data ? count : 0, p->all->dtype,
                              CADRE_SPACE_DEVICE};
}

static uint32_t owner_of(uint32_t id)
{
    return play_entry_tied_to(id) >= 0 ? (uint32_t)play_entry_tied_to(id) : id;
}

static cadre_status param_data(struct cadre_ctx *ctx, cadre_param_id id,
                               struct cadre_buf *out)
{
    struct cadre_player *p = play_player_of(ctx);
    CADRE_TRY(enter_entry(p, id, out, "param.data"));
    struct entry *entry = &p->entry[owner_of(id)];
    *out = whole(p, entry->value, entry->count);
    return CADRE_OK;
}

static cadre_status check_attached(struct cadre_player *p, uint32_t id, uint32_t kind,
                                   const struct cadre_buf *buf, const char *what)
{
    const struct entry *entry = &p->entry[id];
    if (!entry->part[kind].placed)
        return play_refuse(
            p, CADRE_RULE_EFFECT, "%s of '%s', of which no %s range was placed", what,
            play_entry_name(id), kind == CADRE_KIND_PARAM ? "PARAM" : "GRAD");
    if (buf->data && (buf->count != entry->count || buf->dtype != p->all->dtype))
        return play_refuse(
            p, CADRE_RULE_ARGUMENT,
            "%s: the buffer for '%s' has %llu elements of type %u, expected "
            "%llu of type %u",
            what, play_entry_name(id), (unsigned long long)buf->count, buf->dtype,
            (unsigned long long)entry->count, p->all->dtype);
    return CADRE_OK;
}

/* buf NULL, or with data NULL: detached. */
static cadre_status param_attach(struct cadre_ctx *ctx, cadre_param_id id,
                                 const struct cadre_buf *buf)
{
    struct cadre_player *p = play_player_of(ctx);
    const struct cadre_buf nothing = {0};
    CADRE_TRY(enter_entry(p, id, "", "param.attach"));
    CADRE_TRY(
        check_attached(p, id, CADRE_KIND_PARAM, buf ? buf : &nothing, "param.attach"));
    p->entry[id].value = buf ? buf->data : NULL;
    p->entry[id].value_attached = p->entry[id].value != NULL;
    return CADRE_OK;
}

static cadre_status param_grad(struct cadre_ctx *ctx, cadre_param_id id,
                               struct cadre_buf *out)
{
    struct cadre_player *p = play_player_of(ctx);
    CADRE_TRY(enter_entry(p, id, out, "param.grad"));
    *out = whole(p, p->entry[id].grad, p->entry[id].count);
    return CADRE_OK;
}

static cadre_status param_attach_grad(struct cadre_ctx *ctx, cadre_param_id id,
                                      const struct cadre_buf *buf)
{
    struct cadre_player *p = play_player_of(ctx);
    const struct cadre_buf nothing = {0};
    CADRE_TRY(enter_entry(p, id, "", "param.attach_grad"));
    CADRE_TRY(check_attached(p, id, CADRE_KIND_GRAD, buf ? buf : &nothing,
                             "param.attach_grad"));
    p->entry[id].grad = buf ? buf->data : NULL;
    p->entry[id].grad_attached = p->entry[id].grad != NULL;
    p->entry[id].grad_fresh = true;
    return CADRE_OK;
}

/* Frozen entries have no storage, so a span across one is none. */
static cadre_status param_grad_span(struct cadre_ctx *ctx, cadre_param_id first,
                                    cadre_param_id last, struct cadre_buf *out)
{
    struct cadre_player *p = play_player_of(ctx);
    CADRE_TRY(play_enter_sure(p, IN_BIND | IN_RUN, "param.grad_span"));
    if (first > last || last >= ENTRIES || !out)
        return play_refuse(p, CADRE_RULE_ARGUMENT,
                           "param.grad_span of entries %u to %u", first, last);
    for (uint32_t e = first; e <= last; e++)
        if (!p->entry[e].grad || p->entry[e].part[CADRE_KIND_GRAD].placed ||
            !p->entry[e].present)
            return CADRE_E_UNSUPPORTED;
    const struct entry *end = &p->entry[last];
    uint64_t padded = (end->count * p->all->element + 63) / 64 * 64;
    uint64_t bytes = (uint64_t)(end->grad - p->entry[first].grad) + padded;
    *out = whole(p, p->entry[first].grad, bytes / p->all->element);
    return CADRE_OK;
}

static cadre_status param_shard(struct cadre_ctx *ctx, cadre_param_id id, uint32_t kind,
                                struct cadre_buf *out)
{
    struct cadre_player *p = play_player_of(ctx);
    CADRE_TRY(enter_entry(p, id, out, "param.shard"));
    if (kind != CADRE_KIND_PARAM && kind != CADRE_KIND_GRAD)
        return play_refuse(p, CADRE_RULE_ARGUMENT, "param.shard of kind %u", kind);
    const struct part *part = &p->entry[id].part[kind];
    *out = whole(p, part->placed ? part->data : NULL, part->count);
    if (!part->placed)
        out->count = p->entry[id].count;
    return CADRE_OK;
}

static cadre_status param_range(struct cadre_ctx *ctx, cadre_param_id id, uint32_t kind,
                                uint64_t *begin, uint64_t *count)
{
    struct cadre_player *p = play_player_of(ctx);
    CADRE_TRY(play_enter(p, IN_PLAN | IN_BIND | IN_RUN, "param.range"));
    if (id >= ENTRIES || kind < CADRE_KIND_PARAM || kind > CADRE_KIND_OPT || !begin ||
        !count)
        return play_refuse(p, CADRE_RULE_ARGUMENT, "param.range of entry %u, kind %u",
                           id, kind);
    const struct part *part = &p->entry[id].part[kind];
    *begin = part->placed ? part->begin : 0;
    *count = part->placed ? part->count : p->entry[id].count;
    return CADRE_OK;
}

static cadre_status param_owned(struct cadre_ctx *ctx, cadre_param_id id,
                                struct cadre_buf *out)
{
    struct cadre_player *p = play_player_of(ctx);
    CADRE_TRY(enter_entry(p, id, out, "param.owned"));
    const struct part *part = &p->entry[id].part[OWNED];
    *out = whole(p, part->data, part->count);
    return CADRE_OK;
}

static cadre_status param_pending(struct cadre_ctx *ctx, cadre_param_id id,
                                  cadre_event event)
{
    struct cadre_player *p = play_player_of(ctx);
    CADRE_TRY(enter_entry(p, id, "", "param.pending"));
    p->entry[id].pending = event;
    return CADRE_OK;
}

/* ---- sums ---- */

static double seen_gradient(const struct cadre_player *p, uint32_t id, uint64_t k,
                            uint32_t nth)
{
    double sum = 0;
    uint64_t element = play_logical_element(p, id, k);
    if (p->plan.map != CADRE_MICROBATCHES_CYCLIC)
        return play_expected_gradient(p, id, k);
    for (int r = 0; r < p->all->ranks; r++)
        sum += play_microbatch_gradient(
            p->step, (uint64_t)nth * (uint64_t)p->all->ranks + (uint64_t)r, id,
            element);
    return sum;
}

/* Only what this rank updates need be right: a reduce-scatter leaves the rest. */
static void check_sum(struct cadre_player *p, uint32_t id, const struct cadre_buf *sum,
                      uint32_t nth)
{
    const struct entry *entry = &p->entry[id];
    const struct part *grad = &entry->part[CADRE_KIND_GRAD];
    /* a tied gradient is added to its owner's, where that is updated */
    const struct part *states = &p->entry[owner_of(id)].part[CADRE_KIND_OPT];
    uint64_t begin = grad->placed ? grad->begin : 0;
    uint64_t lowest = states->placed ? states->begin : 0;
    uint64_t end = states->placed ? states->begin + states->count : entry->count;
    for (uint64_t k = lowest; k < end; k++) {
        double want = seen_gradient(p, id, k, nth), found;
        if (k < begin || k - begin >= sum->count) {
            play_break_rule(
                p, CADRE_RULE_SUM,
                "the sum of '%s' has %llu elements from %llu, and this rank "
                "updates element %llu",
                play_entry_name(id), (unsigned long long)sum->count,
                (unsigned long long)begin, (unsigned long long)k);
            return;
        }
        found = play_get_value(p->all->dtype, sum->data, k - begin);
        if (found == want)
            continue;
        char times[40] = "";
        if (want != 0 && isfinite(found))
            snprintf(times, sizeof times, " (%g times as much)", found / want);
        play_break_rule(p, CADRE_RULE_SUM,
                        "the sum of the gradient of '%s' is %g at element %llu, "
                        "expected %g%s",
                        play_entry_name(id), found, (unsigned long long)k, want, times);
        return;
    }
}

static cadre_status check_report(struct cadre_player *p, uint32_t id,
                                 const struct cadre_buf *sum)
{
    const struct entry *entry = &p->entry[id];
    const struct part *grad = &entry->part[CADRE_KIND_GRAD];
    uint64_t count = grad->placed ? grad->count : entry->count;
    if (!p->plan.reduces)
        return play_refuse(p, CADRE_RULE_EFFECT,
                           "reports a sum, and its plan does not say that it reduces");
    if (entry->reported == entry->due)
        return play_refuse(p, CADRE_RULE_ONCE,
                           "reports a sum of '%s' once too often: param.reduced comes "
                           "once for each on_grad that ends a sum",
                           play_entry_name(id));
    if (sum->count != count || sum->dtype != p->all->dtype || (count && !sum->data))
        return play_refuse(
            p, CADRE_RULE_ARGUMENT,
            "param.reduced of '%s' with %llu elements, expected %llu: this "
            "rank's GRAD range",
            play_entry_name(id), (unsigned long long)sum->count,
            (unsigned long long)count);
    return CADRE_OK;
}

static cadre_status param_reduced(struct cadre_ctx *ctx, cadre_param_id id,
                                  const struct cadre_buf *sum, cadre_event ready)
{
    struct cadre_player *p = play_player_of(ctx);
    CADRE_TRY(play_enter(p, IN_STEP | IN_SYNC, "param.reduced"));
    if (id >= ENTRIES || !sum)
        return play_refuse(p, CADRE_RULE_ARGUMENT, "param.reduced of entry %u%s", id,
                           sum ? "" : ", without a sum");
    if (p->all->ranks == 1)
        return CADRE_OK;
    CADRE_TRY(check_report(p, id, sum));
    uint32_t nth = p->entry[id].reported++;
    if (p->plan.map != CADRE_MICROBATCHES_CYCLIC) {
        /* it is read when the optimizer needs it: see run_step */
        p->entry[id].pending_sum = *sum;
        p->entry[id].sum_ready = ready;
        return CADRE_OK;
    }
    CADRE_TRY(play_wait_event(p, ready, "param.reduced"));
    if (!p->plan.by_design)
        check_sum(p, id, sum, nth);
    return CADRE_OK;
}

cadre_status play_check_sums(struct cadre_player *p)
{
    for (uint32_t e = 0; e < ENTRIES; e++) {
        struct entry *entry = &p->entry[e];
        if (!entry->pending_sum.data)
            continue;
        CADRE_TRY(play_wait_event(p, entry->sum_ready, "param.reduced"));
        if (!p->plan.by_design)
            check_sum(p, e, &entry->pending_sum, 0);
        entry->pending_sum = (struct cadre_buf){0};
    }
    return CADRE_OK;
}

/* This host's optimizer keeps no moments. */
static cadre_status param_moments(struct cadre_ctx *ctx, uint64_t held, double *decay)
{
    struct cadre_player *p = play_player_of(ctx);
    (void)held, (void)decay;
    CADRE_TRY(play_enter(p, IN_PLAN | IN_BIND | IN_RUN, "param.moments"));
    return CADRE_E_UNSUPPORTED;
}

const struct cadre_param_svc play_param = {
    .struct_size = sizeof play_param,
    .data = param_data,
    .attach = param_attach,
    .grad = param_grad,
    .attach_grad = param_attach_grad,
    .grad_span = param_grad_span,
    .shard = param_shard,
    .range = param_range,
    .owned = param_owned,
    .pending = param_pending,
    .reduced = param_reduced,
    .moments = param_moments,
};
