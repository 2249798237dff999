/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/checkpoint/format/file.h"
#include "core/checkpoint/format/folder.h"

static struct cadre_error err;
static char *root;

static void setup(void)
{
    root = test_tmpdir();
}

static void teardown(void)
{
    test_tmpdir_destroy(root);
}

/* A folder of this name, with a file in it. */
static void make(const char *name)
{
    char *dir = cadre_format("%s/%s", root, name);
    char *file = cadre_format("%s/%s/f", root, name);
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    ck_assert_int_eq(cadre_file_write_whole(file, name, strlen(name), &err), CADRE_OK);
    free(dir);
    free(file);
}

static bool has(const char *name)
{
    char *path = cadre_format("%s/%s", root, name);
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

START_TEST(only_our_names_are_listed)
{
    static const char *const names[] = {
        "step-00000010",
        "step-00000002",
        "step-123456789",
        "step-00000003.partial",
        "step-00000004.removing",
        "step-5",
        "step-0000000x",
        "step-",
        "steps",
        "step-000000011",
        "step-00000012.old",
        "step-99999999999999999999",
    };
    uint64_t *steps = NULL;
    size_t n = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        make(names[i]);
    ck_assert_int_eq(cadre_folder_list(root, &steps, &n, &err), CADRE_OK);
    ck_assert_uint_eq(n, 3);
    ck_assert_uint_eq(steps[0], 2);
    ck_assert_uint_eq(steps[1], 10);
    ck_assert_uint_eq(steps[2], 123456789);
    free(steps);
    ck_assert_int_eq(cadre_folder_clean(root, &err), CADRE_OK);
    ck_assert(!has("step-00000003.partial") && !has("step-00000004.removing"));
    for (size_t i = 5; i < sizeof names / sizeof names[0]; i++)
        ck_assert(has(names[i]));
}
END_TEST

START_TEST(a_root_that_is_not_there_is_empty)
{
    uint64_t *steps = NULL;
    size_t n = 7;
    char *path = cadre_format("%s/none", root);
    ck_assert_int_eq(cadre_folder_list(path, &steps, &n, &err), CADRE_OK);
    ck_assert_uint_eq(n, 0);
    ck_assert_int_eq(cadre_folder_clean(path, &err), CADRE_OK);
    free(steps);
    ck_assert_int_eq(cadre_file_write_whole(path, "x", 1, &err), CADRE_OK);
    ck_assert_int_eq(cadre_folder_list(path, &steps, &n, &err), CADRE_E_IO);
    free(path);
}
END_TEST

START_TEST(publishing_replaces)
{
    char *data = NULL;
    size_t bytes = 0;
    char *file = cadre_folder_path(root, 5, "/f");
    ck_assert_int_eq(cadre_folder_publish(root, 5, &err), CADRE_E_IO);
    make("step-00000005.partial");
    ck_assert_int_eq(cadre_folder_publish(root, 5, &err), CADRE_OK);
    ck_assert(has("step-00000005") && !has("step-00000005.partial"));
    ck_assert_int_eq(cadre_file_write_whole(file, "old", 3, &err), CADRE_OK);
    make("step-00000005.partial");
    ck_assert_int_eq(cadre_folder_publish(root, 5, &err), CADRE_OK);
    ck_assert(!has("step-00000005.partial") && !has("step-00000005.removing"));
    ck_assert_int_eq(cadre_file_read_whole(file, 100, &data, &bytes, &err), CADRE_OK);
    ck_assert_str_eq(data, "step-00000005.partial");
    free(data);
    free(file);
}
END_TEST

START_TEST(pruning_keeps_the_newest)
{
    make("step-00000001");
    make("step-00000002");
    make("step-00000003");
    make("step-00000009");
    ck_assert_int_eq(cadre_folder_prune(root, 3, 0, &err), CADRE_OK);
    ck_assert(has("step-00000001"));
    ck_assert_int_eq(cadre_folder_prune(root, 3, 2, &err), CADRE_OK);
    ck_assert(!has("step-00000001") && has("step-00000002") && has("step-00000003"));
    ck_assert_int_eq(cadre_folder_prune(root, 3, 1, &err), CADRE_OK);
    ck_assert(!has("step-00000002") && has("step-00000003") && has("step-00000009"));
    ck_assert_int_eq(cadre_folder_prune(root, 1, 1, &err), CADRE_OK);
    ck_assert(has("step-00000003") && has("step-00000009"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("folder");
    TCase *tc = tcase_create("folder");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, only_our_names_are_listed);
    tcase_add_test(tc, a_root_that_is_not_there_is_empty);
    tcase_add_test(tc, publishing_replaces);
    tcase_add_test(tc, pruning_keeps_the_newest);
    suite_add_tcase(suite, tc);
    return suite;
}
