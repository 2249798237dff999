/* SPDX-License-Identifier: Apache-2.0 */
/* One model on several instances: their gradients become one, summed by the host's
 * all_reduce, which goes through host memory where devices cannot reach each other. The
 * core has divided the loss by the tokens of the whole step, so the sum is the average.
 * Gradients travel in buckets, from the last entry to the first as backward finishes
 * them, and in that order on every rank whatever is ready first, so that no rank waits
 * for a collective that another has not come to. */
#include <stdlib.h>

#include "plugins/mig/mig.h"

#define BUCKET_BYTES (25u << 20)

static cadre_status is_present(struct cadre_self *self, cadre_param_id id, int *present)
{
    struct cadre_param_info info = {.struct_size = sizeof info};
    cadre_status rc = self->model->param(self->ctx, id, &info);
    *present = !rc && info.present;
    return rc;
}

/* A bucket that ends with entry `last`, widened downwards as far as gradients lie in
 * one piece and BUCKET_BYTES allow. */
static cadre_status fill_bucket(struct cadre_self *self, struct mig_bucket *bucket,
                                cadre_param_id last)
{
    int present = 1;
    *bucket = (struct mig_bucket){.first = last, .last = last};
    bucket->grad.struct_size = sizeof bucket->grad;
    cadre_status rc = self->param->grad(self->ctx, last, &bucket->grad);
    if (!rc && !bucket->grad.data)
        rc = cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                          "gradient entry %u has no storage of its own", last);
    while (!rc && bucket->first > 0) {
        struct cadre_buf wider = {.struct_size = sizeof wider};
        rc = is_present(self, bucket->first - 1, &present);
        if (rc || !present ||
            self->param->grad_span(self->ctx, bucket->first - 1, last, &wider) ||
            wider.count * cadre_dtype_size(wider.dtype) > BUCKET_BYTES)
            break;
        bucket->grad = wider;
        bucket->first--;
    }
    return rc;
}

static cadre_status add_bucket(struct cadre_self *self, cadre_param_id last)
{
    struct mig_average *average = &self->average;
    struct mig_bucket *bucket = &average->bucket[average->n_buckets];
    cadre_status rc = fill_bucket(self, bucket, last);
    for (cadre_param_id id = bucket->first; !rc && id <= last; id++)
        average->bucket_of[id] = average->n_buckets;
    average->n_buckets += rc == CADRE_OK;
    return rc;
}

cadre_status mig_average_bind(struct cadre_self *self)
{
    struct mig_average *average = &self->average;
    if (!self->averages || self->size <= 1)
        return CADRE_OK;
    average->n_entries = self->model->n_params(self->ctx);
    average->bucket = calloc(average->n_entries + 1u, sizeof *average->bucket);
    average->bucket_of = calloc(average->n_entries + 1u, sizeof *average->bucket_of);
    average->final = calloc(average->n_entries + 1u, 1);
    if (!average->bucket || !average->bucket_of || !average->final)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %u entries",
                            average->n_entries);
    cadre_param_id id = average->n_entries;
    while (id > 0) {
        int present = 0;
        cadre_status rc = is_present(self, --id, &present);
        average->bucket_of[id] = MIG_NO_BUCKET;
        if (!rc && present) {
            rc = add_bucket(self, id);
            id = rc ? id : average->bucket[average->n_buckets - 1].first;
        }
        if (rc)
            return rc;
    }
    return CADRE_OK;
}

void mig_average_release(struct cadre_self *self)
{
    free(self->average.bucket);
    free(self->average.bucket_of);
    free(self->average.final);
    self->average = (struct mig_average){0};
}

cadre_status mig_average_step(struct cadre_self *self, const struct cadre_step *step,
                              const struct cadre_next *next)
{
    struct mig_average *average = &self->average;
    for (uint32_t i = 0; i < average->n_buckets; i++) {
        struct mig_bucket *bucket = &average->bucket[i];
        bucket->waiting = bucket->last - bucket->first + 1;
        bucket->ready = 0;
    }
    for (uint32_t i = 0; i < average->n_entries; i++)
        average->final[i] = 0;
    average->sent = average->joined = 0;
    average->open = 1;
    return next->run(next->h, step);
}

static cadre_status send_next(struct cadre_self *self)
{
    struct mig_bucket *bucket = &self->average.bucket[self->average.sent];
    cadre_status rc =
        self->comm->all_reduce(self->axis, "mig gradients", &bucket->grad,
                               &bucket->grad, CADRE_SUM, bucket->ready, &bucket->done);
    self->average.sent += rc == CADRE_OK;
    return rc;
}

/* The core adds up micro-batches: what is not FINAL stays here. */
cadre_status mig_average_on_grad(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    struct mig_average *average = &self->average;
    cadre_status rc = CADRE_OK;
    if (average->n_buckets == 0)
        return CADRE_OK;
    if (ev->param >= average->n_entries || !average->open ||
        average->bucket_of[ev->param] == MIG_NO_BUCKET || average->final[ev->param])
        return cadre_refuse(self->host, CADRE_E_INTERNAL,
                            "a gradient of entry %u came where none was expected",
                            ev->param);
    if (!(ev->flags & CADRE_GRAD_FINAL))
        return CADRE_OK;
    struct mig_bucket *bucket = &average->bucket[average->bucket_of[ev->param]];
    average->final[ev->param] = 1;
    bucket->waiting--;
    if (ev->ready)
        bucket->ready = ev->ready;
    while (!rc && average->sent < average->n_buckets &&
           average->bucket[average->sent].waiting == 0)
        rc = send_next(self);
    if (!rc && average->sent > average->bucket_of[ev->param])
        ev->ready = bucket->done;
    return rc;
}

cadre_status mig_average_sync(struct cadre_self *self, uint32_t what)
{
    struct mig_average *average = &self->average;
    cadre_status rc = CADRE_OK;
    if (what != CADRE_SYNC_GRADS && what != CADRE_SYNC_QUIESCE)
        return CADRE_OK;
    /* what no gradient came for is zero here, and still the others' to have */
    while (what == CADRE_SYNC_GRADS && average->open && !rc &&
           average->sent < average->n_buckets)
        rc = send_next(self);
    while (!rc && average->joined < average->sent)
        rc = self->comm->join(self->axis, average->bucket[average->joined++].done);
    if (what == CADRE_SYNC_GRADS)
        average->open = 0;
    return rc;
}
