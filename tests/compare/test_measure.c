/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of pieces whose children are this program again: called as `... train ...` it
 * trains nothing and leaves the times that FAKE_STEP_S says. FAKE_DIR/count numbers
 * them: those from FAKE_SLOW on, two of them, take half as long again, and number
 * FAKE_FAIL fails. Whatever this machine does, no more than two rounds of six are
 * repeated. Check's assertions do not work in a child. */
#include "core/compare/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/compare/timing/order.h"
#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

/* ---- the fake ---- */

static int number_of_child(void)
{
    char path[600];
    int count = 0;
    snprintf(path, sizeof path, "%s/count", getenv("FAKE_DIR"));
    FILE *file = fopen(path, "r+");
    file = file ? file : fopen(path, "w+");
    if (fscanf(file, "%d", &count) != 1)
        count = 0;
    rewind(file);
    fprintf(file, "%d", ++count);
    fclose(file);
    return count;
}

static double number_of(const char *name, double otherwise)
{
    const char *text = getenv(name);
    return text ? atof(text) : otherwise;
}

/* Runs before main, which would run the tests. */
__attribute__((constructor)) static void be_the_child(int argc, char **argv)
{
    const char *folder = "";
    if (argc < 2 || strcmp(argv[1], "train") != 0)
        return;
    for (int i = 2; i + 1 < argc; i++)
        if (strcmp(argv[i], "--out") == 0)
            folder = argv[i + 1];
    int number = number_of_child();
    double slow = number_of("FAKE_SLOW", 1e9), step_s = number_of("FAKE_STEP_S", 0.125);
    if (number == (int)number_of("FAKE_FAIL", 0))
        _exit(3);
    if (number >= slow && number < slow + 2)
        step_s *= 1.5;
    if (strstr(folder, "/half"))
        step_s /= 2;
    _exit(fixture_bench(argc, argv, folder, step_s));
}

/* ---- tests ---- */

static char *dir, *out;
static struct cadre_comparison c;
static struct cadre_arrangement arrangement;
static struct cadre_error err;

static void setup(void)
{
    dir = test_tmpdir();
    out = cadre_path_join(dir, "out");
    ck_assert_int_eq(cadre_path_make_dirs(out, &err), CADRE_OK);
    setenv("FAKE_DIR", dir, 1);
    unsetenv("FAKE_STEP_S");
    unsetenv("FAKE_SLOW");
    unsetenv("FAKE_FAIL");
    arrangement = (struct cadre_arrangement){
        .timetable = {.wanted = 6, .piece_s = 1, .period = 1, .order = 7}};
}

static void teardown(void)
{
    cadre_comparison_fini(&c);
    test_tmpdir_destroy(dir);
    free(out);
}

static cadre_status measure(size_t n)
{
    const struct fixture_run runs[] = {{.name = "base", .step_s = 0.125},
                                       {.name = "half", .step_s = 0.0625},
                                       {.name = "same", .step_s = 0.125}};
    const struct cadre_arrange_request made = {.conf = "c.ini", .out = out};
    const struct cadre_task_request request = {&made, &c, &arrangement, false, NULL};
    struct cadre_supervise_watch watch;
    fixture_compare(dir, runs, n, NULL, &c);
    c.margin = 0.01;
    cadre_supervise_open(&watch);
    cadre_status rc = cadre_measure(&request, &c, &watch, &err);
    cadre_supervise_close(&watch);
    return rc;
}

static size_t lines_of_file(void)
{
    char *text = NULL, *path = cadre_path_join(out, "pieces.jsonl");
    size_t bytes = 0, lines = 0;
    ck_assert_int_eq(cadre_path_read_file(path, 1 << 20, &text, &bytes, &err),
                     CADRE_OK);
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    free(text);
    free(path);
    return lines;
}

START_TEST(every_run_has_two_pieces_in_a_round)
{
    ck_assert_msg(measure(3) == CADRE_OK, "%s", err.text);
    ck_assert(c.mirrored && c.rounds == 6 && !*c.unranked);
    size_t rounds = c.n_pieces / 6;
    ck_assert_uint_eq(c.n_pieces % 6, 0);
    ck_assert(rounds >= 7 && rounds <= 9);
    ck_assert_uint_eq(lines_of_file(), c.n_pieces);
    for (size_t i = 0; i < c.n_pieces; i++) {
        const struct cadre_piece *piece = &c.piece[i];
        int place = (int)(i % 6);
        ck_assert_int_eq(piece->round, (int)(i / 6));
        ck_assert_int_eq(piece->place, place);
        ck_assert_int_eq(piece->half, place >= 3);
        ck_assert_uint_eq(piece->run, c.piece[i - 2 * (size_t)place + 5].run);
        ck_assert((piece->repeats_round > 0) == (piece->round > 6));
        ck_assert(piece->period_s == (piece->run == 1 ? 0.0625 : 0.125));
        ck_assert(piece->comm_exposed_s == 0.125 * piece->period_s);
        ck_assert(isnan(piece->bubble_fraction));
        ck_assert(piece->start_s == 0.01 && piece->load.wall_s > 0);
        ck_assert(i == 0 || piece->begin_s > piece[-1].begin_s);
    }
}
END_TEST

