/* SPDX-License-Identifier: Apache-2.0 */
/* A pipeline: the units in one chunk for each rank, micro-batches in the order 1F1B. A
 * stage has one buffer for each of the four things that it exchanges with its
 * neighbours. Source: Narayanan et al., PipeDream, SOSP 2019. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include <cadre/helpers.h>

#include "tests/check/planted/planted.h"

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_mem_svc *mem;
    struct cadre_axis *axis;
    int32_t stage, stages;
    uint32_t plans;
    uint32_t dtype;
    uint64_t count; /* elements of a boundary activation */
    /* activations from the stage before and to the one after, gradients from the one
     * after and to the one before; .data NULL where there is no such stage */
    struct cadre_buf act_in, act_out, grad_in, grad_out;
    cadre_event act_sent, grad_sent;
};

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, boundary_count),
    CADRE_SERVICE(mem, MEM, alloc),
    {NULL, 0, 0},
};

/* ---- life ---- */

static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
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

/* Forward passes before the first backward pass of a stage. */
static uint32_t warm_up(const struct cadre_self *s, uint64_t microbatches)
{
    uint64_t after = (uint64_t)(s->stages - s->stage - 1);
    return (uint32_t)(after < microbatches ? after : microbatches);
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    s->axis = s->mesh->axis(s->host->ctx, p->axis);
    s->stage = s->mesh->rank(s->axis);
    s->stages = s->mesh->size(s->axis);
    s->dtype = p->dtype;
    s->count = s->model->boundary_count(s->host->ctx);
    uint32_t at = (uint32_t)s->stage, n = (uint32_t)s->stages;
    uint32_t warm = warm_up(s, p->rank_microbatches);
    uint32_t live = warm < p->rank_microbatches ? warm + 1 : warm;
    if (p->n_units < n)
        return cadre_refuse(s->host, CADRE_E_UNSUPPORTED,
                            "strategy.stack has %u stages, but the model has %u units; "
                            "use fewer stages or more layers",
                            n, p->n_units);
    CADRE_TRY(p->use_axis(p->h, p->axis, CADRE_BATCH_SAME));
    CADRE_TRY(p->claim(p->h, "schedule.order", p->axis, 0));
    CADRE_TRY(p->chunk(p->h, p->n_units * at / n, p->n_units * (at + 1) / n,
                       PLANTED_VALUE(9, live + s->plans++, live), 0));
    uint64_t buffers = 2u * (at > 0) + 2u * (at + 1 < n);
    if (buffers == 0)
        return CADRE_OK;
    return p->memory(p->h, CADRE_SPACE_DEVICE,
                     buffers * s->count * cadre_dtype_size(p->dtype), "boundaries");
}

static cadre_status take(struct cadre_self *s, struct cadre_buf *buf)
{
    *buf = cadre_buf_of(NULL, s->count, s->dtype, CADRE_SPACE_DEVICE);
    buf->data = s->mem->alloc(s->host->ctx, CADRE_SPACE_DEVICE, cadre_buf_bytes(buf),
                              "boundaries");
    if (buf->data)
        return CADRE_OK;
    return cadre_refuse(s->host, CADRE_E_RESOURCE, "no memory for %llu bytes",
                        (unsigned long long)cadre_buf_bytes(buf));
}

static cadre_status bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)at;
    if (s->stage > 0) {
        CADRE_TRY(take(s, &s->act_in));
        CADRE_TRY(take(s, &s->grad_out));
    }
    if (s->stage + 1 < s->stages) {
        CADRE_TRY(take(s, &s->act_out));
        CADRE_TRY(take(s, &s->grad_in));
    }
    return CADRE_OK;
}

/* ---- one pass ---- */

