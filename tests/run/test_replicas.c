/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/replicas.h"

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

/* The stack stays as it was asked for. */
START_TEST(averaged_instances_are_replicas_of_ddp)
{
    struct cadre_spec *spec =
        spec_fixture_make(&f, "strategy.stack=pipeline:2,mig:2 ddp.bucket_mb=3");
    const struct cadre_run_spec *run = &spec->run;
    struct cadre_rank rank;
    ck_assert_str_eq(spec->stack, "pipeline:2, mig:2");
    ck_assert_int_eq(run->ranks, 4);
    ck_assert_int_eq(run->n_plugins, 3);
    ck_assert_str_eq(run->plugin[1]->name, "mig");
    ck_assert_str_eq(run->plugin[2]->name, "ddp");
    ck_assert_str_eq(run->axis[2].name, "mig");
    ck_assert_str_eq(run->instance[2].name, "ddp@mig");
    ck_assert_str_eq(run->instance[2].axis, "mig");
    ck_assert_str_eq(cadre_options_raw(spec->options, "ddp@mig.bucket_mb"), "3");
    ck_assert_int_eq(cadre_rank_plan(&rank, run, 1, &f.err), CADRE_OK);
    struct cadre_axis *axis = cadre_mesh_axis(&rank.mesh, "mig");
    ck_assert_int_eq(rank.mesh.n, 2);
    ck_assert_str_eq(axis->name, "mig");
    ck_assert_int_eq(axis->index, 1);
    ck_assert(axis->split_batch);
    ck_assert_int_eq(rank.plan.n_reducers, 1);
    ck_assert_str_eq(rank.plan.reducer[0].plugin, "ddp@mig");
    ck_assert_ptr_eq(rank.plan.reducer[0].axis, axis);
    ck_assert_int_eq(rank.plan.n_microbatches, 2); /* of four micro-batches */
    cadre_rank_fini(&rank);
    cadre_spec_destroy(spec);
}
END_TEST

START_TEST(an_open_size_is_that_of_both)
{
    f.given_ranks = 4;
    struct cadre_spec *spec = spec_fixture_make(&f, "strategy.stack=mig:*");
    ck_assert_str_eq(spec->stack, "mig:4");
    ck_assert_int_eq(spec->run.axis[1].size, 4);
    cadre_spec_destroy(spec);
    f.given_ranks = 0;
}
END_TEST

START_TEST(independent_instances_are_left_alone)
{
    struct cadre_spec *spec =
        spec_fixture_make(&f, "strategy.stack=mig:2,ddp:2 mig.mode=independent");
    ck_assert_int_eq(spec->run.n_plugins, 2);
    cadre_spec_destroy(spec);
    spec = spec_fixture_make(&f, "strategy.stack=ddp:2 mig.mode=average");
    ck_assert_int_eq(spec->run.n_plugins, 1);
    cadre_spec_destroy(spec);
}
END_TEST

static const struct {
    const char *sets, *says;
} wrong[] = {
    {"strategy.stack=mig:2,ddp:2", "'mig' and 'ddp' both take the axis 'dp' (mig.mode"},
    {"strategy.stack=zero:2,mig:2", "'zero' and 'mig' both take the axis 'dp'"},
    {"strategy.stack=mig:2 ddp.bucket=3", "ddp.bucket"},
    {"strategy.stack=mig:2 mig.mode=avrage", "mig.mode"},
};

START_TEST(refuses)
{
    struct cadre_spec *spec = NULL;
    ck_assert_int_eq(spec_fixture_try(&f, wrong[_i].sets, &spec), CADRE_E_INVALID);
    ck_assert_msg(strstr(f.err.text, wrong[_i].says) != NULL, "%s", f.err.text);
    ck_assert_ptr_null(spec);
}
END_TEST

START_TEST(there_is_no_room_for_more)
{
    struct cadre_spec *spec =
        spec_fixture_make(&f, "strategy.stack=mig:1 mig.mode=independent");
    struct cadre_run_spec *run = &spec->run;
    ck_assert_int_eq(cadre_options_set(spec->options, "mig.mode=average", "x", &f.err),
                     CADRE_OK);
    for (run->n_plugins = 1; run->n_plugins < CADRE_MAX_STACK; run->n_plugins++) {
        run->plugin[run->n_plugins] = run->plugin[0];
        run->axis[run->n_plugins] = run->axis[0];
        run->instance[run->n_plugins] = run->instance[0];
    }
    ck_assert_int_eq(cadre_replicas_add(spec, "", &f.err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.err.text, "more than 8 plugins"));
    ck_assert_int_eq(run->n_plugins, CADRE_MAX_STACK);
    cadre_spec_destroy(spec);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("replicas");
    TCase *tc = tcase_create("replicas");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, averaged_instances_are_replicas_of_ddp);
    tcase_add_test(tc, an_open_size_is_that_of_both);
    tcase_add_test(tc, independent_instances_are_left_alone);
    tcase_add_loop_test(tc, refuses, 0, (int)(sizeof wrong / sizeof *wrong));
    tcase_add_test(tc, there_is_no_room_for_more);
    suite_add_tcase(suite, tc);
    return suite;
}
