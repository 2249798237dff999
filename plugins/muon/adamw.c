/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW for what is no hidden matrix (Loshchilov & Hutter 2019), of the vector ops. */
#include <math.h>

#include "plugins/muon/muon.h"

cadre_status muon_adamw(struct cadre_self *self, const struct cadre_update_ev *ev)
{
    const struct cadre_ops_svc *ops = self->ops;
    const struct cadre_buf *g = &ev->grad, *first = &ev->state[0];
    const struct cadre_buf *second = &ev->state[1];
    const double lr = ev->lr * self->adamw_lr;
    const double correct1 = 1 - pow(self->beta1, (double)ev->step);
    const double correct2 = 1 - pow(self->beta2, (double)ev->step);
    CADRE_TRY(ops->axpby(self->ctx, 1 - self->beta1, g, self->beta1, first));
    CADRE_TRY(ops->mul(self->ctx, g, g, g));
    CADRE_TRY(ops->axpby(self->ctx, 1 - self->beta2, g, self->beta2, second));
    CADRE_TRY(ops->copy(self->ctx, g->data, second->data, cadre_buf_bytes(g)));
    CADRE_TRY(ops->scale(self->ctx, g, 1 / correct2));
    CADRE_TRY(ops->rsqrt(self->ctx, g, self->eps));
    CADRE_TRY(ops->mul(self->ctx, g, g, first));
    return ops->axpby(self->ctx, -lr / correct1, g, 1 - lr * ev->weight_decay,
                      &ev->value);
}
