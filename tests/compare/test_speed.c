/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/timing/speed.h"

#include <math.h>
#include <string.h>

#include "tests/support/check_main.h"

enum { MOST = 1024 };

static struct cadre_error err;
static struct cadre_piece pieces[MOST];
static struct cadre_speed_input input;
static struct cadre_speed speed;

/* A wave without a pattern that the rounds could share, of size 1. */
static double noise(size_t i)
{
    return sin(1 + 12.9898 * (double)i * (double)(i % 7 + 1));
}

/* Rounds of two pieces of each run; run i takes time[i], and a piece moves by `spread`
 * at most. Nothing else was running. */
static void make_rounds(const double *time, size_t runs, int rounds, double spread)
{
    input = (struct cadre_speed_input){
        .piece = pieces, .n_runs = runs, .baseline = 0, .margin = 0.01};
    for (int round = 1; round <= rounds; round++)
        for (size_t k = 0; k < 2 * runs; k++) {
            size_t n = input.n_pieces++, run = k < runs ? k : 2 * runs - 1 - k;
            pieces[n] = (struct cadre_piece){
                .run = run,
                .round = round,
                .place = (int)k,
                .half = k >= runs,
                .period_s = time[run] * exp(spread * noise(n)),
                .bubble_fraction = NAN,
                .comm_exposed_s = 0.001,
                .load = {.wall_s = 1, .own_s = 1, .foreign_s = 0.001},
            };
        }
}

static struct cadre_piece *piece_of(size_t run, int round, int half)
{
    for (size_t i = 0; i < input.n_pieces; i++)
        if (pieces[i].run == run && pieces[i].round == round && pieces[i].half == half)
            return &pieces[i];
    return NULL;
}

static void judge(void)
{
    cadre_speed_fini(&speed);
    ck_assert_msg(cadre_speed_judge(&input, &speed, &err) == CADRE_OK, "%s", err.text);
}

static void teardown(void)
{
    cadre_speed_fini(&speed);
}

START_TEST(faster_slower_and_neither)
{
    const double time[] = {0.1, 0.08, 0.125, 0.1};
    make_rounds(time, 4, 8, 0.005);
    judge();
    ck_assert_int_eq(speed.run[0].verdict, CADRE_SPEED_NO_DIFFERENCE);
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_FASTER);
    ck_assert_int_eq(speed.run[2].verdict, CADRE_SPEED_SLOWER);
    ck_assert_int_eq(speed.run[3].verdict, CADRE_SPEED_NO_DIFFERENCE);
    ck_assert_int_eq((int)speed.fastest, 1);
    for (size_t i = 0; i < 4; i++) {
        const struct cadre_speed_run *run = &speed.run[i];
        ck_assert_double_eq_tol(run->period_s.value, time[i], 0.01 * time[i]);
        ck_assert_double_eq_tol(run->speedup.value, 0.1 / time[i], 0.01);
        ck_assert(run->speedup.low <= 0.1 / time[i]);
        ck_assert(run->speedup.high >= 0.1 / time[i]);
        ck_assert_int_eq(run->leading, i == 1);
        ck_assert_str_eq(run->why, "");
        ck_assert(isnan(run->bubble_fraction.value));
        ck_assert_double_eq_tol(run->comm_exposed_s.value, 0.001, 1e-12);
        ck_assert(run->control > 0 && run->control < 0.011);
    }
    ck_assert_double_eq(speed.run[0].speedup.low, 1);
    ck_assert_double_eq(speed.run[0].speedup.high, 1);
    ck_assert_uint_eq(speed.n_rounds, 8);
    ck_assert_uint_eq(speed.n_disturbed, 0);
}
END_TEST

