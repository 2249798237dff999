/* SPDX-License-Identifier: Apache-2.0 */
/* cadre.model/1 */
#include <string.h>

#include "core/base/status_slot.h"
#include "core/engine/strategy/host_private.h"
#include "core/tensor/dtype.h"

#define AT_ANY (CADRE_AT_PLAN | CADRE_AT_BIND | CADRE_AT_RUN)

static uint32_t n_params(struct cadre_ctx *ctx)
{
    return cadre_guard(ctx, AT_ANY, "n_params of cadre.model") == CADRE_OK
               ? ctx->services->model->n_params
               : 0;
}

/* Another stage owns the values and an entry tied to them is here. Not cached: plugins
 * ask before the plan is complete. */
static bool is_copied(const struct cadre_services *s, cadre_param_id id)
{
    const struct cadre_param *all = s->model->params;
    if (!s->plan->param || cadre_rank_plan_runs(s->plan, all[id].unit))
        return false;
    for (uint32_t i = 0; i < s->model->n_params; i++)
        if (all[i].tied_to == (int32_t)id && cadre_rank_plan_runs(s->plan, all[i].unit))
            return true;
    return false;
}

/* A plugin may freeze all that is not frozen yet: it must not see its own of the pass
 * before, or it would freeze them in every other pass only. */
static bool is_frozen(const struct cadre_ctx *ctx, cadre_param_id id)
{
    const struct cadre_rank_plan *plan = ctx->services->plan;
    return ctx->in == CADRE_IN_PLAN ? cadre_rank_plan_is_frozen_to(plan, id, ctx->name)
                                    : plan->param[id].frozen;
}

static void describe(const struct cadre_ctx *ctx, cadre_param_id id,
                     struct cadre_param_info *info)
{
    const struct cadre_services *s = ctx->services;
    const struct cadre_model *model = s->model;
    const struct cadre_param *p = &model->params[id];
    const struct cadre_plan_param *plan = s->plan->param ? &s->plan->param[id] : NULL;
    *info = (struct cadre_param_info){
        .ndim = p->shape.ndim,
        .name = p->name,
        .count = cadre_shape_count(&p->local),
        .dtype = model->config.dtype,
        .grad_dtype = cadre_dtype_wide(model->config.dtype),
        .unit = p->unit,
        .tied_to = p->tied_to,
        .split = (uint32_t)p->split,
        .split_dim = p->split_dim,
        .present = s->plan->param && cadre_rank_plan_holds(s->plan, id),
        .partial = cadre_model_is_partial(model, id),
        .copied = is_copied(s, id),
        .frozen = plan && is_frozen(ctx, id),
        .form = plan ? plan->form : CADRE_FORM_PLAIN,
        .form_elements = 1,
        .form_bytes = (uint32_t)cadre_dtype_bytes(model->config.dtype),
        .expert = p->expert,
        .adapts = p->adapts,
    };
    if (plan)
        cadre_rank_plan_block(s->plan, id, &info->form_elements, &info->form_bytes);
    for (uint32_t d = 0; d < p->shape.ndim; d++) {
        info->shape[d] = p->shape.dim[d];
        info->local[d] = p->local.dim[d];
    }
}

static cadre_status param_info(struct cadre_ctx *ctx, cadre_param_id id,
                               struct cadre_param_info *out)
{
    static const char function[] = "param of cadre.model";
    struct cadre_param_info info;
    CADRE_TRY(cadre_guard(ctx, AT_ANY, function));
    const struct cadre_services *s = ctx->services;
    if (!out || out->struct_size < offsetof(struct cadre_param_info, name))
        return cadre_guard_refuse(ctx, CADRE_E_INVALID, function, "%s",
                                  out ? "struct_size of info is not set"
                                      : "info is NULL");
    if (id >= s->model->n_params)
        return cadre_guard_refuse(ctx, CADRE_E_INVALID, function,
                                  "there is no entry %u, expected less than %u", id,
                                  s->model->n_params);
    describe(ctx, id, &info);
    info.struct_size = out->struct_size;
    memcpy(out, &info, out->struct_size < sizeof info ? out->struct_size : sizeof info);
    return CADRE_OK;
}

