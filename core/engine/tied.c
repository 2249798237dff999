/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/tied.h"

#include "core/base/clock.h"

/* A range of one kind in this rank's storage. */
struct part {
    void *data;
    uint64_t begin, count;
};

static struct part part_of(const struct cadre_store *store, uint32_t param,
                           uint32_t kind)
{
    const struct cadre_store_param *p = &store->param[param];
    struct cadre_share share = cadre_store_share(store, param, kind);
    void *placed = kind == CADRE_KIND_PARAM ? p->data_shard : p->grad_shard;
    void *whole = kind == CADRE_KIND_PARAM ? p->data : p->grad;
    return (struct part){share.placed ? placed : whole, share.begin, share.count};
}

/* Move a part between this rank's stage and the stage `peer`; the buffers are alike. */
static cadre_status move(const struct cadre_store *store, const struct cadre_axis *axis,
                         const struct part *part, uint32_t kind, bool send, int peer)
{
    struct cadre_device *device = store->ledger->device;
    struct cadre_comm *comm = axis->comm;
    uint32_t dtype =
        kind == CADRE_KIND_PARAM ? store->model->config.dtype : store->wide;
    cadre_event done;
    if (part->count == 0)
        return CADRE_OK;
    double begin = cadre_now_s();
    cadre_status rc = device->ops->synchronize(device);
    if (rc == CADRE_OK)
        rc = send ? cadre_comm_send(comm, "tied weights", part->data, part->count,
                                    dtype, peer, 0, &done)
                  : cadre_comm_recv(comm, "tied weights", part->data, part->count,
                                    dtype, peer, 0, &done);
    if (rc == CADRE_OK)
        rc = cadre_comm_wait(comm, done);
    cadre_timeline_add(axis->timeline, CADRE_SPAN_WAIT, "tied weights", begin);
    return rc;
}

/* Stage that runs the unit of an entry. */
static int home_of(const struct cadre_store *store, const struct cadre_stages *stages,
                   uint32_t param)
{
    return cadre_stages_home(stages, store->model->params[param].unit);
}

/* Set *from to the gradient of the other use: this rank's own, or received. */
static cadre_status fetch(const struct cadre_store *store,
                          const struct cadre_stages *stages, uint32_t use,
                          struct part *from)
{
    if (store->plan->param[use].present) {
        *from = part_of(store, use, CADRE_KIND_GRAD);
        return CADRE_OK;
    }
    /* the other stage shards its gradient as this stage's plan says */
    const struct cadre_share *share = &store->plan->param[use].share[CADRE_KIND_GRAD];
    from->data = store->tied;
    from->begin = share->placed ? share->begin : 0;
    from->count = share->placed ? share->count : store->param[use].count;
    return move(store, stages->axis, from, CADRE_KIND_GRAD, false,
                home_of(store, stages, use));
}

static cadre_status add(const struct cadre_store *store,
                        const struct cadre_stages *stages, uint32_t use, uint32_t owner,
                        struct cadre_error *why)
{
    struct cadre_device *device = store->ledger->device;
    struct cadre_share own = cadre_store_share(store, owner, CADRE_KIND_OPT);
    struct part from;
    cadre_status rc = fetch(store, stages, use, &from);
    if (rc != CADRE_OK || own.count == 0)
        return rc;
    if (own.begin < from.begin || own.begin + own.count > from.begin + from.count)
        return cadre_fail(
            why, CADRE_E_INTERNAL, "'%s' and its tied '%s' are placed differently",
            store->model->params[owner].name, store->model->params[use].name);
    void *to = cadre_store_opt_grad(store, owner);
    const char *at = from.data;
    at += (own.begin - from.begin) * store->wide_bytes;
    return device->ops->axpby(device, store->wide, 1, at, 1, to, (int64_t)own.count);
}

cadre_status cadre_tied_add(const struct cadre_store *store,
                            const struct cadre_stages *stages, struct cadre_error *why)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t i = 0; rc == CADRE_OK && i < store->model->n_params; i++) {
        int32_t owner = store->model->params[i].tied_to;
        if (owner < 0 || store->plan->param[owner].frozen)
            continue;
        if (store->plan->param[owner].present) {
            rc = add(store, stages, i, (uint32_t)owner, why);
        } else if (store->plan->param[i].present) {
            struct part mine = part_of(store, i, CADRE_KIND_GRAD);
            rc = move(store, stages->axis, &mine, CADRE_KIND_GRAD, true,
                      home_of(store, stages, (uint32_t)owner));
        }
    }
    return rc;
}

cadre_status cadre_tied_copy(const struct cadre_store *store,
                             const struct cadre_stages *stages)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t i = 0; rc == CADRE_OK && i < store->model->n_params; i++) {
        int32_t owner = store->model->params[i].tied_to;
        if (owner < 0 || store->plan->param[owner].frozen)
            continue;
        bool here = store->plan->param[i].present;
        bool owned = store->plan->param[owner].present;
        if (here == owned)
            continue;
        uint32_t other = owned ? i : (uint32_t)owner;
        struct part values = part_of(store, (uint32_t)owner, CADRE_KIND_PARAM);
        rc = move(store, stages->axis, &values, CADRE_KIND_PARAM, owned,
                  home_of(store, stages, other));
    }
    return rc;
}
