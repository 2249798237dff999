/* SPDX-License-Identifier: Apache-2.0 */
/* What a run is judged against; the verdicts themselves are in test_comparison.c. */
#include "core/compare/verdict/judge.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_comparison c;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    cadre_comparison_fini(&c);
    test_tmpdir_destroy(dir);
}

static void take_seed(size_t i, const char *seed, uint64_t setup)
{
    struct cadre_compared_run *run = &c.run[i];
    run->setup = setup;
    ck_assert_int_eq(cadre_options_create(&run->options, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_options_set(run->options, seed, "test", NULL), CADRE_OK);
    if (strcmp(seed, "run.seed=1") != 0) {
        free(run->other_training);
        run->other_training = cadre_strdup("run.seed (2, baseline 1)");
    }
}

/* The third and fourth are judged against the second, not against the first. */
START_TEST(runs_of_another_seed_have_its_baseline)
{
    const struct fixture_run runs[] = {
        {.name = "base", .exact = true, .sums = "tree"},
        {.name = "two", .loss_shift = 1, .exact = true, .sums = "tree"},
        {.name = "ddp-two", .ranks = 2, .loss_shift = 1, .exact = true, .sums = "tree"},
        {.name = "wrong", .ranks = 2, .exact = true, .sums = "tree"},
        {.name = "loose", .ranks = 2, .loss_shift = 1},
    };
    struct cadre_error err = {0};
    fixture_compare(dir, runs, 5, NULL, &c);
    for (size_t i = 0; i < 5; i++)
        take_seed(i, i ? "run.seed=2" : "run.seed=1", i < 2 ? 5 : 6 + i);
    ck_assert_int_eq(cadre_comparison_judge(&c, &err), CADRE_OK);
    ck_assert(c.run[1].equal == CADRE_EQUAL_INDEPENDENT);
    ck_assert(c.run[2].equal == CADRE_EQUAL_EXACT &&
              c.run[2].limit == CADRE_LIMIT_BITS);
    ck_assert(c.run[3].equal == CADRE_EQUAL_DIFFERS);
    ck_assert_ptr_eq(cadre_comparison_differing(&c), &c.run[3]);
    ck_assert(c.run[4].limit == CADRE_LIMIT_STATED && c.run[4].loss_max_diff == 0);
    ck_assert_int_eq(c.run[4].bit_identical, -1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("judge");
    TCase *tc = tcase_create("judge");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, runs_of_another_seed_have_its_baseline);
    suite_add_tcase(s, tc);
    return s;
}
