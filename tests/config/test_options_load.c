/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/options.h"

#include <stdlib.h>
#include <string.h>

#include "tests/config/options_fixture.h"

static const struct options_wrong wrong[] = {
    {"[train]\nstep = 3\n", "x.ini:2: unknown option train.step, the nearest is "
                            "train.steps"},
    {"[trian]\nsteps = 3\n", "unknown option trian.steps, the nearest is train.steps"},
    {"[modle]\n", "x.ini:1: unknown section [modle], the nearest is [model]"},
    {"[fsdp]\nsharding = full\n",
     "x.ini:2: unknown section [fsdp]: FSDP is zero with zero.stage = 3"},
    {"[train]\nlr = 1\n", "unknown option train.lr, the nearest is optim.lr"},
    {"[qqqqqq]\nzzz = 3\n", "unknown section [qqqqqq]"},
    {"[train]\nqqqqqqqqqqqq = 3\n", "none is like it"},
    {"[run:a]\nsteps = 3\n", "x.ini:2: 'steps' in [run:a]: expected section.key = "
                             "value"},
    {"[run:]\ntrain.steps = 3\n", "is not a run's name"},
    {"[compare]\nrepeats = 3\n",
     "x.ini:2: there is no option compare.repeats any more: "},
    {"[compare]\nrepeats = 3\n", "whose number is compare.rounds"},
    {"[run:a]\ntrain.stepz = 3\n", "x.ini:2, [run:a]: unknown option train.stepz"},
    {"[run:a]\ntrain.steps = x\n", "x.ini:2, [run:a]: train.steps: expected"},
    {"[run:a]\ncompare.warmup = 3\n",
     "x.ini:2, [run:a]: compare.warmup cannot differ between runs"},
};

/* Each wrong key gives one line that says where, and what is near. */
START_TEST(wrong_inputs_are_one_useful_line)
{
    options_refused(wrong, sizeof wrong / sizeof *wrong);
}
END_TEST

START_TEST(extends_reads_the_base_first)
{
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    free(options_file("base.ini", "[train]\nsteps = 1\nepochs = 2\n"));
    free(options_file("sub/mid.ini",
                      "[run]\nextends = ../base.ini\n[train]\nsteps = 3\n"));
    must(options_load_text(
             o, "[train]\nmicro_batch = 2\n[run]\nextends = sub/mid.ini\n", &err),
         &err);
    must(cadre_options_resolve(o, &err), &err);
    ck_assert_int_eq(cadre_options_value(o, "train.steps")->i, 3);
    ck_assert_int_eq(cadre_options_value(o, "train.epochs")->i, 2);
    ck_assert_int_eq(cadre_options_value(o, "train.micro_batch")->i, 2);
    ck_assert_ptr_nonnull(
        strstr(cadre_options_source(o, "train.epochs"), "base.ini:3"));
    cadre_options_destroy(o);
}
END_TEST

/* The value that x.ini gives to a key. */
static void finds(const char *text, const char *key, const char *expected)
{
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    must(options_load_text(o, text, &err), &err);
    ck_assert_str_eq(cadre_options_raw(o, key), expected);
    cadre_options_destroy(o);
}

START_TEST(paths_stand_beside_their_file)
{
    char *beside = options_file("data.txt", "x");
    finds("[data]\npath = data.txt\n", "data.path", beside);
    finds("[data]\ntokenizer = data.txt\n", "data.tokenizer", beside);
    finds("[model]\ninit = data.txt\n", "model.init", beside);
    finds("[data]\npath = none.txt\n", "data.path", "none.txt");
    finds("[data]\nlead = data.txt\n", "data.lead", "data.txt"); /* no path */
    free(beside);
}
END_TEST

START_TEST(extends_refuses_circles_and_gaps)
{
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    free(options_file("b.ini", "[run]\nextends = ./x.ini\n"));
    ck_assert_int_eq(options_load_text(o, "[run]\nextends = b.ini\n", &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "goes round in a circle"));
    ck_assert_int_eq(options_load_text(o, "[run]\nextends = x.ini\n", &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "goes round in a circle"));
    ck_assert_int_eq(options_load_text(o, "[run]\nextends = gone.ini\n", &err),
                     CADRE_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "x.ini:2: run.extends: cannot open"));
    free(options_file("bad.ini", "[s]\noops\n"));
    ck_assert_int_eq(options_load_text(o, "[run]\nextends = bad.ini\n", &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "bad.ini:2: 'oops' is not understood"));
    cadre_options_destroy(o);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("options_load");
    TCase *tc = options_case("options_load");
    tcase_add_test(tc, wrong_inputs_are_one_useful_line);
    tcase_add_test(tc, extends_reads_the_base_first);
    tcase_add_test(tc, paths_stand_beside_their_file);
    tcase_add_test(tc, extends_refuses_circles_and_gaps);
    suite_add_tcase(s, tc);
    return s;
}
