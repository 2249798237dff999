/* SPDX-License-Identifier: Apache-2.0 */
/* Experts over the ranks of an axis: which rank holds which, and what a run with them
 * cannot have yet. */
#include "core/engine/layout/rank_plan.h"

const struct cadre_axis *cadre_rank_plan_expert_axis(const struct cadre_rank_plan *plan)
{
    const struct cadre_axis *axis = cadre_rank_plan_axis(plan, "expert.shard");
    return plan->model->config.experts > 0 && axis && axis->size > 1 ? axis : NULL;
}

bool cadre_rank_plan_holds(const struct cadre_rank_plan *plan, uint32_t param)
{
    return cadre_rank_plan_runs(plan, plan->model->params[param].unit) &&
           cadre_model_holds(plan->model, param);
}

cadre_status cadre_rank_plan_check_experts(const struct cadre_rank_plan *plan,
                                           struct cadre_error *err)
{
    const struct cadre_axis *axis = cadre_rank_plan_expert_axis(plan);
    const int64_t experts = plan->model->config.experts;
    if (experts > 0 && plan->model->config.expert_balance > 0 &&
        cadre_mesh_time_size(plan->mesh) > 1)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "model.expert_balance = %g with a strategy that splits the "
                          "time of samples (CADRE_BATCH_TIME), but the balance loss is "
                          "that of whole samples; set model.expert_balance = 0",
                          plan->model->config.expert_balance);
    if (!axis)
        return CADRE_OK;
    if (experts % axis->size != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.experts = %lld do not divide over the %d ranks along "
                          "'%s'; change model.experts or strategy.stack",
                          (long long)experts, axis->size, axis->name);
    if (plan->exact)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "run.exact = yes: expert gradients are sums over the ranks of "
            "'%s'; set run.exact = no",
            axis->name);
    if (plan->map == CADRE_MICROBATCHES_RANGES)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "plugin '%s' in plan: microbatch_map with ranges, but the "
            "ranks along '%s' run their micro-batches together (experts); "
            "expected as many on each: CADRE_MICROBATCHES_BLOCK",
            plan->map_owner, axis->name);
    return CADRE_OK;
}
