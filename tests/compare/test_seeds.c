/* SPDX-License-Identifier: Apache-2.0 */
/* Losses over seeds: groups of runs, their figures, and how each report shows them. */
#include "core/compare/verdict/seeds.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/compare/report/report_seeds.h"
#include "tests/support/check_main.h"

static const struct {
    const char *name, *seed;
    uint64_t setup;
    double last, valid; /* NaN: none */
} made[] = {
    {"single_seed-1", "1", 5, 2.0, 3.0}, {"single_seed-2", "2", 5, 2.2, 3.1},
    {"single_seed-3", "3", 5, 2.4, NAN}, {"ddp-2_seed-1", "1", 6, 2.1, 2.5},
    {"ddp-2_seed-2", "2", 6, NAN, NAN},
};
enum { RUNS = sizeof made / sizeof made[0] };

static struct cadre_comparison c;
static struct cadre_seeds seeds;
static struct cadre_text text;

static json_t *loss(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

static void add_run(size_t i)
{
    struct cadre_compared_run *run = &c.run[i];
    char set[64];
    run->name = cadre_strdup(made[i].name);
    run->other_training = cadre_strdup(i % 3 ? "run.seed (2, baseline 1)" : "");
    run->setup = made[i].setup;
    ck_assert_int_eq(cadre_options_create(&run->options, NULL), CADRE_OK);
    snprintf(set, sizeof set, "run.seed=%s", made[i].seed);
    ck_assert_int_eq(cadre_options_set(run->options, set, "test", NULL), CADRE_OK);
    run->record.summary = json_object();
    json_object_set_new(run->record.summary, "loss_last", loss(made[i].last));
    json_object_set_new(run->record.summary, "valid_loss", loss(made[i].valid));
}

static void setup(void)
{
    c = (struct cadre_comparison){.n = RUNS, .run = cadre_calloc(RUNS, sizeof *c.run)};
    ck_assert_ptr_nonnull(c.run);
    for (size_t i = 0; i < RUNS; i++)
        add_run(i);
}

static void teardown(void)
{
    cadre_seeds_fini(&seeds);
    cadre_comparison_fini(&c);
    cadre_text_fini(&text);
}

START_TEST(runs_of_one_setting_are_a_group)
{
    cadre_seeds_fill(&seeds, &c);
    ck_assert_uint_eq(seeds.n, 2);
    const struct cadre_seed_group *single = &seeds.group[0], *ddp = &seeds.group[1];
    ck_assert_str_eq(single->name, "single");
    ck_assert_str_eq(ddp->name, "ddp-2");
    ck_assert(single->runs == 3 && single->n_last == 3 && single->n_valid == 2);
    ck_assert(fabs(single->last.value - 2.2) < 1e-12);
    ck_assert(fabs(single->last.high - 2.2 - 0.4968275) <
              1e-6); /* 4.303 sigma/sqrt 3 */
    ck_assert(fabs(single->last.value * 2 - single->last.low - single->last.high) <
              1e-9);
    /* one value has no interval */
    ck_assert(ddp->runs == 2 && ddp->n_last == 1 && ddp->last.value == 2.1);
    ck_assert(isnan(ddp->last.low) && isnan(ddp->last.high));
    ck_assert_int_eq(seeds.best, 3);
}
END_TEST

START_TEST(other_options_are_other_settings)
{
    ck_assert(cadre_seeds_differ(&c.run[0], &c.run[1]));
    ck_assert(!cadre_seeds_differ(&c.run[0], &c.run[3]));
    ck_assert(!cadre_seeds_differ(&c.run[0], &c.run[0]));
    c.run[1].exact = true; /* not in the hash of the setup */
    ck_assert(!cadre_seeds_differ(&c.run[0], &c.run[1]));
    ck_assert(cadre_seeds_only(&c.run[1]) && !cadre_seeds_only(&c.run[0]));
    free(c.run[1].other_training);
    c.run[1].other_training = cadre_strdup("run.seed (2, baseline 1), optim.lr (1, "
                                           "baseline 2)");
    ck_assert(!cadre_seeds_only(&c.run[1]));
}
END_TEST

START_TEST(a_seed_has_a_baseline_of_its_own)
{
    const size_t of[RUNS] = {0, 1, 2, 0, 1};
    for (size_t i = 0; i < RUNS; i++)
        ck_assert_uint_eq(cadre_seeds_baseline(&c, i), of[i]);
    ck_assert(cadre_compared_same_training(&c, 4));
    ck_assert(!cadre_compared_same_training(&c, 1));
    c.run[1].exact = true; /* another setting than the baseline's */
    ck_assert_uint_eq(cadre_seeds_baseline(&c, 4), 0);
    ck_assert(!cadre_compared_same_training(&c, 4));
}
END_TEST

START_TEST(a_best_run_has_the_data_of_the_baseline)
{
    free(c.run[3].other_training);
    c.run[3].other_training = cadre_strdup("data.path (a, baseline b)");
    cadre_seeds_fill(&seeds, &c);
    ck_assert_int_eq(seeds.best, 0);
}
END_TEST

START_TEST(every_form_shows_them)
{
    cadre_report_seeds_table(&c, &text);
    ck_assert_str_eq(
        cadre_text_str(&text),
        "\nsetting  seeds  last loss                validation loss\n"
        "single       3  2.2000 [1.7032, 2.6968]  3.0500 [2.4147, 3.6853] of "
        "2\n"
        "ddp-2        2  2.1000 of 1              2.5000 of 1\n");
    cadre_text_reset(&text);
    cadre_report_seeds_markdown(&c, &text);
    ck_assert_ptr_nonnull(
        strstr(cadre_text_str(&text), "| single | 3 | 2.2000 [1.7032, 2.6968] | "));
    cadre_text_reset(&text);
    cadre_report_seeds_html(&c, &text);
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&text),
                                 "scope=\"row\">ddp-2</th><td>2</td><td>2.1000 of 1"));
    cadre_text_reset(&text);
    cadre_report_seeds_notes(&c, &text);
    ck_assert_ptr_nonnull(
        strstr(cadre_text_str(&text),
               "The lowest validation loss is 2.5000, of ddp-2_seed-1."));
    ck_assert_ptr_nonnull(
        strstr(cadre_text_str(&text),
               "single_seed-2 has the baseline's options with run.seed = 2: runs of "
               "that seed are judged against it.\n"));
    ck_assert_ptr_null(strstr(cadre_text_str(&text), "measured"));
    ck_assert_ptr_null(strstr(cadre_text_str(&text), "has that of"));
    c.run[4].limit = CADRE_LIMIT_MEASURED;
    c.run[1].setup = 7; /* no baseline's options with this seed any more */
    cadre_text_reset(&text);
    cadre_report_seeds_notes(&c, &text);
    ck_assert_ptr_nonnull(
        strstr(cadre_text_str(&text), "has that of single_seed-2, ddp-2_seed-2.\n"));
    ck_assert_ptr_null(strstr(cadre_text_str(&text), "measured"));
}
END_TEST

