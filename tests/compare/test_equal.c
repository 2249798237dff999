/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons of by-design runs at their settings. The children are this program again:
 * called as `... compare INI --out FOLDER --set ...` it trains nothing, keeps its
 * arguments as FOLDER.args, and leaves the report that FAKE_REPORT is, ending with
 * FAKE_STATUS. Check's assertions do not work in it. */
#include "core/compare/equal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

/* ---- the fake ---- */

static int put(const char *folder, const char *end, const char *text)
{
    char path[1200];
    snprintf(path, sizeof path, "%s%s", folder, end);
    FILE *file = fopen(path, "w");
    bool failed = !file || fputs(text, file) < 0;
    failed = (file && fclose(file) != 0) || failed;
    return failed ? 77 : 0;
}

static int fake_compare(int argc, char **argv)
{
    const char *report = getenv("FAKE_REPORT"), *status = getenv("FAKE_STATUS");
    struct cadre_text all = {0};
    struct cadre_error err = {0};
    if (argc < 5 || strcmp(argv[3], "--out") != 0 ||
        cadre_path_make_dirs(argv[4], &err) != CADRE_OK)
        return 77;
    for (int i = 5; i < argc; i++)
        cadre_text_printf(&all, "%s\n", argv[i]);
    int rc = put(argv[4], ".args", cadre_text_str(&all));
    cadre_text_fini(&all);
    if (report)
        rc |= put(argv[4], "/report.json", report);
    if (rc == 0 && status && strcmp(status, "killed") == 0)
        raise(SIGKILL);
    return rc ? rc : atoi(status ? status : "0");
}

/* Runs before main, which would run the tests. */
__attribute__((constructor)) static void be_the_child(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "compare") == 0)
        _exit(fake_compare(argc, argv));
}

/* ---- tests ---- */

enum { RUNS = 2 };

static char *out;
static struct cadre_options *options;
static struct cadre_compared_run run[RUNS];
static struct cadre_comparison comparison;
static struct cadre_error err;

static void set(const char *assignment)
{
    ck_assert_int_eq(cadre_options_set(options, assignment, "here", &err), CADRE_OK);
}

static void setup(void)
{
    char one[] = "one", two[] = "two";
    out = test_tmpdir();
    ck_assert_int_eq(cadre_options_create(&options, &err), CADRE_OK);
    set("optim.lr=0.125");
    set("strategy.stack=diloco:2");
    set("compare.equal_steps=7");
    ck_assert_int_eq(cadre_options_resolve(options, &err), CADRE_OK);
    memset(run, 0, sizeof run);
    comparison = (struct cadre_comparison){.run = run, .n = RUNS};
    for (size_t i = 0; i < RUNS; i++) {
        run[i].name = cadre_strdup(i ? two : one);
        run[i].options = options;
        run[i].steps = 100;
    }
    strcpy(run[1].changes.equal, "diloco.period=1, optim.name=sgd");
    unsetenv("FAKE_REPORT");
    unsetenv("FAKE_STATUS");
}

static void teardown(void)
{
    for (size_t i = 0; i < RUNS; i++)
        free(run[i].name);
    cadre_options_destroy(options);
    test_tmpdir_destroy(out);
}

static cadre_status try_settings(void)
{
    struct cadre_supervise_watch watch;
    cadre_supervise_open(&watch);
    cadre_status rc = cadre_equal_settings(&comparison, out, &watch, &err);
    cadre_supervise_close(&watch);
    return rc;
}

/* A file of OUT/equal; the caller frees it. */
static char *left(const char *name)
{
    char *folder = cadre_path_join(out, "equal"), *path = cadre_path_join(folder, name);
    char *text = cadre_path_exists(path) ? test_file_read(path, NULL) : NULL;
    free(path);
    free(folder);
    return text;
}

static void has(const char *name, const char *what)
{
    char *text = left(name);
    ck_assert_msg(text != NULL, "no %s", name);
    ck_assert_msg(strstr(text, what), "no '%s' in %s:\n%s", what, name, text);
    free(text);
}

START_TEST(a_run_is_compared_with_single_under_its_setting)
{
    setenv("FAKE_REPORT",
           "{\"runs\": [{\"name\": \"single\", \"equal\": \"exact\"}, "
           "{\"name\": \"equal\", \"equal\": \"within\"}]}",
           1);
    ck_assert_int_eq(try_settings(), CADRE_OK);
    ck_assert(!run[0].setting.judged && !*run[0].setting.why);
    ck_assert(run[1].setting.judged);
    ck_assert_int_eq(run[1].setting.equal, CADRE_EQUAL_WITHIN);
    /* both runs have the options of the run; one of them is single */
    has("two.ini", "lr = 0.125");
    has("two.ini", "stack = diloco:2");
    has("two.ini", "[run:single]\nrun.name = single\nstrategy.stack = single\n");
    has("two.ini", "[run:equal]\n");
    has("two.args", "--set\ncompare.runs=single, equal\n");
    has("two.args", "--set\ncompare.baseline=single\n");
    has("two.args", "--set\ncompare.equal=no\n"); /* or it would compare without end */
    has("two.args", "--set\ncompare.time=no\n");
    has("two.args", "--set\ntrain.steps=7\n");
    has("two.args", "--set\ndiloco.period=1\n--set\noptim.name=sgd\n");
    ck_assert(left("one.ini") == NULL);
}
END_TEST