/* Differences within the margin are none, however sure they are. */
START_TEST(margin_must_be_excluded)
{
    const double time[] = {0.1, 0.0995};
    make_rounds(time, 2, 8, 0.0005);
    judge();
    ck_assert_double_gt(speed.run[1].speedup.low, 1.003);
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_NO_DIFFERENCE);
    ck_assert_int_eq((int)speed.fastest, -1);
    ck_assert(speed.run[0].leading && speed.run[1].leading);
    input.margin = 0.001;
    judge();
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_FASTER);
    ck_assert_int_eq((int)speed.fastest, 1);
    ck_assert(!speed.run[0].leading && speed.run[1].leading);
}
END_TEST

/* Of eight runs two share the lead: one verdict each, no winner. */
START_TEST(leading_set)
{
    const double time[] = {0.2, 0.1, 0.1, 0.15, 0.15, 0.15, 0.15, 0.15};
    make_rounds(time, 8, 9, 0.004);
    judge();
    ck_assert_int_eq((int)speed.fastest, -1);
    for (size_t i = 0; i < 8; i++)
        ck_assert_int_eq(speed.run[i].leading, i == 1 || i == 2);
    /* Eight rounds are one too few for Holm's procedure over seven. */
    make_rounds(time, 8, 8, 0.004);
    judge();
    for (size_t i = 1; i < 8; i++)
        ck_assert_int_eq(speed.run[i].verdict, CADRE_SPEED_NO_DIFFERENCE);
    ck_assert(isnan(speed.run[1].detectable));
}
END_TEST

START_TEST(too_few_rounds)
{
    const double time[] = {0.1, 0.05};
    make_rounds(time, 2, 5, 0.001);
    judge();
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(speed.run[i].verdict, CADRE_SPEED_NOT_RANKED);
        ck_assert_str_eq(speed.run[i].why, "5 rounds; 6 are needed");
        ck_assert(!speed.run[i].leading);
    }
    ck_assert_int_eq((int)speed.fastest, -1);
    ck_assert_double_eq_tol(speed.run[1].speedup.value, 2, 0.01);
    ck_assert(isnan(speed.run[1].speedup.low) && isnan(speed.run[1].speedup.high));
    make_rounds(time, 2, 6, 0.001);
    judge();
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_FASTER);
}
END_TEST

/* A warm-up round of nonsense changes nothing, and no pieces at all are no error. */
START_TEST(warm_up_is_left_out)
{
    const double time[] = {0.1, 0.08};
    make_rounds(time, 2, 8, 0.004);
    judge();
    struct cadre_interval before = speed.run[1].speedup;
    pieces[input.n_pieces++] =
        (struct cadre_piece){.run = 1, .period_s = 99, .load = {.wall_s = 1}};
    judge();
    ck_assert_double_eq(speed.run[1].speedup.value, before.value);
    ck_assert_uint_eq(speed.n_rounds, 8);
    input.n_pieces = 0;
    judge();
    ck_assert_uint_eq(speed.n_rounds, 0);
    ck_assert(isnan(speed.run[1].speedup.value));
    ck_assert_str_eq(speed.run[1].why, "it was not timed");
}
END_TEST

/* Another program that runs while one run's pieces do, and only then, makes that run
 * look slow in every round. Its CPU time is seen, so nothing is ranked. */
START_TEST(load_through_one_runs_pieces)
{
    const double time[] = {0.1, 0.13};
    make_rounds(time, 2, 8, 0.004);
    judge();
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_SLOWER);
    for (size_t i = 0; i < input.n_pieces; i++)
        if (pieces[i].run == 1)
            pieces[i].load.foreign_s = 0.31;
    judge();
    ck_assert_uint_eq(speed.n_disturbed, 8);
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_NOT_RANKED);
    ck_assert_int_eq((int)speed.fastest, -1);
    ck_assert_str_eq(speed.run[1].why, "the machine was disturbed in 8 of 8 rounds; 6 "
                                       "undisturbed ones are needed");
}
END_TEST