START_TEST(dear_starts_are_few)
{
    setenv("FAKE_STEP_S", "1e-5", 1);
    ck_assert_msg(measure(2) == CADRE_OK, "%s", err.text);
    ck_assert(!c.mirrored && c.rounds == 6 && !*c.unranked);
    size_t later = 0;
    for (size_t i = 0; i < c.n_pieces; i++) {
        later += c.piece[i].round > 0 && c.piece[i].round <= 6;
        ck_assert(c.piece[i].round == 0 || c.piece[i].half == 0);
    }
    ck_assert_uint_eq(later, 12);
    /* the mean of four windows */
    ck_assert_double_eq_tol(c.piece[c.n_pieces - 1].period_s,
                            c.piece[c.n_pieces - 1].run ? 5e-6 : 1e-5, 1e-12);
}
END_TEST

/* The first half of round 1 is slow: its controls are far from the others. */
START_TEST(a_disturbed_round_is_made_again)
{
    setenv("FAKE_SLOW", "5", 1);
    ck_assert_msg(measure(2) == CADRE_OK, "%s", err.text);
    bool again = false;
    for (size_t i = 0; i < c.n_pieces; i++)
        again = again || (c.piece[i].round > 6 && c.piece[i].repeats_round == 1);
    ck_assert(again);
    ck_assert_int_eq(c.rounds, 6);
}
END_TEST

/* Piece 6, of three runs: round 0 is 1 to 6, so its run has had all of that round. */
START_TEST(a_run_whose_piece_fails_is_left_out)
{
    size_t order[6];
    cadre_round_order(7, 1, 3, true, order);
    size_t at = 0; /* of the first piece in round 1 that is not the baseline's */
    while (order[at] == 0)
        at++;
    char number[16];
    snprintf(number, sizeof number, "%zu", 7 + at);
    setenv("FAKE_FAIL", number, 1);
    ck_assert_msg(measure(3) == CADRE_OK, "%s", err.text);
    const struct cadre_compared_run *lost = &c.run[order[at]], *kept;
    kept = order[at] == 1 ? &c.run[2] : &c.run[1];
    char why[64];
    snprintf(why, sizeof why, "piece %s failed with exit status 3", number);
    ck_assert_str_eq(lost->untimed, why);
    ck_assert(!*kept->untimed && !*c.unranked && !*lost->failure);
    for (size_t i = 0; i < c.n_pieces; i++)
        ck_assert_uint_ne(c.piece[i].run, order[at]);
    ck_assert_uint_gt(lines_of_file(), c.n_pieces);
}
END_TEST

START_TEST(one_run_alone_is_not_timed)
{
    setenv("FAKE_FAIL", "1", 1);
    ck_assert_msg(measure(2) == CADRE_OK, "%s", err.text);
    ck_assert_uint_eq(c.n_pieces, 0);
    ck_assert_msg(strstr(c.unranked, "two runs could be timed") ||
                      strstr(c.unranked, "the baseline is not timed: piece 1 failed"),
                  "%s", c.unranked);
}
END_TEST

START_TEST(few_rounds_rank_nothing)
{
    arrangement.timetable.budget_s = 1e-6;
    ck_assert_msg(measure(2) == CADRE_OK, "%s", err.text);
    ck_assert_int_eq(c.rounds, 1);
    ck_assert_str_eq(c.unranked, "1 round, and 6 are needed to rank runs");
    ck_assert_uint_gt(c.n_pieces, 4);
}
END_TEST

START_TEST(a_clock_is_read_at_a_glance)
{
    char text[32];
    ck_assert_str_eq(cadre_measure_clock(100, text, sizeof text), "1:40");
    ck_assert_str_eq(cadre_measure_clock(0.2, text, sizeof text), "0:00");
    ck_assert_str_eq(cadre_measure_clock(7299.6, text, sizeof text), "2:01:40");
    ck_assert_str_eq(cadre_measure_clock(-1, text, sizeof text), "0:00");
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("measure");
    TCase *tc = tcase_create("measure");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, every_run_has_two_pieces_in_a_round);
    tcase_add_test(tc, dear_starts_are_few);
    tcase_add_test(tc, a_disturbed_round_is_made_again);
    tcase_add_test(tc, a_run_whose_piece_fails_is_left_out);
    tcase_add_test(tc, one_run_alone_is_not_timed);
    tcase_add_test(tc, few_rounds_rank_nothing);
    tcase_add_test(tc, a_clock_is_read_at_a_glance);
    suite_add_tcase(suite, tc);
    return suite;
}
