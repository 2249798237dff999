/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/rank_plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/tensor/dtype.h"
#include "core/tensor/nf4.h"

cadre_status cadre_rank_plan_init(struct cadre_rank_plan *plan,
                                  const struct cadre_plan_request *request,
                                  struct cadre_error *err)
{
    memset(plan, 0, sizeof *plan);
    plan->model = request->model;
    plan->mesh = request->mesh;
    plan->map =
        request->n_first > 0 ? CADRE_MICROBATCHES_RANGES : CADRE_MICROBATCHES_BLOCK;
    plan->exact = request->exact;
    plan->n_first = request->n_first;
    plan->most = request->most;
    plan->n_params = request->model->n_params;
    plan->param = cadre_calloc(plan->n_params, sizeof *plan->param);
    if (plan->n_first > 0)
        plan->first = cadre_calloc((size_t)plan->n_first, sizeof *plan->first);
    if (!plan->param || (plan->n_first > 0 && !plan->first))
        return cadre_no_memory(err, "the plan");
    for (uint32_t i = 0; request->storage && i < plan->n_params; i++) {
        plan->param[i].before = request->storage[i];
        plan->param[i].frozen = request->storage[i].frozen;
        plan->param[i].form = request->storage[i].form;
    }
    for (uint32_t i = 0; i < plan->n_params; i++)
        if (request->model->params[i].frozen) {
            plan->param[i].frozen = true;
            plan->param[i].froze = "tune.method";
        }
    if (plan->n_first > 0)
        memcpy(plan->first, request->first,
               (size_t)plan->n_first * sizeof *plan->first);
    cadre_mesh_reset(request->mesh);
    return CADRE_OK;
}

void cadre_rank_plan_fini(struct cadre_rank_plan *plan)
{
    free(plan->param);
    free(plan->first);
    free(plan->state);
    plan->param = NULL;
    plan->first = NULL;
    plan->state = NULL;
}

bool cadre_rank_plan_runs(const struct cadre_rank_plan *plan, uint32_t unit)
{
    for (int c = 0; c < plan->n_chunks; c++)
        if (unit >= plan->chunk[c].begin && unit < plan->chunk[c].end)
            return true;
    return plan->n_chunks == 0;
}

/* ---- while plugins plan ---- */

bool cadre_rank_plan_is_frozen_to(const struct cadre_rank_plan *plan, uint32_t param,
                                  const char *instance)
{
    int32_t owner = plan->model->params[param].tied_to;
    const struct cadre_plan_param *at =
        &plan->param[owner < 0 ? param : (uint32_t)owner];
    const char *before = at->froze ? NULL : at->before.froze;
    return at->frozen && !(before && strcmp(before, instance) == 0);
}

struct cadre_share cadre_rank_plan_share_to(const struct cadre_rank_plan *plan,
                                            uint32_t param, uint32_t kind,
                                            const char *instance)
{
    const struct cadre_param *p = &plan->model->params[param];
    const struct cadre_plan_param *at = &plan->param[param];
    const char *before = at->before.placer[kind];
    struct cadre_share share = at->share[kind];
    if (!share.placed && before && strcmp(before, instance) != 0)
        share = at->before.share[kind];
    if (!cadre_rank_plan_runs(plan, p->unit))
        return (struct cadre_share){.placed = share.placed};
    if (!share.placed)
        share.count = kind == CADRE_KIND_PARAM ? cadre_rank_plan_stored(plan, param)
                                               : cadre_shape_count(&p->local);
    return share;
}

/* ---- claims ---- */

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

const struct cadre_axis *cadre_rank_plan_axis(const struct cadre_rank_plan *plan,
                                              const char *effect)
{
    const struct cadre_claim *found = cadre_rank_plan_claim(plan, effect);
    return found ? cadre_mesh_axis(plan->mesh, found->axis) : NULL;
}

uint32_t cadre_rank_plan_level(const struct cadre_rank_plan *plan, const char *instance)
{
    for (int i = 0; i < plan->n_reducers; i++)
        if (strcmp(plan->reducer[i].plugin, instance) == 0)
            return plan->reducer[i].level;
    return CADRE_NO_LEVEL;
}

const struct cadre_axis *
cadre_rank_plan_diverging_axis(const struct cadre_rank_plan *plan)
{
    const struct cadre_axis *axis = cadre_rank_plan_axis(plan, "param.diverges");
    return axis && axis->size > 1 ? axis : NULL;
}

/* ---- who counts what ---- */

static int add(const struct cadre_axis **axes, int n, const struct cadre_axis *axis)
{
    if (axis)
        axes[n++] = axis;
    return n;
}

bool cadre_rank_plan_is_primary_owner(const struct cadre_rank_plan *plan,
                                      uint32_t param, const struct cadre_axis *within)
{
    const struct cadre_model *model = plan->model;
    const struct cadre_axis *axes[5];
    int n = add(axes, 0, within);
    if (model->tp_size > 1 && model->params[param].split != CADRE_SHARD_NONE)
        n = add(axes, n, cadre_rank_plan_axis(plan, "act.complete"));
    if (model->params[param].expert >= 0)
        n = add(axes, n, cadre_rank_plan_expert_axis(plan));
    if (plan->param[param].share[CADRE_KIND_OPT].placed)
        n = add(axes, n, cadre_rank_plan_axis(plan, "opt.shard"));
    n = add(axes, n, cadre_rank_plan_axis(plan, "schedule.order"));
    return cadre_mesh_is_first(plan->mesh, axes, n);
}

