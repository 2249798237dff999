/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient buckets: which gradients are reduced by one collective, and when. To avoid a
 * deadlock every rank posts the buckets in ascending order of their numbers. A complete
 * bucket waits for those before it. Its second exchange is posted after the next bucket
 * is sent, so that the link is busy while a rank waits. Buckets that are not complete
 * at the end of the step are sent at sync(GRADS).
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

static cadre_status is_present(struct cadre_self *self, cadre_param_id id, int *present)
{
    struct cadre_param_info info = {.struct_size = sizeof info};
    CADRE_TRY(self->model->param(self->ctx, id, &info));
    *present = info.present != 0;
    return CADRE_OK;
}

/* The gradient of one entry; it must have storage. */
static cadre_status find_grad(struct cadre_self *self, cadre_param_id id,
                              struct cadre_buf *grad)
{
    *grad = (struct cadre_buf){.struct_size = sizeof *grad};
    CADRE_TRY(self->param->grad(self->ctx, id, grad));
    if (grad->data)
        return CADRE_OK;
    return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                        "gradient entry %u has no storage of its own", id);
}

/* A bucket that ends with entry `last`, grown downwards while its gradients are
 * contiguous and take at most bucket_bytes. A gradient is never divided. */
static cadre_status fill_bucket(struct cadre_self *self, struct ddp_bucket *bucket,
                                cadre_param_id last)
{
    int present = 1;
    *bucket = (struct ddp_bucket){.first = last, .last = last};
    CADRE_TRY(find_grad(self, last, &bucket->grad));
    while (bucket->first > 0) {
        struct cadre_buf wider = {.struct_size = sizeof wider};
        CADRE_TRY(is_present(self, bucket->first - 1, &present));
        if (!present ||
            self->param->grad_span(self->ctx, bucket->first - 1, last, &wider) ||
            ddp_bytes(&wider) > self->bucket_bytes)
            break;
        bucket->grad = wider;
        bucket->first--;
    }
    return CADRE_OK;
}

static cadre_status add_bucket(struct cadre_self *self, cadre_param_id last)
{
    uint32_t number = self->n_buckets;
    struct ddp_bucket *bucket = &self->bucket[number];
    CADRE_TRY(fill_bucket(self, bucket, last));
    bucket->label = labels[number < N_LABELS ? number : N_LABELS];
    for (cadre_param_id id = bucket->first; id <= last; id++) {
        self->entry[id].bucket = number;
        CADRE_TRY(find_grad(self, id, &self->entry[id].grad));
    }
    self->n_buckets++;
    return CADRE_OK;
}

cadre_status ddp_buckets_make(struct cadre_self *self)
{
    self->n_entries = self->model->n_params(self->ctx);
    self->bucket = calloc(self->n_entries + 1u, sizeof *self->bucket);
    self->entry = calloc(self->n_entries + 1u, sizeof *self->entry);
    if (!self->bucket || !self->entry)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %u entries",
                            self->n_entries);
    cadre_param_id id = self->n_entries;
    while (id > 0) {
        int present;
        CADRE_TRY(is_present(self, --id, &present));
        self->entry[id].bucket = DDP_NO_BUCKET;
        if (!present)
            continue;
        CADRE_TRY(add_bucket(self, id));
        id = self->bucket[self->n_buckets - 1].first;
    }
    return CADRE_OK;
}

/* ---- one step ---- */

static cadre_status relay_next(struct cadre_self *self)
{
    struct ddp_bucket *bucket = &self->bucket[self->exchanged_twice];
    if (self->mode->second_exchange)
        CADRE_TRY(self->mode->second_exchange(self, bucket));
    self->exchanged_twice++;
    return CADRE_OK;
}

static cadre_status send_next(struct cadre_self *self)
{
    CADRE_TRY(self->mode->send(self, &self->bucket[self->sent]));
    self->sent++;
    while (self->exchanged_twice + 1 < self->sent)
        CADRE_TRY(relay_next(self));
    return CADRE_OK;
}

cadre_status ddp_step(struct cadre_self *self, const struct cadre_step *step,
                      const struct cadre_next *next)
{
    for (uint32_t i = 0; i < self->n_buckets; i++) {
        self->bucket[i].waiting = self->bucket[i].last - self->bucket[i].first + 1;
        self->bucket[i].ready = 0;
    }
    for (uint32_t i = 0; i < self->n_entries; i++)
        self->entry[i].final = 0;
    self->sent = self->exchanged_twice = self->finished = 0;
    self->open = 1;
    return next->run(next->h, step);
}

/* Under gradient accumulation the core adds up the contributions before FINAL; only the
 * sum is reduced over ranks. */
cadre_status ddp_on_grad(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    if (self->n_buckets == 0)
        return CADRE_OK;
    if (ev->param >= self->n_entries ||
        self->entry[ev->param].bucket == DDP_NO_BUCKET ||
        self->entry[ev->param].final || !self->open)
        return cadre_refuse(self->host, CADRE_E_INTERNAL,
                            "a gradient of entry %u came %s", ev->param,
                            ev->param < self->n_entries && self->entry[ev->param].final
                                ? "after its last one"
                                : "where none was expected");
    if (!(ev->flags & CADRE_GRAD_FINAL))
        return CADRE_OK;
    struct ddp_entry *entry = &self->entry[ev->param];
    struct ddp_bucket *bucket = &self->bucket[entry->bucket];
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

/* Wait for the buckets that were sent. */
static cadre_status finish_sent(struct cadre_self *self)
{
    while (self->exchanged_twice < self->sent)
        CADRE_TRY(relay_next(self));
    while (self->finished < self->exchanged_twice)
        CADRE_TRY(self->mode->finish(self, &self->bucket[self->finished++]));
    return CADRE_OK;
}

cadre_status ddp_sync(struct cadre_self *self, uint32_t what)
{
    if (what == CADRE_SYNC_DRAIN)
        return finish_sent(self);
    if (what != CADRE_SYNC_GRADS || !self->open)
        return CADRE_OK;
    self->open = 0;
    while (self->sent < self->n_buckets)
        CADRE_TRY(send_next(self));
    return finish_sent(self);
}
