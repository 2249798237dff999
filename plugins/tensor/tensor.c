/* SPDX-License-Identifier: Apache-2.0 */
/* tensor: every matrix product of the model is sharded over the ranks of its axis: the
 * first of two products by columns, the second by rows. Each rank then computes a
 * partial sum of every output, and one all-reduce completes it: twice per block in
 * forward, twice in backward. Attention is sharded by heads, embedding and logits by
 * vocabulary. The core shards the parameters and knows where sums are partial; this
 * plugin does the redistributions that complete them. Source: Shoeybi et al.,
 * Megatron-LM, 2019, section 3.
 *
 * With sequence_parallel a rank holds only its own rows of the activations between
 * attention and MLP. A reduce-scatter replaces the all-reduce, and an all-gather
 * precedes the next product: the same bytes together. The gradients of the norms then
 * sum over a rank's own rows only, so they are all-reduced too: once a step, after the
 * data ranks' sums, so that these follow the one tree of exact mode. Source:
 * Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models,
 * 2022. So are, always, those of norms of heads, of which a rank has its own. */
#include <stdlib.h>

#include <cadre/helpers.h>

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    int shard_rows; /* sequence_parallel */
    struct cadre_axis *axis;
    cadre_param_id *partial; /* gradients that sum over this rank's part only */
    uint32_t n_partial;
    int open; /* a step began and sync(GRADS) has not come */
};

/* By CADRE_POINT_*. Static because a communicator may name an operation after the
 * instance has gone. */
static const char *const labels[] = {
    "tensor embedding out", "tensor attention in", "tensor attention out",
    "tensor MLP in",        "tensor MLP out",      "tensor head in",
    "tensor maximum",       "tensor loss sum",
};
#define N_POINTS (sizeof labels / sizeof *labels)

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    free(self->partial);
    free(self);
}

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(param, PARAM, shard),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *in, struct cadre_self **out)
{
    const struct cadre_values *values = in->values;
    struct cadre_self *self;
    CADRE_TRY(cadre_self_create(in->host, services, sizeof *self, &self));
    self->host = in->host;
    self->shard_rows = values->i64(values->h, "sequence_parallel") != 0;
    *out = self;
    return CADRE_OK;
}

/* The core shards the parameters over the axis of act.complete. */
static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    CADRE_TRY(plan->use_axis(plan->h, plan->axis, CADRE_BATCH_SAME));
    CADRE_TRY(plan->claim(plan->h, "act.complete", plan->axis, 0));
    if (!self->shard_rows)
        return CADRE_OK;
    int32_t ranks = self->mesh->size(self->mesh->axis(self->host->ctx, NULL));
    uint64_t tokens = plan->batch * plan->time;
    if (tokens < (uint64_t)ranks)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "tensor.sequence_parallel cannot divide the %llu tokens of "
                            "a micro-batch (train.micro_batch x model.context or "
                            "data.window) over the %d ranks of tensor in "
                            "strategy.stack; use fewer ranks or sequence_parallel = no",
                            (unsigned long long)tokens, ranks);
    return plan->claim(plan->h, "seq.shard", plan->axis, 0);
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *in)
{
    struct cadre_ctx *ctx = self->host->ctx;
    (void)in;
    self->axis = self->mesh->axis(ctx, NULL);
    uint32_t n = self->model->n_params(ctx);
    self->partial = calloc(n + 1u, sizeof *self->partial);
    if (!self->partial)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %u entries",
                            n);
    for (uint32_t i = 0; i < n; i++) {
        struct cadre_param_info info;
        CADRE_TRY(cadre_param_get(self->host, self->model, i, &info));
        if (info.present && info.partial && !info.frozen)
            self->partial[self->n_partial++] = i;
    }
    return CADRE_OK;
}

/* The next op reads the result, so there is nothing to overlap with. */
static cadre_status on_redistribute(struct cadre_self *self,
                                    const struct cadre_redistribute_ev *ev)
{
    if (ev->point >= N_POINTS)
        return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                            "redistribution %u is not known to this version",
                            ev->point);
    uint32_t red = ev->point == CADRE_POINT_LOSS_MAX ? CADRE_MAX : CADRE_SUM;
    const struct cadre_comm_svc *comm = self->comm;
    struct cadre_post post = cadre_post(labels[ev->point], CADRE_TRAFFIC_ACTIVATION, 0);
    CADRE_TRY(
        ev->form == CADRE_REDISTRIBUTE_REDUCE_SCATTER
            ? comm->reduce_scatter(self->axis, ev->in, ev->out, ev->offsets, red, &post)
        : ev->form == CADRE_REDISTRIBUTE_ALL_GATHER
            ? comm->all_gather(self->axis, ev->in, ev->out, ev->offsets, &post)
            : comm->all_reduce(self->axis, ev->in, ev->out, red, &post));
    return comm->stream_wait(self->axis, post.done);
}

static cadre_status step(struct cadre_self *self, const struct cadre_step *step,
                         const struct cadre_next *next)
{
    self->open = !(step->flags & CADRE_STEP_FORWARD);
    return next->run(next->h, step);
}

/* After the data strategies: all-reduce each rank's shard of a gradient, or the whole
 * where it is not sharded, over the tensor ranks. All tensor ranks shard alike. */
static cadre_status sum_partial(struct cadre_self *self)
{
    struct cadre_ctx *ctx = self->host->ctx;
    cadre_event last = 0;
    for (uint32_t i = 0; i < self->n_partial; i++) {
        struct cadre_buf grad = {0};
        struct cadre_post post =
            cadre_post("tensor partial gradient", CADRE_TRAFFIC_GRAD, 0);
        CADRE_TRY(self->param->shard(ctx, self->partial[i], CADRE_KIND_GRAD, &grad));
        if (grad.count > 0 && !grad.data)
            CADRE_TRY(self->param->grad(ctx, self->partial[i], &grad));
        if (grad.count == 0)
            continue;
        CADRE_TRY(self->comm->all_reduce(self->axis, &grad, &grad, CADRE_SUM, &post));
        last = post.done;
    }
    return last ? self->comm->stream_wait(self->axis, last) : CADRE_OK;
}

/* The axis runs collectives in order: the last event stands for all. */
static cadre_status sync(struct cadre_self *self, const struct cadre_sync *in)
{
    if (in->what != CADRE_SYNC_GRADS || !self->open)
        return CADRE_OK;
    self->open = 0;
    return sum_partial(self);
}

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "sequence_parallel", .def = "no",
                 .help = "shard the rows of activations between attention and MLP"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .step = step,
    .sync = sync,
    .on_redistribute = on_redistribute,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_INTRA, .id = "org.cadre.tensor", .version = "0.2.0",
             .summary = "products sharded by columns and rows, attention by "
                        "heads, embedding and head by vocabulary",
             .axis = "tp", CADRE_OPTIONS(options), .services = services, .ops = &ops)
