/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/report/cells.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/compare/fixture.h"
#include "tests/compare/timed.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_comparison c;
static struct cadre_cells cells;

static void setup(void)
{
    const struct fixture_run runs[] = {{.name = "base", .step_s = 0.4},
                                       {.name = "quick", .ranks = 2, .step_s = 0.25}};
    dir = test_tmpdir();
    fixture_judge(dir, runs, 2, NULL, &c);
    timed_fill(&c, 6);
}

static void teardown(void)
{
    timed_clear(&c);
    cadre_comparison_fini(&c);
    test_tmpdir_destroy(dir);
}

static void expect(enum cadre_cell cell, const char *wanted)
{
    ck_assert_str_eq(cells.of[cell], wanted);
}

START_TEST(figures_have_intervals)
{
    cadre_cells_fill(&c, 1, false, &cells);
    expect(CADRE_CELL_RUN, "quick");
    expect(CADRE_CELL_TIME, "250 ms [245 ms, 255 ms]");
    expect(CADRE_CELL_SPEEDUP, "1.60 [1.57, 1.63]");
    expect(CADRE_CELL_VERDICT, "faster");
    expect(CADRE_CELL_EFFICIENCY, "80 % [78, 82]");
    expect(CADRE_CELL_CONTROL, "+- 1.2 %");
    expect(CADRE_CELL_FAIR, "yes");
    cadre_cells_fill(&c, 1, true, &cells);
    expect(CADRE_CELL_TIME, "250 ms");
    expect(CADRE_CELL_SPEEDUP, "1.60 [1.57, 1.63]");
    expect(CADRE_CELL_EFFICIENCY, "80 %");
}
END_TEST

START_TEST(verdicts_are_words)
{
    ck_assert_str_eq(cadre_cells_verdict(&c, 0), "baseline");
    timed_set(&c, 1, 0.9, 1, 1.1, CADRE_SPEED_NO_DIFFERENCE);
    ck_assert_str_eq(cadre_cells_verdict(&c, 1), "no difference");
    timed_set(&c, 1, NAN, 1, NAN, CADRE_SPEED_NOT_RANKED);
    ck_assert_str_eq(cadre_cells_verdict(&c, 1), "not ranked");
    timed_set(&c, 0, NAN, 1, NAN, CADRE_SPEED_NOT_RANKED);
    ck_assert_str_eq(cadre_cells_verdict(&c, 0), "not ranked");
    timed_fail(&c, 1, "killed");
    ck_assert_str_eq(cadre_cells_verdict(&c, 1), "failed");
}
END_TEST

START_TEST(shown_is_what_nothing_casts_doubt_on)
{
    ck_assert(cadre_cells_is_shown(&c.run[1]) && !cadre_cells_is_shown(&c.run[0]));
    c.run[1].fair = false;
    ck_assert(!cadre_cells_is_shown(&c.run[1]));
    c.run[1].fair = true;
    snprintf(c.run[1].implausible, sizeof c.run[1].implausible, "x");
    ck_assert(!cadre_cells_is_shown(&c.run[1]));
}
END_TEST

START_TEST(doubts_are_marked)
{
    c.run[1].fair = false;
    snprintf(c.run[1].implausible, sizeof c.run[1].implausible, "x");
    cadre_cells_fill(&c, 1, false, &cells);
    expect(CADRE_CELL_RUN, "quick (unfair)");
    expect(CADRE_CELL_SPEEDUP, "1.60 [1.57, 1.63] !");
    expect(CADRE_CELL_EFFICIENCY, "80 % [78, 82] !");
    expect(CADRE_CELL_FAIR, "no: fair = false");
}
END_TEST

START_TEST(failed_runs_have_no_figures)
{
    timed_fail(&c, 1, "killed");
    cadre_cells_fill(&c, 1, false, &cells);
    expect(CADRE_CELL_RUN, "quick");
    expect(CADRE_CELL_VERDICT, "failed");
    expect(CADRE_CELL_TIME, "-");
    expect(CADRE_CELL_SPEEDUP, "-");
    expect(CADRE_CELL_EQUALITY, "failed");
    timed_fail(&c, 0, "killed");
    for (size_t i = 0; i < 2; i++) {
        cadre_cells_fill(&c, i, true, &cells);
        for (int k = 0; k < CADRE_CELLS; k++)
            ck_assert(strstr(cells.of[k], "nan") == NULL && *cells.of[k]);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("cells");
    TCase *tc = tcase_create("cells");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, figures_have_intervals);
    tcase_add_test(tc, verdicts_are_words);
    tcase_add_test(tc, shown_is_what_nothing_casts_doubt_on);
    tcase_add_test(tc, doubts_are_marked);
    tcase_add_test(tc, failed_runs_have_no_figures);
    suite_add_tcase(suite, tc);
    return suite;
}
