/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the players, from create to destroy. */
#include "core/check/rehearsal/rehearsal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/check/rehearsal/private.h"

/* ---- create and plan ---- */

static cadre_status create(struct cadre_player *p)
{
    CADRE_TRY(play_host_init(p));
    const struct cadre_create create = {
        .struct_size = sizeof create,
        .host = p->host,
        .values = p->values,
        .name = p->all->plugin->name,
    };
    struct cadre_self *self = NULL;
    cadre_status rc =
        CALLBACK(p, IN_CREATE, "create",
                 p->all->ops->create(
                     play_present(p, SLOT_CREATE, &create, sizeof create), &self));
    if (rc == CADRE_OK && !self)
        rc = play_refuse(p, CADRE_RULE_ARGUMENT,
                         "create returns CADRE_OK and leaves *out at NULL");
    p->self = rc == CADRE_OK ? self : NULL;
    return rc;
}

static cadre_status plan_once(struct cadre_player *p)
{
    struct cadre_plan plan;
    play_plan_begin(p, &plan);
    CADRE_TRY(CALLBACK(
        p, IN_PLAN, "plan",
        p->all->ops->plan(p->self, play_present(p, SLOT_PLAN, &plan, sizeof plan))));
    return play_plan_finish(p);
}

/* Says all that a plan has said, so that two can be compared. */
static uint64_t plan_digest(const struct cadre_player *p)
{
    uint64_t digest = p->plan.hash;
    for (uint32_t e = 0; e < ENTRIES; e++)
        for (uint32_t kind = CADRE_KIND_PARAM; kind <= CADRE_KIND_OPT; kind++) {
            const struct part *part = &p->entry[e].part[kind];
            const uint64_t what[] = {digest,       e,           kind,
                                     part->placed, part->begin, part->count};
            digest = cadre_hash_of(what, sizeof what, digest);
        }
    for (uint32_t i = 0; i < p->plan.n_tags; i++) {
        const uint64_t what[] = {p->plan.tag[i].planned, p->plan.tag[i].space};
        digest = cadre_hash_of(what, sizeof what, digest);
    }
    for (uint32_t c = 0; c < p->plan.n_chunks; c++)
        digest = cadre_hash_of(&p->plan.chunk[c], sizeof p->plan.chunk[c], digest);
    return digest;
}

/* The same question has the same answer. */
static cadre_status plan_often(struct cadre_player *p)
{
    uint64_t first = plan_digest(p), heap = play_heap_in_use();
    uint32_t plans = p->all->setup->plans;
    for (uint32_t i = 1; i < plans; i++) {
        bool completes = p->plan.completes, rows = p->plan.sharded_rows,
             time = p->plan.time;
        uint64_t microbatches = p->rank_microbatches;
        uint32_t before = p->n_operations + p->n_blocks;
        CADRE_TRY(plan_once(p));
        if (p->n_operations + p->n_blocks != before)
            return play_refuse(p, CADRE_RULE_PLAN, "communicates or allocates in plan");
        if (p->plan.completes != completes || p->plan.sharded_rows != rows ||
            p->plan.time != time || p->rank_microbatches != microbatches ||
            plan_digest(p) != first)
            return play_refuse(
                p, CADRE_RULE_PLAN,
                "says something else in call %u of plan than in the first: a "
                "plan is a function of its arguments and the options",
                i + 1);
    }
    if (plans > 50 && play_heap_in_use() > heap + (uint64_t)plans * 16)
        return play_refuse(
            p, CADRE_RULE_PLAN,
            "%u calls of plan leave %llu bytes allocated: a plan runs often, "
            "keep what it needs once",
            plans, (unsigned long long)(play_heap_in_use() - heap));
    return CADRE_OK;
}

