/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/keys.h"

static int64_t kv_of(const struct cadre_unit *u)
{
    return u->G * u->D;
}

static const struct cadre_kv_cache *cache_of(const struct cadre_unit *u)
{
    return u->pass ? u->pass->kv_cache : NULL;
}

struct cadre_keys cadre_keys_carve(struct cadre_carver *carver)
{
    const struct cadre_unit *u = carver->unit;
    const int64_t all = 2 * u->B * u->K * kv_of(u), own = 2 * u->N * kv_of(u);
    struct cadre_keys keys = {0};
    if (u->K == u->T || cache_of(u))
        return keys;
    keys.all = cadre_carve(carver, CADRE_UNIT_SAVED_FOR_INPUT, all);
    keys.grads = cadre_carve(carver, CADRE_UNIT_SCRATCH, all);
    keys.parts = cadre_carve(carver, CADRE_UNIT_SCRATCH, all);
    keys.own = cadre_carve(carver, CADRE_UNIT_SCRATCH, own);
    return keys;
}

void cadre_keys_attend(const struct cadre_unit *u, const struct cadre_keys *keys,
                       struct cadre_attention *a)
{
    const struct cadre_kv_cache *cache = cache_of(u);
    const int64_t values = u->B * u->K * kv_of(u);
    if (u->K == u->T)
        return; /* the packed rows are all */
    if (cache) {
        a->position = u->position;
        a->keys =
            u->B == 1 ? u->K : cache->room; /* rows from one sequence to the next */
        a->k = cadre_kv_cache_rows(cache, u->index - 1, false);
        a->v = cadre_kv_cache_rows(cache, u->index - 1, true);
        a->ldk = a->ldv = cache->width;
        return;
    }
    a->position = u->position;
    a->keys = u->K;
    a->k = keys->all;
    a->v = cadre_unit_at(u, keys->all, values);
    a->ldk = a->ldv = kv_of(u);
    a->dk = keys->grads;
    a->dv = cadre_unit_at(u, keys->grads, values);
}

/* Between packed rows (N, Q) and (2, B, T, KV). */
static cadre_status move_own(const struct cadre_unit *u, void *packed, void *own,
                             bool out)
{
    const int64_t KV = kv_of(u);
    for (int64_t i = 0; i < 2; i++) {
        void *columns = cadre_unit_at(u, packed, u->A + i * KV);
        void *rows = cadre_unit_at(u, own, i * u->N * KV);
        CADRE_TRY(out ? u->ops->copy_rows(u->device, u->dtype, rows, KV, columns, u->Q,
                                          u->N, KV)
                      : u->ops->copy_rows(u->device, u->dtype, columns, u->Q, rows, KV,
                                          u->N, KV));
    }
    return CADRE_OK;
}

/* Between (ranks, 2, B, T, KV) and (2, B, K, KV): a rank's part of a sequence is one
 * piece of both. */
static cadre_status order(const struct cadre_unit *u, void *parts, void *all, bool back)
{
    const int64_t piece = u->T * kv_of(u), sequence = u->K * kv_of(u);
    for (int64_t i = 0; i < u->K / u->T * 2; i++) {
        const int64_t rank = i / 2, values = i % 2;
        void *part = cadre_unit_at(u, parts, i * u->B * piece);
        void *whole = cadre_unit_at(u, all, values * u->B * sequence + rank * piece);
        CADRE_TRY(back ? u->ops->copy_rows(u->device, u->dtype, part, piece, whole,
                                           sequence, u->B, piece)
                       : u->ops->copy_rows(u->device, u->dtype, whole, sequence, part,
                                           piece, u->B, piece));
    }
    return CADRE_OK;
}

/* k and v of packed rows (N, Q) go behind what the cache keeps. */
static cadre_status keep(const struct cadre_unit *u, const void *qkv,
                         const struct cadre_kv_cache *cache)
{
    for (int64_t i = 0; i < 2 * u->B; i++) {
        const int64_t values = i % 2, b = i / 2;
        const int64_t to = (b * cache->room + u->position) * cache->width;
        const void *columns =
            cadre_unit_at(u, qkv, b * u->T * u->Q + u->A + values * kv_of(u));
        void *rows = cadre_kv_cache_rows(cache, u->index - 1, values);
        CADRE_TRY(u->ops->copy_rows(u->device, u->dtype, cadre_unit_at(u, rows, to),
                                    cache->width, columns, u->Q, u->T, kv_of(u)));
    }
    return CADRE_OK;
}

cadre_status cadre_keys_gather(const struct cadre_unit *u, const void *qkv,
                               const struct cadre_keys *keys)
{
    const struct cadre_pass *pass = u->pass;
    if (cache_of(u))
        return keep(u, qkv, cache_of(u));
    if (u->K == u->T)
        return CADRE_OK;
    /* only read */
    CADRE_TRY(move_own(u, (void *)(uintptr_t)qkv, keys->own, true));
    CADRE_TRY(pass->exchange_keys(pass->hook_arg, false, keys->own, keys->parts,
                                  2 * u->N * kv_of(u)));
    return order(u, keys->parts, keys->all, false);
}

cadre_status cadre_keys_scatter(const struct cadre_unit *u, void *dqkv,
                                const struct cadre_keys *keys)
{
    const struct cadre_pass *pass = u->pass;
    if (u->K == u->T)
        return CADRE_OK;
    CADRE_TRY(order(u, keys->parts, keys->grads, true));
    CADRE_TRY(pass->exchange_keys(pass->hook_arg, true, keys->parts, keys->own,
                                  2 * u->N * kv_of(u)));
    return move_own(u, dqkv, keys->own, false);
}
