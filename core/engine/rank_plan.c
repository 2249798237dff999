/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/rank_plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/tensor/dtype.h"

static struct cadre_plan_session *session_of(void *h)
{
    return h;
}

static cadre_status use_axis(void *h, const char *axis, uint32_t batch)
{
    struct cadre_plan_session *s = session_of(h);
    struct cadre_axis *at = cadre_mesh_axis(s->request->mesh, axis);
    if (!at)
        return cadre_fail(
            s->err, CADRE_E_UNSUPPORTED,
            "plugin '%s' uses the axis '%s', which this run does not have", s->plugin,
            axis);
    if (batch < CADRE_BATCH_SPLIT || batch > CADRE_BATCH_APART)
        return cadre_fail(
            s->err, CADRE_E_UNSUPPORTED,
            "plugin '%s': use_axis('%s', %u): expected CADRE_BATCH_SPLIT, "
            "CADRE_BATCH_SAME or CADRE_BATCH_APART",
            s->plugin, axis, batch);
    const struct cadre_axis *other = cadre_mesh_own_runs(s->request->mesh);
    if (batch == CADRE_BATCH_APART && other && other != at)
        return cadre_fail(
            s->err, CADRE_E_UNSUPPORTED,
            "strategy.stack: '%s' makes runs of their own along the axis '%s', and "
            "another plugin along '%s'; only one of them can be in the stack",
            s->plugin, axis, other->name);
    at->split_batch = batch == CADRE_BATCH_SPLIT;
    at->own_runs = batch == CADRE_BATCH_APART;
    return CADRE_OK;
}

static cadre_status claim(void *h, const char *effect, const char *axis, uint32_t flags)
{
    struct cadre_plan_session *s = session_of(h);
    struct cadre_rank_plan *plan = s->plan;
    bool shared = (flags & CADRE_CLAIM_SHARED) != 0;
    const char *where = axis ? axis : "";
    for (int i = 0; i < plan->n_claims; i++) {
        const struct cadre_claim *other = &plan->claim[i];
        if (strcmp(other->effect, effect) != 0 || strcmp(other->axis, where) != 0)
            continue;
        if (!shared || !other->shared)
            return cadre_fail(
                s->err, CADRE_E_UNSUPPORTED,
                "strategy.stack: '%s' and '%s' both claim %s%s%s; only one of "
                "them can be in the stack",
                other->plugin, s->plugin, effect, *where ? "@" : "", where);
    }
    if (plan->n_claims == CADRE_MAX_CLAIMS)
        return cadre_fail(s->err, CADRE_E_UNSUPPORTED,
                          "more than %d claims in one stack", CADRE_MAX_CLAIMS);
    struct cadre_claim *mine = &plan->claim[plan->n_claims++];
    snprintf(mine->effect, sizeof mine->effect, "%s", effect);
    snprintf(mine->axis, sizeof mine->axis, "%s", where);
    mine->plugin = s->plugin;
    mine->shared = shared;
    return CADRE_OK;
}

static cadre_status leaves(void *h, uint32_t map)
{
    struct cadre_plan_session *s = session_of(h);
    bool cyclic = map == CADRE_LEAVES_CYCLIC;
    if (s->plan->leaf_owner && s->plan->cyclic != cyclic)
        return cadre_fail(s->err, CADRE_E_UNSUPPORTED,
                          "strategy.stack: '%s' and '%s' want different maps of "
                          "micro-batches to ranks (block and cyclic)",
                          s->plan->leaf_owner, s->plugin);
    s->plan->cyclic = cyclic;
    s->plan->leaf_owner = s->plugin;
    return CADRE_OK;
}

static cadre_status chunk(void *h, uint32_t begin, uint32_t end, uint32_t live,
                          uint32_t flags)
{
    struct cadre_plan_session *s = session_of(h);
    struct cadre_rank_plan *plan = s->plan;
    if (begin >= end || end > s->request->model->n_units || live == 0)
        return cadre_fail(
            s->err, CADRE_E_UNSUPPORTED,
            "plugin '%s': chunk of units [%u, %u) with %u slots, expected "
            "0 <= begin < end <= %u and at least one slot",
            s->plugin, begin, end, live, s->request->model->n_units);
    if (plan->n_chunks == CADRE_MAX_CHUNKS)
        return cadre_fail(s->err, CADRE_E_UNSUPPORTED,
                          "plugin '%s': more than %d chunks", s->plugin,
                          CADRE_MAX_CHUNKS);
    plan->chunk[plan->n_chunks++] = (struct cadre_chunk){
        .begin = begin,
        .end = end,
        .live = live,
        .split = (flags & CADRE_LIVE_SPLIT) != 0,
    };
    return CADRE_OK;
}

static cadre_status live_blocks(void *h, uint32_t n)
{
    struct cadre_plan_session *s = session_of(h);
    s->plan->live_blocks = n;
    return CADRE_OK;
}

