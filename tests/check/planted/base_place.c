/* SPDX-License-Identifier: Apache-2.0 */
/* Data-parallel ranks that shard everything. A rank keeps a range of every parameter,
 * of its gradient and of its optimizer states. A unit's parameters are all-gathered
 * before it runs and freed after; a gradient is whole until it is complete. Nothing
 * overlaps.
 * Source: Rajbhandari et al., ZeRO, SC20, stage 3. */
#include <stdlib.h>
#include <string.h>

#include <cadre/helpers.h>

#include "tests/check/planted/planted.h"

struct entry {
    uint64_t count;
    uint32_t unit, present;
    cadre_param_id owner; /* the entry that owns the weight: itself, unless tied */
    uint32_t trained; /* this rank computes a gradient of it */
    struct cadre_buf value, grad; /* whole; .data NULL: not allocated */
};

/* This rank along its axis. */
struct coordinate {
    struct cadre_axis *axis;
    uint32_t ranks, me;
};

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    const struct cadre_mem_svc *mem;
    struct coordinate own, *at; /* at: own */
    uint64_t unit; /* ranges are whole multiples of it */
    uint32_t n_entries, n_units;
    struct entry *entry;
    uint64_t *off; /* (ranks + 1) ranges of the entry at hand */
};

static struct coordinate shared; /* of a planted fault */

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size), /* up to the last function that is called */
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(param, PARAM, reduced),
    CADRE_SERVICE(mem, MEM, free),
    {NULL, 0, 0},
};

/* ---- life ---- */

static void give(struct cadre_self *s, struct cadre_buf *buf)
{
    if (buf->data)
        s->mem->free(s->host->ctx, buf->data);
    buf->data = NULL;
}

/* A step that failed leaves buffers. There are none before bind. */
static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    uint32_t n = PLANTED_VALUE(11, s->n_entries, s->entry ? s->n_entries : 0);
    (void)end;
    for (uint32_t i = 0; i < n; i++) {
        give(s, &s->entry[i].value);
        give(s, &s->entry[i].grad);
    }
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
    uint64_t begin = units * r / s->at->ranks * s->unit;
    return begin < count ? begin : count;
}

static uint64_t whole_count(const struct cadre_param_info *info)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < info->ndim; i++)
        count *= info->shape[i];
    return count;
}

/* Alike on all ranks, whichever units they run. */
static cadre_status place(struct cadre_self *s, const struct cadre_plan *p,
                          cadre_param_id id)
{
    struct cadre_param_info info;
    CADRE_TRY(cadre_param_get(s->host, s->model, id, &info));
    uint64_t all = PLANTED_VALUE(31, whole_count(&info), info.count);
    uint64_t begin = begin_of(s, all, s->at->me);
    uint64_t count = begin_of(s, all, s->at->me + 1) - begin;
    CADRE_TRY(
        p->place_range(p->h, id, CADRE_KIND_GRAD, begin, count, CADRE_SPACE_DEVICE));
    if (info.tied_to >= 0)
        return CADRE_OK;
    CADRE_TRY(
        p->place_range(p->h, id, CADRE_KIND_PARAM, begin, count, CADRE_SPACE_DEVICE));
    return p->place_range(p->h, id, CADRE_KIND_OPT, begin, count, CADRE_SPACE_DEVICE);
}

