/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/sweep/sweep.h"
#include "tests/support/check_main.h"

enum { N = 3 };

static char *dir;
static struct cadre_spec spec;
static struct cadre_sweep sweep;
static struct cadre_sweep_instance instance[N];
static struct cadre_error err;

static json_t *summary(double loss, double valid, double rate)
{
    json_t *one = json_pack(
        "{s:i, s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:[i, i], s:i}", "ranks", 2, "device",
        "cpu", "steps", 10, "tokens", 1000, "time_s", 100 / rate, "tokens_per_s", rate,
        "loss_first", 5.0, "loss_last", loss, "peak_bytes", 7, 9, "comm_bytes", 100);
    ck_assert_ptr_nonnull(one);
    if (valid > 0)
        json_object_set_new(one, "valid_loss", json_real(valid));
    return one;
}

/* Instances 0 and 1 are done, 2 failed and left nothing. */
static void setup(void)
{
    dir = test_tmpdir();
    snprintf(spec.name, sizeof spec.name, "name");
    snprintf(spec.stack, sizeof spec.stack, "mig:3");
    snprintf(spec.out, sizeof spec.out, "%s", dir);
    memset(instance, 0, sizeof instance);
    sweep = (struct cadre_sweep){.spec = &spec, .n = N, .instance = instance};
    ck_assert_int_eq(cadre_sweep_values_parse("mig.sweep", "optim.lr: 1 2 3", N, NULL,
                                              &sweep.values, &err),
                     CADRE_OK);
    for (int k = 0; k < N; k++) {
        instance[k].folder = cadre_format("%s/instance-%d", dir, k);
        instance[k].options = cadre_format("optim.lr = %d", k + 1);
        instance[k].status = k < 2 ? CADRE_SWEEP_DONE : CADRE_SWEEP_FAILED;
    }
    instance[2].end.signal = 9;
    instance[1].pinned = true;
    CPU_SET(3, &instance[1].cpus);
    instance[0].summary = summary(2.0, 2.5, 300);
    instance[1].summary = summary(3.0, 2.25, 200);
}

static void teardown(void)
{
    for (int k = 0; k < N; k++) {
        free(instance[k].folder);
        free(instance[k].options);
        json_decref(instance[k].summary);
    }
    cadre_sweep_values_fini(&sweep.values);
    test_tmpdir_destroy(dir);
}

static json_t *load(const char *name)
{
    char *path = cadre_path_join(dir, name);
    json_error_t why;
    json_t *value = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    ck_assert_msg(value != NULL, "%s: %s", path, why.text);
    free(path);
    return value;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_number(value), "%s is no number", key);
    return json_number_value(value);
}

static const char *text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

START_TEST(the_summary_is_of_all)
{
    ck_assert_int_eq(cadre_sweep_write_summary(&sweep, &err), CADRE_OK);
    json_t *all = load("summary.json");
    ck_assert_double_eq(number(all, "schema_version"), 1);
    ck_assert_ptr_nonnull(text(all, "date"));
    ck_assert_str_eq(text(all, "name"), "name");
    ck_assert_str_eq(text(all, "stack"), "mig:3");
    ck_assert_double_eq(number(all, "ranks"), 4);
    ck_assert_double_eq(number(all, "tokens"), 2000);
    ck_assert_double_eq(number(all, "tokens_per_s"), 500);
    ck_assert_double_eq(number(all, "time_s"), 0.5);
    ck_assert_double_eq(number(all, "comm_bytes"), 200);
    ck_assert_ptr_null(json_object_get(all, "machine"));
    ck_assert_uint_eq(json_array_size(json_object_get(all, "peak_bytes")), 4);
    const json_t *list = json_object_get(all, "instances");
    ck_assert_uint_eq(json_array_size(list), N);
    ck_assert_double_eq(number(json_array_get(list, 1), "tokens_per_s"), 200);
    ck_assert_str_eq(text(json_array_get(list, 2), "status"), "failed");
    json_decref(all);
}
END_TEST