/* Plans repeat until what they were given is what they lead to. */
static cadre_status plan_until_settled(struct cadre_player *p)
{
    p->rank_microbatches = p->all->microbatches;
    for (int pass = 0; pass < CADRE_PLAN_PASSES; pass++) {
        uint64_t microbatches = p->rank_microbatches;
        bool completes = p->plan.completes, rows = p->plan.sharded_rows,
             time = p->plan.time;
        CADRE_TRY(plan_once(p));
        if (p->rank_microbatches == microbatches && p->plan.completes == completes &&
            p->plan.sharded_rows == rows && p->plan.time == time)
            return plan_often(p);
    }
    return play_refuse(
        p, CADRE_RULE_PLAN,
        "the plan does not settle within %d passes: what it says changes what "
        "it is given, each time",
        CADRE_PLAN_PASSES);
}

/* OPT ranges of the ranks along opt.shard cover each element once. */
static cadre_status check_cover(struct cadre_player *p, uint32_t e)
{
    uint64_t covered = 0;
    for (int r = 0; r < p->all->ranks; r++) {
        const struct part *part = &p->all->player[r].entry[e].part[CADRE_KIND_OPT];
        if (!part->placed)
            return CADRE_OK;
        for (int other = 0; other < r; other++) {
            const struct part *o = &p->all->player[other].entry[e].part[CADRE_KIND_OPT];
            if (part->count && o->count && part->begin < o->begin + o->count &&
                o->begin < part->begin + part->count)
                return play_refuse(p, CADRE_RULE_PLAN,
                                   "the OPT ranges of '%s' on ranks %d and %d overlap",
                                   play_entry_name(e), other, r);
        }
        covered += part->count;
    }
    if (covered == p->entry[e].count)
        return CADRE_OK;
    return play_refuse(p, CADRE_RULE_PLAN,
                       "the OPT ranges of '%s' cover %llu of its %llu elements",
                       play_entry_name(e), (unsigned long long)covered,
                       (unsigned long long)p->entry[e].count);
}

static cadre_status compare_plans(struct cadre_player *p)
{
    if (p->plan.hash != p->all->player[0].plan.hash)
        return play_refuse(
            p, CADRE_RULE_PLAN,
            "the plan of this rank differs from rank 0's in what must be "
            "equal: axes, claims, reductions, map, period or what is trained");
    for (uint32_t e = 0; e < ENTRIES && p->plan.opt_shard; e++)
        if (play_entry_tied_to(e) < 0)
            CADRE_TRY(check_cover(p, e));
    return CADRE_OK;
}

/* ---- a life ---- */

static cadre_status bind(struct cadre_player *p)
{
    const struct cadre_bind bind = {.struct_size = sizeof bind};
    CADRE_TRY(play_lay_out(p));
    return CALLBACK(
        p, IN_BIND, "bind",
        p->all->ops->bind(p->self, play_present(p, SLOT_BIND, &bind, sizeof bind)));
}

static cadre_status check_wire(struct cadre_player *p)
{
    uint64_t period = p->plan.period;
    for (uint64_t step = 2 + period; step <= p->all->steps; step++)
        if (p->sent_in[step] != p->sent_in[step - period]) {
            play_break_rule(
                p, CADRE_RULE_WIRE,
                "sends %llu bytes in step %llu and %llu in step %llu, one period "
                "before: say plan.period, or send alike",
                (unsigned long long)p->sent_in[step], (unsigned long long)step,
                (unsigned long long)p->sent_in[step - period],
                (unsigned long long)(step - period));
            break;
        }
    return CADRE_OK;
}

static cadre_status train(struct cadre_player *p)
{
    enum cadre_rehearsal_until until = p->all->setup->until;
    for (uint64_t step = 1; step <= p->all->steps; step++) {
        CADRE_TRY(play_run_step(p, step));
        if (until == CADRE_UNTIL_STEPPED)
            return CADRE_OK;
        CADRE_TRY(play_run_syncs(p));
        if (until == CADRE_UNTIL_SYNCED)
            return CADRE_OK;
        play_check_blocks(p);
        if (step == 1) {
            CADRE_TRY(play_run_drain(p));
            CADRE_TRY(play_run_evaluation(p));
        }
    }
    CADRE_TRY(play_run_drain(p));
    CADRE_TRY(play_save_state(p));
    return check_wire(p);
}

