/* SPDX-License-Identifier: Apache-2.0 */
/* What a plugin plans for parameters, and the memory that it announces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/engine/layout/plan_session_private.h"
#include "core/plugin/plugin.h"
#include "core/tensor/dtype.h"

#define MAX_BYTES (UINT64_C(1) << 60)

static const struct cadre_param *model_param(const struct cadre_plan_session *s,
                                             uint32_t param)
{
    return &s->request->model->params[param];
}

/* An entry of the model that owns its weight. */
static cadre_status check_entry(struct cadre_plan_session *s, const char *function,
                                uint32_t param)
{
    if (param >= s->plan->n_params)
        return cadre_plan_refuse(s,
                                 "%s of parameter %u, expected less than %u (n_params "
                                 "of cadre.model)",
                                 function, param, s->plan->n_params);
    const struct cadre_param *p = model_param(s, param);
    if (p->tied_to < 0)
        return CADRE_OK;
    return cadre_plan_refuse(s, "%s of '%s', which is tied to '%s'; name that one",
                             function, p->name,
                             model_param(s, (uint32_t)p->tied_to)->name);
}

/* ---- ranges ---- */

static cadre_status check_range(struct cadre_plan_session *s, uint32_t param,
                                uint32_t kind, uint64_t begin, uint64_t count)
{
    const char *name = model_param(s, param)->name;
    bool stored = kind == CADRE_KIND_PARAM;
    uint64_t size = stored ? cadre_rank_plan_stored(s->plan, param)
                           : cadre_shape_count(&model_param(s, param)->local);
    uint32_t elements = 1, bytes = 1;
    if (stored)
        cadre_rank_plan_block(s->plan, param, &elements, &bytes);
    const char *what = elements > 1 ? "bytes" : "elements";
    if (begin > size || count > size - begin)
        return cadre_plan_refuse(s, "range [%llu, +%llu) of '%s', which has %llu %s",
                                 (unsigned long long)begin, (unsigned long long)count,
                                 name, (unsigned long long)size, what);
    if (elements > 1 && (begin % bytes != 0 || count % bytes != 0))
        return cadre_plan_refuse(
            s,
            "range [%llu, +%llu) of '%s', expected whole blocks of %u bytes: it is "
            "stored in another form",
            (unsigned long long)begin, (unsigned long long)count, name, bytes);
    if (kind == CADRE_KIND_OPT && count > 0 &&
        (begin % CADRE_NORM_CHUNK != 0 ||
         (count % CADRE_NORM_CHUNK != 0 && begin + count != size)))
        return cadre_plan_refuse(
            s,
            "optimizer range [%llu, +%llu) of '%s', expected whole units of %d "
            "elements (range_unit)",
            (unsigned long long)begin, (unsigned long long)count, name,
            CADRE_NORM_CHUNK);
    return CADRE_OK;
}

cadre_status cadre_plan_place_range(void *h, cadre_param_id param, uint32_t kind,
                                    uint64_t begin, uint64_t count, uint32_t space)
{
    struct cadre_plan_session *s = cadre_plan_enter(h, "place_range");
    if (!s)
        return CADRE_E_INVALID;
    if (param >= s->plan->n_params || kind < CADRE_KIND_PARAM || kind > CADRE_KIND_OPT)
        return cadre_plan_refuse(
            s, "place_range of parameter %u, kind %u: no such parameter or kind", param,
            kind);
    CADRE_TRY(check_range(s, param, kind, begin, count));
    struct cadre_plan_param *at = &s->plan->param[param];
    const char *name = model_param(s, param)->name;
    if (space > CADRE_SPACE_HOST ||
        (space != CADRE_SPACE_DEVICE && kind != CADRE_KIND_OPT))
        return cadre_plan_refuse(
            s,
            "place_range of '%s', kind %u, in space %u; only optimizer states can "
            "lie outside the device",
            name, kind, space);
    if (at->share[kind].placed)
        return cadre_plan_conflict(
            s,
            "'%s' places '%s', kind %u, which '%s' placed already; only one of them "
            "can be in the stack",
            s->member.name, name, kind, at->placer[kind]);
    at->share[kind] = (struct cadre_share){true, begin, count, space};
    at->placer[kind] = s->member.name;
    return CADRE_OK;
}

/* ---- memory ---- */

