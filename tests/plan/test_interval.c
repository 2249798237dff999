/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/interval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

static struct cadre_intervals intervals;
static struct cadre_error err;
static char *dir;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    cadre_intervals_fini(&intervals);
    test_tmpdir_destroy(dir);
}

static cadre_status load(const char *text)
{
    return cadre_intervals_load(
        &intervals, test_file_put(dir, "errors.tsv", text, strlen(text)), &err);
}

/* Of 9 errors 0.9 of one more is the ninth. */
START_TEST(the_part_of_one_more_lies_below)
{
    char text[512] = "set\tkind\terror\n";
    for (int i = 1; i <= 9; i++)
        snprintf(text + strlen(text), 32, "A\tother\t%s0.0%d\n", i % 2 ? "" : "-", i);
    ck_assert_int_eq(load(text), CADRE_OK);
    const struct cadre_plan_interval v = cadre_interval_of(&intervals, 2, false, NULL);
    ck_assert_uint_eq(v.rows, 9);
    ck_assert_double_eq_tol(v.high, 2 * 1.09, 1e-12);
    ck_assert_double_eq_tol(v.low, 2 / 1.09, 1e-12);
    ck_assert_uint_eq(cadre_interval_of(&intervals, 2, true, NULL).rows, 9);
    ck_assert_uint_eq(cadre_interval_of(NULL, 2, false, NULL).rows, 0);
}
END_TEST

static size_t covered(bool whole_set, size_t *gathered)
{
    size_t n = 0;
    *gathered = 0;
    for (size_t i = 0; i < intervals.n; i++) {
        struct cadre_interval_row *row = &intervals.row[i];
        const struct cadre_interval_row kept = *row;
        const struct cadre_plan_interval v =
            whole_set ? cadre_interval_of(&intervals, 1, kept.gathered, kept.set)
                      : (*row = intervals.row[--intervals.n],
                         cadre_interval_of(&intervals, 1, kept.gathered, NULL));
        if (!whole_set) { /* put it back */
            intervals.row[intervals.n++] = *row;
            *row = kept;
        }
        const bool in = kept.off <= log(v.high);
        n += in;
        *gathered += in && kept.gathered;
    }
    return n;
}

/* The table that is installed: at least 80 % of rows lie in the interval that the other
 * rows make, those of ZeRO-3 too, and in the one that the other sets make. */
START_TEST(covers_rows_that_were_held_out)
{
    char path[1024];
    const char *src = getenv("CADRE_SRC");
    size_t gathered, rows = 0;
    snprintf(path, sizeof path, "%s/conf/hardware/errors.tsv", src ? src : "..");
    ck_assert_int_eq(cadre_intervals_load(&intervals, path, &err), CADRE_OK);
    for (size_t i = 0; i < intervals.n; i++)
        rows += intervals.row[i].gathered;
    ck_assert_uint_ge(intervals.n, 70);
    ck_assert_uint_ge(10 * covered(false, &gathered), 8 * intervals.n);
    ck_assert_uint_ge(10 * gathered, 8 * rows);
    ck_assert_uint_ge(10 * covered(true, &gathered), 8 * intervals.n);
}
END_TEST

static const struct {
    const char *text, *why;
} wrong[] = {
    {"set\tkind\nA\tother\n", "has no column 'error'"},
    {"set\tkind\terror\nA\tother\tsmall\n", "error is 'small'"},
    {"set\tkind\terror\nA\tother\t-1\n", "error is '-1'"},
    {"set\tkind\terror\nA\tmine\t0.1\n", "kind is 'mine'"},
};

START_TEST(refuses)
{
    ck_assert_int_eq(load(wrong[_i].text), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, wrong[_i].why) != NULL, "%s", err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("interval");
    TCase *tc = tcase_create("interval");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_part_of_one_more_lies_below);
    tcase_add_test(tc, covers_rows_that_were_held_out);
    tcase_add_loop_test(tc, refuses, 0, (int)(sizeof wrong / sizeof *wrong));
    suite_add_tcase(s, tc);
    return s;
}
