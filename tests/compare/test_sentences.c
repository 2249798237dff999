/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/report/sentences.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/compare/fixture.h"
#include "tests/compare/timed.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_comparison c;
static struct cadre_sentences said;

/* "base", "quick" on two ranks and "slow", all equal within limits. */
static void setup(void)
{
    const struct fixture_run runs[] = {
        {.name = "base", .step_s = 0.4},
        {.name = "quick", .ranks = 2, .step_s = 0.25, .loss_shift = 1e-6},
        {.name = "slow", .step_s = 0.5, .loss_shift = 1e-6},
    };
    const struct fixture_run rounding = {.name = "r", .loss_shift = 1e-6};
    dir = test_tmpdir();
    fixture_judge(dir, runs, 3, &rounding, &c);
    timed_fill(&c, 8);
}

static void teardown(void)
{
    cadre_sentences_fini(&said);
    timed_clear(&c);
    cadre_comparison_fini(&c);
    test_tmpdir_destroy(dir);
}

/* The tone of the sentence that begins so; -1: there is none. */
static int tone_of(const char *begin)
{
    for (size_t i = 0; i < said.n; i++)
        if (strncmp(said.of[i].text, begin, strlen(begin)) == 0)
            return (int)said.of[i].tone;
    return -1;
}

static void say(void)
{
    cadre_sentences_fini(&said);
    cadre_sentences_fill(&said, &c);
    ck_assert(!said.failed);
    for (size_t i = 0; i < said.n; i++)
        ck_assert_msg(strstr(said.of[i].text, "nan") == NULL &&
                          strchr(said.of[i].text, '\n') == NULL,
                      "%s", said.of[i].text);
}

START_TEST(the_fastest_is_named_with_its_interval)
{
    say();
    ck_assert_int_eq(tone_of("quick (ddp:2) is the fastest: 1.60 times as fast as base "
                             "(single) (95 % interval 1.57 to 1.63), efficiency 80 % "
                             "[78, 82] on 2 ranks."),
                     CADRE_TONE_SHOWN);
    ck_assert_int_eq(tone_of("slow (single) is slower than base: 0.80 times as fast "
                             "(95 % interval 0.78 to 0.82)."),
                     CADRE_TONE_SHOWN);
    ck_assert_int_eq(tone_of("Control: two pieces of the same run in a round differ by "
                             "up to 1.2 % ("),
                     CADRE_TONE_OPEN);
    ck_assert_int_eq(tone_of("All runs trained the same"), CADRE_TONE_SHOWN);
}
END_TEST

START_TEST(the_baseline_may_be_the_fastest)
{
    timed_set(&c, 1, 0.70, 0.80, 0.90, CADRE_SPEED_SLOWER);
    timed_set(&c, 2, 0.45, 0.50, 0.55, CADRE_SPEED_SLOWER);
    c.speed.fastest = 0;
    say();
    ck_assert_int_eq(tone_of("base (single) is the fastest: the next, quick (ddp:2), "
                             "takes 1.25 times as long a step (95 % interval 1.11 to "
                             "1.43)."),
                     CADRE_TONE_SHOWN);
    ck_assert_int_eq(tone_of("quick (ddp:2) is slower than base"), CADRE_TONE_SHOWN);
}
END_TEST

/* No winner is named where none was shown, whatever the figures are. */
START_TEST(runs_that_cannot_be_told_apart)
{
    timed_set(&c, 1, 0.97, 1.30, 1.60, CADRE_SPEED_NO_DIFFERENCE);
    timed_set(&c, 2, 0.97, 1.10, 1.40, CADRE_SPEED_NO_DIFFERENCE);
    for (size_t i = 0; i < c.n; i++)
        c.run[i].speed.leading = true;
    say();
    ck_assert_int_eq(tone_of("base (single), quick (ddp:2) and slow (single) cannot be "
                             "told apart"),
                     CADRE_TONE_OPEN);
    ck_assert_int_eq(tone_of("No difference of speed was shown between quick (ddp:2) "
                             "and base: a difference of 3 % would have been seen in "
                             "most such tries."),
                     CADRE_TONE_OPEN);
    for (size_t i = 0; i < said.n; i++)
        ck_assert(strstr(said.of[i].text, "is the fastest") == NULL &&
                  strstr(said.of[i].text, "times as fast") == NULL);
    for (size_t i = 0; i < c.n; i++)
        c.run[i].speed.leading = i == 1;
    say();
    ck_assert_int_eq(tone_of("No run was shown to be the fastest."), CADRE_TONE_OPEN);
}
END_TEST

