/* SPDX-License-Identifier: Apache-2.0 */
/* Error feedback: what a mode does not send is kept on the rank that did not send it,
 * and added to the next step's gradient, so that everything is sent in the long run.
 * Sources: Seide et al., 1-Bit SGD, Interspeech 2014; Stich, Cordonnier & Jaggi,
 * Sparsified SGD with Memory, NeurIPS 2018; Karimireddy et al., Error Feedback Fixes
 * SignSGD, ICML 2019. */
#include <stdlib.h>
#include <string.h>

#include "plugins/ddp/ddp.h"

cadre_status ddp_residual_bind(struct cadre_self *self, struct ddp_bucket *bucket)
{
    uint64_t n = 0;
    for (uint32_t i = bucket->first; i <= bucket->last; i++) {
        struct ddp_entry *entry = &self->entry[i];
        entry->at = n;
        if (entry->k > 0)
            n += ddp_round_up(entry->grad.count, self->mode->block);
    }
    CADRE_TRY(ddp_take(self, bucket->grad.dtype, n, "residuals", &bucket->residual));
    for (uint32_t i = bucket->first; i <= bucket->last; i++) {
        struct ddp_entry *entry = &self->entry[i];
        if (entry->k > 0)
            entry->residual =
                cadre_buf_slice(&bucket->residual, entry->at, entry->grad.count);
    }
    return CADRE_OK;
}

cadre_status ddp_residual_add(struct cadre_self *self, const struct ddp_bucket *bucket)
{
    for (uint32_t i = bucket->first; i <= bucket->last; i++) {
        const struct ddp_entry *entry = &self->entry[i];
        if (entry->residual.count > 0)
            CADRE_TRY(self->ops->add(self->ctx, &entry->residual, &entry->residual,
                                     &entry->grad));
    }
    return CADRE_OK;
}

/* ---- checkpoints ---- */
/* Residuals are saved twice: as tensors, summed over the ranks, which resume at any
 * number of ranks; and as this rank's own bytes, one blob per bucket, which restore the
 * same bits if stack and buckets are the same. */

#define BLOB_BYTES 64000000u /* the host's limit for a blob */

/* The residual of a tied entry is kept under its owner, which has the same shape. */
static cadre_status give_tensor(struct cadre_self *self,
                                const struct cadre_state_sink *sink,
                                const struct ddp_entry *entry)
{
    struct cadre_param_info info;
    if (entry->residual.count == 0)
        return CADRE_OK;
    if (entry->info.tied_to < 0)
        return sink->tensor(sink->h, "residual", entry->id, CADRE_STATE_SUM, 0,
                            &entry->residual);
    cadre_param_id owner = (cadre_param_id)entry->info.tied_to;
    CADRE_TRY(cadre_param_get(self->host, self->model, owner, &info));
    if (!info.present)
        return CADRE_OK;
    return sink->tensor(sink->h, "residual_tied", owner, CADRE_STATE_SUM, 0,
                        &entry->residual);
}

/* FNV-1a */
static uint64_t mix(uint64_t hash, uint64_t value)
{
    for (int i = 0; i < 8; i++, value >>= 8)
        hash = (hash ^ (value & 0xff)) * UINT64_C(0x100000001b3);
    return hash;
}

/* What the bytes of a bucket mean. */
static uint64_t layout_of(const struct cadre_self *self,
                          const struct ddp_bucket *bucket)
{
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), self->entry[bucket->first].id);
    for (const char *c = self->mode->name; *c; c++)
        hash = mix(hash, (uint64_t)*c);
    for (uint32_t i = bucket->first; i <= bucket->last; i++)
        hash = mix(mix(hash, self->entry[i].residual.count), self->entry[i].k);
    return hash;
}

struct parcel {
    uint64_t layout, found;
    struct cadre_buf kept[2];
    char *host;
};

/* Copy bytes from the device to the host's copy, or back. */
static cadre_status carry(struct cadre_self *self, struct parcel *p, int saving)
{
    char *at = p->host + sizeof p->layout;
    for (int i = 0; i < 2; i++) {
        void *data = p->kept[i].data;
        uint64_t bytes = cadre_buf_bytes(&p->kept[i]);
        if (bytes)
            CADRE_TRY(saving ? self->ops->to_host(self->ctx, at, data, bytes)
                             : self->ops->to_device(self->ctx, data, at, bytes));
        at += bytes;
    }
    return CADRE_OK;
}

static cadre_status give_blob(struct cadre_self *self,
                              const struct cadre_state_sink *sink, uint32_t number)
{
    const struct ddp_bucket *bucket = &self->bucket[number];
    struct parcel p = {.layout = layout_of(self, bucket), .kept = {bucket->residual}};
    char key[24];
    if (self->mode->keeps == DDP_KEEPS_RIGHT)
        p.kept[1] = bucket->right;
    uint64_t bytes =
        sizeof p.layout + cadre_buf_bytes(&p.kept[0]) + cadre_buf_bytes(&p.kept[1]);
    if (bytes == sizeof p.layout || bytes > BLOB_BYTES)
        return CADRE_OK;
    snprintf(key, sizeof key, "bucket_%u", number);
    p.host = calloc(1, bytes);
    if (!p.host)
        return cadre_refuse(self->host, CADRE_E_RESOURCE,
                            "no memory for the residuals of %s", bucket->label);
    cadre_status rc;
    if (sink->saving) {
        memcpy(p.host, &p.layout, sizeof p.layout);
        CADRE_TRY_OR(carry(self, &p, 1), out);
    }
    CADRE_TRY_OR(sink->blob(sink->h, key, 1, CADRE_BLOB_DROPPABLE, p.host, bytes), out);
    memcpy(&p.found, p.host, sizeof p.found);
    if (!sink->saving && p.found == p.layout)
        rc = carry(self, &p, 0);
out:
    free(p.host);
    return rc;
}

cadre_status ddp_state(struct cadre_self *self, const struct cadre_state_sink *sink)
{
    if (self->n_buckets == 0 || !self->mode->keeps)
        return CADRE_OK;
    for (uint32_t i = 0; i < self->n_entries; i++)
        CADRE_TRY(give_tensor(self, sink, &self->entry[i]));
    for (uint32_t i = 0; i < self->n_buckets; i++)
        CADRE_TRY(give_blob(self, sink, i));
    if (self->mode == &ddp_mode_onebit)
        CADRE_TRY(ddp_onebit_state(self, sink));
    return CADRE_OK;
}