START_TEST(its_cores_are_those_of_all)
{
    json_object_set_new(instance[1].summary, "machine",
                        json_pack("{s:s, s:i}", "cpu", "a", "cores", 100000));
    ck_assert_int_eq(cadre_sweep_write_summary(&sweep, &err), CADRE_OK);
    json_t *all = load("summary.json"), *machine = json_object_get(all, "machine");
    ck_assert_str_eq(text(machine, "cpu"), "a");
    ck_assert_double_lt(number(machine, "cores"), 100000);
    ck_assert_double_ge(number(machine, "cores"), 1);
    json_decref(all);
}
END_TEST

/* By validation where all have it. */
START_TEST(losses_are_those_of_the_best)
{
    if (_i)
        json_object_del(instance[0].summary, "valid_loss");
    ck_assert_int_eq(cadre_sweep_write_summary(&sweep, &err), CADRE_OK);
    json_t *all = load("summary.json");
    ck_assert_double_eq(number(all, "best"), _i ? 0 : 1);
    ck_assert_double_eq(number(all, "loss_last"), _i ? 2 : 3);
    json_decref(all);
}
END_TEST

START_TEST(instances_are_listed)
{
    ck_assert_int_eq(cadre_sweep_write_instances(&sweep, &err), CADRE_OK);
    json_t *file = load("instances.json"), *list = json_object_get(file, "instances");
    ck_assert_double_eq(number(file, "schema_version"), 1);
    ck_assert_ptr_nonnull(text(file, "date"));
    ck_assert_uint_eq(json_array_size(list), N);
    const json_t *second = json_array_get(list, 1), *third = json_array_get(list, 2);
    ck_assert_str_eq(text(second, "folder"), "instance-1");
    ck_assert_str_eq(text(second, "status"), "done");
    ck_assert_str_eq(text(json_object_get(second, "options"), "optim.lr"), "2");
    ck_assert_int_eq(
        json_integer_value(json_array_get(json_object_get(second, "cpus"), 0)), 3);
    ck_assert_double_eq(number(json_object_get(second, "summary"), "tokens"), 1000);
    ck_assert_double_eq(number(third, "signal"), 9);
    ck_assert(json_is_null(json_object_get(third, "summary")));
    ck_assert(json_is_null(json_object_get(third, "cpus")));
    json_decref(file);
}
END_TEST

START_TEST(nothing_is_summed_where_all_failed)
{
    for (int k = 0; k < 2; k++) {
        json_decref(instance[k].summary);
        instance[k].summary = NULL;
    }
    struct cadre_text table = {0};
    ck_assert_int_eq(cadre_sweep_write_summary(&sweep, &err), CADRE_OK);
    char *path = cadre_path_join(dir, "summary.json");
    ck_assert(!cadre_path_exists(path));
    free(path);
    cadre_sweep_table(&sweep, &table);
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&table), "\nall "));
    cadre_text_fini(&table);
}
END_TEST

START_TEST(the_table_has_a_line_an_instance)
{
    static const char expected[] =
        "instance  status    loss   valid  tokens/s  peak memory  options\n"
        "0         done    2.0000  2.5000       300         16 B  optim.lr = 1\n"
        "1         done    3.0000  2.2500       200         16 B  optim.lr = 2\n"
        "2         failed       -       -         -            -  optim.lr = 3\n"
        "all               3.0000  2.2500       500         32 B  best: instance 1\n";
    struct cadre_text table = {0};
    cadre_sweep_table(&sweep, &table);
    ck_assert_str_eq(cadre_text_str(&table), expected);
    cadre_text_fini(&table);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("sweep_summary");
    TCase *tc = tcase_create("summary");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_summary_is_of_all);
    tcase_add_test(tc, its_cores_are_those_of_all);
    tcase_add_loop_test(tc, losses_are_those_of_the_best, 0, 2);
    tcase_add_test(tc, instances_are_listed);
    tcase_add_test(tc, nothing_is_summed_where_all_failed);
    tcase_add_test(tc, the_table_has_a_line_an_instance);
    suite_add_tcase(s, tc);
    return s;
}
