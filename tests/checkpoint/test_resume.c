/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/checkpoint/resume.h"
#include "tests/checkpoint/format/save.h"
#include "tests/support/check_main.h"

static char *run;
static char root[1200];
static struct cadre_error err;
static char *found;
static int64_t step;

static void setup(void)
{
    run = test_tmpdir();
    snprintf(root, sizeof root, "%s/checkpoints", run);
    found = NULL;
    step = -1;
}

static void teardown(void)
{
    free(found);
    test_tmpdir_destroy(run);
}

static void save(uint64_t number)
{
    cadre_status rc = save_checkpoint(root, number, 1, 1000, 0, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

static void finds(const char *resume, const char *name, int64_t steps)
{
    free(found);
    cadre_status rc = cadre_resume_find(resume, run, &found, &step, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_int_eq(step, steps);
    if (name)
        ck_assert_ptr_nonnull(strstr(found, name));
    else
        ck_assert_ptr_null(found);
}

START_TEST(what_is_asked_for_is_found)
{
    char path[1300];
    finds("auto", NULL, 0);
    save(3);
    save(5);
    finds("no", NULL, 0);
    finds("auto", "step-00000005", 5);
    snprintf(path, sizeof path, "%s/step-00000003", root);
    finds(path, "step-00000003", 3);
}
END_TEST

START_TEST(a_newest_that_is_damaged_is_passed_over)
{
    char path[1300];
    save(3);
    save(5);
    snprintf(path, sizeof path, "%s/step-00000005/state.json", root);
    ck_assert_int_eq(truncate(path, 100), 0);
    finds("auto", "step-00000003", 3);
}
END_TEST

START_TEST(what_is_no_checkpoint_is_refused)
{
    found = NULL;
    ck_assert_int_eq(cadre_resume_find("/nonexistent", run, &found, &step, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_null(found);
    ck_assert_ptr_nonnull(strstr(err.text, "checkpoint.resume: there is no folder"));
    ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent"));
    ck_assert_int_eq(cadre_resume_find(run, run, &found, &step, &err), CADRE_E_INVALID);
    ck_assert_ptr_null(found);
    ck_assert_ptr_nonnull(strstr(err.text, "checkpoint.resume"));
    ck_assert_ptr_nonnull(strstr(err.text, "state.json"));
}
END_TEST

START_TEST(two_histories_in_one_folder_are_refused)
{
    ck_assert_int_eq(cadre_resume_refuse_older(run, run, 0, &err), CADRE_OK);
    save(5);
    ck_assert_int_eq(cadre_resume_refuse_older(run, run, 5, &err), CADRE_OK);
    ck_assert_int_eq(cadre_resume_refuse_older(run, run, 3, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "step-00000005"));
    ck_assert_ptr_nonnull(strstr(err.text, "later than the 3 steps"));
    ck_assert_int_eq(cadre_resume_refuse_older("auto", run, 3, &err), CADRE_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "can be read now"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("resume");
    TCase *tc = tcase_create("resume");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, what_is_asked_for_is_found);
    tcase_add_test(tc, a_newest_that_is_damaged_is_passed_over);
    tcase_add_test(tc, what_is_no_checkpoint_is_refused);
    tcase_add_test(tc, two_histories_in_one_folder_are_refused);
    suite_add_tcase(s, tc);
    return s;
}
