/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/launch/secret.h"
#include "tests/support/check_main.h"

static char folder[64];
static struct cadre_error err;

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/cadre-secret-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

START_TEST(the_variable_needs_no_file)
{
    struct cadre_secret a, b, c;
    const char *why;
    cadre_secret_init(&a, "0123456789abcdef", "/nowhere", "job", &err);
    cadre_secret_init(&b, "0123456789abcdef", "/elsewhere", "another", &err);
    cadre_secret_init(&c, "0123456789abcdeg", "/nowhere", "job", &err);
    ck_assert(cadre_sha256_equal(a.key, b.key));
    ck_assert(!cadre_sha256_equal(a.key, c.key));
    ck_assert_int_eq(cadre_secret_make(&a, &err), CADRE_OK);
    ck_assert(cadre_secret_look(&b, &why));
    cadre_secret_fini(&a);
    ck_assert_int_eq(cadre_secret_init(&a, "0123456789abcde", "/", "job", &err),
                     CADRE_E_INVALID);
    ck_assert_str_eq(err.text, "CADRE_SECRET has 15 characters; expected 16 or more, "
                               "the same on all ranks");
}
END_TEST

/* Rank 0 makes the file, and the folder; the others read it; it goes with rank 0. */
START_TEST(rank_0_makes_a_file_that_only_its_owner_reads)
{
    struct cadre_secret zero, one, other;
    struct stat st;
    char dir[128];
    const char *why;
    make_folder();
    snprintf(dir, sizeof dir, "%s/run", folder);
    ck_assert_int_eq(cadre_secret_init(&zero, "", dir, "job", &err), CADRE_OK);
    ck_assert_int_eq(cadre_secret_init(&one, NULL, dir, "job", &err), CADRE_OK);
    ck_assert_int_eq(cadre_secret_init(&other, NULL, dir, "another", &err), CADRE_OK);
    ck_assert(!cadre_secret_look(&one, &why));
    ck_assert_str_eq(why, "is not there");
    ck_assert_int_eq(cadre_secret_make(&zero, &err), CADRE_OK);
    ck_assert_int_eq(cadre_secret_make(&zero, &err), CADRE_OK);
    ck_assert_int_eq(stat(zero.path, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0600);
    ck_assert(cadre_secret_look(&one, &why));
    ck_assert(cadre_sha256_equal(zero.key, one.key));
    ck_assert(!cadre_secret_look(&other, &why)); /* of another job in this folder */
    cadre_secret_fini(&one);
    ck_assert_int_eq(access(zero.path, F_OK), 0);
    cadre_secret_fini(&zero);
    ck_assert_int_ne(access(dir, F_OK), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

START_TEST(what_others_can_read_or_make_is_not_believed)
{
    struct cadre_secret zero, one;
    const char *why;
    make_folder();
    ck_assert_int_eq(cadre_secret_init(&zero, NULL, folder, "job", &err), CADRE_OK);
    one = zero;
    ck_assert_int_eq(cadre_secret_make(&zero, &err), CADRE_OK);
    ck_assert_int_eq(chmod(zero.path, 0640), 0);
    ck_assert(!cadre_secret_look(&one, &why));
    ck_assert_str_eq(why, "can be read by others");
    ck_assert_int_eq(chmod(zero.path, 0600), 0);
    ck_assert_int_eq(truncate(zero.path, 31), 0);
    ck_assert(!cadre_secret_look(&one, &why));
    ck_assert_str_eq(why, "is not whole");
    ck_assert_int_eq(unlink(zero.path), 0);
    ck_assert_int_eq(mkfifo(zero.path, 0600), 0);
    ck_assert(!cadre_secret_look(&one, &why)); /* and is not waited for */
    ck_assert_str_eq(why, "is not this user's file");
    ck_assert_int_eq(unlink(zero.path), 0);
    ck_assert_int_eq(symlink("/etc/passwd", zero.path), 0);
    ck_assert(!cadre_secret_look(&one, &why));
    cadre_secret_fini(&zero);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

START_TEST(a_folder_that_cannot_be_made_is_told)
{
    struct cadre_secret zero;
    static char far[5000];
    ck_assert_int_eq(cadre_secret_init(&zero, NULL, "/dev/null/run", "job", &err),
                     CADRE_OK);
    ck_assert_int_eq(cadre_secret_make(&zero, &err), CADRE_E_IO);
    memset(far, 'a', sizeof far - 1);
    ck_assert_int_eq(cadre_secret_init(&zero, NULL, far, "job", &err), CADRE_E_INVALID);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("launch/secret");
    TCase *t = tcase_create("secret");
    tcase_add_test(t, the_variable_needs_no_file);
    tcase_add_test(t, rank_0_makes_a_file_that_only_its_owner_reads);
    tcase_add_test(t, what_others_can_read_or_make_is_not_believed);
    tcase_add_test(t, a_folder_that_cannot_be_made_is_told);
    suite_add_tcase(s, t);
    return s;
}
