/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/efficiency.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/model/flops.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;
static struct cadre_efficiency found;
static const struct cadre_energy no_gpu = {0};

static void setup(void)
{
    spec_fixture_open(&f);
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

/* Of a planned run on `cores` cores of machines with `kinds` kinds of processors. */
static void find(const char *sets, int64_t cores, int kinds)
{
    struct cadre_site site = {.n_hosts = 2, .kinds = kinds, .cores = cores};
    struct cadre_spec *spec = spec_fixture_make(&f, sets);
    struct cadre_rank rank;
    ck_assert_int_eq(cadre_rank_plan(&rank, &spec->run, 0, &f.err), CADRE_OK);
    ck_assert_msg(cadre_efficiency_find(spec, &rank, &site, &no_gpu, &found, &f.err) ==
                      CADRE_OK,
                  "%s", f.err.text);
    cadre_rank_fini(&rank);
    cadre_spec_destroy(spec);
}

static json_t *written(double tokens_per_s, double time_s)
{
    struct cadre_text text = {0};
    struct cadre_json json;
    cadre_json_init_text(&json, &text, false);
    cadre_json_begin_object(&json);
    cadre_efficiency_write(&found, tokens_per_s, time_s, &json);
    cadre_json_end_object(&json);
    ck_assert_int_eq(cadre_json_finish(&json), CADRE_OK);
    json_t *object = json_loads(cadre_text_str(&text), JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(object);
    cadre_text_fini(&text);
    return object;
}

static double number(const json_t *object, const char *key)
{
    ck_assert_msg(json_is_number(json_object_get(object, key)), "%s", key);
    return json_number_value(json_object_get(object, key));
}

/* The fixture's model: 2 blocks of 16 channels, 16 tokens; bytes as a vocabulary. */
START_TEST(a_stated_peak_is_that_of_each_rank)
{
    find("report.peak_flops=2e9 strategy.stack=ddp:2 train.recompute=block", 2, 1);
    ck_assert_double_eq(found.peak_flops, 4e9);
    ck_assert_str_eq(found.source, "stated: 2 ranks x 2e+09 FLOP/s");
    double scores = 2.0 * 16 * 16, blocks = 2.0 * 12 * 16 * 16;
    double head = found.flops / 6 - blocks - 2 * scores;
    ck_assert_msg(head > 0 && fmod(head, 16) == 0, "%g", head); /* 16 a token */
    ck_assert_double_eq_tol(found.hardware_flops - found.flops, 2 * blocks + 4 * scores,
                            1e-6);
    json_t *object = written(1000, 60);
    ck_assert_double_eq_tol(number(object, "mfu"), found.flops * 1000 / 4e9, 1e-15);
    ck_assert_double_eq_tol(number(object, "hfu"), found.hardware_flops * 1000 / 4e9,
                            1e-15);
    ck_assert_double_eq(number(object, "peak_flops"), 4e9);
    ck_assert(json_is_null(json_object_get(object, "mfu_why")));
    ck_assert_ptr_null(json_object_get(object, "price")); /* none was given */
    json_decref(object);
}
END_TEST

/* Two ranks on one core have one core. */
START_TEST(cores_count_once)
{
    struct cadre_peak core;
    cadre_peak_core(CADRE_F32, "", &core);
    find("strategy.stack=ddp:2", 1, 1);
    double share = cadre_peak_core_share("");
    if (isnan(core.flops)) {
        ck_assert_str_eq(found.source, core.source);
        json_t *object = written(1000, 60);
        ck_assert(json_is_null(json_object_get(object, "mfu")));
        ck_assert_str_eq(json_string_value(json_object_get(object, "mfu_why")),
                         core.source);
        json_decref(object);
        return;
    }
    ck_assert_double_eq_tol(found.peak_flops, share * core.flops, 1);
    find("strategy.stack=ddp:2", 64, 1);
    ck_assert_double_eq_tol(found.peak_flops, 2 * core.flops, 1);
    ck_assert_ptr_nonnull(strstr(found.source, "computed: 2 cores x"));
}
END_TEST

START_TEST(several_kinds_of_processors_have_no_peak)
{
    find("", 4, 2);
    ck_assert(isnan(found.peak_flops));
    json_t *object = written(1000, 60);
    static const char *const nulls[] = {"mfu", "hfu", "peak_flops", "peak_source"};
    for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++)
        ck_assert_msg(json_is_null(json_object_get(object, nulls[i])), "%s", nulls[i]);
    ck_assert_str_eq(json_string_value(json_object_get(object, "mfu_why")),
                     "the ranks ran on 2 kinds of processors; set report.peak_flops");
    json_decref(object);
}
END_TEST

START_TEST(a_price_is_of_machines_and_hours)
{
    find("report.price_per_hour=36", 4, 1);
    json_t *object = written(1000, 50);
    const json_t *price = json_object_get(object, "price");
    ck_assert_double_eq(number(price, "per_hour"), 36);
    ck_assert_double_eq(number(price, "hosts"), 2);
    ck_assert_double_eq_tol(number(price, "run"), 1, 1e-12); /* 72 an hour, 50 s */
    ck_assert_double_eq_tol(number(price, "per_million_tokens"), 20, 1e-9);
    json_decref(object);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("efficiency");
    TCase *tc = tcase_create("efficiency");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_stated_peak_is_that_of_each_rank);
    tcase_add_test(tc, cores_count_once);
    tcase_add_test(tc, several_kinds_of_processors_have_no_peak);
    tcase_add_test(tc, a_price_is_of_machines_and_hours);
    suite_add_tcase(s, tc);
    return s;
}
