/* SPDX-License-Identifier: Apache-2.0 */
/* One step as the core makes it: passes, the syncs in their order, and an update that
 * adds the gradient to the values. */
#include <math.h>
#include <string.h>

#include "core/check/rehearsal/private.h"

/* ---- values ---- */

static cadre_status run_sync(struct cadre_player *p, uint32_t what, const char *name)
{
    const struct cadre_sync at = {
        .struct_size = sizeof at, .what = what, .step = p->step};
    return CALLBACK(
        p, IN_SYNC, name,
        p->all->ops->sync(p->self, play_present(p, SLOT_SYNC, &at, sizeof at)));
}

/* The core's own storage: owned values are rounded into it, what another rank owns is
 * NaN until the plugin has gathered it. */
static void spread_entry(struct cadre_player *p, uint32_t e)
{
    struct entry *entry = &p->entry[e];
    const struct part *owned = &entry->part[OWNED];
    const struct part *values = &entry->part[CADRE_KIND_PARAM];
    uint64_t first = values->placed ? values->begin : 0;
    uint64_t count = values->placed ? values->count : entry->count;
    for (uint64_t k = 0; values->data && k < count; k++) {
        uint64_t at = first + k;
        if (at >= owned->begin && at - owned->begin < owned->count)
            play_put_value(
                p->all->dtype, values->data, k,
                play_get_value(p->all->dtype, owned->data, at - owned->begin));
        else if (entry->copied)
            play_put_value(p->all->dtype, values->data, k, entry->want[at]);
        else
            play_put_value(p->all->dtype, values->data, k, (double)NAN);
    }
}

static void spread_values(struct cadre_player *p)
{
    for (uint32_t e = 0; e < ENTRIES; e++)
        if (play_entry_tied_to(e) < 0 && !p->entry[e].frozen)
            spread_entry(p, e);
}

/* Replicas that diverge may write their values in DRAIN and at the begin of a step. */
static cadre_status take_written(struct cadre_player *p)
{
    if (!p->plan.diverges || p->evaluating)
        return CADRE_OK;
    spread_values(p);
    return run_sync(p, CADRE_SYNC_PARAMS, "sync(PARAMS)");
}

/* ---- the step itself ---- */

static cadre_status next_run(void *h, const struct cadre_step *step)
{
    struct cadre_player *p = h;
    if (!p->stepping || !step)
        return play_refuse(
            p, CADRE_RULE_PHASE,
            "calls next->run %s; it is valid during the call of step that it "
            "was passed to",
            step ? "outside of step" : "without a step");
    if (p->all->plugin->desc.role == CADRE_ROLE_SCHEDULE)
        return play_refuse(
            p, CADRE_RULE_EFFECT,
            "calls next->run; a SCHEDULE is the innermost, nothing comes "
            "after it");
    if (p->next_runs++ > 0)
        return play_refuse(p, CADRE_RULE_ONCE, "calls next->run twice in a step");
    CADRE_TRY(take_written(p));
    return play_run_sequential(p);
}

static cadre_status call_step(struct cadre_player *p, uint32_t flags)
{
    const struct rehearsal *all = p->all;
    const struct cadre_step step = {
        .struct_size = sizeof step,
        .n_microbatches = p->evaluating ? 1 : (uint32_t)p->rank_microbatches,
        .step = p->step,
        .tokens_global = all->microbatches * BATCH * TIME,
        .flags = flags,
    };
    const struct cadre_next next = {
        .struct_size = sizeof next, .h = p, .run = next_run};
    p->stepping = true;
    p->next_runs = 0;
    cadre_status rc =
        CALLBACK(p, IN_STEP, "step",
                 all->ops->step(p->self, play_present(p, SLOT_STEP, &step, sizeof step),
                                play_present(p, SLOT_NEXT, &next, sizeof next)));
    p->stepping = false;
    if (rc == CADRE_OK && p->next_runs == 0 &&
        all->plugin->desc.role != CADRE_ROLE_SCHEDULE)
        rc = play_refuse(p, CADRE_RULE_ONCE,
                         "returned from step without a call of next->run: nothing was "
                         "trained");
    return rc;
}

