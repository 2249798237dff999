/* SPDX-License-Identifier: Apache-2.0 */
/* Micro-batches by balance.micro_batches in the plan, and what they cannot go with. */
#include <stdlib.h>

#include "core/engine/execute/accumulation.h"
#include "tests/engine/plan_fixture.h"
#include "tests/support/check_main.h"

static struct plan_fixture f;
static struct cadre_division division;

static void open_plan(const char *text, double limit, const char *second, int rank)
{
    const struct cadre_axis_request axes[] = {{"dp", 2, "ddp"}, {second, 2, "other"}};
    cadre_division_fini(&division);
    plan_fixture_open(&f, axes, second ? 2 : 1, rank);
    ck_assert_int_eq(cadre_division_init(&division, text, limit, &f.err), CADRE_OK);
    f.request.division = &division;
    plan_fixture_again(&f);
}

static void teardown(void)
{
    cadre_division_fini(&division);
    free(f.request.first);
    plan_fixture_close(&f);
}

static const struct cadre_plan *plug_ddp(void)
{
    const struct cadre_plan *plan =
        plan_fixture_plugin(&f, "ddp", "dp", CADRE_ROLE_DATA);
    ck_assert_int_eq(plan->use_axis(plan->h, "dp", CADRE_BATCH_SPLIT), CADRE_OK);
    ck_assert_int_eq(plan->reduces(plan->h, "dp", 0), CADRE_OK);
    return plan;
}

/* Passes until the plan settles; what the plugin was told last. */
static const struct cadre_plan *settle(int *passes)
{
    for (*passes = 1; *passes <= CADRE_PLAN_PASSES; ++*passes) {
        const struct cadre_plan *told = plug_ddp();
        plan_fixture_finish(&f);
        if (cadre_rank_plan_settled(&f.plan, &f.request))
            return told;
        plan_fixture_again(&f);
    }
    ck_abort_msg("not settled");
    return NULL;
}

START_TEST(given_shares_are_ranges)
{
    int passes;
    open_plan("3, 1", 2, NULL, 1);
    f.request.microbatches = 7;
    const struct cadre_plan *told = settle(&passes);
    ck_assert_int_eq(passes, 2);
    ck_assert_uint_eq(told->rank_microbatches, 1);
    ck_assert_uint_eq(f.plan.map, CADRE_MICROBATCHES_RANGES);
    ck_assert(f.plan.divided);
    ck_assert_int_eq(f.plan.n_microbatches, 1);
    ck_assert_int_eq(f.plan.first_microbatch, 6);
    ck_assert_int_eq(f.plan.microbatch_stride, 1);
    ck_assert_int_eq(f.plan.most, 0);
    ck_assert_int_eq(cadre_rank_plan_most(&f.plan), 1);
    ck_assert_int_eq(cadre_rank_plan_data_rank(&f.plan, 5), 0);
    ck_assert_int_eq(cadre_rank_plan_data_rank(&f.plan, 6), 1);
}
END_TEST

/* Plugins plan for the most micro-batches of any step, in exact mode also its nodes. */
START_TEST(changing_shares_are_planned_at_their_most)
{
    int passes;
    open_plan("measured", 1.5, NULL, 0);
    f.request.exact = true;
    const struct cadre_plan *told = settle(&passes);
    ck_assert_int_le(passes, CADRE_PLAN_PASSES - 1);
    ck_assert_uint_eq(told->rank_microbatches, 6);
    ck_assert_int_eq(f.plan.n_microbatches, 4);
    ck_assert_int_eq(f.plan.most, 6);
    uint64_t one = cadre_accumulation_bytes(f.model, &f.plan, true);
    f.plan.most = 4; /* 2 levels, at most 3 nodes; for 6: 2 levels, 4 nodes */
    ck_assert_uint_eq(5 * cadre_accumulation_bytes(f.model, &f.plan, true), 4 * one);
    f.plan.most = 6;
}
END_TEST

