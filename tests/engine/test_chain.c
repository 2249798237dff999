/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine/strategy/host.h"
#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

static struct rank_fixture f;
static char seen[4096]; /* "name.call " for each call */
static const char *fail_call; /* the call that fails */
static bool fail_in_words;

/* An instance is its host, so its name is at hand. */
static const struct cadre_host *host_of(struct cadre_self *self)
{
    return (const struct cadre_host *)(void *)self;
}

static cadre_status saw(struct cadre_self *self, const char *call)
{
    const struct cadre_host *host = host_of(self);
    char text[64];
    snprintf(text, sizeof text, "%s.%s", host->ctx->name, call);
    strcat(strcat(seen, text), " ");
    if (!fail_call || strcmp(text, fail_call) != 0)
        return CADRE_OK;
    if (fail_in_words)
        return (host->fail)(host->ctx, CADRE_E_UNSUPPORTED, "this is why");
    return CADRE_E_UNSUPPORTED;
}

static cadre_status create(const struct cadre_create *args, struct cadre_self **out)
{
    *out = (struct cadre_self *)(uintptr_t)args->host;
    ck_assert_str_eq(args->name, args->host->ctx->name);
    return saw(*out, "create");
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)abi;
    return saw(self, "plan");
}

static cadre_status bind_self(struct cadre_self *self, const struct cadre_bind *args)
{
    ck_assert_uint_eq(args->first_step, 0);
    return saw(self, "bind");
}

static cadre_status step(struct cadre_self *self, const struct cadre_step *work,
                         const struct cadre_next *next)
{
    cadre_status rc = saw(self, "step");
    if (rc == CADRE_OK)
        rc = next->run(next->h, work);
    return rc == CADRE_OK ? saw(self, "stepped") : rc;
}

static cadre_status sync_self(struct cadre_self *self, const struct cadre_sync *args)
{
    (void)args;
    return saw(self, "sync");
}

static cadre_status on_grad(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    ev->ready = ev->ready * 10 + (cadre_event)host_of(self)->ctx->plugin->desc.role;
    return saw(self, "grad");
}

static cadre_status on_block(struct cadre_self *self, const struct cadre_block_ev *ev)
{
    (void)ev;
    return saw(self, "block");
}

static cadre_status on_redistribute(struct cadre_self *self,
                                    const struct cadre_redistribute_ev *ev)
{
    (void)ev;
    return saw(self, "redistribution");
}

static void abort_self(struct cadre_self *self, const struct cadre_end *end)
{
    ck_assert_int_eq(end->status, CADRE_E_COMM);
    saw(self, "abort");
}

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    saw(self, "destroy");
}

static const struct cadre_strategy_ops all = {
    .struct_size = sizeof all,
    .create = create,
    .plan = plan,
    .bind = bind_self,
    .step = step,
    .sync = sync_self,
    .on_block = on_block,
    .on_grad = on_grad,
    .on_redistribute = on_redistribute,
    .abort = abort_self,
    .destroy = destroy,
};

/* In the text the order is against the roles. */
static void setup(void)
{
    memset(seen, 0, sizeof seen);
    fail_call = NULL;
    fail_in_words = false;
    rank_fixture_open(&f);
    rank_fixture_plug(&f, "watch", CADRE_ROLE_OBSERVER, 1, &all);
    rank_fixture_plug(&f, "data", CADRE_ROLE_DATA, 1, &all);
    rank_fixture_plug(&f, "place", CADRE_ROLE_PLACEMENT, 1, &all);
}

static void teardown(void)
{
    rank_fixture_close(&f);
}

static cadre_status innermost(void *h, const struct cadre_step *work)
{
    (void)work;
    strcat(seen, "run ");
    return *(cadre_status *)h;
}

static void is_seen(const char *want)
{
    ck_assert_str_eq(seen, want);
    seen[0] = 0;
}

START_TEST(calls_go_in_the_order_of_roles)
{
    rank_fixture_start(&f);
    is_seen("place.create data.create watch.create place.plan data.plan watch.plan "
            "place.bind data.bind watch.bind ");
    ck_assert_int_eq(cadre_chain_sync(&f.rank.chain, CADRE_SYNC_GRADS), CADRE_OK);
    is_seen("data.sync place.sync watch.sync ");
    ck_assert_int_eq(cadre_chain_sync(&f.rank.chain, CADRE_SYNC_PARAMS), CADRE_OK);
    is_seen("place.sync data.sync watch.sync ");
    struct cadre_block_ev block = {.struct_size = sizeof block};
    ck_assert_int_eq(cadre_chain_block(&f.rank.chain, &block), CADRE_OK);
    is_seen("place.block data.block watch.block ");
    cadre_chain_abort(&f.rank.chain, CADRE_E_COMM);
    is_seen("place.abort data.abort watch.abort ");
    rank_fixture_stop(&f);
    is_seen("watch.destroy data.destroy place.destroy ");
}
END_TEST

