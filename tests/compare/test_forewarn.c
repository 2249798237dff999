/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/forewarn.h"

#include <string.h>

#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_comparison c;
static struct cadre_timetable table;
static struct cadre_text lines;

static void setup(void)
{
    static const struct fixture_run runs[] = {{.name = "base"}, {.name = "b"},
                                              {.name = "c"},    {.name = "d"},
                                              {.name = "e"},    {.name = "f"}};
    dir = test_tmpdir();
    table = (struct cadre_timetable){0};
    fixture_compare(dir, runs, 6, NULL, &c);
}

static void teardown(void)
{
    cadre_text_fini(&lines);
    cadre_comparison_fini(&c);
    test_tmpdir_destroy(dir);
}

static void told(const struct cadre_condition *conditions, size_t n,
                 const char *expected)
{
    cadre_text_fini(&lines);
    cadre_forewarn(&c, &table, conditions, n, &lines);
    ck_assert_str_eq(cadre_text_str(&lines), expected);
}

START_TEST(rounds_that_rank_nothing)
{
    table.wanted = 5;
    told(NULL, 0, "5 rounds rank nothing, 6 are needed: raise compare.rounds\n");
    table.wanted = 6;
    told(NULL, 0,
         "6 rounds cannot tell one run from the 5 others, 8 can: raise "
         "compare.rounds\n"); /* 2^-6 > 0.05 / 5 */
    table.wanted = 8;
    told(NULL, 0, "");
    table.wanted = 0; /* as many as it needs */
    told(NULL, 0, "");
}
END_TEST

START_TEST(rounds_of_few_timed_runs)
{
    table.wanted = 6;
    for (size_t i = 2; i < c.n; i++)
        strcpy(c.run[i].untimed, "compare.time is no");
    told(NULL, 0, "");
    for (size_t i = 1; i < c.n; i++)
        strcpy(c.run[i].untimed, "compare.time is no");
    table.wanted = 1;
    told(NULL, 0, "");
}
END_TEST

START_TEST(conditions_that_nothing_can_decide)
{
    const struct cadre_condition conditions[] = {{.text = "speedup(b) < 0.9", .run = 1},
                                                 {.text = "speedup(c) < 1", .run = 2}};
    told(conditions, 2, "");
    strcpy(c.run[2].untimed, "compare.time is no");
    told(conditions, 2,
         "--fail-if 'speedup(c) < 1' will be undecided: run c is not timed "
         "(compare.time is no)\n");
    strcpy(c.run[2].untimed, "");
    strcpy(c.run[0].untimed, "it has more ranks than cores");
    told(conditions, 1,
         "--fail-if 'speedup(b) < 0.9' will be undecided: run base is not timed (it "
         "has more ranks than cores)\n");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("forewarn");
    TCase *tc = tcase_create("forewarn");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, rounds_that_rank_nothing);
    tcase_add_test(tc, rounds_of_few_timed_runs);
    tcase_add_test(tc, conditions_that_nothing_can_decide);
    suite_add_tcase(s, tc);
    return s;
}
