/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient buckets: which gradients are reduced by one collective, and when. To avoid a
 * deadlock every rank posts the buckets in ascending order of their numbers. A complete
 * bucket waits for those before it. Its second exchange is posted after the next bucket
 * is sent, so that the link is busy while a rank waits. Buckets that are not complete
 * at the end of the step are sent at sync(GRADS).
 *
 * Ranks along another axis may hold other experts, and reduce the other entries in the
 * order in which they are reported: so no bucket has both.
 *
 * Two sorts of gradients have no bucket and are reduced alone, where they lie: those of
 * which a plugin of another level keeps a range, and those of single micro-batches
 * (CYCLIC), which are lent for the event.
 * Source: Li et al., PyTorch Distributed, VLDB 2020, section 3.2. */
#include <stdlib.h>

#include "plugins/ddp/ddp.h"

/* Static because a communicator may name an operation after the instance has gone. */
#define TEN(t)                                                                         \
    "ddp bucket " #t "0", "ddp bucket " #t "1", "ddp bucket " #t "2",                  \
        "ddp bucket " #t "3", "ddp bucket " #t "4", "ddp bucket " #t "5",              \
        "ddp bucket " #t "6", "ddp bucket " #t "7", "ddp bucket " #t "8",              \
        "ddp bucket " #t "9"
#define N_LABELS 100u
static const char *const labels[N_LABELS + 1] = {
    TEN(),
    TEN(1),
    TEN(2),
    TEN(3),
    TEN(4),
    TEN(5),
    TEN(6),
    TEN(7),
    TEN(8),
    TEN(9),
    "ddp bucket 100 or later",
};

/* ---- set-up ---- */

cadre_status ddp_entries_list(struct cadre_self *self)
{
    uint32_t n = self->model->n_params(self->ctx), apart = 0;
    free(self->entry);
    free(self->place);
    self->entry = calloc(n + 1u, sizeof *self->entry);
    self->place = calloc(n + 1u, sizeof *self->place);
    self->n_entries = self->n_params = 0;
    if (!self->entry || !self->place)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %u entries",
                            n);
    for (cadre_param_id id = 0; id < n; id++) {
        struct ddp_entry *entry = &self->entry[self->n_entries];
        CADRE_TRY(cadre_param_get(self->host, self->model, id, &entry->info));
        self->place[id] = DDP_NONE;
        apart = apart || !entry->info.present ||
                (self->n_entries > 0 &&
                 (entry->info.expert < 0) != (entry[-1].info.expert < 0));
        if (!entry->info.present || entry->info.frozen)
            continue;
        entry->id = id;
        entry->apart = apart;
        entry->bucket = DDP_NONE;
        self->place[id] = self->n_entries++;
        apart = 0;
    }
    self->n_params = n;
    return CADRE_OK;
}

/* Are gradients sent as they are, so that one may be sent where it lies? */
static int sums_whole(const struct cadre_self *self)
{
    return self->mode == &ddp_mode_none || self->mode == &ddp_mode_levels;
}

/* The gradient of an entry; it must have storage, or a range of it has been placed. */
static cadre_status find_grad(struct cadre_self *self, struct ddp_entry *entry)
{
    struct cadre_buf part = {0};
    uint64_t begin = 0, count = 0;
    CADRE_TRY(
        self->param->range(self->ctx, entry->id, CADRE_KIND_GRAD, &begin, &count));
    CADRE_TRY(self->param->shard(self->ctx, entry->id, CADRE_KIND_GRAD, &part));
    entry->alone = part.data || count < entry->info.count;
    if (entry->alone && !sums_whole(self))
        return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                            "another plugin of strategy.stack keeps ranges of "
                            "gradients, but ddp sends whole ones with ddp.compress, "
                            "and with run.exact = yes under a map of ranges of "
                            "micro-batches; set ddp.compress = none, run.exact = no");
    CADRE_TRY(self->param->grad(self->ctx, entry->id, &entry->grad));
    if (entry->grad.data || entry->alone)
        return CADRE_OK;
    return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                        "gradient entry %u has no storage of its own", entry->id);
}

/* A bucket that ends with entry `last`, grown downwards while its gradients are
 * contiguous and take at most bucket_bytes. A gradient is never divided. */
