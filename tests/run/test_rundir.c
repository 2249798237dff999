/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/run/rundir.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;
static struct cadre_spec *spec;

static void setup(void)
{
    spec_fixture_open(&f);
    spec = spec_fixture_make(&f, "optim.lr=0.25 strategy.stack=ddp:2");
}

static void teardown(void)
{
    cadre_spec_destroy(spec);
    spec_fixture_close(&f);
}

START_TEST(the_config_is_the_run_again)
{
    char path[1200];
    struct cadre_options *options;
    ck_assert_int_eq(cadre_rundir_prepare(spec, false, NULL, &f.err), CADRE_OK);
    ck_assert_int_eq(cadre_options_create(&options, &f.err), CADRE_OK);
    snprintf(path, sizeof path, "%s/config.ini", f.out);
    cadre_status rc = cadre_options_load(options, path, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    ck_assert_str_eq(cadre_options_raw(options, "optim.lr"), "0.25");
    ck_assert_str_eq(cadre_options_raw(options, "strategy.stack"), "ddp:2");
    cadre_options_destroy(options);
}
END_TEST

START_TEST(a_folder_that_holds_a_run_is_refused)
{
    static const char *const marks[] = {"metrics.jsonl", "summary.json", "checkpoints"};
    char path[1200], line[64];
    ck_assert_int_eq(cadre_rundir_prepare(spec, false, NULL, &f.err), CADRE_OK);
    ck_assert_int_eq(cadre_rundir_prepare(spec, false, NULL, &f.err), CADRE_OK);
    snprintf(path, sizeof path, "%s/%s", f.out, marks[_i]);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(cadre_rundir_prepare(spec, false, NULL, &f.err), CADRE_E_INVALID);
    snprintf(line, sizeof line, "holds a run already (%s)", marks[_i]);
    ck_assert_msg(strstr(f.err.text, line) != NULL, "%s", f.err.text);
    ck_assert_ptr_nonnull(strstr(f.err.text, "checkpoint.resume=auto"));
    ck_assert_int_eq(cadre_rundir_prepare(spec, true, NULL, NULL), CADRE_OK);
}
END_TEST

START_TEST(a_folder_that_cannot_be_made)
{
    spec_fixture_write(&f, "run", "a file");
    ck_assert_int_ne(cadre_rundir_prepare(spec, false, NULL, &f.err), CADRE_OK);
    ck_assert_ptr_nonnull(strstr(f.err.text, "/run"));
}
END_TEST

static bool there(const char *name)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", f.out, name);
    return access(path, F_OK) == 0;
}

START_TEST(a_benchmark_replaces_a_benchmark_alone)
{
    struct cadre_spec *bench = spec_fixture_make(&f, "bench.steps=5");
    ck_assert_int_eq(cadre_rundir_prepare(bench, false, NULL, &f.err), CADRE_OK);
    spec_fixture_write(&f, "run/metrics.jsonl", "old");
    spec_fixture_write(&f, "run/instances.json", "old");
    spec_fixture_write(&f, "run/bench.json", "old");
    /* no training takes its place */
    ck_assert_int_eq(cadre_rundir_prepare(spec, false, NULL, &f.err), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_rundir_prepare(bench, false, NULL, &f.err), CADRE_OK);
    ck_assert(!there("metrics.jsonl") && !there("instances.json"));
    ck_assert(!there("bench.json"));
    /* nor does it continue a training, or replace one */
    ck_assert_int_eq(cadre_rundir_prepare(spec, false, NULL, &f.err), CADRE_OK);
    spec_fixture_write(&f, "run/metrics.jsonl", "a training's");
    ck_assert_int_eq(cadre_rundir_prepare(bench, true, NULL, &f.err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.err.text, "another --out for the benchmark"));
    ck_assert(there("metrics.jsonl"));
    cadre_spec_destroy(bench);
}
END_TEST