/* Two disturbed rounds made the difference, or hid it: either way none was shown. */
START_TEST(verdict_with_and_without_disturbed_rounds)
{
    const double same[] = {0.1, 0.1}, other[] = {0.1, 0.09};
    make_rounds(other, 2, 8, 0.003);
    for (int half = 0; half < 2; half++) {
        piece_of(1, 3, half)->period_s = 0.2;
        piece_of(1, 3, half)->load.foreign_s = 0.9;
        piece_of(1, 7, half)->period_s = 0.2;
        piece_of(1, 7, half)->load.foreign_s = 0.9;
    }
    judge();
    ck_assert_uint_eq(speed.n_disturbed, 2);
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_NO_DIFFERENCE);
    ck_assert_int_eq((int)speed.fastest, -1);
    ck_assert(speed.run[0].leading && speed.run[1].leading);

    make_rounds(same, 2, 8, 0);
    for (int round = 1; round <= 8; round++)
        for (int half = 0; half < 2; half++) {
            bool disturbed = round == 2 || round == 5;
            piece_of(1, round, half)->period_s = disturbed ? 0.2 : 0.1015;
            piece_of(1, round, half)->load.foreign_s = disturbed ? 0.9 : 0;
        }
    input.margin = 0.014;
    judge(); /* undisturbed rounds show it alone: six of six */
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_SLOWER);
    piece_of(1, 8, 0)->period_s = piece_of(1, 8, 1)->period_s = 0.1;
    judge(); /* five of six do not; seven of eight did */
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_NO_DIFFERENCE);
}
END_TEST

/* Six rounds cannot show a p-value below 0.031, and Holm's first step asks 0.0167 of
 * three runs: what all rounds show, the six undisturbed ones show again pair by pair.
 */
START_TEST(few_undisturbed_rounds_of_many_runs)
{
    const double time[] = {0.1, 0.05, 0.08, 0.12};
    make_rounds(time, 4, 9, 0.003);
    for (int round = 2; round <= 8; round += 3)
        piece_of(2, round, 0)->load.foreign_s = 0.4;
    judge();
    ck_assert_uint_eq(speed.n_disturbed, 3);
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_FASTER);
    ck_assert_int_eq(speed.run[2].verdict, CADRE_SPEED_FASTER);
    ck_assert_int_eq(speed.run[3].verdict, CADRE_SPEED_SLOWER);
    ck_assert_int_eq((int)speed.fastest, 1);
    ck_assert(speed.run[1].detectable < 1.05);
    /* one of the six against it is enough for none */
    piece_of(2, 1, 0)->period_s = piece_of(2, 1, 1)->period_s = 0.11;
    judge();
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_FASTER);
    ck_assert_int_eq(speed.run[2].verdict, CADRE_SPEED_NO_DIFFERENCE);
    /* and all rounds are still corrected for three runs: six do not show it */
    make_rounds(time, 4, 6, 0.003);
    judge();
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_NO_DIFFERENCE);
    ck_assert_int_eq((int)speed.fastest, -1);
}
END_TEST

/* It beats each other run, and the baseline not by what three tests ask for: no
 * verdict, so no winner. */
START_TEST(no_winner_without_a_verdict)
{
    const double time[] = {0.1, 0.05, 0.1, 0.1};
    make_rounds(time, 4, 8, 0.001);
    for (size_t i = 0; i < input.n_pieces; i++) {
        const bool last = pieces[i].round >= 7 && pieces[i].run == 0;
        pieces[i].load.foreign_s = 0.1;
        pieces[i].period_s *= last ? 0.61 : 1;
    }
    judge();
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_NOT_RANKED);
    ck_assert_int_eq((int)speed.fastest, -1);
    ck_assert(!speed.run[1].leading);
}
END_TEST

/* All rounds are disturbed, by a tenth of a core. One run is twice as fast, which that
 * cannot explain; one is 15 % slower, which it can: (1 - 0.1)^2 = 0.81. */
