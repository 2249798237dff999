/* SPDX-License-Identifier: Apache-2.0 */
/* Forward and backward of the model that is not there: events in the order of the core,
 * parameters that must be complete where a unit begins, and gradients. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/check/rehearsal/private.h"

#define PASSED_FORWARD 1u
#define PASSED_INPUT 2u
#define PASSED_WEIGHT 4u

/* ---- values ---- */

cadre_status play_check_values(struct cadre_player *p, uint32_t e)
{
    struct entry *entry = &p->entry[e];
    CADRE_TRY(play_wait_event(p, entry->pending, "param.pending"));
    entry->pending = 0;
    if (!entry->value)
        return play_refuse(
            p, CADRE_RULE_VALUES,
            "the values of '%s' are detached when a unit needs them: attach "
            "them in on_block",
            play_entry_name(e));
    for (uint64_t k = 0; k < entry->count; k++) {
        double found = play_get_value(p->all->dtype, entry->value, k);
        if (p->plan.by_design || p->plan.diverges ? isfinite(found)
                                                  : found == entry->want[k])
            continue;
        return play_refuse(
            p, CADRE_RULE_VALUES,
            "'%s' is %g at element %llu when it is read, expected %g: it was "
            "not gathered, not waited for, or written meanwhile",
            play_entry_name(e), found, (unsigned long long)k, entry->want[k]);
    }
    return CADRE_OK;
}

static cadre_status check_unit(struct cadre_player *p, uint32_t unit)
{
    for (uint32_t e = 0; e < ENTRIES; e++) {
        uint32_t owner =
            play_entry_tied_to(e) >= 0 ? (uint32_t)play_entry_tied_to(e) : e;
        if (play_entry_unit(e) == unit)
            CADRE_TRY(play_check_values(p, owner));
    }
    return CADRE_OK;
}

/* ---- events ---- */

static cadre_status raise_block(struct cadre_player *p, uint32_t kind, uint32_t unit,
                                uint32_t microbatch, int32_t next_unit, uint32_t flags)
{
    const struct cadre_block_ev ev = {
        .struct_size = sizeof ev,
        .kind = kind,
        .unit = unit,
        .chunk = p->chunk_now,
        .microbatch = microbatch,
        .next_unit = next_unit,
        .flags = flags,
    };
    if (!p->all->ops->on_block)
        return CADRE_OK;
    return CALLBACK(
        p, IN_STEP, "on_block",
        p->all->ops->on_block(p->self, play_present(p, SLOT_BLOCK, &ev, sizeof ev)));
}

/* What this micro-batch adds, in storage: overwritten by the first, and by each where
 * they are passed one by one. In exact mode the core keeps the sum to itself until it
 * is final. */
static void add_gradient(struct cadre_player *p, uint32_t e, uint32_t microbatch,
                         bool final)
{
    struct entry *entry = &p->entry[e];
    bool cyclic = p->plan.map == CADRE_MICROBATCHES_CYCLIC;
    uint64_t at = p->first_microbatch + microbatch * p->microbatch_stride;
    for (uint64_t k = 0; k < entry->count; k++) {
        double value = play_own_gradient(p, at, e, k);
        if (p->all->setup->exact && !cyclic) {
            for (uint32_t m = 0; final && m < microbatch; m++)
                value += play_own_gradient(
                    p, p->first_microbatch + m * p->microbatch_stride, e, k);
        } else if (!cyclic && !entry->grad_fresh) {
            value += play_get_value(p->all->dtype, entry->grad, k);
        }
        play_put_value(p->all->dtype, entry->grad, k, value);
    }
    entry->grad_fresh = false;
}

static bool is_changed(const struct cadre_player *p, uint32_t e, const char *before)
{
    const struct entry *entry = &p->entry[e];
    return entry->grad &&
           memcmp(entry->grad, before, entry->count * p->all->element) != 0;
}

static cadre_status announce(struct cadre_player *p, struct cadre_grad_ev *ev)
{
    struct cadre_grad_ev *seen = play_present(p, SLOT_GRAD, ev, sizeof *ev);
    cadre_status rc =
        CALLBACK(p, IN_STEP, "on_grad", p->all->ops->on_grad(p->self, seen));
    ev->ready = seen->ready;
    return rc;
}