/* A training in the folder of a benchmark does not keep its result. */
START_TEST(the_result_of_a_benchmark_does_not_stay)
{
    ck_assert_int_eq(cadre_rundir_prepare(spec, false, NULL, &f.err), CADRE_OK);
    spec_fixture_write(&f, "run/bench.json", "old");
    ck_assert_int_eq(cadre_rundir_prepare(spec, true, NULL, &f.err), CADRE_OK);
    ck_assert(!there("bench.json"));
}
END_TEST

static const struct {
    const char *before;
    int64_t step;
    const char *after;
} truncations[] = {
    {"{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n", 2,
     "{\"step\": 1}\n{\"step\": 2}\n"},
    {"{\"step\": 1}\n{\"step\": 2}\n", 0, ""},
    {"{\"step\": 1}\n{\"step\": 2}\n", 9, "{\"step\": 1}\n{\"step\": 2}\n"},
    {"{\"step\": 1}\n{\"step\": 2, \"los", 9, "{\"step\": 1}\n"},
    {"no json\n\n{\"step\": 1}\n[2]\n{\"step\": \"1\"}\n", 5, "{\"step\": 1}\n"},
    {"{\"step\": 1, \"step\": 2}\n{\"step\": -1}\n", 5, ""},
    {"", 3, ""},
};

START_TEST(metrics_are_cut_after_a_step)
{
    spec_fixture_write(&f, "metrics.jsonl", truncations[_i].before);
    cadre_status rc = cadre_rundir_cut_metrics(f.dir, truncations[_i].step, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    char *text = spec_fixture_read(&f, "metrics.jsonl");
    ck_assert_str_eq(text, truncations[_i].after);
    free(text);
}
END_TEST

START_TEST(no_metrics_are_no_fault_and_a_pipe_is)
{
    char path[1200];
    ck_assert_int_eq(cadre_rundir_cut_metrics(f.dir, 3, &f.err), CADRE_OK);
    snprintf(path, sizeof path, "%s/metrics.jsonl", f.dir);
    ck_assert_int_eq(symlink("/dev/zero", path), 0);
    ck_assert_int_eq(cadre_rundir_cut_metrics(f.dir, 3, &f.err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.err.text, "no regular file"));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0); /* nobody writes into it, ever */
    ck_assert_int_eq(cadre_rundir_cut_metrics(f.dir, 3, &f.err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.err.text, "no regular file"));
}
END_TEST

START_TEST(what_a_killed_process_left_is_removed)
{
    struct cadre_run_lock lock = {0};
    ck_assert_int_eq(cadre_rundir_prepare(spec, true, &lock, &f.err), CADRE_OK);
    ck_assert(lock.held && there(".lock"));
    spec_fixture_write(&f, "run/metrics.jsonl.tmp.17.18", "half");
    spec_fixture_write(&f, "run/mine.tmp.17", "kept");
    spec_fixture_write(&f, "run/mine.tmp.a.18", "kept");
    spec_fixture_write(&f, "run/mine.tmp.17.18.txt", "kept");
    ck_assert_int_eq(cadre_rundir_prepare(spec, true, &lock, &f.err), CADRE_OK);
    ck_assert(!there("metrics.jsonl.tmp.17.18"));
    ck_assert(there("mine.tmp.17") && there("mine.tmp.a.18"));
    ck_assert(there("mine.tmp.17.18.txt"));
    cadre_run_lock_release(&lock);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("rundir");
    TCase *tc = tcase_create("rundir");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_config_is_the_run_again);
    tcase_add_loop_test(tc, a_folder_that_holds_a_run_is_refused, 0, 3);
    tcase_add_test(tc, a_folder_that_cannot_be_made);
    tcase_add_test(tc, a_benchmark_replaces_a_benchmark_alone);
    tcase_add_test(tc, the_result_of_a_benchmark_does_not_stay);
    tcase_add_loop_test(tc, metrics_are_cut_after_a_step, 0,
                        (int)(sizeof truncations / sizeof *truncations));
    tcase_add_test(tc, no_metrics_are_no_fault_and_a_pipe_is);
    tcase_add_test(tc, what_a_killed_process_left_is_removed);
    suite_add_tcase(s, tc);
    return s;
}
