/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a plan: what follows from what plugins said, and whether it fits. */
#include <stdlib.h>
#include <string.h>

#include "core/engine/layout/rank_plan.h"

static bool power_of_two(int64_t x)
{
    return x > 0 && (x & (x - 1)) == 0;
}

/* ---- units and parameters ---- */

/* What the plan before had, and nobody said in this one, does not hold. */
static void drop_old_storage(struct cadre_rank_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_params; i++) {
        struct cadre_plan_param *at = &plan->param[i];
        if (!at->froze)
            at->frozen = false;
        if (!at->stored)
            at->form = CADRE_FORM_PLAIN;
    }
}

static bool same_shares(const struct cadre_plan_storage *before,
                        const struct cadre_plan_param *at)
{
    for (uint32_t kind = CADRE_KIND_PARAM; kind <= CADRE_KIND_OPT; kind++) {
        const struct cadre_share *a = &before->share[kind], *b = &at->share[kind];
        if (a->placed != b->placed || a->begin != b->begin || a->count != b->count ||
            a->space != b->space)
            return false;
    }
    return true;
}

/* Did this plan begin with what it came to? */
static bool knew_storage(const struct cadre_rank_plan *plan,
                         const struct cadre_plan_request *request)
{
    for (uint32_t i = 0; request->storage && i < plan->n_params; i++)
        if (request->storage[i].frozen != plan->param[i].frozen ||
            request->storage[i].form != plan->param[i].form ||
            !same_shares(&request->storage[i], &plan->param[i]))
            return false;
    return true;
}

static void place_units(struct cadre_rank_plan *plan)
{
    const struct cadre_model *model = plan->model;
    if (plan->n_chunks == 0)
        plan->chunk[plan->n_chunks++] =
            (struct cadre_chunk){0, model->n_units, 1, false};
    for (uint32_t i = 0; i < plan->n_params; i++)
        plan->param[i].present = cadre_rank_plan_holds(plan, i);
    for (uint32_t i = 0; i < plan->n_params; i++) {
        int32_t owner = model->params[i].tied_to;
        if (owner < 0)
            continue;
        struct cadre_plan_param *mine = &plan->param[i], *whole = &plan->param[owner];
        if (mine->present && !whole->present)
            whole->copied = true;
        if (!mine->present && whole->present)
            mine->elsewhere = true;
        mine->frozen = whole->frozen;
        mine->form = whole->form;
    }
}

/* What no rank holds nobody would update. */
static cadre_status check_opt_range(const struct cadre_rank_plan *plan, uint32_t i,
                                    struct cadre_error *err)
{
    const struct cadre_share *share = &plan->param[i].share[CADRE_KIND_OPT];
    uint64_t size = cadre_shape_count(&plan->model->params[i].local);
    if (!share->placed || (share->begin == 0 && share->count == size) ||
        cadre_rank_plan_claimed(plan, "opt.shard"))
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_UNSUPPORTED,
                      "plugin '%s' in plan: place_range of a part of '%s' for the "
                      "optimizer, but no plugin claims opt.shard; claim it on the axis "
                      "whose ranks hold the other parts",
                      plan->param[i].placer[CADRE_KIND_OPT],
                      plan->model->params[i].name);
}

static cadre_status check_states(const struct cadre_rank_plan *plan,
                                 struct cadre_error *err)
{
    for (uint32_t i = 0; i < plan->n_states; i++) {
        const struct cadre_plan_state *state = &plan->state[i];
        if (state->extent != CADRE_OPT_ELEMENTS && !plan->param[state->param].matrix)
            return cadre_fail(err, CADRE_E_UNSUPPORTED,
                              "opt_state '%s' of '%s' has one value per row or column, "
                              "which only whole matrices have; call opt_matrix for it",
                              state->key, plan->model->params[state->param].name);
    }
    return CADRE_OK;
}

static cadre_status check_params(const struct cadre_rank_plan *plan,
                                 const struct cadre_plan_request *request,
                                 struct cadre_error *err)
{
    const bool final = knew_storage(plan, request);
    for (uint32_t i = 0; i < plan->n_params; i++) {
        if (plan->model->params[i].tied_to >= 0)
            continue;
        CADRE_TRY(cadre_rank_plan_check_form(plan, i, final, err));
        CADRE_TRY(check_opt_range(plan, i, err));
    }
    return check_states(plan, err);
}

/* ---- claims ---- */

