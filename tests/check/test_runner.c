/* SPDX-License-Identifier: Apache-2.0 */
/* The runner starts this program again for each check, as it does `cadre`. The plugin's
 * name says what the check does then. */
#include "core/check/runner.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/check/catalogue.h"
#include "core/check/kit/process.h"
#include "tests/check/results_fixture.h"
#include "tests/support/check_main.h"

/* ---- one check, in its process ---- */

static void sleep_long(void)
{
    const struct timespec tick = {.tv_sec = 1};
    for (;;)
        nanosleep(&tick, NULL);
}

static void *spin(void *arg)
{
    for (volatile int *at = arg;;)
        (void)*at;
    return NULL;
}

static void leak_thread(struct cadre_case *c)
{
    static int nothing;
    pthread_t thread;
    if (pthread_create(&thread, NULL, spin, &nothing) != 0)
        cadre_case_host_fault(c, "no thread");
}

/* Out of the group and the session, with a child of its own. Its id is in the verdict,
 * so that the test can look for it. */
static void leak_processes(struct cadre_case *c)
{
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        (void)!fork();
        sleep_long();
    }
    cadre_case_note(c, "%d", (int)pid);
}

static void misbehave(struct cadre_case *c)
{
    const char *how = c->plugin;
    if (strcmp(how, "fails") == 0) {
        cadre_case_fail(c, "first");
        cadre_case_fail(c, "second\nline");
    } else if (strcmp(how, "warns") == 0) {
        cadre_case_warn(c, "slow");
        cadre_case_warn(c, "not said");
    } else if (strcmp(how, "refuses") == 0) {
        cadre_case_refused(c, "at most %d ranks", 2);
        cadre_case_note(c, "not said");
    } else if (strcmp(how, "crashes") == 0) {
        (void)!write(STDOUT_FILENO, "last words\n", 11);
        signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would exit */
        raise(SIGSEGV);
    } else if (strcmp(how, "aborts") == 0) {
        abort();
    } else if (strcmp(how, "spins") == 0) {
        signal(SIGTERM, SIG_IGN);
        spin(&c->quick);
    } else if (strcmp(how, "exits") == 0) {
        exit(0);
    } else if (strcmp(how, "fails and exits") == 0) {
        cadre_case_fail(c, "not to be seen");
        _exit(0);
    } else if (strcmp(how, "leaks a thread") == 0) {
        leak_thread(c);
    } else if (strcmp(how, "leaks processes") == 0) {
        leak_processes(c);
    } else if (strcmp(how, "closes descriptors") == 0) {
        for (int fd = 0; fd < 64; fd++)
            close(fd);
    } else if (strcmp(how, "forks") == 0) {
        /* the child comes back from the check too, with another verdict */
        pid_t pid = fork();
        if (pid == 0)
            cadre_case_fail(c, "from the child");
        else
            waitpid(pid, NULL, 0);
    } else if (strcmp(how, "L1 fails") == 0) {
        if (strcmp(c->check->id, "L1") == 0)
            cadre_case_fail(c, "no object");
    } else if (strcmp(how, "arguments") == 0) {
        cadre_case_note(c, "%s seed %llu fuzz %.1f%s%s", c->check->id,
                        (unsigned long long)c->seed, c->fuzz_s,
                        c->quick ? " quick" : "", c->reproduce ? " reproduce" : "");
    } else if (strcmp(how, "meets") == 0) {
        /* both checks must run at the same time */
        char path[1200];
        snprintf(path, sizeof path, "%s/../met-%s", c->folder, c->check->id);
        fclose(fopen(path, "w"));
        const char *other = strcmp(c->check->id, "D1") == 0 ? "D2" : "D1";
        snprintf(path, sizeof path, "%s/../met-%s", c->folder, other);
        while (access(path, F_OK) != 0)
            usleep(1000);
    }
}

