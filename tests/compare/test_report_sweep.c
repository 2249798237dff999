/* SPDX-License-Identifier: Apache-2.0 */
/* What a report says of runs that are made of instances. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "core/compare/report/report.h"
#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_comparison c;
static struct cadre_text text;

static void setup(void)
{
    const struct fixture_run runs[] = {
        {.name = "base", .step_s = 0.4},
        {.name = "<two>", .ranks = 2, .step_s = 0.5, .instances = 2},
    };
    dir = test_tmpdir();
    fixture_judge(dir, runs, 2, NULL, &c);
}

static void teardown(void)
{
    cadre_comparison_fini(&c);
    cadre_text_fini(&text);
    text = (struct cadre_text){0};
    test_tmpdir_destroy(dir);
}

static bool has(const char *needle)
{
    return strstr(cadre_text_str(&text), needle) != NULL;
}

START_TEST(html_has_a_line_an_instance)
{
    cadre_report_instances(&c, &text);
    ck_assert(has("<h2>Instances</h2>") && has("&lt;two&gt;") && !has("<two>"));
    ck_assert(has(">1 (best)<") && has(">0<"));
    ck_assert(has("optim.lr = 0") && has("optim.lr = 1"));
    cadre_report_html(&c, &text);
    ck_assert(has("&lt;two&gt;, instance 0") && has("&lt;two&gt;, instance 1"));
    cadre_text_fini(&text);
    c.run[1].instances = 0;
    cadre_report_instances(&c, &text);
    ck_assert_uint_eq(text.len, 0);
}
END_TEST

START_TEST(html_is_well_formed)
{
    char command[1200];
    if (system("command -v xmllint >/dev/null 2>&1") != 0)
        test_skip("xmllint is not installed");
    struct cadre_error err = {0};
    free(c.run[1].name);
    c.run[1].name = strdup("two");
    ck_assert_int_eq(cadre_report_write(&c, dir, &err), CADRE_OK);
    snprintf(command, sizeof command, "xmllint --noout '%s/report.html'", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(json_has_instances_and_formula)
{
    cadre_report_json(&c, &text);
    json_t *root = json_loads(cadre_text_str(&text), JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(root);
    const json_t *formulas = json_object_get(root, "formulas");
    const char *sweep = json_string_value(json_object_get(formulas, "independent"));
    ck_assert_ptr_nonnull(sweep);
    ck_assert_ptr_nonnull(strstr(sweep, "sum of the instances' tokens/s"));
    const json_t *run = json_array_get(json_object_get(root, "runs"), 1);
    const json_t *list = json_object_get(run, "instances");
    ck_assert_uint_eq(json_array_size(list), 2);
    const json_t *options = json_object_get(json_array_get(list, 1), "options");
    ck_assert_str_eq(json_string_value(json_object_get(options, "optim.lr")), "1");
    ck_assert_str_eq(json_string_value(json_object_get(run, "equal")), "independent");
    ck_assert(json_is_true(json_object_get(root, "equal")));
    json_decref(root);
}
END_TEST

START_TEST(words_say_what_instances_did)
{
    cadre_report_sentences(&c, &text);
    ck_assert(has("<two>: 2 independent runs, together 1.60 times the tokens per "
                  "second of base (single), not ranked."));
    cadre_report_notes(&c, &text);
    ck_assert(has("<two> is 2 trainings, which are compared with nothing; its losses "
                  "are those of the best, instance 1."));
    ck_assert(!has("it differs in"));
    ck_assert_str_eq(cadre_report_where(&c), CADRE_FORMULA_WHERE);
    c.whole = true;
    ck_assert_str_eq(cadre_report_where(&c), CADRE_FORMULA_WHOLE);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("report_sweep");
    TCase *tc = tcase_create("instances");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, html_has_a_line_an_instance);
    tcase_add_test(tc, html_is_well_formed);
    tcase_add_test(tc, json_has_instances_and_formula);
    tcase_add_test(tc, words_say_what_instances_did);
    suite_add_tcase(suite, tc);
    return suite;
}
