/* SPDX-License-Identifier: Apache-2.0 */
#include "core/strategy/store.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/tensor/dtype.h"

#define ALIGN 64

static size_t padded(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static struct cadre_share share_of(const struct cadre_model *model,
                                   const struct cadre_rank_plan *plan, uint32_t param,
                                   uint32_t kind)
{
    const struct cadre_plan_param *at = &plan->param[param];
    struct cadre_share share = at->share[kind];
    bool tied = model->params[param].tied_to >= 0;
    bool here = at->present || (at->copied && kind == CADRE_KIND_PARAM);
    if (!here || (tied && kind != CADRE_KIND_GRAD))
        return (struct cadre_share){.placed = share.placed};
    if (!share.placed)
        share.count = cadre_shape_count(&model->params[param].local);
    return share;
}

struct cadre_share cadre_store_share(const struct cadre_store *store, uint32_t param,
                                     uint32_t kind)
{
    return share_of(store->model, store->plan, param, kind);
}

/* Bytes of one kind over all entries, whole or placed. */
static uint64_t kind_bytes(const struct cadre_model *model,
                           const struct cadre_rank_plan *plan, uint32_t kind)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < model->n_params; i++)
        bytes += padded(share_of(model, plan, i, kind).count *
                        cadre_dtype_bytes(model->config.dtype));
    return bytes;
}

/* Room for the largest gradient that comes from another stage. */
static uint64_t tied_bytes(const struct cadre_model *model,
                           const struct cadre_rank_plan *plan)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < model->n_params; i++) {
        const struct cadre_share *share = &plan->param[i].share[CADRE_KIND_GRAD];
        uint64_t count =
            share->placed ? share->count : cadre_shape_count(&model->params[i].local);
        if (plan->param[i].elsewhere && count > most)
            most = count;
    }
    return padded(most * cadre_dtype_bytes(model->config.dtype));
}

void cadre_store_note(const struct cadre_model *model,
                      const struct cadre_rank_plan *plan,
                      enum cadre_optimizer_kind optimizer, struct cadre_ledger *ledger)
{
    uint64_t opt = kind_bytes(model, plan, CADRE_KIND_OPT);
    cadre_ledger_note(ledger, CADRE_SPACE_DEVICE,
                      kind_bytes(model, plan, CADRE_KIND_PARAM), "parameters");
    cadre_ledger_note(ledger, CADRE_SPACE_DEVICE,
                      kind_bytes(model, plan, CADRE_KIND_GRAD), "gradients");
    cadre_ledger_note(ledger, CADRE_SPACE_DEVICE,
                      optimizer == CADRE_OPTIMIZER_ADAMW ? 2 * opt : opt,
                      "optimizer states");
    if (tied_bytes(model, plan))
        cadre_ledger_note(ledger, CADRE_SPACE_DEVICE, tied_bytes(model, plan),
                          "tied gradients");
}

void cadre_store_attach(struct cadre_store *store, uint32_t param, void *data)
{
    struct cadre_model *model = store->model;
    store->param[param].data = data;
    model->params[param].data = data;
    for (uint32_t i = 0; i < model->n_params; i++)
        if (model->params[i].tied_to == (int32_t)param &&
            store->plan->param[i].present) {
            store->param[i].data = data;
            model->params[i].data = data;
        }
}

/* One block for a whole kind, handed out in table order. */
static char *reserve(struct cadre_store *store, uint32_t kind, const char *tag)
{
    return cadre_ledger_alloc(store->ledger, CADRE_SPACE_DEVICE,
                              kind_bytes(store->model, store->plan, kind), tag);
}

