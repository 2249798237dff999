/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/run_data.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/report/report_fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_run_data data;
static struct cadre_error err;
static char text[256];

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    cadre_run_data_fini(&data);
    test_tmpdir_destroy(dir);
}

static void read_run(const struct report_run *run)
{
    cadre_status rc = cadre_run_data_read(report_run(dir, run), &data, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

START_TEST(a_finished_run_is_read)
{
    const struct report_run run = {.name = "one", .loss = 2};
    read_run(&run);
    ck_assert_str_eq(data.name, "one");
    ck_assert_uint_eq(data.steps, 6);
    ck_assert(data.loss[5] == 2 + 1.0 / 6 && data.loss_step[5] == 6);
    ck_assert(data.first_step == 1 && data.last_step == 6 && data.wanted == 6);
    /* four steps of 0.1 s after two of warm-up */
    ck_assert(data.step_s.n == 4 && data.step_s.median == 0.1);
    ck_assert(data.step_s.low == 0.1 && data.step_s.high == 0.1);
    ck_assert(data.parts.known &&
              fabs(data.parts.part[CADRE_PART_COMPUTE] - 0.05) < 1e-9);
    ck_assert(data.parts.exposed.n == 1 &&
              fabs(data.parts.exposed.of[0].s - 0.01) < 1e-9);
    ck_assert(fabs(data.parts_step_s - 0.1) < 1e-9);
    ck_assert(data.best_valid == 2 + 1.0 / 6 + 0.5 && data.best_valid_step == 6);
    ck_assert_str_eq(cadre_run_data_option(&data, "strategy.stack"), "ddp:2");
    ck_assert_ptr_null(cadre_run_data_option(&data, "strategy.stac"));
    ck_assert(cadre_run_data_number(&data, "ranks") == 2);
    ck_assert(cadre_run_data_largest(&data, "peak_bytes") == 2097152);
    ck_assert(isnan(cadre_run_data_number(&data, "none")));
    ck_assert(cadre_run_data_finished(&data));
    ck_assert_str_eq(cadre_run_data_state(&data, text, sizeof text), "finished");
    ck_assert_str_eq(cadre_run_data_machine(&data, text, sizeof text),
                     "here: A CPU, 2 cores");
}
END_TEST

START_TEST(states_of_others_are_told)
{
    const struct report_run killed = {.name = "killed", .steps = 4, .no_summary = true};
    const struct report_run stopped = {.name = "stopped", .steps = 5};
    static const char begun[] = "{\"ranks\": 2, \"params\": 77}";
    char made[512];
    read_run(&killed);
    ck_assert(!cadre_run_data_finished(&data));
    ck_assert_str_eq(cadre_run_data_state(&data, text, sizeof text),
                     "unfinished: 4 of 6 steps");
    ck_assert_str_eq(cadre_run_data_machine(&data, text, sizeof text), "-");
    ck_assert_str_eq(data.name, "killed"); /* the folder's */
    ck_assert(isnan(cadre_run_data_number(&data, "ranks")));
    snprintf(made, sizeof made, "%s", data.dir);
    cadre_run_data_fini(&data);
    /* what it was is known from its start */
    test_file_put(made, "setup.json", begun, sizeof begun - 1);
    ck_assert_int_eq(cadre_run_data_read(made, &data, NULL), CADRE_OK);
    ck_assert(cadre_run_data_number(&data, "ranks") == 2);
    ck_assert(cadre_run_data_number(&data, "params") == 77);
    cadre_run_data_fini(&data);
    read_run(&stopped);
    ck_assert_str_eq(cadre_run_data_state(&data, text, sizeof text),
                     "stopped after step 5 of 6");
}
END_TEST

START_TEST(files_of_other_versions_are_read)
{
    const struct report_run run = {.name = "old", .old = true};
    const char *path = report_run(dir, &run);
    test_file_put(path, "metrics.jsonl",
                  "{\"step\": 1, \"loss\": null, \"new\": [1]}\n{\"step\": 2, \"lo",
                  40);
    ck_assert_int_eq(cadre_run_data_read(path, &data, &err), CADRE_OK);
    ck_assert(data.steps == 1 && data.not_finite == 1 && data.unread == 1);
    ck_assert(isnan(data.step_s.median) && isnan(data.best_valid));
    ck_assert(!data.parts.known);
}
END_TEST

START_TEST(a_benchmark_has_windows)
{
    const struct report_run run = {.name = "bench", .config = "[bench]\nsteps = 10\n"};
    const char *path = report_run(dir, &run);
    const char bench[] =
        "{\"warmup\": 2, \"steps\": 10, \"tokens\": 64, \"start_s\": 1, \"reached\": "
        "true, \"target_step\": 0, \"windows\": [{\"seconds\": 1, \"bubble_fraction\": "
        "null, \"comm_exposed_s\": 0}, {\"seconds\": 3, \"bubble_fraction\": null, "
        "\"comm_exposed_s\": 0}]}";
    ck_assert_int_eq(cadre_run_data_read(path, &data, &err), CADRE_OK);
    ck_assert_str_eq(cadre_run_data_state(&data, text, sizeof text),
                     "unfinished benchmark, no bench.json");
    cadre_run_data_fini(&data);
    test_file_put(path, "bench.json", bench, strlen(bench));
    ck_assert_int_eq(cadre_run_data_read(path, &data, &err), CADRE_OK);
    ck_assert_str_eq(cadre_run_data_state(&data, text, sizeof text), "benchmark");
    ck_assert(data.step_s.n == 2 && fabs(data.step_s.median - 0.2) < 1e-12);
    ck_assert(fabs(data.step_s.low - 0.15) < 1e-12);
}
END_TEST

START_TEST(other_folders_are_refused)
{
    const struct report_run run = {.name = "bad"};
    ck_assert_int_eq(cadre_run_data_read(dir, &data, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "is no run: expected a folder with"));
    const char *path = report_run(dir, &run);
    test_file_put(path, "summary.json", "[1]", 3);
    ck_assert_int_eq(cadre_run_data_read(path, &data, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "summary.json' holds no JSON object"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("run_data");
    TCase *tc = tcase_create("run_data");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_finished_run_is_read);
    tcase_add_test(tc, states_of_others_are_told);
    tcase_add_test(tc, files_of_other_versions_are_read);
    tcase_add_test(tc, a_benchmark_has_windows);
    tcase_add_test(tc, other_folders_are_refused);
    suite_add_tcase(s, tc);
    return s;
}
