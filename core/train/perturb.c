/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/init.h"
#include "core/train/perturb.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/tensor/half.h"

/* Buffers for the values of a parameter. */
struct moving {
    struct cadre_rank *rank;
    uint32_t param;
    struct cadre_share share; /* CADRE_KIND_PARAM */
    uint64_t key;
};

static bool goes_up(const struct moving *m, uint64_t i)
{
    const struct cadre_model *model = m->rank->model;
    uint64_t logical = cadre_param_logical(&model->params[m->param], model->tp_rank,
                                           model->tp_size, m->share.begin + i);
    return cadre_rng_uniform(m->key, logical) < 0.5;
}

/* One unit in the last place of a 16-bit number: its bits as an integer. NaN and what
 * would become infinite stay. */
static uint16_t move_16(uint16_t bits, uint32_t dtype, bool up)
{
    uint16_t size = bits & 0x7fffu, infinite = dtype == CADRE_BF16 ? 0x7f80u : 0x7c00u;
    bool grows = up == ((bits & 0x8000u) == 0);
    if (size == 0 || size + 1u >= infinite)
        return bits;
    return (uint16_t)(grows ? bits + 1u : bits - 1u);
}

/* 16-bit parameters moved by one unit, as wide values. */
static void widen_moved(const struct moving *m, const uint16_t *from, float *to)
{
    uint32_t dtype = m->rank->model->config.dtype;
    for (uint64_t i = 0; i < m->share.count; i++) {
        uint16_t bits = move_16(from[i], dtype, goes_up(m, i));
        to[i] = dtype == CADRE_BF16 ? cadre_bf16_to_f32(bits) : cadre_f16_to_f32(bits);
    }
}

static void move(void *values, uint64_t i, uint32_t dtype, double towards)
{
    if (dtype == CADRE_F64) {
        double *at = (double *)values + i;
        *at = *at != 0 ? nextafter(*at, towards) : *at;
    } else {
        float *at = (float *)values + i;
        *at = *at != 0 ? nextafterf(*at, (float)towards) : *at;
    }
}

static cadre_status move_param(const struct moving *m, struct cadre_error *err)
{
    struct cadre_rank *rank = m->rank;
    const struct cadre_store_param *p = &rank->store.param[m->param];
    const void *from = m->share.placed ? p->data_shard : p->data;
    bool narrow = rank->store.wide != rank->model->config.dtype;
    char *host = cadre_calloc(m->share.count, rank->store.wide_bytes);
    char *half = narrow ? cadre_calloc(m->share.count, rank->store.elem_bytes) : host;
    cadre_status rc = host && half ? CADRE_OK : CADRE_E_RESOURCE;
    if (rc == CADRE_OK)
        rc = rank->device->ops->to_host(rank->device, half, from,
                                        m->share.count * rank->store.elem_bytes);
    if (rc == CADRE_OK && narrow)
        widen_moved(m, (const uint16_t *)(const void *)half, (float *)(void *)host);
    for (uint64_t i = 0; rc == CADRE_OK && !narrow && i < m->share.count; i++)
        move(host, i, rank->store.wide, goes_up(m, i) ? INFINITY : -INFINITY);
    if (rc == CADRE_OK)
        rc = cadre_store_put(&rank->store, m->param, host);
    if (narrow)
        free(half);
    free(host);
    if (rc != CADRE_OK)
        cadre_fail(err, rc, "cannot move the values of '%s'",
                   rank->model->params[m->param].name);
    return rc;
}

cadre_status cadre_perturb(struct cadre_rank *rank, uint64_t seed,
                           struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t i = 0; rc == CADRE_OK && i < rank->model->n_params; i++) {
        struct cadre_share share = cadre_store_share(&rank->store, i, CADRE_KIND_PARAM);
        const struct moving m = {
            .rank = rank,
            .param = i,
            .share = share,
            .key = cadre_rng_key(seed, rank->model->params[i].name),
        };
        if (rank->model->params[i].frozen)
            continue; /* a checkpoint would not have its new values */
        if (share.count && rank->plan.param[i].form == CADRE_FORM_PLAIN)
            rc = move_param(&m, err);
    }
    return rc;
}