/* Claims that mean something on axes of one kind alone. */
static cadre_status check_samples(const struct cadre_rank_plan *plan,
                                  struct cadre_error *err)
{
    static const struct {
        const char *effect;
        bool split;
    } wants[] = {{"schedule.order", false},
                 {"act.complete", false},
                 {"param.diverges", true},
                 {"expert.shard", true}};
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        const struct cadre_axis *axis = cadre_rank_plan_axis(plan, wants[i].effect);
        if (!axis || axis->size == 1)
            continue;
        bool same = !axis->split_batch && !axis->split_time && !axis->own_runs;
        if (wants[i].split ? axis->split_batch : same)
            continue;
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "plugin '%s' in plan: claim of %s@%s, whose ranks see %s; call "
            "use_axis('%s', %s)",
            cadre_rank_plan_claimed(plan, wants[i].effect), wants[i].effect, axis->name,
            wants[i].split ? "the same samples" : "different samples", axis->name,
            wants[i].split ? "CADRE_BATCH_SPLIT" : "CADRE_BATCH_SAME");
    }
    return CADRE_OK;
}

static cadre_status check_claims(const struct cadre_rank_plan *plan,
                                 struct cadre_error *err)
{
    const struct cadre_claim *whole = cadre_rank_plan_claim(plan, "act.complete");
    const struct cadre_claim *rows = cadre_rank_plan_claim(plan, "seq.shard");
    const struct cadre_claim *time = cadre_rank_plan_claim(plan, "time.shard");
    const struct cadre_axis *cut = cadre_rank_plan_axis(plan, "time.shard");
    if (rows && (!whole || strcmp(rows->plugin, whole->plugin) != 0 ||
                 strcmp(rows->axis, whole->axis) != 0))
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "strategy.stack: '%s' claims seq.shard, but '%s' claims "
                          "act.complete; one plugin does both, on one axis",
                          rows->plugin, whole ? whole->plugin : "no plugin");
    if (cut && !cut->split_time)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "plugin '%s' in plan: claim of time.shard@%s, whose ranks see "
            "the same time; call use_axis('%s', CADRE_BATCH_TIME)",
            time->plugin, time->axis, time->axis);
    for (int a = 0; a < plan->mesh->n; a++) {
        const struct cadre_axis *axis = &plan->mesh->axis[a];
        if (axis->split_time && axis->size > 1 && axis != cut)
            return cadre_fail(err, CADRE_E_UNSUPPORTED,
                              "plugin '%s' in plan: use_axis('%s', CADRE_BATCH_TIME), "
                              "but no plugin claims time.shard@%s, which passes keys "
                              "and values on",
                              axis->user, axis->name, axis->name);
    }
    return CADRE_OK;
}

/* ---- reducers ---- */

/* Inner ones first; among equal levels, which are of one rank, as they were stated. */
static void sort_reducers(struct cadre_rank_plan *plan)
{
    for (int i = 1; i < plan->n_reducers; i++) {
        struct cadre_reducer moved = plan->reducer[i];
        int at = i;
        for (; at > 0 && plan->reducer[at - 1].level > moved.level; at--)
            plan->reducer[at] = plan->reducer[at - 1];
        plan->reducer[at] = moved;
    }
}

static cadre_status check_levels(const struct cadre_rank_plan *plan,
                                 struct cadre_error *err)
{
    const struct cadre_reducer *last = NULL;
    for (int i = 0; i < plan->n_reducers; i++) {
        const struct cadre_reducer *mine = &plan->reducer[i];
        if (mine->axis->size == 1)
            continue;
        if (last && last->level == mine->level)
            return cadre_fail(
                err, CADRE_E_UNSUPPORTED,
                "strategy.stack: '%s' reduces gradients along '%s' and '%s' along "
                "'%s', both at level %u; give the one that is to get what the other "
                "has reduced a higher level (shipped strategies: --set %s.level=%u)",
                last->plugin, last->axis->name, mine->plugin, mine->axis->name,
                mine->level, mine->plugin, mine->level + CADRE_REDUCE_OUTER);
        last = mine;
    }
    return CADRE_OK;
}

