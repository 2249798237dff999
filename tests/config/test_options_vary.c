/* SPDX-License-Identifier: Apache-2.0 */
/* compare.vary: its grammar, the runs that it makes and their names. */
#include "core/config/options.h"

#include <stdlib.h>
#include <string.h>

#include "tests/config/options_fixture.h"

/* "a b c": the runs of a set that holds `text`. */
static void runs_of(const char *text, char *out, size_t size)
{
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    char **names = NULL;
    size_t n = 0;
    must(options_load_text(o, text, &err), &err);
    must(cadre_options_vary(o, &err), &err);
    must(cadre_options_list_runs(o, &names, &n, &err), &err);
    *out = 0;
    for (size_t i = 0; i < n; i++)
        snprintf(out + strlen(out), size - strlen(out), "%s%s", i ? " " : "", names[i]);
    free(names);
    cadre_options_destroy(o);
}

static const struct {
    const char *vary, *runs;
} named[] = {
    {"strategy.stack: single | ddp:2 | zero:2; run.seed: 1 2 3",
     "single_seed-1 single_seed-2 single_seed-3 ddp-2_seed-1 ddp-2_seed-2 ddp-2_seed-3 "
     "zero-2_seed-1 zero-2_seed-2 zero-2_seed-3"},
    {"strategy.stack: pipeline:2, zero:2 | ddp:2", "pipeline-2-zero-2 ddp-2"},
    {"Optim.LR: 1e-3 3E-4", "lr-1e-3 lr-3e-4"},
    {"optim.lr: 1; diloco.lr: 2 3", "optim.lr-1_diloco.lr-2 optim.lr-1_diloco.lr-3"},
    /* what has the same letters is numbered */
    {"strategy.stack: ddp:2 | ddp-2 | ddp 2", "ddp-2 ddp-2-2 ddp-2-3"},
    {"data.path: /a/b.txt ../c | *", "path-a-b.txt-c path-x"},
    {"model.init: a-folder-of-a-name-that-is-very-long/step-00000001 "
     "a-folder-of-a-name-that-is-very-long/step-00000002",
     "init-a-folder-of-a-name-that-is-very-long-step-0 "
     "init-a-folder-of-a-name-that-is-very-long-step-0-2"},
};

START_TEST(runs_are_named_by_their_values)
{
    char text[400], runs[400];
    snprintf(text, sizeof text, "[compare]\nvary = \"%s\"\n", named[_i].vary);
    runs_of(text, runs, sizeof runs);
    ck_assert_str_eq(runs, named[_i].runs);
}
END_TEST

START_TEST(sections_of_the_file_stand_first)
{
    char runs[200];
    runs_of("[compare]\nvary = run.seed: 1 2\n[run:other]\nstrategy.stack = single\n",
            runs, sizeof runs);
    ck_assert_str_eq(runs, "other seed-1 seed-2");
    runs_of("[compare]\nvary = run.seed: 1 2\nruns = seed-2\n", runs, sizeof runs);
    ck_assert_str_eq(runs, "seed-2");
}
END_TEST

START_TEST(nothing_is_made_of_nothing)
{
    char runs[200];
    runs_of("[run:one]\nstrategy.stack = single\n", runs, sizeof runs);
    ck_assert_str_eq(runs, "one");
}
END_TEST

START_TEST(a_section_may_add_to_a_run)
{
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    must(options_load_text(o,
                           "[compare]\nvary = run.seed: 1 2\n"
                           "[run:seed-2]\ntrain.steps = 7\nrun.seed = 2\n",
                           &err),
         &err);
    must(cadre_options_vary(o, &err), &err);
    must(cadre_options_vary(o, &err), &err); /* as where config.ini has the sections */
    must(cadre_options_apply_run(o, "seed-2", &err), &err);
    must(cadre_options_resolve(o, &err), &err);
    ck_assert_str_eq(cadre_options_raw(o, "run.seed"), "2");
    ck_assert_str_eq(cadre_options_raw(o, "train.steps"), "7");
    ck_assert_ptr_nonnull(strstr(cadre_options_source(o, "run.seed"), "x.ini:5"));
    must(cadre_options_apply_run(o, "seed-1", &err), &err);
    ck_assert_ptr_nonnull(strstr(cadre_options_source(o, "run.seed"), "x.ini:2"));
    cadre_options_destroy(o);
}
END_TEST

static const struct options_wrong wrong[] = {
    {"[compare]\nvary = run.seed\n", "x.ini:2: compare.vary: found 'run.seed'"},
    {"[compare]\nvary = \"run.seed: 1 2;\"\n", "x.ini:2: compare.vary: found ''"},
    {"[compare]\nvary = run.seed:\n", "compare.vary gives run.seed no value"},
    {"[compare]\nvary = run.seed: 1 2 1\n", "gives run.seed the value 1 twice"},
    {"[compare]\nvary = \"run.seed: 1; Run.Seed: 2\"\n", "names run.seed twice"},
    {"[compare]\nvary = compare.time: yes no\n", "compare.time cannot differ"},
    {"[compare]\nvary = run.seed: 1 | | 2\n", "run.seed has no value in front of"},
    {"[compare]\nvary = \"run.seed: 0 1 2 3 4 5 6 7 8 9; train.steps: 0 1 2 3 4 5 6 7 "
     "8 9; optim.lr: 1 2 3\"\n",
     "makes 300 runs or more, expected at most 256"},
    {"[compare]\nvary = run.seed: 1 2\n[run:seed-2]\nrun.seed = 3\n",
     "makes a run seed-2 with run.seed = 2, and [run:seed-2]"},
    {"[compare]\nvary = run.seed: 1 2; optim.lr: 1\n", "an unquoted ; would truncate"},
};

START_TEST(refuses)
{
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    cadre_status rc = options_load_text(o, wrong[_i].text, &err);
    if (rc == CADRE_OK)
        rc = cadre_options_vary(o, &err);
    ck_assert_int_eq(rc, CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, wrong[_i].expected) != NULL, "%s", err.text);
    ck_assert_msg(strstr(err.text, "x.ini:") != NULL, "%s", err.text);
    cadre_options_destroy(o);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("options_vary");
    TCase *tc = options_case("vary");
    tcase_add_loop_test(tc, runs_are_named_by_their_values, 0,
                        (int)(sizeof named / sizeof *named));
    tcase_add_test(tc, sections_of_the_file_stand_first);
    tcase_add_test(tc, nothing_is_made_of_nothing);
    tcase_add_test(tc, a_section_may_add_to_a_run);
    tcase_add_loop_test(tc, refuses, 0, (int)(sizeof wrong / sizeof *wrong));
    suite_add_tcase(s, tc);
    return s;
}