/* All gradients at once, and the parameters of the largest unit. */
static cadre_status tell_memory(struct cadre_self *s, const struct cadre_plan *p)
{
    uint64_t grads = 0, values = 0;
    for (uint32_t unit = 0; unit < p->n_units; unit++) {
        uint64_t bytes = 0;
        for (cadre_param_id id = 0; id < s->n_entries; id++) {
            struct cadre_param_info info;
            CADRE_TRY(cadre_param_get(s->host, s->model, id, &info));
            if (!info.present || info.unit != unit)
                continue;
            bytes += info.count * cadre_dtype_size(info.dtype);
            if (!info.frozen)
                grads += info.count * cadre_dtype_size(info.grad_dtype);
        }
        values = bytes > values ? bytes : values;
    }
    if (grads > 0)
        CADRE_TRY(p->memory(p->h, CADRE_SPACE_DEVICE, grads, "gradients"));
    return p->memory(p->h, CADRE_SPACE_DEVICE, values, "parameters");
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    s->at = PLANTED_VALUE(8, &shared, &s->own);
    s->at->axis = s->mesh->axis(s->host->ctx, p->axis);
    s->at->ranks = (uint32_t)s->mesh->size(s->at->axis);
    s->at->me = (uint32_t)s->mesh->rank(s->at->axis);
    s->unit = p->range_unit;
    s->n_entries = s->model->n_params(s->host->ctx);
    CADRE_TRY(p->use_axis(p->h, p->axis, CADRE_BATCH_SPLIT));
    CADRE_TRY(p->reduces(p->h, p->axis, CADRE_REDUCE_INNER));
    CADRE_TRY(p->claim(p->h, "opt.shard", p->axis, 0));
    CADRE_TRY(p->claim(p->h, "param.place", p->axis, 0));
    if (s->at->ranks == 1)
        return CADRE_OK;
    for (cadre_param_id id = 0; id < s->n_entries; id++)
        CADRE_TRY(place(s, p, id));
    return tell_memory(s, p);
}

static cadre_status bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)at;
    s->entry = calloc(s->n_entries + 1u, sizeof *s->entry);
    s->off = calloc(s->at->ranks + 1u, sizeof *s->off);
    if (!s->entry || !s->off)
        return cadre_refuse(s->host, CADRE_E_RESOURCE, "no memory for %u entries",
                            s->n_entries);
    for (cadre_param_id id = 0; id < s->n_entries; id++) {
        struct entry *e = &s->entry[id];
        struct cadre_param_info info;
        CADRE_TRY(cadre_param_get(s->host, s->model, id, &info));
        if (info.form != CADRE_FORM_PLAIN)
            return cadre_refuse(s->host, CADRE_E_UNSUPPORTED,
                                "'%s' is stored in blocks, expected elements: leave it "
                                "as it is, or use another strategy",
                                info.name);
        e->count = info.count;
        e->unit = info.unit;
        e->present = info.present;
        e->owner = info.tied_to < 0 ? id : (cadre_param_id)info.tied_to;
        e->trained = info.present && !info.frozen;
        e->value = cadre_buf_of(NULL, info.count, info.dtype, CADRE_SPACE_DEVICE);
        e->grad = cadre_buf_of(NULL, info.count, info.grad_dtype, CADRE_SPACE_DEVICE);
    }
    return CADRE_OK;
}

static cadre_status take(struct cadre_self *s, struct cadre_buf *buf, const char *tag)
{
    uint64_t bytes = cadre_buf_bytes(buf);
    buf->data = s->mem->alloc(s->host->ctx, CADRE_SPACE_DEVICE, bytes, tag);
    if (buf->data)
        return CADRE_OK;
    return cadre_refuse(s->host, CADRE_E_RESOURCE, "no memory for %llu bytes of %s",
                        (unsigned long long)bytes, tag);
}

static void find_ranges(struct cadre_self *s, const struct entry *e)
{
    for (uint32_t r = 0; r <= s->at->ranks; r++)
        s->off[r] = begin_of(s, e->count, r);
}

/* ---- values ---- */

static cadre_status gather(struct cadre_self *s, cadre_param_id id)
{
    struct entry *e = &s->entry[id];
    struct cadre_post post = cadre_post("planted values", CADRE_TRAFFIC_PARAM, 0);
    struct cadre_buf mine;
    if (e->value.data)
        return CADRE_OK;
    CADRE_TRY(take(s, &e->value, "parameters"));
    CADRE_TRY(s->param->shard(s->host->ctx, id, CADRE_KIND_PARAM, &mine));
    find_ranges(s, e);
    CADRE_TRY(s->comm->all_gather(s->at->axis, &mine, &e->value, s->off, &post));
    CADRE_TRY(s->comm->stream_wait(s->at->axis, post.done));
    return s->param->attach(s->host->ctx, id, &e->value);
}

