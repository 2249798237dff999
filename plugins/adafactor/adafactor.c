/* SPDX-License-Identifier: Apache-2.0 */
/* adafactor: an optimizer whose second moment of a matrix is a value a row and one a
 * column. Both are means over the whole logical matrix, as the root mean square that
 * clips is of the whole update: the core assembles each parameter on one rank of those
 * that hold its ranges, so no boundary between ranks moves a sum.
 * Source: Shazeer & Stern, Adafactor: Adaptive learning rates with sublinear memory
 * cost, 2018. */
#include "plugins/adafactor/adafactor.h"

static const struct cadre_service services[] = {
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(mem, MEM, alloc),
    CADRE_SERVICE(ops, OPS, dot),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *c, struct cadre_self **out)
{
    const struct cadre_values *values = c->values;
    struct cadre_self *self;
    CADRE_TRY(cadre_self_create(c->host, services, sizeof *self, &self));
    self->host = c->host;
    self->ctx = c->host->ctx;
    self->decay = values->f64(values->h, "decay");
    self->clip = values->f64(values->h, "clip");
    self->eps = values->f64(values->h, "eps");
    *out = self;
    return CADRE_OK;
}

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    free(self->factored);
    free(self);
}

/* ---- plan ---- */

static uint64_t larger(uint64_t x, uint64_t y)
{
    return x > y ? x : y;
}

static cadre_status keep(const struct cadre_plan *plan, cadre_param_id id,
                         const char *key, uint32_t extent)
{
    struct cadre_opt_state state;
    memset(&state, 0, sizeof state);
    state.struct_size = sizeof state;
    state.param = id;
    state.key = key;
    state.dtype = plan->grad_dtype;
    state.extent = extent;
    state.block = 1;
    return plan->opt_state(plan->h, &state);
}

/* All is on the rank that computes the parameter. A vector is a matrix of one column,
 * whose rows have a value each. */
static cadre_status plan_param(struct cadre_self *self, const struct cadre_plan *plan,
                               cadre_param_id id, const struct cadre_param_info *info)
{
    const int matrix = info->ndim == 2;
    const uint64_t rows = info->shape[0], columns = matrix ? info->shape[1] : 1;
    self->factored[id] = (uint8_t)matrix;
    if (info->present) {
        self->n_scratch = larger(self->n_scratch, rows * columns);
        self->n_ones = larger(self->n_ones, larger(rows, columns));
        self->n_rows = larger(self->n_rows, matrix ? rows : 0);
        self->n_columns = larger(self->n_columns, matrix ? columns : 0);
    }
    if (matrix) {
        CADRE_TRY(keep(plan, id, "exp_avg_sq_row", CADRE_OPT_ROWS));
        CADRE_TRY(keep(plan, id, "exp_avg_sq_col", CADRE_OPT_COLUMNS));
    } else {
        CADRE_TRY(keep(plan, id, "exp_avg_sq", CADRE_OPT_ROWS));
    }
    return plan->opt_matrix(plan->h, id);
}

static cadre_status tell(const struct cadre_self *self, const struct cadre_plan *plan,
                         uint64_t count, const char *tag)
{
    if (count == 0)
        return CADRE_OK;
    return plan->memory(plan->h, CADRE_SPACE_DEVICE,
                        count * cadre_dtype_size(self->dtype), tag);
}

/* The states of every parameter, those of other ranks too: a checkpoint lists them
 * all. */
static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    self->dtype = plan->grad_dtype;
    self->n_params = self->model->n_params(self->ctx);
    self->n_scratch = self->n_rows = self->n_columns = self->n_ones = 0;
    if (!self->factored)
        self->factored = calloc(self->n_params + (size_t)1, 1);
    if (!self->factored)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %u parameters",
                            self->n_params);
    for (cadre_param_id id = 0; id < self->n_params; id++) {
        struct cadre_param_info info;
        CADRE_TRY(cadre_param_get(self->host, self->model, id, &info));
        if (info.tied_to < 0 && !info.frozen)
            CADRE_TRY(plan_param(self, plan, id, &info));
    }
    CADRE_TRY(tell(self, plan, self->n_scratch, "squares"));
    return tell(self, plan, self->n_rows + self->n_columns + self->n_ones, "means");
}

/* ---- life ---- */

static cadre_status take(const struct cadre_self *self, uint64_t count, const char *tag,
                         void **out)
{
    *out = NULL;
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

static cadre_status fill_ones(const struct cadre_self *self)
{
    const size_t element = cadre_dtype_size(self->dtype);
    char *host = calloc(self->n_ones + (size_t)1, element);
    if (!host)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %llu ones",
                            (unsigned long long)self->n_ones);
    for (uint64_t i = 0; i < self->n_ones; i++) {
        const double wide = 1;
        const float narrow = 1;
        memcpy(host + i * element,
               element == sizeof wide ? (const void *)&wide : &narrow, element);
    }
    cadre_status rc =
        self->ops->to_device(self->ctx, self->ones, host, self->n_ones * element);
    free(host);
    return rc;
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *bind)
{
    const size_t element = cadre_dtype_size(self->dtype);
    (void)bind;
    CADRE_TRY(take(self, self->n_scratch, "squares", &self->scratch));
    CADRE_TRY(
        take(self, self->n_rows + self->n_columns + self->n_ones, "means", &self->row));
    if (!self->row)
        return CADRE_OK;
    self->column = (char *)self->row + self->n_rows * element;
    self->ones = (char *)self->column + self->n_columns * element;
    return fill_ones(self);
}

static cadre_status sync(struct cadre_self *self, const struct cadre_sync *sync)
{
    (void)self;
    (void)sync;
    return CADRE_OK;
}

/* ---- the update ---- */

static cadre_status update(struct cadre_self *self, const struct cadre_update_ev *ev)
{
    if (ev->stage == CADRE_UPDATE_PREPARE)
        return CADRE_OK;
    if (ev->stage == CADRE_UPDATE_MATRIX)
        return self->factored[ev->param] ? adafactor_matrix(self, ev)
                                         : adafactor_vector(self, ev);
    return self->ops->axpby(self->ctx, -ev->lr, &ev->grad,
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
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "decay", .def = "0.8", .min = 0,
                 .max = 10,
                 .help = "the second moment decays by 1 - t^-decay in step t"),
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "clip", .def = "1", .min = 1e-6,
                 .max = 1e6, .help = "largest root mean square of an update"),
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "eps", .def = "1e-30", .min = 1e-37,
                 .max = 1, .help = "added to squares of gradients"),
};

CADRE_PLUGIN(.role = CADRE_ROLE_OPTIMIZER, .id = "org.cadre.adafactor",
             .version = "0.2.0",
             .summary = "Adafactor: second moments of rows and columns",
             CADRE_OPTIONS(options), .services = services, .ops = &ops)
