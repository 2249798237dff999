/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/timing/rounds.h"

#include <math.h>
#include <string.h>

#include "tests/support/check_main.h"

enum { RUNS = 2, ROUNDS = 8, PIECES = 2 * RUNS * ROUNDS };

static struct cadre_error err;
static struct cadre_piece pieces[PIECES + 1];
static struct cadre_speed_input input;
static struct cadre_rounds rounds;

static struct cadre_piece *piece_of(size_t run, int round, int half)
{
    return &pieces[(size_t)(round - 1) * 2 * RUNS + 2 * run + (size_t)half];
}

/* The two pieces of a run differ by 0.1 % to 0.8 %, one way or the other. */
static void setup(void)
{
    input = (struct cadre_speed_input){
        .piece = pieces, .n_pieces = PIECES, .n_runs = RUNS, .margin = 0.01};
    for (int round = 1; round <= ROUNDS; round++)
        for (size_t run = 0; run < RUNS; run++)
            for (int half = 0; half < 2; half++)
                *piece_of(run, round, half) = (struct cadre_piece){
                    .run = run,
                    .round = round,
                    .half = half,
                    .period_s = 0.1 * exp((half ? 0.001 : -0.001) * (round - 4.5)),
                    .bubble_fraction = half ? 0.2 : 0.3,
                    .comm_exposed_s = NAN,
                    .load = {.wall_s = 2, .foreign_s = 0.02},
                };
}

static void teardown(void)
{
    cadre_rounds_fini(&rounds);
}

static void gather(void)
{
    cadre_rounds_fini(&rounds);
    ck_assert_msg(cadre_rounds_init(&rounds, &input, &err) == CADRE_OK, "%s", err.text);
}

static void refused(const char *text)
{
    ck_assert_int_eq(cadre_rounds_init(&rounds, &input, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, text) != NULL, "%s", err.text);
    ck_assert_ptr_null(rounds.value);
    setup();
}

START_TEST(values_of_a_round)
{
    piece_of(1, 3, 0)->period_s = 0.1;
    piece_of(1, 3, 1)->period_s = 0.4;
    gather();
    const struct cadre_round_value *value = cadre_rounds_at(&rounds, 2, 1);
    ck_assert_double_eq_tol(value->log_t, log(0.2), 1e-12);
    ck_assert_double_eq_tol(value->control, log(0.25), 1e-12);
    ck_assert_double_eq_tol(value->bubble_fraction, 0.25, 1e-12);
    ck_assert(isnan(value->comm_exposed_s));
    ck_assert_double_eq_tol(rounds.round[2].foreign, 0.01, 1e-12);
}
END_TEST

/* Pieces may come in any order, rounds have any number, and some are repeats. */
START_TEST(order_of_pieces_does_not_matter)
{
    for (size_t i = 0; i < PIECES / 2; i++) {
        struct cadre_piece piece = pieces[i];
        pieces[i] = pieces[PIECES - 1 - i];
        pieces[PIECES - 1 - i] = piece;
    }
    for (size_t i = 0; i < PIECES; i++)
        if (pieces[i].round == 8) {
            pieces[i].round = 11;
            pieces[i].repeats_round = 4;
        }
    pieces[PIECES] = (struct cadre_piece){.run = 77, .round = 0};
    input.n_pieces = PIECES + 1;
    gather();
    ck_assert_uint_eq(rounds.n, ROUNDS);
    for (size_t i = 0; i < ROUNDS; i++) {
        ck_assert_int_eq(rounds.round[i].round, i < 7 ? (int)i + 1 : 11);
        ck_assert_double_eq_tol(cadre_rounds_at(&rounds, i, 0)->control,
                                -0.002 * ((double)i - 3.5), 1e-12);
    }
    ck_assert_uint_eq(rounds.n_disturbed, 0);
    setup();
}
END_TEST

