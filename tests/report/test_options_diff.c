/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/options_diff.h"

#include <string.h>

#include "tests/report/report_fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_run_data data[2];
static const struct cadre_run_data *const both[] = {&data[0], &data[1]};
static struct cadre_options_diff diff;
static struct cadre_error err;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    cadre_options_diff_fini(&diff);
    for (int i = 0; i < 2; i++)
        cadre_run_data_fini(&data[i]);
    test_tmpdir_destroy(dir);
}

static void read_runs(const char *first, const char *second, const char *fingerprint)
{
    const struct report_run runs[] = {
        {.name = "a", .config = first},
        {.name = "b", .config = second, .fingerprint = fingerprint}};
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(cadre_run_data_read(report_run(dir, &runs[i]), &data[i], &err),
                         CADRE_OK);
}

START_TEST(only_what_differs_is_listed)
{
    read_runs("[optim]\nlr = 0.001\nname = adamw\n[compare]\nruns = x\n",
              "[optim]\nlr = 1e-3\nname = sgd\nmomentum = 0.9\n[run:x]\noptim.lr = 3\n",
              NULL);
    cadre_options_diff_fill(&diff, both, 2);
    ck_assert_uint_eq(diff.n, 3);
    ck_assert_str_eq(diff.key[0], "data.path");
    ck_assert_str_eq(diff.key[1], "optim.name");
    ck_assert_str_eq(diff.key[2], "optim.momentum");
}
END_TEST

START_TEST(what_a_plugin_brings_by_default_is_not_listed)
{
    read_runs("[optim]\n# (default)\nlr = 0.001\n",
              "[optim]\n# (default)\nlr = 2e-3\n[zero]\n# (x.ini:3)\nstage = 3\n"
              "# (default)\nlevel = 0\n",
              NULL);
    cadre_options_diff_fill(&diff, both, 2);
    ck_assert_uint_eq(diff.n, 3);
    ck_assert_str_eq(diff.key[0], "data.path");
    ck_assert_str_eq(diff.key[1], "optim.lr"); /* the default of another version */
    ck_assert_str_eq(diff.key[2], "zero.stage");
}
END_TEST

/* Whether a run goes on in its own folder makes no difference; another run does. */
START_TEST(going_on_is_not_listed)
{
    read_runs("[checkpoint]\nresume = no\n", "[checkpoint]\nresume = auto\n", NULL);
    cadre_options_diff_fill(&diff, both, 2);
    ck_assert_uint_eq(diff.n, 1);
    ck_assert_str_eq(diff.key[0], "data.path");
}
END_TEST

START_TEST(going_on_from_another_run_is_listed)
{
    read_runs("[checkpoint]\nresume = no\n", "[checkpoint]\nresume = runs/x\n", NULL);
    cadre_options_diff_fill(&diff, both, 2);
    ck_assert_uint_eq(diff.n, 2);
    ck_assert_str_eq(diff.key[1], "checkpoint.resume");
}
END_TEST

static const struct {
    const char *first, *second, *fingerprint, *why; /* why NULL: the same training */
} cases[] = {
    {"", "", "f", NULL}, /* with another path */
    {"", "[device]\nthreads = 3\n[zero]\nstage = 3\n", "f", NULL},
    {"", "", "g", "the contents of its data, data.path"},
    {"[run]\nseed = 1\n", "[run]\nseed = 2\n", "f", "data.path, run.seed"},
    {"[optim]\nlr = 1\n", "[optim]\nlr = 2\n", "f", "optim.lr"},
};

START_TEST(another_training_is_told)
{
    char why[200];
    read_runs(cases[_i].first, cases[_i].second, cases[_i].fingerprint);
    bool same = cadre_options_diff_same_training(both[0], both[1], why, sizeof why);
    ck_assert_msg(same == !cases[_i].why, "%s", why);
    ck_assert_str_eq(why, cases[_i].why ? cases[_i].why : "");
}
END_TEST

START_TEST(without_options_nothing_is_known)
{
    char why[200];
    read_runs("", "", NULL);
    cadre_ini_fini(&data[1].config);
    data[1].config.n = 0;
    ck_assert(!cadre_options_diff_same_training(both[0], both[1], why, sizeof why));
    ck_assert_ptr_nonnull(strstr(why, "config.ini"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("options_diff");
    TCase *tc = tcase_create("options_diff");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, only_what_differs_is_listed);
    tcase_add_test(tc, what_a_plugin_brings_by_default_is_not_listed);
    tcase_add_test(tc, going_on_is_not_listed);
    tcase_add_test(tc, going_on_from_another_run_is_listed);
    tcase_add_loop_test(tc, another_training_is_told, 0,
                        (int)(sizeof cases / sizeof *cases));
    tcase_add_test(tc, without_options_nothing_is_known);
    suite_add_tcase(s, tc);
    return s;
}