/* Runs before main, which would run the tests. */
__attribute__((constructor)) static void be_the_check(int argc, char **argv)
{
    struct cadre_check check = {.run = misbehave};
    struct cadre_case c = {.check = &check};
    if (argc < 3 || strcmp(argv[1], "check") != 0)
        return;
    c.plugin = argv[2];
    for (int i = 3; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--case") == 0)
            check.id = value;
        else if (strcmp(argv[i], "--folder") == 0)
            c.folder = value;
        else if (strcmp(argv[i], "--seed") == 0)
            c.seed = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--reproduce") == 0)
            c.seed = strtoull(value, NULL, 10), c.reproduce = true;
        else if (strcmp(argv[i], "--fuzz") == 0)
            c.fuzz_s = strtod(value, NULL);
        else if (strcmp(argv[i], "--quick") == 0)
            c.quick = true;
    }
    (void)cadre_case_run(&c, NULL);
    _exit(0);
}

/* ---- the runner ---- */

static char *dir;
static struct cadre_check_results results;
static char order[256]; /* ids as they were done */

static void note_done(void *h, const struct cadre_check_result *result)
{
    ck_assert_ptr_eq(h, order);
    ck_assert(result->done && result->chosen);
    size_t used = strlen(order);
    snprintf(order + used, sizeof order - used, "%s ", result->check->id);
}

static void setup(void)
{
    dir = test_tmpdir();
    order[0] = 0;
}

static void teardown(void)
{
    cadre_check_results_fini(&results);
    test_tmpdir_destroy(dir);
}

static struct cadre_check_result *choose(const char *id)
{
    for (size_t i = 0; i < results.n; i++)
        if (strcmp(results.result[i].check->id, id) == 0) {
            results.result[i].chosen = true;
            return &results.result[i];
        }
    ck_abort_msg("no check '%s'", id);
    return NULL;
}

static struct cadre_runner runner_of(void)
{
    return (struct cadre_runner){
        .results = &results, .folder = dir, .slots = 1, .done = note_done, .h = order};
}

/* The folder is empty, and nothing of the checks runs any more. */
static void is_clean(void)
{
    pid_t child[4];
    ck_assert_int_eq(rmdir(dir), 0); /* only an empty one can be removed */
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    ck_assert_uint_eq(cadre_check_process_children(getpid(), child, 4), 0);
}

