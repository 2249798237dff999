/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of an OPTIMIZER plugin, and the requests of a PLACEMENT plugin. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/check/rehearsal/private.h"

#define STATES 16u

struct update { /* of one parameter */
    uint32_t e;
    char *grad, *value;
    uint32_t n_states;
    struct cadre_buf state[STATES];
    uint32_t extent[STATES];
};

static uint64_t state_count(const struct cadre_player *p,
                            const struct cadre_opt_state *state)
{
    uint64_t shape[2];
    play_entry_shape(state->param, shape);
    if (state->extent == CADRE_OPT_ROWS)
        return shape[0];
    if (state->extent == CADRE_OPT_COLUMNS)
        return shape[1];
    return (p->entry[state->param].part[OWNED].count + state->block - 1) / state->block;
}

static cadre_status make_states(struct cadre_player *p, struct update *u)
{
    for (uint32_t i = 0; i < p->plan.n_states; i++) {
        const struct cadre_opt_state *state = &p->plan.opt_state[i];
        if (state->param != u->e)
            continue;
        if (u->n_states == STATES)
            return play_beyond(p, "room for that many states of a parameter");
        struct cadre_buf *buf = &u->state[u->n_states];
        *buf = (struct cadre_buf){NULL, state_count(p, state), state->dtype,
                                  CADRE_SPACE_DEVICE};
        /* a margin, of which the plugin has no part */
        buf->data = cadre_calloc(play_buf_bytes(buf) + 64, 1);
        if (!buf->data)
            return CADRE_E_RESOURCE;
        memset((char *)buf->data + play_buf_bytes(buf), 0xa5, 64);
        u->extent[u->n_states++] = state->extent;
    }
    return CADRE_OK;
}

static cadre_status run_stage(struct cadre_player *p, struct update *u, uint32_t stage)
{
    const struct entry *entry = &p->entry[u->e];
    struct cadre_buf some[STATES];
    uint32_t n = 0;
    uint64_t shape[2];
    play_entry_shape(u->e, shape);
    for (uint32_t i = 0; i < u->n_states; i++)
        if ((stage == CADRE_UPDATE_MATRIX) == (u->extent[i] != CADRE_OPT_ELEMENTS))
            some[n++] = u->state[i];
    const struct cadre_update_ev ev = {
        .struct_size = sizeof ev,
        .stage = stage,
        .param = u->e,
        .n_states = n,
        .step = p->step,
        .lr = 0.25,
        .weight_decay = 0.125,
        .rows = stage == CADRE_UPDATE_MATRIX ? shape[0] : 0,
        .columns = stage == CADRE_UPDATE_MATRIX ? shape[1] : 0,
        .grad = {u->grad, entry->count, p->all->dtype, CADRE_SPACE_DEVICE},
        .value = {stage == CADRE_UPDATE_APPLY ? u->value : NULL,
                  stage == CADRE_UPDATE_APPLY ? entry->count : 0, p->all->dtype,
                  CADRE_SPACE_DEVICE},
        .state = some,
    };
    return CALLBACK(
        p, IN_UPDATE, "update",
        p->all->ops->update(p->self, play_present(p, SLOT_UPDATE, &ev, sizeof ev)));
}

static cadre_status check_update(struct cadre_player *p, const struct update *u)
{
    for (uint32_t i = 0; i < u->n_states; i++)
        for (uint32_t k = 0; k < 64; k++)
            if (((unsigned char *)u->state[i].data)[play_buf_bytes(&u->state[i]) + k] !=
                0xa5)
                return play_refuse(
                    p, CADRE_RULE_MEMORY,
                    "wrote beyond a state of '%s', which has %llu elements",
                    play_entry_name(u->e), (unsigned long long)u->state[i].count);
    for (uint64_t k = 0; k < p->entry[u->e].count; k++)
        if (!isfinite(play_get_value(p->all->dtype, u->value, k)))
            return play_refuse(
                p, CADRE_RULE_VALUES,
                "'%s' is not finite at element %llu after its update, whose "
                "gradient was",
                play_entry_name(u->e), (unsigned long long)k);
    return CADRE_OK;
}

