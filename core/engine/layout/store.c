/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/store.h"
#include "core/engine/layout/forms.h"
#include "core/engine/layout/scales.h"
#include "core/model/init.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/tensor/dtype.h"

#define ALIGN 64
#define SPACES 3u
#define STAGED 1048576u /* elements rounded at a time; whole blocks of a form */
#define DECODED "decoded parameters"

struct cadre_share cadre_store_share_of(const struct cadre_model *model,
                                        const struct cadre_rank_plan *plan,
                                        uint32_t param, uint32_t kind)
{
    const struct cadre_plan_param *at = &plan->param[param];
    struct cadre_share share = at->share[kind];
    bool tied = model->params[param].tied_to >= 0;
    bool here = at->present || (at->copied && kind == CADRE_KIND_PARAM);
    bool frozen = at->frozen && kind != CADRE_KIND_PARAM;
    if (!here || frozen || (tied && kind != CADRE_KIND_GRAD))
        return (struct cadre_share){.placed = share.placed};
    if (!share.placed)
        share.count = kind == CADRE_KIND_PARAM
                          ? cadre_rank_plan_stored(plan, param)
                          : cadre_shape_count(&model->params[param].local);
    return share;
}

struct cadre_share cadre_store_share(const struct cadre_store *store, uint32_t param,
                                     uint32_t kind)
{
    return cadre_store_share_of(store->model, store->plan, param, kind);
}

static bool is_plain(const struct cadre_rank_plan *plan, uint32_t param)
{
    return plan->param[param].form == CADRE_FORM_PLAIN;
}

struct cadre_share cadre_store_elements(const struct cadre_store *store, uint32_t param)
{
    struct cadre_share share = cadre_store_share(store, param, CADRE_KIND_PARAM);
    uint64_t all = cadre_shape_count(&store->model->params[param].local);
    if (is_plain(store->plan, param))
        return share;
    uint32_t elements, bytes;
    cadre_rank_plan_block(store->plan, param, &elements, &bytes);
    share.begin = share.begin / bytes * elements;
    share.count = share.count / bytes * elements;
    if (share.count > all - share.begin) /* the last block is padded */
        share.count = all - share.begin;
    return share;
}

static size_t kind_size(const struct cadre_model *model, uint32_t kind)
{
    uint32_t dtype = model->config.dtype;
    return cadre_dtype_bytes(kind == CADRE_KIND_PARAM ? dtype
                                                      : cadre_dtype_wide(dtype));
}

/* Bytes of `count` elements of a kind. All kinds are padded to the same number of
 * elements, a multiple of 64 bytes of each. */
static size_t kind_padded(const struct cadre_model *model, uint32_t kind,
                          uint64_t count)
{
    uint64_t per = ALIGN / cadre_dtype_bytes(model->config.dtype);
    return (count + per - 1) / per * per * kind_size(model, kind);
}

/* The same of an entry's share, which may be in bytes. */
static size_t share_padded(const struct cadre_model *model,
                           const struct cadre_rank_plan *plan, uint32_t param,
                           uint32_t kind, uint64_t count)
{
    if (kind != CADRE_KIND_PARAM || is_plain(plan, param))
        return kind_padded(model, kind, count);
    return (count + ALIGN - 1) / ALIGN * ALIGN;
}

static bool has_master(const struct cadre_model *model)
{
    return cadre_dtype_wide(model->config.dtype) != model->config.dtype;
}

/* Bytes of one kind in one space over all entries, whole or placed. */
static uint64_t kind_bytes(const struct cadre_model *model,
                           const struct cadre_rank_plan *plan, uint32_t kind,
                           uint32_t space)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < model->n_params; i++) {
        struct cadre_share share = cadre_store_share_of(model, plan, i, kind);
        if (share.space == space)
            bytes += share_padded(model, plan, i, kind, share.count);
    }
    return bytes;
}

/* Bytes of the largest gradient that is received from another stage. */
static uint64_t tied_bytes(const struct cadre_model *model,
                           const struct cadre_rank_plan *plan)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < model->n_params; i++) {
        const struct cadre_share *share = &plan->param[i].share[CADRE_KIND_GRAD];
        uint64_t count =
            share->placed ? share->count : cadre_shape_count(&model->params[i].local);
        if (plan->param[i].elsewhere && !plan->param[i].frozen && count > most)
            most = count;
    }
    return kind_padded(model, CADRE_KIND_GRAD, most);
}

