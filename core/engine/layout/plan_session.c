/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/plan_session_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/tensor/dtype.h"

#define MAX_PERIOD UINT64_C(1000000)

/* ---- refusals ---- */

struct cadre_plan_session *cadre_plan_enter(void *h, const char *function)
{
    struct cadre_plan_session *session = h;
    if (session && session->plan)
        return session;
    if (!session)
        cadre_log(CADRE_LOG_ERROR, "strategy",
                  "a plugin calls %s of struct cadre_plan with NULL in place of h",
                  function);
    else if (session->err->code == CADRE_OK)
        cadre_fail(
            session->err, CADRE_E_UNSUPPORTED,
            "plugin '%s' in plan: %s of struct cadre_plan is called after plan has "
            "returned; call it in plan only",
            session->member.name, function);
    return NULL;
}

__attribute__((format(printf, 3, 0))) static cadre_status
record(struct cadre_plan_session *s, const char *who, const char *fmt, va_list ap)
{
    char text[768];
    vsnprintf(text, sizeof text, fmt, ap);
    if (s->err->code == CADRE_OK)
        cadre_fail(s->err, CADRE_E_UNSUPPORTED, "%s: %s", who, text);
    return CADRE_E_UNSUPPORTED;
}

cadre_status cadre_plan_refuse(struct cadre_plan_session *s, const char *fmt, ...)
{
    char who[128];
    va_list ap;
    snprintf(who, sizeof who, "plugin '%s' in plan", s->member.name);
    va_start(ap, fmt);
    cadre_status rc = record(s, who, fmt, ap);
    va_end(ap);
    return rc;
}

cadre_status cadre_plan_conflict(struct cadre_plan_session *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cadre_status rc = record(s, "strategy.stack", fmt, ap);
    va_end(ap);
    return rc;
}

bool cadre_plan_is_me(const struct cadre_plan_session *s, const char *plugin)
{
    return plugin && strcmp(plugin, s->member.name) == 0;
}

/* ---- axes ---- */

cadre_status cadre_plan_find_axis(struct cadre_plan_session *s, const char *function,
                                  const char *name, struct cadre_axis **out)
{
    const char *own = s->member.axis ? s->member.axis : "(none)";
    *out = NULL;
    if (!name)
        return cadre_plan_refuse(
            s, "%s: the axis is NULL, expected a name; the plugin's own is '%s'",
            function, own);
    *out = cadre_mesh_axis(s->request->mesh, name);
    if (*out)
        return CADRE_OK;
    return cadre_plan_refuse(
        s,
        "%s uses the axis '%.64s', which this run does not have; the plugin's own is "
        "'%s' (plan->axis)",
        function, name, own);
}

bool cadre_plan_in_stack(const struct cadre_plan_session *s,
                         const struct cadre_axis *axis)
{
    const struct cadre_mesh *mesh = s->request->mesh;
    for (int i = 0; i < mesh->n; i++)
        if (axis == &mesh->axis[i])
            return true;
    return false;
}

static const char *use_name(uint32_t batch)
{
    static const char *const names[] = {"",
                                        "CADRE_BATCH_SPLIT",
                                        "CADRE_BATCH_SAME",
                                        "CADRE_BATCH_INDEPENDENT",
                                        "CADRE_BATCH_TIME",
                                        "CADRE_BATCH_FREE"};
    return names[batch];
}

static uint32_t use_of(const struct cadre_axis *axis)
{
    return axis->split_batch  ? CADRE_BATCH_SPLIT
           : axis->split_time ? CADRE_BATCH_TIME
           : axis->own_runs   ? CADRE_BATCH_INDEPENDENT
                              : CADRE_BATCH_SAME;
}