static void fill_bucket(struct cadre_self *self, struct ddp_bucket *bucket,
                        uint32_t last)
{
    *bucket = (struct ddp_bucket){
        .grad = self->entry[last].grad, .first = last, .last = last};
    while (bucket->first > 0 && !self->entry[bucket->first].apart) {
        const struct ddp_entry *before = &self->entry[bucket->first - 1];
        struct cadre_buf wider = {0};
        if (before->alone ||
            self->param->grad_span(self->ctx, before->id, self->entry[last].id,
                                   &wider) ||
            cadre_buf_bytes(&wider) > self->bucket_bytes)
            break;
        bucket->grad = wider;
        bucket->first--;
    }
}

static void add_bucket(struct cadre_self *self, uint32_t last)
{
    uint32_t number = self->n_buckets++;
    struct ddp_bucket *bucket = &self->bucket[number];
    fill_bucket(self, bucket, last);
    bucket->label = labels[number < N_LABELS ? number : N_LABELS];
    for (uint32_t i = bucket->first; i <= last; i++)
        self->entry[i].bucket = number;
}

cadre_status ddp_buckets_make(struct cadre_self *self)
{
    CADRE_TRY(ddp_entries_list(self));
    self->bucket = calloc(self->n_entries + 1u, sizeof *self->bucket);
    if (!self->bucket)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %u entries",
                            self->n_entries);
    for (uint32_t i = 0; i < self->n_entries; i++)
        CADRE_TRY(find_grad(self, &self->entry[i]));
    for (uint32_t i = self->n_entries; i > 0;) {
        if (self->entry[--i].alone)
            continue;
        add_bucket(self, i);
        i = self->bucket[self->n_buckets - 1].first;
    }
    return CADRE_OK;
}

/* ---- one step ---- */

/* The sums of a bucket are complete after `ready`: tell the core of each gradient that
 * was raised. */
static cadre_status report(struct cadre_self *self, const struct ddp_bucket *bucket,
                           cadre_event ready)
{
    for (uint32_t i = bucket->first; i <= bucket->last; i++) {
        const struct ddp_entry *entry = &self->entry[i];
        if (entry->final)
            CADRE_TRY(self->param->reduced(self->ctx, entry->id, &entry->grad, ready));
    }
    return CADRE_OK;
}

static cadre_status relay_next(struct cadre_self *self)
{
    struct ddp_bucket *bucket = &self->bucket[self->exchanged_twice++];
    if (self->now->second_exchange)
        CADRE_TRY(self->now->second_exchange(self, bucket));
    return self->now->in_place ? report(self, bucket, bucket->done) : CADRE_OK;
}

static cadre_status send_next(struct cadre_self *self)
{
    const uint32_t behind = self->now->second_exchange ? 1 : 0;
    CADRE_TRY(self->now->send(self, &self->bucket[self->sent]));
    self->sent++;
    while (self->exchanged_twice + behind < self->sent)
        CADRE_TRY(relay_next(self));
    return CADRE_OK;
}

cadre_status ddp_step(struct cadre_self *self, const struct cadre_step *step,
                      const struct cadre_next *next)
{
    if (step->flags & CADRE_STEP_FORWARD)
        return next->run(next->h, step);
    for (uint32_t i = 0; i < self->n_buckets; i++) {
        self->bucket[i].waiting = self->bucket[i].last - self->bucket[i].first + 1;
        self->bucket[i].ready = 0;
    }
    for (uint32_t i = 0; i < self->n_entries; i++)
        self->entry[i].final = 0;
    self->sent = self->exchanged_twice = self->finished = 0;
    self->each = 0;
    self->open = 1;
    self->now = self->mode;
    if (self->mode->begin && self->ranks > 1)
        CADRE_TRY(self->mode->begin(self, step->step, &self->now));
    return next->run(next->h, step);
}

static cadre_status post_alone(struct cadre_self *self, const struct cadre_buf *grad,
                               cadre_event after, cadre_event *done)
{
    if (self->mode == &ddp_mode_levels)
        return ddp_levels_reduce(self, grad, after, done);
    struct cadre_post post = cadre_post("ddp gradient", CADRE_TRAFFIC_GRAD, after);
    CADRE_TRY(self->comm->all_reduce(self->axis, grad, grad, CADRE_SUM, &post));
    *done = post.done;
    return CADRE_OK;
}