void cadre_store_note(const struct cadre_model *model,
                      const struct cadre_rank_plan *plan,
                      enum cadre_optimizer_kind optimizer, struct cadre_ledger *ledger)
{
    const uint32_t device = CADRE_SPACE_DEVICE;
    const uint64_t moments = (uint64_t)cadre_optimizer_moments(optimizer);
    cadre_ledger_note(ledger, device, kind_bytes(model, plan, CADRE_KIND_PARAM, device),
                      "parameters");
    cadre_ledger_note(ledger, device, kind_bytes(model, plan, CADRE_KIND_GRAD, device),
                      "gradients");
    for (uint32_t space = 0; space < SPACES; space++) {
        uint64_t opt = kind_bytes(model, plan, CADRE_KIND_OPT, space);
        if (opt && moments > 0)
            cadre_ledger_note(ledger, space, moments * opt, "optimizer states");
        if (opt && has_master(model))
            cadre_ledger_note(ledger, space, opt, "master values");
    }
    if (moments == 0)
        cadre_opt_storage_note(plan, ledger);
    if (cadre_forms_bytes(model, plan))
        cadre_ledger_note(ledger, device, cadre_forms_bytes(model, plan), DECODED);
    cadre_scales_note(model, plan, ledger);
    if (tied_bytes(model, plan))
        cadre_ledger_note(ledger, CADRE_SPACE_DEVICE, tied_bytes(model, plan),
                          "tied gradients");
}

void cadre_store_attach(struct cadre_store *store, uint32_t param, void *data)
{
    struct cadre_model *model = store->model;
    void *seen = is_plain(store->plan, param) ? data : NULL; /* else once decoded */
    store->param[param].data = data;
    model->params[param].data = seen;
    for (uint32_t i = 0; i < model->n_params; i++)
        if (model->params[i].tied_to == (int32_t)param &&
            store->plan->param[i].present) {
            store->param[i].data = data;
            model->params[i].data = seen;
        }
}

/* One block for a whole kind in one space, assigned in table order. */
static char *reserve(struct cadre_store *store, uint32_t kind, uint32_t space,
                     const char *tag)
{
    return cadre_ledger_alloc(store->ledger, space,
                              kind_bytes(store->model, store->plan, kind, space), tag);
}

/* Unassigned storage of optimizer states, by space. */
struct states {
    char *avg[SPACES], *sq[SPACES], *master[SPACES];
};

static cadre_status reserve_states(struct cadre_store *store,
                                   enum cadre_optimizer_kind optimizer,
                                   struct states *states)
{
    const int moments = cadre_optimizer_moments(optimizer);
    *states = (struct states){0};
    for (uint32_t space = 0; space < SPACES; space++) {
        if (!kind_bytes(store->model, store->plan, CADRE_KIND_OPT, space))
            continue;
        if (moments > 0)
            states->avg[space] =
                reserve(store, CADRE_KIND_OPT, space, "optimizer states");
        if (moments > 1)
            states->sq[space] =
                reserve(store, CADRE_KIND_OPT, space, "optimizer states");
        if (has_master(store->model))
            states->master[space] =
                reserve(store, CADRE_KIND_OPT, space, "master values");
        if ((moments > 0 && !states->avg[space]) ||
            (has_master(store->model) && !states->master[space]) ||
            (moments > 1 && !states->sq[space]))
            return CADRE_E_RESOURCE;
    }
    return CADRE_OK;
}

/* Assign the next `bytes` of each state to an OPT range. */
static void give_states(struct cadre_store_param *param, struct states *states,
                        const struct cadre_share *share, size_t bytes)
{
    if (share->count == 0)
        return;
    if (states->avg[share->space]) {
        param->exp_avg = states->avg[share->space];
        states->avg[share->space] += bytes;
    }
    if (states->sq[share->space]) {
        param->exp_avg_sq = states->sq[share->space];
        states->sq[share->space] += bytes;
    }
    if (states->master[share->space]) {
        param->master = states->master[share->space];
        states->master[share->space] += bytes;
    }
}