static cadre_status run_entry(struct cadre_player *p, struct update *u)
{
    const struct entry *entry = &p->entry[u->e];
    CADRE_TRY(make_states(p, u));
    u->grad = cadre_calloc(entry->count, p->all->element);
    u->value = cadre_calloc(entry->count, p->all->element);
    if (!u->grad || !u->value)
        return CADRE_E_RESOURCE;
    for (uint64_t k = 0; k < entry->count; k++) {
        play_put_value(p->all->dtype, u->grad, k,
                       play_microbatch_gradient(p->step, 0, u->e, k));
        play_put_value(p->all->dtype, u->value, k, play_first_value(u->e, k));
    }
    CADRE_TRY(run_stage(p, u, CADRE_UPDATE_PREPARE));
    if (p->plan.opt_matrix[u->e])
        CADRE_TRY(run_stage(p, u, CADRE_UPDATE_MATRIX));
    CADRE_TRY(run_stage(p, u, CADRE_UPDATE_APPLY));
    return check_update(p, u);
}

cadre_status play_run_updates(struct cadre_player *p)
{
    cadre_status rc = CADRE_OK;
    if (!p->all->ops->update)
        return play_refuse(p, CADRE_RULE_EFFECT,
                           "an OPTIMIZER without update in its ops");
    for (uint32_t e = 0; e < ENTRIES && rc == CADRE_OK; e++) {
        struct update u = {.e = e};
        if (play_entry_tied_to(e) >= 0 || p->entry[e].frozen)
            continue;
        rc = run_entry(p, &u);
        for (uint32_t i = 0; i < u.n_states; i++)
            free(u.state[i].data);
        free(u.grad);
        free(u.value);
    }
    return rc;
}

/* ---- placement ---- */

static cadre_status place_env(void *h, const char *name, const char *value)
{
    struct cadre_player *p = h;
    CADRE_TRY(play_enter(p, IN_PLACE, "place.env"));
    if (!name || !value || !*name || strchr(name, '=') ||
        strncmp(name, "CADRE_", 6) == 0)
        return play_refuse(
            p, CADRE_RULE_ARGUMENT,
            "place.env of the variable '%s': a name without '=', that does not "
            "begin with CADRE_, and a value",
            name ? name : "(none)");
    return CADRE_OK;
}

static cadre_status place_cpus(void *h, const uint32_t *cpu, uint32_t n)
{
    struct cadre_player *p = h;
    CADRE_TRY(play_enter(p, IN_PLACE, "place.cpus"));
    for (uint32_t i = 0; cpu && i < n; i++)
        if (cpu[i] >= (uint32_t)CADRE_REHEARSAL_RANKS)
            return play_refuse(p, CADRE_RULE_ARGUMENT,
                               "place.cpus of CPU %u, which is none of those given",
                               cpu[i]);
    return cpu && n ? CADRE_OK
                    : play_refuse(p, CADRE_RULE_ARGUMENT, "place.cpus without CPUs");
}

cadre_status play_run_place(struct cadre_player *p)
{
    static const uint32_t cpus[CADRE_REHEARSAL_RANKS] = {0, 1, 2, 3};
    const struct cadre_place place = {
        .struct_size = sizeof place,
        .rank = (uint32_t)p->rank,
        .h = p,
        .env = place_env,
        .cpus = place_cpus,
        .ranks = (uint32_t)p->all->ranks,
        .local_ranks = (uint32_t)p->all->ranks,
        .cpu = cpus,
        .n_cpus = CADRE_REHEARSAL_RANKS,
        .threads = 1,
    };
    if (!p->all->ops->place)
        return CADRE_OK;
    return CALLBACK(
        p, IN_PLACE, "place",
        p->all->ops->place(p->self, play_present(p, SLOT_PLACE, &place, sizeof place)));
}
