/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/condition.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/compare/fixture.h"
#include "tests/compare/timed.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_comparison c;
static struct cadre_error err;

/* "exact" is "zero" with run.exact. */
static void setup(void)
{
    const struct fixture_run runs[] = {
        {.name = "base", .step_s = 0.4},
        {.name = "zero", .ranks = 2, .step_s = 0.25, .passes = true},
        {.name = "exact", .ranks = 2, .step_s = 0.3, .exact = true},
    };
    dir = test_tmpdir();
    fixture_judge(dir, runs, 3, NULL, &c);
    c.run[1].setup = c.run[2].setup = 7;
    timed_fill(&c, 8);
    memset(&err, 0, sizeof err);
}

static void teardown(void)
{
    timed_clear(&c);
    cadre_comparison_fini(&c);
    test_tmpdir_destroy(dir);
}

static enum cadre_condition_result judge(const char *text)
{
    struct cadre_condition condition;
    cadre_status rc = cadre_condition_parse(text, &c, &condition, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    return cadre_condition_judge(&condition, &c, NULL);
}

static void refused(const char *text, const char *says)
{
    struct cadre_condition condition;
    ck_assert_int_eq(cadre_condition_parse(text, &c, &condition, &err),
                     CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, says) != NULL, "%s: %s", text, err.text);
}

START_TEST(conditions_are_read)
{
    struct cadre_condition condition;
    ck_assert_int_eq(
        cadre_condition_parse(" efficiency ( zero )>= 90 % ", &c, &condition, &err),
        CADRE_OK);
    ck_assert_int_eq(condition.figure, CADRE_CONDITION_EFFICIENCY);
    ck_assert_uint_eq(condition.run, 1);
    ck_assert(condition.above && condition.or_equal && condition.limit == 0.9);
    ck_assert_int_eq(
        cadre_condition_parse("overhead(exact)<-1e-3", &c, &condition, &err), CADRE_OK);
    ck_assert(!condition.above && !condition.or_equal && condition.limit == -1e-3);
}
END_TEST

START_TEST(what_is_wrong_is_named_with_the_nearest)
{
    refused("speed(zero) < 1", "no figure 'speed'");
    refused("speedpu(zero) < 1", "no figure 'speedpu', did you mean 'speedup';");
    refused("speedup(zer) < 1", "no run 'zer', did you mean 'zero'; the runs are base, "
                                "zero, exact");
    refused("speedup(zero) = 1", "found '= 1'");
    refused("speedup(zero) < ", "found '< '");
    refused("speedup(zero) < one", "found '< one'");
    refused("speedup(zero) < 1 2", "found '< 1 2'");
    refused("speedup(zero) < nan", "found '< nan'");
    refused("speedup zero < 1", "expected FIGURE(RUN) < NUMBER");
    refused("", "expected FIGURE(RUN)");
    refused("price(zero) < 0.1", "run zero has no price");
}
END_TEST

/* The interval of the speedup is 1.568 to 1.632. */
START_TEST(the_whole_interval_decides)
{
    ck_assert_int_eq(judge("speedup(zero) < 1.7"), CADRE_CONDITION_YES);
    ck_assert_int_eq(judge("speedup(zero) < 1.6"), CADRE_CONDITION_UNDECIDED);
    ck_assert_int_eq(judge("speedup(zero) < 1.5"), CADRE_CONDITION_NO);
    ck_assert_int_eq(judge("speedup(zero) > 1.5"), CADRE_CONDITION_YES);
    ck_assert_int_eq(judge("speedup(zero) > 1.7"), CADRE_CONDITION_NO);
    ck_assert_int_eq(judge("efficiency(zero) < 81 %"), CADRE_CONDITION_UNDECIDED);
    ck_assert_int_eq(judge("efficiency(zero) < 82 %"), CADRE_CONDITION_YES);
    ck_assert_int_eq(judge("overhead(zero) > 0.04"), CADRE_CONDITION_YES);
    ck_assert_int_eq(judge("bubble(zero) > 0.3"), CADRE_CONDITION_YES);
    ck_assert_int_eq(judge("bubble(exact) > 0.3"), CADRE_CONDITION_UNDECIDED);
    ck_assert_int_eq(judge("exposed(zero) > 0.01"), CADRE_CONDITION_NO);
    ck_assert_int_eq(judge("price(exact) > 10 %"), CADRE_CONDITION_YES);
    ck_assert_int_eq(judge("price(exact) > 30 %"), CADRE_CONDITION_NO);
}
END_TEST