START_TEST(what_load_cannot_explain)
{
    const double time[] = {0.1, 0.05, 0.115};
    make_rounds(time, 3, 8, 0.003);
    for (size_t i = 0; i < input.n_pieces; i++)
        pieces[i].load.foreign_s = 0.1;
    judge();
    ck_assert_uint_eq(speed.n_disturbed, 8);
    ck_assert(speed.despite_load);
    ck_assert_int_eq(speed.run[0].verdict, CADRE_SPEED_NO_DIFFERENCE);
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_FASTER);
    ck_assert_str_eq(speed.run[1].why, "");
    ck_assert_double_eq_tol(speed.run[1].speedup.value, 2, 0.02);
    ck_assert_double_eq_tol(speed.run[1].speedup.low, 2 * 0.81, 0.03);
    ck_assert_double_eq_tol(speed.run[1].speedup.high, 2 / 0.81, 0.03);
    ck_assert(isnan(speed.run[1].overhead_s.low));
    ck_assert(isnan(speed.run[0].period_s.low) && speed.run[0].period_s.value > 0);
    ck_assert(isnan(speed.run[2].comm_exposed_s.high));
    ck_assert(isnan(speed.run[2].speedup.low) && isnan(speed.run[2].speedup.high));
    ck_assert_int_eq(speed.run[2].verdict, CADRE_SPEED_NOT_RANKED);
    ck_assert_str_eq(speed.run[2].why, "the machine was disturbed in too many rounds, "
                                       "and that could explain its difference");
    ck_assert_int_eq((int)speed.fastest, 1);
    ck_assert(speed.run[1].leading && !speed.run[0].leading && !speed.run[2].leading);

    input.undisturbed = true;
    judge();
    ck_assert(!speed.despite_load);
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_NOT_RANKED);
    input.undisturbed = false;
    /* a core for itself may have stood in the way all the time */
    for (size_t i = 0; i < input.n_pieces; i++)
        pieces[i].load.foreign_s = 1;
    judge();
    ck_assert(!speed.despite_load);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(speed.run[i].verdict, CADRE_SPEED_NOT_RANKED);
    ck_assert(isnan(speed.run[1].speedup.low) && speed.run[1].speedup.value > 1.9);
    ck_assert_int_eq((int)speed.fastest, -1);
}
END_TEST

/* Load that never disturbs a round, but always comes with the one that takes longer. */
START_TEST(load_that_follows_one_is_given_back)
{
    const double time[] = {0.1, 0.103, 0.08};
    make_rounds(time, 3, 8, 0.002);
    for (size_t i = 0; i < input.n_pieces; i++)
        pieces[i].load.foreign_s = pieces[i].run == 1 ? 0.04 : 0.005;
    judge();
    ck_assert_uint_eq(speed.n_disturbed, 0);
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_NO_DIFFERENCE);
    ck_assert_int_eq(speed.run[1].followed, 1);
    ck_assert(isnan(speed.run[1].detectable));
    ck_assert(speed.run[1].speedup.low < 1 && speed.run[1].speedup.high > 1);
    ck_assert_int_eq(speed.run[2].verdict, CADRE_SPEED_FASTER);
    ck_assert_int_eq(speed.run[2].followed, 0);
    ck_assert_int_eq((int)speed.fastest, 2);
    for (size_t i = 0; i < input.n_pieces;
         i++) /* the baseline: its speedups are less */
        pieces[i].load.foreign_s = pieces[i].run == 0 ? 0.04 : 0.005;
    judge();
    ck_assert_int_eq(speed.run[2].followed, -1);
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_SLOWER);
    ck_assert_int_eq(speed.run[2].verdict, CADRE_SPEED_FASTER);
    ck_assert_double_lt(speed.run[2].speedup.low, 1.2);
}
END_TEST

