/* SPDX-License-Identifier: Apache-2.0 */
/* muon: an optimizer. A hidden matrix moves along its momentum, orthogonalized: all
 * directions of the matrix move by the same amount. Embeddings, head, norms and biases
 * are AdamW's. The momentum is kept where the optimizer states lie; the core assembles
 * the whole matrix for the orthogonalization and distributes the result.
 * Sources: Jordan et al., Muon: an optimizer for hidden layers in neural networks,
 * 2024; Liu et al., Muon is scalable for LLM training, 2025 (match_rms_adamw). */
#include <math.h>

#include "plugins/muon/muon.h"

static const struct cadre_service services[] = {
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(mem, MEM, alloc),
    CADRE_SERVICE(ops, OPS, transpose),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *c, struct cadre_self **out)
{
    const struct cadre_values *values = c->values;
    struct cadre_self *self;
    CADRE_TRY(cadre_self_create(c->host, services, sizeof *self, &self));
    self->host = c->host;
    self->ctx = c->host->ctx;
    self->momentum = values->f64(values->h, "momentum");
    self->nesterov = values->i64(values->h, "nesterov") != 0;
    self->steps = (uint32_t)values->i64(values->h, "ns_steps");
    self->match_rms =
        strcmp(values->str(values->h, "adjust_lr"), "match_rms_adamw") == 0;
    self->adamw_lr = values->f64(values->h, "adamw_lr");
    self->beta1 = values->f64(values->h, "adamw_beta1");
    self->beta2 = values->f64(values->h, "adamw_beta2");
    self->eps = values->f64(values->h, "adamw_eps");
    *out = self;
    return CADRE_OK;
}

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    free(self->weight);
    free(self);
}

/* ---- plan ---- */

/* Matrices of the blocks: attention and MLP. */
static int is_hidden(const struct cadre_param_info *info, uint32_t n_units)
{
    return info->ndim == 2 && info->unit > 0 && info->unit + 1 < n_units;
}

/* As the update's size is chosen: by output and input features, whichever way the
 * matrix is stored. */
static double scale_of(const struct cadre_self *self, uint64_t out, uint64_t in)
{
    const double more = (double)(out > in ? out : in);
    if (self->match_rms)
        return 0.2 * sqrt(more);
    return sqrt(out > in ? (double)out / (double)in : 1);
}

static struct muon_weight describe(const struct cadre_self *self,
                                   const struct cadre_param_info *info)
{
    const int packed = info->split == CADRE_SHARD_QKV;
    const uint64_t thirds = packed ? 3 : 1;
    /* the dimension of the output features: of weights that no plugin could shard, 0 */
    const int out = info->split == CADRE_SHARD_ROW ? 1 - info->split_dim
                    : info->split_dim > 0          ? info->split_dim
                                                   : 0;
    struct muon_weight w = {
        .matrix = 1,
        .turned = packed && out == 1,
        .parts = (uint32_t)thirds,
        .rows = info->shape[0],
        .columns = info->shape[1],
        .scale = scale_of(self, info->shape[out] / thirds, info->shape[1 - out]),
    };
    if (w.turned) {
        w.rows = info->shape[1] / thirds;
        w.columns = info->shape[0];
    } else {
        w.rows /= thirds;
    }
    return w;
}

static uint64_t larger(uint64_t x, uint64_t y)
{
    return x > y ? x : y;
}

/* Scratch for a matrix that this rank may orthogonalize. */
static void need(struct cadre_self *self, const struct muon_weight *w)
{
    const uint64_t count = w->rows * w->columns;
    const uint64_t side = w->rows < w->columns ? w->rows : w->columns;
    if (w->turned)
        self->n_turned = larger(self->n_turned, w->parts * count);
    self->n_other = larger(self->n_other, count);
    self->n_square = larger(self->n_square, side * side);
}

static cadre_status keep(const struct cadre_plan *plan, cadre_param_id id,
                         const char *key)
{
    struct cadre_opt_state state;
    memset(&state, 0, sizeof state);
    state.struct_size = sizeof state;
    state.param = id;
    state.key = key;
    state.dtype = plan->grad_dtype;
    state.extent = CADRE_OPT_ELEMENTS;
    state.block = 1;
    return plan->opt_state(plan->h, &state);
}

/* The states of every parameter, those of other ranks too: a checkpoint lists them
 * all. */
static cadre_status plan_weights(struct cadre_self *self, const struct cadre_plan *plan)
{
    for (cadre_param_id id = 0; id < self->n_params; id++) {
        struct cadre_param_info info;
        CADRE_TRY(cadre_param_get(self->host, self->model, id, &info));
        self->weight[id] = (struct muon_weight){0};
        if (info.tied_to >= 0 || info.frozen)
            continue;
        if (!is_hidden(&info, plan->n_units)) {
            CADRE_TRY(keep(plan, id, "exp_avg"));
            CADRE_TRY(keep(plan, id, "exp_avg_sq"));
            continue;
        }
        self->weight[id] = describe(self, &info);
        CADRE_TRY(keep(plan, id, "momentum"));
        CADRE_TRY(plan->opt_matrix(plan->h, id));
        if (info.present)
            need(self, &self->weight[id]);
    }
    return CADRE_OK;
}