/* At the end of an interval it matters whether the end belongs to the condition. */
START_TEST(ends_count_with_or_equal)
{
    timed_set(&c, 1, 0.8, 0.85, 0.9, CADRE_SPEED_SLOWER);
    ck_assert_int_eq(judge("speedup(zero) <= 0.9"), CADRE_CONDITION_YES);
    ck_assert_int_eq(judge("speedup(zero) < 0.9"), CADRE_CONDITION_UNDECIDED);
    ck_assert_int_eq(judge("speedup(zero) >= 0.9"), CADRE_CONDITION_UNDECIDED);
    ck_assert_int_eq(judge("speedup(zero) > 0.9"), CADRE_CONDITION_NO);
    ck_assert_int_eq(judge("speedup(base) >= 1"), CADRE_CONDITION_YES);
    ck_assert_int_eq(judge("speedup(base) < 1"), CADRE_CONDITION_NO);
}
END_TEST

/* A difference that the verdict did not show is none here either. */
START_TEST(no_difference_holds_what_equality_holds)
{
    timed_set(&c, 1, 0.96, 0.97, 0.98, CADRE_SPEED_NO_DIFFERENCE);
    ck_assert_int_eq(judge("speedup(zero) < 0.99"), CADRE_CONDITION_UNDECIDED);
    ck_assert_int_eq(judge("speedup(zero) < 0.9"), CADRE_CONDITION_NO);
    ck_assert_int_eq(judge("speedup(zero) < 1.1"), CADRE_CONDITION_YES);
    c.run[1].efficiency = (struct cadre_interval){0.485, 0.48, 0.49};
    ck_assert_int_eq(judge("efficiency(zero) < 0.495"), CADRE_CONDITION_UNDECIDED);
    c.run[1].speed.overhead_s = (struct cadre_interval){0.21, 0.205, 0.215};
    ck_assert_int_eq(judge("overhead(zero) > 0.202"), CADRE_CONDITION_UNDECIDED);
    ck_assert_int_eq(judge("overhead(zero) > 0.199"), CADRE_CONDITION_YES);
}
END_TEST

START_TEST(what_is_not_ranked_is_undecided)
{
    timed_set(&c, 1, 0.5, 0.5, 0.5, CADRE_SPEED_NOT_RANKED);
    ck_assert_int_eq(judge("speedup(zero) < 0.9"), CADRE_CONDITION_UNDECIDED);
    ck_assert_int_eq(judge("bubble(zero) > 0.3"), CADRE_CONDITION_UNDECIDED);
    ck_assert_int_eq(judge("price(exact) > 0.1"), CADRE_CONDITION_UNDECIDED);
    timed_fail(&c, 2, "killed");
    ck_assert_int_eq(judge("speedup(exact) < 0.9"), CADRE_CONDITION_UNDECIDED);
}
END_TEST

/* One that holds wins over one that is undecided, in either order. */
START_TEST(the_worst_of_several_is_the_status)
{
    static const char *const texts[] = {"speedup(zero) < 1.5", "speedup(zero) < 1.6",
                                        "speedup(zero) < 1.7"};
    struct cadre_condition all[3];
    struct cadre_text lines = {0};
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(cadre_condition_parse(texts[i], &c, &all[i], &err), CADRE_OK);
    ck_assert_int_eq(cadre_conditions_check(all, 0, &c, &lines, &err), CADRE_OK);
    ck_assert_int_eq(cadre_conditions_check(all, 1, &c, &lines, &err), CADRE_OK);
    ck_assert_str_eq(cadre_text_str(&lines),
                     "--fail-if 'speedup(zero) < 1.5' does not hold: speedup(zero) is "
                     "1.6 [1.568, 1.632].\n");
    ck_assert_int_eq(cadre_conditions_check(all, 2, &c, &lines, &err),
                     CADRE_E_UNDECIDED);
    ck_assert(strstr(err.text, "'speedup(zero) < 1.6' is undecided"));
    ck_assert_int_eq(cadre_conditions_check(all, 3, &c, &lines, &err),
                     CADRE_E_CONDITION);
    ck_assert(strstr(err.text, "'speedup(zero) < 1.7' holds: speedup(zero) is 1.6"));
    struct cadre_condition first = all[2];
    all[2] = all[0];
    all[0] = first;
    ck_assert_int_eq(cadre_conditions_check(all, 3, &c, &lines, &err),
                     CADRE_E_CONDITION);
    cadre_text_fini(&lines);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("condition");
    TCase *tc = tcase_create("condition");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, conditions_are_read);
    tcase_add_test(tc, what_is_wrong_is_named_with_the_nearest);
    tcase_add_test(tc, the_whole_interval_decides);
    tcase_add_test(tc, ends_count_with_or_equal);
    tcase_add_test(tc, no_difference_holds_what_equality_holds);
    tcase_add_test(tc, what_is_not_ranked_is_undecided);
    tcase_add_test(tc, the_worst_of_several_is_the_status);
    suite_add_tcase(suite, tc);
    return suite;
}
