/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

static char *dir;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

START_TEST(reads_what_train_writes)
{
    const struct fixture_run made = {
        .name = "a", .ranks = 3, .nan_step = 5, .algorithms = "0a"};
    struct cadre_record record = {0};
    struct cadre_error err = {0};
    char *folder = fixture_make(dir, &made);
    ck_assert_int_eq(cadre_record_read(folder, &record, &err), CADRE_OK);
    ck_assert_uint_eq(record.n, 6);
    ck_assert(record.step[1].loss == 3.0 - 0.1 * 2);
    ck_assert(isnan(record.step[4].loss));
    ck_assert(cadre_record_number(&record, "tokens") == 600);
    ck_assert(isnan(cadre_record_number(&record, "valid_loss")));
    ck_assert(cadre_record_largest(&record, "peak_bytes") == 1002);
    ck_assert(isnan(cadre_record_largest(&record, "nothing")));
    ck_assert_str_eq(cadre_record_gemm(&record, "algorithms"), "0a");
    ck_assert_ptr_null(cadre_record_gemm(&record, "nothing"));
    const char *from;
    ck_assert_ptr_null(cadre_record_restarted(&record, &from));
    char *model = cadre_record_checkpoint(&record, "model.safetensors");
    ck_assert_ptr_nonnull(
        strstr(model, "/checkpoints/step-00000006/model.safetensors"));
    free(model);
    free(folder);
    cadre_record_fini(&record);
}
END_TEST

/* A run that began from a checkpoint has other steps than 1, 2, ... */
START_TEST(the_summary_alone)
{
    const struct fixture_run made = {.name = "a", .ranks = 3};
    struct cadre_record record = {0};
    struct cadre_error err = {0};
    char *folder = fixture_make(dir, &made);
    fixture_write(folder, "metrics.jsonl", "{\"step\": 7}\n");
    ck_assert_int_eq(cadre_record_read(folder, &record, &err), CADRE_E_INVALID);
    cadre_record_fini(&record);
    ck_assert_int_eq(cadre_record_read_summary(folder, &record, &err), CADRE_OK);
    ck_assert_uint_eq(record.n, 0);
    ck_assert(cadre_record_number(&record, "tokens") == 600);
    cadre_record_fini(&record);
    ck_assert_int_eq(cadre_record_read_summary(dir, &record, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "summary.json' is missing"));
    free(folder);
    cadre_record_fini(&record);
}
END_TEST

START_TEST(instances_are_read_with_it)
{
    const struct fixture_run made = {.name = "a", .instances = 2};
    struct cadre_record record = {0};
    struct cadre_error err = {0};
    char *folder = fixture_make(dir, &made);
    ck_assert_int_eq(cadre_record_read(folder, &record, &err), CADRE_OK);
    ck_assert_uint_eq(record.n_instances, 2);
    ck_assert_uint_eq(record.best, 1);
    ck_assert_uint_eq(record.n, 6);
    ck_assert(record.step[1].loss == record.instance[1].step[1].loss);
    ck_assert(record.step[1].loss < record.instance[0].step[1].loss);
    /* each takes 0.1 s for 100 tokens, so that both together take half of it */
    ck_assert_double_eq(cadre_record_step_tokens(&record), 100);
    ck_assert_double_eq_tol(cadre_record_median_s(&record, 2, 6), 0.05, 1e-15);
    char *model = cadre_record_checkpoint(&record, "x");
    ck_assert_ptr_nonnull(strstr(model, "/instance-1/checkpoints/step-00000006/x"));
    free(model);
    free(folder);
    cadre_record_fini(&record);
}
END_TEST

static const struct {
    const char *summary, *why;
} wrong_instances[] = {
    {"{\"best\": 0, \"instances\": [{\"folder\": \"instance-0\", \"status\": "
     "\"failed\"}]}",
     "instance 0 is 'failed', expected 'done'"},
    {"{\"best\": 0, \"instances\": [{\"status\": \"done\"}]}", "instance 0 is 'done'"},
    {"{\"best\": 1, \"instances\": [{\"folder\": \"instance-0\", \"status\": "
     "\"done\"}]}",
     "best is not one of the 1 instances"},
    {"{\"instances\": []}", "best is not one of the 0 instances"},
    {"{\"best\": 0, \"instances\": [{\"folder\": \"gone\", \"status\": \"done\"}]}",
     "is missing"},
};

START_TEST(refuses_instances_that_are_not_done)
{
    const struct fixture_run made = {.name = "a", .instances = 1};
    struct cadre_record record = {0};
    struct cadre_error err = {0};
    char *folder = fixture_make(dir, &made);
    fixture_write(folder, "summary.json", wrong_instances[_i].summary);
    ck_assert_int_eq(cadre_record_read(folder, &record, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, wrong_instances[_i].why) != NULL, "%s", err.text);
    cadre_record_fini(&record);
    free(folder);
}
END_TEST

