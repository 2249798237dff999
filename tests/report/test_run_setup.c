/* SPDX-License-Identifier: Apache-2.0 */
/* The rest of what it tells is on the pages: test_run_page, test_runs. */
#include "core/report/run_setup.h"

#include <string.h>

#include "tests/report/report_fixture.h"
#include "tests/support/check_main.h"

static struct cadre_run_data data;
static struct cadre_run_setup run;
static char *dir;

static void setup(void)
{
    dir = test_tmpdir();
    memset(&data, 0, sizeof data);
}

static void teardown(void)
{
    cadre_run_data_fini(&data);
    test_tmpdir_destroy(dir);
}

static void fill(const struct report_run *made)
{
    struct cadre_error err = {0};
    const cadre_status rc = cadre_run_data_read(report_run(dir, made), &data, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    cadre_run_setup_fill(&data, &run);
}

START_TEST(values_by_name)
{
    fill(&(const struct report_run){.name = "one", .loss = 2});
    ck_assert_str_eq(cadre_run_setup_value(&run, "strategy"), "ddp:2");
    ck_assert_str_eq(cadre_run_setup_value(&run, "ranks"), "2");
    ck_assert_str_eq(cadre_run_setup_value(&run, "MFU"), "25 %");
    ck_assert_str_eq(cadre_run_setup_value(&run, "energy"),
                     "0.5 J/token, 8 J a step, package-0; idle power 12 W, included");
    ck_assert_str_eq(cadre_run_setup_value(&run, "failure"), "");
    ck_assert_str_eq(cadre_run_setup_value(&run, "no such thing"), "");
}
END_TEST

START_TEST(what_is_not_known_is_empty)
{
    fill(&(const struct report_run){.name = "one", .loss = 2, .no_summary = true});
    ck_assert_str_eq(cadre_run_setup_value(&run, "parameters"), "");
    ck_assert_str_eq(cadre_run_setup_value(&run, "MFU"), "");
    ck_assert_str_eq(cadre_run_setup_value(&run, "strategy"), "ddp:2");
}
END_TEST

START_TEST(more_than_it_holds_is_left_out)
{
    run.n = 0;
    for (int i = 0; i < CADRE_RUN_SETUP_ITEMS + 5; i++)
        cadre_run_setup_add(&run, i ? "other" : "first", "x");
    ck_assert_uint_eq(run.n, CADRE_RUN_SETUP_ITEMS);
    ck_assert_str_eq(cadre_run_setup_value(&run, "first"), "x");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("run_setup");
    TCase *tc = tcase_create("run_setup");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, values_by_name);
    tcase_add_test(tc, what_is_not_known_is_empty);
    tcase_add_test(tc, more_than_it_holds_is_left_out);
    suite_add_tcase(s, tc);
    return s;
}