static cadre_status check_use(struct cadre_plan_session *s, const struct cadre_axis *at,
                              uint32_t batch)
{
    const struct cadre_axis *other = cadre_mesh_own_runs(s->request->mesh);
    if (batch < CADRE_BATCH_SPLIT || batch > CADRE_BATCH_FREE)
        return cadre_plan_refuse(
            s,
            "use_axis('%s', %u): expected CADRE_BATCH_SPLIT, CADRE_BATCH_SAME, "
            "CADRE_BATCH_INDEPENDENT or CADRE_BATCH_TIME",
            at->name, batch);
    if (batch == CADRE_BATCH_FREE)
        return cadre_plan_refuse(
            s,
            "use_axis('%s', CADRE_BATCH_FREE): ranks that meet in DRAIN only are "
            "reserved for a later version; use CADRE_BATCH_SPLIT",
            at->name);
    if (!cadre_plan_in_stack(s, at))
        return cadre_plan_refuse(
            s,
            "use_axis('%s'): it is made of other axes, expected one of strategy.stack",
            at->name);
    if (batch == CADRE_BATCH_INDEPENDENT && other && other != at)
        return cadre_plan_conflict(
            s,
            "'%s' makes independent runs along the axis '%s', and another plugin along "
            "'%s'; only one of them can be in the stack",
            s->member.name, at->name, other->name);
    if (at->user && !cadre_plan_is_me(s, at->user) && use_of(at) != batch)
        return cadre_plan_conflict(
            s,
            "'%s' uses the axis '%s' as %s, and '%s' as %s; name another axis for one "
            "of them (PLUGIN@AXIS)",
            at->user, at->name, use_name(use_of(at)), s->member.name, use_name(batch));
    return CADRE_OK;
}

static cadre_status use_axis(void *h, const char *axis, uint32_t batch)
{
    struct cadre_plan_session *s = cadre_plan_enter(h, "use_axis");
    struct cadre_axis *at = NULL;
    if (!s)
        return CADRE_E_INVALID;
    CADRE_TRY(cadre_plan_find_axis(s, "use_axis", axis, &at));
    if (!at)
        return CADRE_E_INVALID;
    CADRE_TRY(check_use(s, at, batch));
    at->user = s->member.name;
    at->split_batch = batch == CADRE_BATCH_SPLIT;
    at->split_time = batch == CADRE_BATCH_TIME;
    at->own_runs = batch == CADRE_BATCH_INDEPENDENT;
    return CADRE_OK;
}

static cadre_status product_axis(void *h, const char *product)
{
    struct cadre_plan_session *s = cadre_plan_enter(h, "product_axis");
    struct cadre_error why = {0};
    if (!s)
        return CADRE_E_INVALID;
    if (!product)
        return cadre_plan_refuse(s, "product_axis: the product is NULL, expected axes "
                                    "such as \"rep*dp\"");
    cadre_status rc =
        cadre_mesh_product(s->request->mesh, product, s->member.name, &why);
    return rc == CADRE_OK ? rc : cadre_plan_refuse(s, "product_axis: %s", why.text);
}

static cadre_status split_axis(void *h, const char *axis, uint32_t inner)
{
    struct cadre_plan_session *s = cadre_plan_enter(h, "split_axis");
    struct cadre_error why = {0};
    struct cadre_axis *at;
    if (!s)
        return CADRE_E_INVALID;
    CADRE_TRY(cadre_plan_find_axis(s, "split_axis", axis, &at));
    cadre_status rc =
        cadre_mesh_split(s->request->mesh, axis, inner, s->member.name, &why);
    return rc == CADRE_OK ? rc : cadre_plan_refuse(s, "split_axis: %s", why.text);
}

/* ---- micro-batches ---- */

/* Entries of `first`, 0 where they do not ascend from 0 to M. Entries after one of M
 * are not read: they are beyond the array. */
static int count_ranges(const struct cadre_plan_session *s, const uint64_t *first)
{
    const uint64_t last = (uint64_t)s->request->microbatches;
    int n = 1;
    if (first[0] != 0)
        return 0;
    for (; first[n - 1] < last; n++)
        if (n > s->request->mesh->ranks || first[n] <= first[n - 1])
            return 0;
    return first[n - 1] == last ? n : 0;
}