/* Nobody, or several plugins, sum the gradients of this part of the mesh. */
static cadre_status check_part(const struct cadre_rank_plan *plan,
                               const struct cadre_axis_part *part,
                               struct cadre_error *err)
{
    const struct cadre_axis *apart = cadre_rank_plan_axis(plan, "param.diverges");
    const struct cadre_axis *axis = part->axis;
    const struct cadre_reducer *found = NULL;
    bool splits = axis->split_batch || axis->split_time;
    for (int i = 0; i < plan->n_reducers; i++) {
        const struct cadre_reducer *mine = &plan->reducer[i];
        if (!cadre_axis_has(mine->axis, part))
            continue;
        if (found)
            return cadre_fail(
                err, CADRE_E_UNSUPPORTED,
                "strategy.stack: '%s' and '%s' both reduce gradients along "
                "'%s'; only one of them can be in the stack",
                found->plugin, mine->plugin, axis->name);
        found = mine;
    }
    if (found && axis == apart)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "strategy.stack: '%s' reduces gradients along '%s', whose "
                          "ranks hold replicas that diverge (param.diverges of '%s'); "
                          "one of the two must go",
                          found->plugin, axis->name,
                          cadre_rank_plan_claimed(plan, "param.diverges"));
    if (found && !splits)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "plugin '%s' in plan: reduces('%s'), whose ranks see the same "
            "samples along '%s', so that the sum counts them several "
            "times; call use_axis('%s', CADRE_BATCH_SPLIT)",
            found->plugin, found->axis->name, axis->name, axis->name);
    if (!found && splits && axis != apart)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "plugin '%s' in plan: use_axis('%s', %s) splits %s over %d "
                          "ranks, but no plugin reduces gradients along it; call "
                          "reduces('%s', level), or claim param.diverges@%s",
                          axis->user, axis->name,
                          axis->split_time ? "CADRE_BATCH_TIME" : "CADRE_BATCH_SPLIT",
                          axis->split_time ? "the time" : "the batch", axis->size,
                          axis->name, axis->name);
    return CADRE_OK;
}

static cadre_status check_reducers(struct cadre_rank_plan *plan,
                                   struct cadre_error *err)
{
    struct cadre_axis_part part[CADRE_MAX_PARTS];
    int n = cadre_mesh_parts(plan->mesh, part);
    for (int p = 0; p < n; p++)
        CADRE_TRY(check_part(plan, &part[p], err));
    sort_reducers(plan);
    return check_levels(plan, err);
}

/* Replicas that diverge vary slowest, then the axis that is reduced last. */
static void number_data_ranks(struct cadre_rank_plan *plan)
{
    const struct cadre_axis *axes[CADRE_MAX_INSTANCES + 1];
    const struct cadre_axis *apart = cadre_rank_plan_diverging_axis(plan);
    int n = 0;
    if (apart)
        axes[n++] = apart;
    for (int i = plan->n_reducers - 1; i >= 0; i--)
        axes[n++] = plan->reducer[i].axis;
    cadre_mesh_number(plan->mesh, axes, n);
}

/* ---- micro-batches ---- */

/* Ranks along an axis that split the batch. */
static int64_t batch_ranks(const struct cadre_mesh *mesh, const struct cadre_axis *axis)
{
    struct cadre_axis_part part[CADRE_MAX_PARTS];
    int64_t ranks = 1;
    int n = cadre_mesh_parts(mesh, part);
    for (int p = 0; p < n; p++)
        if (part[p].axis->split_batch && cadre_axis_has(axis, &part[p]))
            ranks *= part[p].factor.size;
    return ranks;
}

/* What an inner level has summed must be a node of the reduction tree. */
static cadre_status check_exact(const struct cadre_rank_plan *plan,
                                struct cadre_error *err)
{
    const struct cadre_reducer *inner = NULL;
    if (!plan->cyclic && !power_of_two(plan->n_microbatches))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "run.exact needs a power of two of micro-batches on each rank, "
            "found %lld (train.global_batch / train.micro_batch / ranks); change "
            "one of them",
            (long long)plan->n_microbatches);
    if (plan->cyclic && !power_of_two(cadre_mesh_data_size(plan->mesh)))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "run.exact with a cyclic map of micro-batches (zero.reduce = microbatch) "
            "needs a power of two of data ranks, found %d in strategy.stack",
            cadre_mesh_data_size(plan->mesh));
    for (int i = 0; i < plan->n_reducers; i++) {
        const struct cadre_reducer *mine = &plan->reducer[i];
        int64_t ranks = batch_ranks(plan->mesh, mine->axis);
        if (ranks == 1)
            continue;
        if (inner && !power_of_two(batch_ranks(plan->mesh, inner->axis)))
            return cadre_fail(
                err, CADRE_E_INVALID,
                "run.exact needs a power of two of ranks along '%s', whose sums '%s' "
                "reduces further, found %lld in strategy.stack",
                inner->axis->name, mine->plugin,
                (long long)batch_ranks(plan->mesh, inner->axis));
        inner = mine;
    }
    return CADRE_OK;
}