/* The same pieces with names exchanged give the mirrored result. */
START_TEST(labels_do_not_matter)
{
    const double time[] = {0.1, 0.093, 0.104};
    static const size_t other[] = {2, 0, 1};
    make_rounds(time, 3, 10, 0.02);
    piece_of(1, 4, 0)->period_s *= 1.4;
    piece_of(2, 6, 1)->load.foreign_s = 0.2;
    judge();
    struct cadre_speed was = speed;
    speed = (struct cadre_speed){0};
    for (size_t i = 0; i < input.n_pieces; i++)
        pieces[i].run = other[pieces[i].run];
    input.baseline = other[0];
    judge();
    ck_assert_uint_eq(speed.n_disturbed, was.n_disturbed);
    for (size_t r = 0; r < was.n_rounds; r++)
        ck_assert_int_eq(speed.round[r].disturbed, was.round[r].disturbed);
    for (size_t i = 0; i < 3; i++) {
        const struct cadre_speed_run *a = &was.run[i], *b = &speed.run[other[i]];
        ck_assert_int_eq(a->verdict, b->verdict);
        ck_assert_int_eq(a->leading, b->leading);
        ck_assert_double_eq(a->speedup.value, b->speedup.value);
        ck_assert_double_eq(a->speedup.low, b->speedup.low);
        ck_assert_double_eq(a->speedup.high, b->speedup.high);
    }
    cadre_speed_fini(&was);
}
END_TEST

START_TEST(overhead_of_more_ranks)
{
    const double time[] = {0.1, 0.06}, ideal[] = {1, 2};
    make_rounds(time, 2, 8, 0.002);
    input.ideal = ideal;
    judge();
    ck_assert_double_eq_tol(speed.run[1].overhead_s.value, 0.01, 5e-4);
    ck_assert(speed.run[1].overhead_s.low < 0.01);
    ck_assert(speed.run[1].overhead_s.high > 0.01);
    ck_assert_double_eq(speed.run[0].overhead_s.value, 0);
    input.ideal = NULL;
    judge();
    ck_assert_double_eq_tol(speed.run[1].overhead_s.value, -0.04, 5e-4);
}
END_TEST

/* Where a start is dear there is one piece of each run in a round and no control. */
START_TEST(one_piece_a_round)
{
    const double time[] = {0.1, 0.08};
    size_t kept = 0;
    make_rounds(time, 2, 8, 0.004);
    for (size_t i = 0; i < input.n_pieces; i++)
        if (pieces[i].half == 0)
            pieces[kept++] = pieces[i];
    input.n_pieces = kept;
    judge();
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_FASTER);
    ck_assert(isnan(speed.run[1].control));
    ck_assert_uint_eq(speed.n_disturbed, 0);
}
END_TEST

START_TEST(runs_without_pieces)
{
    const double time[] = {0.1, 0.08, 0.12};
    size_t kept = 0;
    make_rounds(time, 3, 8, 0.004);
    input.n_runs = 4; /* the fourth was never timed */
    judge();
    ck_assert_int_eq(speed.run[3].verdict, CADRE_SPEED_NOT_RANKED);
    ck_assert_str_eq(speed.run[3].why, "it was not timed");
    ck_assert(!speed.run[3].leading && isnan(speed.run[3].speedup.value));
    ck_assert(isnan(speed.run[3].detectable) && isnan(speed.run[3].control));
    ck_assert_int_eq((int)speed.fastest, 1);
    input.baseline = 3;
    judge(); /* without the baseline's time runs are still compared with each other */
    ck_assert_int_eq(speed.run[1].verdict, CADRE_SPEED_NOT_RANKED);
    ck_assert_str_eq(speed.run[1].why, "the baseline was not timed");
    ck_assert(isnan(speed.run[1].speedup.value) && speed.run[1].period_s.low > 0);
    ck_assert_int_eq((int)speed.fastest, 1);
    for (size_t i = 0; i < input.n_pieces; i++)
        if (pieces[i].run == 0)
            pieces[kept++] = pieces[i];
    input.n_pieces = kept;
    input.baseline = 0;
    judge();
    ck_assert_int_eq(speed.run[0].verdict, CADRE_SPEED_NOT_RANKED);
    ck_assert_str_eq(speed.run[0].why, "no other run was timed");
    ck_assert(speed.run[0].period_s.low > 0); /* nothing was disturbed */
    ck_assert_int_eq((int)speed.fastest, -1);
}
END_TEST

