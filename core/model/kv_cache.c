/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/kv_cache.h"

#include <stdlib.h>

#include "core/base/memory.h"

static int64_t width_of(const struct cadre_model *model)
{
    return model->kv_heads * model->head_size;
}

size_t cadre_kv_cache_bytes(const struct cadre_model *model, int64_t batch,
                            int64_t room)
{
    return (size_t)(model->config.layers * 2) * (size_t)(batch * room) *
           (size_t)width_of(model) * cadre_dtype_bytes(model->config.dtype);
}

cadre_status cadre_kv_cache_create(const struct cadre_model *model,
                                   struct cadre_device *device, int64_t batch,
                                   int64_t room, struct cadre_kv_cache **out,
                                   struct cadre_error *err)
{
    const size_t bytes = cadre_kv_cache_bytes(model, batch, room);
    if (model->time_ranks > 1 || room > model->config.context || room < 1 || batch < 1)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "a cache of keys and values for %lld sequences of %lld tokens "
            "on one of %d ranks of time, expected at least one, at most "
            "model.context = %lld tokens and one rank",
            (long long)batch, (long long)room, model->time_ranks,
            (long long)model->config.context);
    struct cadre_kv_cache *cache = cadre_calloc(1, sizeof *cache);
    if (!cache)
        return cadre_no_memory(err, "a cache of keys and values");
    *cache = (struct cadre_kv_cache){
        .device = device,
        .batch = batch,
        .room = room,
        .width = width_of(model),
        .dtype = model->config.dtype,
        .blocks = device->ops->alloc(device, bytes),
    };
    if (!cache->blocks) {
        free(cache);
        return cadre_no_memory(err, "a cache of keys and values of %zu bytes", bytes);
    }
    cadre_status rc = device->ops->zero(device, cache->blocks, bytes);
    if (rc != CADRE_OK) {
        cadre_kv_cache_destroy(cache);
        return cadre_fail(err, rc, "cannot clear a cache of keys and values");
    }
    *out = cache;
    return CADRE_OK;
}

void cadre_kv_cache_destroy(struct cadre_kv_cache *cache)
{
    if (!cache)
        return;
    cache->device->ops->free(cache->device, cache->blocks);
    free(cache);
}

void *cadre_kv_cache_rows(const struct cadre_kv_cache *cache, int64_t block,
                          bool values)
{
    const size_t part = (size_t)(cache->batch * cache->room * cache->width) *
                        cadre_dtype_bytes(cache->dtype);
    return (char *)cache->blocks + (size_t)(block * 2 + values) * part;
}
