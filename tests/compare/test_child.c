/* SPDX-License-Identifier: Apache-2.0 */
/* The child is this program again: called as `... train HOW`, it ends so. */
#include "core/compare/child.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/path.h"
#include "tests/support/check_main.h"

/* Runs before main, which would run the tests. */
__attribute__((constructor)) static void be_the_child(int argc, char **argv)
{
    if (argc < 3 || strcmp(argv[1], "train") != 0)
        return;
    if (strcmp(argv[2], "killed") == 0)
        raise(SIGKILL);
    _exit(atoi(argv[2]));
}

static struct cadre_child_failure failure;
static struct cadre_error err;

static cadre_status run(const char *how)
{
    struct cadre_supervise_watch watch;
    char ending[16];
    strcpy(ending, how);
    char program[] = "cadre", command[] = "train";
    char *const argv[] = {program, command, ending, NULL};
    const struct cadre_child child = {argv, "two", "o/runs/two"};
    cadre_supervise_open(&watch);
    cadre_status rc = cadre_child_run(&watch, &child, &failure, &err);
    cadre_supervise_close(&watch);
    return rc;
}

START_TEST(a_good_end_is_no_failure)
{
    failure.failed = true;
    ck_assert_int_eq(run("0"), CADRE_OK);
    ck_assert(!failure.failed && !*failure.why);
}
END_TEST

static const struct {
    const char *how, *why, *text;
    cadre_status status;
} ends[] = {
    {"2", "exit status 2", "run two failed with exit status 2, for the reason above",
     CADRE_E_INVALID},
    {"1", "exit status 1", "its folder is 'o/runs/two'", CADRE_E_ABORTED},
    {"3", "exit status 3", "run two failed with exit status 3", CADRE_E_ABORTED},
    {"killed", "signal 9 (", "run two was ended by signal 9 (", CADRE_E_ABORTED},
};

START_TEST(a_failure_is_described)
{
    ck_assert_int_eq(run(ends[_i].how), CADRE_OK);
    ck_assert(failure.failed);
    ck_assert_int_eq(failure.status, ends[_i].status);
    ck_assert_msg(strstr(failure.why, ends[_i].why), "%s", failure.why);
    ck_assert_msg(strstr(failure.text, ends[_i].text), "%s", failure.text);
}
END_TEST

START_TEST(a_stop_is_an_error)
{
    ck_assert_int_eq(run("4"), CADRE_E_STOPPED);
    ck_assert_msg(strstr(err.text, "checkpoint.resume=auto continues"), "%s", err.text);
}
END_TEST

/* A training that made no step has no page, nor one that is to leave none. */
START_TEST(a_failure_leaves_a_page)
{
    static const char step[] = "{\"step\": 1, \"loss\": 2, \"step_s\": 0.1}\n";
    struct cadre_options *options;
    char *dir = test_tmpdir();
    ck_assert_int_eq(cadre_options_create(&options, &err), CADRE_OK);
    ck_assert_int_eq(cadre_options_resolve(options, &err), CADRE_OK);
    ck_assert(!cadre_child_leave_page(dir, options));
    test_file_put(dir, "metrics.jsonl", "", 0);
    ck_assert(!cadre_child_leave_page(dir, options));
    test_file_put(dir, "metrics.jsonl", step, sizeof step - 1);
    ck_assert(cadre_child_leave_page(dir, options));
    char *page = cadre_path_join(dir, "run.html");
    ck_assert(cadre_path_exists(page));
    free(page);
    cadre_options_destroy(options);
    test_tmpdir_destroy(dir);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("child");
    TCase *tc = tcase_create("child");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_good_end_is_no_failure);
    tcase_add_loop_test(tc, a_failure_is_described, 0, sizeof ends / sizeof ends[0]);
    tcase_add_test(tc, a_stop_is_an_error);
    tcase_add_test(tc, a_failure_leaves_a_page);
    suite_add_tcase(suite, tc);
    return suite;
}
