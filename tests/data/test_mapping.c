/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/data/cache/mapping.h"
#include "tests/support/check_main.h"

START_TEST(reads_and_maps)
{
    char *dir = test_tmpdir(), path[1200];
    char *text = NULL;
    size_t size = 0;
    struct cadre_mapping map = {0};
    struct cadre_error err = {0};
    snprintf(path, sizeof path, "%s/f", dir);
    test_file_write(path, "abc", 3);
    ck_assert_int_eq(cadre_mapping_read(path, 3, &text, &size, &err), CADRE_OK);
    ck_assert_uint_eq(size, 3);
    ck_assert_str_eq(text, "abc");
    free(text);
    ck_assert_int_eq(cadre_mapping_read(path, 2, &text, &size, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "at most 2 bytes, found 3"), "%s", err.text);
    ck_assert_int_eq(cadre_mapping_init(path, &map, &err), CADRE_OK);
    ck_assert_uint_eq(map.size, 3);
    ck_assert_mem_eq(map.bytes, "abc", 3);
    ck_assert(map.mtime_ns > 0);
    cadre_mapping_fini(&map);
    cadre_mapping_fini(&map);
    test_file_write(path, "", 0);
    ck_assert_int_eq(cadre_mapping_init(path, &map, &err), CADRE_OK);
    ck_assert(map.size == 0 && map.bytes == NULL);
    cadre_mapping_fini(&map);
    test_tmpdir_destroy(dir);
}
END_TEST

START_TEST(refuses_what_is_no_file)
{
    char *dir = test_tmpdir(), path[1200];
    char *text = NULL;
    size_t size = 0;
    struct cadre_mapping map = {0};
    struct cadre_error err = {0};
    snprintf(path, sizeof path, "%s/pipe", dir);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(cadre_mapping_init(path, &map, &err), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_mapping_read(path, 9, &text, &size, &err), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_mapping_init(dir, &map, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "folder"), "%s", err.text);
    snprintf(path, sizeof path, "%s/none", dir);
    ck_assert_int_eq(cadre_mapping_init(path, &map, &err), CADRE_E_IO);
    ck_assert_int_eq(cadre_mapping_read(path, 9, &text, &size, NULL), CADRE_E_IO);
    test_tmpdir_destroy(dir);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("mapping");
    TCase *tc = tcase_create("file");
    tcase_add_test(tc, reads_and_maps);
    tcase_add_test(tc, refuses_what_is_no_file);
    suite_add_tcase(suite, tc);
    return suite;
}
