/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values of the whole time of a sequence, of which this rank has a part (Llama
 * 3 team 2024, section 3.3.2), or which are kept in the pass's cache. Nothing is done
 * where the model has one time rank and the pass no cache.
 * Private to core/model and its tests. */
#ifndef CADRE_MODEL_KEYS_H
#define CADRE_MODEL_KEYS_H

#include "core/model/layer.h"

/* KV = G * D columns. The exchange moves (2, B, T, KV) of each rank, rank after rank;
 * attention reads (2, B, K, KV). */
struct cadre_keys {
    void *all; /* (2, B, K, KV), saved for INPUT; NULL with one time rank, as are all */
    void *grads; /* of `all`; scratch, as are the next two */
    void *parts; /* (ranks, 2, B, T, KV) */
    void *own; /* (2, B, T, KV) */
};

struct cadre_keys cadre_keys_carve(struct cadre_carver *carver);

/* Let attention read keys->all, with its gradients, in place of this rank's columns. */
void cadre_keys_attend(const struct cadre_unit *unit, const struct cadre_keys *keys,
                       struct cadre_attention *attention);

/* [collective: time ranks] keys->all = k and v of all ranks' packed rows qkv (N, Q).
 * With a cache, its rows behind those kept = k and v of qkv. */
cadre_status cadre_keys_gather(const struct cadre_unit *unit, const void *qkv,
                               const struct cadre_keys *keys);
/* [collective: time ranks] k and v of dqkv (N, Q) = the sum of all ranks' keys->grads
 * for this rank's rows. */
cadre_status cadre_keys_scatter(const struct cadre_unit *unit, void *dqkv,
                                const struct cadre_keys *keys);

#endif