START_TEST(median_leaves_warm_up_out)
{
    struct cadre_record_step steps[] = {{1, 0, 0, 0, 9},
                                        {2, 0, 0, 0, 8},
                                        {3, 0, 0, 0, 1},
                                        {4, 0, 0, 0, 3},
                                        {5, 0, 0, 0, 2}};
    const struct cadre_record record = {.step = steps, .n = 5};
    ck_assert(cadre_record_median_s(&record, 2, 5) == 2);
    ck_assert(cadre_record_median_s(&record, 2, 4) == 2);
    ck_assert(cadre_record_median_s(&record, 0, 5) == 3);
    ck_assert(cadre_record_median_s(&record, 5, 5) == 3);
    ck_assert(cadre_record_median_s(&record, 2, 99) == 2);
    ck_assert(cadre_record_median_s(&record, 2, 0) == 0);
    double low, high;
    cadre_record_middle_s(&record, 2, 5, &low, &high);
    ck_assert(low == 1.5 && high == 2.5);
    cadre_record_middle_s(&record, 2, 4, &low, &high);
    ck_assert(low == 1.5 && high == 2.5);
    const struct cadre_record none = {0};
    cadre_record_middle_s(&none, 2, 5, &low, &high);
    ck_assert(isnan(low) && isnan(high));
}
END_TEST

START_TEST(links_depend_on_all_before)
{
    struct cadre_record_step steps[] = {
        {1, 3, 0, 0, 9}, {2, 2, 0, 0, 8}, {3, 1, 0, 0, 1}};
    const struct cadre_record record = {.step = steps, .n = 3};
    uint64_t first = cadre_record_chain(&record, 1),
             all = cadre_record_chain(&record, 3);
    ck_assert_uint_eq(cadre_record_chain(&record, 0), 0);
    ck_assert_uint_eq(cadre_record_chain(&record, 99), all);
    steps[1].loss = 2 + 0x1p-51;
    ck_assert_uint_eq(cadre_record_chain(&record, 1), first);
    ck_assert_uint_ne(cadre_record_chain(&record, 3), all);
}
END_TEST

/* What is wrong with a file, and what the error must say. */
static const struct {
    const char *file, *text, *says;
} bad[] = {
    {"summary.json", "{", "summary.json"},
    {"summary.json", "[]", "no JSON object"},
    {"summary.json", "{\"a\": 1, \"a\": 2}", "summary.json"},
    {"summary.json", "", "summary.json"},
    {"summary.json", "{\"schema_version\": 2}",
     "schema_version 2, this Cadre reads up to 1"},
    {"metrics.jsonl", "", "is empty"},
    {"metrics.jsonl", "nonsense\n", "line 1"},
    {"metrics.jsonl",
     "{\"step\": 2, \"loss\": 1, \"grad_norm\": 1, \"lr\": 1, "
     "\"step_s\": 1}\n",
     "expected step 1"},
    {"metrics.jsonl", "{\"step\": 1, \"loss\": 1}\n", "grad_norm"},
    {"metrics.jsonl",
     "{\"step\": 1, \"loss\": \"low\", \"grad_norm\": 1, \"lr\": 1, "
     "\"step_s\": 1}\n",
     "line 1"},
    {"metrics.jsonl", "{\"step\": 1, \"loss\": 1, \"grad_norm\"", "line 1"},
};

START_TEST(refuses_damage)
{
    const struct fixture_run made = {.name = "a"};
    struct cadre_record record = {0};
    struct cadre_error err = {0};
    char *folder = fixture_make(dir, &made);
    fixture_write(folder, bad[_i].file, bad[_i].text);
    ck_assert_int_eq(cadre_record_read(folder, &record, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, bad[_i].says), "%s", err.text);
    cadre_record_fini(&record);
    free(folder);
}
END_TEST

START_TEST(names_a_missing_file)
{
    struct cadre_record record = {0};
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_record_read(dir, &record, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "summary.json' is missing"));
    cadre_record_fini(&record);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("record");
    TCase *tc = tcase_create("record");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, reads_what_train_writes);
    tcase_add_test(tc, the_summary_alone);
    tcase_add_test(tc, instances_are_read_with_it);
    tcase_add_loop_test(tc, refuses_instances_that_are_not_done, 0,
                        (int)(sizeof wrong_instances / sizeof *wrong_instances));
    tcase_add_test(tc, median_leaves_warm_up_out);
    tcase_add_test(tc, links_depend_on_all_before);
    tcase_add_loop_test(tc, refuses_damage, 0, sizeof bad / sizeof bad[0]);
    tcase_add_test(tc, names_a_missing_file);
    suite_add_tcase(suite, tc);
    return suite;
}