static cadre_status release(struct cadre_self *s, cadre_param_id id)
{
    struct entry *e = &s->entry[id];
    if (!e->value.data)
        return CADRE_OK;
    CADRE_TRY(s->param->attach(s->host->ctx, id, NULL));
    give(s, &e->value);
    return CADRE_OK;
}

/* What is computed again in backward needs what backward has gathered. */
static cadre_status on_block(struct cadre_self *s, const struct cadre_block_ev *ev)
{
    int begins = ev->kind == CADRE_BEFORE_FORWARD || ev->kind == CADRE_BEFORE_BACKWARD;
    if (s->at->ranks == 1 || PLANTED_VALUE(28, 0, ev->flags & CADRE_EV_RECOMPUTE))
        return CADRE_OK;
    for (cadre_param_id id = 0; id < s->n_entries; id++) {
        const struct entry *e = &s->entry[id];
        if (e->present && e->unit == ev->unit)
            CADRE_TRY(begins ? gather(s, e->owner) : release(s, e->owner));
    }
    return CADRE_OK;
}

/* ---- gradients ---- */

static cadre_status step(struct cadre_self *s, const struct cadre_step *at,
                         const struct cadre_next *next)
{
    for (cadre_param_id id = 0; id < s->n_entries; id++) {
        struct entry *e = &s->entry[id];
        if (s->at->ranks == 1 || !e->trained || (at->flags & CADRE_STEP_FORWARD))
            continue;
        CADRE_TRY(take(s, &e->grad, "gradients"));
        CADRE_TRY(s->param->attach_grad(s->host->ctx, id, &e->grad));
    }
    return next->run(next->h, at);
}

static cadre_status on_grad(struct cadre_self *s, struct cadre_grad_ev *ev)
{
    struct entry *e = &s->entry[ev->param];
    struct cadre_post post =
        cadre_post("planted gradient", CADRE_TRAFFIC_GRAD, ev->ready);
    struct cadre_buf mine;
    if (s->at->ranks == 1 || !(ev->flags & CADRE_GRAD_FINAL))
        return CADRE_OK;
    CADRE_TRY(s->param->shard(s->host->ctx, ev->param, CADRE_KIND_GRAD, &mine));
    find_ranges(s, e);
    CADRE_TRY(s->comm->reduce_scatter(s->at->axis, &e->grad, &mine, s->off, CADRE_SUM,
                                      &post));
    CADRE_TRY(s->comm->stream_wait(s->at->axis, post.done));
    CADRE_TRY(s->param->attach_grad(s->host->ctx, ev->param, NULL));
    give(s, &e->grad);
    return s->param->reduced(s->host->ctx, ev->param, &mine, post.done);
}

/* Nothing is ever in flight between two calls. */
static cadre_status on_sync(struct cadre_self *s, const struct cadre_sync *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

/* ---- descriptor ---- */

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .step = step,
    .sync = on_sync,
    .on_block = on_block,
    .on_grad = on_grad,
    .destroy = destroy,
};

/* What CADRE_PLUGIN of <cadre/helpers.h> writes, spelt out. */
CADRE_EXPORT const struct cadre_plugin *CADRE_ENTRY(void)
{
    static const struct cadre_plugin plugin = {
        .magic = CADRE_MAGIC,
        .struct_size = sizeof plugin,
        .abi_major = CADRE_ABI_MAJOR,
        .abi_minor = CADRE_ABI_MINOR,
        .min_host_minor = CADRE_ABI_MINOR,
        .role = CADRE_ROLE_DATA,
        .id = PLANTED_ID,
        .version = "0.1.0",
        .summary = "data-parallel ranks that shard everything",
        .axis = "dp",
        .services = services,
        .ops = &ops,
    };
    PLANTED(2, return memcpy(malloc(sizeof plugin), &plugin, sizeof plugin),
            return &plugin);
}
