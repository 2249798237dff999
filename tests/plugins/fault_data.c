/* SPDX-License-Identifier: Apache-2.0 */
/* A minimal data strategy that shards optimizer states: gradients are summed over the
 * ranks as they come, each parameter is updated by one rank and broadcast to
 * the others. Correct with fault = none; each other fault is a mistake that strategies
 * have been shipped with, and that only the certificate detects. */
#include <stdlib.h>
#include <string.h>

#include <cadre/helpers.h>

#define MAX_RANKS 8

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    const char *fault;
    struct cadre_axis *axis;
};

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    free(self);
}

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(param, PARAM, reduced),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *in, struct cadre_self **out)
{
    const struct cadre_values *values = in->values;
    struct cadre_self *self;
    CADRE_TRY(cadre_self_create(in->host, services, sizeof *self, &self));
    self->host = in->host;
    self->fault = values->str(values->h, "fault");
    *out = self;
    return CADRE_OK;
}

static int is(const struct cadre_self *self, const char *fault)
{
    return strcmp(self->fault, fault) == 0;
}

/* The rank that updates a parameter. */
static int32_t owner_of(const struct cadre_self *self, cadre_param_id id)
{
    return (int32_t)id % self->mesh->size(self->axis);
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    self->axis = self->mesh->axis(self->host->ctx, NULL);
    if (self->mesh->size(self->axis) > MAX_RANKS || plan->dtype != CADRE_F32)
        return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                            "expected fp32 and %d ranks at most", MAX_RANKS);
    CADRE_TRY(plan->use_axis(plan->h, plan->axis, CADRE_BATCH_SPLIT));
    CADRE_TRY(plan->reduces(plan->h, plan->axis, CADRE_REDUCE_INNER));
    CADRE_TRY(plan->claim(plan->h, "opt.shard", plan->axis, 0));
    for (cadre_param_id i = 0; i < self->model->n_params(self->host->ctx); i++) {
        struct cadre_param_info info;
        CADRE_TRY(cadre_param_get(self->host, self->model, i, &info));
        int mine = owner_of(self, i) == self->mesh->rank(self->axis);
        if (info.tied_to < 0 && info.present && !info.frozen)
            CADRE_TRY(plan->place_range(plan->h, i, CADRE_KIND_OPT, 0,
                                        mine ? info.count : 0, CADRE_SPACE_DEVICE));
    }
    return CADRE_OK;
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *in)
{
    (void)self, (void)in; /* needs no storage of its own */
    return CADRE_OK;
}

/* Sums the ranks one after the other, and not in the core's tree: the same value, in
 * other bits from four ranks on. */
static cadre_status reduce_in_turn(struct cadre_self *self, struct cadre_buf *grad)
{
    uint64_t offsets[MAX_RANKS + 1] = {0};
    int32_t ranks = self->mesh->size(self->axis);
    struct cadre_post post = cadre_post("gradient", CADRE_TRAFFIC_GRAD, 0);
    struct cadre_buf all = *grad;
    for (int32_t r = 1; r <= ranks; r++)
        offsets[r] = (uint64_t)r * grad->count;
    all.count = (uint64_t)ranks * grad->count;
    all.data = malloc(cadre_buf_bytes(&all));
    if (!all.data)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for gradients");
    cadre_status rc = self->comm->all_gather(self->axis, grad, &all, offsets, &post);
    if (!rc)
        rc = self->comm->stream_wait(self->axis, post.done);
    float *sum = grad->data;
    const float *parts = all.data;
    for (uint64_t i = 0; !rc && i < grad->count; i++) {
        sum[i] = parts[i];
        for (int32_t r = 1; r < ranks; r++)
            sum[i] += parts[offsets[r] + i];
    }
    free(all.data);
    return rc;
}

static cadre_status on_grad(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    int in_turn = is(self, "order");
    /* summed twice is as wrong as not divided by the ranks' number */
    int times = in_turn ? 0 : is(self, "factor") ? 2 : 1;
    if (!(ev->flags & CADRE_GRAD_FINAL))
        return CADRE_OK;
    if (in_turn)
        CADRE_TRY(reduce_in_turn(self, ev->grad));
    for (int t = 0; t < times; t++) {
        struct cadre_post post = cadre_post("gradient", CADRE_TRAFFIC_GRAD, ev->ready);
        CADRE_TRY(
            self->comm->all_reduce(self->axis, ev->grad, ev->grad, CADRE_SUM, &post));
        CADRE_TRY(self->comm->stream_wait(self->axis, post.done));
        ev->ready = post.done;
    }
    return self->param->reduced(self->host->ctx, ev->param, ev->grad, ev->ready);
}

static cadre_status gather(struct cadre_self *self)
{
    for (cadre_param_id i = 0; i < self->model->n_params(self->host->ctx); i++) {
        struct cadre_post post = cadre_post("parameter", CADRE_TRAFFIC_PARAM, 0);
        struct cadre_param_info info;
        struct cadre_buf data;
        CADRE_TRY(cadre_param_get(self->host, self->model, i, &info));
        if (info.tied_to >= 0 || !info.present || info.frozen)
            continue;
        CADRE_TRY(self->param->data(self->host->ctx, i, &data));
        CADRE_TRY(self->comm->broadcast(self->axis, &data, owner_of(self, i), &post));
        CADRE_TRY(self->comm->stream_wait(self->axis, post.done));
    }
    return CADRE_OK;
}

/* "stale" gathers before the update, so that the others' parameters lag a step. */
static cadre_status sync(struct cadre_self *self, const struct cadre_sync *in)
{
    uint32_t when = is(self, "stale") ? CADRE_SYNC_GRADS : CADRE_SYNC_PARAMS;
    return in->what == when ? gather(self) : CADRE_OK;
}

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_ENUM, .key = "fault", .def = "none",
                 .choices = "none, factor, order, stale", .help = "mistake to make"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .sync = sync,
    .on_grad = on_grad,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_DATA, .id = "org.cadre.test.fault_data",
             .version = "0.1.0",
             .summary = "sharded optimizer states, with mistakes on demand",
             .axis = "dp", CADRE_OPTIONS(options), .services = services, .ops = &ops)
