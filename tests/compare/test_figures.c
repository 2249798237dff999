/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_comparison c;
static struct cadre_error err;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    cadre_comparison_fini(&c);
    test_tmpdir_destroy(dir);
}

enum { ROUNDS = 8 };

/* Pieces of `rounds` rounds, two of a run in each, with step times around step_s[run];
 * 0: that run is not timed. Noise is a fixed 0.2 %. */
static void add_pieces(const double *step_s, int rounds, double bubble)
{
    static const double noise[] = {0.3,  -0.5, 0.1,  0.9, -0.8, 0.4,
                                   -0.2, 0.6,  -0.9, 0.7, -0.1};
    size_t k = 0;
    c.piece = cadre_calloc(c.n * 2 * (size_t)rounds + 1, sizeof *c.piece);
    c.rounds = rounds;
    c.mirrored = true;
    c.margin = 0.01;
    for (int round = 1; round <= rounds; round++)
        for (size_t half = 0; half < 2; half++)
            for (size_t i = 0; i < c.n; i++) {
                if (step_s[i] == 0)
                    continue;
                c.piece[c.n_pieces++] = (struct cadre_piece){
                    .run = i,
                    .round = round,
                    .half = (int)half,
                    .place = (int)(half ? 2 * c.n - 1 - i : i),
                    .period_s = step_s[i] * (1 + 0.002 * noise[k++ % 11]),
                    .bubble_fraction = bubble + 0.001 * noise[k % 11],
                    .comm_exposed_s = 0.01,
                    .load = {.wall_s = 1},
                };
            }
}