static cadre_status check_map(struct cadre_plan_session *s, uint32_t map,
                              const uint64_t *first)
{
    if (map < CADRE_MICROBATCHES_BLOCK || map > CADRE_MICROBATCHES_RANGES)
        return cadre_plan_refuse(s,
                                 "microbatch_map(%u): expected "
                                 "CADRE_MICROBATCHES_BLOCK, _CYCLIC or _RANGES",
                                 map);
    if ((map == CADRE_MICROBATCHES_RANGES) != (first != NULL))
        return cadre_plan_refuse(s,
                                 "microbatch_map(%u): `first` is %s, expected it of "
                                 "CADRE_MICROBATCHES_RANGES and of no other map",
                                 map, first ? "given" : "NULL");
    if (first && count_ranges(s, first) == 0)
        return cadre_plan_refuse(
            s,
            "microbatch_map(CADRE_MICROBATCHES_RANGES): `first` does not ascend from 0 "
            "to %lld in at most %d entries; expected one entry more than data ranks, "
            "each larger than the one before",
            (long long)s->request->microbatches, s->request->mesh->ranks + 1);
    return CADRE_OK;
}

static cadre_status microbatch_map(void *h, uint32_t map, const uint64_t *first)
{
    static const char *const names[] = {"", "block", "cyclic", "ranges"};
    struct cadre_plan_session *s = cadre_plan_enter(h, "microbatch_map");
    if (!s)
        return CADRE_E_INVALID;
    CADRE_TRY(check_map(s, map, first));
    struct cadre_rank_plan *plan = s->plan;
    int n = first ? count_ranges(s, first) : 0;
    bool same = plan->map == map && plan->n_first == n &&
                (n == 0 || memcmp(plan->first, first, (size_t)n * sizeof *first) == 0);
    if (plan->map_owner && !same && !cadre_plan_is_me(s, plan->map_owner))
        return cadre_plan_conflict(
            s,
            "'%s' and '%s' want different maps of micro-batches to ranks (%s and %s)",
            plan->map_owner, s->member.name, names[plan->map], names[map]);
    if (!same) {
        uint64_t *copy = n ? cadre_calloc((size_t)n, sizeof *copy) : NULL;
        if (n && !copy)
            return cadre_plan_refuse(s, "microbatch_map: no memory for %d entries", n);
        if (n)
            memcpy(copy, first, (size_t)n * sizeof *copy);
        free(plan->first);
        plan->first = copy;
        plan->n_first = n;
    }
    plan->map = map;
    plan->cyclic = map == CADRE_MICROBATCHES_CYCLIC;
    plan->map_owner = plan->map_owner ? plan->map_owner : s->member.name;
    return CADRE_OK;
}

static cadre_status period(void *h, uint64_t n)
{
    struct cadre_plan_session *s = cadre_plan_enter(h, "period");
    if (!s)
        return CADRE_E_INVALID;
    if (n == 0 || n > MAX_PERIOD)
        return cadre_plan_refuse(s, "period(%llu): expected 1 to %llu steps",
                                 (unsigned long long)n, (unsigned long long)MAX_PERIOD);
    struct cadre_rank_plan *plan = s->plan;
    for (int i = 0; i < plan->n_periods; i++)
        if (cadre_plan_is_me(s, plan->period[i].plugin)) {
            plan->period[i].n = n;
            return CADRE_OK;
        }
    if (plan->n_periods < CADRE_MAX_INSTANCES)
        plan->period[plan->n_periods++] = (struct cadre_period){s->member.name, n};
    return CADRE_OK;
}

/* ---- the schedule ---- */

static cadre_status check_schedule(struct cadre_plan_session *s, const char *function)
{
    if (s->member.role == CADRE_ROLE_SCHEDULE)
        return CADRE_OK;
    return cadre_plan_refuse(s,
                             "%s: only a plugin of the role CADRE_ROLE_SCHEDULE "
                             "distributes units; leave the call out",
                             function);
}

