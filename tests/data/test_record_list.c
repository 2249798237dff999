/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/data/wfdb/record_list.h"
#include "tests/support/check_main.h"

static char *dir;

static void touch(const char *name)
{
    test_file_put(dir, name, "", 0);
}

static void make_folder(const char *name)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void setup(void)
{
    dir = test_tmpdir();
    make_folder("p2");
    make_folder("p1");
    touch("b.hea");
    touch("a10.hea");
    touch("a9.hea");
    touch("a9.dat");
    touch(".hidden.hea");
    touch("p2/x.hea");
    touch("p1/y.hea");
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

START_TEST(walks_in_order)
{
    static const char *const want[] = {"a10", "a9", "b", "p1/y", "p2/x"};
    struct cadre_record_list list = {0};
    char loop[1200];
    snprintf(loop, sizeof loop, "%s/p1/loop", dir);
    ck_assert_int_eq(symlink(dir, loop), 0);
    ck_assert_int_eq(cadre_record_list_init(dir, &list, NULL), CADRE_OK);
    ck_assert_uint_eq(list.count, 5);
    for (size_t i = 0; i < 5; i++)
        ck_assert_str_eq(list.names[i], want[i]);
    ck_assert_str_eq(list.folder, dir);
    cadre_record_list_fini(&list);
}
END_TEST

START_TEST(takes_one_record)
{
    for (int i = 0; i < 2; i++) {
        struct cadre_record_list list = {0};
        char path[1200];
        snprintf(path, sizeof path, i ? "%s/p2/x.hea" : "%s/p2/x", dir);
        ck_assert_int_eq(cadre_record_list_init(path, &list, NULL), CADRE_OK);
        ck_assert_uint_eq(list.count, 1);
        ck_assert_str_eq(list.names[0], "x");
        ck_assert_ptr_nonnull(strstr(list.folder, "/p2"));
        cadre_record_list_fini(&list);
    }
}
END_TEST

START_TEST(refuses_what_is_not_there)
{
    struct cadre_record_list list = {0};
    struct cadre_error err = {0};
    char path[1200];
    ck_assert_int_eq(cadre_record_list_init("/nowhere/at/all", &list, &err),
                     CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "/nowhere/at/all"), "%s", err.text);
    ck_assert_int_eq(cadre_record_list_init("nowhere", &list, &err), CADRE_E_INVALID);
    make_folder("empty");
    snprintf(path, sizeof path, "%s/empty", dir);
    ck_assert_int_eq(cadre_record_list_init(path, &list, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "no .hea"), "%s", err.text);
    char deep[600] = "deep";
    for (int i = 0; i < 20; i++) {
        make_folder(deep);
        memcpy(deep + strlen(deep), "/deep", sizeof "/deep");
    }
    ck_assert_int_eq(cadre_record_list_init(dir, &list, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "at most 16 folders"), "%s", err.text);
    ck_assert_ptr_null(list.names);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("record_list");
    TCase *tc = tcase_create("record_list");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, walks_in_order);
    tcase_add_test(tc, takes_one_record);
    tcase_add_test(tc, refuses_what_is_not_there);
    suite_add_tcase(suite, tc);
    return suite;
}
