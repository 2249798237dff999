/* SPDX-License-Identifier: Apache-2.0 */
/* The whole command. Its children are this program again: called as `... train ...` it
 * trains nothing and copies the folder of a run, made by hand, from FAKE_DIR. How it
 * ends FAKE_TRAIN says. Check's assertions do not work in it. */
#include "core/compare/compare.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/compare/verdict/condition.h"
#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

static char *dir, *conf, *out;
static struct cadre_error err;
static bool launched;
static char *const *fail_if; /* of the next comparison */

/* ---- the fake ---- */

static const char *value_of(int argc, char **argv, const char *flag)
{
    for (int i = 2; i + 1 < argc; i++)
        if (strcmp(argv[i], flag) == 0)
            return argv[i + 1];
    return "";
}

static int fake_train(int argc, char **argv)
{
    const char *mode = getenv("FAKE_TRAIN"), *run = value_of(argc, argv, "--run");
    const char *folder = value_of(argc, argv, "--out");
    bool second = strcmp(run, "two") == 0;
    const char *from = "same";
    char command[2400];
    bool other = strchr(folder, ':') != NULL; /* a perturbation */
    mode = mode ? mode : "";
    if (fixture_set(argc, argv, "bench.steps"))
        return second && strcmp(mode, "fail-piece") == 0
                   ? 3
                   : fixture_bench(argc, argv, folder, 0.125);
    if (!second && strcmp(mode, other ? "fail-others" : "fail-first") == 0)
        return 1;
    if (strcmp(mode, "fail-moved") == 0 && strstr(folder, ":moved-"))
        return 1;
    if (strcmp(mode, "leave-nothing") == 0 && second)
        return 0;
    if (second && strcmp(mode, "refuse") == 0)
        return 2;
    if (second && strcmp(mode, "fail") == 0)
        return 1;
    if (second && strcmp(mode, "stop") == 0)
        return 4;
    if (second && strcmp(mode, "die") == 0)
        raise(SIGKILL);
    if (second && strcmp(mode, "differ") == 0)
        from = "differs";
    snprintf(command, sizeof command,
             "mkdir -p \"$(dirname '%s')\" && test ! -e '%s' && cp -r '%s/%s' '%s'",
             folder, folder, getenv("FAKE_DIR"), from, folder);
    return system(command) == 0 ? 0 : 1;
}

/* Runs before main, which would run the tests. */
__attribute__((constructor)) static void be_the_child(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "train") == 0)
        _exit(fake_train(argc, argv));
}

/* ---- tests ---- */

static void make_template(const char *name, double loss_shift)
{
    const struct fixture_run made = {.steps = 3, .loss_shift = loss_shift};
    char *folder = fixture_make(dir, &made), *path = cadre_path_join(dir, name);
    ck_assert_int_eq(rename(folder, path), 0);
    free(folder);
    free(path);
}

static void setup(void)
{
    struct cadre_text text = {0};
    dir = test_tmpdir();
    fail_if = NULL;
    conf = cadre_path_join(dir, "c.ini");
    out = cadre_path_join(dir, "out");
    for (int i = 0; i < 400; i++)
        cadre_text_printf(&text, "some words to learn from %d\n", i);
    fixture_write(dir, "text", cadre_text_str(&text));
    cadre_text_reset(&text);
    cadre_text_printf(&text,
                      "[model]\nlayers = 1\nchannels = 16\nheads = 2\ncontext = 16\n"
                      "[data]\npath = %s/text\nwindow = 16\n[train]\nsteps = 3\n"
                      "[log]\nlevel = error\n"
                      "[run:one]\n[run:two]\n",
                      dir);
    fixture_write(dir, "c.ini", cadre_text_str(&text));
    cadre_text_fini(&text);
    make_template("same", 0);
    make_template("differs", 1);
    setenv("FAKE_DIR", dir, 1);
    unsetenv("FAKE_TRAIN");
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
    free(out);
    free(conf);
}

static cadre_status step(enum cadre_compare_step what, const char *task,
                         char *const *sets)
{
    struct cadre_options *options;
    ck_assert_int_eq(cadre_options_create(&options, &err), CADRE_OK);
    ck_assert_int_eq(cadre_options_load(options, conf, &err), CADRE_OK);
    for (char *const *set = sets; set && *set; set++)
        ck_assert_int_eq(cadre_options_set(options, *set, "command line", &err),
                         CADRE_OK);
    const struct cadre_compare_request request = {
        .options = options,
        .conf = conf,
        .sets = sets,
        .out = out,
        .step = what,
        .task = task,
        .table = stdout,
        .launched = launched,
        .fail_if = fail_if,
    };
    cadre_status rc = cadre_compare(&request, &err);
    cadre_options_destroy(options);
    return rc;
}

