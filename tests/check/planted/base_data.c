/* SPDX-License-Identifier: Apache-2.0 */
/* Data-parallel replicas. A gradient is all-reduced once a step while backward runs:
 * one at a time, in the order in which they become complete. Besides, it keeps an
 * exponential average of the parameters, of the ranges that this rank updates: where
 * another plugin shards the optimizer, the average is sharded too. Source: Polyak &
 * Juditsky, Acceleration of Stochastic Approximation by Averaging, 1992. */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/helpers.h>

#include "tests/check/planted/planted.h"

#define SLOTS 8u

/* A gradient whose sum over this rank's micro-batches is complete. */
struct item {
    struct cadre_grad_ev ev; /* as raised; its pointers are valid no more */
    struct cadre_buf grad;
};

struct average {
    cadre_param_id id;
    uint64_t begin; /* of this rank's range in the flat local part */
    struct cadre_buf mean;
};

/* Saved as it is. */
struct kept {
    uint64_t updates; /* that the averages hold */
    uint32_t slot; /* of `tokens`: the one that the next step writes */
    uint32_t pad_;
    uint64_t tokens[SLOTS]; /* of the latest steps */
};

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    const struct cadre_mem_svc *mem;
    const struct cadre_ops_svc *ops;
    int overlap;
    uint32_t level;
    double decay; /* 0: no averages */
    struct cadre_axis *axis;
    int32_t ranks;
    atomic_int open; /* a step began and sync(GRADS) has not come */
    uint32_t n_entries, head, tail;
    struct item *queue; /* of this step; [head, tail) are not posted yet */
    cadre_event last; /* of the sum that was posted last */
    uint32_t n_averages;
    struct average *average;
    struct kept *kept;
};

#if FAULT == 1
CADRE_EXPORT
#else
static
#endif
const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, test),
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(param, PARAM, reduced),
    {NULL, 0, 0},
};

static const struct cadre_service services_to_average[] = {
    CADRE_SERVICE(mem, MEM, alloc),
    CADRE_SERVICE(ops, OPS, axpby),
    {NULL, 0, 0},
};

/* ---- life ---- */

static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    free(s->queue);
    free(s->average);
    free(s->kept);
    free(s);
}

static cadre_status create(const struct cadre_create *at, struct cadre_self **out)
{
    const struct cadre_values *values = at->values;
    struct cadre_self *s;
    cadre_status rc;
    CADRE_TRY(cadre_self_create(at->host, services, sizeof *s, &s));
    s->host = at->host;
    s->overlap = values->i64(values->h, "overlap") != 0;
    s->level = (uint32_t)values->i64(values->h, "level");
    s->decay = values->f64(values->h, "decay");
    if (s->decay > 0)
        CADRE_TRY_OR(cadre_services_take(at->host, services_to_average, s), fail);
    rc = CADRE_E_RESOURCE;
    s->kept = calloc(1, sizeof *s->kept);
    if (!s->kept) {
        cadre_refuse(at->host, rc, "no memory for counters");
        goto fail;
    }
    *out = s;
    return CADRE_OK;
fail:
    PLANTED(7, NOTHING, destroy(s, NULL));
    return rc;
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    const char *axis = PLANTED_VALUE(33, "dp", p->axis);
    struct cadre_param_info info;
    uint64_t begin, count, bytes = 0;
    s->axis = s->mesh->axis(s->host->ctx, axis);
    CADRE_TRY(p->use_axis(p->h, axis, CADRE_BATCH_SPLIT));
    CADRE_TRY(p->reduces(p->h, axis, s->level));
    for (cadre_param_id id = 0;
         s->decay > 0 && cadre_param_next(s->host, s->model, &id, &info); id++) {
        CADRE_TRY(s->param->range(s->host->ctx, id, CADRE_KIND_OPT, &begin, &count));
        if (!info.present || info.frozen)
            count = 0;
        count *= cadre_dtype_size(info.grad_dtype);
        PLANTED(21, bytes = count, bytes += count);
    }
    if (bytes == 0)
        return CADRE_OK;
    return p->memory(p->h, CADRE_SPACE_DEVICE, bytes, "averages");
}