START_TEST(one_data_rank_runs_all)
{
    const struct cadre_axis_request axes[] = {{"dp", 1, "ddp"}};
    plan_fixture_open(&f, axes, 1, 0);
    ck_assert_int_eq(cadre_division_init(&division, "3, 1", 2, &f.err), CADRE_OK);
    f.request.division = &division;
    plan_fixture_again(&f);
    plug_ddp();
    plan_fixture_finish(&f);
    ck_assert_int_eq(f.plan.n_microbatches, 8);
    ck_assert(!f.plan.divided);
}
END_TEST

START_TEST(a_map_of_a_plugin_is_refused)
{
    static const struct {
        uint32_t map;
        const char *text;
    } maps[] = {
        {CADRE_MICROBATCHES_BLOCK, "'ddp' asks for a map of its own (as many"},
        {CADRE_MICROBATCHES_CYCLIC, "'ddp' asks for a map of its own (in turn"}};
    open_plan("3, 1", 2, NULL, 0);
    const struct cadre_plan *ddp = plug_ddp();
    ck_assert_int_eq(ddp->microbatch_map(ddp->h, maps[_i].map, NULL), CADRE_OK);
    plan_fixture_cannot(&f, maps[_i].text);
}
END_TEST

START_TEST(diverging_replicas_are_refused)
{
    open_plan("3, 1", 2, NULL, 0);
    const struct cadre_plan *plan =
        plan_fixture_plugin(&f, "diloco", "dp", CADRE_ROLE_DATA);
    ck_assert_int_eq(plan->use_axis(plan->h, "dp", CADRE_BATCH_SPLIT), CADRE_OK);
    ck_assert_int_eq(plan->claim(plan->h, "param.diverges", "dp", 0), CADRE_OK);
    plan_fixture_cannot(&f, "replicas of plugin 'diloco'");
}
END_TEST

/* A schedule has as many as it was planned for: given shares only. */
START_TEST(a_schedule_takes_shares_that_stay)
{
    open_plan(_i ? "measured" : "3, 1", 2, "pp", 0);
    plug_ddp();
    const struct cadre_plan *plan =
        plan_fixture_plugin(&f, "pipeline", "pp", CADRE_ROLE_SCHEDULE);
    ck_assert_int_eq(plan->use_axis(plan->h, "pp", CADRE_BATCH_SAME), CADRE_OK);
    ck_assert_int_eq(plan->claim(plan->h, "schedule.order", "pp", 0), CADRE_OK);
    ck_assert_int_eq(plan->chunk(plan->h, 0, 4, 1, 0), CADRE_OK);
    if (_i) {
        plan_fixture_cannot(&f, "the schedule of plugin 'pipeline' is made");
        return;
    }
    plan_fixture_finish(&f);
    ck_assert_int_eq(f.plan.n_microbatches, 6);
}
END_TEST

START_TEST(exact_mode_takes_one_reducer)
{
    open_plan("3, 1, 3, 1", 2, "rep", 0);
    f.request.exact = true;
    plug_ddp();
    const struct cadre_plan *plan =
        plan_fixture_plugin(&f, "hsdp", "rep", CADRE_ROLE_DATA);
    ck_assert_int_eq(plan->use_axis(plan->h, "rep", CADRE_BATCH_SPLIT), CADRE_OK);
    ck_assert_int_eq(plan->reduces(plan->h, "rep", 16), CADRE_OK);
    plan_fixture_cannot(&f,
                        "ranges of micro-batches (balance.micro_batches) takes one");
}
END_TEST

START_TEST(shares_must_fit_the_ranks)
{
    open_plan("3, 1, 1", 2, NULL, 0);
    plug_ddp();
    plan_fixture_cannot(&f, "has 3 shares, expected one for each of the 2 data ranks");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("plan_divide");
    TCase *tc = tcase_create("plan_divide");
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, given_shares_are_ranges);
    tcase_add_test(tc, changing_shares_are_planned_at_their_most);
    tcase_add_test(tc, one_data_rank_runs_all);
    tcase_add_loop_test(tc, a_map_of_a_plugin_is_refused, 0, 2);
    tcase_add_test(tc, diverging_replicas_are_refused);
    tcase_add_loop_test(tc, a_schedule_takes_shares_that_stay, 0, 2);
    tcase_add_test(tc, exact_mode_takes_one_reducer);
    tcase_add_test(tc, shares_must_fit_the_ranks);
    suite_add_tcase(s, tc);
    return s;
}
