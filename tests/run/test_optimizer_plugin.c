/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/optimizer_plugin.h"

#include <string.h>

#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;

static void setup(void)
{
    spec_fixture_open(&f);
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

START_TEST(built_in_ones_load_nothing)
{
    struct cadre_spec *spec =
        spec_fixture_make(&f, _i ? "optim.name=sgd" : "strategy.stack=ddp:1");
    ck_assert_int_eq(spec->run.n_plugins, _i ? 0 : 1);
    ck_assert_int_eq(spec->run.optim.kind,
                     _i ? CADRE_OPTIMIZER_SGD : CADRE_OPTIMIZER_ADAMW);
    cadre_spec_destroy(spec);
}
END_TEST

/* It is no part of the stack, and has a section of options. */
START_TEST(a_plugin_is_loaded_behind_the_stack)
{
    struct cadre_spec *spec =
        spec_fixture_make(&f, "strategy.stack=ddp:1 optim.name=muon muon.ns_steps=3");
    ck_assert_int_eq(spec->run.n_plugins, 2);
    ck_assert_str_eq(spec->run.plugin[0]->name, "ddp");
    ck_assert_str_eq(spec->run.plugin[1]->name, "muon");
    ck_assert_str_eq(spec->run.instance[1].name, "muon");
    ck_assert_ptr_null(spec->run.instance[1].axis);
    ck_assert_str_eq(spec->stack, "ddp:1");
    ck_assert_int_eq(spec->run.ranks, 1);
    ck_assert_int_eq(spec->run.optim.kind, CADRE_OPTIMIZER_PLUGIN);
    cadre_spec_destroy(spec);
}
END_TEST

static const struct {
    const char *sets, *why;
} refused[] = {
    {"optim.name=adam", "the nearest is adamw"},
    {"optim.name=moun", "the nearest is 'muon'"},
    {"optim.name=ddp", "the plugin 'ddp' is no optimizer"},
    {"strategy.stack=muon:1", "name it in optim.name"},
    {"optim.name=muon muon.ns_step=5", "ns_steps"},
    {"optim.name=muon muon.momentum=2", "momentum"},
};

START_TEST(what_is_no_optimizer_is_refused)
{
    struct cadre_spec *spec = NULL;
    ck_assert_int_eq(spec_fixture_try(&f, refused[_i].sets, &spec), CADRE_E_INVALID);
    ck_assert_msg(strstr(f.err.text, refused[_i].why) != NULL, "%s", f.err.text);
    ck_assert_ptr_null(strchr(f.err.text, '\n'));
}
END_TEST

/* Two runs that differ in the optimizer's options do not continue one another. */
START_TEST(its_options_are_in_the_fingerprint)
{
    struct cadre_spec *one = spec_fixture_make(&f, "optim.name=muon");
    struct cadre_spec *two = spec_fixture_make(&f, "optim.name=muon muon.ns_steps=4");
    ck_assert_uint_ne(one->run.fingerprint, two->run.fingerprint);
    cadre_spec_destroy(one);
    cadre_spec_destroy(two);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("optimizer_plugin");
    TCase *tc = tcase_create("optimizer_plugin");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, built_in_ones_load_nothing, 0, 2);
    tcase_add_test(tc, a_plugin_is_loaded_behind_the_stack);
    tcase_add_loop_test(tc, what_is_no_optimizer_is_refused, 0,
                        (int)(sizeof refused / sizeof *refused));
    tcase_add_test(tc, its_options_are_in_the_fingerprint);
    suite_add_tcase(suite, tc);
    return suite;
}