START_TEST(json_has_every_figure)
{
    struct cadre_json json;
    cadre_json_init_text(&json, &text, false);
    cadre_json_begin_object(&json);
    cadre_report_seeds_json(&c, &json);
    cadre_json_end_object(&json);
    ck_assert_int_eq(cadre_json_finish(&json), CADRE_OK);
    json_t *root = json_loads(cadre_text_str(&text), 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(root, "best_valid")),
                     "ddp-2_seed-1");
    const json_t *ddp = json_array_get(json_object_get(root, "settings"), 1);
    ck_assert_str_eq(json_string_value(json_object_get(ddp, "setting")), "ddp-2");
    ck_assert_str_eq(json_string_value(json_object_get(ddp, "first_run")),
                     "ddp-2_seed-1");
    ck_assert_int_eq(json_integer_value(json_object_get(ddp, "loss_last_n")), 1);
    ck_assert(json_is_null(json_object_get(ddp, "loss_last_low")));
    json_decref(root);
}
END_TEST

START_TEST(one_seed_asks_for_nothing)
{
    c.run[1].setup = c.run[2].setup = c.run[4].setup = 0;
    ck_assert(!cadre_seeds_wanted(&c));
    cadre_report_seeds_table(&c, &text);
    cadre_report_seeds_markdown(&c, &text);
    cadre_report_seeds_html(&c, &text);
    cadre_report_seeds_notes(&c, &text);
    ck_assert_uint_eq(text.len, 0);
    /* a sweep has its table of losses all the same */
    ck_assert_int_eq(
        cadre_options_set(c.run[0].options, "compare.vary=optim.lr: 1 2", "test", NULL),
        CADRE_OK);
    ck_assert(cadre_seeds_wanted(&c));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("seeds");
    TCase *tc = tcase_create("seeds");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, runs_of_one_setting_are_a_group);
    tcase_add_test(tc, other_options_are_other_settings);
    tcase_add_test(tc, a_seed_has_a_baseline_of_its_own);
    tcase_add_test(tc, a_best_run_has_the_data_of_the_baseline);
    tcase_add_test(tc, every_form_shows_them);
    tcase_add_test(tc, json_has_every_figure);
    tcase_add_test(tc, one_seed_asks_for_nothing);
    suite_add_tcase(s, tc);
    return s;
}
