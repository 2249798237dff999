/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/run/metrics.h"
#include "core/run/rundir.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;
static struct cadre_spec *spec;
static struct cadre_metrics *metrics;

static void setup(void)
{
    spec_fixture_open(&f);
    spec = spec_fixture_make(&f, "strategy.stack=ddp:2 compare.warmup=1");
    ck_assert_int_eq(cadre_rundir_prepare(spec, false, NULL, &f.err), CADRE_OK);
    ck_assert_int_eq(cadre_metrics_open(spec, &metrics, &f.err), CADRE_OK);
}

static void teardown(void)
{
    cadre_metrics_close(metrics);
    cadre_spec_destroy(spec);
    spec_fixture_close(&f);
}

static void put(int64_t step, double loss, double seconds, bool valid)
{
    const struct cadre_step_report report = {
        .loss = loss,
        .grad_norm = 1.0 / 3,
        .lr = 1e-3,
        .times = {.step_s = seconds,
                  .wait_data_s = 0.01,
                  .comm_s = 0.02,
                  .comm_exposed_s = 0.005,
                  .optim_s = 0.03,
                  .compute_s = 0.125,
                  .n_exposed = 2,
                  .exposed = {{"world", 0.001}, {"dp", 0.004}}}};
    const struct cadre_valid_result result = {.has = valid, .loss = 2.5, .targets = 7};
    cadre_status rc = cadre_metrics_step(metrics, step, &report, &result, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_number(value), "no number '%s'", key);
    return json_number_value(value);
}

START_TEST(a_line_a_step_with_every_field)
{
    static const char *const keys[] = {
        "step",         "tokens",         "loss",         "grad_norm",
        "lr",           "step_s",         "tokens_per_s", "wait_data_s",
        "comm_s",       "comm_exposed_s", "bubble_s",     "optim_s",
        "wait_ranks_s", "optim_wait_s",   "compute_s",    "time"};
    const double before = (double)time(NULL); /* in whole seconds, downwards */
    put(1, 0.1 + 0.2, 0.5, false);
    put(2, 3, 0.25, true);
    /* flushed: it is there while the run continues */
    char *text = spec_fixture_read(&f, "run/metrics.jsonl"), *save = NULL;
    int lines = 0;
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save), lines++) {
        json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        ck_assert_msg(object != NULL, "%s", line);
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            number(object, keys[i]);
        ck_assert_double_eq(
            number(json_object_get(object, "comm_exposed_axis_s"), "dp"), 0.004);
        ck_assert_double_eq(number(object, "step"), lines + 1);
        ck_assert_double_eq(number(object, "tokens"), (lines + 1) * 8 * 16);
        ck_assert_double_eq(number(object, "grad_norm"), 1.0 / 3);
        ck_assert_double_eq(number(object, "loss"), lines ? 3 : 0.1 + 0.2);
        ck_assert_double_eq(number(object, "tokens_per_s"), lines ? 512 : 256);
        ck_assert_int_eq(json_object_get(object, "valid_loss") != NULL, lines);
        ck_assert_double_ge(number(object, "time"), before);
        ck_assert_double_le(number(object, "time"), (double)time(NULL) + 1);
        json_decref(object);
    }
    ck_assert_int_eq(lines, 2);
    free(text);
}
END_TEST

static json_t *summary(bool valid)
{
    const double peaks[] = {1000, 2000};
    uint64_t bytes[] = {600, 1600, 400, 400};
    struct cadre_usage_row rows[] = {{"gradients", bytes}, {"loss", bytes + 2}};
    const struct cadre_usage usage = {.ranks = 2, .n = 2, .row = rows};
    const struct cadre_run_totals totals = {.peak_bytes = peaks,
                                            .usage = &usage,
                                            .comm_bytes = 12345,
                                            .between_bytes = 345,
                                            .nodes = 2,
                                            .params = 77,
                                            .device = "cpu",
                                            .tuning = {"lib 1", "0123"},
                                            .valid = {valid, 2.25, 0, 9, 3}};
    ck_assert_int_eq(cadre_metrics_summary(metrics, &totals, &f.err), CADRE_OK);
    char *text = spec_fixture_read(&f, "run/summary.json");
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(object != NULL, "%s", text);
    free(text);
    return object;
}

static double exposed_on(const json_t *object, const char *axis)
{
    return number(json_object_get(object, "comm_exposed_axis_s"), axis);
}

