/* SPDX-License-Identifier: Apache-2.0 */
/* What a plugin claims, reduces, and changes by design. */
#include <stdio.h>
#include <string.h>

#include "core/engine/layout/plan_session_private.h"

/* Effects of the core. */
struct effect {
    const char *name;
    bool on_axis; /* needs an axis */
    bool own_axis; /* of strategy.stack */
    bool once; /* at most one axis of a stack */
};
static const struct effect effects[] = {
    {"schedule.order", true, true, true}, {"device.place", false, false, false},
    {"param.place", true, false, false},  {"opt.shard", true, false, true},
    {"act.complete", true, true, true},   {"seq.shard", true, true, true},
    {"time.shard", true, true, true},     {"expert.shard", true, false, true},
    {"param.diverges", true, true, true}, {"wire.codec", true, false, true},
};

static const struct effect *known_effect(const char *name)
{
    for (size_t i = 0; i < sizeof effects / sizeof *effects; i++)
        if (strcmp(effects[i].name, name) == 0)
            return &effects[i];
    return NULL;
}

/* "com.vendor.thing". */
static bool is_own_effect(const char *name)
{
    const char *first = strchr(name, '.');
    const char *second = first ? strchr(first + 1, '.') : NULL;
    return second && first > name && second > first + 1 && second[1] &&
           name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-.")] == 0;
}

/* ---- claim ---- */

static cadre_status check_effect(struct cadre_plan_session *s, const char *effect,
                                 uint32_t flags)
{
    if (!effect || !*effect)
        return cadre_plan_refuse(s, "claim: the effect is %s, expected a name",
                                 effect ? "empty" : "NULL");
    if (strlen(effect) >= CADRE_EFFECT_CHARS)
        return cadre_plan_refuse(
            s, "claim: the effect '%.64s...' has %zu characters, expected at most %u",
            effect, strlen(effect), CADRE_EFFECT_CHARS - 1);
    bool core = known_effect(effect), diverges = strcmp(effect, "param.diverges") == 0;
    if (!core && !is_own_effect(effect))
        return cadre_plan_refuse(
            s,
            "claim: there is no effect '%s'; expected one of <cadre/plan.h>, or one of "
            "your own with two dots at least, such as com.vendor.thing",
            effect);
    if (diverges && (flags & CADRE_CLAIM_LEAVE))
        return cadre_plan_refuse(
            s,
            "claim of %s: CADRE_CLAIM_LEAVE is reserved for a later version; leave "
            "it out",
            effect);
    uint32_t may = diverges ? CADRE_CLAIM_KEEP_REPLICAS : core ? 0 : CADRE_CLAIM_SHARED;
    if (flags & ~may)
        return cadre_plan_refuse(
            s, "claim of %s with the flags 0x%x, of which it takes only 0x%x", effect,
            flags, may);
    return CADRE_OK;
}

static cadre_status check_effect_axis(struct cadre_plan_session *s, const char *name,
                                      const char *axis)
{
    const struct effect *effect = known_effect(name);
    struct cadre_axis *at = NULL;
    if (axis || (effect && effect->on_axis))
        CADRE_TRY(cadre_plan_find_axis(s, "claim", axis, &at));
    if (effect && effect->own_axis && !cadre_plan_in_stack(s, at))
        return cadre_plan_refuse(
            s,
            "claim of %s@%s: the axis is made of others, expected one of "
            "strategy.stack",
            name, axis);
    for (int i = 0; effect && effect->once && axis && i < s->plan->n_claims; i++) {
        const struct cadre_claim *other = &s->plan->claim[i];
        if (strcmp(other->effect, name) == 0 && strcmp(other->axis, axis) != 0)
            return cadre_plan_conflict(
                s,
                "'%s' claims %s@%s and '%s' claims %s@%s, expected one axis at most; "
                "take one of them out, or claim a product of the axes",
                other->plugin, name, other->axis, s->member.name, name, axis);
    }
    return CADRE_OK;
}