START_TEST(foreign_load_disturbs)
{
    piece_of(1, 2, 1)->load.foreign_s = 0.62;
    piece_of(0, 5, 0)->load.foreign_s = 0.0999; /* just below 5 % of a core */
    piece_of(0, 6, 0)->load.foreign_s = NAN;
    for (size_t i = 0; i < PIECES; i++)
        if (pieces[i].round == 7)
            pieces[i].load.foreign_s = NAN;
    gather();
    ck_assert_uint_eq(rounds.n_disturbed, 1);
    ck_assert(rounds.round[1].disturbed);
    ck_assert_int_eq((int)rounds.round[1].run, 1);
    ck_assert_str_eq(rounds.round[1].why, "other processes took 31 % of a core");
    ck_assert_double_eq_tol(rounds.round[1].foreign, 0.31, 1e-12);
    ck_assert_double_eq_tol(rounds.round[4].foreign, 0.04995, 1e-12);
    ck_assert_double_eq_tol(rounds.round[5].foreign, 0.01, 1e-12);
    ck_assert(isnan(rounds.round[6].foreign) && !rounds.round[6].disturbed);
    ck_assert_int_eq((int)rounds.round[0].run, -1);
}
END_TEST

/* Twice the share of the timed steps, and half of what the pieces differ by; of
 * undisturbed rounds nothing. */
START_TEST(what_load_may_have_taken)
{
    struct cadre_piece *first = piece_of(1, 2, 0), *second = piece_of(1, 2, 1);
    second->load.foreign_s = 0.62;
    second->period_s = 1.02 * first->period_s;
    gather();
    ck_assert_double_eq_tol(cadre_rounds_at(&rounds, 1, 1)->taken,
                            -log(0.69) - log(0.99) + 0.5 * log(1.02), 1e-12);
    ck_assert_double_gt(cadre_rounds_at(&rounds, 1, 0)->taken, 0);
    ck_assert_double_eq(cadre_rounds_at(&rounds, 2, 1)->taken, 0);
    second->timed_s = 0.8; /* of a piece of 2 s: all of the load may have hit it */
    gather();
    ck_assert_double_eq_tol(cadre_rounds_at(&rounds, 1, 1)->taken,
                            -log(1 - 0.62 / 0.8) - log(0.99) + 0.5 * log(1.02), 1e-12);
    first->load.foreign_s = NAN; /* not known: as much as any */
    gather();
    ck_assert_double_gt(cadre_rounds_at(&rounds, 1, 1)->taken, 5);
    first->load.foreign_s = 0.02;
    first->load.gpu_mhz = 1980;
    gather();
    ck_assert_double_gt(cadre_rounds_at(&rounds, 1, 1)->taken, 5);
}
END_TEST

START_TEST(others_on_the_gpu_disturb)
{
    piece_of(1, 4, 1)->load.gpu_others = 1;
    gather();
    ck_assert_uint_eq(rounds.n_disturbed, 1);
    ck_assert(rounds.round[3].disturbed && rounds.round[3].run == 1);
    ck_assert_str_eq(rounds.round[3].why, "other processes were on its GPUs");
}
END_TEST

/* Of undisturbed rounds too, but nothing of a GPU's, which counters of CPUs do not see.
 */
START_TEST(what_the_counters_alone_say)
{
    struct cadre_piece *first = piece_of(1, 2, 0), *second = piece_of(1, 2, 1);
    first->load.foreign_s = 0.02;
    second->load.foreign_s = 0.06;
    gather();
    ck_assert(!rounds.round[1].disturbed);
    ck_assert_double_eq_tol(cadre_rounds_at(&rounds, 1, 1)->loaded,
                            -log(1 - 0.02 / first->load.wall_s) -
                                log(1 - 0.06 / second->load.wall_s),
                            1e-12);
    first->load.foreign_s = second->load.foreign_s = NAN;
    gather();
    ck_assert_double_eq(cadre_rounds_at(&rounds, 1, 1)->loaded, 0);
    first->load.gpu_mhz = second->load.gpu_mhz = 1980;
    gather();
    ck_assert_double_eq(cadre_rounds_at(&rounds, 1, 1)->loaded, 0);
}
END_TEST

START_TEST(a_control_outside_of_the_others_disturbs)
{
    piece_of(1, 4, 1)->period_s *= 1.25;
    gather();
    ck_assert_uint_eq(rounds.n_disturbed, 1);
    ck_assert(rounds.round[3].disturbed);
    ck_assert_int_eq((int)rounds.round[3].run, 1);
    ck_assert_str_eq(rounds.round[3].why,
                     "its two pieces differ by 25 %, far more than others do");
}
END_TEST

