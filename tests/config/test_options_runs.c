/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/options.h"

#include <stdlib.h>
#include <string.h>

#include "tests/config/options_fixture.h"

static const char three_runs[] = "[run:one]\nstrategy.stack = single\n"
                                 "[run:Two]\nstrategy.stack = \"ddp:2\"\n"
                                 "ddp.overlap = no\n"
                                 "[run:three]\n";

static struct cadre_options *load_runs(void)
{
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    must(options_load_text(o, three_runs, &err), &err);
    return o;
}

START_TEST(runs_are_listed_in_order)
{
    struct cadre_error err = {0};
    char **names = NULL;
    size_t n = 0;
    struct cadre_options *o = load_runs();
    must(cadre_options_list_runs(o, &names, &n, &err), &err);
    ck_assert_uint_eq(n, 3);
    ck_assert_str_eq(names[1], "two");
    free(names);
    must(cadre_options_set(o, "compare.runs=Two, one", "command line", &err), &err);
    must(cadre_options_list_runs(o, &names, &n, &err), &err);
    ck_assert_uint_eq(n, 2);
    ck_assert_str_eq(names[0], "two");
    ck_assert_str_eq(names[1], "one");
    free(names);
    cadre_options_destroy(o);
}
END_TEST

START_TEST(runs_are_applied)
{
    struct cadre_error err = {0};
    struct cadre_options *o = load_runs();
    must(cadre_options_set(o, "strategy.stack=zero:2", "command line", &err), &err);
    must(cadre_options_resolve(o, &err), &err);
    must(cadre_options_apply_run(o, "two", &err), &err);
    ck_assert_str_eq(cadre_options_raw(o, "strategy.stack"), "ddp:2");
    ck_assert_ptr_nonnull(strstr(cadre_options_source(o, "strategy.stack"), "x.ini:4"));
    ck_assert_int_eq(cadre_options_resolve(o, &err), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_options_apply_run(o, "thre", &err), CADRE_E_INVALID);
    ck_assert_str_eq(err.text, "compare: no section [run:thre], expected one of: one, "
                               "two, three; the nearest is three");
    cadre_options_destroy(o);
}
END_TEST

/* A bad value is an error of the run that has it, and of no other. */
START_TEST(the_applied_run_is_checked)
{
    static const char text[] = "[run:one]\nstrategy.stack = single\n"
                               "[run:broken]\noptim.lr = many\n";
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    must(options_load_text(o, text, &err), &err);
    struct cadre_options *one = cadre_options_clone(o),
                         *broken = cadre_options_clone(o);
    ck_assert_int_eq(cadre_options_resolve(o, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "x.ini:4, [run:broken]: optim.lr: "));
    must(cadre_options_apply_run(one, "one", &err), &err);
    must(cadre_options_resolve(one, &err), &err);
    struct cadre_options *copy = cadre_options_clone(one);
    must(cadre_options_resolve(copy, &err), &err);
    must(cadre_options_apply_run(broken, "broken", &err), &err);
    must(cadre_options_set(broken, "optim.lr=1", "command line", &err), &err);
    ck_assert_int_eq(cadre_options_resolve(broken, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "x.ini:4, [run:broken]: optim.lr: "));
    cadre_options_destroy(o);
    cadre_options_destroy(one);
    cadre_options_destroy(copy);
    cadre_options_destroy(broken);
}
END_TEST

static void append(void *arg, const char *value)
{
    strcat(strcat(arg, value), ";");
}

START_TEST(values_of_runs_are_told)
{
    char found[64] = "";
    struct cadre_options *o = load_runs();
    cadre_options_each_run(o, "strategy.stack", append, found);
    ck_assert_str_eq(found, "single;ddp:2;");
    cadre_options_each_run(o, "train.steps", append, found);
    ck_assert_str_eq(found, "single;ddp:2;");
    cadre_options_destroy(o);
}
END_TEST

START_TEST(wrong_lists_are_refused)
{
    static const char *const lists[] = {"compare.runs=one, one", "compare.runs=one, x"};
    struct cadre_error err = {0};
    char **names = NULL;
    size_t n = 0;
    struct cadre_options *o = load_runs();
    for (size_t i = 0; i < 2; i++) {
        must(cadre_options_set(o, lists[i], "test", &err), &err);
        ck_assert_int_eq(cadre_options_list_runs(o, &names, &n, &err), CADRE_E_INVALID);
        ck_assert_ptr_eq(strstr(err.text, "test: "), err.text);
    }
    cadre_options_destroy(o);
    o = options_create();
    ck_assert_int_eq(cadre_options_list_runs(o, &names, &n, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "nothing to compare"));
    ck_assert_ptr_null(names);
    cadre_options_destroy(o);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("options_runs");
    TCase *tc = options_case("options_runs");
    tcase_add_test(tc, runs_are_listed_in_order);
    tcase_add_test(tc, runs_are_applied);
    tcase_add_test(tc, the_applied_run_is_checked);
    tcase_add_test(tc, values_of_runs_are_told);
    tcase_add_test(tc, wrong_lists_are_refused);
    suite_add_tcase(s, tc);
    return s;
}