static cadre_status tell(const struct cadre_self *self, const struct cadre_plan *plan,
                         uint64_t count, const char *tag)
{
    if (count == 0)
        return CADRE_OK;
    return plan->memory(plan->h, CADRE_SPACE_DEVICE,
                        count * cadre_dtype_size(self->dtype), tag);
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    self->dtype = plan->grad_dtype;
    self->n_params = self->model->n_params(self->ctx);
    self->n_turned = self->n_other = self->n_square = 0;
    if (!self->weight)
        self->weight = calloc(self->n_params + (size_t)1, sizeof *self->weight);
    if (!self->weight)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %u parameters",
                            self->n_params);
    CADRE_TRY(plan_weights(self, plan));
    CADRE_TRY(tell(self, plan, self->n_turned, "transposed"));
    CADRE_TRY(tell(self, plan, self->n_other, "iterate"));
    return tell(self, plan, 2 * self->n_square, "products");
}

/* ---- life ---- */

static cadre_status take(const struct cadre_self *self, uint64_t count, const char *tag,
                         void **out)
{
    if (count == 0)
        return CADRE_OK;
    *out = self->mem->alloc(self->ctx, CADRE_SPACE_DEVICE,
                            count * cadre_dtype_size(self->dtype), tag);
    if (*out)
        return CADRE_OK;
    return cadre_refuse(self->host, CADRE_E_RESOURCE,
                        "no device memory for %llu elements of scratch",
                        (unsigned long long)count);
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *bind)
{
    (void)bind;
    CADRE_TRY(take(self, self->n_turned, "transposed", &self->turned));
    CADRE_TRY(take(self, self->n_other, "iterate", &self->other));
    CADRE_TRY(take(self, 2 * self->n_square, "products", &self->square[0]));
    if (self->square[0])
        self->square[1] =
            (char *)self->square[0] + self->n_square * cadre_dtype_size(self->dtype);
    return CADRE_OK;
}

static cadre_status sync(struct cadre_self *self, const struct cadre_sync *sync)
{
    (void)self;
    (void)sync;
    return CADRE_OK;
}

/* ---- the update ---- */

/* grad = what is orthogonalized */
static cadre_status prepare(const struct cadre_self *self,
                            const struct cadre_update_ev *ev)
{
    const struct cadre_buf *momentum = &ev->state[0];
    CADRE_TRY(self->ops->axpby(self->ctx, 1, &ev->grad, self->momentum, momentum));
    if (self->nesterov)
        return self->ops->axpby(self->ctx, self->momentum, momentum, 1, &ev->grad);
    return self->ops->copy(self->ctx, ev->grad.data, momentum->data,
                           cadre_buf_bytes(&ev->grad));
}

static cadre_status orthogonalize(struct cadre_self *self, const struct muon_weight *w,
                                  const struct cadre_update_ev *ev)
{
    struct cadre_buf turned = ev->grad;
    if (!w->turned)
        return muon_orthogonalize(self, w, ev->grad.data);
    turned.data = self->turned;
    CADRE_TRY(
        self->ops->transpose(self->ctx, &turned, &ev->grad, ev->rows, ev->columns));
    CADRE_TRY(muon_orthogonalize(self, w, turned.data));
    return self->ops->transpose(self->ctx, &ev->grad, &turned, ev->columns, ev->rows);
}

static cadre_status update(struct cadre_self *self, const struct cadre_update_ev *ev)
{
    const struct muon_weight *w = &self->weight[ev->param];
    if (!w->matrix)
        return ev->stage == CADRE_UPDATE_APPLY ? muon_adamw(self, ev) : CADRE_OK;
    if (ev->stage == CADRE_UPDATE_PREPARE)
        return prepare(self, ev);
    if (ev->stage == CADRE_UPDATE_MATRIX)
        return orthogonalize(self, w, ev);
    return self->ops->axpby(self->ctx, -ev->lr * w->scale, &ev->grad,
                            1 - ev->lr * ev->weight_decay, &ev->value);
}

/* ---- the descriptor ---- */

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .sync = sync,
    .destroy = destroy,
    .update = update,
};

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "momentum", .def = "0.95", .min = 0,
                 .max = 1, .help = "momentum of the hidden matrices"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "nesterov", .def = "yes",
                 .help = "orthogonalize the gradient plus the momentum"),
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "ns_steps", .def = "5", .min = 1,
                 .max = 100, .help = "Newton-Schulz steps"),
    CADRE_OPTION(.type = CADRE_OPTION_ENUM, .key = "adjust_lr",
                 .def = "match_rms_adamw", .choices = "original, match_rms_adamw",
                 .help =
                     "size of an update: sqrt(max(1, out/in)), or 0.2 sqrt(max(out, "
                     "in))"),
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "adamw_lr", .def = "1", .min = 0,
                 .max = 1e6,
                 .help = "learning rate of all but hidden matrices, times optim.lr"),
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "adamw_beta1", .def = "0.9", .min = 0,
                 .max = 0.999999, .help = "decay of their first moment"),
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "adamw_beta2", .def = "0.95",
                 .min = 0, .max = 0.999999, .help = "decay of their second moment"),
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "adamw_eps", .def = "1e-8", .min = 0,
                 .max = 1, .help = "epsilon of their AdamW"),
};

CADRE_PLUGIN(.role = CADRE_ROLE_OPTIMIZER, .id = "org.cadre.muon", .version = "0.2.0",
             .summary = "Muon for hidden matrices, AdamW for the rest",
             CADRE_OPTIONS(options), .services = services, .ops = &ops)
