/* SPDX-License-Identifier: Apache-2.0 */
/* The norms of the heads of q and of k (Henry et al. 2020, Dehghani et al. 2023; as in
 * Qwen 3): each head is a row of an RMSNorm, whose weight all heads share. The norm
 * reads rows without a gap, so q and k are made beside the packed rows and copied into
 * them. Private to core/model and its tests. */
#ifndef CADRE_MODEL_HEAD_NORM_H
#define CADRE_MODEL_HEAD_NORM_H

#include "core/model/unit_private.h"

/* All NULL where the model has none. */
struct cadre_head_norm {
    void *q, *k; /* (N, H*D), (N, G*D) before the norm; saved for INPUT */
    void *q_stats, *k_stats; /* (N*H, 2), (N*G, 2), wide; saved for INPUT */
    void *rows, *grads; /* (N, H*D) scratch */
};

struct cadre_head_norm cadre_head_norm_carve(struct cadre_carver *carver);

/* The q and k columns of the packed rows qkv (N, Q) = norms of .q and .k */
cadre_status cadre_head_norm_fwd(const struct cadre_unit *unit,
                                 const struct cadre_head_norm *norm, void *qkv);
/* The q and k columns of dqkv (N, Q) become the gradients of .q and .k; the norms' own
 * gradients go through the pass's grad_begin and grad_end. */
cadre_status cadre_head_norm_bwd(const struct cadre_unit *unit,
                                 const struct cadre_head_norm *norm, void *dqkv);

#endif