/* Who does not reduce reads gradients; by design it may do more. */
static cadre_status announce_watched(struct cadre_player *p, struct cadre_grad_ev *ev)
{
    struct entry *entry = &p->entry[ev->param];
    bool watched = !p->plan.reduces && !p->plan.by_design && ev->grad;
    size_t bytes = watched ? entry->count * p->all->element : 0;
    char *before = cadre_calloc(bytes, 1);
    if (!before)
        return CADRE_E_RESOURCE;
    if (watched)
        memcpy(before, entry->grad, bytes);
    cadre_status rc = announce(p, ev);
    if (rc == CADRE_OK && watched && is_changed(p, ev->param, before))
        rc = play_refuse(
            p, CADRE_RULE_EFFECT,
            "changes the gradient of '%s', and its plan says neither that it "
            "reduces nor that it trains otherwise by design",
            play_entry_name(ev->param));
    free(before);
    return rc;
}

static void expect_report(struct cadre_player *p, uint32_t e, bool final)
{
    if (p->plan.reduces && p->all->ranks > 1 &&
        (final || p->plan.map == CADRE_MICROBATCHES_CYCLIC))
        p->entry[e].due++;
}

cadre_status play_raise_gradient(struct cadre_player *p, uint32_t e,
                                 uint32_t microbatch)
{
    struct entry *entry = &p->entry[e];
    bool final = microbatch + 1 == p->rank_microbatches;
    bool hidden =
        p->all->setup->exact && !final && p->plan.map != CADRE_MICROBATCHES_CYCLIC;
    if (entry->frozen)
        return CADRE_OK;
    CADRE_TRY(play_wait_event(p, entry->busy, "on_grad"));
    entry->busy = 0;
    if (!entry->grad)
        return play_refuse(
            p, CADRE_RULE_VALUES,
            "the gradient of '%s' has no storage when it is computed: attach "
            "it in on_block",
            play_entry_name(e));
    add_gradient(p, e, microbatch, final);
    if (!p->all->ops->on_grad)
        return CADRE_OK;
    struct cadre_buf grad = {entry->grad, entry->count, p->all->dtype,
                             CADRE_SPACE_DEVICE};
    struct cadre_grad_ev ev = {
        .struct_size = sizeof ev,
        .flags = final ? CADRE_GRAD_FINAL : 0,
        .param = e,
        .microbatch = microbatch,
        .global_microbatch = p->first_microbatch + microbatch * p->microbatch_stride,
        .ready = COMPUTED_EVENT,
        .grad = hidden ? NULL : &grad,
        .map = p->plan.map,
    };
    expect_report(p, e, final);
    CADRE_TRY(announce_watched(p, &ev));
    entry->busy = ev.ready;
    return CADRE_OK;
}

/* ---- one chunk of one micro-batch ---- */

static cadre_status forward_units(struct cadre_player *p, uint32_t begin, uint32_t end,
                                  uint32_t microbatch, int32_t next_unit)
{
    for (uint32_t unit = begin; unit < end; unit++) {
        int32_t next = unit + 1 < end ? (int32_t)unit + 1 : next_unit;
        CADRE_TRY(raise_block(p, CADRE_BEFORE_FORWARD, unit, microbatch, next, 0));
        CADRE_TRY(check_unit(p, unit));
        CADRE_TRY(play_run_redistributions(p, unit, microbatch, false));
        CADRE_TRY(raise_block(p, CADRE_AFTER_FORWARD, unit, microbatch, next, 0));
    }
    return CADRE_OK;
}

/* Vectors get their gradients with those of the inputs, matrices with those of the
 * weights. */
static cadre_status raise_gradients(struct cadre_player *p, uint32_t unit,
                                    uint32_t microbatch, uint32_t ndim)
{
    uint64_t shape[2];
    for (uint32_t e = ENTRIES; e-- > 0;)
        if (play_entry_unit(e) == unit && play_entry_shape(e, shape) == ndim)
            CADRE_TRY(play_raise_gradient(p, e, microbatch));
    return CADRE_OK;
}

