/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plugin/trust.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/plugin/plugin.h"
#include "tests/plugin/plugin_fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_error err;

static void setup(void)
{
    char *made = test_tmpdir();
    dir = realpath(made, NULL);
    ck_assert_ptr_nonnull(dir);
    free(made);
    memset(&err, 0, sizeof err);
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

static const char *fault(mode_t mode, uid_t owner)
{
    const struct cadre_trusted who = {.user = 1000, .owner = 1001};
    const struct stat st = {.st_mode = mode, .st_uid = owner};
    return cadre_trust_fault(&st, &who);
}

START_TEST(owners)
{
    ck_assert_str_eq(fault(S_IFREG | 0644, 0), "");
    ck_assert_str_eq(fault(S_IFREG | 0644, 1000), "");
    ck_assert_str_eq(fault(S_IFREG | 0644, 1001), "");
    ck_assert_ptr_nonnull(strstr(fault(S_IFREG | 0644, 1002), "another user"));
    ck_assert_ptr_nonnull(strstr(fault(S_IFDIR | 0755, 1002), "another user"));
    ck_assert_ptr_nonnull(strstr(fault(S_IFDIR | S_ISVTX | 0777, 1002), "another"));
}
END_TEST

START_TEST(modes)
{
    ck_assert_ptr_nonnull(strstr(fault(S_IFREG | 0646, 1000), "chmod o-w"));
    ck_assert_ptr_nonnull(strstr(fault(S_IFDIR | 0777, 0), "chmod o-w"));
    ck_assert_str_eq(fault(S_IFDIR | S_ISVTX | 0777, 0), "");
    /* the sticky bit of a file protects nothing */
    ck_assert_ptr_nonnull(strstr(fault(S_IFREG | S_ISVTX | 0646, 0), "chmod o-w"));
    ck_assert_str_eq(fault(S_IFREG | 0664, 1000), "");
}
END_TEST

/* rc is a refusal that names `part`. */
static void refused(const char *path, const char *part)
{
    char want[4096];
    snprintf(want, sizeof want, "'%s' can be written by every user", part);
    test_refused(cadre_trust_check(path, &err), &err, want);
    memset(&err, 0, sizeof err);
}

START_TEST(every_folder_above)
{
    char *folder = cadre_format("%s/a", dir), *inner = cadre_format("%s/a/b", dir);
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    ck_assert_int_eq(mkdir(inner, 0755), 0);
    const char *path = test_copy_sample(inner, "sample.so");
    ck_assert_int_eq(chmod(path, 0644), 0);
    ck_assert_int_eq(cadre_trust_check(path, &err), CADRE_OK);
    ck_assert_int_eq(chmod(path, 0646), 0);
    refused(path, path);
    ck_assert_int_eq(chmod(path, 0644), 0);
    ck_assert_int_eq(chmod(folder, 0777), 0);
    refused(path, folder);
    ck_assert_int_eq(chmod(folder, 01777), 0);
    ck_assert_int_eq(cadre_trust_check(path, &err), CADRE_OK);
    free(folder);
    free(inner);
}
END_TEST

START_TEST(loading_asks)
{
    const struct cadre_plugin_handle *handle = NULL;
    const char *path = test_copy_sample(dir, "sample.so");
    ck_assert_int_eq(chmod(path, 0666), 0);
    test_refused(cadre_plugin_load(path, NULL, &handle, &err), &err, "chmod o-w");
    ck_assert_ptr_null(handle);
    ck_assert_int_eq(chmod(path, 0644), 0);
    memset(&err, 0, sizeof err);
    ck_assert_msg(cadre_plugin_load(path, NULL, &handle, &err) == CADRE_OK, "%s",
                  err.text);
}
END_TEST

START_TEST(what_cannot_be_checked)
{
    char *gone = cadre_format("%s/gone.so", dir);
    test_refused(cadre_trust_check("relative.so", &err), &err, "absolute path");
    memset(&err, 0, sizeof err);
    test_refused(cadre_trust_check(gone, &err), &err, "cannot see who owns");
    free(gone);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("trust");
    TCase *tc = tcase_create("trust");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, owners);
    tcase_add_test(tc, modes);
    tcase_add_test(tc, every_folder_above);
    tcase_add_test(tc, loading_asks);
    tcase_add_test(tc, what_cannot_be_checked);
    suite_add_tcase(suite, tc);
    return suite;
}