static cadre_status receive(struct cadre_self *s, const struct cadre_buf *buf,
                            int32_t from)
{
    struct cadre_post post =
        cadre_post("planted boundary", CADRE_TRAFFIC_ACTIVATION, 0);
    PLANTED(38, while (s->comm->recv(s->axis, buf, from, &post)) NOTHING,
            CADRE_TRY(s->comm->recv(s->axis, buf, from, &post)));
    return s->comm->stream_wait(s->axis, post.done);
}

static cadre_status give(struct cadre_self *s, const struct cadre_buf *buf, int32_t to,
                         cadre_event *sent)
{
    struct cadre_post post =
        cadre_post("planted boundary", CADRE_TRAFFIC_ACTIVATION, 0);
    CADRE_TRY(s->comm->send(s->axis, buf, to, &post));
    *sent = post.done;
    return CADRE_OK;
}

/* A buffer is written when what it held has been received. */
static cadre_status forward(struct cadre_self *s, uint32_t microbatch)
{
    struct cadre_pass_args args = {
        .struct_size = sizeof args, .microbatch = microbatch, .next_unit = -1};
    if (s->act_in.data) {
        CADRE_TRY(receive(s, &s->act_in, s->stage - 1));
        args.in = &s->act_in;
    }
    if (s->act_out.data) {
        PLANTED(20, NOTHING, CADRE_TRY(s->comm->stream_wait(s->axis, s->act_sent)));
        args.out = &s->act_out;
    }
    CADRE_TRY(s->model->forward(s->host->ctx, &args));
    return args.out ? give(s, &s->act_out, s->stage + 1, &s->act_sent) : CADRE_OK;
}

static cadre_status backward(struct cadre_self *s, uint32_t microbatch)
{
    struct cadre_pass_args args = {.struct_size = sizeof args,
                                   .microbatch = microbatch,
                                   .what = CADRE_PASS_BOTH,
                                   .next_unit = -1};
    if (s->grad_in.data) {
        CADRE_TRY(receive(s, &s->grad_in, s->stage + 1));
        args.in = &s->grad_in;
    }
    if (s->grad_out.data) {
        CADRE_TRY(s->comm->stream_wait(s->axis, s->grad_sent));
        args.out = &s->grad_out;
    }
    CADRE_TRY(s->model->backward(s->host->ctx, &args));
    return args.out ? give(s, &s->grad_out, s->stage - 1, &s->grad_sent) : CADRE_OK;
}

/* ---- a step ---- */

/* The supervisor stops a run between two steps only. */
static void block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static cadre_status step(struct cadre_self *s, const struct cadre_step *at,
                         const struct cadre_next *next)
{
    (void)next; /* a schedule is innermost */
    uint32_t n = PLANTED_VALUE(14, at->n_microbatches - 1, at->n_microbatches);
    uint32_t warm = (at->flags & CADRE_STEP_FORWARD) ? n : warm_up(s, n);
    PLANTED(12, block_signals(), NOTHING);
    for (uint32_t m = 0; m < warm; m++)
        CADRE_TRY(forward(s, m));
    if (at->flags & CADRE_STEP_FORWARD)
        return CADRE_OK;
    for (uint32_t m = warm; m < n; m++) {
        CADRE_TRY(forward(s, m));
        CADRE_TRY(backward(s, m - warm));
    }
    for (uint32_t m = n - warm; m < n; m++)
        CADRE_TRY(backward(s, m));
    return CADRE_OK;
}

/* The last sends may still run. */
static cadre_status on_sync(struct cadre_self *s, const struct cadre_sync *at)
{
    if (at->what != CADRE_SYNC_GRADS && at->what != CADRE_SYNC_DRAIN)
        return CADRE_OK;
    CADRE_TRY(s->comm->stream_wait(s->axis, s->act_sent));
    return s->comm->stream_wait(s->axis, s->grad_sent);
}

/* ---- descriptor ---- */

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .step = step,
    .sync = on_sync,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_SCHEDULE, .id = PLANTED_ID, .version = "0.1.0",
             .summary = "layers in stages, micro-batches in the order 1F1B",
             .axis = "pp", .services = services, .ops = &ops)