START_TEST(steps_nest)
{
    cadre_status result = CADRE_OK;
    struct cadre_next run = {.struct_size = sizeof run, .h = &result, .run = innermost};
    struct cadre_step work = {.struct_size = sizeof work};
    rank_fixture_start(&f);
    seen[0] = 0;
    ck_assert_int_eq(cadre_chain_step(&f.rank.chain, &work, &run), CADRE_OK);
    is_seen("place.step data.step watch.step run watch.stepped data.stepped "
            "place.stepped ");
    result = CADRE_E_COMM;
    ck_assert_int_eq(cadre_chain_step(&f.rank.chain, &work, &run), CADRE_E_COMM);
    is_seen("place.step data.step watch.step run ");
}
END_TEST

/* ---- what a plugin does with `next` ---- */

static const struct cadre_next *kept;

static cadre_status keep_next(struct cadre_self *self, const struct cadre_step *work,
                              const struct cadre_next *next)
{
    (void)self;
    kept = next;
    return next->run(next->h, work);
}

static cadre_status run_twice(struct cadre_self *self, const struct cadre_step *work,
                              const struct cadre_next *next)
{
    (void)self;
    cadre_status rc = next->run(next->h, work);
    next->run(next->h, work);
    return rc;
}

START_TEST(next_runs_once_and_in_its_step)
{
    cadre_status result = CADRE_OK;
    struct cadre_next run = {.struct_size = sizeof run, .h = &result, .run = innermost};
    struct cadre_step work = {.struct_size = sizeof work, .step = 3};
    f.handle[1].ops.step = _i == 0 ? keep_next : run_twice;
    rank_fixture_start(&f);
    cadre_status rc = cadre_chain_step(&f.rank.chain, &work, &run);
    if (_i == 0) {
        ck_assert_int_eq(rc, CADRE_OK);
        rc = kept->run(kept->h, &work);
    }
    ck_assert_int_eq(rc, CADRE_E_INVALID);
    ck_assert_msg(
        strstr(f.rank.failure.text, "plugin 'data' calls next->run outside") != NULL,
        "%s", f.rank.failure.text);
}
END_TEST

/* ---- what a plugin does with its plan ---- */

static const struct cadre_plan *kept_plan;

static cadre_status keep_plan(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    kept_plan = abi;
    return CADRE_OK;
}

static cadre_status plan_in_bind(struct cadre_self *self, const struct cadre_bind *in)
{
    (void)self;
    (void)in;
    kept_plan->claim(kept_plan->h, "device.place", NULL, 0);
    return CADRE_OK;
}

START_TEST(a_plan_is_refused_after_its_call)
{
    f.handle[1].ops.plan = keep_plan;
    f.handle[1].ops.bind = plan_in_bind;
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    ck_assert_int_eq(cadre_rank_bind(&f.rank, NULL, 0, &f.err), CADRE_E_UNSUPPORTED);
    ck_assert_str_eq(f.err.text,
                     "plugin 'data' in plan: claim of struct cadre_plan is called "
                     "after plan has returned; call it in plan only");
}
END_TEST

/* ---- levels of reduction ---- */

static uint32_t flags_seen[2];
static bool forgets; /* the outer level does not report */

static cadre_status reduce(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    const struct cadre_host *host = host_of(self);
    const struct cadre_param_svc *param = host->service(host->ctx, CADRE_SERVICE_PARAM);
    bool outer = strcmp(host->ctx->name, "outer") == 0;
    flags_seen[outer] = ev->flags;
    cadre_status rc = saw(self, "reduce");
    if (rc != CADRE_OK || (outer && forgets))
        return rc;
    return param->reduced(host->ctx, ev->param, ev->grad, ev->ready);
}

static cadre_status plan_level(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    CADRE_TRY(abi->use_axis(abi->h, abi->axis, CADRE_BATCH_SPLIT));
    return abi->reduces(abi->h, abi->axis, strcmp(abi->axis, "outer") == 0 ? 7 : 0);
}

