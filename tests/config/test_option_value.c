/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/option_value.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

#include "tests/config/options_fixture.h"

static const struct options_wrong wrong[] = {
    {"[train]\nsteps = 10x\n", "x.ini:2: train.steps: expected a whole number from 0"},
    {"[train]\nsteps = 010\n", "found '010'"},
    {"[train]\nsteps = 0x10\n", "found '0x10'"},
    {"[train]\nsteps = 1e3\n", "found '1e3'"},
    {"[train]\nsteps = 1.0\n", "found '1.0'"},
    {"[train]\nsteps =\n", "found ''"},
    {"[train]\nsteps = -1\n", "out of range"},
    {"[train]\nsteps = 99999999999999999999\n", "does not fit in 64 bits"},
    {"[train]\nsteps = 1 2\n", "found '1 2'"},
    {"[run]\nseed = -1\n", "run.seed: expected a whole number"},
    {"[optim]\nlr = fast\n", "optim.lr: expected a number from 0 to 1000"},
    {"[optim]\nlr = nan\n", "found 'nan'"},
    {"[optim]\nlr = inf\n", "found 'inf'"},
    {"[optim]\nlr = 0x1p3\n", "found '0x1p3'"},
    {"[optim]\nlr = 1e999\n", "does not fit in a double"},
    {"[optim]\nlr = 1e\n", "found '1e'"},
    {"[optim]\nlr = .\n", "found '.'"},
    {"[optim]\nlr = 1,5\n", "found '1,5'"},
    {"[optim]\nbeta1 = 1.5\n", "out of range"},
    {"[run]\nexact = maybe\n", "run.exact: expected yes or no, found 'maybe'"},
    {"[model]\narch = gtp2\n",
     "expected one of gpt2, llama, vit, found 'gtp2' (nearest: gpt2)"},
    {"[model]\narch = GPT2\n", "nearest: gpt2"},
    {"[model]\narch =\n", "expected one of gpt2, llama, vit, found ''"},
    {"[zero]\nbucket = 25MB\n", "expected a size such as 4096, 64k, 25M or 1G"},
    {"[zero]\nbucket = -1k\n", "found '-1k'"},
    {"[zero]\nbucket = 9999999999G\n", "does not fit in 64 bits"},
    {"[zero]\nbucket = 2T\n", "out of range"},
    {"[zero]\nstage = 4\n", "zero.stage: expected a whole number from 1 to 3, found "
                            "'4' (out of range)"},
};

/* Each wrong value gives one line that says where, what was expected and what was
 * found. */
START_TEST(wrong_inputs_are_one_useful_line)
{
    options_refused(wrong, sizeof wrong / sizeof *wrong);
}
END_TEST

START_TEST(good_values_of_every_type)
{
    static const struct {
        const char *text;
        double value;
    } numbers[] = {{"1", 1},       {"-0", 0},    {"+2.5", 2.5}, {".5", 0.5},
                   {"1e-3", 1e-3}, {"1E2", 100}, {"0.1", 0.1},  {"007.5", 7.5}};
    static const char *const yes[] = {"yes", "true", "on", "1", "YES", "True"};
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char *text = cadre_format("optim.lr=%s", numbers[i].text);
        must(cadre_options_set(o, text, "test", &err), &err);
        must(cadre_options_resolve(o, &err), &err);
        ck_assert_double_eq(cadre_options_value(o, "optim.lr")->f, numbers[i].value);
        free(text);
    }
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        char *text = cadre_format("run.exact=%s", yes[i]);
        must(cadre_options_set(o, text, "test", &err), &err);
        must(cadre_options_resolve(o, &err), &err);
        ck_assert(cadre_options_value(o, "run.exact")->i);
        free(text);
    }
    must(cadre_options_set(o, "run.seed=9223372036854775807", "test", &err), &err);
    must(cadre_options_resolve(o, &err), &err);
    ck_assert_int_eq(cadre_options_value(o, "run.seed")->i, INT64_MAX);
    cadre_options_destroy(o);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("option_value");
    TCase *tc = options_case("option_value");
    tcase_add_test(tc, wrong_inputs_are_one_useful_line);
    tcase_add_test(tc, good_values_of_every_type);
    suite_add_tcase(s, tc);
    return s;
}
