/* SPDX-License-Identifier: Apache-2.0 */
/* The box of report.html, and what is named by it. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/compare/report/report.h"
#include "tests/compare/fixture.h"
#include "tests/compare/timed.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_comparison c;
static struct cadre_text text;

static void setup(void)
{
    const struct fixture_run runs[] = {
        {.name = "base", .step_s = 0.4},
        {.name = "equal", .ranks = 8, .step_s = 0.1},
        {.name = "two", .ranks = 2, .step_s = 0.3},
    };
    dir = test_tmpdir();
    fixture_judge(dir, runs, 3, NULL, &c);
    timed_fill(&c, 8);
}

static void teardown(void)
{
    timed_clear(&c);
    cadre_comparison_fini(&c);
    cadre_text_fini(&text);
    text = (struct cadre_text){0};
    test_tmpdir_destroy(dir);
}

static bool has(const char *needle)
{
    return strstr(cadre_text_str(&text), needle) != NULL;
}

static void add_summary(size_t run, const char *key, const char *json)
{
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    ck_assert_ptr_nonnull(value);
    ck_assert_int_eq(json_object_set_new(c.run[run].record.summary, key, value), 0);
}

START_TEST(html_names_the_setup)
{
    c.command = strdup("cadre compare a.ini --set 'run.seed=<3>'");
    add_summary(0, "train_samples_all", "1234");
    add_summary(0, "valid_loss", "1.634");
    cadre_report_html(&c, &text);
    ck_assert(has("<dt>command</dt><dd>cadre compare a.ini --set &#39;run.seed=&lt;3"));
    ck_assert(has("<dt>build</dt><dd>cadre ") && has("<dt>parameters</dt><dd>6</dd>"));
    ck_assert(has("<dt>training samples</dt><dd>1 234</dd>"));
    ck_assert(has("<dt>machine</dt>") && has("<dt>baseline</dt><dd>base</dd>"));
    ck_assert(has("scope=\"col\">valid loss</th>") && has("<td>1.6340</td>"));
    cadre_text_reset(&text);
    json_object_del(c.run[0].record.summary, "valid_loss");
    cadre_report_html(&c, &text);
    ck_assert(!has("valid loss")); /* what no run has is no column */
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("report_setup");
    TCase *tc = tcase_create("report_setup");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, html_names_the_setup);
    suite_add_tcase(suite, tc);
    return suite;
}