START_TEST(pieces_that_are_no_rounds)
{
    const double time[] = {0.1, 0.08};
    make_rounds(time, 2, 8, 0.004);
    input.n_pieces--;
    ck_assert_int_eq(cadre_speed_judge(&input, &speed, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(
        strstr(err.text, "round 8 has 1 pieces of run 0, expected 2"));
    ck_assert_ptr_null(speed.run);
}
END_TEST

START_TEST(one_pair)
{
    const double time[] = {0.1, 0.08, 0.12, 0.12};
    struct cadre_interval ratio;
    enum cadre_speed_verdict verdict;
    make_rounds(time, 4, 8, 0.004);
    ck_assert_int_eq(cadre_speed_pair(&input, 2, 1, &ratio, &verdict, &err), CADRE_OK);
    ck_assert_double_eq_tol(ratio.value, 1.5, 0.01);
    ck_assert(ratio.low < 1.5 && ratio.high > 1.5);
    ck_assert_int_eq(verdict, CADRE_SPEED_SLOWER);
    ck_assert_int_eq(cadre_speed_pair(&input, 1, 2, &ratio, &verdict, &err), CADRE_OK);
    ck_assert_double_eq_tol(ratio.value, 1 / 1.5, 0.01);
    ck_assert_int_eq(verdict, CADRE_SPEED_FASTER);
    ck_assert_int_eq(cadre_speed_pair(&input, 2, 3, &ratio, &verdict, &err), CADRE_OK);
    ck_assert_int_eq(verdict, CADRE_SPEED_NO_DIFFERENCE);
    input.n_runs = 5;
    ck_assert_int_eq(cadre_speed_pair(&input, 2, 4, &ratio, &verdict, &err), CADRE_OK);
    ck_assert_int_eq(verdict, CADRE_SPEED_NOT_RANKED);
    ck_assert(isnan(ratio.value));
    make_rounds(time, 4, 5, 0.004);
    ck_assert_int_eq(cadre_speed_pair(&input, 2, 1, &ratio, &verdict, &err), CADRE_OK);
    ck_assert_int_eq(verdict, CADRE_SPEED_NOT_RANKED);
    ck_assert(ratio.value > 1 && isnan(ratio.low));
    ck_assert_int_eq(cadre_speed_pair(&input, 2, 4, &ratio, &verdict, &err),
                     CADRE_E_INVALID);
}
END_TEST

START_TEST(names_of_verdicts)
{
    ck_assert_str_eq(cadre_speed_verdict_name(CADRE_SPEED_NOT_RANKED), "not ranked");
    ck_assert_str_eq(cadre_speed_verdict_name(CADRE_SPEED_NO_DIFFERENCE),
                     "no difference shown");
    ck_assert_str_eq(cadre_speed_verdict_name(CADRE_SPEED_FASTER), "faster");
    ck_assert_str_eq(cadre_speed_verdict_name(CADRE_SPEED_SLOWER), "slower");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("speed");
    TCase *tc = tcase_create("speed");
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, faster_slower_and_neither);
    tcase_add_test(tc, margin_must_be_excluded);
    tcase_add_test(tc, leading_set);
    tcase_add_test(tc, too_few_rounds);
    tcase_add_test(tc, warm_up_is_left_out);
    tcase_add_test(tc, load_through_one_runs_pieces);
    tcase_add_test(tc, verdict_with_and_without_disturbed_rounds);
    tcase_add_test(tc, few_undisturbed_rounds_of_many_runs);
    tcase_add_test(tc, what_load_cannot_explain);
    tcase_add_test(tc, no_winner_without_a_verdict);
    tcase_add_test(tc, load_that_follows_one_is_given_back);
    tcase_add_test(tc, labels_do_not_matter);
    tcase_add_test(tc, overhead_of_more_ranks);
    tcase_add_test(tc, one_piece_a_round);
    tcase_add_test(tc, runs_without_pieces);
    tcase_add_test(tc, pieces_that_are_no_rounds);
    tcase_add_test(tc, one_pair);
    tcase_add_test(tc, names_of_verdicts);
    suite_add_tcase(s, tc);
    return s;
}