static cadre_status compare(char *const *sets)
{
    return step(CADRE_COMPARE_ALL, NULL, sets);
}

static bool exists(const char *name)
{
    char *path = cadre_path_join(out, name);
    bool there = cadre_path_exists(path);
    free(path);
    return there;
}

static char *report_text(void)
{
    size_t bytes;
    char *text = NULL, *path = cadre_path_join(out, "report.json");
    cadre_status rc = cadre_path_read_file(path, 1 << 20, &text, &bytes, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    free(path);
    return text;
}

START_TEST(trains_every_run_and_reports)
{
    cadre_status rc = compare(NULL);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert(exists("report.json") && exists("report.csv") && exists("report.html"));
    ck_assert(exists("runs/one/summary.json") && exists("runs/two/summary.json"));
    ck_assert(exists("runs/one:reordered/summary.json"));
    ck_assert(exists("runs/one:moved-2/summary.json"));
    ck_assert(exists("runs/one:moved-3/summary.json"));
    ck_assert(exists("certificate-one.json") && exists("certificate-two.json"));
    ck_assert(exists("pieces.jsonl") && exists("pieces/two/bench.json"));
}
END_TEST

/* What is not ranked decides nothing, and a training that differs is worse. */
START_TEST(conditions_decide_the_status)
{
    char time[] = "compare.time=no", again[] = "checkpoint.resume=auto";
    char *const sets[] = {time, NULL}, *const more[] = {time, again, NULL};
    char slower[] = "speedup(two) < 0.9", plain[] = "efficiency(one) > 2";
    char *const conditions[] = {slower, plain, NULL};
    fail_if = conditions;
    ck_assert_int_eq(compare(sets), CADRE_E_UNDECIDED);
    ck_assert_msg(strstr(err.text, "--fail-if 'speedup(two) < 0.9' is undecided: "
                                   "speedup(two) is not ranked"),
                  "%s", err.text);
    ck_assert(exists("report.json"));
    fail_if = NULL;
    ck_assert_int_eq(compare(more), CADRE_OK);
}
END_TEST

START_TEST(a_difference_wins_over_conditions)
{
    char time[] = "compare.time=no", slower[] = "speedup(two) < 0.9";
    char *const sets[] = {time, NULL}, *const conditions[] = {slower, NULL};
    fail_if = conditions;
    setenv("FAKE_TRAIN", "differ", 1);
    ck_assert_int_eq(compare(sets), CADRE_E_DIFFERS);
}
END_TEST

START_TEST(wrong_conditions_are_refused_before_anything_trains)
{
    char good[] = "speedup(two) < 0.9", wrong[] = "speedup(tow) < 0.9";
    char *const conditions[] = {good, wrong, NULL};
    fail_if = conditions;
    ck_assert_int_eq(compare(NULL), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "no run 'tow', did you mean 'two'"), "%s", err.text);
    ck_assert(!exists("runs"));
}
END_TEST

/* Whether a run can be ranked is the machine's; if it is, the condition holds. */
START_TEST(a_condition_that_holds_has_a_status)
{
    char above[] = "speedup(two) > 0.5";
    char *const conditions[] = {above, NULL};
    fail_if = conditions;
    cadre_status rc = compare(NULL);
    char *text = report_text();
    bool ranked = strstr(text, "\"speed_verdict\": \"not ranked\"") == NULL;
    ck_assert_int_eq(rc, ranked ? CADRE_E_CONDITION : CADRE_E_UNDECIDED);
    free(text);
}
END_TEST

START_TEST(timing_can_be_left_out)
{
    char set[] = "compare.time=no";
    char *const sets[] = {set, NULL};
    ck_assert_int_eq(compare(sets), CADRE_OK);
    ck_assert(exists("report.json") && !exists("pieces.jsonl"));
}
END_TEST

/* A piece that fails is no failed run: it trained. */
START_TEST(a_piece_that_fails_leaves_the_comparison)
{
    setenv("FAKE_TRAIN", "fail-piece", 1);
    cadre_status rc = compare(NULL);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    char *text = report_text();
    ck_assert_ptr_null(strstr(text, "\"failure\": \""));
    ck_assert_ptr_nonnull(strstr(text, " failed with exit status 3\""));
    free(text);
}
END_TEST

