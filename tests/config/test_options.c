/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/memory.h"
#include "core/config/options.h"

#include <stdlib.h>
#include <string.h>

#include "tests/config/options_fixture.h"

START_TEST(defaults_resolve)
{
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    must(cadre_options_resolve(o, &err), &err);
    ck_assert_int_eq(cadre_options_value(o, "run.seed")->i, 1337);
    ck_assert_str_eq(cadre_options_value(o, "strategy.stack")->text, "single");
    ck_assert_double_eq(cadre_options_value(o, "optim.beta2")->f, 0.95);
    ck_assert(!cadre_options_value(o, "run.exact")->i);
    ck_assert_str_eq(cadre_options_source(o, "run.seed"), "default");
    ck_assert_ptr_null(cadre_options_source(o, "run.sed"));
    ck_assert_ptr_null(cadre_options_raw(o, "run.sed"));
    cadre_options_destroy(o);
    cadre_options_destroy(NULL);
}
END_TEST

START_TEST(later_sources_win)
{
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    must(options_load_text(o, "[train]\nsteps = 7\n\n[optim]\nLR = 3e-4\n", &err),
         &err);
    must(cadre_options_set(o, "train.steps=9", "environment CADRE_X", &err), &err);
    must(cadre_options_set(o, "Train.Steps = 11 ", "command line", &err), &err);
    ck_assert_str_eq(cadre_options_raw(o, "optim.lr"), "3e-4");
    must(cadre_options_resolve(o, &err), &err);
    ck_assert_int_eq(cadre_options_value(o, "train.steps")->i, 11);
    ck_assert_str_eq(cadre_options_source(o, "train.steps"), "command line");
    const char *source = cadre_options_source(o, "optim.lr");
    ck_assert_str_eq(source + strlen(source) - strlen("x.ini:5"), "x.ini:5");
    cadre_options_destroy(o);
}
END_TEST

START_TEST(plugin_sections_wait_for_their_specs)
{
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    must(options_load_text(o, "[zero]\nstage = 3\nbucket = 64k\n[mig]\nmode = x\n",
                           &err),
         &err);
    ck_assert_str_eq(cadre_options_raw(o, "zero.stage"), "3");
    ck_assert_int_eq(cadre_options_resolve(o, &err), CADRE_E_INVALID);
    must(cadre_options_add(o, "zero", zero_options, 3, sizeof *zero_options, &err),
         &err);
    must(cadre_options_add(o, "zero", zero_options, 3, sizeof *zero_options, &err),
         &err);
    ck_assert_int_eq(cadre_options_resolve(o, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "mig"));
    must(cadre_options_allow_section(o, "mig", &err), &err);
    must(cadre_options_resolve(o, &err), &err);
    ck_assert_int_eq(cadre_options_value(o, "zero.stage")->i, 3);
    ck_assert_int_eq(cadre_options_value(o, "zero.bucket")->i, 65536);
    ck_assert(!cadre_options_value(o, "zero.offload")->i);

    struct cadre_option other = zero_options[0];
    other.def = "2";
    ck_assert_int_eq(cadre_options_add(o, "zero", &other, 1, sizeof other, &err),
                     CADRE_E_INVALID);
    other.key = "broken";
    other.def = "9";
    ck_assert_int_eq(cadre_options_add(o, "zero", &other, 1, sizeof other, &err),
                     CADRE_E_INVALID);
    cadre_options_destroy(o);
}
END_TEST

/* An instance's section follows the plugin's, and those of other stacks may stand
 * there. */
START_TEST(sections_of_instances)
{
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    char section[] = "zero@site";
    must(cadre_options_add(o, "zero", zero_options, 3, sizeof *zero_options, &err),
         &err);
    must(cadre_options_add(o, section, zero_options, 3, sizeof *zero_options, &err),
         &err);
    memset(section, 'x', sizeof section - 1); /* its name was copied */
    must(cadre_options_set(o, "zero.stage=3", "one", &err), &err);
    must(cadre_options_set(o, "zero@site.bucket=1k", "two", &err), &err);
    must(cadre_options_resolve(o, &err), &err);
    ck_assert_int_eq(cadre_options_value(o, "zero@site.stage")->i, 3);
    ck_assert_int_eq(cadre_options_value(o, "zero@site.bucket")->i, 1024);
    ck_assert_int_eq(cadre_options_value(o, "zero.bucket")->i, 25 << 20);
    ck_assert_str_eq(cadre_options_source(o, "zero@site.stage"), "one");
    struct cadre_options *copy = cadre_options_clone(o);
    cadre_options_destroy(o);
    ck_assert_int_eq(cadre_options_value(copy, "zero@site.stage")->i, 3);

    must(cadre_options_allow_section(copy, "zero@", &err), &err);
    must(cadre_options_set(copy, "strategy.stack=ddp:2,zero@home:2", "three", &err),
         &err);
    must(cadre_options_set(copy, "strategy.stack=zero@site:2", "four", &err), &err);
    must(cadre_options_set(copy, "zero@home.any=thing", "three", &err), &err);
    must(cadre_options_resolve(copy, &err), &err);
    must(cadre_options_set(copy, "zero@site.any=thing", "four", &err), &err);
    ck_assert_int_eq(cadre_options_resolve(copy, &err), CADRE_E_INVALID);
    cadre_options_destroy(copy);
}
END_TEST

