/* SPDX-License-Identifier: Apache-2.0 */
/* Rehearsals find what they say they find, and nothing where nothing is wrong: of a
 * small strategy that makes one mistake, of strategies of each role that make none, and
 * of some with a fault planted. */
#include "core/check/rehearsal/rehearsal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/rehearsed.h"
#include "tests/support/check_main.h"

static struct cadre_rehearsal_report report;
static char setting[32];
static const char *const settings[] = {setting, NULL};

static struct cadre_rehearsal_setup of(enum rehearsed_wrong wrong, int ranks)
{
    snprintf(setting, sizeof setting, "wrong=%d", (int)wrong);
    return (struct cadre_rehearsal_setup){
        .plugin = rehearsed_plugin(), .ranks = ranks, .seed = 1, .settings = settings};
}

static void rehearse(const struct cadre_rehearsal_setup *setup)
{
    struct cadre_error err = {0};
    cadre_status rc = cadre_rehearse(setup, &report, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

static void is_right(const char *what)
{
    for (int rule = 0; rule < CADRE_RULES; rule++)
        ck_assert_msg(!report.rule[rule].broken, "%s: %s: %s", what,
                      cadre_rule_words((enum cadre_rule)rule), report.rule[rule].text);
    ck_assert_msg(report.end == CADRE_REHEARSAL_DONE, "%s: %s", what, report.text);
}

/* ---- mistakes ---- */

static const struct {
    enum rehearsed_wrong wrong;
    enum cadre_rule rule;
    const char *says;
} mistakes[] = {
    {ALLOCATES_IN_PLAN, CADRE_RULE_PHASE, "in plan: mem.alloc may not be called here"},
    {CALLS_FROM_A_THREAD, CADRE_RULE_PHASE, "from a thread that the plugin started"},
    {ASKS_FOR_AN_UNKNOWN_AXIS, CADRE_RULE_ARGUMENT, "there is no axis 'nowhere'"},
    {ASKS_FOR_AN_UNKNOWN_OPTION, CADRE_RULE_ARGUMENT, "'right'"},
    {IGNORES_A_REFUSAL, CADRE_RULE_STATUS, "although the host refused a call"},
    {SAYS_NOTHING, CADRE_RULE_TEXT, "without saying why"},
    {PLANS_OTHERWISE_LATER, CADRE_RULE_PLAN, "something else in call 2 of plan"},
    {PLANS_OTHERWISE_ON_A_RANK, CADRE_RULE_PLAN, "differs from rank 0's"},
    {REPORTS_TWICE, CADRE_RULE_ONCE, ""},
    {REPORTS_NEVER, CADRE_RULE_ONCE, "wte.weight"},
    {SUMS_NOTHING, CADRE_RULE_SUM, "expected"},
    {SUMS_TWICE, CADRE_RULE_SUM, "2 times as much"},
    {POSTS_ONE_MORE_ON_A_RANK, CADRE_RULE_ORDER, ""},
    {LEAVES_A_RANK_OUT, CADRE_RULE_ORDER, ""},
    {WRITES_IN_FLIGHT, CADRE_RULE_BUFFER, "was written between post and wait"},
    {FREES_IN_FLIGHT, CADRE_RULE_BUFFER, "mem.free of a buffer of all_reduce 'notes'"},
    {TAKES_MORE_MEMORY, CADRE_RULE_MEMORY, "notes"},
    {WRITES_BEYOND_A_BLOCK, CADRE_RULE_MEMORY, "notes"},
    {SENDS_MORE_LATER, CADRE_RULE_WIRE, "say plan.period, or send alike"},
    {PLACES_WITHOUT_A_CLAIM, CADRE_RULE_EFFECT, "opt.shard"},
    {CHANGES_A_PARAMETER, CADRE_RULE_VALUES, ""},
    {REPLICAS_DRIFT, CADRE_RULE_VALUES, ""},
    {DESCRIBES_OTHER_STATE, CADRE_RULE_STATE, "second pass of a save"},
    {SAVES_A_STATE_TWICE, CADRE_RULE_STATE, "describes the state 'steps' twice"},
    {BLOCKS_A_SIGNAL, CADRE_RULE_PROCESS, "leaves signal 15 "},
    {CHANGES_ROUNDING, CADRE_RULE_PROCESS, "another rounding mode"},
};

/* By its own rule, whatever the seed chooses. */
START_TEST(a_mistake_breaks_its_rule)
{
    uint64_t seeds = test_lean() ? 2 : 10;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct cadre_rehearsal_setup setup = of(mistakes[_i].wrong, 2);
        setup.plans = 2;
        setup.seed = seed;
        setup.steps = 4;
        setup.shuffled = seed % 2 == 0;
        rehearse(&setup);
        const char *text = report.rule[mistakes[_i].rule].text;
        ck_assert_msg(report.rule[mistakes[_i].rule].broken &&
                          strstr(text, mistakes[_i].says),
                      "mistake %d, seed %d: '%s', ends: %s", (int)mistakes[_i].wrong,
                      (int)seed, text, report.text);
    }
}
END_TEST

/* A refusal is no mistake where it has a reason, and where it comes in time. */
START_TEST(refusals_and_failures_are_told_apart)
{
    struct cadre_rehearsal_setup setup = of(REFUSES, 2);
    rehearse(&setup);
    ck_assert_int_eq(report.end, CADRE_REHEARSAL_REFUSED);
    ck_assert_msg(strstr(report.text, "today is no day for this"), "%s", report.text);
    setup = of(FAILS_IN_STEP, 4);
    rehearse(&setup);
    ck_assert_int_eq(report.end, CADRE_REHEARSAL_FAILED);
    ck_assert_msg(strstr(report.text, "rank 3 of 4: nothing goes today"), "%s",
                  report.text);
    ck_assert_uint_eq(report.aborts, 3);
}
END_TEST

START_TEST(a_setting_that_is_none_is_refused)
{
    struct cadre_error err = {0};
    const char *const wrong[] = {"wrong=1000", NULL};
    struct cadre_rehearsal_setup setup = of(RIGHT, 2);
    setup.settings = wrong;
    ck_assert_int_eq(cadre_rehearse(&setup, &report, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "1000"), "%s", err.text);
}
END_TEST

/* ---- what is right stays right ---- */

START_TEST(what_is_right_breaks_no_rule)
{
    for (int ranks = 1; ranks <= CADRE_REHEARSAL_RANKS; ranks++) {
        struct cadre_rehearsal_setup setup = of(RIGHT, ranks);
        setup.plans = 100;
        setup.steps = 5;
        rehearse(&setup);
        is_right("plain");
        ck_assert(report.reduces && !report.by_design && !report.diverges);
        ck_assert_uint_eq(report.period, 1);
        ck_assert_uint_eq(report.state_entries, 1);
        ck_assert(ranks == 1 ? report.sent == 0 : report.sent > 0);
        setup.wide = setup.recompute = setup.exact = setup.frozen = true;
        setup.rank_microbatches = 3;
        setup.reload = true;
        rehearse(&setup);
        is_right("much at once");
    }
}
END_TEST

/* Structs of other sizes, at a wall where a byte beyond would be a crash. */
START_TEST(structs_may_have_other_sizes)
{
    for (uint32_t extra = 0; extra <= 64; extra += 8) {
        struct cadre_rehearsal_setup setup = of(RIGHT, 2);
        setup.extra = extra;
        rehearse(&setup);
        is_right("longer");
        setup.walled = true;
        rehearse(&setup);
        is_right("walled");
    }
}
END_TEST

START_TEST(a_late_rank_changes_nothing)
{
    struct cadre_rehearsal_setup setup = of(RIGHT, 3);
    rehearse(&setup);
    uint64_t order = report.order, sent = report.sent;
    setup.late_rank = 2;
    setup.late_s = 0.05;
    rehearse(&setup);
    is_right("late");
    ck_assert_uint_eq(report.order, order);
    ck_assert_uint_eq(report.sent, sent);
}
END_TEST

/* The same seed, the same rehearsal; another may not change what is posted either. */
START_TEST(it_repeats)
{
    struct cadre_rehearsal_setup setup = of(RIGHT, 4);
    setup.shuffled = true;
    rehearse(&setup);
    const struct cadre_rehearsal_report first = report;
    for (setup.seed = 1; setup.seed < 5; setup.seed++) {
        rehearse(&setup);
        is_right("shuffled");
        ck_assert_uint_eq(report.order, first.order);
        ck_assert_uint_eq(report.calls, first.calls);
    }
    setup = of(SUMS_TWICE, 4);
    setup.shuffled = true;
    rehearse(&setup);
    char text[sizeof report.rule->text];
    snprintf(text, sizeof text, "%s", report.rule[CADRE_RULE_SUM].text);
    rehearse(&setup);
    ck_assert_str_eq(report.rule[CADRE_RULE_SUM].text, text);
}
END_TEST

/* ---- an instance's life, and calls that fail ---- */

START_TEST(a_life_may_end_anywhere)
{
    for (int until = CADRE_UNTIL_END; until <= CADRE_UNTIL_SYNCED; until++) {
        struct cadre_rehearsal_setup setup = of(RIGHT, 2);
        setup.until = (enum cadre_rehearsal_until)until;
        rehearse(&setup);
        is_right("until");
    }
}
END_TEST

/* Every call in turn: a strategy that returns what it got breaks no rule. */
START_TEST(calls_fail_on_purpose)
{
    struct cadre_rehearsal_setup setup = of(RIGHT, 2);
    rehearse(&setup);
    uint32_t calls = report.calls, failed = 0;
    ck_assert_uint_gt(calls, 20);
    for (setup.fail_call = 1; setup.fail_call <= calls; setup.fail_call++) {
        rehearse(&setup);
        ck_assert(report.failed_on_purpose && report.failed_call[0]);
        ck_assert(!report.rule[CADRE_RULE_STATUS].broken);
        ck_assert_msg(!report.rule[CADRE_RULE_TEXT].broken, "%s: %s",
                      report.failed_call, report.rule[CADRE_RULE_TEXT].text);
        failed += report.end != CADRE_REHEARSAL_DONE;
    }
    ck_assert_uint_gt(failed, calls / 2);
    setup.fail_call = calls + 1;
    rehearse(&setup);
    ck_assert(!report.failed_on_purpose);
    is_right("none failed");
}
END_TEST

START_TEST(calls_are_chosen)
{
    struct cadre_rehearsal_setup setup = of(RIGHT, 2);
    setup.fail_call = 1;
    setup.fail_rank = 1;
    setup.fail_in = "mem.";
    setup.fail_phases = CADRE_DURING_BIND;
    rehearse(&setup);
    ck_assert_str_eq(report.failed_call, "mem.alloc");
    ck_assert_int_eq(report.end, CADRE_REHEARSAL_FAILED);
    ck_assert_uint_eq(report.aborts, 1);
    setup = of(CRASHES_WITHOUT_MEMORY, 2);
    setup.fail_call = 1;
    setup.fail_in = "mem.";
    setup.fail_phases = CADRE_DURING_BIND;
    rehearse(&setup);
    ck_assert(report.rule[CADRE_RULE_STATUS].broken);
}
END_TEST

/* ---- strategies of all roles, as shared objects ---- */

static const struct cadre_plugin_handle *load(const char *name)
{
    const struct cadre_plugin_handle *plugin = NULL;
    struct cadre_error err = {0};
    char path[128];
    if (strchr(name, '_'))
        snprintf(path, sizeof path, "tests/check/planted/%s.so", name);
    else
        snprintf(path, sizeof path, "%s", name); /* a shipped one */
    cadre_status rc = cadre_plugin_load(path, "", &plugin, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    return plugin;
}

static const char *const right[] = {"base_data",     "base_intra",    "base_place",
                                    "base_replicas", "base_schedule", "base_shard",
                                    "muon"};

START_TEST(strategies_of_all_roles_are_right)
{
    const struct cadre_plugin_handle *plugin = load(right[_i]);
    int most = plugin->desc.axis && !test_lean() ? CADRE_REHEARSAL_RANKS : 2;
    for (int ranks = 1; ranks <= most; ranks++)
        for (uint32_t way = 0; way < 4; way++) {
            struct cadre_rehearsal_setup setup = {
                .plugin = plugin,
                .ranks = plugin->desc.axis ? ranks : 1,
                .seed = way,
                .shuffled = way > 0,
                .recompute = way == 2,
                .wide = way == 2,
                .rank_microbatches = 1 + way,
                .reload = way == 3,
            };
            rehearse(&setup);
            is_right(right[_i]);
        }
}
END_TEST

static const struct {
    const char *plugin;
    enum cadre_rule rule;
} planted[] = {
    {"planted_9", CADRE_RULE_PLAN},    {"planted_13", CADRE_RULE_PROCESS},
    {"planted_14", CADRE_RULE_ONCE},   {"planted_16", CADRE_RULE_SUM},
    {"planted_19", CADRE_RULE_BUFFER}, {"planted_20", CADRE_RULE_BUFFER},
    {"planted_22", CADRE_RULE_EFFECT}, {"planted_23", CADRE_RULE_SUM},
    {"planted_28", CADRE_RULE_VALUES},
};

/* In one of a few rehearsals: some show where operations end at certain times only. */
START_TEST(planted_faults_break_a_rule)
{
    struct cadre_rehearsal_setup setup = {
        .plugin = load(planted[_i].plugin),
        .ranks = 2,
        .plans = 2,
        .recompute = true,
        .steps = 5,
    };
    bool broken = false;
    for (setup.seed = 1; setup.seed < 20 && !broken; setup.seed++) {
        setup.shuffled = setup.seed % 2 == 0;
        rehearse(&setup);
        broken = report.rule[planted[_i].rule].broken;
    }
    ck_assert_msg(broken, "%s ends: %s", planted[_i].plugin, report.text);
}
END_TEST

#define N(array) ((int)(sizeof(array) / sizeof *(array)))

Suite *test_suite(void)
{
    Suite *s = suite_create("check/rehearsal");
    TCase *t = tcase_create("mistakes");
    tcase_add_loop_test(t, a_mistake_breaks_its_rule, 0, N(mistakes));
    tcase_add_test(t, refusals_and_failures_are_told_apart);
    tcase_add_test(t, a_setting_that_is_none_is_refused);
    suite_add_tcase(s, t);
    t = tcase_create("right");
    tcase_add_test(t, what_is_right_breaks_no_rule);
    tcase_add_test(t, structs_may_have_other_sizes);
    tcase_add_test(t, a_late_rank_changes_nothing);
    tcase_add_test(t, it_repeats);
    tcase_add_test(t, a_life_may_end_anywhere);
    tcase_add_test(t, calls_fail_on_purpose);
    tcase_add_test(t, calls_are_chosen);
    suite_add_tcase(s, t);
    t = tcase_create("roles");
    tcase_add_loop_test(t, strategies_of_all_roles_are_right, 0, N(right));
    tcase_add_loop_test(t, planted_faults_break_a_rule, 0, N(planted));
    suite_add_tcase(s, t);
    return s;
}