/* Reduce a gradient where it lies. That of a micro-batch is lent, so wait for it. */
static cadre_status reduce_alone(struct cadre_self *self, struct ddp_entry *entry,
                                 struct cadre_grad_ev *ev)
{
    cadre_event done = 0;
    int each = ev->map == CADRE_MICROBATCHES_CYCLIC;
    if (!ev->grad || !sums_whole(self))
        return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                            "the gradient of '%s' comes one micro-batch at a time or "
                            "in ranges, which ddp.compress cannot send; set "
                            "ddp.compress = none",
                            entry->info.name);
    self->each = self->each || each;
    entry->final = (ev->flags & CADRE_GRAD_FINAL) != 0;
    if (!each && !entry->final)
        return CADRE_OK;
    if (ev->grad->count > 0) {
        CADRE_TRY(post_alone(self, ev->grad, ev->ready, &done));
        ev->ready = done;
        if (each)
            CADRE_TRY(self->comm->stream_wait(self->axis, done));
        else
            entry->done = done;
    }
    return self->param->reduced(self->ctx, entry->id, ev->grad, ev->ready);
}

/* Under gradient accumulation the core adds up the contributions before FINAL; only the
 * sum is reduced over ranks. */
static cadre_status add_to_bucket(struct cadre_self *self, struct ddp_entry *entry,
                                  struct cadre_grad_ev *ev)
{
    struct ddp_bucket *bucket = &self->bucket[entry->bucket];
    if (!(ev->flags & CADRE_GRAD_FINAL))
        return CADRE_OK;
    if (self->mode->take)
        CADRE_TRY(self->mode->take(self, bucket, entry, ev));
    else if (ev->n_nodes > 0)
        return cadre_refuse(self->host, CADRE_E_INTERNAL,
                            "the gradient of '%s' is %u nodes of the reduction tree, "
                            "of which the plan said nothing",
                            entry->info.name, ev->n_nodes);
    entry->final = 1;
    bucket->waiting--;
    if (ev->ready)
        bucket->ready = ev->ready;
    while (self->overlap && self->sent < self->n_buckets &&
           self->bucket[self->sent].waiting == 0)
        CADRE_TRY(send_next(self));
    if (self->sent > entry->bucket)
        ev->ready = bucket->done;
    return CADRE_OK;
}

cadre_status ddp_on_grad(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    if (self->ranks <= 1)
        return CADRE_OK;
    uint32_t place = ev->param < self->n_params ? self->place[ev->param] : DDP_NONE;
    if (place == DDP_NONE || self->entry[place].final || !self->open)
        return cadre_refuse(
            self->host, CADRE_E_INTERNAL, "a gradient of entry %u came %s", ev->param,
            place != DDP_NONE && self->entry[place].final ? "after its last one"
                                                          : "where none was expected");
    struct ddp_entry *entry = &self->entry[place];
    if (self->exact && ev->map == CADRE_MICROBATCHES_RANGES &&
        (ev->flags & CADRE_GRAD_REDUCED))
        return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                            "run.exact = yes with ranges of micro-batches: sums over "
                            "two levels of reduction do not follow one tree; set "
                            "run.exact = no, or reduce over one axis");
    return entry->alone || ev->map == CADRE_MICROBATCHES_CYCLIC
               ? reduce_alone(self, entry, ev)
               : add_to_bucket(self, entry, ev);
}

/* Wait for the reductions of gradients that have no bucket. */
static cadre_status finish_alone(struct cadre_self *self)
{
    for (uint32_t i = 0; i < self->n_entries; i++) {
        struct ddp_entry *entry = &self->entry[i];
        cadre_event done = entry->done;
        entry->done = 0;
        if (done)
            CADRE_TRY(self->comm->stream_wait(self->axis, done));
    }
    return CADRE_OK;
}

/* Wait for the buckets that were sent. */
static cadre_status finish_sent(struct cadre_self *self)
{
    while (self->exchanged_twice < self->sent)
        CADRE_TRY(relay_next(self));
    while (self->finished < self->exchanged_twice) {
        struct ddp_bucket *bucket = &self->bucket[self->finished++];
        cadre_event ready = 0;
        CADRE_TRY(self->now->finish(self, bucket));
        if (self->now->in_place)
            continue;
        CADRE_TRY(ddp_computed(self, &ready));
        CADRE_TRY(report(self, bucket, ready));
    }
    return finish_alone(self);
}

cadre_status ddp_sync(struct cadre_self *self, const struct cadre_sync *sync)
{
    if (sync->what == CADRE_SYNC_DRAIN)
        return finish_sent(self);
    if (sync->what != CADRE_SYNC_GRADS || !self->open)
        return CADRE_OK;
    self->open = 0;
    while (!self->each && self->sent < self->n_buckets)
        CADRE_TRY(send_next(self));
    return finish_sent(self);
}
