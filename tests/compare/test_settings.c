/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/settings.h"

#include <stdlib.h>
#include <string.h>

#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_options *options;
static struct cadre_error err;

static void setup(void)
{
    dir = test_tmpdir();
    ck_assert_int_eq(cadre_options_create(&options, &err), CADRE_OK);
    ck_assert_int_eq(cadre_options_set(options, "optim.lr=1e-3", "here", &err),
                     CADRE_OK);
    ck_assert_int_eq(cadre_options_resolve(options, &err), CADRE_OK);
}

static void teardown(void)
{
    cadre_options_destroy(options);
    test_tmpdir_destroy(dir);
}

static cadre_status check(const char *made, bool perturbed)
{
    fixture_write(dir, "config.ini", made);
    return cadre_settings_check(dir, options, perturbed, &err);
}

START_TEST(what_is_trained_is_held)
{
    static const char *const same[] = {
        "[optim]\nlr = 0.001\n",
        "[run]\nname = other\nout = elsewhere\n[train]\nsteps = 7\n",
        "[data]\npath = elsewhere\n[device]\nthreads = 3\n[comm]\nbackend = mpi\n",
        "[run:two]\noptim.lr = 3\n",
        "[bench]\nsteps = 0\nwarmup = 9\ntarget = 0\n",
        "",
    };
    static const char *const other[][2] = {
        {"[optim]\nlr = 0.002\n", "optim.lr = 0.002, and the comparison has 1e-3"},
        {"[run]\nexact = yes\n", "run.exact"},
        {"[strategy]\nstack = ddp:2\n", "strategy.stack = ddp:2"},
        {"[comm]\nlink = 1:2\n", "comm.link"},
        {"[comm]\nnode = 2\n", "comm.node"},
        {"[device]\npace = 0.5\n", "device.pace"},
        {"[balance]\nmicro_batches = measured\n", "balance.micro_batches"},
        {"[bench]\nsteps = 5\n", "folder of a benchmark"},
        {"[Bench]\nTarget = 0.5\n", "folder of a benchmark"},
        {"[train]\nmicro_batch = 99\n", "train.micro_batch"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        ck_assert_msg(check(same[i], false) == CADRE_OK, "%s", err.text);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        ck_assert_int_eq(check(other[i][0], false), CADRE_E_INVALID);
        ck_assert_msg(strstr(err.text, other[i][1]), "%s", err.text);
    }
}
END_TEST

START_TEST(a_perturbation_may_have_another_micro_batch)
{
    ck_assert_int_eq(check("[train]\nmicro_batch = 99\n[run]\nperturb = 3\n", true),
                     CADRE_OK);
    ck_assert_int_eq(check("[optim]\nlr = 3\n", true), CADRE_E_INVALID);
}
END_TEST

START_TEST(no_file_and_a_damaged_one)
{
    ck_assert_int_eq(cadre_settings_check(dir, options, false, &err), CADRE_OK);
    ck_assert_int_eq(check("what is this\n", false), CADRE_E_INVALID);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("settings");
    TCase *tc = tcase_create("settings");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, what_is_trained_is_held);
    tcase_add_test(tc, a_perturbation_may_have_another_micro_batch);
    tcase_add_test(tc, no_file_and_a_damaged_one);
    suite_add_tcase(suite, tc);
    return suite;
}