/* Along axes of two ranks, of which only this one is there: nothing communicates. */
static void plug_levels(bool outer_first)
{
    static const struct cadre_strategy_ops ops = {.plan = plan_level,
                                                  .on_grad = reduce};
    rank_fixture_close(&f);
    rank_fixture_open(&f);
    f.spec.global_batch = 16;
    rank_fixture_plug(&f, outer_first ? "outer" : "inner", CADRE_ROLE_DATA, 2, &ops);
    rank_fixture_plug(&f, outer_first ? "inner" : "outer", CADRE_ROLE_DATA, 2, &ops);
}

/* The order of the text decides nothing: the lower level reduces first. */
START_TEST(an_outer_level_gets_what_the_inner_has_reduced)
{
    plug_levels(_i == 0);
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    ck_assert_int_eq(cadre_rank_bind(&f.rank, NULL, 0, &f.err), CADRE_OK);
    struct cadre_buf buf = {f.rank.store.param[0].grad, f.rank.store.param[0].count,
                            CADRE_F32, CADRE_SPACE_DEVICE};
    struct cadre_grad_ev ev = {
        .struct_size = sizeof ev, .flags = CADRE_GRAD_FINAL, .grad = &buf};
    seen[0] = 0;
    cadre_reduction_begin_step(&f.rank.chain.reduction);
    ck_assert_int_eq(cadre_chain_grad(&f.rank.chain, &ev), CADRE_OK);
    is_seen("inner.reduce outer.reduce ");
    ck_assert_uint_eq(flags_seen[0], CADRE_GRAD_FINAL);
    ck_assert_uint_eq(flags_seen[1], CADRE_GRAD_FINAL | CADRE_GRAD_REDUCED);
    ck_assert_int_eq(cadre_reduction_check(&f.rank.services), CADRE_OK);
}
END_TEST

START_TEST(a_level_that_does_not_report_ends_the_step)
{
    plug_levels(true);
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    ck_assert_int_eq(cadre_rank_bind(&f.rank, NULL, 0, &f.err), CADRE_OK);
    struct cadre_buf buf = {f.rank.store.param[0].grad, f.rank.store.param[0].count,
                            CADRE_F32, CADRE_SPACE_DEVICE};
    struct cadre_grad_ev ev = {
        .struct_size = sizeof ev, .flags = CADRE_GRAD_FINAL, .grad = &buf};
    cadre_reduction_begin_step(&f.rank.chain.reduction);
    forgets = true;
    ck_assert_int_eq(cadre_chain_grad(&f.rank.chain, &ev), CADRE_OK);
    ck_assert_int_eq(cadre_reduction_check(&f.rank.services), CADRE_E_INTERNAL);
    ck_assert_msg(strstr(f.rank.failure.text,
                         "plugin 'outer' has reduced 0 of 1 sums of the gradient") !=
                      NULL,
                  "%s", f.rank.failure.text);
    forgets = false;
}
END_TEST

START_TEST(slots_that_are_left_out_are_passed_over)
{
    cadre_status result = CADRE_OK;
    struct cadre_next run = {.struct_size = sizeof run, .h = &result, .run = innermost};
    struct cadre_step work = {.struct_size = sizeof work};
    struct cadre_block_ev block = {.struct_size = sizeof block};
    struct cadre_grad_ev grad = {.struct_size = sizeof grad};
    struct cadre_redistribute_ev point = {.struct_size = sizeof point};
    f.handle[1].ops.step = NULL;
    f.handle[1].ops.on_block = NULL;
    f.handle[1].ops.on_grad = NULL;
    f.handle[1].ops.abort = NULL;
    rank_fixture_start(&f);
    seen[0] = 0;
    ck_assert_int_eq(cadre_chain_step(&f.rank.chain, &work, &run), CADRE_OK);
    is_seen("place.step watch.step run watch.stepped place.stepped ");
    ck_assert_int_eq(cadre_chain_block(&f.rank.chain, &block), CADRE_OK);
    ck_assert_int_eq(cadre_chain_grad(&f.rank.chain, &grad), CADRE_OK);
    is_seen("place.block watch.block place.grad watch.grad ");
    ck_assert_int_eq(cadre_chain_redistribute(&f.rank.chain, &point), CADRE_OK);
    cadre_chain_abort(&f.rank.chain, CADRE_E_COMM);
    is_seen("place.abort watch.abort ");
}
END_TEST

START_TEST(ready_is_handed_down)
{
    struct cadre_grad_ev ev = {.struct_size = sizeof ev, .ready = 7};
    rank_fixture_start(&f);
    ck_assert_int_eq(cadre_chain_grad(&f.rank.chain, &ev), CADRE_OK);
    ck_assert_uint_eq(ev.ready, 7145); /* roles 1, 4, 5 */
}
END_TEST