/* Of instances that no stack has ever named, also not as a part of a name. */
START_TEST(sections_of_no_instance_are_refused)
{
    static const struct {
        const char *stack, *text, *says;
    } cases[] = {
        {"zero@site:2, zero:2", "[zero@sites]\nstage = 2\n",
         "unknown section [zero@sites], the nearest is [zero@site]: correct it, or "
         "name the plugin"},
        {"zero@site:2", "[zero@sit]\n", "unknown section [zero@sit], the nearest is"},
        {"zero@site", "[zero@elsewhere]\nstage = 2\n",
         "unknown section [zero@elsewhere]: correct it"},
        {"zero@zero, zero@site:2", "[zero@zero]\nstage = 2\n",
         "unknown section [zero@zero]"},
        {"single", "[run:a]\nstrategy.stack = zero@home:2\n[zero@home]\nstage = 2\n",
         NULL},
        {"single", "[run:a]\nstrategy.stack = zero@homes:2\n[zero@home]\n",
         "unknown section [zero@home]"},
    };
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    char *text =
        cadre_format("[strategy]\nstack = %s\n%s", cases[_i].stack, cases[_i].text);
    must(cadre_options_add(o, "zero", zero_options, 3, sizeof *zero_options, &err),
         &err);
    must(cadre_options_add(o, "zero@site", zero_options, 3, sizeof *zero_options, &err),
         &err);
    must(cadre_options_allow_section(o, "zero@", &err), &err);
    must(options_load_text(o, text, &err), &err);
    free(text);
    cadre_status rc = cadre_options_resolve(o, &err);
    ck_assert_int_eq(rc, cases[_i].says ? CADRE_E_INVALID : CADRE_OK);
    ck_assert_msg(!cases[_i].says || strstr(err.text, cases[_i].says), "%s", err.text);
    cadre_options_destroy(o);
}
END_TEST

START_TEST(sections_of_no_plugin_are_refused)
{
    static const char *const sets[] = {"zerro@site.stage=2", "zero@.stage=2",
                                       "train@site.steps=2"};
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    must(cadre_options_allow_section(o, "zero", &err), &err);
    must(cadre_options_allow_section(o, "zero@", &err), &err);
    must(cadre_options_set(o, sets[_i], "test", &err), &err);
    ck_assert_int_eq(cadre_options_resolve(o, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "test: unknown"), "%s", err.text);
    cadre_options_destroy(o);
}
END_TEST

START_TEST(clone_is_independent)
{
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    must(options_load_text(o, "[train]\nsteps = 7\n[run:a]\ntrain.steps = 8\n", &err),
         &err);
    must(cadre_options_resolve(o, &err), &err);
    struct cadre_options *copy = cadre_options_clone(o);
    ck_assert_int_eq(cadre_options_value(copy, "train.steps")->i, 7);
    must(cadre_options_apply_run(copy, "a", &err), &err);
    cadre_options_destroy(o);
    must(cadre_options_resolve(copy, &err), &err);
    ck_assert_int_eq(cadre_options_value(copy, "train.steps")->i, 8);
    cadre_options_destroy(copy);
}
END_TEST

START_TEST(wrong_assignments_are_refused)
{
    static const char *const cases[] = {
        "",
        "train.steps",
        "steps=3",
        "=3",
        ".steps=3",
        "train.=3",
        "a=b.c",
        "a b.c=1",
        "run:a.b=1",
        " =",
        "run.name=a\nb",
        "run.name=\xff",
        "run.name=';\"",
    };
    struct cadre_options *o = options_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cadre_error err = {0};
        cadre_status rc = cadre_options_set(o, cases[i], "command line", &err);
        ck_assert_msg(rc == CADRE_E_INVALID, "accepted: %s", cases[i]);
        ck_assert_ptr_eq(strstr(err.text, "command line: "), err.text);
    }
    struct cadre_error err = {0};
    must(cadre_options_set(o, "train.stps=3", "command line", &err), &err);
    ck_assert_int_eq(cadre_options_resolve(o, &err), CADRE_E_INVALID);
    ck_assert_str_eq(err.text,
                     "command line: unknown option train.stps, the nearest is "
                     "train.steps: correct it ('cadre options' lists all)");
    cadre_options_destroy(o);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("options");
    TCase *tc = options_case("options");
    tcase_add_test(tc, defaults_resolve);
    tcase_add_test(tc, later_sources_win);
    tcase_add_test(tc, plugin_sections_wait_for_their_specs);
    tcase_add_test(tc, sections_of_instances);
    tcase_add_loop_test(tc, sections_of_no_instance_are_refused, 0, 6);
    tcase_add_loop_test(tc, sections_of_no_plugin_are_refused, 0, 3);
    tcase_add_test(tc, clone_is_independent);
    tcase_add_test(tc, wrong_assignments_are_refused);
    suite_add_tcase(s, tc);
    return s;
}