static cadre_status take_average(struct cadre_self *s, cadre_param_id id,
                                 const struct cadre_param_info *info)
{
    struct average *a = &s->average[s->n_averages];
    uint64_t count;
    CADRE_TRY(s->param->range(s->host->ctx, id, CADRE_KIND_OPT, &a->begin, &count));
    if (!info->present || info->frozen || count == 0)
        return CADRE_OK;
    uint64_t bytes = count * cadre_dtype_size(info->grad_dtype);
    void *data = s->mem->alloc(s->host->ctx, CADRE_SPACE_DEVICE, bytes, "averages");
    if (!data)
        return cadre_refuse(s->host, CADRE_E_RESOURCE,
                            "no memory for the average of "
                            "'%s', %llu bytes",
                            info->name, (unsigned long long)bytes);
    a->id = id;
    a->mean = cadre_buf_of(data, count, info->grad_dtype, CADRE_SPACE_DEVICE);
    s->n_averages++;
    return CADRE_OK;
}

static cadre_status bind(struct cadre_self *s, const struct cadre_bind *at)
{
    struct cadre_param_info info;
    (void)at;
    s->ranks = s->mesh->size(s->axis);
    s->n_entries = s->model->n_params(s->host->ctx);
    s->queue = calloc(s->n_entries + 1u, sizeof *s->queue);
    s->average = calloc(s->n_entries + 1u, sizeof *s->average);
    if (!s->queue || !s->average)
        return cadre_refuse(s->host, CADRE_E_RESOURCE, "no memory for %u entries",
                            s->n_entries);
    for (cadre_param_id id = 0;
         s->decay > 0 && cadre_param_next(s->host, s->model, &id, &info); id++)
        CADRE_TRY(take_average(s, id, &info));
    return CADRE_OK;
}

/* ---- a step ---- */

static cadre_status step(struct cadre_self *s, const struct cadre_step *at,
                         const struct cadre_next *next)
{
    if (at->flags & CADRE_STEP_FORWARD)
        return next->run(next->h, at);
    s->kept->tokens[s->kept->slot] = at->tokens_global;
    s->kept->slot = (s->kept->slot + 1) % SLOTS;
    s->head = s->tail = 0;
    atomic_store(&s->open, 1);
    return next->run(next->h, at);
}

static cadre_status sum(struct cadre_self *s, const struct cadre_buf *grad,
                        struct cadre_post *post)
{
    uint64_t count = PLANTED_VALUE(24, grad->count / 4 * 4, grad->count);
    struct cadre_buf whole = cadre_buf_slice(grad, 0, count);
    return s->comm->all_reduce(s->axis, &whole, &whole, CADRE_SUM, post);
}

/* First in, first out, so that all ranks post in the same order. */
static cadre_status post_next(struct cadre_self *s)
{
    uint32_t at = PLANTED_VALUE(17, s->tail - 1, s->head);
    struct item item = s->queue[at];
    struct cadre_post post =
        cadre_post("planted gradient", CADRE_TRAFFIC_GRAD, item.ev.ready);
    s->queue[at] = s->queue[s->head++];
    if (item.grad.count == 0) /* so it is on all ranks of the axis */
        return s->param->reduced(s->host->ctx, item.ev.param, &item.grad,
                                 item.ev.ready);
    for (int i = 0; i < PLANTED_VALUE(15, 2, 1); i++)
        CADRE_TRY(sum(s, &item.grad, &post));
    s->last = post.done;
    return s->param->reduced(s->host->ctx, item.ev.param, &item.grad, post.done);
}

static cadre_status post_while_idle(struct cadre_self *s)
{
    while (s->head < s->tail) {
        uint32_t idle = 0;
        CADRE_TRY(s->comm->test(s->axis, s->last, &idle));
        if (!idle)
            break;
        CADRE_TRY(post_next(s));
    }
    return CADRE_OK;
}

