/* SPDX-License-Identifier: Apache-2.0 */
/* A folder is one process's at a time. */
#include "core/run/run_lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check_main.h"

static char dir[32];
static struct cadre_error err;

static void setup(void)
{
    snprintf(dir, sizeof dir, "/tmp/cadre-lock-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    err = (struct cadre_error){0};
}

static void teardown(void)
{
    char path[64];
    snprintf(path, sizeof path, "%s/.lock", dir);
    unlink(path);
    ck_assert_int_eq(rmdir(dir), 0);
}

/* What another process gets. */
static cadre_status elsewhere(char text[sizeof err.text])
{
    int ends[2], status;
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        struct cadre_run_lock lock = {0};
        struct cadre_error why = {0};
        cadre_status rc = cadre_run_lock_take(&lock, dir, &why);
        if (write(ends[1], &why, sizeof why) != (ssize_t)sizeof why)
            rc = CADRE_E_INTERNAL;
        _exit(rc == CADRE_OK ? 0 : rc == CADRE_E_INVALID ? 1 : 2);
    }
    struct cadre_error why;
    ck_assert_int_eq(read(ends[0], &why, sizeof why), (ssize_t)sizeof why);
    close(ends[0]);
    close(ends[1]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    memcpy(text, why.text, sizeof why.text);
    return WEXITSTATUS(status) == 0   ? CADRE_OK
           : WEXITSTATUS(status) == 1 ? CADRE_E_INVALID
                                      : CADRE_E_INTERNAL;
}

START_TEST(another_process_is_refused_until_it_is_released)
{
    struct cadre_run_lock lock = {0};
    struct stat left;
    char text[sizeof err.text], owner[64], path[64];
    ck_assert_int_eq(cadre_run_lock_take(&lock, dir, &err), CADRE_OK);
    ck_assert(lock.held);
    ck_assert_int_eq(cadre_run_lock_take(&lock, dir, &err), CADRE_OK); /* kept */
    ck_assert_int_eq(elsewhere(text), CADRE_E_INVALID);
    snprintf(owner, sizeof owner, "in use by process %ld on ", (long)getpid());
    ck_assert_msg(strstr(text, owner) != NULL, "%s", text);
    cadre_run_lock_release(&lock);
    snprintf(path, sizeof path, "%s/.lock", dir);
    ck_assert_int_eq(stat(path, &left), 0);
    ck_assert_int_eq(left.st_size, 0); /* a refused run changes no byte of a folder */
    ck_assert_int_eq(elsewhere(text), CADRE_OK); /* whose end lets it go */
    ck_assert_int_eq(cadre_run_lock_take(&lock, dir, &err), CADRE_OK);
    cadre_run_lock_release(&lock);
}
END_TEST

START_TEST(a_folder_that_is_not_there_is_left_alone)
{
    struct cadre_run_lock lock = {0};
    ck_assert_int_eq(cadre_run_lock_take(&lock, "/tmp/cadre-no-such-folder", &err),
                     CADRE_OK);
    ck_assert(!lock.held);
    cadre_run_lock_release(&lock);
}
END_TEST

START_TEST(a_link_is_not_followed)
{
    struct cadre_run_lock lock = {0};
    char path[64], target[64];
    snprintf(path, sizeof path, "%s/.lock", dir);
    snprintf(target, sizeof target, "%s/made-by-a-link", dir);
    ck_assert_int_eq(symlink(target, path), 0);
    ck_assert_int_eq(cadre_run_lock_take(&lock, dir, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "/.lock"));
    ck_assert(!lock.held && access(target, F_OK) != 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("run_lock");
    TCase *tc = tcase_create("run_lock");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, another_process_is_refused_until_it_is_released);
    tcase_add_test(tc, a_folder_that_is_not_there_is_left_alone);
    tcase_add_test(tc, a_link_is_not_followed);
    suite_add_tcase(s, tc);
    return s;
}