/* Where controls lie outside in more than a third of the rounds, that is the noise
 * itself: a machine with two speeds, say. */
START_TEST(outliers_are_few)
{
    piece_of(1, 4, 1)->period_s *= 1.25;
    piece_of(0, 7, 1)->period_s *= 1.30;
    gather();
    ck_assert_uint_eq(rounds.n_disturbed, 2);
    piece_of(0, 2, 0)->period_s *= 1.30;
    gather();
    ck_assert_uint_eq(rounds.n_disturbed, 0);
    ck_assert_str_eq(rounds.round[3].why, "");
    piece_of(1, 4, 1)->load.foreign_s = 1; /* load is load however often */
    gather();
    ck_assert_uint_eq(rounds.n_disturbed, 1);
}
END_TEST

/* A difference that the margin calls none disturbs nothing, however rare it is. */
START_TEST(controls_within_the_margin)
{
    for (size_t i = 0; i < PIECES; i++)
        pieces[i].period_s = 0.1;
    piece_of(0, 4, 1)->period_s = 0.1009;
    gather();
    ck_assert_uint_eq(rounds.n_disturbed, 0);
    piece_of(0, 4, 1)->period_s = 0.1011;
    gather();
    ck_assert_uint_eq(rounds.n_disturbed, 1);
}
END_TEST

/* One run is ten times as noisy as the other: that is no disturbance. */
START_TEST(a_noisy_run_is_no_outlier)
{
    for (int round = 1; round <= ROUNDS; round++)
        for (int half = 0; half < 2; half++)
            piece_of(1, round, half)->period_s =
                0.1 * exp((half ? 0.01 : -0.01) * (round - 4.5));
    gather();
    ck_assert_uint_eq(rounds.n_disturbed, 0);
}
END_TEST

START_TEST(one_piece_has_no_control)
{
    size_t n = 0;
    for (size_t i = 0; i < PIECES; i++)
        if (pieces[i].half == 0)
            pieces[n++] = pieces[i];
    input.n_pieces = n;
    pieces[5].period_s = 9;
    gather();
    ck_assert_uint_eq(rounds.n, ROUNDS);
    ck_assert_uint_eq(rounds.n_disturbed, 0);
    ck_assert(isnan(cadre_rounds_at(&rounds, 0, 0)->control));
    ck_assert_double_eq_tol(cadre_rounds_at(&rounds, 2, 1)->log_t, log(9), 1e-12);
}
END_TEST

START_TEST(what_is_no_round)
{
    input.n_pieces = PIECES - 1;
    refused("round 8 has 1 pieces of run 1, expected 2");
    *piece_of(1, 2, 0) = *piece_of(1, 3, 0);
    refused("run 1 has two pieces of half 0 in round 3, expected one");
    piece_of(1, 2, 0)->half = 2;
    refused("a piece of run 1, half 2: expected one of 2 runs");
    piece_of(1, 2, 0)->run = 2;
    refused("a piece of run 2, half 0: expected one of 2 runs");
    piece_of(1, 2, 0)->period_s = NAN;
    refused("a piece of run 1 in round 2 took nan s a period, expected a time above 0");
    piece_of(0, 1, 1)->period_s = 0;
    refused("a piece of run 0 in round 1 took 0 s a period");
    input.baseline = 2;
    refused("the baseline is run 2, expected one of 2, from 0");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("rounds");
    TCase *tc = tcase_create("rounds");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, values_of_a_round);
    tcase_add_test(tc, order_of_pieces_does_not_matter);
    tcase_add_test(tc, foreign_load_disturbs);
    tcase_add_test(tc, what_load_may_have_taken);
    tcase_add_test(tc, others_on_the_gpu_disturb);
    tcase_add_test(tc, what_the_counters_alone_say);
    tcase_add_test(tc, a_control_outside_of_the_others_disturbs);
    tcase_add_test(tc, outliers_are_few);
    tcase_add_test(tc, controls_within_the_margin);
    tcase_add_test(tc, a_noisy_run_is_no_outlier);
    tcase_add_test(tc, one_piece_has_no_control);
    tcase_add_test(tc, what_is_no_round);
    suite_add_tcase(s, tc);
    return s;
}
