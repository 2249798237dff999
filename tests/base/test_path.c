/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/path.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "tests/support/check_main.h"

static char *dir;

static void make_dir(void)
{
    dir = test_tmpdir();
}

static void remove_dir(void)
{
    test_tmpdir_destroy(dir);
}

static void expect_join(const char *a, const char *b, const char *expected)
{
    char *path = cadre_path_join(a, b);
    ck_assert_str_eq(path, expected);
    free(path);
}

static void expect_dirname(const char *path, const char *expected)
{
    char *folder = cadre_path_dirname(path);
    ck_assert_str_eq(folder, expected);
    free(folder);
}

static void expect_absolute(const char *path, const char *after)
{
    char here[4096];
    ck_assert_ptr_nonnull(getcwd(here, sizeof here));
    char *wanted = cadre_format("%s%s", here, after), *full = cadre_path_absolute(path);
    ck_assert_str_eq(full, wanted);
    free(wanted);
    free(full);
}

START_TEST(a_path_from_the_root)
{
    expect_absolute("a/b", "/a/b");
    expect_absolute("./a", "/a");
    expect_absolute(".//./a/", "/a/");
    expect_absolute("../a", "/../a");
    expect_absolute("./", "");
    char *same = cadre_path_absolute("/a/b"), *none = cadre_path_absolute("");
    ck_assert_str_eq(same, "/a/b");
    ck_assert_str_eq(none, "");
    free(same);
    free(none);
}
END_TEST

START_TEST(joins_and_splits)
{
    expect_join("a", "b", "a/b");
    expect_join("a/", "b", "a/b");
    expect_join("", "b", "b");
    expect_join("a", "/b", "/b");
    expect_dirname("a/b", "a");
    expect_dirname("a//b", "a");
    expect_dirname("/a", "/");
    expect_dirname("a", ".");
    expect_dirname("a/b/", "a/b");
    ck_assert_str_eq(cadre_path_basename("a/b.c"), "b.c");
    ck_assert_str_eq(cadre_path_basename("b.c"), "b.c");
}
END_TEST

START_TEST(makes_folders)
{
    struct cadre_error err = {0};
    char *deep = cadre_path_join(dir, "a/b//c/");
    ck_assert_int_eq(cadre_path_make_dirs(deep, &err), CADRE_OK);
    ck_assert_int_eq(cadre_path_make_dirs(deep, &err), CADRE_OK);
    ck_assert(cadre_path_is_dir(deep) && cadre_path_exists(deep));
    free(deep);
    char *file = cadre_path_join(dir, "f");
    char *below = cadre_path_join(dir, "f/g");
    ck_assert_int_eq(cadre_path_write_file(file, "x", 1, &err), CADRE_OK);
    ck_assert(!cadre_path_is_dir(file));
    ck_assert_int_eq(cadre_path_make_dirs(below, &err), CADRE_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "there is a file of that name"));
    ck_assert_ptr_nonnull(strstr(err.text, "cannot make folder '"));
    ck_assert_int_eq(cadre_path_make_dirs("", &err), CADRE_E_IO);
    free(file);
    free(below);
}
END_TEST

