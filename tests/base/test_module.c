/* SPDX-License-Identifier: Apache-2.0 */
/* Opening run-time modules. The test writes the defective ones: a file that is not a
 * library, and the tests' own plugin, which has no module entry. */
#include "core/base/module.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "tests/support/check_main.h"

static struct cadre_error expect_refusal(const char *name)
{
    struct cadre_error err = {0};
    const void *table = NULL;
    ck_assert_int_eq(cadre_module_open(name, "device", 24, &table, &err),
                     CADRE_E_UNSUPPORTED);
    ck_assert_ptr_null(table);
    return err;
}

START_TEST(absent)
{
    setenv("CADRE_MODULE_PATH", "/nowhere/a::/nowhere/b", 1);
    struct cadre_error err = expect_refusal("no_such_module");
    ck_assert_ptr_nonnull(strstr(err.text, "no_such_module.so"));
    ck_assert_ptr_nonnull(strstr(err.text, "/nowhere/a, /nowhere/b"));
    ck_assert_ptr_nonnull(strstr(err.text, "modules-0"));
}
END_TEST

START_TEST(no_library)
{
    char *dir = test_tmpdir();
    struct cadre_error err;
    char *path = cadre_path_join(dir, "text.so");
    ck_assert_int_eq(cadre_path_write_file(path, "text\n", 5, &err), CADRE_OK);
    setenv("CADRE_MODULE_PATH", dir, 1);
    err = expect_refusal("text");
    ck_assert_ptr_nonnull(strstr(err.text, "cannot be opened"));
    ck_assert_ptr_nonnull(strstr(err.text, path));
    test_tmpdir_destroy(dir);
    free(path);
}
END_TEST

/* The stand-in is a module of this build; a caller that expects another table gets an
 * error. */
START_TEST(another_table)
{
    const char *build = getenv("CADRE_BUILD");
    char *dir = cadre_format("%s/tests/support/cuda_host/.libs", build ? build : ".");
    char *path = cadre_path_join(dir, "device_cuda.so");
    setenv("CADRE_MODULE_PATH", dir, 1);
    if (!cadre_path_exists(path)) {
        test_note_skip("no stand-in (no C++ compiler)");
    } else {
        struct cadre_error err = {0};
        const void *table = NULL;
        ck_assert_int_eq(cadre_module_open("device_cuda", "comm", 24, &table, &err),
                         CADRE_E_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(err.text, "another build"));
        ck_assert_ptr_nonnull(strstr(err.text, "comm"));
        ck_assert_int_eq(cadre_module_open("device_cuda", "device", 7, &table, &err),
                         CADRE_E_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(err.text, "7 bytes"));
    }
    free(path);
    free(dir);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("module");
    TCase *tc = tcase_create("module");
    tcase_add_test(tc, absent);
    tcase_add_test(tc, no_library);
    tcase_add_test(tc, another_table);
    suite_add_tcase(s, tc);
    return s;
}
