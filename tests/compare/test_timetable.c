/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/timetable.h"

#include <string.h>

#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_comparison c;
static struct cadre_options *options;
static struct cadre_config config;
static struct cadre_error err;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    cadre_comparison_fini(&c);
    cadre_options_destroy(options);
    test_tmpdir_destroy(dir);
}

static cadre_status read_table(struct cadre_timetable *table, const char *budget)
{
    char set[64];
    cadre_options_destroy(options);
    ck_assert_int_eq(cadre_options_create(&options, &err), CADRE_OK);
    snprintf(set, sizeof set, "compare.budget=%s", budget);
    ck_assert_int_eq(cadre_options_set(options, set, "command line", &err), CADRE_OK);
    ck_assert_int_eq(cadre_options_resolve(options, &err), CADRE_OK);
    cadre_config_fill(&config, options);
    return cadre_timetable_read(table, options, &config, &err);
}

static const struct {
    const char *text;
    double seconds; /* below 0: refused */
} budgets[] = {
    {"0", 0},    {"90", 90},   {"90s", 90}, {"10m", 600}, {"1.5h", 5400},
    {"10x", -1}, {"10 m", -1}, {"m", -1},   {"10ms", -1}, {"-1", -1},
};

START_TEST(a_budget_is_a_time)
{
    struct cadre_timetable table;
    cadre_status rc = read_table(&table, budgets[_i].text);
    if (budgets[_i].seconds >= 0) {
        ck_assert_int_eq(rc, CADRE_OK);
        ck_assert_double_eq(table.budget_s, budgets[_i].seconds);
    } else {
        ck_assert_int_eq(rc, CADRE_E_INVALID);
        ck_assert_msg(strstr(err.text, "compare.budget: expected a time such as 90"),
                      "%s", err.text);
    }
}
END_TEST

/* A baseline and runs that cannot be timed, each for its own reason. */
START_TEST(each_run_that_is_not_timed_says_why)
{
    const struct fixture_run runs[] = {
        {.name = "base"},
        {.name = "equal"},
        {.name = "wide", .ranks = 8},
        {.name = "other", .changed_by = "x"},
        {.name = "failed"},
        {.name = "asked"},
    };
    static const char by_design[] = "it changes training by design: set compare.target "
                                    "to compare by time to that loss";
    static const char *const why[] = {
        "",        "",          "8 ranks of 1 core each, but there are 4 cores",
        by_design, "it failed", "compare.time is no",
    };
    size_t timed[6];
    fixture_compare(dir, runs, 6, NULL, &c);
    strcpy(c.run[4].failure, "exit status 1");
    strcpy(c.run[5].untimed, "compare.time is no");
    cadre_comparison_find_unfair(&c);
    ck_assert_uint_eq(cadre_timetable_choose(&c, timed), 2);
    ck_assert_uint_eq(timed[0], 0);
    ck_assert_uint_eq(timed[1], 1);
    for (int i = 0; i < 6; i++)
        ck_assert_str_eq(c.run[i].untimed, why[i]);
    ck_assert_str_eq(c.unranked, "");
}
END_TEST

START_TEST(strategies_that_change_training_alike_are_timed)
{
    const struct fixture_run runs[] = {{.name = "base", .changed_by = "x"},
                                       {.name = "alike", .changed_by = "x"},
                                       {.name = "plain"}};
    size_t timed[3];
    fixture_compare(dir, runs, 3, NULL, &c);
    cadre_comparison_find_unfair(&c);
    ck_assert_uint_eq(cadre_timetable_choose(&c, timed), 2);
    ck_assert_ptr_nonnull(strstr(c.run[2].untimed, "the baseline changes training"));
}
END_TEST

START_TEST(a_target_times_what_changes_training)
{
    const struct fixture_run runs[] = {{.name = "base"},
                                       {.name = "other", .changed_by = "x"},
                                       {.name = "wide", .changed_by = "x", .ranks = 8},
                                       {.name = "same"}};
    size_t timed[4];
    fixture_compare(dir, runs, 4, NULL, &c);
    c.target = 2.5;
    cadre_comparison_find_unfair(&c);
    ck_assert_uint_eq(cadre_timetable_choose(&c, timed), 2);
    ck_assert_uint_eq(timed[1], 3);
    ck_assert(c.run[1].to_target && !*c.run[1].untimed && !c.run[0].to_target);
    ck_assert(!c.run[2].to_target && *c.run[2].untimed);
    /* nothing but that run: no steps are timed, and it still is */
    strcpy(c.run[3].untimed, "compare.time is no");
    ck_assert_uint_eq(cadre_timetable_choose(&c, timed), 0);
    ck_assert(c.run[1].to_target && !*c.unranked);
    strcpy(c.run[0].failure, "exit status 1");
    ck_assert_uint_eq(cadre_timetable_choose(&c, timed), 0);
    ck_assert(!c.run[1].to_target && *c.unranked);
}
END_TEST

static const struct {
    int wide, failed, no_time; /* bits of runs */
    const char *why;
} nothing[] = {
    {0, 1, 0, "the baseline is not timed: it failed"},
    {1, 0, 0, "the baseline is not timed: 8 ranks of 1 core each"},
    {0, 2, 0, "fewer than two runs can be timed"},
    {0, 0, 3, "compare.time is no"},
    {0, 0, 1, "the baseline is not timed: compare.time is no"},
};

