/* SPDX-License-Identifier: Apache-2.0 */
/* Data-parallel ranks that shard gradients and optimizer states. A rank owns a range of
 * every parameter. Gradients are whole while a step lasts, and each is reduce-scattered
 * when it is complete; the updated ranges are all-gathered while the next step begins.
 * Source: Rajbhandari et al., ZeRO, SC20, stage 2. */
#include <stdlib.h>
#include <time.h>

#include <cadre/helpers.h>

#include "tests/check/planted/planted.h"

struct entry {
    uint64_t count;
    cadre_param_id owner; /* the entry that owns the weight: itself, unless tied */
    uint32_t trained; /* this rank computes a gradient of it */
    uint32_t updated; /* this rank holds the values, and they change */
    struct cadre_buf grad; /* whole; .data NULL: not allocated */
};

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    const struct cadre_mem_svc *mem;
    const struct cadre_ops_svc *ops;
    struct cadre_axis *axis;
    uint32_t ranks, me;
    uint64_t unit; /* ranges are whole multiples of it */
    uint32_t n_entries;
    struct entry *entry;
    uint64_t *off; /* (ranks + 1) ranges of the entry at hand */
    uint32_t waiting; /* gradients of this step that are not complete */
    cadre_event last; /* of the operation that was posted last */
};

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size), /* up to the last function that is called */
    CADRE_SERVICE(comm, COMM, test),
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(param, PARAM, reduced),
    CADRE_SERVICE(mem, MEM, free),
    CADRE_SERVICE(ops, OPS, copy), /* of a planted fault */
    {NULL, 0, 0},
};

/* ---- life ---- */

static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    free(s->entry);
    free(s->off);
    free(s);
}

static cadre_status create(const struct cadre_create *at, struct cadre_self **out)
{
    struct cadre_self *s;
    CADRE_TRY(cadre_self_create(at->host, services, sizeof *s, &s));
    s->host = at->host;
    *out = s;
    return CADRE_OK;
}

/* First element of rank r's range of an entry; for r = ranks its end. */
static uint64_t begin_of(const struct cadre_self *s, uint64_t count, uint32_t r)
{
    uint64_t units = (count + s->unit - 1) / s->unit;
    uint64_t begin = units * r / s->ranks * s->unit;
    return begin < count ? begin : count;
}

/* Alike on all ranks, whichever units they run. */
static cadre_status place(struct cadre_self *s, const struct cadre_plan *p,
                          cadre_param_id id, uint64_t *bytes)
{
    struct cadre_param_info info;
    CADRE_TRY(cadre_param_get(s->host, s->model, id, &info));
    uint64_t begin = begin_of(s, info.count, s->me);
    uint64_t count = begin_of(s, info.count, s->me + 1) - begin;
    if (s->ranks == 1)
        return CADRE_OK;
    if (info.present && !info.frozen)
        *bytes += info.count * cadre_dtype_size(info.grad_dtype);
    CADRE_TRY(
        p->place_range(p->h, id, CADRE_KIND_GRAD, begin, count, CADRE_SPACE_DEVICE));
    if (info.tied_to >= 0)
        return CADRE_OK;
    return p->place_range(p->h, id, CADRE_KIND_OPT, begin, count, CADRE_SPACE_DEVICE);
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    uint32_t n = s->model->n_params(s->host->ctx);
    uint64_t bytes = 0;
    s->axis = s->mesh->axis(s->host->ctx, p->axis);
    s->ranks = (uint32_t)s->mesh->size(s->axis);
    s->me = (uint32_t)s->mesh->rank(s->axis);
    s->unit = p->range_unit;
    CADRE_TRY(p->use_axis(p->h, p->axis, CADRE_BATCH_SPLIT));
    CADRE_TRY(p->reduces(p->h, p->axis, CADRE_REDUCE_INNER));
    PLANTED(22, NOTHING, CADRE_TRY(p->claim(p->h, "opt.shard", p->axis, 0)));
    for (cadre_param_id id = 0; id < n; id++)
        CADRE_TRY(place(s, p, id, &bytes));
    if (bytes == 0)
        return CADRE_OK;
    return p->memory(p->h, CADRE_SPACE_DEVICE, bytes, "gradients");
}

static cadre_status bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)at;
    s->n_entries = s->model->n_params(s->host->ctx);
    s->entry = calloc(s->n_entries + 1u, sizeof *s->entry);
    s->off = calloc(s->ranks + 1u, sizeof *s->off);
    if (!s->entry || !s->off)
        return cadre_refuse(s->host, CADRE_E_RESOURCE, "no memory for %u entries",
                            s->n_entries);
    for (cadre_param_id id = 0; id < s->n_entries; id++) {
        struct entry *e = &s->entry[id];
        struct cadre_param_info info;
        CADRE_TRY(cadre_param_get(s->host, s->model, id, &info));
        e->count = info.count;
        e->owner = info.tied_to < 0 ? id : (cadre_param_id)info.tied_to;
        e->trained = info.present && PLANTED_VALUE(27, 1, !info.frozen);
        e->updated = info.tied_to < 0 && !info.frozen && (info.present || info.copied);
        e->grad = cadre_buf_of(NULL, info.count, info.grad_dtype, CADRE_SPACE_DEVICE);
    }
    return CADRE_OK;
}

/* ---- gradients ---- */

