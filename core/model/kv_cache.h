/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values of tokens that a forward has seen, kept so that the next forward
 * computes only the tokens after them (Shazeer 2019, section 2.4). A pass that names a
 * cache has its first token at position `n`; its attention reads the cache, whose rows
 * have been turned already in Llama form. Forward only. */
#ifndef CADRE_MODEL_KV_CACHE_H
#define CADRE_MODEL_KV_CACHE_H

#include "core/model/model.h"

struct cadre_kv_cache {
    struct cadre_device *device;
    int64_t batch; /* sequences */
    int64_t room; /* tokens of each that it can keep */
    int64_t n; /* tokens kept: the caller adds those of a forward when all units ran */
    int64_t width; /* columns of a token's keys, and of its values */
    uint32_t dtype; /* the model's */
    void *blocks; /* device, (L, 2, batch, room, width): keys, then values */
};

/* An empty cache for `room` tokens, up to model.context, of `batch` sequences. The
 * device is borrowed. [local] Errors: CADRE_E_INVALID the model's time is divided over
 * ranks, CADRE_E_RESOURCE. */
cadre_status cadre_kv_cache_create(const struct cadre_model *model,
                                   struct cadre_device *device, int64_t batch,
                                   int64_t room, struct cadre_kv_cache **out,
                                   struct cadre_error *err);
/* NULL is accepted. */
void cadre_kv_cache_destroy(struct cadre_kv_cache *cache);

/* Bytes that create takes on the device. */
size_t cadre_kv_cache_bytes(const struct cadre_model *model, int64_t batch,
                            int64_t room);

/* Where the keys (values = false) or values of block `block`, from 0, begin: (batch,
 * room, width). */
void *cadre_kv_cache_rows(const struct cadre_kv_cache *cache, int64_t block,
                          bool values);

#endif