static cadre_status chunk(void *h, uint32_t begin, uint32_t end, uint32_t live,
                          uint32_t flags)
{
    struct cadre_plan_session *s = cadre_plan_enter(h, "chunk");
    if (!s)
        return CADRE_E_INVALID;
    struct cadre_rank_plan *plan = s->plan;
    CADRE_TRY(check_schedule(s, "chunk"));
    if (begin >= end || end > s->request->model->n_units || live == 0)
        return cadre_plan_refuse(s,
                                 "chunk of units [%u, %u) with %u slots, expected "
                                 "0 <= begin < end <= %u and at least one slot",
                                 begin, end, live, s->request->model->n_units);
    if (flags & ~CADRE_LIVE_SPLIT)
        return cadre_plan_refuse(s,
                                 "chunk with the flags 0x%x, of which it takes only "
                                 "CADRE_LIVE_SPLIT",
                                 flags);
    if (plan->n_chunks == CADRE_MAX_CHUNKS)
        return cadre_plan_refuse(s, "more than %d chunks on one rank",
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
    struct cadre_plan_session *s = cadre_plan_enter(h, "live_blocks");
    if (!s)
        return CADRE_E_INVALID;
    CADRE_TRY(check_schedule(s, "live_blocks"));
    s->plan->live_blocks = n;
    return CADRE_OK;
}

/* ---- the session ---- */

static uint64_t rank_microbatches(const struct cadre_plan_request *request)
{
    if (request->rank_microbatches > 0)
        return (uint64_t)request->rank_microbatches;
    int ranks = request->data_ranks > 1 ? request->data_ranks : 1;
    return (uint64_t)(request->microbatches / ranks);
}

static int64_t rank_time(const struct cadre_plan_request *request)
{
    return request->time / (request->time_ranks > 1 ? request->time_ranks : 1);
}

void cadre_plan_session_init(struct cadre_plan_session *session,
                             struct cadre_rank_plan *plan,
                             const struct cadre_plan_request *request,
                             const struct cadre_plan_member *member,
                             struct cadre_error *err)
{
    const struct cadre_model *model = request->model;
    if (plan->n_members < CADRE_MAX_INSTANCES)
        plan->member[plan->n_members++] = member->name;
    *session = (struct cadre_plan_session){
        .plan = plan,
        .request = request,
        .member = *member,
        .err = err,
        .abi =
            {
                .struct_size = sizeof session->abi,
                .h = session,
                .axis = member->axis,
                .rank = (uint32_t)request->mesh->rank,
                .ranks = (uint32_t)request->mesh->ranks,
                .dtype = model->config.dtype,
                .grad_dtype = cadre_dtype_wide(model->config.dtype),
                .exact = request->exact,
                .n_units = model->n_units,
                .microbatches = (uint64_t)request->microbatches,
                .rank_microbatches = rank_microbatches(request),
                .batch = (uint64_t)request->batch,
                .time = (uint64_t)rank_time(request),
                .channels = (uint64_t)model->config.channels,
                .range_unit = CADRE_NORM_CHUNK,
                .use_axis = use_axis,
                .claim = cadre_plan_claim,
                .reduces = cadre_plan_reduces,
                .by_design = cadre_plan_by_design,
                .microbatch_map = microbatch_map,
                .period = period,
                .chunk = chunk,
                .live_blocks = live_blocks,
                .place_range = cadre_plan_place_range,
                .memory = cadre_plan_memory,
                .train = cadre_plan_train,
                .store = cadre_plan_store,
                .product_axis = product_axis,
                .split_axis = split_axis,
                .opt_state = cadre_plan_opt_state,
                .opt_matrix = cadre_plan_opt_matrix,
            },
    };
}

void cadre_plan_session_end(struct cadre_plan_session *session)
{
    session->plan = NULL;
    session->request = NULL;
}