cadre_status cadre_plan_memory(void *h, uint32_t space, uint64_t bytes, const char *tag)
{
    struct cadre_plan_session *s = cadre_plan_enter(h, "memory");
    char row[CADRE_LEDGER_TAG_CHARS];
    if (!s)
        return CADRE_E_INVALID;
    if (!tag || !*tag || strlen(tag) >= CADRE_TAG_CHARS)
        return cadre_plan_refuse(s,
                                 "memory with the tag '%.40s', expected 1 to %u "
                                 "characters",
                                 tag ? tag : "(NULL)", CADRE_TAG_CHARS - 1);
    if (space > CADRE_SPACE_HOST || bytes > MAX_BYTES)
        return cadre_plan_refuse(s,
                                 "memory of %llu bytes in space %u ('%s'), expected "
                                 "at most 2^60 in CADRE_SPACE_DEVICE, _PINNED or "
                                 "_HOST",
                                 (unsigned long long)bytes, space, tag);
    struct cadre_rank_plan *plan = s->plan;
    struct cadre_budget *budget =
        cadre_rank_plan_find_budget(plan, s->member.name, space, tag);
    if (!budget && plan->n_budgets == CADRE_MAX_BUDGETS)
        return cadre_plan_refuse(s, "memory: more than %d tags in one stack",
                                 CADRE_MAX_BUDGETS);
    if (!budget) {
        budget = &plan->budget[plan->n_budgets++];
        *budget = (struct cadre_budget){.plugin = s->member.name, .space = space};
        snprintf(budget->tag, sizeof budget->tag, "%s", tag);
    }
    budget->bytes += bytes;
    cadre_ledger_note(&plan->planned, space, bytes,
                      cadre_ledger_tag(row, s->member.name, tag));
    return CADRE_OK;
}

/* ---- frozen parameters and their form ---- */

cadre_status cadre_plan_train(void *h, cadre_param_id param, uint32_t on)
{
    struct cadre_plan_session *s = cadre_plan_enter(h, "train");
    if (!s)
        return CADRE_E_INVALID;
    CADRE_TRY(check_entry(s, "train", param));
    struct cadre_plan_param *at = &s->plan->param[param];
    const char *name = model_param(s, param)->name;
    if (on > 1)
        return cadre_plan_refuse(s, "train('%s', %u), expected 0 (frozen) or 1", name,
                                 on);
    if (on && at->froze && !cadre_plan_is_me(s, at->froze))
        return cadre_plan_conflict(s,
                                   "'%s' trains '%s', which '%s' has frozen; only one "
                                   "of them can be in the stack",
                                   s->member.name, name, at->froze);
    at->frozen = !on;
    at->froze = on ? NULL : s->member.name;
    return CADRE_OK;
}

cadre_status cadre_plan_store(void *h, cadre_param_id param, uint32_t form)
{
    struct cadre_plan_session *s = cadre_plan_enter(h, "store");
    if (!s)
        return CADRE_E_INVALID;
    CADRE_TRY(check_entry(s, "store", param));
    struct cadre_plan_param *at = &s->plan->param[param];
    const char *name = model_param(s, param)->name;
    if (form != CADRE_FORM_PLAIN && form != CADRE_FORM_INT8 && form != CADRE_FORM_NF4)
        return cadre_plan_refuse(s,
                                 "store('%s', %u): this version does not know the "
                                 "form; expected CADRE_FORM_PLAIN, CADRE_FORM_INT8 or "
                                 "CADRE_FORM_NF4",
                                 name, form);
    if (at->stored && !cadre_plan_is_me(s, at->stored) && at->form != form)
        return cadre_plan_conflict(s,
                                   "'%s' and '%s' store '%s' in different forms; only "
                                   "one of them can be in the stack",
                                   at->stored, s->member.name, name);
    at->form = form;
    at->stored = s->member.name;
    return CADRE_OK;
}

/* ---- the optimizer's ---- */

static cadre_status check_optimizer(struct cadre_plan_session *s, const char *function)
{
    if (s->member.role == CADRE_ROLE_OPTIMIZER)
        return CADRE_OK;
    return cadre_plan_refuse(s,
                             "%s: only a plugin of the role CADRE_ROLE_OPTIMIZER "
                             "updates parameters; keep states in cadre.mem",
                             function);
}

