/* SPDX-License-Identifier: Apache-2.0 */
/* diloco: replicas of the run that meet seldom. Each replica along "rep" trains on its
 * own samples with the run's own (inner) optimizer and sends nothing. Every `period`
 * steps an outer optimizer, SGD with Nesterov momentum, takes one step on the replicas'
 * mean change, and all continue from there:
 *
 *     d = mean over replicas of x - anchor         anchor: of the last outer step
 *     u = outer_momentum * u + d
 *     x = anchor + outer_lr * (d + outer_momentum * u)       nesterov = no: ... * u
 *
 * With fragments the units take the outer step in turn (streaming.c). The inner states
 * stay each replica's own. A replica may be several ranks under
 * another data strategy, a pipeline or tensor parallelism: each rank works on the
 * values that it updates (its OPT ranges), as the optimizer keeps them.
 *
 * Between two outer steps an evaluation or a checkpoint sees the replicas' mean: DRAIN
 * shows it, and the next step restores each replica's own values.
 * Source: Douillard et al., DiLoCo, 2023, algorithm 1. */
#include "plugins/diloco/diloco.h"

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(param, PARAM, owned),
    CADRE_SERVICE(mem, MEM, free),
    CADRE_SERVICE(ops, OPS, axpby),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *c, struct cadre_self **out)
{
    const struct cadre_values *values = c->values;
    struct cadre_self *self;
    CADRE_TRY(cadre_self_create(c->host, services, sizeof *self, &self));
    self->host = c->host;
    self->ctx = c->host->ctx;
    self->period = (uint64_t)values->i64(values->h, "period");
    self->fragments = (uint64_t)values->i64(values->h, "fragments");
    self->overlap = (uint64_t)values->i64(values->h, "overlap");
    self->mixing = values->f64(values->h, "mixing");
    self->lr = values->f64(values->h, "outer_lr");
    self->momentum = values->f64(values->h, "outer_momentum");
    self->nesterov = values->i64(values->h, "nesterov") != 0;
    *out = self;
    return CADRE_OK;
}

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    free(self->weight);
    free(self->fragment_count);
    free(self);
}

/* ---- plan ---- */

/* What this rank updates; other ranks of the replica have the rest. */
static cadre_status list_weights(struct cadre_self *self)
{
    struct cadre_param_info info;
    uint32_t n = self->model->n_params(self->ctx);
    if (!self->weight)
        self->weight = calloc(n + 1u, sizeof *self->weight);
    if (!self->fragment_count)
        self->fragment_count = calloc(self->fragments, sizeof *self->fragment_count);
    if (!self->weight || !self->fragment_count)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %u entries",
                            n);
    self->n_weights = 0;
    self->count = 0;
    memset(self->fragment_count, 0, self->fragments * sizeof *self->fragment_count);
    for (cadre_param_id id = 0; cadre_param_next(self->host, self->model, &id, &info);
         id++) {
        uint64_t begin, count;
        if (!info.present || info.frozen)
            continue;
        CADRE_TRY(self->param->range(self->ctx, id, CADRE_KIND_OPT, &begin, &count));
        if (count == 0)
            continue;
        uint64_t *filled = &self->fragment_count[info.unit % self->fragments];
        self->weight[self->n_weights++] =
            (struct diloco_weight){.id = id,
                                   .fragment = info.unit % self->fragments,
                                   .begin = begin,
                                   .at = self->count,
                                   .in_fragment = *filled};
        self->count += count;
        *filled += count;
    }
    return CADRE_OK;
}

static int keeps_own(const struct cadre_self *self)
{
    /* else replicas differ within a step only */
    return self->period > 1 || diloco_sends_copies(self);
}

static cadre_status tell_memory(struct cadre_self *self, const struct cadre_plan *plan)
{
    uint64_t bytes = self->count * cadre_dtype_size(plan->grad_dtype);
    self->dtype = plan->grad_dtype;
    if (bytes == 0)
        return CADRE_OK;
    CADRE_TRY(plan->memory(plan->h, CADRE_SPACE_DEVICE, bytes, "anchor"));
    if (self->momentum != 0)
        CADRE_TRY(plan->memory(plan->h, CADRE_SPACE_DEVICE, bytes, "outer momentum"));
    if (keeps_own(self))
        CADRE_TRY(plan->memory(plan->h, CADRE_SPACE_DEVICE, bytes, "own values"));
    bytes = diloco_copy_count(self) * cadre_dtype_size(plan->grad_dtype);
    return bytes ? plan->memory(plan->h, CADRE_SPACE_DEVICE, bytes, "change")
                 : CADRE_OK;
}