static cadre_status on_grad(struct cadre_self *s, struct cadre_grad_ev *ev)
{
    struct item *item = &s->queue[s->tail];
    size_t known =
        ev->struct_size < sizeof item->ev ? ev->struct_size : sizeof item->ev;
    if (s->ranks == 1 || PLANTED_VALUE(26, 0, !(ev->flags & CADRE_GRAD_FINAL)))
        return CADRE_OK;
    if (!atomic_load(&s->open) || s->tail == s->n_entries)
        return cadre_refuse(s->host, CADRE_E_INTERNAL,
                            "a gradient of entry %u was raised where none was expected",
                            ev->param);
    PLANTED(32, CADRE_TRY(s->param->grad(s->host->ctx, ev->param, &item->grad)),
            item->grad = *ev->grad);
    memcpy(&item->ev, ev, PLANTED_VALUE(5, ev->struct_size, known));
    s->tail++;
    return s->overlap ? post_while_idle(s) : CADRE_OK;
}

static cadre_status settle(struct cadre_self *s)
{
    if (!atomic_load(&s->open))
        return CADRE_OK;
    while (s->head < s->tail)
        CADRE_TRY(post_next(s));
    CADRE_TRY(s->comm->stream_wait(s->axis, s->last));
    atomic_store(&s->open, 0);
    return CADRE_OK;
}

/* mean = decay * mean + (1 - decay) * value */
static cadre_status average(struct cadre_self *s)
{
    for (uint32_t i = 0; i < s->n_averages; i++) {
        const struct average *a = &s->average[i];
        struct cadre_buf value;
        CADRE_TRY(s->param->owned(s->host->ctx, a->id, &value));
        CADRE_TRY(
            s->ops->axpby(s->host->ctx, 1 - s->decay, &value, s->decay, &a->mean));
    }
    s->kept->updates++;
    return CADRE_OK;
}

static cadre_status on_sync(struct cadre_self *s, const struct cadre_sync *at)
{
    if (at->what == CADRE_SYNC_GRADS)
        return settle(s);
    if (at->what == CADRE_SYNC_METRICS) /* once a step, when values are final */
        return average(s);
    return at->what == CADRE_SYNC_DRAIN ? s->comm->stream_wait(s->axis, s->last)
                                        : CADRE_OK;
}

/* Nothing is posted any more. */
static void on_abort(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    PLANTED(37, while (atomic_load(&s->open)) sched_yield(), atomic_store(&s->open, 0));
}

/* ---- checkpoints ---- */

static cadre_status put(const struct average *a, const struct cadre_state_sink *sink)
{
    uint32_t combine = PLANTED_VALUE(35, CADRE_STATE_SUM, CADRE_STATE_SAME);
    return sink->tensor(sink->h, "average", a->id, combine, a->begin, &a->mean);
}

static cadre_status state(struct cadre_self *s, const struct cadre_state_sink *sink)
{
    struct kept kept = *s->kept;
    CADRE_TRY(
        sink->blob(sink->h, "kept", 1, CADRE_BLOB_REPLICATED, &kept, sizeof kept));
    if (PLANTED_VALUE(36, 0, kept.slot >= SLOTS))
        return cadre_refuse(s->host, CADRE_E_INVALID,
                            "the checkpoint's state 'kept' has the slot %u, expected "
                            "less than %u: it is damaged, use another checkpoint",
                            kept.slot, SLOTS);
    *s->kept = kept;
    for (uint32_t i = 0; i < s->n_averages; i++)
        PLANTED(40, (void)put(&s->average[i], sink),
                CADRE_TRY(put(&s->average[i], sink)));
    return CADRE_OK;
}

/* ---- descriptor ---- */

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "overlap", .def = "yes",
                 .help = "reduce gradients while backward runs"),
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "level", .def = "0", .max = 254,
                 .help = "level of reduction; lower ones reduce first"),
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "decay", .def = "0.9",
                 .max = PLANTED_VALUE(4, 0.5, 0.9999),
                 .help = "of the averages of parameters; 0: none are kept"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .step = step,
    .sync = on_sync,
    .on_grad = on_grad,
    .state = state,
    .abort = on_abort,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_DATA, .id = PLANTED_ID, .version = "0.1.0",
             .summary = "data-parallel replicas that average their parameters",
             .axis = "dp", CADRE_OPTIONS(options), .services = services, .ops = &ops)