static cadre_status place_range(void *h, cadre_param_id param, uint32_t kind,
                                uint64_t begin, uint64_t count, uint32_t space)
{
    struct cadre_plan_session *s = session_of(h);
    if (param >= s->plan->n_params || kind < CADRE_KIND_PARAM || kind > CADRE_KIND_OPT)
        return cadre_fail(
            s->err, CADRE_E_UNSUPPORTED,
            "plugin '%s': place_range of parameter %u, kind %u: no such thing",
            s->plugin, param, kind);
    const struct cadre_param *p = &s->request->model->params[param];
    uint64_t size = cadre_shape_count(&p->local);
    if (begin > size || count > size - begin)
        return cadre_fail(
            s->err, CADRE_E_UNSUPPORTED,
            "plugin '%s': range [%llu, +%llu) of '%s', which has %llu elements",
            s->plugin, (unsigned long long)begin, (unsigned long long)count, p->name,
            (unsigned long long)size);
    struct cadre_share *share = &s->plan->param[param].share[kind];
    if (space > CADRE_SPACE_HOST ||
        (space != CADRE_SPACE_DEVICE && kind != CADRE_KIND_OPT))
        return cadre_fail(
            s->err, CADRE_E_UNSUPPORTED,
            "plugin '%s' places '%s', kind %u, in space %u; only optimizer states can "
            "lie outside the device",
            s->plugin, p->name, kind, space);
    if (share->placed)
        return cadre_fail(
            s->err, CADRE_E_UNSUPPORTED,
            "plugin '%s' places '%s', which another plugin placed already", s->plugin,
            p->name);
    if (kind == CADRE_KIND_OPT && count > 0 &&
        (begin % CADRE_NORM_CHUNK != 0 ||
         (count % CADRE_NORM_CHUNK != 0 && begin + count != size)))
        return cadre_fail(
            s->err, CADRE_E_UNSUPPORTED,
            "plugin '%s': optimizer range [%llu, +%llu) of '%s', expected whole units "
            "of %d elements (range_unit)",
            s->plugin, (unsigned long long)begin, (unsigned long long)count, p->name,
            CADRE_NORM_CHUNK);
    *share = (struct cadre_share){true, begin, count, space};
    return CADRE_OK;
}

static cadre_status memory(void *h, uint32_t space, uint64_t bytes, const char *tag)
{
    struct cadre_plan_session *s = session_of(h);
    char name[48];
    snprintf(name, sizeof name, "%.20s: %.24s", s->plugin, tag);
    cadre_ledger_note(&s->plan->planned, space, bytes, name);
    return CADRE_OK;
}

void cadre_plan_session_init(struct cadre_plan_session *session,
                             struct cadre_rank_plan *plan,
                             const struct cadre_plan_request *request,
                             const char *plugin, struct cadre_error *err)
{
    const struct cadre_model *model = request->model;
    uint64_t microbatches = (uint64_t)request->microbatches;
    if (request->data_ranks > 1)
        microbatches /= (uint64_t)request->data_ranks;
    *session = (struct cadre_plan_session){
        .plan = plan,
        .request = request,
        .plugin = plugin,
        .err = err,
        .abi =
            {
                .struct_size = sizeof session->abi,
                .rank = (uint32_t)request->mesh->rank,
                .ranks = (uint32_t)request->mesh->ranks,
                .dtype = model->config.dtype,
                .exact = request->exact,
                .n_units = model->n_units,
                .microbatches = (uint64_t)request->microbatches,
                .batch = (uint64_t)request->batch,
                .time = (uint64_t)request->time,
                .channels = (uint64_t)model->config.channels,
                .range_unit = CADRE_NORM_CHUNK,
                .h = session,
                .use_axis = use_axis,
                .claim = claim,
                .leaves = leaves,
                .chunk = chunk,
                .place_range = place_range,
                .memory = memory,
                .rank_microbatches = microbatches,
                .live_blocks = live_blocks,
                .grad_dtype = cadre_dtype_wide(model->config.dtype),
            },
    };
}

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

int cadre_leaf_levels(int64_t leaves)
{
    int levels = 0;
    while (((int64_t)1 << levels) < leaves)
        levels++;
    return levels;
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
            (model->tp_size > 1 && model->params[param].split != CADRE_SPLIT_NONE &&
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
            if (strcmp(claim->effect, "param.apart") == 0 &&
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

static cadre_status map_leaves(struct cadre_rank_plan *plan,
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
            "which strategy.stack cannot deal out to %lld data ranks evenly; "
            "change one of them",
            (long long)m, (long long)n);
    plan->leaves = m / n;
    if (request->exact && n > 1 && !plan->cyclic && !power_of_two(plan->leaves))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "run.exact needs a power of two of micro-batches on each rank, "
            "found %lld (train.global_batch / train.micro_batch / ranks); change "
            "one of them",
            (long long)plan->leaves);
    if (request->exact && plan->cyclic && !power_of_two(n))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "run.exact with micro-batches dealt in turn (zero.reduce = microbatch) "
            "needs a power of two of data ranks, found %lld in strategy.stack",
            (long long)n);
    plan->first_leaf = plan->cyclic ? index : index * plan->leaves;
    plan->leaf_stride = plan->cyclic ? n : 1;
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
    return map_leaves(plan, request, err);
}