static cadre_status take(struct cadre_self *s, cadre_param_id id)
{
    struct entry *e = &s->entry[id];
    uint64_t bytes = cadre_buf_bytes(&e->grad);
    e->grad.data = s->mem->alloc(s->host->ctx, CADRE_SPACE_DEVICE, bytes, "gradients");
    if (!e->grad.data)
        return cadre_refuse(s->host, CADRE_E_RESOURCE,
                            "no memory for the gradient of entry %u, %llu bytes", id,
                            (unsigned long long)bytes);
    s->waiting++;
    return s->param->attach_grad(s->host->ctx, id, &e->grad);
}

static void give(struct cadre_self *s, struct entry *e)
{
    if (e->grad.data)
        s->mem->free(s->host->ctx, e->grad.data);
    e->grad.data = NULL;
}

static cadre_status step(struct cadre_self *s, const struct cadre_step *at,
                         const struct cadre_next *next)
{
    s->waiting = 0;
    for (cadre_param_id id = 0; id < s->n_entries; id++)
        if (s->ranks > 1 && s->entry[id].trained && !(at->flags & CADRE_STEP_FORWARD))
            CADRE_TRY(take(s, id));
    return next->run(next->h, at);
}

static void find_ranges(struct cadre_self *s, const struct entry *e)
{
    for (uint32_t r = 0; r <= s->ranks; r++)
        s->off[r] = begin_of(s, e->count, r);
}

static cadre_status scatter(struct cadre_self *s, const struct entry *e,
                            const struct cadre_buf *mine, struct cadre_post *post)
{
    return s->comm->reduce_scatter(s->axis, &e->grad, mine, s->off, CADRE_SUM, post);
}

/* This rank's range as it is, as on one rank. */
static cadre_status cut_out(struct cadre_self *s, const struct entry *e,
                            const struct cadre_buf *mine)
{
    struct cadre_buf part = cadre_buf_slice(&e->grad, s->off[s->me], mine->count);
    return s->ops->copy(s->host->ctx, mine->data, part.data, cadre_buf_bytes(mine));
}

static cadre_status on_grad(struct cadre_self *s, struct cadre_grad_ev *ev)
{
    struct entry *e = &s->entry[ev->param];
    struct cadre_post post =
        cadre_post("planted gradient", CADRE_TRAFFIC_GRAD, ev->ready);
    struct cadre_buf mine;
    if (s->ranks == 1 || !(ev->flags & CADRE_GRAD_FINAL))
        return CADRE_OK;
    CADRE_TRY(s->param->shard(s->host->ctx, PLANTED_VALUE(25, e->owner, ev->param),
                              CADRE_KIND_GRAD, &mine));
    find_ranges(s, e);
    PLANTED(16, CADRE_TRY(cut_out(s, e, &mine)),
            CADRE_TRY(scatter(s, e, &mine, &post)));
    CADRE_TRY(s->param->attach_grad(s->host->ctx, ev->param, NULL));
    PLANTED(18, give(s, e), NOTHING);
    s->waiting--;
    s->last = post.done;
    return s->param->reduced(s->host->ctx, ev->param, &mine, post.done);
}

/* The same as stream_wait, with a limit of a tenth of a second. */
static cadre_status poll_last(struct cadre_self *s)
{
    for (int i = 0; i < 100; i++) {
        struct timespec pause = {.tv_nsec = 1000000};
        uint32_t happened = 0;
        CADRE_TRY(s->comm->test(s->axis, s->last, &happened));
        if (happened)
            return CADRE_OK;
        nanosleep(&pause, NULL);
    }
    return cadre_refuse(s->host, CADRE_E_COMM, "the other ranks did not answer");
}

static cadre_status settle(struct cadre_self *s)
{
    if (s->waiting > 0)
        return cadre_refuse(s->host, CADRE_E_INTERNAL,
                            "%u gradients were not complete in this step", s->waiting);
    PLANTED(39, CADRE_TRY(poll_last(s)),
            CADRE_TRY(s->comm->stream_wait(s->axis, s->last)));
    for (cadre_param_id id = 0; id < s->n_entries; id++)
        give(s, &s->entry[id]);
    return CADRE_OK;
}

/* ---- values ---- */

static cadre_status gather(struct cadre_self *s, cadre_param_id id)
{
    const struct entry *e = &s->entry[id];
    struct cadre_post post = cadre_post("planted values", CADRE_TRAFFIC_PARAM, 0);
    struct cadre_buf whole;
    CADRE_TRY(s->param->data(s->host->ctx, id, &whole));
    find_ranges(s, e);
    uint64_t count = s->off[s->me + 1] - s->off[s->me];
    struct cadre_buf mine = cadre_buf_slice(&whole, s->off[s->me], count);
    CADRE_TRY(s->comm->all_gather(s->axis, &mine, &whole, s->off, &post));
    s->last = post.done;
    return s->param->pending(s->host->ctx, id, post.done);
}

static cadre_status on_sync(struct cadre_self *s, const struct cadre_sync *at)
{
    if (s->ranks == 1)
        return CADRE_OK;
    if (at->what == CADRE_SYNC_GRADS)
        return settle(s);
    for (cadre_param_id id = 0; at->what == CADRE_SYNC_PARAMS && id < s->n_entries;
         id++)
        if (s->entry[id].updated)
            CADRE_TRY(gather(s, id));
    return at->what == CADRE_SYNC_DRAIN ? s->comm->stream_wait(s->axis, s->last)
                                        : CADRE_OK;
}

/* ---- descriptor ---- */

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .step = step,
    .sync = on_sync,
    .on_grad = on_grad,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_DATA, .id = PLANTED_ID, .version = "0.1.0",
             .summary = "data-parallel ranks that shard gradients and states",
             .axis = "dp", .services = services, .ops = &ops)