static cadre_status play_role(struct cadre_player *p)
{
    enum cadre_rehearsal_until until = p->all->setup->until;
    uint32_t role = p->all->plugin->desc.role;
    if (role == CADRE_ROLE_PLACEMENT)
        return play_run_place(p);
    CADRE_TRY(bind(p));
    if (!play_meet(p))
        return CADRE_E_ABORTED;
    if (until == CADRE_UNTIL_BOUND)
        return CADRE_OK;
    if (role == CADRE_ROLE_OPTIMIZER) {
        for (p->step = 1; p->step <= p->all->steps; p->step++)
            CADRE_TRY(play_run_updates(p));
        p->step--;
        return play_save_state(p);
    }
    if (p->all->saved) {
        CADRE_TRY(play_load_state(p, &p->all->saved[p->rank]));
        /* the others may still compare theirs with this rank's */
        if (!play_meet(p))
            return CADRE_E_ABORTED;
        play_free_state(p);
    }
    return train(p);
}

static cadre_status live(struct cadre_player *p)
{
    enum cadre_rehearsal_until until = p->all->setup->until;
    CADRE_TRY(create(p));
    if (until == CADRE_UNTIL_CREATED)
        return CADRE_OK;
    CADRE_TRY(plan_until_settled(p));
    if (!play_meet(p))
        return CADRE_E_ABORTED;
    CADRE_TRY(compare_plans(p));
    if (until == CADRE_UNTIL_PLANNED)
        return CADRE_OK;
    return play_role(p);
}

/* ---- the end of a life ---- */

static void note_end(struct cadre_player *p, uint32_t phase)
{
    struct cadre_rehearsal_report *report = p->all->report;
    bool early = phase == IN_CREATE || phase == IN_PLAN || phase == IN_PLACE;
    if (report->end == CADRE_REHEARSAL_BEYOND)
        return;
    report->end = early ? CADRE_REHEARSAL_REFUSED : CADRE_REHEARSAL_FAILED;
    for (int rule = 0; rule < CADRE_RULES; rule++)
        if (report->rule[rule].broken)
            report->end = CADRE_REHEARSAL_FAILED;
    snprintf(report->text, sizeof report->text, "rank %d of %d: %.600s", p->rank,
             p->all->ranks, p->failure.text);
}

#define ABORT_CPU_S 0.5
#define ABORT_WALL_S 10.0

struct abort_call {
    const struct cadre_strategy_ops *ops;
    struct cadre_self *self;
    struct cadre_end end;
};

static void *call_abort(void *arg)
{
    struct abort_call *call = arg;
    call->ops->abort(call->self, &call->end);
    return NULL;
}

/* Has it returned? One that spins is found by its CPU time, one that sleeps later. */
static bool join_abort(pthread_t thread)
{
    const double begin = cadre_now_s();
    clockid_t clock;
    struct timespec used = {0};
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 10000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_timedjoin_np(thread, NULL, &until) == 0)
            return true;
        if (pthread_getcpuclockid(thread, &clock) == 0)
            clock_gettime(clock, &used);
        if ((double)used.tv_sec + 1e-9 * (double)used.tv_nsec > ABORT_CPU_S ||
            cadre_now_s() - begin > ABORT_WALL_S)
            return false;
    }
}

/* In a thread of its own, since it may never return; then the thread and what it uses
 * stay until the process ends. */
