/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/passes_file.h"

#include <stdlib.h>
#include <string.h>

#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_replay schedule;
static struct cadre_error err;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    cadre_replay_fini(&schedule);
    test_tmpdir_destroy(dir);
}

START_TEST(no_file_is_no_schedule)
{
    ck_assert_int_eq(cadre_passes_read(dir, &schedule, &err), CADRE_OK);
    ck_assert_uint_eq(schedule.n, 0);
}
END_TEST

/* Two pipelines of two ranks that take turns: the first is read. */
START_TEST(the_first_pipeline_is_read)
{
    fixture_write(dir, "passes.json", FIXTURE_PASSES);
    ck_assert_int_eq(cadre_passes_read(dir, &schedule, &err), CADRE_OK);
    ck_assert_uint_eq(schedule.n, 2);
    ck_assert_int_eq(schedule.step, 9);
    ck_assert_int_eq(schedule.rank[1].rank, 2);
    ck_assert_uint_eq(schedule.rank[1].n_passes, 4);
    ck_assert_uint_eq(schedule.rank[1].chunk[0].begin, 2);
    ck_assert_double_eq(schedule.rank[1].chunk[0].seconds[CADRE_REPLAY_BACKWARD], 2);
    ck_assert_int_eq(schedule.rank[0].pass[2].kind, CADRE_REPLAY_BACKWARD);
    ck_assert_uint_eq(schedule.rank[0].pass[3].microbatch, 1);
    ck_assert_double_eq(schedule.rank[0].pass[3].end, 9.5);
    struct cadre_replay_result result;
    ck_assert_int_eq(cadre_replay_run(&schedule, CADRE_REPLAY_MEDIANS, &result, &err),
                     CADRE_OK);
    ck_assert_double_eq_tol(result.bubble_fraction, 1.0 / 3, 1e-12);
}
END_TEST

START_TEST(other_files_are_refused)
{
    static const char *const wrong[] = {
        "",
        "[]",
        "{}",
        "{\"ranks\": []}",
        "{\"ranks\": [{}]}",
        "{\"ranks\": [{\"group\": 0, \"chunks\": [], \"passes\": []}]}",
        "{\"ranks\": [{\"group\": 0, \"chunks\": [{}], \"passes\": []}]}"};
    static const char *const broken[][2] = {{"\"B\", 0, 1", "\"X\", 0, 1"},
                                            {"\"B\", 0, 1", "\"B\", -1, 1"},
                                            {"\"B\", 0, 1", "\"\", 0, 1"},
                                            {"\"B\", 0, 1", "\"B\", 0, 1.5"},
                                            {"\"begin\": 0", "\"begin\": -3"},
                                            {"\"forward_s\": 1", "\"forward_s\": null"},
                                            {"\"forward_s\": 1", "\"forward_s\": -1"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        fixture_write(dir, "passes.json", wrong[i]);
        ck_assert_int_eq(cadre_passes_read(dir, &schedule, &err), CADRE_E_INVALID);
        ck_assert_ptr_nonnull(strstr(err.text, "passes.json': expected chunks and"));
        ck_assert_uint_eq(schedule.n, 0);
    }
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char text[4096];
        const char *at = strstr(FIXTURE_PASSES, broken[i][0]);
        ck_assert_ptr_nonnull(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - FIXTURE_PASSES),
                 FIXTURE_PASSES, broken[i][1], at + strlen(broken[i][0]));
        fixture_write(dir, "passes.json", text);
        ck_assert_msg(cadre_passes_read(dir, &schedule, &err) == CADRE_E_INVALID, "%s",
                      broken[i][1]);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("passes_file");
    TCase *tc = tcase_create("passes_file");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, no_file_is_no_schedule);
    tcase_add_test(tc, the_first_pipeline_is_read);
    tcase_add_test(tc, other_files_are_refused);
    suite_add_tcase(s, tc);
    return s;
}