START_TEST(the_summary_has_every_field)
{
    put(1, 5, 9, false); /* warm-up */
    put(2, 4, 2, false);
    put(3, 3, 4, false);
    put(4, 2, 3, false);
    json_t *object = summary(true);
    const json_t *peaks = json_object_get(object, "peak_bytes");
    ck_assert_double_eq(number(object, "schema_version"), 1);
    ck_assert_ptr_nonnull(json_string_value(json_object_get(object, "build")));
    const char *end = json_string_value(json_object_get(object, "session_end"));
    ck_assert_int_ge(
        strcmp(end, json_string_value(json_object_get(object, "session_begin"))), 0);
    ck_assert_ptr_nonnull(json_string_value(json_object_get(object, "date")));
    ck_assert_double_ge(number(object, "session_s"), 0);
    ck_assert_double_eq(number(object, "session_steps"), 4);
    ck_assert_str_eq(json_string_value(json_object_get(object, "name")), "test");
    ck_assert_str_eq(json_string_value(json_object_get(object, "stack")), "ddp:2");
    ck_assert_str_eq(json_string_value(json_object_get(object, "device")), "cpu");
    ck_assert_double_eq(number(object, "ranks"), 2);
    ck_assert_double_eq(number(object, "first_step"), 1);
    ck_assert_double_eq(number(object, "steps"), 4);
    ck_assert_double_eq(number(object, "tokens"), 4 * 128);
    ck_assert_double_eq(number(object, "time_s"), 18);
    ck_assert_double_eq(number(object, "step_s_median"), 3);
    ck_assert_double_eq(number(object, "tokens_per_s"), 128.0 / 3);
    ck_assert_double_eq(number(object, "loss_first"), 5);
    ck_assert_double_eq(number(object, "loss_last"), 2);
    ck_assert_double_eq(number(object, "valid_loss"), 2.25);
    ck_assert_double_eq(number(object, "valid_samples"), 3);
    ck_assert_double_eq(number(object, "valid_samples_all"),
                        (double)spec->data_info.valid_samples);
    ck_assert_uint_eq(
        strlen(json_string_value(json_object_get(object, "data_fingerprint"))), 16);
    ck_assert_uint_eq(json_array_size(peaks), 2);
    ck_assert_int_eq(json_integer_value(json_array_get(peaks, 1)), 2000);
    const json_t *memory = json_object_get(object, "memory");
    const json_t *gradients = json_object_get(memory, "gradients");
    ck_assert_uint_eq(json_object_size(memory), 2);
    ck_assert_uint_eq(json_array_size(gradients), 2);
    ck_assert_int_eq(json_integer_value(json_array_get(gradients, 1)), 1600);
    ck_assert_double_eq(number(object, "comm_bytes"), 12345);
    ck_assert_double_eq(number(object, "comm_between_bytes"), 345);
    ck_assert_double_eq(number(object, "nodes"), 2);
    ck_assert(json_is_false(json_object_get(object, "simulated_nodes")));
    ck_assert_double_eq_tol(number(object, "comm_exposed_s"), 4 * 0.005, 1e-15);
    ck_assert_double_eq_tol(exposed_on(object, "dp"), 4 * 0.004, 1e-15);
    ck_assert_double_eq_tol(exposed_on(object, "world"), 4 * 0.001, 1e-15);
    ck_assert_double_eq(number(object, "train_samples_all"),
                        (double)spec->data_info.train_samples);
    ck_assert_double_eq(number(object, "bubble_fraction"), 0);
    ck_assert_double_eq(number(object, "params"), 77);
    const json_t *gemm = json_object_get(object, "gemm");
    ck_assert_str_eq(json_string_value(json_object_get(gemm, "library")), "lib 1");
    ck_assert_str_eq(json_string_value(json_object_get(gemm, "algorithms")), "0123");
    json_decref(object);
}
END_TEST

START_TEST(few_steps_have_a_median_too)
{
    if (_i > 0)
        put(1, 5, 9, false);
    if (_i > 1)
        put(2, 5, 4, false);
    json_t *object = summary(false);
    ck_assert_double_eq(number(object, "step_s_median"), _i == 0 ? 0 : _i == 1 ? 9 : 4);
    ck_assert_ptr_null(json_object_get(object, "valid_loss"));
    json_decref(object);
}
END_TEST

START_TEST(many_steps)
{
    for (int i = 1; i <= 1000; i++)
        put(i, 1, i, false);
    json_t *object = summary(false);
    ck_assert_double_eq(number(object, "step_s_median"), 501); /* of 2 to 1000 */
    json_decref(object);
}
END_TEST

