/* SPDX-License-Identifier: Apache-2.0 */
#include "core/launch/status_page.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check_main.h"

/* By its descriptor, as the process of a rank does. */
START_TEST(another_process_sees_what_is_written)
{
    struct cadre_status_page page, same;
    struct cadre_error err = {0};
    char text[64];
    ck_assert_int_eq(cadre_status_page_create(3, &page, &err), CADRE_OK);
    ck_assert_uint_eq(page.n, 3);
    pid_t pid = fork();
    if (pid == 0) {
        if (cadre_status_page_open(dup(page.fd), &same, &err) != CADRE_OK ||
            same.n != 3)
            _exit(1);
        cadre_status_begin(&same.slot[2], 2);
        cadre_status_enter(&same.slot[2], "ddp", "step", 5);
        cadre_status_page_say(&same, "the reason");
        _exit(0);
    }
    int how = 0;
    ck_assert_int_eq(waitpid(pid, &how, 0), pid);
    ck_assert_int_eq(how, 0);
    ck_assert_int_eq(atomic_load(&page.slot[2].rank), 2);
    ck_assert_str_eq(page.slot[2].text[atomic_load(&page.slot[2].place) & 0x7f], "ddp");
    ck_assert_uint_eq(atomic_load(&page.slot[1].state), CADRE_STATUS_UNUSED);
    cadre_status_page_said(&page, text, sizeof text);
    ck_assert_str_eq(text, "the reason");
    cadre_status_page_close(&page);
    ck_assert_ptr_null(page.shared);
    cadre_status_page_close(&page);
}
END_TEST

START_TEST(nothing_was_said)
{
    struct cadre_status_page page;
    char text[8] = "before";
    ck_assert_int_eq(cadre_status_page_create(1, &page, NULL), CADRE_OK);
    cadre_status_page_said(&page, text, sizeof text);
    ck_assert_str_eq(text, "");
    cadre_status_page_close(&page);
}
END_TEST

START_TEST(closed_by_exec_unless_asked)
{
    struct cadre_status_page page;
    ck_assert_int_eq(cadre_status_page_create(1, &page, NULL), CADRE_OK);
    ck_assert_int_eq(fcntl(page.fd, F_GETFD), FD_CLOEXEC);
    cadre_status_page_close(&page);
}
END_TEST

/* No descriptor, a device, memory without a page, a short file. */
START_TEST(other_descriptors_are_refused)
{
    struct cadre_status_page page;
    struct cadre_error err = {0};
    int fd[] = {-1, open("/dev/null", O_RDWR), memfd_create("zeros", 0),
                memfd_create("short", 0)};
    ck_assert_int_eq(ftruncate(fd[2], 1 << 16), 0);
    ck_assert_int_eq(ftruncate(fd[3], 8), 0);
    for (size_t i = 0; i < sizeof fd / sizeof fd[0]; i++) {
        err = (struct cadre_error){0};
        ck_assert_int_eq(cadre_status_page_open(fd[i], &page, &err), CADRE_E_INVALID);
        ck_assert_msg(strstr(err.text, "is not the status page"), "%s", err.text);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("launch/status_page");
    TCase *t = tcase_create("page");
    tcase_add_test(t, another_process_sees_what_is_written);
    tcase_add_test(t, nothing_was_said);
    tcase_add_test(t, closed_by_exec_unless_asked);
    tcase_add_test(t, other_descriptors_are_refused);
    suite_add_tcase(s, t);
    return s;
}