static const struct {
    const char *mode;
    cadre_status rc;
    const char *says;
    const char *reported; /* in report.json; NULL: there is no report */
} ends[] = {
    {"refuse", CADRE_E_INVALID, "run two failed with exit status 2",
     "\"failure\": \"exit status 2\""},
    {"fail", CADRE_E_ABORTED, "run two failed with exit status 1",
     "\"failure\": \"exit status 1\""},
    {"fail-first", CADRE_E_ABORTED, "run one failed with exit status 1",
     "\"failure\": \"exit status 1\""},
    {"fail-moved", CADRE_E_ABORTED, "run one:moved-2 failed with exit status 1",
     "2 of the 3 runs of the baseline with other rounding failed"},
    {"fail-others", CADRE_E_ABORTED, "run one:reordered failed with exit status 1",
     "3 of the 3 runs of the baseline with other rounding failed"},
    {"leave-nothing", CADRE_E_INVALID, "summary.json' is missing",
     "\"failure\": \"it left no results: "},
    {"die", CADRE_E_ABORTED, "run two was ended by signal 9",
     "\"failure\": \"signal 9 ("},
    {"stop", CADRE_E_STOPPED, "stopped by a signal while run two trained", NULL},
    {"differ", CADRE_E_DIFFERS, "run two did not train the same as one",
     "\"equal\": \"differs\""},
};

/* Other runs go on where one fails, and the report says which did. */
START_TEST(a_child_s_end_is_ours)
{
    setenv("FAKE_TRAIN", ends[_i].mode, 1);
    ck_assert_int_eq(compare(NULL), ends[_i].rc);
    ck_assert_msg(strstr(err.text, ends[_i].says), "%s", err.text);
    ck_assert(exists("runs/one/metrics.jsonl") ==
              (strcmp(ends[_i].mode, "fail-first") != 0));
    ck_assert(exists("report.json") == (ends[_i].reported != NULL));
    if (ends[_i].reported) {
        char *text = report_text();
        ck_assert_msg(strstr(text, ends[_i].reported), "%s", text);
        free(text);
    }
    if (strcmp(ends[_i].mode, "fail-first") == 0)
        ck_assert(exists("runs/two/metrics.jsonl") && exists("certificate-two.json") &&
                  !exists("certificate-one.json") && !exists("runs/one:moved-2"));
}
END_TEST

START_TEST(an_old_comparison_is_kept)
{
    ck_assert_int_eq(compare(NULL), CADRE_OK);
    ck_assert_int_eq(compare(NULL), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "holds a comparison already"));
}
END_TEST

START_TEST(a_folder_that_cannot_be_made_is_named)
{
    free(out);
    out = cadre_strdup("/proc/no/such");
    ck_assert_int_eq(compare(NULL), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "--out: "), "%s", err.text);
}
END_TEST

/* The fake would fail to make a folder that is there. */
START_TEST(resuming_keeps_finished_runs)
{
    char set[] = "checkpoint.resume=auto";
    char *const sets[] = {set, NULL};
    setenv("FAKE_TRAIN", "stop", 1);
    ck_assert_int_eq(compare(NULL), CADRE_E_STOPPED);
    unsetenv("FAKE_TRAIN");
    cadre_status rc = compare(sets);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert(exists("report.json"));
    ck_assert_int_eq(compare(sets), CADRE_OK);
}
END_TEST

START_TEST(without_out_the_file_names_the_folder)
{
    char *set = cadre_format("run.out=%s", dir);
    char *const sets[] = {set, NULL};
    free(out);
    out = NULL;
    cadre_status rc = compare(sets);
    out = cadre_path_join(dir, "c");
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert(exists("report.json"));
    free(set);
}
END_TEST

/* As a batch system would: whoever makes a run becomes another program. */
static int end_of_one(const char *task, char *const *sets)
{
    int how = 0;
    pid_t pid = fork();
    if (pid == 0) {
        cadre_status rc = step(CADRE_COMPARE_ONE, task, sets);
        fprintf(stderr, "%s\n", err.text);
        _exit(rc == CADRE_OK ? 0 : 100 + (rc == CADRE_E_INVALID));
    }
    ck_assert_int_eq(waitpid(pid, &how, 0), pid);
    ck_assert(WIFEXITED(how));
    return WEXITSTATUS(how);
}