START_TEST(nothing_is_timed_where_nothing_is_compared)
{
    const struct fixture_run runs[] = {{.name = "base"}, {.name = "two"}};
    size_t timed[2];
    fixture_compare(dir, runs, 2, NULL, &c);
    for (int i = 0; i < 2; i++) {
        if (nothing[_i].wide >> i & 1)
            c.run[i].ranks = 8;
        if (nothing[_i].failed >> i & 1)
            strcpy(c.run[i].failure, "exit status 1");
        if (nothing[_i].no_time >> i & 1)
            strcpy(c.run[i].untimed, "compare.time is no");
    }
    cadre_comparison_find_unfair(&c);
    ck_assert_uint_eq(cadre_timetable_choose(&c, timed), 0);
    ck_assert_msg(strstr(c.unranked, nothing[_i].why) == c.unranked, "%s", c.unranked);
}
END_TEST

/* Of runs of 0.1, 0.05 and, for an instance of two, 0.04 s a step. */
START_TEST(a_piece_is_sized_by_the_fastest_run)
{
    const struct fixture_run runs[] = {{.name = "base", .step_s = 0.1},
                                       {.name = "fast", .step_s = 0.05},
                                       {.name = "two", .instances = 2, .step_s = 0.04}};
    const size_t timed[] = {0, 1, 2};
    struct cadre_timetable table = {.piece_s = 1, .period = 1};
    fixture_compare(dir, runs, 3, NULL, &c);
    cadre_timetable_size(&table, &c, timed, 2);
    ck_assert_int_eq(table.warmup, 6);
    ck_assert_int_eq(table.steps, 20);
    table.period = 8;
    cadre_timetable_size(&table, &c, timed, 3);
    ck_assert_int_eq(table.warmup, 8);
    ck_assert_int_eq(table.steps, 32);
    table.piece_s = 0.01;
    cadre_timetable_size(&table, &c, timed, 1);
    ck_assert_int_eq(table.warmup, 2);
    ck_assert_int_eq(table.steps, 16);
}
END_TEST

START_TEST(rounds_are_fixed_beforehand)
{
    struct cadre_timetable table = {0};
    ck_assert_int_eq(cadre_timetable_rounds(&table, 2, 100), 8);
    ck_assert_int_gt(cadre_timetable_rounds(&table, 8, 100), 8);
    table.budget_s = 700;
    ck_assert_int_eq(cadre_timetable_rounds(&table, 2, 60), 11);
    ck_assert_int_eq(cadre_timetable_rounds(&table, 2, 700), 1);
    ck_assert_int_eq(cadre_timetable_rounds(&table, 2, 7000), 1);
    ck_assert_int_eq(cadre_timetable_rounds(&table, 2, 0.001), 200);
    table.wanted = 9;
    ck_assert_int_eq(cadre_timetable_rounds(&table, 2, 60), 9);
    ck_assert_int_eq(cadre_timetable_rounds(&table, 2, 100), 7);
    table.budget_s = 0;
    ck_assert_int_eq(cadre_timetable_rounds(&table, 2, 1e9), 9);
    ck_assert_int_eq(cadre_timetable_repeats(8), 2);
    ck_assert_int_eq(cadre_timetable_repeats(2), 0);
    ck_assert_int_eq(cadre_timetable_repeats(190), 10);
}
END_TEST

START_TEST(dear_starts_are_seen)
{
    struct cadre_timetable table = {.steps = 10};
    struct cadre_piece piece[] = {{.start_s = 2.9, .period_s = 0.1},
                                  {.start_s = 3.0, .period_s = 0.1}};
    ck_assert(!cadre_timetable_starts_are_dear(&table, piece, 2));
    piece[1].start_s = 3.2;
    ck_assert(cadre_timetable_starts_are_dear(&table, piece, 2));
    ck_assert(!cadre_timetable_starts_are_dear(&table, piece, 0));
    ck_assert_double_eq(cadre_timetable_window_s(&table, piece), 1);
}
END_TEST

START_TEST(an_order_is_given_or_drawn)
{
    struct cadre_timetable table, other;
    ck_assert_int_eq(read_table(&table, "0"), CADRE_OK);
    other = table;
    ck_assert_uint_eq(table.order, 0);
    ck_assert_int_eq(cadre_timetable_draw(&table, &err), CADRE_OK);
    ck_assert_int_eq(cadre_timetable_draw(&other, &err), CADRE_OK);
    ck_assert(table.order > 0 && other.order > 0);
    ck_assert_uint_ne(table.order, other.order); /* but once in four thousand million */
    config.compare.order = 7;
    ck_assert_int_eq(cadre_timetable_read(&table, options, &config, &err), CADRE_OK);
    ck_assert_int_eq(cadre_timetable_draw(&table, &err), CADRE_OK);
    ck_assert_uint_eq(table.order, 7);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("timetable");
    TCase *tc = tcase_create("timetable");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, an_order_is_given_or_drawn);
    tcase_add_loop_test(tc, a_budget_is_a_time, 0, sizeof budgets / sizeof budgets[0]);
    tcase_add_test(tc, each_run_that_is_not_timed_says_why);
    tcase_add_test(tc, strategies_that_change_training_alike_are_timed);
    tcase_add_test(tc, a_target_times_what_changes_training);
    tcase_add_loop_test(tc, nothing_is_timed_where_nothing_is_compared, 0,
                        sizeof nothing / sizeof nothing[0]);
    tcase_add_test(tc, a_piece_is_sized_by_the_fastest_run);
    tcase_add_test(tc, rounds_are_fixed_beforehand);
    tcase_add_test(tc, dear_starts_are_seen);
    suite_add_tcase(suite, tc);
    return suite;
}
