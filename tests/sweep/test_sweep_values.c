/* SPDX-License-Identifier: Apache-2.0 */
#include "core/sweep/sweep_values.h"

#include <string.h>

#include "tests/support/check_main.h"

static struct cadre_sweep_values sweep;
static struct cadre_error err;

static void teardown(void)
{
    cadre_sweep_values_fini(&sweep);
}

static cadre_status parse(const char *text, size_t instances)
{
    static const char *const more[] = {"ddp", NULL};
    return cadre_sweep_values_parse("mig.sweep", text, instances, more, &sweep, &err);
}

START_TEST(the_kth_value_goes_to_instance_k)
{
    struct cadre_options *options = NULL;
    ck_assert_int_eq(parse("optim.lr: 1e-3 3e-4, optim.beta2:0.95\t0.99 ", 2),
                     CADRE_OK);
    ck_assert_uint_eq(sweep.n, 2);
    ck_assert_str_eq(sweep.key[1], "optim.beta2");
    ck_assert_str_eq(sweep.value[2], "0.95");
    ck_assert_int_eq(cadre_options_create(&options, &err), CADRE_OK);
    ck_assert_int_eq(cadre_sweep_values_apply(&sweep, 1, options, &err), CADRE_OK);
    ck_assert_int_eq(cadre_options_resolve(options, &err), CADRE_OK);
    ck_assert_double_eq(cadre_options_value(options, "optim.lr")->f, 3e-4);
    ck_assert_double_eq(cadre_options_value(options, "optim.beta2")->f, 0.99);
    ck_assert_str_eq(cadre_options_source(options, "optim.lr"), "mig.sweep");
    cadre_options_destroy(options);
}
END_TEST

START_TEST(an_empty_one_sets_nothing)
{
    ck_assert_int_eq(parse(_i ? " \t" : "", 3), CADRE_OK);
    ck_assert_uint_eq(sweep.n, 0);
    ck_assert_int_eq(cadre_sweep_values_apply(&sweep, 2, NULL, &err), CADRE_OK);
}
END_TEST

START_TEST(keys_that_may_differ)
{
    ck_assert_int_eq(
        parse("run.seed: 1 2, train.steps: 3 4, model.layers: 1 2, ddp.overlap: yes no",
              2),
        CADRE_OK);
    ck_assert_uint_eq(sweep.n, 4);
}
END_TEST

static const struct {
    const char *text, *why;
} wrong[] = {
    {"optim.lr: 1", "mig.sweep: optim.lr has 1 value, expected 2, one for each"},
    {"optim.lr: 1 2 3", "optim.lr has 3 values, expected 2"},
    {"optim.lr:", "optim.lr has 0 values, expected 2"},
    {"optim.lr 1 2", "found 'optim.lr 1 2', expected section.key: and a value"},
    {"lr: 1 2", "found 'lr: 1 2', expected section.key:"},
    {"optim.lr: 1 2,", "found '', expected section.key:"},
    {", optim.lr: 1 2", "found '', expected section.key:"},
    {"optim.lr: 1 2, optim.LR: 3 4", "optim.LR is given twice"},
    {"run.out: a b", "run.out cannot differ between instances"},
    {"run.seeds: a b", "run.seeds cannot differ between instances"},
    {"data.path: a b", "data.path cannot differ between instances"},
    {"mig.sweep: a b", "mig.sweep cannot differ between instances"},
    {"dd.x: a b", "dd.x cannot differ between instances"},
    {"ddpx.x: a b", "ddpx.x cannot differ between instances"},
};

START_TEST(refuses)
{
    ck_assert_int_eq(parse(wrong[_i].text, 2), CADRE_E_INVALID);
    ck_assert_msg(strncmp(err.text, "mig.sweep: ", 11) == 0, "%s", err.text);
    ck_assert_msg(strstr(err.text, wrong[_i].why) != NULL, "%s", err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("sweep_values");
    TCase *tc = tcase_create("sweep");
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, the_kth_value_goes_to_instance_k);
    tcase_add_loop_test(tc, an_empty_one_sets_nothing, 0, 2);
    tcase_add_test(tc, keys_that_may_differ);
    tcase_add_loop_test(tc, refuses, 0, (int)(sizeof wrong / sizeof *wrong));
    suite_add_tcase(s, tc);
    return s;
}