static cadre_status lay_out(struct cadre_store *store,
                            enum cadre_optimizer_kind optimizer,
                            struct cadre_error *err)
{
    struct states states;
    char *data = reserve(store, CADRE_KIND_PARAM, CADRE_SPACE_DEVICE, "parameters");
    char *grad = reserve(store, CADRE_KIND_GRAD, CADRE_SPACE_DEVICE, "gradients");
    if (!data || !grad || reserve_states(store, optimizer, &states) != CADRE_OK)
        return cadre_no_memory(err, "parameters, gradients and optimizer states");
    if (cadre_optimizer_moments(optimizer) == 0)
        CADRE_TRY(cadre_opt_storage_init(&store->opt, store->plan, store->ledger, err));
    if (cadre_forms_bytes(store->model, store->plan)) {
        store->decoded =
            cadre_ledger_alloc(store->ledger, CADRE_SPACE_DEVICE,
                               cadre_forms_bytes(store->model, store->plan), DECODED);
        if (!store->decoded)
            return cadre_no_memory(err, DECODED);
    }
    CADRE_TRY(cadre_scales_init(store, err));
    if (tied_bytes(store->model, store->plan)) {
        store->tied =
            cadre_ledger_alloc(store->ledger, CADRE_SPACE_DEVICE,
                               tied_bytes(store->model, store->plan), "tied gradients");
        if (!store->tied)
            return cadre_no_memory(err, "tied gradients");
    }
    store->grad_base = grad;
    for (uint32_t i = 0; i < store->model->n_params; i++) {
        struct cadre_store_param *p = &store->param[i];
        struct cadre_share values = cadre_store_share(store, i, CADRE_KIND_PARAM);
        struct cadre_share grads = cadre_store_share(store, i, CADRE_KIND_GRAD);
        struct cadre_share own = cadre_store_share(store, i, CADRE_KIND_OPT);
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
        give_states(p, &states, &own,
                    kind_padded(store->model, CADRE_KIND_OPT, own.count));
        data +=
            share_padded(store->model, store->plan, i, CADRE_KIND_PARAM, values.count);
        grad += kind_padded(store->model, CADRE_KIND_GRAD, grads.count);
    }
    store->grad_bytes = (size_t)(grad - store->grad_base);
    return CADRE_OK;
}

/* Values (count) of a range to the device in chunks, rounded or encoded. */
static cadre_status put_converted(struct cadre_store *store, uint32_t param,
                                  char *target, const char *host, uint64_t count)
{
    struct cadre_device *device = store->ledger->device;
    const bool plain = is_plain(store->plan, param);
    uint64_t most = count < STAGED ? count : STAGED;
    void *staged = device->ops->alloc(device, most * store->wide_bytes);
    cadre_status rc = staged ? CADRE_OK : CADRE_E_RESOURCE;
    for (uint64_t done = 0, n; rc == CADRE_OK && done < count; done += n) {
        const char *from = host + done * store->wide_bytes;
        n = count - done < most ? count - done : most;
        rc = device->ops->to_device(device, staged, from, n * store->wide_bytes);
        if (rc == CADRE_OK && plain)
            rc = device->ops->cast(device, store->model->config.dtype,
                                   target + done * store->elem_bytes, store->wide,
                                   staged, (int64_t)n);
        else if (rc == CADRE_OK)
            rc = device->ops->int8_encode(device, store->wide, staged, (int64_t)n,
                                          target + done / CADRE_INT8_BLOCK *
                                                       CADRE_INT8_BYTES);
    }
    if (rc == CADRE_OK)
        rc = device->ops->synchronize(device);
    device->ops->free(device, staged);
    return rc;
}

cadre_status cadre_store_put(struct cadre_store *store, uint32_t param,
                             const void *host)
{
    struct cadre_device *device = store->ledger->device;
    struct cadre_share values = cadre_store_elements(store, param);
    struct cadre_share own = cadre_store_share(store, param, CADRE_KIND_OPT);
    const struct cadre_store_param *p = &store->param[param];
    char *target = values.placed ? p->data_shard : p->data;
    if (!values.count)
        return CADRE_OK;
    if (store->plan->param[param].form == CADRE_FORM_NF4)
        return cadre_scales_encode(store, param, target, host);
    if (store->wide == store->model->config.dtype && is_plain(store->plan, param))
        return device->ops->to_device(device, target, host,
                                      values.count * store->wide_bytes);
    uint64_t first = values.placed ? values.begin : 0;
    cadre_status rc = put_converted(store, param, target, host, values.count);
    if (rc == CADRE_OK && own.count)
        rc = device->ops->to_device(device, p->master,
                                    (const char *)host +
                                        (own.begin - first) * store->wide_bytes,
                                    own.count * store->wide_bytes);
    return rc;
}

