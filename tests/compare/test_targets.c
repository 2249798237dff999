/* SPDX-License-Identifier: Apache-2.0 */
/* The children are this program again, called as `... train ...`: they leave the time
 * that their seed and their run make. Run "never" does not reach the target under seed
 * 12, and with FAKE_BASE=never the baseline does not. */
#include "core/compare/targets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

/* Runs before main, which would run the tests. */
__attribute__((constructor)) static void be_the_child(int argc, char **argv)
{
    if (argc < 7 || strcmp(argv[1], "train") != 0)
        return;
    const char *run = argv[4], *folder = argv[6], *how = getenv("FAKE_BASE");
    const char *seed = fixture_set(argc, argv, "run.seed");
    double step_s = seed ? 0.1 * atof(seed) : 1;
    if (strcmp(run, "never") == 0 && seed && atoi(seed) == 12)
        step_s = -1;
    if (strcmp(run, "base") == 0 && how && strcmp(how, "never") == 0)
        step_s = -1;
    _exit(fixture_bench(argc, argv, folder, strcmp(run, "base") ? step_s / 2 : step_s));
}

static char *dir, *out;
static struct cadre_comparison c;
static struct cadre_pieces pieces;
static struct cadre_supervise_watch watch;
static struct cadre_arrangement arrangement;
static struct cadre_arrange_request made;
static struct cadre_error err;
static const struct cadre_timetable table = {.wanted = 6, .seed = 10, .order = 10};

static void setup(void)
{
    const struct fixture_run runs[] = {{.name = "same"},
                                       {.name = "base"},
                                       {.name = "half", .changed_by = "x"},
                                       {.name = "never", .changed_by = "y"}};
    dir = test_tmpdir();
    out = cadre_path_join(dir, "out");
    unsetenv("FAKE_BASE");
    ck_assert_int_eq(cadre_path_make_dirs(out, &err), CADRE_OK);
    made = (struct cadre_arrange_request){.conf = "c.ini", .out = out};
    fixture_compare(dir, runs, 4, NULL, &c);
    c.baseline = 1;
    c.target = 2.5;
    c.run[2].to_target = c.run[3].to_target = true;
    cadre_supervise_open(&watch);
    const struct cadre_task_request request = {&made, &c, &arrangement, false, NULL};
    ck_assert_int_eq(cadre_pieces_open(&pieces, &request, &c, &watch, &err), CADRE_OK);
}

static void teardown(void)
{
    cadre_pieces_close(&pieces);
    cadre_supervise_close(&watch);
    cadre_comparison_fini(&c);
    test_tmpdir_destroy(dir);
    free(out);
}

static void measure(void)
{
    cadre_status rc = cadre_targets_measure(&table, &pieces, &c, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

START_TEST(a_round_is_a_seed)
{
    c.run[3].to_target = false;
    measure();
    ck_assert_uint_eq(c.n_target_pieces, 12);
    for (size_t i = 0; i < 12; i++) {
        const struct cadre_piece *piece = &c.target_piece[i];
        double base = 10 + piece->round; /* ten steps of a tenth of the seed */
        ck_assert_int_eq(piece->round, 1 + (int)i / 2);
        ck_assert_int_eq(piece->place, (int)i % 2);
        ck_assert(piece->run == 1 || piece->run == 2);
        ck_assert_uint_ne(piece->run, c.target_piece[i ^ 1].run);
        ck_assert_double_eq_tol(piece->period_s, piece->run == 1 ? base : base / 2,
                                1e-9);
    }
    ck_assert_uint_eq(c.n_pieces, 0);
}
END_TEST

START_TEST(who_does_not_arrive_is_left_out)
{
    measure();
    ck_assert_uint_eq(c.n_target_pieces, 12);
    ck_assert(c.run[2].to_target && !*c.run[2].untimed);
    ck_assert(!c.run[3].to_target);
    ck_assert_msg(strstr(c.run[3].untimed, " did not reach compare.target"), "%s",
                  c.run[3].untimed);
    for (size_t i = 0; i < 12; i++)
        ck_assert_uint_ne(c.target_piece[i].run, 3);
}
END_TEST

START_TEST(without_the_baseline_nobody_is_judged)
{
    setenv("FAKE_BASE", "never", 1);
    measure();
    ck_assert_uint_eq(c.n_target_pieces, 0);
    for (int i = 2; i < 4; i++) {
        ck_assert(!c.run[i].to_target);
        ck_assert_msg(strstr(c.run[i].untimed, "the baseline: piece ") ==
                          c.run[i].untimed,
                      "%s", c.run[i].untimed);
    }
    ck_assert_str_eq(c.run[1].untimed, "");
}
END_TEST

START_TEST(nobody_takes_no_time)
{
    c.run[2].to_target = c.run[3].to_target = false;
    measure();
    ck_assert_uint_eq(c.n_target_pieces, 0);
    ck_assert_int_eq(pieces.made, 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("targets");
    TCase *tc = tcase_create("targets");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_round_is_a_seed);
    tcase_add_test(tc, who_does_not_arrive_is_left_out);
    tcase_add_test(tc, without_the_baseline_nobody_is_judged);
    tcase_add_test(tc, nobody_takes_no_time);
    suite_add_tcase(suite, tc);
    return suite;
}