bool cadre_rank_plan_is_loss_owner(const struct cadre_rank_plan *plan)
{
    const struct cadre_axis *schedule = cadre_rank_plan_axis(plan, "schedule.order");
    for (int a = 0; a < plan->mesh->n; a++) {
        const struct cadre_axis *axis = &plan->mesh->axis[a];
        bool counts = axis->split_batch || axis->split_time || axis == schedule;
        if (!counts && axis->index != 0)
            return false;
    }
    return true;
}

bool cadre_rank_plan_replicated(const struct cadre_rank_plan *plan)
{
    return plan->model->tp_size == 1 && !cadre_rank_plan_expert_axis(plan) &&
           !cadre_rank_plan_claimed(plan, "opt.shard") &&
           !cadre_rank_plan_claimed(plan, "schedule.order");
}

void cadre_rank_plan_microbatches(const struct cadre_rank_plan *plan,
                                  const struct cadre_axis *axis, int rank,
                                  int64_t *begin, int64_t *end)
{
    int first, last;
    cadre_mesh_data_group(plan->mesh, axis, rank, &first, &last);
    *begin = plan->first ? (int64_t)plan->first[first] : first * plan->n_microbatches;
    *end = plan->first ? (int64_t)plan->first[last + 1]
                       : (last + 1) * plan->n_microbatches;
}

int64_t cadre_rank_plan_most(const struct cadre_rank_plan *plan)
{
    return plan->most > 0 ? plan->most : plan->n_microbatches;
}

int64_t cadre_rank_plan_data_rank(const struct cadre_rank_plan *plan, int64_t i)
{
    int64_t rank = 0;
    if (plan->microbatch_stride > 1)
        return i % plan->microbatch_stride;
    if (!plan->first)
        return i / plan->n_microbatches;
    while (rank + 2 < plan->n_first && (int64_t)plan->first[rank + 1] <= i)
        rank++;
    return rank;
}

/* ---- memory and storage ---- */

struct cadre_budget *cadre_rank_plan_find_budget(struct cadre_rank_plan *plan,
                                                 const char *instance, uint32_t space,
                                                 const char *tag)
{
    for (int i = 0; i < plan->n_budgets; i++) {
        struct cadre_budget *budget = &plan->budget[i];
        if (strcmp(budget->plugin, instance) == 0 && budget->space == space &&
            strcmp(budget->tag, tag) == 0)
            return budget;
    }
    return NULL;
}

uint64_t cadre_rank_plan_budget(const struct cadre_rank_plan *plan,
                                const char *instance, uint32_t space, const char *tag)
{
    const struct cadre_budget *budget = cadre_rank_plan_find_budget(
        (struct cadre_rank_plan *)(uintptr_t)plan, instance, space, tag);
    return budget ? budget->bytes : 0;
}

void cadre_rank_plan_block(const struct cadre_rank_plan *plan, uint32_t param,
                           uint32_t *elements, uint32_t *bytes)
{
    switch (plan->param[param].form) {
    case CADRE_FORM_INT8:
        *elements = CADRE_INT8_BLOCK;
        *bytes = CADRE_INT8_BYTES;
        break;
    case CADRE_FORM_NF4:
        *elements = CADRE_NF4_BLOCK;
        *bytes = CADRE_NF4_BYTES;
        break;
    default:
        *elements = 1;
        *bytes = (uint32_t)cadre_dtype_bytes(plan->model->config.dtype);
    }
}

uint64_t cadre_rank_plan_stored(const struct cadre_rank_plan *plan, uint32_t param)
{
    uint64_t count = cadre_shape_count(&plan->model->params[param].local);
    uint32_t elements, bytes;
    cadre_rank_plan_block(plan, param, &elements, &bytes);
    return elements == 1 ? count : (count + elements - 1) / elements * bytes;
}

/* ---- what comparisons and measurements need ---- */

static uint64_t divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* A multiple that 64 bits cannot hold is of no use to a measurement either. */
uint64_t cadre_rank_plan_period(const struct cadre_rank_plan *plan)
{
    uint64_t period = 1;
    for (int i = 0; i < plan->n_periods; i++) {
        uint64_t n = plan->period[i].n / divisor(plan->period[i].n, period);
        if (period > UINT64_MAX / n)
            return UINT64_MAX;
        period *= n;
    }
    return period;
}

size_t cadre_rank_plan_equal(const struct cadre_rank_plan *plan, char *out,
                             size_t bytes)
{
    struct cadre_text text = {0};
    for (int i = 0; i < plan->n_designs; i++) {
        const char *plugin = plan->design[i].plugin;
        for (const char *at = plan->design[i].equal; *at;) {
            at += strspn(at, ", \t");
            size_t n = strcspn(at, ","), key = strcspn(at, "=");
            bool sectioned = memchr(at, '.', key) != NULL;
            cadre_text_printf(&text, "%s%s%s%.*s", text.len ? ", " : "",
                              sectioned ? "" : plugin, sectioned ? "" : ".", (int)n,
                              at);
            at += n;
        }
    }
    size_t length = text.len;
    snprintf(out, bytes, "%s", cadre_text_str(&text));
    cadre_text_fini(&text);
    return length;
}
