/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/rank_plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

cadre_status cadre_rank_plan_init(struct cadre_rank_plan *plan,
                                  const struct cadre_plan_request *request,
                                  struct cadre_error *err)
{
    memset(plan, 0, sizeof *plan);
    plan->model = request->model;
    plan->mesh = request->mesh;
    plan->n_params = request->model->n_params;
    plan->param = cadre_calloc(plan->n_params, sizeof *plan->param);
    if (!plan->param)
        return cadre_no_memory(err, "the plan");
    for (int i = 0; i < request->mesh->n; i++) {
        request->mesh->axis[i].split_batch = false;
        request->mesh->axis[i].own_runs = false;
    }
    return CADRE_OK;
}

void cadre_rank_plan_fini(struct cadre_rank_plan *plan)
{
    free(plan->param);
    plan->param = NULL;
}

bool cadre_rank_plan_runs(const struct cadre_rank_plan *plan, uint32_t unit)
{
    for (int c = 0; c < plan->n_chunks; c++)
        if (unit >= plan->chunk[c].begin && unit < plan->chunk[c].end)
            return true;
    return plan->n_chunks == 0;
}

const struct cadre_claim *cadre_rank_plan_claim(const struct cadre_rank_plan *plan,
                                                const char *effect)
{
    for (int i = 0; i < plan->n_claims; i++)
        if (strcmp(plan->claim[i].effect, effect) == 0)
            return &plan->claim[i];
    return NULL;
}

const char *cadre_rank_plan_claimed(const struct cadre_rank_plan *plan,
                                    const char *effect)
{
    const struct cadre_claim *found = cadre_rank_plan_claim(plan, effect);
    return found ? found->plugin : NULL;
}

bool cadre_rank_plan_is_primary_owner(const struct cadre_rank_plan *plan,
                                      uint32_t param, const struct cadre_axis *within)
{
    const struct cadre_model *model = plan->model;
    bool sharded = plan->param[param].share[CADRE_KIND_OPT].placed;
    for (int a = 0; a < plan->mesh->n; a++) {
        const struct cadre_axis *axis = &plan->mesh->axis[a];
        bool distinct =
            axis == within ||
            (model->tp_size > 1 && model->params[param].split != CADRE_SHARD_NONE &&
             model->tp_size == axis->size && !axis->split_batch);
        for (int c = 0; c < plan->n_claims; c++) {
            const struct cadre_claim *claim = &plan->claim[c];
            if (strcmp(claim->axis, axis->name) == 0 &&
                ((strcmp(claim->effect, "opt.shard") == 0 && sharded) ||
                 strcmp(claim->effect, "schedule.order") == 0))
                distinct = true;
        }
        if (!distinct && axis->index != 0)
            return false;
    }
    return true;
}

bool cadre_rank_plan_is_loss_owner(const struct cadre_rank_plan *plan)
{
    const struct cadre_claim *schedule = cadre_rank_plan_claim(plan, "schedule.order");
    for (int a = 0; a < plan->mesh->n; a++) {
        const struct cadre_axis *axis = &plan->mesh->axis[a];
        bool staged = schedule && strcmp(schedule->axis, axis->name) == 0;
        if (!axis->split_batch && !staged && axis->index != 0)
            return false;
    }
    return true;
}

bool cadre_rank_plan_replicated(const struct cadre_rank_plan *plan)
{
    return plan->model->tp_size == 1 && !cadre_rank_plan_claimed(plan, "opt.shard") &&
           !cadre_rank_plan_claimed(plan, "schedule.order");
}

const struct cadre_axis *
cadre_rank_plan_diverging_axis(const struct cadre_rank_plan *plan)
{
    for (int c = 0; c < plan->n_claims; c++) {
        const struct cadre_claim *claim = &plan->claim[c];
        for (int a = 0; a < plan->mesh->n; a++)
            if (strcmp(claim->effect, "param.diverges") == 0 &&
                plan->mesh->axis[a].size > 1 &&
                strcmp(claim->axis, plan->mesh->axis[a].name) == 0)
                return &plan->mesh->axis[a];
    }
    return NULL;
}

bool cadre_rank_plan_settled(struct cadre_plan_request *request)
{
    int known = request->data_ranks > 1 ? request->data_ranks : 1;
    request->data_ranks = cadre_mesh_data_size(request->mesh);
    return request->data_ranks == known;
}

static bool power_of_two(int64_t x)
{
    return x > 0 && (x & (x - 1)) == 0;
}

static cadre_status map_microbatches(struct cadre_rank_plan *plan,
                                     const struct cadre_plan_request *request,
                                     struct cadre_error *err)
{
    int64_t n = cadre_mesh_data_size(request->mesh);
    int64_t index = cadre_mesh_data_index(request->mesh);
    int64_t m = request->microbatches;
    if (m % n != 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "train.global_batch / train.micro_batch makes %lld micro-batches, "
            "which strategy.stack cannot divide evenly over %lld data ranks; "
            "change one of them",
            (long long)m, (long long)n);
    plan->n_microbatches = m / n;
    if (request->exact && n > 1 && !plan->cyclic && !power_of_two(plan->n_microbatches))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "run.exact needs a power of two of micro-batches on each rank, "
            "found %lld (train.global_batch / train.micro_batch / ranks); change "
            "one of them",
            (long long)plan->n_microbatches);
    if (request->exact && plan->cyclic && !power_of_two(n))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "run.exact with a cyclic map of micro-batches (zero.reduce = microbatch) "
            "needs a power of two of data ranks, found %lld in strategy.stack",
            (long long)n);
    plan->first_microbatch = plan->cyclic ? index : index * plan->n_microbatches;
    plan->microbatch_stride = plan->cyclic ? n : 1;
    return CADRE_OK;
}

cadre_status cadre_rank_plan_finish(struct cadre_rank_plan *plan,
                                    const struct cadre_plan_request *request,
                                    struct cadre_error *err)
{
    const struct cadre_model *model = request->model;
    if (plan->n_chunks == 0)
        plan->chunk[plan->n_chunks++] =
            (struct cadre_chunk){0, model->n_units, 1, false};
    for (uint32_t i = 0; i < plan->n_params; i++)
        plan->param[i].present = cadre_rank_plan_runs(plan, model->params[i].unit);
    for (uint32_t i = 0; i < plan->n_params; i++) {
        int32_t owner = model->params[i].tied_to;
        if (owner >= 0 && plan->param[i].present && !plan->param[owner].present)
            plan->param[owner].copied = true;
        if (owner >= 0 && !plan->param[i].present && plan->param[owner].present)
            plan->param[i].elsewhere = true;
    }
    return map_microbatches(plan, request, err);
}