static void tell(struct cadre_player *p, struct cadre_player *other)
{
    pthread_t thread;
    struct abort_call *call = cadre_calloc(1, sizeof *call);
    if (!call)
        return;
    call->ops = p->all->ops;
    call->self = other->self;
    call->end = (struct cadre_end){sizeof call->end, CADRE_E_ABORTED};
    p->all->report->aborts++;
    if (pthread_create(&thread, NULL, call_abort, call) != 0 || join_abort(thread)) {
        free(call);
        return;
    }
    p->all->stuck = true;
    play_break_rule(other, CADRE_RULE_ABORT,
                    "rank %d has failed, and abort does not return: it must not block",
                    p->rank);
    pthread_detach(thread);
}

/* The first failure stops all, and tells the other instances at once. */
static void stop_all(struct cadre_player *p, uint32_t phase, cadre_status rc)
{
    struct rehearsal *all = p->all;
    if (all->stop)
        return;
    if (p->failure.code == CADRE_OK)
        cadre_fail(&p->failure, rc, "%s", cadre_strerror(rc));
    note_end(p, phase);
    all->stop = true;
    all->progress++;
    for (int r = 0; r < all->ranks && all->ops->abort && !all->stuck; r++)
        if (r != p->rank && all->player[r].self)
            tell(p, &all->player[r]);
}

static void destroy(struct cadre_player *p, cadre_status rc)
{
    const struct cadre_end end = {sizeof end, rc};
    if (p->self && !p->all->stuck) {
        struct cadre_error before = p->failure;
        play_callback_begin(p, IN_DESTROY, "destroy");
        p->all->ops->destroy(p->self, play_present(p, SLOT_END, &end, sizeof end));
        p->failure = before;
        play_callback_end(p, p->failure.code);
    }
    p->self = NULL;
    play_check_blocks(p);
}

static void copy_plan(struct cadre_player *p)
{
    struct cadre_rehearsal_report *report = p->all->report;
    if (p->rank != 0)
        return;
    report->by_design = p->plan.by_design;
    report->time = p->plan.time;
    report->diverges = p->plan.diverges;
    report->keeps = p->plan.keeps;
    report->period = p->plan.period;
    report->reduces = p->plan.reduces;
    report->scheduled = p->plan.schedule;
    report->redistributes = p->plan.completes;
    report->places = p->plan.param_place || p->plan.opt_shard;
    report->cyclic = p->plan.map == CADRE_MICROBATCHES_CYCLIC;
    snprintf(report->equal, sizeof report->equal, "%s", p->plan.equal);
    report->sent = 0;
    for (int r = 0; r < p->all->ranks; r++)
        report->sent += p->all->player[r].sent_in[p->all->steps];
}

static void *play(void *arg)
{
    struct cadre_player *p = arg;
    p->thread = pthread_self();
    play_begin_turns(p);
    cadre_status rc = live(p);
    copy_plan(p);
    if (rc != CADRE_OK)
        stop_all(p, p->last_phase, rc);
    /* the others may still wait for what this rank has posted */
    if (rc == CADRE_OK && !play_meet(p))
        rc = CADRE_E_ABORTED;
    destroy(p, rc);
    play_leave_turns(p);
    return NULL;
}

/* ---- the rehearsal ---- */

static void fini_player(struct cadre_player *p)
{
    play_free_operations(p);
    play_free_blocks(p);
    play_free_storage(p);
    play_free_stage(p);
    cadre_plugin_values_fini(&p->known);
}

static void init_player(struct rehearsal *all, int r)
{
    struct cadre_player *p = &all->player[r];
    p->all = all;
    p->rank = r;
    p->condition = READY;
}