static cadre_status check_fragments(const struct cadre_self *self, uint32_t n_units)
{
    if (self->fragments > n_units)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "diloco.fragments = %llu, but the model has %u units "
                            "(embedding, blocks, head); expected at most that many",
                            (unsigned long long)self->fragments, n_units);
    if (self->overlap <= self->period / self->fragments)
        return CADRE_OK;
    return cadre_refuse(
        self->host, CADRE_E_INVALID,
        "diloco.overlap = %llu steps, but a fragment is sent every %llu "
        "(diloco.period / diloco.fragments), and one is in flight at a "
        "time; expected an overlap of at most as many",
        (unsigned long long)self->overlap,
        (unsigned long long)(self->period / self->fragments));
}

#define EQUAL_AS_SGD                                                                   \
    "outer_lr=1, outer_momentum=0, optim.name=sgd, optim.momentum=0, optim.clip=0"

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    self->axis = self->mesh->axis(self->ctx, NULL);
    self->ranks = self->mesh->size(self->axis);
    CADRE_TRY(plan->use_axis(plan->h, plan->axis, CADRE_BATCH_SPLIT));
    if (self->ranks <= 1)
        return CADRE_OK;
    if (plan->exact)
        return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                            "run.exact = yes: diloco gives other results at each "
                            "number of replicas; set run.exact = no");
    CADRE_TRY(check_fragments(self, plan->n_units));
    CADRE_TRY(
        plan->claim(plan->h, "param.diverges", plan->axis, CADRE_CLAIM_KEEP_REPLICAS));
    CADRE_TRY(
        plan->by_design(plan->h, diloco_sends_copies(self)
                                     ? "period=1, overlap=0, mixing=0, " EQUAL_AS_SGD
                                     : "period=1, " EQUAL_AS_SGD));
    CADRE_TRY(plan->period(plan->h, self->period));
    CADRE_TRY(list_weights(self));
    return tell_memory(self, plan);
}

static cadre_status take(struct cadre_self *self, const char *tag, uint64_t count,
                         struct cadre_buf *out)
{
    uint64_t bytes = count * cadre_dtype_size(self->dtype);
    *out = cadre_buf_of(NULL, count, self->dtype, CADRE_SPACE_DEVICE);
    if (count == 0)
        return CADRE_OK;
    out->data = self->mem->alloc(self->ctx, CADRE_SPACE_DEVICE, bytes, tag);
    if (out->data)
        return CADRE_OK;
    return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %s, %llu bytes",
                        tag, (unsigned long long)bytes);
}

/* Operations work on device memory only. */
static cadre_status check_space(struct cadre_self *self, cadre_param_id id)
{
    struct cadre_buf x;
    CADRE_TRY(self->param->owned(self->ctx, id, &x));
    if (x.space == CADRE_SPACE_DEVICE)
        return CADRE_OK;
    return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                        "the values that the optimizer updates are in host memory, "
                        "expected on the device; set zero.offload = none, or "
                        "train.precision = fp32");
}

/* Ranges are final now; another plugin may have placed them after this one's plan. */
static cadre_status bind(struct cadre_self *self, const struct cadre_bind *at)
{
    (void)at;
    if (self->ranks <= 1)
        return CADRE_OK;
    CADRE_TRY(list_weights(self));
    for (uint32_t i = 0; i < self->n_weights; i++)
        CADRE_TRY(check_space(self, self->weight[i].id));
    CADRE_TRY(take(self, "anchor", self->count, &self->anchor));
    if (self->momentum != 0)
        CADRE_TRY(take(self, "outer momentum", self->count, &self->outer));
    if (keeps_own(self))
        CADRE_TRY(take(self, "own values", self->count, &self->own));
    return take(self, "change", diloco_copy_count(self), &self->change);
}

/* ---- values ---- */

/* flat = the values, or with `back` the values = flat. */
static cadre_status copy_all(struct cadre_self *self, const struct cadre_buf *flat,
                             int back)
{
    for (uint32_t i = 0; i < self->n_weights; i++) {
        struct cadre_buf x;
        CADRE_TRY(self->param->owned(self->ctx, self->weight[i].id, &x));
        struct cadre_buf part = diloco_part(flat, &self->weight[i], &x);
        CADRE_TRY(self->ops->copy(self->ctx, back ? x.data : part.data,
                                  back ? part.data : x.data, cadre_buf_bytes(&x)));
    }
    return CADRE_OK;
}

