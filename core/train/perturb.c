/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/perturb.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/base/rng.h"

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

static cadre_status move_param(struct cadre_rank *rank, uint32_t param, uint64_t key,
                               const struct cadre_share *share, struct cadre_error *err)
{
    const struct cadre_model *model = rank->model;
    const struct cadre_store_param *p = &rank->store.param[param];
    void *from = share->placed ? p->data_shard : p->data;
    size_t bytes = share->count * rank->store.elem_bytes;
    char *host = cadre_calloc(share->count, rank->store.elem_bytes);
    if (!host)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory to move parameters");
    cadre_status rc = rank->device->ops->to_host(rank->device, host, from, bytes);
    for (uint64_t i = 0; rc == CADRE_OK && i < share->count; i++) {
        uint64_t logical = cadre_param_logical(&model->params[param], model->tp_rank,
                                               model->tp_size, share->begin + i);
        bool up = cadre_rng_uniform(key, logical) < 0.5;
        move(host, i, model->config.dtype, up ? INFINITY : -INFINITY);
    }
    if (rc == CADRE_OK)
        rc = rank->device->ops->to_device(rank->device, from, host, bytes);
    free(host);
    if (rc != CADRE_OK)
        cadre_fail(err, rc, "cannot move the values of '%s'",
                   model->params[param].name);
    return rc;
}

cadre_status cadre_perturb(struct cadre_rank *rank, uint64_t seed,
                           struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t i = 0; rc == CADRE_OK && i < rank->model->n_params; i++) {
        struct cadre_share share = cadre_store_share(&rank->store, i, CADRE_KIND_PARAM);
        uint64_t key = cadre_rng_key(seed, rank->model->params[i].name);
        if (share.count)
            rc = move_param(rank, i, key, &share, err);
    }
    return rc;
}