/* What an inner level sums of ranges is several nodes of the tree, and an outer level
 * gets one sum. */
static cadre_status check_exact_ranges(const struct cadre_rank_plan *plan,
                                       struct cadre_error *err)
{
    const struct cadre_reducer *inner = NULL;
    for (int i = 0; i < plan->n_reducers; i++) {
        const struct cadre_reducer *mine = &plan->reducer[i];
        if (batch_ranks(plan->mesh, mine->axis) == 1)
            continue;
        if (inner)
            return cadre_fail(
                err, CADRE_E_UNSUPPORTED,
                "run.exact with ranges of micro-batches (%s%s%s) takes one plugin that "
                "reduces gradients, found '%s' and '%s' in strategy.stack, whose sums "
                "do not follow one tree; set run.exact = no, or reduce along one axis",
                plan->divided ? "balance.micro_batches" : "microbatch_map of plugin '",
                plan->divided ? "" : plan->map_owner, plan->divided ? "" : "'",
                inner->plugin, mine->plugin);
        inner = mine;
    }
    return CADRE_OK;
}

/* RANGES as they are planned for n data ranks. A plan that was made before their number
 * was known is made again. */
static cadre_status map_ranges(struct cadre_rank_plan *plan,
                               const struct cadre_plan_request *request, int64_t n,
                               struct cadre_error *err)
{
    int known = request->data_ranks > 1 ? request->data_ranks : 1;
    int index = cadre_mesh_data_index(plan->mesh);
    if (plan->n_first == n + 1) {
        plan->first_microbatch = (int64_t)plan->first[index];
        plan->n_microbatches = (int64_t)plan->first[index + 1] - plan->first_microbatch;
        return request->exact ? check_exact_ranges(plan, err) : CADRE_OK;
    }
    plan->n_microbatches = request->microbatches / n;
    if (known != n)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_UNSUPPORTED,
                      "plugin '%s' in plan: microbatch_map with ranges for %d data "
                      "ranks, expected them for %lld (all axes of strategy.stack that "
                      "split the batch)",
                      plan->map_owner, plan->n_first - 1, (long long)n);
}

/* Nobody has asked for the ranges of the pass before. */
static void drop_map(struct cadre_rank_plan *plan)
{
    free(plan->first);
    plan->first = NULL;
    plan->n_first = 0;
    plan->map = CADRE_MICROBATCHES_BLOCK;
}

static cadre_status map_microbatches(struct cadre_rank_plan *plan,
                                     const struct cadre_plan_request *request,
                                     struct cadre_error *err)
{
    if (!plan->map_owner)
        drop_map(plan);
    int64_t n = cadre_mesh_data_size(request->mesh);
    int64_t index = cadre_mesh_data_index(request->mesh);
    int64_t m = request->microbatches;
    plan->microbatch_stride = plan->cyclic ? n : 1;
    plan->most = 0;
    if (request->division && n > 1) {
        CADRE_TRY(cadre_rank_plan_divide(plan, request, err));
        return request->exact ? check_exact_ranges(plan, err) : CADRE_OK;
    }
    if (plan->map == CADRE_MICROBATCHES_RANGES)
        return map_ranges(plan, request, n, err);
    if (m % n != 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "train.global_batch / train.micro_batch makes %lld micro-batches, "
            "which strategy.stack cannot divide evenly over %lld data ranks; "
            "change one of them",
            (long long)m, (long long)n);
    plan->n_microbatches = m / n;
    plan->first_microbatch = plan->cyclic ? index : index * plan->n_microbatches;
    return request->exact && n > 1 ? check_exact(plan, err) : CADRE_OK;
}

/* ---- time ---- */

/* Sums over the time come last, of whole steps: they then are the same sums whatever
 * reduces the samples. */
static cadre_status check_exact_time(const struct cadre_rank_plan *plan,
                                     const struct cadre_axis *cut,
                                     struct cadre_error *err)
{
    const struct cadre_reducer *last = NULL;
    if (plan->cyclic)
        return cadre_fail(err, CADRE_E_INVALID,
                          "run.exact with the time of samples split over '%s' needs "
                          "the sums of whole steps, and '%s' maps micro-batches in "
                          "turn; set zero.reduce = step",
                          cut->name, plan->map_owner);
    for (int i = 0; i < plan->n_reducers; i++)
        if (plan->reducer[i].axis->size > 1)
            last = &plan->reducer[i];
    if (last && last->axis == cut)
        return CADRE_OK;
    return cadre_fail(
        err, CADRE_E_UNSUPPORTED,
        "run.exact with the time of samples split over '%s' needs gradients reduced "
        "along it last and alone, and '%s' reduces along '%s' at level %u; give the "
        "plugin that reduces along '%s' the highest level",
        cut->name, last ? last->plugin : "no plugin", last ? last->axis->name : "none",
        last ? last->level : 0, cut->name);
}