/* For an evaluation or a checkpoint. */
static cadre_status show_mean(struct cadre_self *self)
{
    if (!self->apart || self->shown || self->count == 0)
        return CADRE_OK;
    self->shown = 1;
    CADRE_TRY(copy_all(self, &self->own, 0));
    CADRE_TRY(diloco_post_sums(self, DILOCO_ALL, "diloco mean to show"));
    for (uint32_t i = 0; i < self->n_weights; i++) {
        struct cadre_buf x;
        CADRE_TRY(self->comm->stream_wait(self->axis, self->weight[i].done));
        CADRE_TRY(self->param->owned(self->ctx, self->weight[i].id, &x));
        CADRE_TRY(self->ops->scale(self->ctx, &x, 1.0 / self->ranks));
    }
    return CADRE_OK;
}

/* ---- a step ---- */

static cadre_status step(struct cadre_self *self, const struct cadre_step *at,
                         const struct cadre_next *next)
{
    if (self->ranks <= 1 || (at->flags & CADRE_STEP_FORWARD))
        return next->run(next->h, at);
    if (self->shown)
        CADRE_TRY(copy_all(self, &self->own, 1));
    else if (!self->anchored)
        CADRE_TRY(copy_all(self, &self->anchor, 0));
    self->shown = 0;
    self->anchored = self->apart = 1;
    return next->run(next->h, at);
}

static cadre_status sync(struct cadre_self *self, const struct cadre_sync *at)
{
    if (self->ranks <= 1)
        return CADRE_OK;
    if (at->what == CADRE_SYNC_UPDATE)
        return diloco_meet(self, at->step);
    if (at->what != CADRE_SYNC_DRAIN)
        return CADRE_OK;
    CADRE_TRY(diloco_arrive(self));
    return show_mean(self);
}

/* Anchor and momentum are the same on all replicas; their own values differ. */
static cadre_status state(struct cadre_self *self, const struct cadre_state_sink *sink)
{
    uint8_t flags[2] = {self->anchored, self->apart};
    if (self->ranks <= 1)
        return CADRE_OK;
    CADRE_TRY(
        sink->blob(sink->h, "flags", 1, CADRE_BLOB_REPLICATED, flags, sizeof flags));
    if (sink->saving && keeps_own(self) && !self->shown)
        CADRE_TRY(copy_all(self, &self->own, 0));
    for (uint32_t i = 0; i < self->n_weights; i++) {
        const struct diloco_weight *w = &self->weight[i];
        struct cadre_buf x;
        CADRE_TRY(self->param->owned(self->ctx, w->id, &x));
        struct cadre_buf anchor = diloco_part(&self->anchor, w, &x);
        CADRE_TRY(sink->tensor(sink->h, "anchor", w->id, CADRE_STATE_SAME, w->begin,
                               &anchor));
        if (self->momentum != 0) {
            struct cadre_buf outer = diloco_part(&self->outer, w, &x);
            CADRE_TRY(sink->tensor(sink->h, "outer", w->id, CADRE_STATE_SAME, w->begin,
                                   &outer));
        }
        if (keeps_own(self)) {
            struct cadre_buf own = diloco_part(&self->own, w, &x);
            CADRE_TRY(sink->tensor(sink->h, "own", w->id, CADRE_STATE_REPLICA, w->begin,
                                   &own));
        }
    }
    CADRE_TRY(diloco_pending_state(self, sink));
    if (sink->saving)
        return CADRE_OK;
    self->anchored = flags[0];
    self->apart = self->shown = flags[1] && keeps_own(self);
    return CADRE_OK;
}

/* ---- descriptor ---- */

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "period", .def = "100", .min = 1,
                 .max = 1e9, .help = "optimizer steps between two outer steps"),
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "fragments", .def = "1", .min = 1,
                 .max = 1e6,
                 .help = "parts of the model that take the outer step in turn"),
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "overlap", .def = "0", .max = 1e9,
                 .help = "steps between a fragment's sum being posted and applied"),
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "mixing", .def = "0", .max = 0.999,
                 .help = "weight of a replica's own values after an outer step"),
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "outer_lr", .def = "0.7", .max = 1000,
                 .help = "learning rate of the outer steps"),
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "outer_momentum", .def = "0.9",
                 .max = 1, .help = "momentum of the outer steps"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "nesterov", .def = "yes",
                 .help = "Nesterov momentum; no: heavy ball"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .step = step,
    .sync = sync,
    .state = state,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_DATA, .id = "org.cadre.diloco", .version = "0.2.0",
             .summary = "replicas that train by themselves and take an outer step "
                        "together every `period` steps",
             .axis = "rep", CADRE_OPTIONS(options), .services = services, .ops = &ops)