START_TEST(appends_after_a_resume)
{
    put(1, 5, 1, false);
    cadre_metrics_close(metrics);
    ck_assert_int_eq(cadre_metrics_open(spec, &metrics, &f.err), CADRE_OK);
    put(2, 5, 1, false);
    char *text = spec_fixture_read(&f, "run/metrics.jsonl");
    ck_assert_ptr_nonnull(strstr(text, "{\"step\": 1,"));
    ck_assert_ptr_nonnull(strstr(text, "\n{\"step\": 2,"));
    free(text);
}
END_TEST

/* The next process of the same run. */
static void again(void)
{
    cadre_metrics_close(metrics);
    ck_assert_int_eq(cadre_metrics_open(spec, &metrics, &f.err), CADRE_OK);
}

START_TEST(the_summary_of_a_resumed_run_is_of_all_its_steps)
{
    put(1, 5, 9, false);
    put(2, 4, 2, false);
    json_decref(summary(false));
    again();
    put(3, 3, 4, false);
    put(4, 2, 3, false);
    json_t *object = summary(true);
    ck_assert_double_eq(number(object, "first_step"), 1);
    ck_assert_double_eq(number(object, "steps"), 4);
    ck_assert_double_eq(number(object, "tokens"), 4 * 128);
    ck_assert_double_eq(number(object, "time_s"), 18);
    ck_assert_double_eq(number(object, "step_s_median"), 3);
    ck_assert_double_eq(number(object, "loss_first"), 5);
    ck_assert_double_eq(number(object, "loss_last"), 2);
    ck_assert_double_eq(number(object, "session_steps"), 2);
    ck_assert_double_eq(number(object, "comm_bytes"), 2 * 12345);
    ck_assert_double_eq(number(object, "comm_between_bytes"), 2 * 345);
    ck_assert_double_eq_tol(number(object, "comm_exposed_s"), 4 * 0.005, 1e-15);
    ck_assert_double_eq_tol(exposed_on(object, "dp"), 4 * 0.004, 1e-15);
    json_decref(object);
}
END_TEST

START_TEST(bytes_that_a_lost_process_counted_are_unknown)
{
    put(1, 5, 9, false);
    json_decref(summary(false));
    put(2, 4, 2, false); /* after the summary, as of a process that was killed */
    again();
    put(3, 3, 4, false);
    json_t *object = summary(false);
    ck_assert_double_eq(number(object, "steps"), 3);
    ck_assert(json_is_null(json_object_get(object, "comm_bytes")));
    ck_assert(json_is_null(json_object_get(object, "comm_between_bytes")));
    json_decref(object);
}
END_TEST

START_TEST(a_run_that_continues_another_folder_counts_its_own_steps)
{
    put(7, 5, 9, false);
    put(8, 4, 2, false);
    json_t *object = summary(false);
    ck_assert_double_eq(number(object, "first_step"), 7);
    ck_assert_double_eq(number(object, "steps"), 2);
    ck_assert_double_eq(number(object, "tokens"), 2 * 128);
    ck_assert_double_eq(number(object, "comm_bytes"), 12345);
    json_decref(object);
}
END_TEST

START_TEST(a_full_disk_is_told)
{
    const struct cadre_step_report report = {.loss = 1};
    const struct cadre_valid_result none = {0};
    char path[1200];
    cadre_metrics_close(metrics);
    metrics = NULL;
    snprintf(path, sizeof path, "%s/metrics.jsonl", f.out);
    unlink(path);
    ck_assert_int_eq(symlink("/dev/full", path), 0);
    ck_assert_int_eq(cadre_metrics_open(spec, &metrics, &f.err), CADRE_OK);
    ck_assert_int_eq(cadre_metrics_step(metrics, 1, &report, &none, &f.err),
                     CADRE_E_IO);
    ck_assert_ptr_nonnull(strstr(f.err.text, "metrics.jsonl"));
    ck_assert_ptr_nonnull(strstr(f.err.text, "No space left"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("metrics");
    TCase *tc = tcase_create("metrics");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_line_a_step_with_every_field);
    tcase_add_test(tc, the_summary_has_every_field);
    tcase_add_loop_test(tc, few_steps_have_a_median_too, 0, 3);
    tcase_add_test(tc, many_steps);
    tcase_add_test(tc, appends_after_a_resume);
    tcase_add_test(tc, the_summary_of_a_resumed_run_is_of_all_its_steps);
    tcase_add_test(tc, bytes_that_a_lost_process_counted_are_unknown);
    tcase_add_test(tc, a_run_that_continues_another_folder_counts_its_own_steps);
    tcase_add_test(tc, a_full_disk_is_told);
    suite_add_tcase(s, tc);
    return s;
}
