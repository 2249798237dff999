/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/outdir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/config/options.h"
#include "tests/support/check_main.h"

static char folder[] = "/tmp/cadre-outdir-XXXXXX";

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(mkdir("out", 0700), 0);
}

static void teardown(void)
{
    ck_assert_int_eq(chdir("/tmp"), 0);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

START_TEST(new_and_empty_folders_are_fine)
{
    ck_assert_int_eq(cadre_outdir_check("none", CADRE_OUTDIR_RUN, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_RUN, NULL), CADRE_OK);
    put("out/.hidden", "");
    put("out/job.out", "a batch system's");
    put("out/job.log", "");
    ck_assert_int_eq(mkdir("out/logs", 0700), 0);
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_RUN, NULL), CADRE_OK);
}
END_TEST

START_TEST(files_of_others_are_not_mixed_with_a_run)
{
    struct cadre_error err = {0};
    put("out/Makefile", "all:");
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_RUN, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "'out' holds other files ('Makefile')"));
    ck_assert_int_eq(unlink("out/Makefile"), 0);
    ck_assert_int_eq(mkdir("out/runs", 0700), 0);
    put("out/runs/x", "");
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_RUN, NULL),
                     CADRE_E_INVALID);
}
END_TEST

START_TEST(a_run_may_have_other_files_beside_it)
{
    put("out/notes.md", "");
    put("out/metrics.jsonl", "");
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_RUN, NULL), CADRE_OK);
}
END_TEST

START_TEST(a_run_and_a_comparison_are_not_mixed)
{
    struct cadre_error err = {0};
    put("out/comparison.ini", "");
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_COMPARISON, NULL),
                     CADRE_OK);
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_RUN, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "holds a comparison (comparison.ini)"));
    put("out/summary.json", "{}"); /* both, as an earlier version allowed */
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_RUN, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_COMPARISON, NULL),
                     CADRE_OK);
    ck_assert_int_eq(unlink("out/comparison.ini"), 0);
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_RUN, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_COMPARISON, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "holds a run (summary.json)"));
}
END_TEST

START_TEST(a_config_of_others_is_not_replaced)
{
    struct cadre_error err = {0};
    put("out/config.ini", "[core]\nx = 1\n");
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_RUN, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "out/config.ini"));
    put("out/config.ini", CADRE_OPTIONS_HEAD " More.\n[run]\n");
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_RUN, NULL), CADRE_OK);
}
END_TEST

START_TEST(a_report_goes_where_one_is_or_nothing)
{
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_REPORT, NULL), CADRE_OK);
    put("out/thesis.tex", "");
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_REPORT, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "'out' holds other files ('thesis.tex')"));
    ck_assert_ptr_nonnull(strstr(err.text, "such as 'out/report'"));
    put("out/run.html", "");
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_REPORT, NULL), CADRE_OK);
    put("out/metrics.jsonl", "");
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_REPORT, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "holds a run (metrics.jsonl)"));
    ck_assert_ptr_nonnull(strstr(err.text, "this is a report"));
    put("out/report.json", "");
    ck_assert_int_eq(cadre_outdir_check("out", CADRE_OUTDIR_REPORT, NULL), CADRE_OK);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("outdir");
    TCase *tc = tcase_create("outdir");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, new_and_empty_folders_are_fine);
    tcase_add_test(tc, files_of_others_are_not_mixed_with_a_run);
    tcase_add_test(tc, a_run_may_have_other_files_beside_it);
    tcase_add_test(tc, a_run_and_a_comparison_are_not_mixed);
    tcase_add_test(tc, a_report_goes_where_one_is_or_nothing);
    tcase_add_test(tc, a_config_of_others_is_not_replaced);
    suite_add_tcase(s, tc);
    return s;
}
