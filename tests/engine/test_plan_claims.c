/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "tests/engine/plan_fixture.h"
#include "tests/support/check_main.h"

static struct plan_fixture f;
static const struct cadre_plan *one, *two;

/* Rank 5 of dp:2 x rep:4. */
static void setup(void)
{
    const struct cadre_axis_request axes[] = {{"dp", 2, "ddp"}, {"rep", 4, "hsdp"}};
    plan_fixture_open(&f, axes, 2, 5);
    one = plan_fixture_plugin(&f, "ddp", "dp", CADRE_ROLE_DATA);
    two = plan_fixture_plugin(&f, "hsdp@rep", "rep", CADRE_ROLE_DATA);
}

static void teardown(void)
{
    plan_fixture_close(&f);
}

/* ---- claim ---- */

START_TEST(one_owner_of_an_effect_on_an_axis)
{
    ck_assert_int_eq(one->claim(one->h, "param.place", "dp", 0), CADRE_OK);
    ck_assert_int_eq(two->claim(two->h, "param.place", "rep", 0), CADRE_OK);
    plan_fixture_refused(&f, two->claim(two->h, "param.place", "dp", 0),
                         "strategy.stack: 'ddp' and 'hsdp@rep' both claim "
                         "param.place@dp; only one of them can be in the stack");
    ck_assert_str_eq(cadre_rank_plan_claimed(&f.plan, "param.place"), "ddp");
    ck_assert_ptr_null(cadre_rank_plan_claimed(&f.plan, "act.complete"));
    ck_assert_ptr_eq(cadre_rank_plan_axis(&f.plan, "param.place"), &f.mesh.axis[0]);
    ck_assert_ptr_null(cadre_rank_plan_axis(&f.plan, "act.complete"));
}
END_TEST

START_TEST(shared_claims_need_both_to_share)
{
    uint32_t shared = CADRE_CLAIM_SHARED;
    ck_assert_int_eq(one->claim(one->h, "com.x.y", NULL, shared), CADRE_OK);
    ck_assert_int_eq(two->claim(two->h, "com.x.y", NULL, shared), CADRE_OK);
    plan_fixture_refused(&f, two->claim(two->h, "com.x.y", NULL, 0),
                         "both claim com.x.y; only");
}
END_TEST

START_TEST(claims_run_out)
{
    char effect[32];
    for (int i = 0; i < CADRE_MAX_CLAIMS; i++) {
        snprintf(effect, sizeof effect, "com.x.%d", i);
        ck_assert_int_eq(one->claim(one->h, effect, "dp", 0), CADRE_OK);
    }
    plan_fixture_refused(&f, one->claim(one->h, "com.x.y", "dp", 0),
                         "more than 64 claims in one stack");
}
END_TEST

START_TEST(every_effect_of_the_header_is_known)
{
    static const char *const effects[] = {
        "schedule.order", "device.place", "param.place",  "opt.shard",
        "act.complete",   "seq.shard",    "time.shard",   "expert.shard",
        "param.diverges", "wire.codec",   "com.vendor.t", "org.a-b.c_d.e1"};
    ck_assert_int_eq(one->claim(one->h, effects[_i], "dp", 0), CADRE_OK);
    ck_assert_str_eq(f.plan.claim[0].effect, effects[_i]);
    ck_assert_str_eq(f.plan.claim[0].axis, "dp");
}
END_TEST

#define LONG63 "com.vendor.a234567890123456789012345678901234567890123456789012"