static cadre_status perform(struct rehearsal *all, struct cadre_error *err)
{
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->turned, NULL);
    cadre_status rc = CADRE_OK;
    pthread_t thread[CADRE_REHEARSAL_RANKS];
    int begun = 0;
    all->turn = -1;
    for (int r = 0; r < all->ranks; r++)
        init_player(all, r);
    while (begun < all->ranks && rc == CADRE_OK) {
        if (pthread_create(&thread[begun], NULL, play, &all->player[begun]) != 0)
            rc = cadre_fail(err, CADRE_E_RESOURCE, "cannot start a rank's thread");
        else
            begun++;
    }
    /* without all of them, those that began wait for each other and end */
    pthread_mutex_lock(&all->lock);
    for (int r = begun; r < all->ranks; r++)
        all->player[r].condition = GONE;
    all->stop = rc != CADRE_OK;
    all->turn = 0;
    pthread_cond_broadcast(&all->turned);
    pthread_mutex_unlock(&all->lock);
    for (int r = 0; r < begun; r++)
        pthread_join(thread[r], NULL);
    pthread_cond_destroy(&all->turned);
    pthread_mutex_destroy(&all->lock);
    return rc;
}

static cadre_status make_options(const struct cadre_rehearsal_setup *setup,
                                 struct cadre_options **out, struct cadre_error *err)
{
    struct cadre_options *options = NULL;
    cadre_status rc;
    CADRE_TRY_OR(cadre_options_create(&options, err), fail);
    CADRE_TRY_OR(cadre_plugin_add_options(setup->plugin, options, err), fail);
    for (const char *const *set = setup->settings; set && *set; set++) {
        char *named = cadre_format("%s.%s", setup->plugin->name, *set);
        rc = named ? cadre_options_set(options, named, "the kit", err)
                   : cadre_no_memory(err, "an option");
        free(named);
        if (rc != CADRE_OK)
            goto fail;
    }
    CADRE_TRY_OR(cadre_options_resolve(options, err), fail);
    *out = options;
    return CADRE_OK;
fail:
    cadre_options_destroy(options);
    return rc;
}

static struct rehearsal *make(const struct cadre_rehearsal_setup *setup,
                              const struct cadre_options *options,
                              struct cadre_rehearsal_report *report)
{
    struct rehearsal *all = cadre_calloc(1, sizeof *all);
    if (!all)
        return NULL;
    all->setup = setup;
    all->report = report;
    all->plugin = setup->plugin;
    all->ops = &setup->plugin->ops;
    all->options = options;
    all->ranks = setup->ranks;
    all->steps = setup->steps && setup->steps <= STEPS_MAX ? setup->steps : 3;
    all->microbatches = (uint64_t)setup->ranks *
                        (setup->rank_microbatches ? setup->rank_microbatches : 2);
    all->dtype = setup->wide ? CADRE_F64 : CADRE_F32;
    all->element = setup->wide ? 8 : 4;
    all->key = cadre_rng_key(setup->seed, "rehearsal");
    return all;
}

static void end(struct rehearsal *all)
{
    if (all && all->stuck)
        return;
    for (int r = 0; all && r < all->ranks; r++) {
        fini_player(&all->player[r]);
        play_free_state(&all->player[r]);
    }
    free(all);
}

cadre_status cadre_rehearse(const struct cadre_rehearsal_setup *setup,
                            struct cadre_rehearsal_report *report,
                            struct cadre_error *err)
{
    struct cadre_options *options = NULL;
    struct rehearsal *first = NULL, *second = NULL;
    cadre_status rc;
    *report = (struct cadre_rehearsal_report){.end = CADRE_REHEARSAL_DONE};
    CADRE_TRY_OR(make_options(setup, &options, err), out);
    first = make(setup, options, report);
    if (!first) {
        rc = cadre_no_memory(err, "a rehearsal");
        goto out;
    }
    CADRE_TRY_OR(perform(first, err), out);
    if (setup->reload && report->end == CADRE_REHEARSAL_DONE) {
        second = make(setup, options, report);
        if (!second) {
            rc = cadre_no_memory(err, "a rehearsal");
            goto out;
        }
        second->saved = first->player;
        rc = perform(second, err);
    }
out:
    end(second);
    end(first);
    cadre_options_destroy(options);
    return rc;
}