static cadre_status backward_unit(struct cadre_player *p, uint32_t unit,
                                  uint32_t microbatch, int32_t next, uint32_t what)
{
    uint32_t flags = (what & CADRE_PASS_INPUT ? CADRE_EV_INPUT : 0u) |
                     (what & CADRE_PASS_WEIGHT ? CADRE_EV_WEIGHT : 0u);
    bool again = p->all->setup->recompute && unit > 0 && unit < UNITS - 1 &&
                 (what & CADRE_PASS_INPUT);
    CADRE_TRY(raise_block(p, CADRE_BEFORE_BACKWARD, unit, microbatch, next, flags));
    if (again) {
        CADRE_TRY(raise_block(p, CADRE_BEFORE_FORWARD, unit, microbatch, next,
                              CADRE_EV_RECOMPUTE));
        CADRE_TRY(play_run_redistributions(p, unit, microbatch, false));
        CADRE_TRY(raise_block(p, CADRE_AFTER_FORWARD, unit, microbatch, next,
                              CADRE_EV_RECOMPUTE));
    }
    CADRE_TRY(check_unit(p, unit));
    if (what & CADRE_PASS_INPUT) {
        CADRE_TRY(play_run_redistributions(p, unit, microbatch, true));
        CADRE_TRY(raise_gradients(p, unit, microbatch, 1));
    }
    if (what & CADRE_PASS_WEIGHT)
        CADRE_TRY(raise_gradients(p, unit, microbatch, 2));
    return raise_block(p, CADRE_AFTER_BACKWARD, unit, microbatch, next, flags);
}

static cadre_status backward_units(struct cadre_player *p, uint32_t begin, uint32_t end,
                                   uint32_t microbatch, int32_t next_unit,
                                   uint32_t what)
{
    for (uint32_t unit = end; unit-- > begin;) {
        int32_t next = unit > begin ? (int32_t)unit - 1 : next_unit;
        CADRE_TRY(backward_unit(p, unit, microbatch, next, what));
    }
    return CADRE_OK;
}

cadre_status play_run_sequential(struct cadre_player *p)
{
    uint32_t n = p->evaluating ? 1 : (uint32_t)p->rank_microbatches;
    p->chunk_now = 0;
    for (uint32_t m = 0; m < n; m++) {
        int32_t after = p->evaluating ? (m + 1 < n ? 0 : -1) : (int32_t)UNITS - 1;
        CADRE_TRY(forward_units(p, 0, UNITS, m, after));
        if (!p->evaluating)
            CADRE_TRY(
                backward_units(p, 0, UNITS, m, m + 1 < n ? 0 : -1, CADRE_PASS_BOTH));
    }
    return CADRE_OK;
}

/* ---- passes of a schedule ---- */

static cadre_status check_boundary(struct cadre_player *p, const struct cadre_buf *buf,
                                   uint32_t boundary, uint64_t microbatch,
                                   double (*of)(uint32_t, uint64_t, uint64_t))
{
    if (!buf || !buf->data || buf->count != BATCH * TIME * CHANNELS)
        return play_refuse(
            p, CADRE_RULE_ARGUMENT,
            "a pass at the boundary before unit %u without its activation, or "
            "with another number of elements than boundary_count",
            boundary);
    for (uint64_t k = 0; k < buf->count; k++) {
        double found = play_get_value(buf->dtype, buf->data, k);
        if (found == of(boundary, microbatch, k))
            continue;
        return play_refuse(
            p, CADRE_RULE_VALUES,
            "the activation of micro-batch %llu at the boundary before unit "
            "%u is %g at element %llu, expected %g: another one, or not "
            "waited for",
            (unsigned long long)microbatch, boundary, found, (unsigned long long)k,
            of(boundary, microbatch, k));
    }
    return CADRE_OK;
}

static cadre_status write_boundary(struct cadre_player *p, const struct cadre_buf *buf,
                                   uint32_t boundary, uint64_t microbatch,
                                   double (*of)(uint32_t, uint64_t, uint64_t))
{
    if (!buf || !buf->data || buf->count != BATCH * TIME * CHANNELS)
        return play_refuse(
            p, CADRE_RULE_ARGUMENT,
            "a pass at the boundary before unit %u without a buffer for its "
            "activation, or of another size than boundary_count",
            boundary);
    for (uint64_t k = 0; k < buf->count; k++)
        play_put_value(buf->dtype, buf->data, k, of(boundary, microbatch, k));
    return CADRE_OK;
}