static const struct {
    const char *effect, *axis;
    uint32_t flags;
    const char *why;
} wrong_claims[] = {
    {NULL, "dp", 0, "plugin 'ddp' in plan: claim: the effect is NULL"},
    {"", "dp", 0, "the effect is empty"},
    {"opt.shards", "dp", 0, "there is no effect 'opt.shards'"},
    {"grad.reduce", "dp", 0, "there is no effect 'grad.reduce'"},
    {"train.changed", NULL, 0, "there is no effect 'train.changed'"},
    {"com.thing", "dp", 0, "with two dots at least"},
    {"com..thing", "dp", 0, "there is no effect"},
    {"com.x.", "dp", 0, "there is no effect"},
    {".x.y", "dp", 0, "there is no effect"},
    {"com.x.Y", "dp", 0, "there is no effect"},
    {LONG63 "4", "dp", 0, "has 64 characters, expected at most 63"},
    {"opt.shard", NULL, 0, "claim: the axis is NULL"},
    {"opt.shard", "pd", 0, "claim uses the axis 'pd', which this run does not have"},
    {"com.x.y", "pd", 0, "the axis 'pd'"},
    {"opt.shard", "dp", CADRE_CLAIM_SHARED, "with the flags 0x1"},
    {"opt.shard", "dp", CADRE_CLAIM_KEEP_REPLICAS, "with the flags 0x2"},
    {"com.x.y", "dp", CADRE_CLAIM_KEEP_REPLICAS, "with the flags 0x2"},
    {"com.x.y", "dp", 8, "with the flags 0x8"},
    {"param.diverges", "dp", CADRE_CLAIM_LEAVE,
     "CADRE_CLAIM_LEAVE is reserved for a later version"},
    {"param.diverges", "dp", CADRE_CLAIM_SHARED, "with the flags 0x1"},
};

START_TEST(wrong_claims_are_refused)
{
    cadre_status rc = one->claim(one->h, wrong_claims[_i].effect, wrong_claims[_i].axis,
                                 wrong_claims[_i].flags);
    plan_fixture_refused(&f, rc, wrong_claims[_i].why);
    ck_assert_int_eq(f.plan.n_claims, 0);
}
END_TEST

START_TEST(a_name_of_63_characters_is_kept_whole)
{
    ck_assert_int_eq(one->claim(one->h, LONG63, NULL, 0), CADRE_OK);
    ck_assert_str_eq(f.plan.claim[0].effect, LONG63);
    ck_assert_str_eq(f.plan.claim[0].axis, "");
}
END_TEST

START_TEST(effects_of_one_axis)
{
    static const char *const effects[] = {
        "schedule.order", "opt.shard",    "act.complete",   "seq.shard",
        "time.shard",     "expert.shard", "param.diverges", "wire.codec"};
    ck_assert_int_eq(one->claim(one->h, effects[_i], "dp", 0), CADRE_OK);
    plan_fixture_refused(&f, two->claim(two->h, effects[_i], "rep", 0),
                         "expected one axis at most");
}
END_TEST

START_TEST(some_effects_are_of_axes_of_the_stack)
{
    ck_assert_int_eq(one->product_axis(one->h, "rep*dp"), CADRE_OK);
    ck_assert_int_eq(one->claim(one->h, "opt.shard", "rep*dp", 0), CADRE_OK);
    ck_assert_str_eq(cadre_rank_plan_axis(&f.plan, "opt.shard")->name, "rep*dp");
    plan_fixture_refused(&f, one->claim(one->h, "param.diverges", "rep*dp", 0),
                         "expected one of strategy.stack");
    plan_fixture_refused(&f, one->claim(one->h, "schedule.order", "rep*dp", 0),
                         "expected one of strategy.stack");
}
END_TEST

START_TEST(replicas_may_be_kept)
{
    cadre_status rc =
        one->claim(one->h, "param.diverges", "dp", CADRE_CLAIM_KEEP_REPLICAS);
    ck_assert_int_eq(rc, CADRE_OK);
    ck_assert(f.plan.claim[0].keeps_replicas && !f.plan.claim[0].shared);
    ck_assert_int_eq(two->claim(two->h, "com.x.y", NULL, CADRE_CLAIM_SHARED), CADRE_OK);
    ck_assert(f.plan.claim[1].shared && !f.plan.claim[1].keeps_replicas);
    ck_assert_ptr_eq(cadre_rank_plan_diverging_axis(&f.plan), &f.mesh.axis[0]);
}
END_TEST

/* ---- reduces ---- */

START_TEST(a_level_for_each_reducer)
{
    ck_assert_int_eq(two->reduces(two->h, "rep", 16), CADRE_OK);
    ck_assert_uint_eq(cadre_rank_plan_level(&f.plan, "hsdp@rep"), 16);
    ck_assert_uint_eq(cadre_rank_plan_level(&f.plan, "ddp"), CADRE_NO_LEVEL);
    plan_fixture_refused(&f, two->reduces(two->h, "dp", 3),
                         "plugin 'hsdp@rep' in plan: reduces('dp') after "
                         "reduces('rep'), expected one call");
    plan_fixture_refused(&f, one->reduces(one->h, "rep", 0),
                         "'hsdp@rep' and 'ddp' both reduce gradients along 'rep'");
    plan_fixture_refused(&f, one->reduces(one->h, "dp", 255),
                         "at level 255, expected 0 to 254");
    plan_fixture_refused(&f, one->reduces(one->h, NULL, 0), "the axis is NULL");
    plan_fixture_refused(&f, one->reduces(one->h, "x", 0), "the axis 'x'");
    ck_assert_int_eq(f.plan.n_reducers, 1);
}
END_TEST