cadre_status cadre_plan_claim(void *h, const char *effect, const char *axis,
                              uint32_t flags)
{
    struct cadre_plan_session *s = cadre_plan_enter(h, "claim");
    if (!s)
        return CADRE_E_INVALID;
    CADRE_TRY(check_effect(s, effect, flags));
    CADRE_TRY(check_effect_axis(s, effect, axis));
    struct cadre_rank_plan *plan = s->plan;
    bool shared = (flags & CADRE_CLAIM_SHARED) && !known_effect(effect);
    const char *where = axis ? axis : "";
    for (int i = 0; i < plan->n_claims; i++) {
        const struct cadre_claim *other = &plan->claim[i];
        if (strcmp(other->effect, effect) != 0 || strcmp(other->axis, where) != 0)
            continue;
        if (!shared || !other->shared)
            return cadre_plan_conflict(
                s,
                "'%s' and '%s' both claim %s%s%s; only one of them can be in the "
                "stack",
                other->plugin, s->member.name, effect, *where ? "@" : "", where);
    }
    if (plan->n_claims == CADRE_MAX_CLAIMS)
        return cadre_plan_conflict(s, "more than %d claims in one stack",
                                   CADRE_MAX_CLAIMS);
    struct cadre_claim *mine = &plan->claim[plan->n_claims++];
    snprintf(mine->effect, sizeof mine->effect, "%s", effect);
    snprintf(mine->axis, sizeof mine->axis, "%s", where);
    mine->plugin = s->member.name;
    mine->shared = shared;
    mine->keeps_replicas = known_effect(effect) && (flags & CADRE_CLAIM_KEEP_REPLICAS);
    return CADRE_OK;
}

/* ---- reduces ---- */

cadre_status cadre_plan_reduces(void *h, const char *axis, uint32_t level)
{
    struct cadre_plan_session *s = cadre_plan_enter(h, "reduces");
    struct cadre_axis *at;
    if (!s)
        return CADRE_E_INVALID;
    CADRE_TRY(cadre_plan_find_axis(s, "reduces", axis, &at));
    if (s->member.role == CADRE_ROLE_PLACEMENT ||
        s->member.role == CADRE_ROLE_OPTIMIZER)
        return cadre_plan_refuse(s,
                                 "reduces('%s'): a plugin of its role gets no "
                                 "gradients; use the role CADRE_ROLE_DATA",
                                 axis);
    if (level >= CADRE_NO_LEVEL)
        return cadre_plan_refuse(s, "reduces('%s') at level %u, expected 0 to %u", axis,
                                 level, CADRE_NO_LEVEL - 1);
    for (int i = 0; i < s->plan->n_reducers; i++) {
        const struct cadre_reducer *other = &s->plan->reducer[i];
        if (cadre_plan_is_me(s, other->plugin))
            return cadre_plan_refuse(
                s,
                "reduces('%s') after reduces('%s'), expected one call; to reduce "
                "along both, name a product of them",
                axis, other->axis->name);
        if (other->axis == at)
            return cadre_plan_conflict(
                s,
                "'%s' and '%s' both reduce gradients along '%s'; only one of them "
                "can be in the stack",
                other->plugin, s->member.name, axis);
    }
    if (s->plan->n_reducers < CADRE_MAX_INSTANCES)
        s->plan->reducer[s->plan->n_reducers++] = (struct cadre_reducer){
            .plugin = s->member.name, .axis = at, .level = level};
    return CADRE_OK;
}

/* ---- by_design ---- */

/* "key = value" of n characters, the key with or without its section? */
static bool is_setting(const char *text, size_t n)
{
    static const char blank[] = " \t";
    const char *end = text + n, *equals = memchr(text, '=', n);
    if (!equals)
        return false;
    text += strspn(text, blank);
    size_t key = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_.@");
    const char *after = text + key;
    const char *value = equals + 1 + strspn(equals + 1, blank);
    return key > 0 && after + strspn(after, blank) == equals && *text != '.' &&
           after[-1] != '.' && value < end;
}

static bool are_settings(const char *text)
{
    for (;; text++) {
        size_t n = strcspn(text, ",");
        if (!is_setting(text, n))
            return false;
        text += n;
        if (!*text)
            return true;
    }
}

cadre_status cadre_plan_by_design(void *h, const char *equal)
{
    struct cadre_plan_session *s = cadre_plan_enter(h, "by_design");
    if (!s)
        return CADRE_E_INVALID;
    if (!equal || !are_settings(equal) || strlen(equal) >= CADRE_EQUAL_CHARS)
        return cadre_plan_refuse(
            s,
            "by_design: '%.80s' is no setting under which the training equals that of "
            "the other strategies; expected \"key=value, ...\" of at most %d "
            "characters, such as \"period=1\"",
            equal ? equal : "(NULL)", CADRE_EQUAL_CHARS - 1);
    for (int i = 0; i < s->plan->n_designs; i++)
        if (cadre_plan_is_me(s, s->plan->design[i].plugin))
            return cadre_plan_refuse(s,
                                     "by_design('%.80s') after by_design('%.80s'), "
                                     "expected one call with all settings",
                                     equal, s->plan->design[i].equal);
    if (s->plan->n_designs < CADRE_MAX_INSTANCES) {
        struct cadre_design *design = &s->plan->design[s->plan->n_designs++];
        design->plugin = s->member.name;
        snprintf(design->equal, sizeof design->equal, "%s", equal);
    }
    return CADRE_OK;
}