static const char *const tasks[] = {"one", "two", "one:reordered", "one:moved-2",
                                    "one:moved-3"};
enum { TASKS = sizeof tasks / sizeof tasks[0] };

START_TEST(runs_made_one_by_one_are_collected)
{
    for (size_t i = 0; i < TASKS; i++) {
        ck_assert_int_eq(step(CADRE_COMPARE_COLLECT, NULL, NULL), CADRE_E_INVALID);
        ck_assert_msg(strstr(err.text, tasks[i]), "%s", err.text);
        ck_assert(!exists("report.json"));
        ck_assert_int_eq(end_of_one(tasks[i], NULL), 0);
    }
    cadre_status rc = step(CADRE_COMPARE_COLLECT, NULL, NULL);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert(exists("report.json") && exists("certificate-two.json"));
    ck_assert_int_eq(step(CADRE_COMPARE_COLLECT, NULL, NULL), CADRE_OK);
}
END_TEST

START_TEST(one_run_ends_as_its_training_does)
{
    char set[] = "checkpoint.resume=auto";
    char *const sets[] = {set, NULL};
    setenv("FAKE_TRAIN", "stop", 1);
    ck_assert_int_eq(end_of_one("Two", sets), 4);
    unsetenv("FAKE_TRAIN");
    ck_assert_int_eq(end_of_one("two", sets), 0);
    ck_assert_int_eq(end_of_one("two", sets), 0); /* done: not made again */
    ck_assert_int_eq(end_of_one("two", NULL), 1); /* the fake's own refusal */
    ck_assert_int_eq(end_of_one("two:2", NULL), 101);
}
END_TEST

START_TEST(a_run_that_stopped_is_missing)
{
    for (size_t i = 0; i < TASKS; i++)
        ck_assert_int_eq(end_of_one(tasks[i], NULL), 0);
    char more[] = "train.steps=20";
    char *const sets[] = {more, NULL};
    ck_assert_int_eq(step(CADRE_COMPARE_COLLECT, NULL, sets), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "two (3 of 20 steps)"), "%s", err.text);
    ck_assert(!exists("report.json"));
}
END_TEST

START_TEST(a_damaged_run_is_named)
{
    for (size_t i = 0; i < TASKS; i++)
        ck_assert_int_eq(end_of_one(tasks[i], NULL), 0);
    fixture_write(out, "runs/two/summary.json", "{");
    ck_assert_int_eq(step(CADRE_COMPARE_COLLECT, NULL, NULL), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "runs/two/summary.json' line 1"), "%s", err.text);
}
END_TEST

START_TEST(a_launched_rank_is_told_its_cores)
{
    char set[] = "device.threads=1";
    char *const sets[] = {set, NULL};
    launched = true;
    ck_assert_int_eq(step(CADRE_COMPARE_ONE, "two", NULL), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "device.threads = 0"), "%s", err.text);
    ck_assert_int_eq(end_of_one("two", sets), 0);
    launched = false;
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("compare");
    TCase *tc = tcase_create("compare");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, trains_every_run_and_reports);
    tcase_add_test(tc, conditions_decide_the_status);
    tcase_add_test(tc, a_difference_wins_over_conditions);
    tcase_add_test(tc, wrong_conditions_are_refused_before_anything_trains);
    tcase_add_test(tc, a_condition_that_holds_has_a_status);
    tcase_add_test(tc, timing_can_be_left_out);
    tcase_add_test(tc, a_piece_that_fails_leaves_the_comparison);
    tcase_add_loop_test(tc, a_child_s_end_is_ours, 0, sizeof ends / sizeof ends[0]);
    tcase_add_test(tc, an_old_comparison_is_kept);
    tcase_add_test(tc, a_folder_that_cannot_be_made_is_named);
    tcase_add_test(tc, resuming_keeps_finished_runs);
    tcase_add_test(tc, without_out_the_file_names_the_folder);
    tcase_add_test(tc, runs_made_one_by_one_are_collected);
    tcase_add_test(tc, one_run_ends_as_its_training_does);
    tcase_add_test(tc, a_run_that_stopped_is_missing);
    tcase_add_test(tc, a_damaged_run_is_named);
    tcase_add_test(tc, a_launched_rank_is_told_its_cores);
    suite_add_tcase(suite, tc);
    return suite;
}