static void run(const struct cadre_runner *runner)
{
    struct cadre_error err = {0};
    cadre_status rc = cadre_runner_run(runner, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

/* The verdict of one check of a plugin that does this. */
static const struct cadre_verdict *verdict_of(const char *how, double limit_s)
{
    results_of(&results, how);
    const struct cadre_check_result *result = choose("D1");
    struct cadre_runner runner = runner_of();
    runner.limit_s = limit_s;
    run(&runner);
    is_clean();
    ck_assert(result->done);
    ck_assert_str_eq(order, "D1 ");
    return &result->verdict;
}

static void comes_to(const char *how, enum cadre_check_status status, const char *text)
{
    const struct cadre_verdict *verdict = verdict_of(how, 0);
    ck_assert_msg(verdict->status == status, "%s: %s, '%s'", how,
                  cadre_check_status_name(verdict->status), verdict->text);
    ck_assert_str_eq(verdict->text, text);
}

START_TEST(says_pass)
{
    comes_to("is right", CADRE_CHECK_PASS, "");
}
END_TEST

START_TEST(says_fail)
{
    comes_to("fails", CADRE_CHECK_FAIL, "first\nsecond line");
}
END_TEST

START_TEST(says_warning)
{
    comes_to("warns", CADRE_CHECK_WARNING, "slow");
}
END_TEST

START_TEST(says_refused)
{
    comes_to("refuses", CADRE_CHECK_REFUSED, "at most 2 ranks");
}
END_TEST

START_TEST(survives_a_crash)
{
    const struct cadre_verdict *verdict = verdict_of("crashes", 0);
    ck_assert_int_eq(verdict->status, CADRE_CHECK_CRASH);
    ck_assert_msg(strstr(verdict->text, "ended by signal 11") &&
                      strstr(verdict->text, "; it printed: last words"),
                  "%s", verdict->text);
}
END_TEST

START_TEST(survives_an_abort)
{
    const struct cadre_verdict *verdict = verdict_of("aborts", 0);
    ck_assert_int_eq(verdict->status, CADRE_CHECK_CRASH);
    ck_assert_msg(strstr(verdict->text, "ended by signal 6"), "%s", verdict->text);
}
END_TEST

START_TEST(ends_what_spins)
{
    const struct cadre_verdict *verdict = verdict_of("spins", 0.3);
    ck_assert_int_eq(verdict->status, CADRE_CHECK_TIMEOUT);
    ck_assert_msg(strstr(verdict->text, "did not end within"), "%s", verdict->text);
}
END_TEST

/* Status 0 is no success: the verdict is missing. */
START_TEST(is_not_deceived_by_exit)
{
    const struct cadre_verdict *verdict = verdict_of("exits", 0);
    ck_assert_int_eq(verdict->status, CADRE_CHECK_CRASH);
    ck_assert_msg(
        strstr(verdict->text, "ended with status 0 before the check was over"), "%s",
        verdict->text);
}
END_TEST

START_TEST(a_verdict_counts_at_the_end_only)
{
    ck_assert_int_eq(verdict_of("fails and exits", 0)->status, CADRE_CHECK_CRASH);
}
END_TEST

START_TEST(a_leaked_thread_does_not_matter)
{
    comes_to("leaks a thread", CADRE_CHECK_PASS, "");
}
END_TEST

START_TEST(leaked_processes_are_ended)
{
    const struct cadre_verdict *verdict = verdict_of("leaks processes", 0);
    ck_assert_int_eq(verdict->status, CADRE_CHECK_PASS);
    pid_t pid = (pid_t)strtol(verdict->text, NULL, 10);
    ck_assert_int_gt(pid, 0);
    ck_assert_int_ne(kill(pid, 0), 0);
}
END_TEST

START_TEST(closed_descriptors_do_not_matter)
{
    comes_to("closes descriptors", CADRE_CHECK_PASS, "");
}
END_TEST

START_TEST(a_forked_process_has_no_say)
{
    comes_to("forks", CADRE_CHECK_PASS, "");
}
END_TEST

/* What needs another check is not asked where that failed. */
START_TEST(needs_are_kept)
{
    results_of(&results, "L1 fails");
    const struct cadre_check_result *needs = choose("L3"), *first = choose("L1");
    ck_assert_str_eq(needs->check->needs, "L1");
    struct cadre_runner runner = runner_of();
    run(&runner);
    ck_assert_int_eq(first->verdict.status, CADRE_CHECK_FAIL);
    ck_assert_int_eq(needs->verdict.status, CADRE_CHECK_UNSUPPORTED);
    ck_assert_msg(strstr(needs->verdict.text, "needs L1 ("), "%s", needs->verdict.text);
    ck_assert_str_eq(order, "L1 L3 ");
}
END_TEST

/* And what needs that one, also where it comes first. */
START_TEST(needs_of_needs_are_kept)
{
    results_of(&results, "L1 fails");
    const struct cadre_check_result *last = choose("D6"), *middle = choose("L6");
    choose("L1");
    ck_assert_str_eq(last->check->needs, "L6");
    ck_assert_str_eq(middle->check->needs, "L1");
    struct cadre_runner runner = runner_of();
    runner.slots = 3;
    run(&runner);
    ck_assert_int_eq(last->verdict.status, CADRE_CHECK_UNSUPPORTED);
    ck_assert_msg(strstr(last->verdict.text, "needs L1 ("), "%s", last->verdict.text);
    ck_assert_int_eq(middle->verdict.status, CADRE_CHECK_UNSUPPORTED);
    ck_assert_str_eq(order, "L1 L6 D6 ");
}
END_TEST

START_TEST(a_need_that_was_not_chosen_is_not_asked)
{
    results_of(&results, "is right");
    const struct cadre_check_result *needs = choose("L3");
    struct cadre_runner runner = runner_of();
    run(&runner);
    ck_assert_int_eq(needs->verdict.status, CADRE_CHECK_PASS);
    ck_assert_str_eq(order, "L3 ");
}
END_TEST

START_TEST(checks_run_at_the_same_time)
{
    results_of(&results, "meets");
    const struct cadre_check_result *a = choose("D1"), *b = choose("D2");
    struct cadre_runner runner = runner_of();
    char path[1200];
    runner.slots = 2;
    run(&runner);
    ck_assert_int_eq(a->verdict.status, CADRE_CHECK_PASS);
    ck_assert_int_eq(b->verdict.status, CADRE_CHECK_PASS);
    snprintf(path, sizeof path, "%s/met-D1", dir);
    ck_assert_int_eq(unlink(path), 0);
    snprintf(path, sizeof path, "%s/met-D2", dir);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

START_TEST(arguments_are_passed_on)
{
    results_of(&results, "arguments");
    struct cadre_check_result *result = choose("Z1");
    struct cadre_runner runner = runner_of();
    run(&runner);
    ck_assert_str_eq(result->verdict.text, "Z1 seed 7 fuzz 0.0");
    runner.fuzz_s = 1.5;
    results.quick = true;
    run(&runner); /* nothing is left to do */
    ck_assert_str_eq(result->verdict.text, "Z1 seed 7 fuzz 0.0");
    result->done = false;
    result->verdict = (struct cadre_verdict){0};
    run(&runner);
    ck_assert_str_eq(result->verdict.text, "Z1 seed 7 fuzz 1.5 quick");
    result->done = false;
    runner.reproduce = true;
    runner.fuzz_s = 0;
    run(&runner);
    ck_assert_str_eq(result->verdict.text, "Z1 seed 7 fuzz 0.0 quick reproduce");
}
END_TEST

/* SIGTERM, while a check hangs: it ends, and takes the check with it. */
START_TEST(a_signal_ends_all)
{
    struct cadre_error err = {0};
    results_of(&results, "spins");
    const struct cadre_check_result *result = choose("D1");
    const struct cadre_runner runner = runner_of();
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        char path[1200];
        snprintf(path, sizeof path, "%s/D1/output", dir);
        while (access(path, F_OK) != 0)
            usleep(1000);
        kill(parent, SIGTERM);
        sleep_long(); /* until the runner's end sweeps it */
    }
    ck_assert_int_eq(cadre_runner_run(&runner, &err), CADRE_E_STOPPED);
    ck_assert(!result->done);
    is_clean();
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("check/runner");
    TCase *t = tcase_create("verdicts");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, says_pass);
    tcase_add_test(t, says_fail);
    tcase_add_test(t, says_warning);
    tcase_add_test(t, says_refused);
    tcase_add_test(t, survives_a_crash);
    tcase_add_test(t, survives_an_abort);
    tcase_add_test(t, ends_what_spins);
    tcase_add_test(t, is_not_deceived_by_exit);
    tcase_add_test(t, a_verdict_counts_at_the_end_only);
    tcase_add_test(t, a_leaked_thread_does_not_matter);
    tcase_add_test(t, leaked_processes_are_ended);
    tcase_add_test(t, closed_descriptors_do_not_matter);
    tcase_add_test(t, a_forked_process_has_no_say);
    suite_add_tcase(s, t);
    t = tcase_create("order");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, needs_are_kept);
    tcase_add_test(t, needs_of_needs_are_kept);
    tcase_add_test(t, a_need_that_was_not_chosen_is_not_asked);
    tcase_add_test(t, checks_run_at_the_same_time);
    tcase_add_test(t, arguments_are_passed_on);
    tcase_add_test(t, a_signal_ends_all);
    suite_add_tcase(s, t);
    return s;
}
