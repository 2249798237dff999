/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/plan_session.h"

#include <stdio.h>
#include <string.h>

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
    if (batch < CADRE_BATCH_SPLIT || batch > CADRE_BATCH_INDEPENDENT)
        return cadre_fail(
            s->err, CADRE_E_UNSUPPORTED,
            "plugin '%s': use_axis('%s', %u): expected CADRE_BATCH_SPLIT, "
            "CADRE_BATCH_SAME or CADRE_BATCH_INDEPENDENT",
            s->plugin, axis, batch);
    const struct cadre_axis *other = cadre_mesh_own_runs(s->request->mesh);
    if (batch == CADRE_BATCH_INDEPENDENT && other && other != at)
        return cadre_fail(
            s->err, CADRE_E_UNSUPPORTED,
            "strategy.stack: '%s' makes independent runs along the axis '%s', and "
            "another plugin along '%s'; only one of them can be in the stack",
            s->plugin, axis, other->name);
    at->split_batch = batch == CADRE_BATCH_SPLIT;
    at->own_runs = batch == CADRE_BATCH_INDEPENDENT;
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

static cadre_status plan_microbatch_map(void *h, uint32_t map)
{
    struct cadre_plan_session *s = session_of(h);
    bool cyclic = map == CADRE_MICROBATCHES_CYCLIC;
    if (s->plan->map_owner && s->plan->cyclic != cyclic)
        return cadre_fail(s->err, CADRE_E_UNSUPPORTED,
                          "strategy.stack: '%s' and '%s' want different maps of "
                          "micro-batches to ranks (block and cyclic)",
                          s->plan->map_owner, s->plugin);
    s->plan->cyclic = cyclic;
    s->plan->map_owner = s->plugin;
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
            "plugin '%s': place_range of parameter %u, kind %u: no such parameter "
            "or kind",
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
                .microbatch_map = plan_microbatch_map,
                .chunk = chunk,
                .place_range = place_range,
                .memory = memory,
                .rank_microbatches = microbatches,
                .live_blocks = live_blocks,
                .grad_dtype = cadre_dtype_wide(model->config.dtype),
            },
    };
}