START_TEST(some_roles_reduce_nothing)
{
    uint32_t role = _i ? CADRE_ROLE_PLACEMENT : CADRE_ROLE_OPTIMIZER;
    const struct cadre_plan *x = plan_fixture_plugin(&f, "x", "dp", role);
    plan_fixture_refused(&f, x->reduces(x->h, "dp", 0), "gets no gradients");
}
END_TEST

/* ---- by_design ---- */

START_TEST(designs_tell_when_they_are_equal)
{
    char equal[256];
    ck_assert_int_eq(one->by_design(one->h, "period=1, optim.name = sgd"), CADRE_OK);
    ck_assert_int_eq(two->by_design(two->h, " outer.lr=1 ,momentum=0"), CADRE_OK);
    ck_assert_str_eq(f.plan.design[0].equal, "period=1, optim.name = sgd");
    static const char whole[] =
        "ddp.period=1, optim.name = sgd, outer.lr=1 , hsdp@rep.momentum=0";
    ck_assert_uint_eq(cadre_rank_plan_equal(&f.plan, equal, sizeof equal),
                      sizeof whole - 1);
    ck_assert_str_eq(equal, whole);
    plan_fixture_refused(&f, one->by_design(one->h, "a=1"),
                         "expected one call with all settings");
}
END_TEST

START_TEST(no_design_has_no_setting)
{
    char equal[8];
    ck_assert_uint_eq(cadre_rank_plan_equal(&f.plan, equal, sizeof equal), 0);
    ck_assert_str_eq(equal, "");
}
END_TEST

START_TEST(a_design_without_a_setting_is_refused)
{
    static const char *const wrong[] = {
        NULL, "",         "  ",    "period", "=1",   "period=",  "period= ", "a=1,",
        ",",  "a=1,,b=2", "a b=1", ".a=1",   "a.=1", "Period=1", "a=1, b"};
    plan_fixture_refused(&f, one->by_design(one->h, wrong[_i]),
                         "is no setting under which the training equals");
    ck_assert_int_eq(f.plan.n_designs, 0);
}
END_TEST

START_TEST(a_long_setting_is_refused_whole)
{
    char text[CADRE_EQUAL_CHARS + 1];
    memset(text, '1', sizeof text);
    memcpy(text, "a=", 2);
    text[CADRE_EQUAL_CHARS] = 0;
    plan_fixture_refused(&f, one->by_design(one->h, text), "at most 255 characters");
    text[CADRE_EQUAL_CHARS - 1] = 0;
    ck_assert_int_eq(one->by_design(one->h, text), CADRE_OK);
    ck_assert_str_eq(f.plan.design[0].equal, text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("plan_claims");
    TCase *tc = tcase_create("claims");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, one_owner_of_an_effect_on_an_axis);
    tcase_add_test(tc, shared_claims_need_both_to_share);
    tcase_add_test(tc, claims_run_out);
    tcase_add_loop_test(tc, every_effect_of_the_header_is_known, 0, 12);
    tcase_add_loop_test(tc, wrong_claims_are_refused, 0,
                        (int)(sizeof wrong_claims / sizeof *wrong_claims));
    tcase_add_test(tc, a_name_of_63_characters_is_kept_whole);
    tcase_add_loop_test(tc, effects_of_one_axis, 0, 8);
    tcase_add_test(tc, some_effects_are_of_axes_of_the_stack);
    tcase_add_test(tc, replicas_may_be_kept);
    tcase_add_test(tc, a_level_for_each_reducer);
    tcase_add_loop_test(tc, some_roles_reduce_nothing, 0, 2);
    tcase_add_test(tc, designs_tell_when_they_are_equal);
    tcase_add_test(tc, no_design_has_no_setting);
    tcase_add_loop_test(tc, a_design_without_a_setting_is_refused, 0, 15);
    tcase_add_test(tc, a_long_setting_is_refused_whole);
    suite_add_tcase(s, tc);
    return s;
}