static cadre_status check_passes(struct cadre_player *p)
{
    unsigned want = p->evaluating ? 1u : 7u;
    uint32_t n = p->evaluating ? 1 : (uint32_t)p->rank_microbatches;
    for (uint32_t c = 0; c < p->plan.n_chunks; c++)
        for (uint32_t m = 0; m < n; m++)
            if (p->passed[c][m] != want)
                return play_refuse(
                    p, CADRE_RULE_ONCE,
                    "the step ended without %s of chunk %u, micro-batch %u",
                    p->passed[c][m] & 1 ? "the backward" : "the forward", c, m);
    return CADRE_OK;
}

static cadre_status run_passes(struct cadre_player *p, uint32_t flags)
{
    bool schedule = p->all->plugin->desc.role == CADRE_ROLE_SCHEDULE;
    memset(p->passed, 0, sizeof p->passed);
    memset(p->live, 0, sizeof p->live);
    if (schedule && !p->all->ops->step)
        return play_refuse(p, CADRE_RULE_EFFECT, "a SCHEDULE without step in its ops");
    if (!p->all->ops->step || (p->evaluating && !schedule))
        return play_run_sequential(p);
    CADRE_TRY(call_step(p, flags));
    return schedule ? check_passes(p) : CADRE_OK;
}

/* Gradients hold NaN until they are computed: a sum of one too early shows. */
static void spoil_gradients(struct cadre_player *p)
{
    for (uint32_t e = 0; e < ENTRIES; e++) {
        struct entry *entry = &p->entry[e];
        const struct part *grad = &entry->part[CADRE_KIND_GRAD];
        entry->due = entry->reported = 0;
        entry->busy = 0;
        entry->grad_fresh = true;
        for (uint64_t k = 0;
             grad->data && k < (grad->placed ? grad->count : entry->count); k++)
            play_put_value(p->all->dtype, grad->data, k, (double)NAN);
    }
}

cadre_status play_run_step(struct cadre_player *p, uint64_t step)
{
    p->step = step;
    p->sent = 0;
    spoil_gradients(p);
    if (step == 2 && p->rank + 1 == p->all->setup->late_rank)
        play_be_late(p, p->all->setup->late_s);
    return run_passes(p, 0);
}

cadre_status play_run_evaluation(struct cadre_player *p)
{
    p->evaluating = true;
    cadre_status rc = run_passes(p, CADRE_STEP_FORWARD);
    p->evaluating = false;
    return rc;
}

/* ---- syncs ---- */

/* Gradients of a plugin that does not reduce are those of this rank. */
static cadre_status check_own_gradients(struct cadre_player *p)
{
    for (uint32_t e = 0; e < ENTRIES && !p->plan.by_design; e++) {
        const struct entry *entry = &p->entry[e];
        if (!entry->present || entry->frozen || !entry->grad)
            continue;
        for (uint64_t k = 0; k < entry->count; k++) {
            double found = play_get_value(p->all->dtype, entry->grad, k);
            double want = play_expected_gradient(p, e, k);
            if (found == want)
                continue;
            return play_refuse(p, CADRE_RULE_SUM,
                               "the gradient of '%s' is %g at element %llu after "
                               "sync(GRADS), expected %g",
                               play_entry_name(e), found, (unsigned long long)k, want);
        }
    }
    return CADRE_OK;
}

static cadre_status check_gradients(struct cadre_player *p)
{
    for (uint32_t e = 0; e < ENTRIES; e++)
        if (p->entry[e].reported < p->entry[e].due)
            return play_refuse(
                p, CADRE_RULE_ONCE,
                "after sync(GRADS) %u of %u sums of '%s' were reported: "
                "call param.reduced once for each on_grad that ends a sum",
                p->entry[e].reported, p->entry[e].due, play_entry_name(e));
    if (p->plan.reduces && p->all->ranks > 1)
        return play_check_sums(p);
    return check_own_gradients(p);
}

static double step_gradient(const struct cadre_player *p, uint32_t e, uint64_t k)
{
    double sum = p->entry[e].frozen ? 0 : play_expected_gradient(p, e, k);
    for (uint32_t tied = 0; tied < ENTRIES; tied++)
        if (play_entry_tied_to(tied) == (int32_t)e && !p->entry[tied].frozen)
            sum += play_expected_gradient(p, tied, k);
    return sum;
}