static cadre_status check_state(struct cadre_plan_session *s,
                                const struct cadre_opt_state *state)
{
    const char *key = state->key;
    CADRE_TRY(check_entry(s, "opt_state", state->param));
    const struct cadre_param *p = model_param(s, state->param);
    if (!key || !*key || strlen(key) >= CADRE_KEY_CHARS ||
        key[strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_")])
        return cadre_plan_refuse(s,
                                 "opt_state of '%s' with the key '%.60s', expected 1 "
                                 "to %u of [a-z0-9_]",
                                 p->name, key ? key : "(NULL)", CADRE_KEY_CHARS - 1);
    if (state->dtype < CADRE_F32 || state->dtype > CADRE_I8)
        return cadre_plan_refuse(s,
                                 "opt_state '%s' of '%s' with the dtype %u, expected "
                                 "one of CADRE_F32 to CADRE_I8",
                                 key, p->name, state->dtype);
    if (state->extent < CADRE_OPT_ELEMENTS || state->extent > CADRE_OPT_COLUMNS)
        return cadre_plan_refuse(s,
                                 "opt_state '%s' of '%s' with the extent %u, expected "
                                 "CADRE_OPT_ELEMENTS, _ROWS or _COLUMNS",
                                 key, p->name, state->extent);
    uint32_t most = state->extent == CADRE_OPT_ELEMENTS ? CADRE_NORM_CHUNK : 1;
    if (state->block == 0 || most % state->block != 0)
        return cadre_plan_refuse(s,
                                 "opt_state '%s' of '%s' with blocks of %u, expected "
                                 "a divisor of %u (range_unit; 1 for _ROWS and "
                                 "_COLUMNS)",
                                 key, p->name, state->block, most);
    for (uint32_t i = 0; i < s->plan->n_states; i++)
        if (s->plan->state[i].param == state->param &&
            strcmp(s->plan->state[i].key, key) == 0)
            return cadre_plan_refuse(s, "opt_state '%s' of '%s' twice; use another key",
                                     key, p->name);
    return CADRE_OK;
}

cadre_status cadre_plan_opt_state(void *h, const struct cadre_opt_state *state)
{
    struct cadre_plan_session *s = cadre_plan_enter(h, "opt_state");
    struct cadre_opt_state copy;
    if (!s)
        return CADRE_E_INVALID;
    CADRE_TRY(check_optimizer(s, "opt_state"));
    if (!state || state->struct_size < offsetof(struct cadre_opt_state, pad_))
        return cadre_plan_refuse(s,
                                 "opt_state: the state %s, expected a struct "
                                 "cadre_opt_state with struct_size set by sizeof",
                                 state ? "is too small" : "is NULL");
    cadre_struct_copy(&copy, sizeof copy, state, state->struct_size);
    CADRE_TRY(check_state(s, &copy));
    struct cadre_rank_plan *plan = s->plan;
    struct cadre_plan_state *grown =
        cadre_realloc(plan->state, plan->n_states + 1, sizeof *grown);
    if (!grown)
        return cadre_plan_refuse(s, "opt_state: no memory for %u states",
                                 plan->n_states + 1);
    plan->state = grown;
    grown = &plan->state[plan->n_states++];
    *grown = (struct cadre_plan_state){.param = copy.param,
                                       .dtype = copy.dtype,
                                       .extent = copy.extent,
                                       .block = copy.block};
    snprintf(grown->key, sizeof grown->key, "%s", copy.key);
    return CADRE_OK;
}

cadre_status cadre_plan_opt_matrix(void *h, cadre_param_id param)
{
    struct cadre_plan_session *s = cadre_plan_enter(h, "opt_matrix");
    if (!s)
        return CADRE_E_INVALID;
    CADRE_TRY(check_optimizer(s, "opt_matrix"));
    CADRE_TRY(check_entry(s, "opt_matrix", param));
    const struct cadre_param *p = model_param(s, param);
    if (p->shape.ndim < 1 || p->shape.ndim > 2)
        return cadre_plan_refuse(s,
                                 "opt_matrix of '%s', which has %u dimensions, "
                                 "expected 1 or 2",
                                 p->name, p->shape.ndim);
    s->plan->param[param].matrix = true;
    return CADRE_OK;
}
