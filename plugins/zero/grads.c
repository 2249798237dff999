/* SPDX-License-Identifier: Apache-2.0 */
/* Reduction of gradients: each rank gets the sum of the shard it updates. In stage 1 a
 * gradient is whole on every rank and its bucket is reduced in place. From stage 2 on a
 * bucket has storage from its first backward until it is reduced.
 *
 * A bucket is posted when its last gradient is ready. The ranks of the axis run the
 * same units in the same order, so all post the buckets in the same order. */
#include "plugins/zero/zero.h"

/* Bytes of a bucket, or of this rank's shard of it. */
static uint64_t bytes_of(const struct cadre_self *self,
                         const struct zero_bucket *bucket, int part)
{
    uint64_t mine = bucket->off[self->slot + 1] - bucket->off[self->slot];
    return (part ? mine : bucket->count) *
           cadre_dtype_size(self->entry[bucket->first].info.grad_dtype);
}

/* Does any of the bucket's entries belong to the unit? */
static int touches(const struct cadre_self *self, const struct zero_bucket *bucket,
                   uint32_t unit)
{
    for (cadre_param_id i = bucket->first; i <= bucket->last; i++)
        if (self->entry[i].info.unit == unit)
            return 1;
    return 0;
}

uint64_t cadre_zero_grads_bytes(const struct cadre_self *self, uint64_t n, int parts)
{
    uint64_t most = 0, all = 0;
    for (uint32_t b = 0; b < self->n_buckets; b++)
        all += bytes_of(self, &self->bucket[b], parts);
    /* A schedule may leave a unit's gradients half made while it runs others. */
    if ((!self->each && n > 1) || !cadre_zero_runs_all(self))
        return all;
    for (uint32_t u = 0; u < self->n_units; u++) {
        uint64_t bytes = 0;
        for (uint32_t b = 0; b < self->n_buckets; b++)
            if (touches(self, &self->bucket[b], u) ||
                (self->overlap && touches(self, &self->bucket[b], u + 1)))
                bytes += bytes_of(self, &self->bucket[b], parts);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* The core's storage of the bucket: whole in stage 1, this rank's shard later. */
static cadre_status find_grads(struct cadre_self *self, struct zero_bucket *bucket)
{
    const struct zero_entry *first = &self->entry[bucket->first];
    const struct zero_run run = {
        .first = bucket->first,
        .last = bucket->last,
        .at = first->at,
        .count = bucket->count,
        .off = bucket->off,
        .dtype = first->info.grad_dtype,
        .kind = CADRE_KIND_GRAD,
        .part = self->stage > 1,
        .what = "gradients",
    };
    return cadre_zero_find(self, &run, &bucket->grad, &bucket->mine);
}

cadre_status cadre_zero_grads_bind(struct cadre_self *self)
{
    for (uint32_t b = 0; b < self->n_buckets; b++)
        CADRE_TRY(find_grads(self, &self->bucket[b]));
    return CADRE_OK;
}

static void expect(struct zero_bucket *bucket)
{
    bucket->waiting = bucket->last - bucket->first + 1;
    bucket->ready = 0;
    bucket->sent = 0;
}

void cadre_zero_grads_begin_step(struct cadre_self *self)
{
    self->open = 1;
    for (uint32_t b = 0; b < self->n_buckets; b++)
        expect(&self->bucket[b]);
}

/* ---- reducing ---- */

/* Attach the bucket's storage to its gradients, or detach it. */
static cadre_status attach(struct cadre_self *self, struct zero_bucket *bucket, int on)
{
    for (cadre_param_id i = bucket->first; i <= bucket->last; i++) {
        const struct zero_entry *entry = &self->entry[i];
        struct cadre_buf part = cadre_buf_slice(
            &bucket->grad, entry->at - self->entry[bucket->first].at, entry->count);
        CADRE_TRY(self->param->attach_grad(self->host->ctx, i, on ? &part : NULL));
    }
    return CADRE_OK;
}

/* This rank's part of the sum of an entry: in stage 1 the gradients stay whole, and
 * only the range that this rank updates is summed. */
static struct cadre_buf sum_of(const struct cadre_self *self,
                               const struct zero_bucket *bucket, cadre_param_id id)
{
    const uint64_t at = self->entry[id].at - self->entry[bucket->first].at;
    const uint64_t begin = cadre_zero_begin(self, id, self->slot);
    const uint64_t count = cadre_zero_begin(self, id, self->slot + 1) - begin;
    if (self->stage == 1)
        return cadre_buf_slice(&bucket->grad, at, self->entry[id].count);
    if (count == 0)
        return cadre_buf_of(NULL, 0, bucket->mine.dtype, bucket->mine.space);
    return cadre_buf_slice(&bucket->mine, at + begin - bucket->off[self->slot], count);
}

/* Tell the core of the bucket's sums, complete after its `done`. */
static cadre_status report(struct cadre_self *self, const struct zero_bucket *bucket)
{
    for (cadre_param_id i = bucket->first; i <= bucket->last; i++) {
        struct cadre_buf sum = sum_of(self, bucket, i);
        CADRE_TRY(self->param->reduced(self->host->ctx, i, &sum, bucket->done));
    }
    return CADRE_OK;
}

/* Wait for the bucket that was posted first and release its buffers. */
static cadre_status finish_first(struct cadre_self *self)
{
    struct zero_bucket *bucket =
        &self->bucket[self->flight[self->n_joined++ % (self->n_buckets + 1u)]];
    bucket->posted = 0;
    CADRE_TRY(self->coded_grads ? cadre_zero_quantized_finish(self, bucket)
                                : self->comm->stream_wait(self->axis, bucket->done));
    if (self->stage > 1)
        cadre_zero_buffer_give(self, &self->grads, &bucket->grad, bucket->pooled);
    if (self->each || self->coded_grads)
        CADRE_TRY(report(self, bucket));
    if (self->each)
        cadre_zero_buffer_give(self, &self->parts, &bucket->mine, bucket->pooled);
    return CADRE_OK;
}

static cadre_status join_until(struct cadre_self *self, uint64_t n)
{
    while (self->n_joined < n)
        CADRE_TRY(finish_first(self));
    return CADRE_OK;
}

cadre_status cadre_zero_grads_join(struct cadre_self *self)
{
    return join_until(self, self->n_posted);
}

static cadre_status reduce(struct cadre_self *self, struct zero_bucket *bucket)
{
    struct cadre_post post =
        cadre_post("zero gradients", CADRE_TRAFFIC_GRAD, bucket->ready);
    if (self->levels)
        return cadre_zero_levels_reduce(self, bucket);
    CADRE_TRY(self->comm->reduce_scatter(self->axis, &bucket->grad, &bucket->mine,
                                         bucket->off, CADRE_SUM, &post));
    bucket->done = post.done;
    return CADRE_OK;
}

/* Quantized: the bucket before this one goes on with its second hop, and what was
 * posted before that ends. */
static cadre_status reduce_quantized(struct cadre_self *self,
                                     struct zero_bucket *bucket)
{
    if (self->n_posted > 0)
        CADRE_TRY(join_until(self, self->n_posted - 1));
    if (self->n_joined < self->n_posted) {
        uint32_t before = self->flight[self->n_joined % (self->n_buckets + 1u)];
        CADRE_TRY(cadre_zero_quantized_advance(self, &self->bucket[before]));
    }
    return cadre_zero_quantized_send(self, bucket);
}

static cadre_status send(struct cadre_self *self, struct zero_bucket *bucket)
{
    if (self->each)
        CADRE_TRY(cadre_zero_buffer_take(self, &self->parts, bucket->mine.count,
                                         bucket->mine.dtype, &bucket->mine));
    CADRE_TRY(self->coded_grads ? reduce_quantized(self, bucket)
                                : reduce(self, bucket));
    self->flight[self->n_posted++ % (self->n_buckets + 1u)] =
        (uint32_t)(bucket - self->bucket);
    bucket->posted = bucket->sent = 1;
    if (self->stage > 1)
        CADRE_TRY(attach(self, bucket, 0));
    if (!self->each && !self->coded_grads)
        CADRE_TRY(report(self, bucket));
    return self->overlap ? CADRE_OK : cadre_zero_grads_join(self);
}

cadre_status cadre_zero_grads_open(struct cadre_self *self, uint32_t unit)
{
    /* The reduction of the unit above may still run; those of another micro-batch's
     * backward have had a whole forward to finish. */
    int above = unit <= self->last_unit;
    CADRE_TRY(join_until(self, above ? self->last_pass : self->n_posted));
    self->last_pass = self->n_posted;
    self->last_unit = unit;
    for (uint32_t b = 0; b < self->n_buckets; b++) {
        struct zero_bucket *bucket = &self->bucket[b];
        if (!touches(self, bucket, unit) || (bucket->sent && !self->each))
            continue;
        if (bucket->posted)
            CADRE_TRY(cadre_zero_grads_join(self));
        if (bucket->grad.data)
            continue;
        CADRE_TRY(cadre_zero_buffer_take(self, &self->grads, bucket->count,
                                         bucket->grad.dtype, &bucket->grad));
        CADRE_TRY(attach(self, bucket, 1));
    }
    return CADRE_OK;
}

/* Is a gradient what the buckets are made for? */
static cadre_status check_gradient(struct cadre_self *self,
                                   const struct zero_bucket *bucket,
                                   const struct cadre_grad_ev *ev)
{
    const int each = ev->map == CADRE_MICROBATCHES_CYCLIC;
    if (each != self->each)
        return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                            "gradients come %s, but zero.reduce = %s; set zero.reduce "
                            "= %s",
                            each ? "one micro-batch at a time" : "once a step",
                            self->each ? "microbatch" : "step",
                            each ? "microbatch" : "step");
    if (each && ev->grad->data != bucket->grad.data)
        return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                            "the gradient of '%s' is not in the buffer that was "
                            "attached; set zero.level below that of the plugin that "
                            "reduces it first",
                            self->entry[ev->param].info.name);
    return CADRE_OK;
}

