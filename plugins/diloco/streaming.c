/* SPDX-License-Identifier: Apache-2.0 */
/* Outer steps of fragments in turn. The units of the model are dealt to `fragments`
 * fragments like cards; fragment f takes its outer step after the steps s with
 *     s mod period = floor(f * period / fragments),
 * so that the bytes of a whole outer step are spread over the period, and the most that
 * is sent at once is those of one fragment. With `overlap` a fragment's change is
 * copied and its sum posted at step s, and the outer step is taken after step
 * s + overlap, while the replicas have trained on; x then becomes
 *     mixing * x + (1 - mixing) * what the outer step gave.
 * Source: Douillard et al., Streaming DiLoCo with overlapping communication, 2025,
 * algorithm 2 (mixing is its alpha). */
#include "plugins/diloco/diloco.h"

int diloco_sends_copies(const struct cadre_self *self)
{
    return self->overlap > 0 || self->mixing > 0;
}

uint64_t diloco_copy_count(const struct cadre_self *self)
{
    uint64_t most = 0;
    for (uint64_t f = 0; diloco_sends_copies(self) && f < self->fragments; f++)
        most = self->fragment_count[f] > most ? self->fragment_count[f] : most;
    return most;
}

static int takes_turn(const struct cadre_self *self, uint64_t fragment, uint64_t step)
{
    return step % self->period == fragment * self->period / self->fragments;
}

static int is_of(const struct diloco_weight *w, uint64_t fragment)
{
    return fragment == DILOCO_ALL || w->fragment == fragment;
}

cadre_status diloco_post_sums(struct cadre_self *self, uint64_t fragment,
                              const char *label)
{
    for (uint32_t i = 0; i < self->n_weights; i++) {
        struct cadre_post post = cadre_post(label, CADRE_TRAFFIC_PARAM, 0);
        struct cadre_buf x;
        if (!is_of(&self->weight[i], fragment))
            continue;
        CADRE_TRY(self->param->owned(self->ctx, self->weight[i].id, &x));
        CADRE_TRY(self->comm->all_reduce(self->axis, &x, &x, CADRE_SUM, &post));
        self->weight[i].done = post.done;
    }
    return CADRE_OK;
}

/* d holds the sum of the changes of `ranks` replicas; then what the outer step gives,
 * as the anchor does. */
static cadre_status outer_step(struct cadre_self *self, const struct diloco_weight *w,
                               const struct cadre_buf *d, uint64_t ranks)
{
    struct cadre_ctx *ctx = self->ctx;
    double mean = 1.0 / (double)ranks, of_sum = self->lr * mean;
    struct cadre_buf anchor = diloco_part(&self->anchor, w, d);
    if (self->momentum != 0) {
        struct cadre_buf outer = diloco_part(&self->outer, w, d);
        double of_outer = self->lr * (self->nesterov ? self->momentum : 1);
        CADRE_TRY(self->ops->axpby(ctx, mean, d, self->momentum, &outer));
        CADRE_TRY(
            self->ops->axpby(ctx, of_outer, &outer, self->nesterov ? of_sum : 0, d));
        CADRE_TRY(self->ops->add(ctx, d, d, &anchor));
    } else {
        CADRE_TRY(self->ops->axpby(ctx, 1, &anchor, of_sum, d));
    }
    return self->ops->copy(ctx, anchor.data, d->data, cadre_buf_bytes(d));
}

/* ---- in place: the values become their change, then what the outer step gives ---- */

/* The changes are summed, not the values: they are small, and lose fewer bits. */
static cadre_status meet_in_place(struct cadre_self *self, uint64_t fragment)
{
    for (uint32_t i = 0; i < self->n_weights; i++) {
        struct cadre_buf x;
        if (!is_of(&self->weight[i], fragment))
            continue;
        CADRE_TRY(self->param->owned(self->ctx, self->weight[i].id, &x));
        struct cadre_buf anchor = diloco_part(&self->anchor, &self->weight[i], &x);
        CADRE_TRY(self->ops->axpby(self->ctx, -1, &anchor, 1, &x));
    }
    CADRE_TRY(diloco_post_sums(self, fragment, "diloco changes"));
    for (uint32_t i = 0; i < self->n_weights; i++) {
        struct cadre_buf x;
        if (!is_of(&self->weight[i], fragment))
            continue;
        CADRE_TRY(self->comm->stream_wait(self->axis, self->weight[i].done));
        CADRE_TRY(self->param->owned(self->ctx, self->weight[i].id, &x));
        CADRE_TRY(outer_step(self, &self->weight[i], &x, (uint64_t)self->ranks));
    }
    return CADRE_OK;
}

/* ---- from a copy, in one operation ---- */

static struct cadre_buf change_of(const struct cadre_self *self,
                                  const struct diloco_weight *w,
                                  const struct cadre_buf *x)
{
    return cadre_buf_slice(&self->change, w->in_fragment, x->count);
}

