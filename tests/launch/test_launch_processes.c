/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as processes: the same cases as for threads, and what happens when one dies.
 * The ranks are the helper program comm_rank, because a test runner cannot re-exec
 * itself. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/launch/launch.h"
#include "tests/support/check_main.h"

/* comm.timeout of cases that must not reach it: the test's own limit is shorter. */
#define FOR_EVER "100000"

static void helper(char *path, size_t size)
{
    const char *build = getenv("CADRE_BUILD");
    snprintf(path, size, "%s/comm_rank", build ? build : ".");
}

/* comm_rank CASE SIZE TIMEOUT ARG with its stdout in a pipe. */
static pid_t start(const char *name, int ranks, const char *timeout, const char *arg,
                   int *out)
{
    char path[1024], count[16];
    int ends[2];
    helper(path, sizeof path);
    snprintf(count, sizeof count, "%d", ranks);
    ck_assert_int_eq(pipe(ends), 0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(path, path, name, count, timeout, arg, (char *)NULL);
        _exit(126);
    }
    ck_assert_int_gt(pid, 0);
    close(ends[1]);
    *out = ends[0];
    return pid;
}

/* Everything until the last holder of the pipe is gone: ranks hold it too, so end of
 * file means that there is no orphan. */
static cadre_status finish(pid_t pid, int out, char *text, size_t size)
{
    size_t used = 0;
    ssize_t n;
    while (used + 1 < size && (n = read(out, text + used, size - used - 1)) > 0)
        used += (size_t)n;
    text[used] = '\0';
    close(out);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s", text);
    return (cadre_status)atoi(text);
}

static cadre_status run(const char *name, int ranks, const char *timeout,
                        const char *arg, char *text, size_t size)
{
    int out;
    pid_t pid = start(name, ranks, timeout, arg, &out);
    return finish(pid, out, text, size);
}

START_TEST(collectives_match_references)
{
    char text[2048];
    cadre_status rc = run("collectives", _i, FOR_EVER, "", text, sizeof text);
    ck_assert_msg(rc == CADRE_OK, "%s", text);
}
END_TEST

START_TEST(storm_of_operations)
{
    char text[2048];
    cadre_status rc = run("storm", _i, FOR_EVER, "20250102", text, sizeof text);
    ck_assert_msg(rc == CADRE_OK, "%s", text);
}
END_TEST

static const struct {
    const char *name;
    int size;
    cadre_status expected;
    const char *text; /* in the failure */
} plain[] = {
    {"independence", 2, CADRE_OK, ""},
    {"messages", 4, CADRE_OK, ""},
    {"groups", 5, CADRE_OK, ""},
    {"exhaust", 3, CADRE_E_COMM, "no room for another communicator of 3 ranks"},
    {"refusals", 2, CADRE_OK, ""},
    {"checksums", 3, CADRE_OK, ""},
    {"counts", 3, CADRE_OK, ""},
    {"aborted", 3, CADRE_E_COMM, "loss is not finite at step 5"},
    {"leaver", 3, CADRE_E_COMM, "rank 2 "},
    {"unequal", 2, CADRE_E_COMM, "8 elements"},
};

START_TEST(plain_cases)
{
    char text[2048];
    cadre_status rc =
        run(plain[_i].name, plain[_i].size, FOR_EVER, "", text, sizeof text);
    ck_assert_msg(rc == plain[_i].expected && strstr(text, plain[_i].text), "%s: %s",
                  plain[_i].name, text);
}
END_TEST

START_TEST(mismatch_names_both)
{
    char text[2048];
    ck_assert_int_eq(run("mismatch", 3, FOR_EVER, "", text, sizeof text), CADRE_E_COMM);
    ck_assert_msg(strstr(text, "rank 0 posted all_reduce #1 'bucket 3'") &&
                      strstr(text, "rank 2 posted broadcast #1 'params'"),
                  "%s", text);
}
END_TEST

START_TEST(timeout_names_the_missing_rank)
{
    char text[2048], timeout[32];
    snprintf(timeout, sizeof timeout, "%g", test_patience());
    ck_assert_int_eq(run("hang", 3, timeout, timeout, text, sizeof text), CADRE_E_COMM);
    ck_assert_msg(strstr(text, "rank 2 has not entered all_reduce #2 'bucket 3'"), "%s",
                  text);
    /* it ends last: what it waits for was never sent */
    ck_assert_msg(strstr(text, "\nlost 0, asked 0\n"), "%s", text);
}
END_TEST

START_TEST(killed_rank_ends_the_run)
{
    char text[2048], expected[64];
    ck_assert_int_eq(run("killed", _i, FOR_EVER, "self", text, sizeof text),
                     CADRE_E_COMM);
    snprintf(expected, sizeof expected, "rank %d was killed by signal 9", _i - 1);
    ck_assert_msg(strstr(text, expected) && strstr(text, "all_reduce"), "%s", text);
    ck_assert_msg(strstr(text, "\nlost 1, asked 0\n"), "%s", text);
}
END_TEST