cadre_status cadre_zero_grads_take(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    if (ev->param >= self->n_entries || self->entry[ev->param].bucket == ZERO_NONE)
        return cadre_refuse(self->host, CADRE_E_INTERNAL,
                            "a gradient of entry %u was raised where none was expected",
                            ev->param);
    struct zero_bucket *bucket = &self->bucket[self->entry[ev->param].bucket];
    if (!self->each && !(ev->flags & CADRE_GRAD_FINAL))
        return CADRE_OK;
    if (bucket->waiting == 0)
        return cadre_refuse(self->host, CADRE_E_INTERNAL,
                            "a gradient of '%s' was raised after its last one",
                            self->entry[ev->param].info.name);
    CADRE_TRY(check_gradient(self, bucket, ev));
    if (ev->ready)
        bucket->ready = ev->ready;
    if (--bucket->waiting > 0 || (self->stage == 1 && !self->overlap))
        return CADRE_OK;
    CADRE_TRY(send(self, bucket));
    ev->ready = bucket->done;
    if (self->each && !(ev->flags & CADRE_GRAD_FINAL))
        expect(bucket);
    return CADRE_OK;
}

cadre_status cadre_zero_grads_settle(struct cadre_self *self)
{
    if (!self->open)
        return CADRE_OK;
    self->open = 0;
    for (uint32_t b = 0; b < self->n_buckets; b++) {
        struct zero_bucket *bucket = &self->bucket[b];
        if (bucket->waiting > 0)
            return cadre_refuse(self->host, CADRE_E_INTERNAL,
                                "the gradient of '%s' or of another entry of its "
                                "bucket was not raised in this step",
                                self->entry[bucket->first].info.name);
        if (!bucket->sent)
            CADRE_TRY(send(self, bucket));
    }
    CADRE_TRY(cadre_zero_grads_join(self));
    self->n_posted = self->n_joined = self->last_pass = 0;
    return CADRE_OK;
}