static double unit_cost(struct cadre_ctx *ctx, uint32_t unit)
{
    if (cadre_guard(ctx, CADRE_AT_PLAN, "unit_cost of cadre.model") != CADRE_OK)
        return 0;
    const struct cadre_services *s = ctx->services;
    const struct cadre_model_config *c = &s->model->config;
    double rows = (double)s->spec->micro_batch * (double)s->spec->time /
                  (double)s->model->time_ranks;
    double weights = 0;
    for (uint32_t i = 0; i < s->model->n_params; i++)
        if (s->model->params[i].unit == unit && s->model->params[i].local.ndim > 1 &&
            s->model->params[i].expert <= 0) /* a row takes one expert */
            weights += (double)cadre_shape_count(&s->model->params[i].local);
    if (unit == 0)
        return rows * (double)c->channels; /* a copy of rows, no product */
    bool block = unit + 1 < s->model->n_units;
    double attention =
        block ? (double)(c->heads * s->model->head_size) * (double)s->spec->time : 0;
    return rows * (weights + attention);
}

static double unit_seconds(struct cadre_ctx *ctx, uint32_t unit)
{
    if (cadre_guard(ctx, CADRE_AT_PLAN, "unit_seconds of cadre.model") != CADRE_OK)
        return 0;
    struct cadre_services *s = ctx->services;
    s->asked_seconds = true;
    if (!s->spec->unit_seconds || unit >= s->model->n_units)
        return 0;
    return s->spec->unit_seconds[unit];
}

/* Passes belong to the step of the schedule. */
static cadre_status check_pass(struct cadre_ctx *ctx, const char *function,
                               const struct cadre_pass_args *args)
{
    CADRE_TRY(cadre_guard(ctx, CADRE_AT(CADRE_IN_STEP), function));
    if (ctx->plugin->desc.role != CADRE_ROLE_SCHEDULE)
        return cadre_guard_refuse(
            ctx, CADRE_E_INVALID, function,
            "only a plugin of the role SCHEDULE runs passes; call "
            "next->run");
    if (!args)
        return cadre_guard_refuse(ctx, CADRE_E_INVALID, function, "args is NULL");
    if (args->in)
        CADRE_TRY(cadre_guard_buf(ctx, function, "in", args->in));
    return args->out ? cadre_guard_buf(ctx, function, "out", args->out) : CADRE_OK;
}

static cadre_status model_forward(struct cadre_ctx *ctx,
                                  const struct cadre_pass_args *args)
{
    static const char function[] = "forward of cadre.model";
    CADRE_TRY(check_pass(ctx, function, args));
    struct cadre_services *s = ctx->services;
    uint64_t seen = cadre_status_core(s->slot);
    cadre_status rc = s->passes.forward(s->passes.h, args, s->failure);
    cadre_status_leave(s->slot, seen);
    return cadre_guard_result(ctx, function, rc);
}

static cadre_status model_backward(struct cadre_ctx *ctx,
                                   const struct cadre_pass_args *args)
{
    static const char function[] = "backward of cadre.model";
    CADRE_TRY(check_pass(ctx, function, args));
    struct cadre_services *s = ctx->services;
    uint64_t seen = cadre_status_core(s->slot);
    cadre_status rc = s->passes.backward(s->passes.h, args, s->failure);
    cadre_status_leave(s->slot, seen);
    return cadre_guard_result(ctx, function, rc);
}

static uint64_t boundary_count(struct cadre_ctx *ctx)
{
    if (cadre_guard(ctx, AT_ANY, "boundary_count of cadre.model") != CADRE_OK)
        return 0;
    const struct cadre_run_spec *spec = ctx->services->spec;
    const struct cadre_model *model = ctx->services->model;
    return cadre_model_activation_count(model, spec->micro_batch * spec->time /
                                                   model->time_ranks);
}

const struct cadre_model_svc cadre_model_service = {
    .struct_size = sizeof cadre_model_service,
    .n_params = n_params,
    .param = param_info,
    .unit_cost = unit_cost,
    .unit_seconds = unit_seconds,
    .forward = model_forward,
    .backward = model_backward,
    .boundary_count = boundary_count,
};