static cadre_status post_change(struct cadre_self *self, uint64_t fragment,
                                uint64_t step)
{
    struct cadre_post post = cadre_post("diloco fragment", CADRE_TRAFFIC_PARAM, 0);
    struct cadre_buf sum =
        cadre_buf_slice(&self->change, 0, self->fragment_count[fragment]);
    for (uint32_t i = 0; i < self->n_weights; i++) {
        const struct diloco_weight *w = &self->weight[i];
        struct cadre_buf x;
        if (w->fragment != fragment)
            continue;
        CADRE_TRY(self->param->owned(self->ctx, w->id, &x));
        struct cadre_buf anchor = diloco_part(&self->anchor, w, &x);
        struct cadre_buf change = change_of(self, w, &x);
        CADRE_TRY(self->ops->copy(self->ctx, change.data, x.data, cadre_buf_bytes(&x)));
        CADRE_TRY(self->ops->axpby(self->ctx, -1, &anchor, 1, &change));
    }
    if (sum.count > 0)
        CADRE_TRY(self->comm->all_reduce(self->axis, &sum, &sum, CADRE_SUM, &post));
    self->arrived = post.done;
    self->pending = (struct diloco_pending){.fragments = self->fragments,
                                            .period = self->period,
                                            .overlap = self->overlap,
                                            .fragment = fragment,
                                            .due = step + self->overlap,
                                            .ranks = (uint64_t)self->ranks};
    return CADRE_OK;
}

cadre_status diloco_arrive(struct cadre_self *self)
{
    cadre_event arrived = self->arrived;
    self->arrived = 0;
    return arrived ? self->comm->stream_wait(self->axis, arrived) : CADRE_OK;
}

static cadre_status apply_change(struct cadre_self *self)
{
    const struct diloco_pending pending = self->pending;
    self->pending = (struct diloco_pending){0};
    CADRE_TRY(diloco_arrive(self));
    for (uint32_t i = 0; i < self->n_weights; i++) {
        const struct diloco_weight *w = &self->weight[i];
        struct cadre_buf x;
        if (w->fragment != pending.fragment)
            continue;
        CADRE_TRY(self->param->owned(self->ctx, w->id, &x));
        struct cadre_buf change = change_of(self, w, &x);
        CADRE_TRY(outer_step(self, w, &change, pending.ranks));
        CADRE_TRY(
            self->ops->axpby(self->ctx, 1 - self->mixing, &change, self->mixing, &x));
    }
    return CADRE_OK;
}

cadre_status diloco_meet(struct cadre_self *self, uint64_t step)
{
    const int copies = diloco_sends_copies(self);
    uint64_t met = 0;
    if (self->pending.due == step)
        CADRE_TRY(apply_change(self));
    for (uint64_t f = 0; f < self->fragments; f++) {
        if (!takes_turn(self, f, step))
            continue;
        CADRE_TRY(copies ? post_change(self, f, step) : meet_in_place(self, f));
        if (copies && self->overlap == 0)
            CADRE_TRY(apply_change(self));
        met++;
    }
    if (met == self->fragments && !copies)
        self->apart = 0;
    return CADRE_OK;
}

/* ---- checkpoints ---- */

/* Takes a fragment that was pending as it is, or drops it. */
static void take_pending(struct cadre_self *self, const struct diloco_pending *saved)
{
    self->pending = (struct diloco_pending){0};
    if (saved->due == 0)
        return;
    if (saved->fragments == self->fragments && saved->period == self->period &&
        saved->overlap == self->overlap && saved->ranks > 0)
        self->pending = *saved;
    else
        self->host->log(self->ctx, 1,
                        "a fragment was in flight under other diloco.fragments, period "
                        "or overlap; its next outer step takes its change");
}

cadre_status diloco_pending_state(struct cadre_self *self,
                                  const struct cadre_state_sink *sink)
{
    struct diloco_pending kept =
        sink->saving ? self->pending : (struct diloco_pending){0};
    if (!diloco_sends_copies(self))
        return CADRE_OK;
    CADRE_TRY(
        sink->blob(sink->h, "pending", 1, CADRE_BLOB_REPLICATED, &kept, sizeof kept));
    if (!sink->saving)
        take_pending(self, &kept);
    for (uint32_t i = 0; self->pending.due && i < self->n_weights; i++) {
        const struct diloco_weight *w = &self->weight[i];
        struct cadre_buf x;
        if (w->fragment != self->pending.fragment)
            continue;
        CADRE_TRY(self->param->owned(self->ctx, w->id, &x));
        struct cadre_buf change = change_of(self, w, &x);
        CADRE_TRY(sink->tensor(sink->h, "change", w->id, CADRE_STATE_SAME, w->begin,
                               &change));
    }
    return CADRE_OK;
}