static cadre_status cut_time(struct cadre_rank_plan *plan,
                             const struct cadre_plan_request *request,
                             struct cadre_error *err)
{
    const struct cadre_axis *cut = cadre_rank_plan_axis(plan, "time.shard");
    const int ranks = cadre_mesh_time_size(plan->mesh);
    plan->time = request->time / ranks;
    plan->first_position = cadre_mesh_time_index(plan->mesh) * plan->time;
    if (ranks == 1)
        return CADRE_OK;
    if (request->time % ranks != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "samples of %lld tokens (model.context) do not divide evenly "
                          "over the %d ranks along '%s'; change one of them",
                          (long long)request->time, ranks, cut->name);
    if (plan->model->config.classes > 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "strategy.stack splits the time of samples along '%s', and a "
                          "classification head reads the last token, which one of its "
                          "ranks has; train a language model",
                          cut->name);
    return request->exact ? check_exact_time(plan, cut, err) : CADRE_OK;
}

/* ---- the whole ---- */

cadre_status cadre_rank_plan_finish(struct cadre_rank_plan *plan,
                                    const struct cadre_plan_request *request,
                                    struct cadre_error *err)
{
    drop_old_storage(plan);
    CADRE_TRY(cadre_rank_plan_store_base(plan, request, err));
    place_units(plan);
    CADRE_TRY(check_claims(plan, err));
    CADRE_TRY(check_samples(plan, err));
    CADRE_TRY(check_reducers(plan, err));
    CADRE_TRY(check_params(plan, request, err));
    number_data_ranks(plan);
    CADRE_TRY(cut_time(plan, request, err));
    CADRE_TRY(map_microbatches(plan, request, err));
    return cadre_rank_plan_check_experts(plan, err);
}

/* Were these ranges known before? They are kept for the next pass; where there is no
 * memory for them, the plan does not settle. */
static bool keep_ranges(const struct cadre_rank_plan *plan,
                        struct cadre_plan_request *request)
{
    int n = plan->exact ? plan->n_first : 0;
    size_t bytes = (size_t)n * sizeof *plan->first;
    if (n == request->n_first &&
        (n == 0 || memcmp(request->first, plan->first, bytes) == 0))
        return true;
    free(request->first);
    request->first = n > 0 ? cadre_calloc((size_t)n, sizeof *request->first) : NULL;
    request->n_first = request->first ? n : 0;
    if (request->first)
        memcpy(request->first, plan->first, bytes);
    return false;
}

static void keep_storage(const struct cadre_rank_plan *plan,
                         struct cadre_plan_request *request)
{
    for (uint32_t i = 0; request->storage && i < plan->n_params; i++) {
        const struct cadre_plan_param *at = &plan->param[i];
        struct cadre_plan_storage *kept = &request->storage[i];
        *kept = (struct cadre_plan_storage){
            .frozen = at->frozen, .form = at->form, .froze = at->froze};
        memcpy(kept->share, at->share, sizeof kept->share);
        memcpy(kept->placer, at->placer, sizeof kept->placer);
    }
}

bool cadre_rank_plan_settled(const struct cadre_rank_plan *plan,
                             struct cadre_plan_request *request)
{
    int ranks = cadre_mesh_data_size(request->mesh);
    int time_ranks = cadre_mesh_time_size(request->mesh);
    int known = request->data_ranks > 1 ? request->data_ranks : 1;
    int known_time = request->time_ranks > 1 ? request->time_ranks : 1;
    int64_t share = request->rank_microbatches > 0 ? request->rank_microbatches
                                                   : request->microbatches / known;
    int64_t own = cadre_rank_plan_most(plan);
    bool settled = known == ranks && known_time == time_ranks && share == own &&
                   request->most == plan->most && knew_storage(plan, request);
    settled = keep_ranges(plan, request) && settled;
    keep_storage(plan, request);
    request->data_ranks = ranks;
    request->time_ranks = time_ranks;
    request->rank_microbatches = own;
    request->most = plan->most;
    return settled;
}
