/* SPDX-License-Identifier: Apache-2.0 */
#include "core/strategy/tied.h"

#include "core/base/clock.h"

/* A range of one kind where it lies on this rank. */
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
static cadre_status move(struct cadre_rank *rank, const struct part *part,
                         uint32_t kind, bool send, int peer)
{
    struct cadre_comm *comm = rank->stages.axis->comm;
    uint32_t dtype =
        kind == CADRE_KIND_PARAM ? rank->model->config.dtype : rank->store.wide;
    cadre_event done;
    if (part->count == 0)
        return CADRE_OK;
    double begin = cadre_now_s();
    cadre_status rc = rank->device->ops->synchronize(rank->device);
    if (rc == CADRE_OK)
        rc = send ? cadre_comm_send(comm, "tied weights", part->data, part->count,
                                    dtype, peer, 0, &done)
                  : cadre_comm_recv(comm, "tied weights", part->data, part->count,
                                    dtype, peer, 0, &done);
    if (rc == CADRE_OK)
        rc = cadre_comm_wait(comm, done);
    cadre_timeline_add(&rank->timeline, CADRE_SPAN_WAIT, "tied weights", begin);
    return rc;
}

/* Stage that runs the unit of an entry. */
static int home_of(const struct cadre_rank *rank, uint32_t param)
{
    return cadre_stages_home(&rank->stages, rank->model->params[param].unit);
}

/* The gradient of the other use into *from: this rank's own, or received. */
static cadre_status fetch(struct cadre_rank *rank, uint32_t use, struct part *from)
{
    if (rank->plan.param[use].present) {
        *from = part_of(&rank->store, use, CADRE_KIND_GRAD);
        return CADRE_OK;
    }
    /* the other stage cuts its gradient as the plan of this one says */
    const struct cadre_share *share = &rank->plan.param[use].share[CADRE_KIND_GRAD];
    from->data = rank->store.tied;
    from->begin = share->placed ? share->begin : 0;
    from->count = share->placed ? share->count : rank->store.param[use].count;
    return move(rank, from, CADRE_KIND_GRAD, false, home_of(rank, use));
}

static cadre_status add(struct cadre_rank *rank, uint32_t use, uint32_t owner)
{
    const struct cadre_store *store = &rank->store;
    struct cadre_share own = cadre_store_share(store, owner, CADRE_KIND_OPT);
    struct part from;
    cadre_status rc = fetch(rank, use, &from);
    if (rc != CADRE_OK || own.count == 0)
        return rc;
    if (own.begin < from.begin || own.begin + own.count > from.begin + from.count)
        return cadre_fail(&rank->failure, CADRE_E_INTERNAL,
                          "'%s' and its tied '%s' are placed differently",
                          rank->model->params[owner].name,
                          rank->model->params[use].name);
    void *to = cadre_store_opt_grad(store, owner);
    const char *at = from.data;
    at += (own.begin - from.begin) * store->wide_bytes;
    return rank->device->ops->tree_add(rank->device, store->wide, to, to, at,
                                       (int64_t)own.count);
}

cadre_status cadre_tied_add(struct cadre_rank *rank)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t i = 0; rc == CADRE_OK && i < rank->model->n_params; i++) {
        int32_t owner = rank->model->params[i].tied_to;
        if (owner < 0)
            continue;
        if (rank->plan.param[owner].present) {
            rc = add(rank, i, (uint32_t)owner);
        } else if (rank->plan.param[i].present) {
            struct part mine = part_of(&rank->store, i, CADRE_KIND_GRAD);
            rc = move(rank, &mine, CADRE_KIND_GRAD, true,
                      home_of(rank, (uint32_t)owner));
        }
    }
    return rc;
}

cadre_status cadre_tied_copy(struct cadre_rank *rank)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t i = 0; rc == CADRE_OK && i < rank->model->n_params; i++) {
        int32_t owner = rank->model->params[i].tied_to;
        if (owner < 0)
            continue;
        bool here = rank->plan.param[i].present;
        bool owned = rank->plan.param[owner].present;
        if (here == owned)
            continue;
        uint32_t other = owned ? i : (uint32_t)owner;
        struct part values = part_of(&rank->store, (uint32_t)owner, CADRE_KIND_PARAM);
        rc = move(rank, &values, CADRE_KIND_PARAM, owned, home_of(rank, other));
    }
    return rc;
}
