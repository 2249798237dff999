/* SPDX-License-Identifier: Apache-2.0 */
/* gold_sch: a pipeline schedule.
 *
 * It is complete as it stands: each rank along the axis is a stage that runs a part of
 * the model, first forward for every micro-batch, then backward (GPipe). `FILL IN`
 * marks the places where yours becomes another schedule. docs/abi.md of Cadre says
 * which service may be called in which callback, <cadre/strategy.h> is the reference.
 */
#include <stdlib.h>

#include <cadre/helpers.h>

#define TAG "activations"

struct cadre_self {
    const struct cadre_host *host;
    /* services: cadre_self_create sets them by the table below */
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_mem_svc *mem;
    const struct cadre_stream_svc *stream;
    struct cadre_axis *axis; /* the stages */
    int32_t stage, stages;
    uint32_t dtype;
    struct cadre_buf in, out; /* boundary activations, or their gradients */
    cadre_event sent; /* `out` may be written after it */
};

/* Member, service, the last of its functions that is called. A host that lacks one
 * refuses the plugin before `create`. */
static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, boundary_count),
    CADRE_SERVICE(mem, MEM, free),
    CADRE_SERVICE(stream, STREAM, record),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *made, struct cadre_self **out)
{
    struct cadre_self *s;
    CADRE_TRY(cadre_self_create(made->host, services, sizeof *s, &s));
    s->host = made->host;
    *out = s;
    return CADRE_OK;
}

/* The first unit of a stage; that of stage `stages` is the number of units.
 * FILL IN: divide by cost, which unit_cost or unit_seconds of cadre.model tells. */
static uint32_t first_unit(const struct cadre_self *s, int32_t stage, uint32_t n_units)
{
    return (uint32_t)((uint64_t)n_units * (uint32_t)stage / (uint32_t)s->stages);
}

/* FILL IN: several chunks a rank (call p->chunk for each, in order), and for each how
 * many micro-batches are kept between forward and backward. */
static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    uint64_t bytes =
        s->model->boundary_count(s->host->ctx) * cadre_dtype_size(p->dtype);
    s->axis = s->mesh->axis(s->host->ctx, NULL); /* NULL: the plugin's own */
    s->stage = s->mesh->rank(s->axis);
    s->stages = s->mesh->size(s->axis);
    s->dtype = p->dtype;
    if ((uint32_t)s->stages > p->n_units)
        return cadre_refuse(s->host, CADRE_E_UNSUPPORTED,
                            "%d stages, but the model has %u units: use fewer ranks "
                            "along '%s'",
                            s->stages, p->n_units, p->axis);
    CADRE_TRY(p->use_axis(p->h, p->axis, CADRE_BATCH_SAME));
    CADRE_TRY(p->claim(p->h, "schedule.order", p->axis, 0));
    CADRE_TRY(p->chunk(p->h, first_unit(s, s->stage, p->n_units),
                       first_unit(s, s->stage + 1, p->n_units),
                       (uint32_t)p->rank_microbatches, 0));
    return p->memory(p->h, CADRE_SPACE_DEVICE, 2 * bytes, TAG);
}

static cadre_status take_memory(struct cadre_self *s, struct cadre_buf *out)
{
    uint64_t count = s->model->boundary_count(s->host->ctx);
    uint64_t bytes = count * cadre_dtype_size(s->dtype);
    void *data = s->mem->alloc(s->host->ctx, CADRE_SPACE_DEVICE, bytes, TAG);
    if (!data)
        return cadre_refuse(s->host, CADRE_E_RESOURCE, "no memory for an activation");
    *out = cadre_buf_of(data, count, s->dtype, CADRE_SPACE_DEVICE);
    return CADRE_OK;
}

static cadre_status on_bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)at;
    s->axis = s->mesh->axis(s->host->ctx, NULL);
    CADRE_TRY(take_memory(s, &s->in));
    return take_memory(s, &s->out);
}

/* ---- one step ---- */

/* `in` from another stage, once the compute stream has read what is in it. */
static cadre_status receive(struct cadre_self *s, int32_t from)
{
    struct cadre_post post = cadre_post("gold_sch in", CADRE_TRAFFIC_ACTIVATION, 0);
    CADRE_TRY(s->stream->record(s->host->ctx, &post.after));
    CADRE_TRY(s->comm->recv(s->axis, &s->in, from, &post));
    return s->comm->stream_wait(s->axis, post.done);
}

/* `out` to another stage, once the compute stream has written it. */
static cadre_status give(struct cadre_self *s, int32_t to)
{
    struct cadre_post post = cadre_post("gold_sch out", CADRE_TRAFFIC_ACTIVATION, 0);
    CADRE_TRY(s->stream->record(s->host->ctx, &post.after));
    CADRE_TRY(s->comm->send(s->axis, &s->out, to, &post));
    s->sent = post.done;
    return CADRE_OK;
}

/* `out` is free again: a send lasts until it has been received. */
static cadre_status wait_sent(struct cadre_self *s)
{
    cadre_event sent = s->sent;
    s->sent = 0;
    return sent ? s->comm->stream_wait(s->axis, sent) : CADRE_OK;
}

/* One micro-batch through this stage. Forward comes from the stage before and goes to
 * the next one, backward the other way. */
static cadre_status run(struct cadre_self *s, uint32_t microbatch, int backward)
{
    int32_t from = backward ? s->stage + 1 : s->stage - 1;
    int32_t to = backward ? s->stage - 1 : s->stage + 1;
    int has_from = from >= 0 && from < s->stages, has_to = to >= 0 && to < s->stages;
    struct cadre_pass_args args = {
        .struct_size = sizeof args,
        .microbatch = microbatch,
        .what = backward ? CADRE_PASS_BOTH : 0,
        .next_unit = -1, /* FILL IN: tells a strategy what to prefetch */
        .in = has_from ? &s->in : NULL,
        .out = has_to ? &s->out : NULL,
    };
    if (has_from)
        CADRE_TRY(receive(s, from));
    CADRE_TRY(wait_sent(s));
    CADRE_TRY(backward ? s->model->backward(s->host->ctx, &args)
                       : s->model->forward(s->host->ctx, &args));
    return has_to ? give(s, to) : CADRE_OK;
}

/* The schedule is innermost and never calls `next`. FILL IN: your order. Backward takes
 * the micro-batches of a chunk in ascending order. */
static cadre_status step(struct cadre_self *s, const struct cadre_step *at,
                         const struct cadre_next *next)
{
    (void)next;
    for (uint32_t m = 0; m < at->n_microbatches; m++)
        CADRE_TRY(run(s, m, 0));
    for (uint32_t m = 0; m < at->n_microbatches && !(at->flags & CADRE_STEP_FORWARD);
         m++)
        CADRE_TRY(run(s, m, 1));
    return CADRE_OK;
}

/* The last send may still run while data strategies finish their sums. */
static cadre_status on_sync(struct cadre_self *s, const struct cadre_sync *at)
{
    if (at->what == CADRE_SYNC_GRADS || at->what == CADRE_SYNC_DRAIN)
        return wait_sent(s);
    return CADRE_OK;
}

/* Memory of cadre.mem that is left is the host's to free. */
static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    free(s);
}

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = on_bind,
    .step = step,
    .sync = on_sync,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_SCHEDULE, .id = "org.example.gold_sch",
             .version = "0.1.0", .summary = "stages, all forward and then all backward",
             .axis = "pp", .services = services, .ops = &ops)