START_TEST(nothing_is_ranked_with_a_reason)
{
    for (size_t i = 0; i < c.n; i++)
        timed_set(&c, i, NAN, 1.5, NAN, CADRE_SPEED_NOT_RANKED);
    snprintf(c.unranked, sizeof c.unranked, "each run was started once");
    say();
    c.run[2].lost = true;
    snprintf(c.run[2].untimed, sizeof c.run[2].untimed, "piece 1 ended with signal 9");
    say();
    ck_assert_int_eq(tone_of("slow (single) failed while it was timed: piece 1 ended "
                             "with signal 9."),
                     CADRE_TONE_BAD);
    ck_assert_int_eq(tone_of("No run is ranked by speed: each run was started once."),
                     CADRE_TONE_OPEN);
    ck_assert_int_eq(tone_of("quick"), -1);
    c.unranked[0] = 0;
    snprintf(c.run[0].speed.why, sizeof c.run[0].speed.why, "only 3 rounds of 8");
    say();
    ck_assert_str_eq(cadre_sentences_unranked(&c), "only 3 rounds of 8");
    ck_assert_int_eq(tone_of("No run is ranked by speed: only 3 rounds of 8."),
                     CADRE_TONE_OPEN);
}
END_TEST

START_TEST(one_run_is_not_ranked_with_a_reason)
{
    timed_set(&c, 2, NAN, NAN, NAN, CADRE_SPEED_NOT_RANKED);
    c.speed.fastest = 1;
    snprintf(c.run[2].untimed, sizeof c.run[2].untimed, "it changes training");
    say();
    ck_assert_int_eq(tone_of("slow (single) is not ranked: it changes training."),
                     CADRE_TONE_OPEN);
    ck_assert_int_eq(tone_of("quick (ddp:2) is the fastest"), CADRE_TONE_SHOWN);
}
END_TEST

START_TEST(doubtful_figures_are_not_called_shown)
{
    snprintf(c.run[1].implausible, sizeof c.run[1].implausible,
             "its efficiency is above 100 %%");
    c.run[2].fair = false;
    say();
    ck_assert_int_eq(tone_of("quick (ddp:2) is the fastest: 1.60"), CADRE_TONE_OPEN);
    ck_assert(strstr(said.of[0].text, "; implausible: its efficiency is above 100 %."));
    ck_assert_int_eq(tone_of("slow (single) is slower than base: 0.80 times as fast "
                             "(95 % interval 0.78 to 0.82) (unfair)."),
                     CADRE_TONE_OPEN);
}
END_TEST

START_TEST(failed_runs_are_named_and_the_others_judged)
{
    timed_fail(&c, 1, "it was ended by signal 9");
    c.speed.fastest = 0;
    say();
    ck_assert_int_eq(tone_of("quick (ddp:2) failed: it was ended by signal 9."),
                     CADRE_TONE_BAD);
    ck_assert_int_eq(tone_of("base (single) is the fastest: the next, slow (single)"),
                     CADRE_TONE_SHOWN);
    ck_assert_int_eq(tone_of("The runs of the same training trained the same"),
                     CADRE_TONE_SHOWN);
    for (size_t i = 0; i < c.n; i++)
        timed_fail(&c, i, "it was ended by signal 9");
    c.speed.fastest = -1;
    say();
    ck_assert_int_eq(tone_of("No run is ranked by speed"), CADRE_TONE_OPEN);
    ck_assert_int_eq(tone_of("The runs of the same"), -1);
}
END_TEST

