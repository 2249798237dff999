/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/checkpoint/format/file.h"

START_TEST(a_whole_file_comes_back)
{
    struct cadre_error err = {0};
    char *dir = test_tmpdir();
    char *path = cadre_format("%s/a", dir);
    char *data = NULL;
    size_t bytes = 0;
    ck_assert_int_eq(cadre_file_write_whole(path, "a\0b", 3, &err), CADRE_OK);
    ck_assert_int_eq(cadre_file_read_whole(path, 3, &data, &bytes, &err), CADRE_OK);
    ck_assert_uint_eq(bytes, 3);
    ck_assert_mem_eq(data, "a\0b\0", 4);
    free(data);
    ck_assert_int_eq(cadre_file_read_whole(path, 2, &data, &bytes, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "at most 2 bytes, found 3"));
    ck_assert_int_eq(cadre_file_read_whole(dir, 100, &data, &bytes, &err),
                     CADRE_E_INVALID);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0); /* without a writer */
    ck_assert_int_eq(cadre_file_read_whole(path, 100, &data, &bytes, &err),
                     CADRE_E_INVALID);
    ck_assert_int_eq(cadre_file_sync_folder(dir, &err), CADRE_OK);
    ck_assert_int_eq(cadre_file_sync_folder(path, &err), CADRE_E_IO);
    free(path);
    test_tmpdir_destroy(dir);
}
END_TEST

START_TEST(reading_past_the_end_is_an_error)
{
    struct cadre_error err = {0};
    char *dir = test_tmpdir();
    char *path = cadre_format("%s/a", dir);
    char data[8];
    ck_assert_int_eq(cadre_file_write_whole(path, "abcd", 4, &err), CADRE_OK);
    int fd = open(path, O_RDONLY);
    ck_assert_int_eq(cadre_file_read_at(fd, path, data, 2, 2, &err), CADRE_OK);
    ck_assert_int_eq(cadre_file_read_at(fd, path, data, 4, 2, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "ends at byte 4, expected bytes up to 6"));
    ck_assert_int_eq(cadre_file_write_at(fd, path, data, 1, 0, &err), CADRE_E_IO);
    close(fd);
    free(path);
    test_tmpdir_destroy(dir);
}
END_TEST

START_TEST(a_file_too_large_says_what_to_do)
{
    struct cadre_error err = {0};
    char *dir = test_tmpdir();
    char *path = cadre_format("%s/a", dir);
    const struct rlimit limit = {4096, 4096};
    signal(SIGXFSZ, SIG_IGN);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    ck_assert_int_eq(cadre_file_reserve(fd, path, UINT64_MAX, &err), CADRE_E_RESOURCE);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(cadre_file_reserve(fd, path, 4096, &err), CADRE_OK);
    ck_assert_int_eq(cadre_file_reserve(fd, path, 8192, &err), CADRE_E_RESOURCE);
    ck_assert_int_eq(cadre_file_write_at(fd, path, "a", 1, 4096, &err),
                     CADRE_E_RESOURCE);
    ck_assert_ptr_nonnull(strstr(err.text, "free space"));
    close(fd);
    free(path);
    test_tmpdir_destroy(dir);
}
END_TEST

START_TEST(removing_a_tree_leaves_what_links_point_at)
{
    struct cadre_error err = {0};
    char *dir = test_tmpdir();
    char *outside = cadre_format("%s/keep", dir);
    char *tree = cadre_format("%s/tree", dir);
    char *inner = cadre_format("%s/tree/inner", dir);
    char *link = cadre_format("%s/tree/inner/link", dir);
    ck_assert_int_eq(cadre_file_write_whole(outside, "x", 1, &err), CADRE_OK);
    ck_assert_int_eq(mkdir(tree, 0700) | mkdir(inner, 0700) | symlink(dir, link), 0);
    ck_assert_int_eq(cadre_file_remove_tree(tree, &err), CADRE_OK);
    ck_assert_int_ne(access(tree, F_OK), 0);
    ck_assert_int_eq(access(outside, F_OK), 0);
    ck_assert_int_eq(cadre_file_remove_tree(tree, &err), CADRE_OK);
    free(link);
    free(inner);
    free(tree);
    free(outside);
    test_tmpdir_destroy(dir);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("file");
    TCase *tc = tcase_create("file");
    tcase_add_test(tc, a_whole_file_comes_back);
    tcase_add_test(tc, reading_past_the_end_is_an_error);
    tcase_add_test(tc, a_file_too_large_says_what_to_do);
    tcase_add_test(tc, removing_a_tree_leaves_what_links_point_at);
    suite_add_tcase(suite, tc);
    return suite;
}
