/* SPDX-License-Identifier: Apache-2.0 */
/* Error feedback: what a mode does not send is kept, on the rank where it is missing,
 * and added to the next step's gradient, so that in the long run everything travels.
 * Sources: Seide et al., 1-Bit SGD, Interspeech 2014; Stich, Cordonnier & Jaggi,
 * Sparsified SGD with Memory, NeurIPS 2018; Karimireddy et al., Error Feedback Fixes
 * SignSGD, ICML 2019. */
#include "plugins/ddp/ddp.h"

cadre_status ddp_residual_bind(struct cadre_self *self, struct ddp_bucket *bucket)
{
    uint64_t n = 0;
    for (cadre_param_id id = bucket->first; id <= bucket->last; id++) {
        struct ddp_entry *entry = &self->entry[id];
        entry->at = n;
        if (entry->k > 0)
            n += ddp_round_up(entry->grad.count, DDP_BLOCK);
    }
    cadre_status rc =
        ddp_take(self, bucket->grad.dtype, n, "residuals", &bucket->residual);
    for (cadre_param_id id = bucket->first; !rc && id <= bucket->last; id++) {
        struct ddp_entry *entry = &self->entry[id];
        if (entry->k > 0)
            entry->residual =
                cadre_buf_slice(&bucket->residual, entry->at, entry->grad.count);
    }
    return rc;
}

cadre_status ddp_residual_add(struct cadre_self *self, const struct ddp_bucket *bucket)
{
    cadre_status rc = CADRE_OK;
    for (cadre_param_id id = bucket->first; !rc && id <= bucket->last; id++) {
        const struct ddp_entry *entry = &self->entry[id];
        if (entry->residual.count > 0)
            rc = self->ops->add(self->ctx, &entry->residual, &entry->residual,
                                &entry->grad);
    }
    return rc;
}

cadre_status ddp_state(struct cadre_self *self, const struct cadre_state_sink *sink)
{
    cadre_status rc = CADRE_OK;
    if (self->n_buckets == 0 || !self->mode->keeps)
        return CADRE_OK;
    for (cadre_param_id id = 0; !rc && id < self->n_entries; id++) {
        struct cadre_param_info info = {.struct_size = sizeof info};
        rc = self->model->param(self->ctx, id, &info);
        if (!rc && self->entry[id].residual.count > 0 && info.tied_to < 0)
            rc = sink->tensor(sink->h, "residual", id, CADRE_STATE_SUM, 0,
                              &self->entry[id].residual);
    }
    return rc;
}