START_TEST(no_more_steps_than_the_run_has)
{
    run[1].steps = 3;
    ck_assert_int_eq(try_settings(), CADRE_OK);
    has("two.args", "--set\ntrain.steps=3\n");
}
END_TEST

START_TEST(a_difference_is_a_verdict)
{
    setenv("FAKE_REPORT",
           "{\"runs\": [{\"name\": \"equal\", \"equal\": \"differs\", "
           "\"why\": \"loss at step 2\"}]}",
           1);
    setenv("FAKE_STATUS", "3", 1);
    ck_assert_int_eq(try_settings(), CADRE_OK);
    ck_assert(run[1].setting.judged);
    ck_assert_int_eq(run[1].setting.equal, CADRE_EQUAL_DIFFERS);
    ck_assert_str_eq(run[1].setting.why, "loss at step 2");
    ck_assert_ptr_eq(cadre_comparison_differing(&comparison), &run[1]);
}
END_TEST

static const struct {
    const char *report, *status, *why;
} unjudged[] = {
    {NULL, "2", "it failed with exit status 2: see '"},
    {NULL, "killed", "it failed with signal 9"},
    {NULL, "0", "its comparison left no verdict"},
    {"{\"runs\": [{\"name\": \"equal\"", "0", "its comparison left no verdict"},
    {"{\"runs\": [{\"name\": \"single\", \"equal\": \"exact\"}]}", "0", "no verdict"},
    {"{\"runs\": [{\"name\": \"equal\", \"equal\": \"so so\"}]}", "0", "no verdict"},
};

START_TEST(a_comparison_that_fails_is_no_verdict)
{
    if (unjudged[_i].report)
        setenv("FAKE_REPORT", unjudged[_i].report, 1);
    setenv("FAKE_STATUS", unjudged[_i].status, 1);
    ck_assert_int_eq(try_settings(), CADRE_OK);
    ck_assert(!run[1].setting.judged);
    ck_assert_msg(strstr(run[1].setting.why, unjudged[_i].why), "%s",
                  run[1].setting.why);
}
END_TEST

START_TEST(a_stop_is_an_error)
{
    setenv("FAKE_STATUS", "4", 1);
    ck_assert_int_eq(try_settings(), CADRE_E_STOPPED);
}
END_TEST

START_TEST(who_is_left_out)
{
    strcpy(run[0].changes.equal, "diloco.period=1");
    strcpy(run[0].failure, "exit status 1");
    run[1].instances = 2;
    ck_assert_int_eq(try_settings(), CADRE_OK);
    ck_assert(left("one.ini") == NULL && left("two.ini") == NULL);
    /* and where nobody wants it, which is said */
    run[1].instances = 0;
    set("compare.equal=no");
    ck_assert_int_eq(cadre_options_resolve(options, &err), CADRE_OK);
    ck_assert_int_eq(try_settings(), CADRE_OK);
    ck_assert(left("two.ini") == NULL && !run[1].setting.judged);
    ck_assert_str_eq(run[1].setting.why, "compare.equal is no");
}
END_TEST

START_TEST(a_folder_that_cannot_be_made)
{
    test_file_put(out, "equal", "", 0);
    ck_assert_int_eq(try_settings(), CADRE_E_IO);
    ck_assert_msg(strstr(err.text, "equal"), "%s", err.text);
}
END_TEST

START_TEST(assignments_become_arguments)
{
    char text[] = " a.b=1,c.d=x y ,, e.f=2", none[] = "";
    char first[] = "first", *argv[16] = {first};
    ck_assert_uint_eq(cadre_equal_most(text), 8);
    ck_assert_uint_eq(cadre_equal_arguments(text, argv, 1), 7);
    ck_assert_str_eq(argv[0], "first");
    for (size_t i = 1; i < 7; i += 2)
        ck_assert_str_eq(argv[i], "--set");
    ck_assert_str_eq(argv[2], "a.b=1");
    ck_assert_str_eq(argv[4], "c.d=x y ");
    ck_assert_str_eq(argv[6], "e.f=2");
    ck_assert_uint_eq(cadre_equal_arguments(none, argv, 1), 1);
}
END_TEST

/* However many: none is left out. */
START_TEST(all_assignments_are_set)
{
    struct cadre_text text = {0};
    for (int i = 0; i < 100; i++)
        cadre_text_printf(&text, "%sa.k%d=1", i ? "," : "", i);
    strcpy(run[1].changes.equal, cadre_text_str(&text));
    cadre_text_fini(&text);
    ck_assert_int_eq(try_settings(), CADRE_OK);
    has("two.args", "--set\na.k0=1\n");
    has("two.args", "--set\na.k99=1\n");
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("equal");
    TCase *tc = tcase_create("equal");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_run_is_compared_with_single_under_its_setting);
    tcase_add_test(tc, no_more_steps_than_the_run_has);
    tcase_add_test(tc, a_difference_is_a_verdict);
    tcase_add_loop_test(tc, a_comparison_that_fails_is_no_verdict, 0,
                        sizeof unjudged / sizeof *unjudged);
    tcase_add_test(tc, a_stop_is_an_error);
    tcase_add_test(tc, who_is_left_out);
    tcase_add_test(tc, a_folder_that_cannot_be_made);
    tcase_add_test(tc, assignments_become_arguments);
    tcase_add_test(tc, all_assignments_are_set);
    suite_add_tcase(suite, tc);
    return suite;
}