static void judge(void)
{
    cadre_status rc = cadre_comparison_judge(&c, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

static void expect_around(const struct cadre_interval *interval, double value)
{
    ck_assert_msg(interval->low <= value && value <= interval->high &&
                      fabs(interval->value - value) < 0.01 * fabs(value),
                  "%g: %g to %g, expected %g", interval->value, interval->low,
                  interval->high, value);
}

START_TEST(pieces_give_figures_with_intervals)
{
    const struct fixture_run runs[] = {{.name = "base", .step_s = 9},
                                       {.name = "half", .ranks = 4, .step_s = 9},
                                       {.name = "same"}};
    const double step_s[] = {0.2, 0.1, 0.2};
    fixture_compare(dir, runs, 3, NULL, &c);
    add_pieces(step_s, ROUNDS, NAN);
    judge();
    const struct cadre_compared_run *half = &c.run[1];
    expect_around(&half->speed.period_s, 0.1);
    expect_around(&half->speed.speedup, 2);
    expect_around(&half->efficiency, 0.5);
    expect_around(&half->speed.overhead_s, 0.1 - 0.2 / 4);
    expect_around(&half->speed.comm_exposed_s, 0.01);
    ck_assert_double_eq_tol(half->tokens_per_s, 1000, 10);
    ck_assert(isnan(half->speed.bubble_fraction.value));
    ck_assert(half->speed.verdict == CADRE_SPEED_FASTER && !*half->speed.why);
    ck_assert(c.run[2].speed.verdict == CADRE_SPEED_NO_DIFFERENCE);
    ck_assert(c.run[0].speed.verdict == CADRE_SPEED_NO_DIFFERENCE);
    ck_assert_int_eq(c.speed.fastest, 1);
    ck_assert(half->speed.leading && !c.run[0].speed.leading);
    ck_assert(half->fair && !*half->implausible);
}
END_TEST

START_TEST(a_run_that_is_not_timed_has_no_speed)
{
    const struct fixture_run runs[] = {
        {.name = "base"}, {.name = "slow"}, {.name = "wide", .ranks = 8}};
    const double step_s[] = {0.2, 0.3, 0};
    fixture_compare(dir, runs, 3, NULL, &c);
    strcpy(c.run[2].untimed, "8 ranks of 1 core each");
    add_pieces(step_s, ROUNDS, NAN);
    judge();
    const struct cadre_speed_run *wide = &c.run[2].speed;
    ck_assert(isnan(wide->speedup.value) && isnan(wide->period_s.value));
    ck_assert(isnan(c.run[2].efficiency.value));
    ck_assert(wide->verdict == CADRE_SPEED_NOT_RANKED && !wide->leading);
    ck_assert_str_eq(wide->why, "8 ranks of 1 core each");
    ck_assert(c.run[2].equal == CADRE_EQUAL_EXACT);
    ck_assert(c.run[1].speed.verdict == CADRE_SPEED_SLOWER);
    ck_assert_int_eq(c.speed.fastest, 0);
}
END_TEST

/* In each, run 1 is twice as fast as the baseline and run 2 as fast as it. */
static const struct {
    struct fixture_run fast;
    double bubble;
    const char *implausible; /* "": it is only no training that may win */
} cannot[] = {
    {{.name = "two", .ranks = 2}, NAN, ""},
    {{.name = "more", .ranks = 2, .step_s = 0.1}, NAN, "efficiency above 100 %: 11"},
    {{.name = "exact", .exact = true},
     NAN,
     "exact mode took less time than base without it: -5"},
    {{.name = "pipe", .ranks = 4, .passes = true},
     0.2,
     "the replayed bubble of 33.3 % is above the measured one: 2"},
    {{.name = "wrong", .loss_shift = 1}, NAN, ""},
};

START_TEST(ranks_beyond_cores_have_no_times)
{
    const struct fixture_run runs[] = {{.name = "base", .step_s = 0.2},
                                       {.name = "beyond", .ranks = 8, .step_s = 0.1}};
    fixture_judge(dir, runs, 2, NULL, &c);
    const struct cadre_compared_run *beyond = &c.run[1];
    ck_assert(!beyond->fair && !cadre_comparison_is_fair(&c));
    ck_assert(isnan(beyond->step_s) && isnan(beyond->tokens_per_s));
    ck_assert(isnan(beyond->speed.speedup.value) && isnan(beyond->efficiency.value));
    ck_assert(isnan(beyond->speed.overhead_s.value));
    ck_assert(isnan(beyond->speed.comm_exposed_s.value));
    ck_assert(c.run[0].step_s == 0.2);
}
END_TEST

START_TEST(who_cannot_win_does_not)
{
    const struct fixture_run runs[] = {
        {.name = "base"}, cannot[_i].fast, {.name = "same"}};
    const double step_s[] = {0.2, _i == 1 ? 0.09 : 0.1, 0.2};
    const struct cadre_compared_run *fast = &c.run[1];
    fixture_compare(dir, runs, 3, NULL, &c);
    fast = &c.run[1];
    free(c.run[1].strategy);
    c.run[1].strategy = cadre_strdup("single");
    add_pieces(step_s, ROUNDS, cannot[_i].bubble);
    c.run[2].setup = 1; /* otherwise: no partner of the exact one */
    judge();
    ck_assert_msg(strncmp(fast->implausible, cannot[_i].implausible,
                          strlen(cannot[_i].implausible)) == 0,
                  "%s", fast->implausible);
    ck_assert(!*fast->implausible == !*cannot[_i].implausible);
    ck_assert_int_eq(c.speed.fastest, _i == 0 ? 1 : -1);
    ck_assert(fast->speed.leading == (_i == 0));
    if (*fast->implausible) {
        ck_assert(fast->speed.verdict == CADRE_SPEED_NOT_RANKED);
        ck_assert_str_eq(fast->speed.why, fast->implausible);
    } else {
        ck_assert(fast->speed.verdict == CADRE_SPEED_FASTER);
    }
    ck_assert(c.run[0].speed.leading == (_i != 0));
    ck_assert(c.run[2].speed.leading == (_i != 0));
    expect_around(&fast->speed.speedup, 0.2 / step_s[1]);
}
END_TEST

/* Among as many ranks as the baseline has, the better one is no wonder. */
START_TEST(a_faster_run_of_as_many_ranks_is_plausible)
{
    const struct fixture_run runs[] = {{.name = "base", .ranks = 2},
                                       {.name = "fast", .ranks = 2}};
    const double step_s[] = {0.2, 0.1};
    fixture_compare(dir, runs, 2, NULL, &c);
    add_pieces(step_s, ROUNDS, NAN);
    judge();
    ck_assert_str_eq(c.run[1].implausible, "");
    ck_assert_int_eq(c.speed.fastest, 1);
}
END_TEST

START_TEST(where_nothing_is_ranked_figures_stay)
{
    const struct fixture_run runs[] = {{.name = "base"}, {.name = "half"}};
    const double step_s[] = {0.2, 0.1};
    fixture_compare(dir, runs, 2, NULL, &c);
    add_pieces(step_s, 5, NAN);
    strcpy(c.unranked, "5 rounds, and 6 are needed to rank runs");
    judge();
    for (int i = 0; i < 2; i++) {
        ck_assert(c.run[i].speed.verdict == CADRE_SPEED_NOT_RANKED);
        ck_assert_str_eq(c.run[i].speed.why, c.unranked);
        ck_assert(!c.run[i].speed.leading);
    }
    ck_assert_int_eq(c.speed.fastest, -1);
    ck_assert_double_eq_tol(c.run[1].speed.speedup.value, 2, 0.02);
}
END_TEST

/* Steps of a run that changes training are not compared, its time to a loss is. */
/* By steps of 0.2 and 0.05 s: two ranks cannot do the work of four. */
START_TEST(an_efficiency_of_untimed_runs_may_be_implausible)
{
    const struct fixture_run runs[] = {{.name = "base", .step_s = 0.2},
                                       {.name = "two", .ranks = 2, .step_s = 0.05},
                                       {.name = "half", .ranks = 2, .step_s = 0.1}};
    fixture_judge(dir, runs, 3, NULL, &c);
    ck_assert_str_eq(c.run[1].implausible,
                     "efficiency of 200 % by trainings that were not timed in turns");
    ck_assert_str_eq(c.run[2].implausible, "");
}
END_TEST

START_TEST(the_time_to_a_loss_is_judged_apart)
{
    const struct fixture_run runs[] = {
        {.name = "base"},
        {.name = "other", .ranks = 2, .changed_by = "x", .loss_shift = 1},
        {.name = "same"}};
    const double step_s[] = {0.2, 0, 0.1}, to_loss[] = {30, 20, 0};
    fixture_compare(dir, runs, 3, NULL, &c);
    c.target = 2.5;
    c.run[1].to_target = true;
    add_pieces(to_loss, ROUNDS, NAN);
    c.target_piece = c.piece;
    c.n_target_pieces = c.n_pieces;
    c.n_pieces = 0;
    if (_i == 0)
        add_pieces(step_s, ROUNDS, NAN);
    else
        c.piece = NULL;
    judge();
    const struct cadre_compared_run *other = &c.run[1];
    expect_around(&other->target_s, 20);
    expect_around(&c.run[0].target_s, 30);
    ck_assert(isnan(c.run[2].target_s.value) && isnan(other->speed.overhead_s.value));
    ck_assert(isnan(other->speed.period_s.value)); /* its step was not timed */
    expect_around(&other->speed.speedup, 1.5);
    expect_around(&other->efficiency, 0.75);
    ck_assert(other->speed.verdict == CADRE_SPEED_FASTER && !other->speed.leading);
    ck_assert(other->by_design);
    ck_assert_int_eq(c.speed.fastest, _i == 0 ? 2 : -1);
    ck_assert_double_eq_tol(c.run[0].speed.period_s.value, _i == 0 ? 0.2 : 0.1, 0.01);
}
END_TEST

START_TEST(the_price_of_exact_mode_has_an_interval)
{
    const struct fixture_run runs[] = {{.name = "base"},
                                       {.name = "exact", .exact = true},
                                       {.name = "untimed", .exact = true}};
    const double step_s[] = {0.2, 0.3, 0};
    struct cadre_interval price;
    fixture_compare(dir, runs, 3, NULL, &c);
    add_pieces(step_s, ROUNDS, NAN);
    judge();
    ck_assert_int_eq(cadre_comparison_price(&c, 1, &price), 0);
    expect_around(&price, 0.5);
    ck_assert_int_eq(cadre_comparison_price(&c, 2, &price), -1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("figures");
    TCase *tc = tcase_create("figures");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, pieces_give_figures_with_intervals);
    tcase_add_test(tc, a_run_that_is_not_timed_has_no_speed);
    tcase_add_test(tc, ranks_beyond_cores_have_no_times);
    tcase_add_loop_test(tc, who_cannot_win_does_not, 0,
                        sizeof cannot / sizeof cannot[0]);
    tcase_add_test(tc, a_faster_run_of_as_many_ranks_is_plausible);
    tcase_add_test(tc, where_nothing_is_ranked_figures_stay);
    tcase_add_test(tc, an_efficiency_of_untimed_runs_may_be_implausible);
    tcase_add_loop_test(tc, the_time_to_a_loss_is_judged_apart, 0, 2);
    tcase_add_test(tc, the_price_of_exact_mode_has_an_interval);
    suite_add_tcase(suite, tc);
    return suite;
}
