/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/instance.h"

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

START_TEST(a_plugin_along_its_own_axis)
{
    static const char *const stacks[] = {"ddp:2", "ddp@dp:2"};
    char sets[64];
    snprintf(sets, sizeof sets, "strategy.stack=%s", stacks[_i]);
    struct cadre_spec *spec = spec_fixture_make(&f, sets);
    const struct cadre_run_spec *run = &spec->run;
    ck_assert_str_eq(spec->stack, "ddp:2");
    ck_assert_int_eq(run->n_plugins, 1);
    ck_assert_str_eq(run->instance[0].name, "ddp");
    ck_assert_str_eq(run->instance[0].axis, "dp");
    ck_assert_str_eq(run->axis[0].name, "dp");
    ck_assert_str_eq(run->axis[0].plugin, "ddp");
    cadre_spec_destroy(spec);
}
END_TEST

/* Whatever the order of the text. */
START_TEST(one_plugin_along_two_axes)
{
    static const char *const sets[] = {
        "strategy.stack=ddp@site:2,ddp:2 ddp.bucket_mb=3 ddp@site.level=16",
        "strategy.stack=ddp:2,ddp@site:2 ddp.bucket_mb=3 ddp@site.level=16",
    };
    struct cadre_spec *spec = spec_fixture_make(&f, sets[_i]);
    const struct cadre_run_spec *run = &spec->run;
    struct cadre_rank rank;
    ck_assert_str_eq(spec->stack, _i ? "ddp:2, ddp@site:2" : "ddp@site:2, ddp:2");
    ck_assert_int_eq(run->ranks, 4);
    ck_assert_ptr_eq(run->plugin[0], run->plugin[1]);
    ck_assert_str_eq(run->instance[_i].name, "ddp@site");
    ck_assert_str_eq(run->instance[_i].axis, "site");
    ck_assert_str_eq(run->instance[!_i].name, "ddp");
    ck_assert_str_eq(cadre_options_raw(spec->options, "ddp@site.bucket_mb"), "3");
    for (int r = 0; r < 4; r++) {
        ck_assert_int_eq(cadre_rank_plan(&rank, run, r, &f.err), CADRE_OK);
        ck_assert_int_eq(rank.plan.n_reducers, 2);
        ck_assert_str_eq(rank.plan.reducer[0].plugin, "ddp");
        ck_assert_uint_eq(cadre_rank_plan_level(&rank.plan, "ddp@site"), 16);
        int site = cadre_mesh_axis(&rank.mesh, "site")->index;
        int dp = cadre_mesh_axis(&rank.mesh, "dp")->index;
        ck_assert_int_eq(cadre_mesh_data_index(&rank.mesh), 2 * site + dp);
        ck_assert_int_eq(rank.plan.first_microbatch, 2 * site + dp);
        cadre_rank_fini(&rank);
    }
    cadre_spec_destroy(spec);
}
END_TEST

/* Of an instance that a stack had which another has replaced. */
START_TEST(sections_of_other_instances_are_left_alone)
{
    struct cadre_spec *spec =
        spec_fixture_make(&f, "strategy.stack=ddp@site:2 ddp@site.bucket_mb=3 "
                              "strategy.stack=ddp:2");
    ck_assert_str_eq(cadre_options_raw(spec->options, "ddp.bucket_mb"), "25");
    cadre_spec_destroy(spec);
}
END_TEST

static const struct {
    const char *sets, *says;
} wrong[] = {
    {"strategy.stack=ddp:2,ddp@dp:2", "'ddp' is listed twice along the axis 'dp'"},
    {"strategy.stack=ddp@site:2,ddp@site:2", "'ddp@site' is listed twice"},
    {"strategy.stack=ddp@site:2 ddp@site.bucket=3", "ddp@site.bucket"},
    {"strategy.stack=ddp@site:2 ddp@site.bucket_mb=x",
     "ddp@site.bucket_mb: expected a number"},
    {"strategy.stack=ddp:2 nobody@site.level=1", "nobody@site"},
    {"strategy.stack=ddp:2 train@site.steps=1", "unknown section [train@site]"},
    {"strategy.stack=ddp:2 ddp@site.bucket_mb=3", "unknown section [ddp@site]"},
};

START_TEST(refuses)
{
    struct cadre_spec *spec = NULL;
    ck_assert_int_eq(spec_fixture_try(&f, wrong[_i].sets, &spec), CADRE_E_INVALID);
    ck_assert_msg(strstr(f.err.text, wrong[_i].says) != NULL, "%s", f.err.text);
    ck_assert_ptr_null(spec);
}
END_TEST

START_TEST(two_of_one_level_are_refused)
{
    struct cadre_spec *spec = spec_fixture_make(&f, "strategy.stack=ddp@site:2,ddp:2");
    struct cadre_rank rank;
    ck_assert_int_eq(cadre_rank_plan(&rank, &spec->run, 0, &f.err),
                     CADRE_E_UNSUPPORTED);
    ck_assert_msg(strstr(f.err.text,
                         "'ddp@site' reduces gradients along 'site' and 'ddp' along "
                         "'dp', both at level 0") != NULL,
                  "%s", f.err.text);
    cadre_spec_destroy(spec);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("instance");
    TCase *tc = tcase_create("instance");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, a_plugin_along_its_own_axis, 0, 2);
    tcase_add_loop_test(tc, one_plugin_along_two_axes, 0, 2);
    tcase_add_test(tc, sections_of_other_instances_are_left_alone);
    tcase_add_loop_test(tc, refuses, 0, (int)(sizeof wrong / sizeof *wrong));
    tcase_add_test(tc, two_of_one_level_are_refused);
    suite_add_tcase(suite, tc);
    return suite;
}