static cadre_status check_pass(struct cadre_player *p,
                               const struct cadre_pass_args *args)
{
    uint64_t n = p->evaluating ? 1 : p->rank_microbatches;
    if (args->chunk < p->plan.n_chunks && args->microbatch < n)
        return CADRE_OK;
    return play_refuse(p, CADRE_RULE_ARGUMENT,
                       "a pass of chunk %u of %u, micro-batch %u of %llu", args->chunk,
                       p->plan.n_chunks, args->microbatch, (unsigned long long)n);
}

cadre_status play_run_forward(struct cadre_player *p,
                              const struct cadre_pass_args *args)
{
    CADRE_TRY(check_pass(p, args));
    uint32_t c = args->chunk, m = args->microbatch;
    uint32_t first = p->plan.chunk[c].begin, end = p->plan.chunk[c].end;
    uint64_t at = p->first_microbatch + m * p->microbatch_stride;
    if (p->passed[c][m] & PASSED_FORWARD)
        return play_refuse(p, CADRE_RULE_ONCE,
                           "runs the forward of chunk %u, micro-batch %u, twice", c, m);
    p->passed[c][m] |= PASSED_FORWARD;
    if (!p->evaluating && ++p->live[c] > p->plan.chunk[c].live)
        return play_refuse(p, CADRE_RULE_MEMORY,
                           "keeps %u activations of chunk %u at once, its plan said %u",
                           p->live[c], c, p->plan.chunk[c].live);
    if (first > 0)
        CADRE_TRY(check_boundary(p, args->in, first, at, play_activation));
    p->chunk_now = c;
    CADRE_TRY(forward_units(p, first, end, m, args->next_unit));
    return end < UNITS ? write_boundary(p, args->out, end, at, play_activation)
                       : CADRE_OK;
}

/* Ascending per chunk, INPUT before WEIGHT, after the forward. */
static cadre_status check_backward(struct cadre_player *p,
                                   const struct cadre_pass_args *args)
{
    uint32_t c = args->chunk, m = args->microbatch;
    unsigned what = (args->what & CADRE_PASS_INPUT ? PASSED_INPUT : 0u) |
                    (args->what & CADRE_PASS_WEIGHT ? PASSED_WEIGHT : 0u);
    unsigned needed = PASSED_FORWARD | (what == PASSED_WEIGHT ? PASSED_INPUT : 0u);
    if (p->evaluating || what == 0)
        return play_refuse(p, CADRE_RULE_ONCE, "runs a backward that nobody asked for");
    if (what != (PASSED_INPUT | PASSED_WEIGHT) &&
        !(p->plan.chunk[c].flags & CADRE_LIVE_SPLIT))
        return play_refuse(p, CADRE_RULE_EFFECT,
                           "splits the backward of chunk %u, whose plan has no "
                           "CADRE_LIVE_SPLIT",
                           c);
    if ((p->passed[c][m] & what) || (p->passed[c][m] & needed) != needed ||
        (m > 0 && (p->passed[c][m - 1] & what) != what))
        return play_refuse(
            p, CADRE_RULE_ONCE,
            "runs the backward of chunk %u, micro-batch %u, twice, before its "
            "forward, or before that of an earlier micro-batch",
            c, m);
    p->passed[c][m] |= (unsigned char)what;
    return CADRE_OK;
}

cadre_status play_run_backward(struct cadre_player *p,
                               const struct cadre_pass_args *args)
{
    CADRE_TRY(check_pass(p, args));
    CADRE_TRY(check_backward(p, args));
    uint32_t c = args->chunk, m = args->microbatch;
    uint32_t first = p->plan.chunk[c].begin, end = p->plan.chunk[c].end;
    uint64_t at = p->first_microbatch + m * p->microbatch_stride;
    bool inputs = (args->what & CADRE_PASS_INPUT) != 0;
    if (inputs && end < UNITS)
        CADRE_TRY(check_boundary(p, args->in, end, at, play_activation_gradient));
    p->chunk_now = c;
    CADRE_TRY(backward_units(p, first, end, m, args->next_unit, args->what));
    if (args->what & CADRE_PASS_WEIGHT)
        p->live[c]--;
    return inputs && first > 0
               ? write_boundary(p, args->out, first, at, play_activation_gradient)
               : CADRE_OK;
}