START_TEST(the_time_to_a_loss_is_told_as_such)
{
    c.run[1].to_target = true;
    c.speed.fastest = 2;
    say();
    ck_assert_int_eq(tone_of("quick (ddp:2) reaches the target loss faster than base: "
                             "1.60 times as fast (95 % interval 1.57 to 1.63)."),
                     CADRE_TONE_SHOWN);
    timed_set(&c, 1, 0.9, 1, 1.1, CADRE_SPEED_NO_DIFFERENCE);
    say();
    ck_assert_int_eq(tone_of("No difference of the time to the target loss was shown "
                             "between quick (ddp:2) and base"),
                     CADRE_TONE_OPEN);
}
END_TEST

START_TEST(training_that_differs_is_bad_unless_by_design)
{
    c.run[1].equal = c.run[2].equal = CADRE_EQUAL_DIFFERS;
    c.run[2].by_design = true;
    say();
    ck_assert_int_eq(tone_of("quick (ddp:2) did NOT train the same as base"),
                     CADRE_TONE_BAD);
    ck_assert_int_eq(tone_of("slow (single) differs from base by design"),
                     CADRE_TONE_OPEN);
    ck_assert_int_eq(tone_of("All runs trained the same"), -1);
}
END_TEST

START_TEST(equal_training_is_told_by_how_far_it_was_judged)
{
    c.judged_steps = 3;
    say();
    ck_assert_int_eq(tone_of("All runs trained the same up to step 3"),
                     CADRE_TONE_SHOWN);
    c.run[1].equal = c.run[2].equal = CADRE_EQUAL_EXACT;
    c.run[2].bit_identical = 1;
    say();
    ck_assert_int_eq(tone_of("All runs trained the same, to the last bit."),
                     CADRE_TONE_SHOWN);
    ck_assert_int_eq(tone_of("quick and slow are the same to the last bit."),
                     CADRE_TONE_SHOWN);
}
END_TEST

/* The baseline is the run without exact mode; the periods of the pieces are those that
 * step_s has, and a little noise. */
static void set_price(double ratio)
{
    c.run[2].exact = true;
    c.run[0].setup = c.run[2].setup = 7;
    for (size_t i = 0; i < c.n_pieces; i++)
        if (c.piece[i].run == 2)
            c.piece[i].period_s = 0.4 * ratio * (1 + 0.001 * (c.piece[i].round % 4));
        else
            c.piece[i].period_s = 0.4 * (1 + 0.001 * (c.piece[i].round % 3));
    timed_set(&c, 2, 0.9 / ratio, 1 / ratio, 1.1 / ratio, CADRE_SPEED_SLOWER);
}

START_TEST(exact_mode_costs_what_was_shown)
{
    set_price(1.1);
    say();
    ck_assert_int_eq(tone_of("Exact mode costs 10."), CADRE_TONE_SHOWN);
    set_price(1.001);
    say();
    ck_assert_int_eq(tone_of("No cost of exact mode was shown: 0."), CADRE_TONE_OPEN);
    set_price(0.8);
    say();
    ck_assert_int_eq(tone_of("Exact mode costs -"), CADRE_TONE_OPEN);
    timed_set(&c, 2, NAN, 1, NAN, CADRE_SPEED_NOT_RANKED);
    say();
    ck_assert_int_eq(tone_of("The price of exact mode is not ranked: -"),
                     CADRE_TONE_OPEN);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("sentences");
    TCase *tc = tcase_create("sentences");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_fastest_is_named_with_its_interval);
    tcase_add_test(tc, the_baseline_may_be_the_fastest);
    tcase_add_test(tc, runs_that_cannot_be_told_apart);
    tcase_add_test(tc, nothing_is_ranked_with_a_reason);
    tcase_add_test(tc, one_run_is_not_ranked_with_a_reason);
    tcase_add_test(tc, doubtful_figures_are_not_called_shown);
    tcase_add_test(tc, failed_runs_are_named_and_the_others_judged);
    tcase_add_test(tc, the_time_to_a_loss_is_told_as_such);
    tcase_add_test(tc, training_that_differs_is_bad_unless_by_design);
    tcase_add_test(tc, equal_training_is_told_by_how_far_it_was_judged);
    tcase_add_test(tc, exact_mode_costs_what_was_shown);
    suite_add_tcase(suite, tc);
    return suite;
}