static cadre_status lay_out(struct cadre_store *store,
                            enum cadre_optimizer_kind optimizer,
                            struct cadre_error *err)
{
    char *data = reserve(store, CADRE_KIND_PARAM, "parameters");
    char *grad = reserve(store, CADRE_KIND_GRAD, "gradients");
    char *avg = reserve(store, CADRE_KIND_OPT, "optimizer states");
    char *sq = optimizer == CADRE_OPTIMIZER_ADAMW
                   ? reserve(store, CADRE_KIND_OPT, "optimizer states")
                   : avg;
    if (!data || !grad || !avg || !sq)
        return cadre_fail(err, CADRE_E_RESOURCE,
                          "no memory for parameters, gradients and optimizer states");
    if (tied_bytes(store->model, store->plan)) {
        store->tied =
            cadre_ledger_alloc(store->ledger, CADRE_SPACE_DEVICE,
                               tied_bytes(store->model, store->plan), "tied gradients");
        if (!store->tied)
            return cadre_fail(err, CADRE_E_RESOURCE, "no memory for tied gradients");
    }
    store->grad_base = grad;
    for (uint32_t i = 0; i < store->model->n_params; i++) {
        struct cadre_store_param *p = &store->param[i];
        struct cadre_share values = cadre_store_share(store, i, CADRE_KIND_PARAM);
        struct cadre_share grads = cadre_store_share(store, i, CADRE_KIND_GRAD);
        struct cadre_share states = cadre_store_share(store, i, CADRE_KIND_OPT);
        p->count = cadre_shape_count(&store->model->params[i].local);
        store->grad_offset[i] = SIZE_MAX;
        if (values.count && values.placed)
            p->data_shard = data;
        else if (values.count)
            cadre_store_attach(store, i, data);
        if (grads.count && grads.placed) {
            p->grad_shard = grad;
        } else if (grads.count) {
            p->grad = grad;
            store->grad_offset[i] = (size_t)(grad - store->grad_base);
        }
        if (states.count) {
            p->exp_avg = avg;
            p->exp_avg_sq = optimizer == CADRE_OPTIMIZER_ADAMW ? sq : NULL;
        }
        data += padded(values.count * store->elem_bytes);
        grad += padded(grads.count * store->elem_bytes);
        avg += padded(states.count * store->elem_bytes);
        sq += padded(states.count * store->elem_bytes);
    }
    store->grad_bytes = (size_t)(grad - store->grad_base);
    return CADRE_OK;
}

static cadre_status fill_initial(struct cadre_store *store, uint64_t seed,
                                 struct cadre_error *err)
{
    struct cadre_device *device = store->ledger->device;
    for (uint32_t i = 0; i < store->model->n_params; i++) {
        struct cadre_share values = cadre_store_share(store, i, CADRE_KIND_PARAM);
        struct cadre_store_param *p = &store->param[i];
        void *target = values.placed ? p->data_shard : p->data;
        if (!values.count)
            continue;
        size_t bytes = values.count * store->elem_bytes;
        void *host = malloc(bytes);
        if (!host)
            return cadre_fail(err, CADRE_E_RESOURCE, "no memory for initial values");
        cadre_model_init_range(store->model, i, seed, values.begin, values.count, host);
        cadre_status rc = device->ops->to_device(device, target, host, bytes);
        free(host);
        if (rc != CADRE_OK)
            return cadre_fail(err, rc, "cannot copy initial values to the device");
    }
    return CADRE_OK;
}

cadre_status cadre_store_init(struct cadre_store *store, struct cadre_model *model,
                              const struct cadre_rank_plan *plan,
                              struct cadre_ledger *ledger,
                              enum cadre_optimizer_kind optimizer, uint64_t seed,
                              struct cadre_error *err)
{
    memset(store, 0, sizeof *store);
    store->model = model;
    store->plan = plan;
    store->ledger = ledger;
    store->elem_bytes = cadre_dtype_bytes(model->config.dtype);
    store->param = cadre_calloc(model->n_params, sizeof *store->param);
    store->grad_offset = cadre_calloc(model->n_params, sizeof *store->grad_offset);
    if (!store->param || !store->grad_offset) {
        cadre_store_fini(store);
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for the parameter table");
    }
    cadre_status rc = lay_out(store, optimizer, err);
    if (rc == CADRE_OK)
        rc = fill_initial(store, seed, err);
    if (rc != CADRE_OK)
        cadre_store_fini(store);
    return rc;
}

void cadre_store_fini(struct cadre_store *store)
{
    free(store->param);
    free(store->grad_offset);
    store->param = NULL;
    store->grad_offset = NULL;
}

/* Element `begin` of the OPT range inside storage that starts at `base_begin`. */
static void *inside(const struct cadre_store *store, void *base, uint64_t base_begin,
                    uint64_t begin)
{
    return base ? (char *)base + (begin - base_begin) * store->elem_bytes : NULL;
}

void *cadre_store_opt_data(const struct cadre_store *store, uint32_t param)
{
    const struct cadre_store_param *p = &store->param[param];
    struct cadre_share own = cadre_store_share(store, param, CADRE_KIND_OPT);
    struct cadre_share values = cadre_store_share(store, param, CADRE_KIND_PARAM);
    if (!own.count)
        return NULL;
    return values.placed ? inside(store, p->data_shard, values.begin, own.begin)
                         : inside(store, p->data, 0, own.begin);
}

void *cadre_store_opt_grad(const struct cadre_store *store, uint32_t param)
{
    const struct cadre_store_param *p = &store->param[param];
    struct cadre_share own = cadre_store_share(store, param, CADRE_KIND_OPT);
    struct cadre_share grads = cadre_store_share(store, param, CADRE_KIND_GRAD);
    if (!own.count)
        return NULL;
    return grads.placed ? inside(store, p->grad_shard, grads.begin, own.begin)
                        : inside(store, p->grad, 0, own.begin);
}
