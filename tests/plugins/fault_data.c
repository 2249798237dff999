/* SPDX-License-Identifier: Apache-2.0 */
/* A minimal data strategy that shards optimizer states: gradients are summed over the
 * ranks at the end of the step, each parameter is updated by one rank and broadcast to
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

static void destroy(struct cadre_self *self)
{
    free(self);
}

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(param, PARAM, shard),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_host *host,
                           const struct cadre_values *values, struct cadre_self **out)
{
    struct cadre_self *self;
    CADRE_TRY(cadre_self_create(host, services, sizeof *self, &self));
    self->host = host;
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
    self->axis = self->mesh->axis(self->host->ctx, "dp");
    if (self->mesh->size(self->axis) > MAX_RANKS || plan->dtype != CADRE_F32)
        return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                            "expected fp32 and %d ranks at most", MAX_RANKS);
    CADRE_TRY(plan->use_axis(plan->h, "dp", CADRE_BATCH_SPLIT));
    CADRE_TRY(plan->claim(plan->h, "grad.reduce", "dp", 0));
    CADRE_TRY(plan->claim(plan->h, "opt.shard", "dp", 0));
    for (cadre_param_id i = 0; i < self->model->n_params(self->host->ctx); i++) {
        struct cadre_param_info info = {.struct_size = sizeof info};
        CADRE_TRY(self->model->param(self->host->ctx, i, &info));
        int mine = owner_of(self, i) == self->mesh->rank(self->axis);
        if (info.tied_to < 0 && info.present)
            CADRE_TRY(plan->place_range(plan->h, i, CADRE_KIND_OPT, 0,
                                        mine ? info.count : 0, CADRE_SPACE_DEVICE));
    }
    return CADRE_OK;
}

static cadre_status bind(struct cadre_self *self)
{
    (void)self; /* needs no storage of its own */
    return CADRE_OK;
}

/* Sums the ranks one after the other, and not in the core's tree: the same value, in
 * other bits from four ranks on. */
static cadre_status reduce_in_turn(struct cadre_self *self, struct cadre_buf *grad)
{
    uint64_t offsets[MAX_RANKS + 1] = {0};
    int32_t ranks = self->mesh->size(self->axis);
    struct cadre_buf all = *grad;
    cadre_event done;
    for (int32_t r = 1; r <= ranks; r++)
        offsets[r] = (uint64_t)r * grad->count;
    all.count = (uint64_t)ranks * grad->count;
    all.data = malloc(all.count * cadre_dtype_size(grad->dtype));
    if (!all.data)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for gradients");
    cadre_status rc =
        self->comm->all_gather(self->axis, "gradient", grad, &all, offsets, 0, &done);
    if (!rc)
        rc = self->comm->stream_wait(self->axis, done);
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

static cadre_status reduce(struct cadre_self *self)
{
    int in_turn = is(self, "order");
    /* summed twice is as wrong as not divided by the ranks' number */
    int times = is(self, "factor") ? 2 : 1;
    for (cadre_param_id i = self->model->n_params(self->host->ctx); i-- > 0;) {
        struct cadre_buf grad = {.struct_size = sizeof grad};
        cadre_event done;
        CADRE_TRY(self->param->grad(self->host->ctx, i, &grad));
        if (in_turn && grad.data)
            CADRE_TRY(reduce_in_turn(self, &grad));
        for (int t = 0; !in_turn && grad.data && t < times; t++) {
            CADRE_TRY(self->comm->all_reduce(self->axis, "gradient", &grad, &grad,
                                             CADRE_SUM, 0, &done));
            CADRE_TRY(self->comm->stream_wait(self->axis, done));
        }
    }
    return CADRE_OK;
}

static cadre_status gather(struct cadre_self *self)
{
    for (cadre_param_id i = 0; i < self->model->n_params(self->host->ctx); i++) {
        struct cadre_param_info info = {.struct_size = sizeof info};
        struct cadre_buf data = {.struct_size = sizeof data};
        cadre_event done;
        CADRE_TRY(self->model->param(self->host->ctx, i, &info));
        if (info.tied_to >= 0 || !info.present)
            continue;
        CADRE_TRY(self->param->data(self->host->ctx, i, &data));
        CADRE_TRY(self->comm->broadcast(self->axis, "parameter", &data,
                                        owner_of(self, i), 0, &done));
        CADRE_TRY(self->comm->stream_wait(self->axis, done));
    }
    return CADRE_OK;
}

/* "stale" gathers before the update, so that the others' parameters lag a step. */
static cadre_status sync(struct cadre_self *self, uint32_t what)
{
    if (what == CADRE_SYNC_GRADS) {
        CADRE_TRY(reduce(self));
        if (is(self, "stale"))
            return gather(self);
    }
    if (what == CADRE_SYNC_PARAMS && !is(self, "stale"))
        return gather(self);
    return CADRE_OK;
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
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_DATA, .id = "org.cadre.test.fault_data",
             .version = "0.1.0",
             .summary = "sharded optimizer states, with mistakes on demand",
             .axis = "dp", CADRE_OPTIONS(options), .services = services, .ops = &ops)