cadre_status cadre_store_get(const struct cadre_store *store, uint32_t param,
                             uint64_t begin, uint64_t count, void *host)
{
    struct cadre_device *device = store->ledger->device;
    const struct cadre_store_param *p = &store->param[param];
    const bool plain = is_plain(store->plan, param);
    const uint32_t dtype = store->model->config.dtype;
    const struct cadre_share own = cadre_store_elements(store, param);
    const char *from = own.placed ? p->data_shard : p->data;
    if (count == 0)
        return CADRE_OK;
    uint32_t elements, bytes;
    cadre_rank_plan_block(store->plan, param, &elements, &bytes);
    from += begin / elements * bytes;
    if (plain && store->wide == dtype)
        return device->ops->to_host(device, host, from, count * store->wide_bytes);
    void *staged = device->ops->alloc(device, count * store->wide_bytes);
    cadre_status rc =
        !staged ? CADRE_E_RESOURCE
        : plain ? device->ops->cast(device, store->wide, staged, dtype, from,
                                    (int64_t)count)
                : cadre_forms_decode_range(store, param, from, own.begin + begin, count,
                                           store->wide, staged);
    if (rc == CADRE_OK)
        rc = device->ops->to_host(device, host, staged, count * store->wide_bytes);
    device->ops->free(device, staged);
    return rc;
}

struct initial {
    const struct cadre_model *model;
    uint64_t seed;
};

static cadre_status read_initial(void *arg, uint32_t param, uint64_t begin,
                                 uint64_t count, void *out, struct cadre_error *err)
{
    const struct initial *from = arg;
    (void)err;
    cadre_model_init_whole(from->model, param, from->seed, begin, count, out);
    return CADRE_OK;
}

static cadre_status fill_initial(struct cadre_store *store, uint64_t seed,
                                 struct cadre_error *err)
{
    if (store->ledger->device->ops->simulated)
        return CADRE_OK;
    for (uint32_t i = 0; i < store->model->n_params; i++) {
        struct cadre_share values = cadre_store_elements(store, i);
        struct initial from = {store->model, seed};
        CADRE_TRY(cadre_scales_find(store, i, read_initial, &from, err));
        if (!values.count)
            continue;
        void *host = cadre_calloc(values.count, store->wide_bytes);
        if (!host)
            return cadre_no_memory(err, "initial values");
        cadre_model_init_range(store->model, i, seed, values.begin, values.count, host);
        cadre_status rc = cadre_store_put(store, i, host);
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
    store->wide = cadre_dtype_wide(model->config.dtype);
    store->elem_bytes = cadre_dtype_bytes(model->config.dtype);
    store->wide_bytes = cadre_dtype_bytes(store->wide);
    store->param = cadre_calloc(model->n_params, sizeof *store->param);
    store->grad_offset = cadre_calloc(model->n_params, sizeof *store->grad_offset);
    if (!store->param || !store->grad_offset) {
        cadre_store_fini(store);
        return cadre_no_memory(err, "the parameter table");
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
    cadre_opt_storage_fini(&store->opt);
    free(store->param);
    free(store->grad_offset);
    store->param = NULL;
    store->grad_offset = NULL;
}

/* Element `begin` of the OPT range inside storage of elements of `size` bytes that
 * starts at `base_begin`. */
static void *inside(void *base, uint64_t base_begin, uint64_t begin, size_t size)
{
    return base ? (char *)base + (begin - base_begin) * size : NULL;
}

static void *opt_values(const struct cadre_store *store, uint32_t param)
{
    const struct cadre_store_param *p = &store->param[param];
    struct cadre_share own = cadre_store_share(store, param, CADRE_KIND_OPT);
    struct cadre_share values = cadre_store_share(store, param, CADRE_KIND_PARAM);
    if (!own.count)
        return NULL;
    return values.placed
               ? inside(p->data_shard, values.begin, own.begin, store->elem_bytes)
               : inside(p->data, 0, own.begin, store->elem_bytes);
}

void *cadre_store_opt_data(const struct cadre_store *store, uint32_t param)
{
    void *master = store->param[param].master;
    return master ? master : opt_values(store, param);
}

void *cadre_store_opt_rounded(const struct cadre_store *store, uint32_t param)
{
    return store->param[param].master ? opt_values(store, param) : NULL;
}

void *cadre_store_opt_grad(const struct cadre_store *store, uint32_t param)
{
    const struct cadre_store_param *p = &store->param[param];
    struct cadre_share own = cadre_store_share(store, param, CADRE_KIND_OPT);
    struct cadre_share grads = cadre_store_share(store, param, CADRE_KIND_GRAD);
    if (!own.count)
        return NULL;
    return grads.placed
               ? inside(p->grad_shard, grads.begin, own.begin, store->wide_bytes)
               : inside(p->grad, 0, own.begin, store->wide_bytes);
}