static size_t count(const char *call)
{
    size_t n = 0;
    for (const char *at = seen; (at = strstr(at, call)); at++)
        n++;
    return n;
}

/* Whatever fails, every created instance is destroyed once, and the text names the
 * plugin and the phase, or is the plugin's own. */
START_TEST(a_failure_names_plugin_and_phase)
{
    static const char *const calls[] = {
        "place.create", "data.create", "watch.create", "place.plan", "data.plan",
        "watch.plan",   "place.bind",  "data.bind",    "watch.bind",
    };
    char text[64];
    const char *dot = strchr(calls[_i / 2], '.');
    fail_call = calls[_i / 2];
    fail_in_words = _i % 2;
    cadre_status rc = cadre_rank_plan(&f.rank, &f.spec, 0, &f.err);
    if (rc == CADRE_OK)
        rc = cadre_rank_bind(&f.rank, NULL, 0, &f.err);
    ck_assert_int_eq(rc, CADRE_E_UNSUPPORTED);
    snprintf(text, sizeof text,
             fail_in_words ? "plugin '%.*s' in %s: this is why"
                           : "plugin '%.*s' failed in %s",
             (int)(dot - fail_call), fail_call, dot + 1);
    ck_assert_msg(strstr(f.err.text, text) != NULL, "%s", f.err.text);
    rank_fixture_stop(&f);
    size_t failed = strcmp(dot, ".create") == 0;
    ck_assert_uint_eq(count("destroy"), count("create") - failed);
}
END_TEST

START_TEST(a_failed_event_ends_the_round)
{
    struct cadre_block_ev block = {.struct_size = sizeof block};
    struct cadre_grad_ev grad = {.struct_size = sizeof grad};
    rank_fixture_start(&f);
    seen[0] = 0;
    fail_call = "data.block";
    ck_assert_int_eq(cadre_chain_block(&f.rank.chain, &block), CADRE_E_UNSUPPORTED);
    is_seen("place.block data.block ");
    fail_call = "place.grad";
    ck_assert_int_eq(cadre_chain_grad(&f.rank.chain, &grad), CADRE_E_UNSUPPORTED);
    is_seen("place.grad ");
    fail_call = "data.sync";
    ck_assert_int_eq(cadre_chain_sync(&f.rank.chain, 1), CADRE_E_UNSUPPORTED);
    is_seen("data.sync ");
}
END_TEST

static cadre_status claim_redistribution(struct cadre_self *self,
                                         const struct cadre_plan *abi)
{
    (void)self;
    return abi->claim(abi->h, "act.complete", "data", 0);
}

START_TEST(redistributions_go_to_their_owner)
{
    struct cadre_redistribute_ev point = {.struct_size = sizeof point};
    f.handle[1].ops.plan = claim_redistribution;
    rank_fixture_start(&f);
    seen[0] = 0;
    ck_assert_int_eq(cadre_chain_redistribute(&f.rank.chain, &point), CADRE_OK);
    is_seen("data.redistribution ");
}
END_TEST

START_TEST(two_owners_are_refused_by_name)
{
    f.handle[0].ops.plan = f.handle[1].ops.plan = claim_redistribution;
    cadre_status rc = cadre_rank_plan(&f.rank, &f.spec, 0, &f.err);
    ck_assert_int_eq(rc, CADRE_E_UNSUPPORTED);
    ck_assert_msg(
        strstr(f.err.text, "'data' and 'watch' both claim act.complete@data") != NULL,
        "%s", f.err.text);
    memset(&f.rank, 0, sizeof f.rank);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("chain");
    TCase *tc = tcase_create("chain");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, calls_go_in_the_order_of_roles);
    tcase_add_test(tc, steps_nest);
    tcase_add_loop_test(tc, next_runs_once_and_in_its_step, 0, 2);
    tcase_add_test(tc, a_plan_is_refused_after_its_call);
    tcase_add_loop_test(tc, an_outer_level_gets_what_the_inner_has_reduced, 0, 2);
    tcase_add_test(tc, a_level_that_does_not_report_ends_the_step);
    tcase_add_test(tc, slots_that_are_left_out_are_passed_over);
    tcase_add_test(tc, ready_is_handed_down);
    tcase_add_loop_test(tc, a_failure_names_plugin_and_phase, 0, 18);
    tcase_add_test(tc, a_failed_event_ends_the_round);
    tcase_add_test(tc, redistributions_go_to_their_owner);
    tcase_add_test(tc, two_owners_are_refused_by_name);
    suite_add_tcase(s, tc);
    return s;
}