static int count_files(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

START_TEST(looks_into_folders)
{
    struct cadre_error err = {0};
    char *file = cadre_path_join(dir, "f"), *sub = cadre_path_join(dir, "sub");
    char *slashed = cadre_path_join(dir, ""),
         *long_name = cadre_calloc(PATH_MAX + 1, 1);
    ck_assert_int_eq(cadre_path_write_file(file, "x", 1, &err), CADRE_OK);
    ck_assert_int_eq(cadre_path_make_dirs(sub, &err), CADRE_OK);
    ck_assert(cadre_path_has(dir, "f") && !cadre_path_has_dir(dir, "f"));
    ck_assert(cadre_path_has(dir, "sub") && cadre_path_has_dir(dir, "sub"));
    ck_assert(cadre_path_has(slashed, "f") && cadre_path_has("", file));
    ck_assert(cadre_path_has("/nowhere", file));
    ck_assert(!cadre_path_has(dir, "g") && !cadre_path_has_dir(dir, "g"));
    memset(long_name, 'a', PATH_MAX);
    long_name[PATH_MAX] = 0;
    ck_assert(!cadre_path_has(dir, long_name) && !cadre_path_has_dir(dir, long_name));
    free(long_name);
    free(slashed);
    free(sub);
    free(file);
}
END_TEST

START_TEST(writes_whole_files_or_none)
{
    struct cadre_error err = {0};
    char *data = NULL;
    size_t n = 0;
    char *path = cadre_path_join(dir, "f");
    ck_assert_int_eq(cadre_path_write_file(path, "old", 3, &err), CADRE_OK);
    ck_assert_int_eq(cadre_path_write_file(path, "new\0x", 5, &err), CADRE_OK);
    ck_assert_int_eq(cadre_path_read_file(path, 5, &data, &n, &err), CADRE_OK);
    ck_assert_uint_eq(n, 5);
    ck_assert_mem_eq(data, "new\0x", 6);
    ck_assert_int_eq(count_files(), 1);
    free(data);
    free(path);
    path = cadre_path_join(dir, "gone/f");
    ck_assert_int_eq(cadre_path_write_file(path, "x", 1, &err), CADRE_E_IO);
    ck_assert_int_eq(cadre_path_write_file(dir, "x", 1, &err), CADRE_E_IO);
    ck_assert_int_eq(count_files(), 1);
    free(path);
}
END_TEST

START_TEST(reads_lines_to_the_end)
{
    struct cadre_error err = {0};
    char *path = cadre_path_join(dir, "lines"), *line = NULL;
    size_t room = 0, n = 0;
    ck_assert_int_eq(cadre_path_write_file(path, "a\n\nbc", 5, &err), CADRE_OK);
    FILE *file = fopen(path, "r");
    static const size_t lengths[] = {2, 1, 2, 0, 0};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        ck_assert_int_eq(cadre_path_next_line(file, path, &line, &room, &n, &err),
                         CADRE_OK);
        ck_assert_uint_eq(n, lengths[i]);
    }
    fclose(file);
    file = fopen(dir, "r"); /* a folder opens, and cannot be read */
    ck_assert_int_eq(cadre_path_next_line(file, "it", &line, &room, &n, &err),
                     CADRE_E_IO);
    ck_assert_msg(strstr(err.text, "cannot read 'it'") != NULL, "%s", err.text);
    fclose(file);
    free(line);
    free(path);
}
END_TEST

START_TEST(reads_only_small_regular_files)
{
    struct cadre_error err = {0};
    char *data = NULL;
    size_t n = 0;
    char *path = cadre_path_join(dir, "f");
    ck_assert_int_eq(cadre_path_write_file(path, "12345", 5, &err), CADRE_OK);
    ck_assert_int_eq(cadre_path_read_file(path, 4, &data, &n, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "has 5 bytes, expected at most 4"));
    ck_assert_int_eq(cadre_path_read_file(dir, 4, &data, &n, &err), CADRE_E_INVALID);
    free(path);
    path = cadre_path_join(dir, "pipe");
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(cadre_path_read_file(path, 4, &data, &n, &err), CADRE_E_INVALID);
    free(path);
    path = cadre_path_join(dir, "gone");
    ck_assert_int_eq(cadre_path_read_file(path, 4, &data, &n, &err), CADRE_E_IO);
    ck_assert_ptr_null(data);
    free(path);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("path");
    TCase *tc = tcase_create("path");
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_test(tc, a_path_from_the_root);
    tcase_add_test(tc, joins_and_splits);
    tcase_add_test(tc, makes_folders);
    tcase_add_test(tc, looks_into_folders);
    tcase_add_test(tc, writes_whole_files_or_none);
    tcase_add_test(tc, reads_lines_to_the_end);
    tcase_add_test(tc, reads_only_small_regular_files);
    suite_add_tcase(s, tc);
    return s;
}