/* The others do not check the communicator: they are killed after the grace period. */
START_TEST(deaf_ranks_are_killed)
{
    char text[2048];
    ck_assert_int_eq(run("killed", 3, FOR_EVER, "deaf", text, sizeof text),
                     CADRE_E_COMM);
    ck_assert_msg(strstr(text, "rank 2 was killed by signal 9"), "%s", text);
    ck_assert_msg(strstr(text, "\nlost 1, asked 0\n"), "%s", text);
}
END_TEST

/* A stopped rank neither comes nor responds. */
START_TEST(rank_that_others_wait_for_in_vain_is_lost)
{
    char text[2048], timeout[32];
    snprintf(timeout, sizeof timeout, "%g", test_patience());
    ck_assert_int_eq(run("killed", 3, timeout, "stops", text, sizeof text),
                     CADRE_E_COMM);
    ck_assert_msg(strstr(text, "rank 2 has not entered all_reduce"), "%s", text);
    ck_assert_msg(strstr(text, "\nlost 1, asked 0\n"), "%s", text);
}
END_TEST

START_TEST(killed_launcher_leaves_no_orphan)
{
    char text[2048];
    int out, status;
    pid_t pid = start("killed", 3, FOR_EVER, "for ever", &out);
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL); /* likely at work */
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq((int)read(out, text, sizeof text),
                     0); /* the last holder is gone */
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    close(out);
}
END_TEST

START_TEST(signals_reach_every_rank_once)
{
    char text[2048];
    int out;
    pid_t pid = start("stopped", 3, FOR_EVER, "", &out);
    for (int r = 0; r < 3; r++) /* one byte per rank: handlers are set */
        ck_assert_int_eq((int)read(out, text, 1), 1);
    ck_assert_int_eq(kill(pid, SIGTERM), 0);
    ck_assert_int_eq(finish(pid, out, text, sizeof text), CADRE_E_STOPPED);
    ck_assert_msg(strstr(text, "\nlost 0, asked 1\n"), "%s", text);
}
END_TEST

START_TEST(exit_codes_map_back)
{
    char text[2048];
    ck_assert_int_eq(run("exits", 2, FOR_EVER, "2", text, sizeof text),
                     CADRE_E_INVALID);
    ck_assert_msg(strstr(text, "rank 1 "), "%s", text);
    ck_assert_int_eq(run("exits", 2, FOR_EVER, "1", text, sizeof text), CADRE_E_COMM);
    ck_assert_msg(strstr(text, "rank 1 "), "%s", text);
    ck_assert_msg(strstr(text, "\nlost 0, asked 0\n"), "%s", text);
    ck_assert_int_eq(run("exits", 2, FOR_EVER, "0", text, sizeof text), CADRE_E_COMM);
    ck_assert_msg(strstr(text, "rank 1 has not entered all_reduce") &&
                      strstr(text, "it is gone"),
                  "%s", text);
}
END_TEST

/* What the last rank does inside a plugin, and how the launcher says it. */
static const struct {
    const char *does, *text, *end;
} misbehaviours[] = {
    {"quit",
     "rank 1 ended without finishing: plugin 'x' called exit in step at step 3?",
     "lost 0"},
    {"fault", "plugin 'x' in step at step 3: rank 1 was killed by signal 11 (",
     "lost 1"},
    {"stall", "plugin 'x' has not returned from step for", "lost 1"},
};

START_TEST(plugins_that_end_or_stop_a_rank_are_named)
{
    char text[2048], timeout[32];
    snprintf(timeout, sizeof timeout, "%g",
             strcmp(misbehaviours[_i].does, "stall") == 0 ? test_patience() : 100000);
    ck_assert_int_eq(
        run("misbehaves", 2, timeout, misbehaviours[_i].does, text, sizeof text),
        CADRE_E_COMM);
    ck_assert_msg(strstr(text, misbehaviours[_i].text), "%s", text);
    ck_assert_msg(strstr(text, misbehaviours[_i].end), "%s", text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("launch/launch_processes");
    TCase *t = tcase_create("processes");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, collectives_match_references, 1, 6);
    tcase_add_loop_test(t, storm_of_operations, 2, 6);
    tcase_add_loop_test(t, plain_cases, 0, (int)(sizeof plain / sizeof plain[0]));
    tcase_add_test(t, mismatch_names_both);
    tcase_add_test(t, timeout_names_the_missing_rank);
    tcase_add_loop_test(t, killed_rank_ends_the_run, 1, 5);
    tcase_add_test(t, deaf_ranks_are_killed);
    tcase_add_test(t, rank_that_others_wait_for_in_vain_is_lost);
    tcase_add_test(t, killed_launcher_leaves_no_orphan);
    tcase_add_test(t, signals_reach_every_rank_once);
    tcase_add_test(t, exit_codes_map_back);
    tcase_add_loop_test(t, plugins_that_end_or_stop_a_rank_are_named, 0, 3);
    suite_add_tcase(s, t);
    return s;
}
