/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that another launcher started: who cannot enter rank 0's segment says why, the
 * guard of a rank ends where its wake is lost, and a rank that ends without a report
 * fails the segment. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/comm/local/segment_private.h"
#include "core/comm/local_external.h"
#include "tests/support/check_main.h"

static bool lost, unread; /* what is written, what is to be read */

/* In the place of the C library's. */
ssize_t read(int fd, void *data, size_t bytes)
{
    if (unread) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_read, fd, data, bytes);
}

ssize_t __read_chk(int fd, void *data, size_t bytes, size_t room);
ssize_t __read_chk(int fd, void *data, size_t bytes, size_t room)
{
    (void)room;
    return read(fd, data, bytes);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    if (lost) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_write, fd, data, bytes);
}

static struct cadre_local_segment *create(void)
{
    const struct cadre_local_config config = {
        .size = 2, .processes = true, .timeout_s = 5};
    struct cadre_local_segment *segment;
    ck_assert_int_eq(cadre_local_segment_create(&config, &segment, NULL), CADRE_OK);
    return segment;
}

/* What could not be read is not taken for another machine's. */
START_TEST(a_boot_that_cannot_be_read)
{
    struct cadre_local_segment *segment = create(), *entered = NULL;
    struct cadre_local_address address;
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_local_address_make(segment, &address, NULL), CADRE_OK);
    unread = true;
    ck_assert_int_eq(cadre_local_address_enter(&address, &entered, &err), CADRE_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "boot_id"));
    ck_assert_int_eq(cadre_local_address_make(segment, &address, &err), CADRE_E_IO);
    unread = false;
    cadre_local_segment_close(segment);
}
END_TEST

/* It is no fault of what was given. */
START_TEST(a_rank_0_that_has_ended)
{
    struct cadre_local_segment *segment = create(), *entered = NULL;
    struct cadre_local_address address;
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_local_address_make(segment, &address, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_local_address_enter(&address, &entered, &err), CADRE_OK);
    cadre_local_segment_close(entered);
    address.fd = 0; /* another file */
    ck_assert_int_eq(cadre_local_address_enter(&address, &entered, &err), CADRE_E_COMM);
    address.fd = 987654; /* none */
    ck_assert_int_eq(cadre_local_address_enter(&address, &entered, &err), CADRE_E_COMM);
    cadre_local_segment_close(segment);
}
END_TEST

START_TEST(ends_where_its_wake_is_lost)
{
    struct cadre_local_segment *segment = create();
    struct cadre_local_guard *guard;
    char text[128];
    cadre_local_guard_join(segment, 0);
    cadre_local_guard_join(segment, 1); /* this process too, which stays */
    ck_assert_int_eq(cadre_local_guard_open(segment, 0, &guard, NULL), CADRE_OK);
    lost = true;
    cadre_local_guard_close(guard); /* comes back */
    lost = false;
    cadre_local_segment_failure(segment, text, sizeof text);
    ck_assert_str_eq(text, "");
    cadre_local_segment_close(segment);
}
END_TEST

START_TEST(names_a_rank_that_is_gone)
{
    struct cadre_local_segment *segment = create();
    struct cadre_local_guard *guard;
    char text[128] = "", expected[64];
    cadre_local_guard_join(segment, 0);
    const pid_t pid = fork();
    if (pid == 0) {
        cadre_local_guard_join(segment, 1);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    snprintf(expected, sizeof expected, "rank 1 ended without a report (process %d)",
             (int)pid);
    ck_assert_int_eq(cadre_local_guard_open(segment, 0, &guard, NULL), CADRE_OK);
    while (!text[0])
        cadre_local_segment_failure(segment, text, sizeof text);
    ck_assert_msg(strstr(text, expected), "%s", text);
    cadre_local_guard_close(guard);
    cadre_local_segment_close(segment);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("external");
    TCase *tcase = tcase_create("ranks");
    tcase_add_test(tcase, a_boot_that_cannot_be_read);
    tcase_add_test(tcase, a_rank_0_that_has_ended);
    tcase_add_test(tcase, ends_where_its_wake_is_lost);
    tcase_add_test(tcase, names_a_rank_that_is_gone);
    suite_add_tcase(suite, tcase);
    return suite;
}