static void update_owned(struct cadre_player *p)
{
    for (uint32_t e = 0; e < ENTRIES; e++) {
        struct entry *entry = &p->entry[e];
        const struct part *owned = &entry->part[OWNED];
        if (play_entry_tied_to(e) >= 0)
            continue;
        for (uint64_t k = 0; k < entry->count; k++)
            entry->want[k] += step_gradient(p, e, k);
        for (uint64_t k = 0; owned->data && k < owned->count; k++)
            play_put_value(p->all->dtype, owned->data, k,
                           play_get_value(p->all->dtype, owned->data, k) +
                               step_gradient(p, e, owned->begin + k));
    }
}

cadre_status play_run_syncs(struct cadre_player *p)
{
    CADRE_TRY(run_sync(p, CADRE_SYNC_GRADS, "sync(GRADS)"));
    CADRE_TRY(check_gradients(p));
    update_owned(p);
    CADRE_TRY(run_sync(p, CADRE_SYNC_UPDATE, "sync(UPDATE)"));
    spread_values(p);
    CADRE_TRY(run_sync(p, CADRE_SYNC_PARAMS, "sync(PARAMS)"));
    CADRE_TRY(run_sync(p, CADRE_SYNC_METRICS, "sync(METRICS)"));
    p->sent_in[p->step] = p->sent;
    return CADRE_OK;
}

/* ---- drain ---- */

static cadre_status check_shards(struct cadre_player *p)
{
    for (uint32_t e = 0; e < ENTRIES; e++) {
        const struct entry *entry = &p->entry[e];
        const struct part *values = &entry->part[CADRE_KIND_PARAM];
        if (play_entry_tied_to(e) >= 0 || !(entry->present || entry->copied))
            continue;
        if (!values->placed) {
            CADRE_TRY(play_check_values(p, e));
            continue;
        }
        for (uint64_t k = 0; values->data && k < values->count; k++) {
            double found = play_get_value(p->all->dtype, values->data, k);
            if (p->plan.by_design ? isfinite(found)
                                  : found == entry->want[values->begin + k])
                continue;
            return play_refuse(p, CADRE_RULE_VALUES,
                               "this rank's range of '%s' is %g at element %llu after "
                               "sync(DRAIN), expected %g",
                               play_entry_name(e), found, (unsigned long long)k,
                               entry->want[values->begin + k]);
        }
    }
    return CADRE_OK;
}

/* Ranks along an axis that does not shard parameters hold the same. */
static cadre_status check_replicas(struct cadre_player *p)
{
    const struct cadre_player *first = &p->all->player[0];
    bool alike =
        p->plan.batch == CADRE_BATCH_SPLIT || p->plan.batch == CADRE_BATCH_TIME;
    for (uint32_t e = 0; e < ENTRIES && alike; e++) {
        const struct entry *entry = &p->entry[e], *there = &first->entry[e];
        if (play_entry_tied_to(e) >= 0 || entry->part[CADRE_KIND_PARAM].placed ||
            !entry->value || !there->value ||
            memcmp(entry->value, there->value, entry->count * p->all->element) == 0)
            continue;
        return play_refuse(
            p, CADRE_RULE_REPLICAS, "'%s' differs from rank 0's after sync(DRAIN)%s",
            play_entry_name(e),
            p->plan.diverges
                ? ": a plugin with param.diverges makes replicas equal there"
                : "");
    }
    return CADRE_OK;
}

cadre_status play_run_drain(struct cadre_player *p)
{
    CADRE_TRY(run_sync(p, CADRE_SYNC_DRAIN, "sync(DRAIN)"));
    CADRE_TRY(take_written(p));
    for (uint32_t i = 0; i < p->n_operations; i++)
        if (!p->operation[i]->finished && p->operation[i]->kind != SEND)
            return play_refuse(
                p, CADRE_RULE_BUFFER,
                "'%s' is still in flight after sync(DRAIN): nobody has waited "
                "for it",
                p->operation[i]->label);
    CADRE_TRY(check_shards(p));
    if (!play_meet(p))
        return CADRE_E_ABORTED;
    CADRE_TRY(check_replicas(p));
    return play_meet(p) ? CADRE_OK : CADRE_E_ABORTED;
}
