/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/report/report.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

static const char HOSTILE[] = "<b>\"x\",&'";
static char *dir;
static struct cadre_comparison c;
static struct cadre_text text;

/* A baseline, an equal run that is unfair, and one that differs and has a bad name. */
static void setup(void)
{
    const struct fixture_run runs[] = {
        {.name = "base", .step_s = 0.4},
        {.name = "equal",
         .ranks = 8,
         .step_s = 0.1,
         .loss_shift = 1e-6,
         .passes = true},
        {.name = HOSTILE, .ranks = 2, .step_s = 0.3, .loss_shift = 1},
    };
    const struct fixture_run rounding = {.name = "r", .loss_shift = 1e-6};
    dir = test_tmpdir();
    fixture_judge(dir, runs, 3, &rounding, &c);
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

static const json_t *at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(value != NULL, "%s", key);
    return value;
}

START_TEST(json_holds_what_is_promised)
{
    static const char *const keys[] = {
        "name",       "stack",       "ranks",           "device",         "steps",
        "tokens",     "time_s",      "tokens_per_s",    "loss_first",     "loss_last",
        "peak_bytes", "comm_bytes",  "params",          "speedup",        "efficiency",
        "overhead_s", "fair",        "loss_max_diff",   "param_max_diff", "equal",
        "limit",      "certificate", "bubble_fraction", "bubble_replayed"};
    static const char *const certificate[] = {"strategy",   "layout",     "steps",
                                              "loss_chain", "param_hash", "ulp_max",
                                              "verdict"};
    cadre_report_json(&c, &text);
    json_t *root = json_loads(cadre_text_str(&text), JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(root);
    ck_assert_str_eq(json_string_value(at(root, "baseline")), "base");
    ck_assert_str_eq(json_string_value(at(at(root, "formulas"), "speedup")),
                     "speedup = T_base / T_run");
    at(root, "machine");
    const json_t *runs = at(root, "runs");
    ck_assert_uint_eq(json_array_size(runs), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *run = json_array_get(runs, i);
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
            at(run, keys[k]);
        for (size_t k = 0; k < sizeof certificate / sizeof certificate[0]; k++)
            at(at(run, "certificate"), certificate[k]);
    }
    const json_t *equal = json_array_get(runs, 1), *other = json_array_get(runs, 2);
    ck_assert(json_is_false(at(equal, "fair")));
    ck_assert(json_number_value(at(equal, "speedup")) == 4);
    ck_assert(json_number_value(at(equal, "efficiency")) == 0.5);
    ck_assert(json_number_value(at(equal, "tokens_per_s")) == 1000);
    ck_assert_uint_eq(json_array_size(at(equal, "peak_bytes")), 8);
    ck_assert_str_eq(json_string_value(at(equal, "equal")), "within");
    ck_assert(fabs(json_number_value(at(equal, "bubble_replayed")) - 1.0 / 3) < 1e-12);
    ck_assert(json_is_null(at(other, "bubble_replayed")));
    ck_assert_str_eq(json_string_value(at(other, "name")), HOSTILE);
    ck_assert_str_eq(json_string_value(at(other, "equal")), "differs");
    ck_assert(json_is_false(at(root, "fair")) && json_is_false(at(root, "equal")));
    json_decref(root);
}
END_TEST

/* Fields of a line of RFC 4180. */
static size_t fields(const char *line)
{
    size_t n = 1;
    bool quoted = false;
    for (; *line && (quoted || *line != '\r'); line++) {
        quoted ^= *line == '"';
        n += *line == ',' && !quoted;
    }
    return n;
}

START_TEST(csv_has_equal_lines)
{
    cadre_report_csv(&c, &text);
    const char *line = cadre_text_str(&text);
    size_t columns = fields(line), lines = 0;
    ck_assert_uint_eq(columns, 29);
    for (; *line; line = strchr(line, '\n') + 1, lines++)
        ck_assert_uint_eq(fields(line), columns);
    ck_assert_uint_eq(lines, 4);
    ck_assert(has("\r\n\"<b>\"\"x\"\",&'\",ddp:2,2,"));
    ck_assert(has(",within,measured,false,"));
    ck_assert(has(",differs,measured,true,"));
}
END_TEST

START_TEST(csv_disarms_formulas)
{
    free(c.run[0].name);
    c.run[0].name = strdup("=1+1");
    cadre_report_csv(&c, &text);
    ck_assert(has("\r\n'=1+1,"));
}
END_TEST

START_TEST(html_is_one_page_with_escaped_names)
{
    cadre_report_html(&c, &text);
    ck_assert(!has("<b>") && has("&lt;b&gt;&quot;x&quot;,&amp;&#39;"));
    ck_assert(has("<!DOCTYPE html>") && has("</html>"));
    ck_assert(!has("<script") && !has("src=") && !has("href=") && !has("@import"));
    ck_assert(has("fair = false") && has("class=\"l w bad\">differs"));
    ck_assert(has(CADRE_FORMULA_EFFICIENCY) && has("Training loss"));
}
END_TEST

/* The run with a schedule, and that alone, has a row of figures and a drawn step. */
START_TEST(html_draws_schedules)
{
    cadre_report_schedules(&c, &text);
    ck_assert(has("<td>2</td><td>0.0 %</td><td>33.3 %</td>"));
    ck_assert(has("equal: step 9, bubble 36.8 %"));
    ck_assert(has("backward of micro-batch 1, chunk 0: 2e+03 ms"));
    ck_assert(has(">rank 0</text>") && has(">rank 2</text>") && !has(">rank 1</text>"));
    int boxes = 0;
    for (const char *at = text.data; (at = strstr(at, "<g><title>")); at++)
        boxes++;
    ck_assert_int_eq(boxes, 8);
    cadre_text_reset(&text);
    c.n = 1;
    cadre_report_schedules(&c, &text);
    ck_assert_uint_eq(text.len, 0);
    c.n = 3;
}
END_TEST

START_TEST(html_is_well_formed)
{
    char command[1200];
    if (system("command -v xmllint >/dev/null 2>&1") != 0)
        test_skip("xmllint is not installed");
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_report_write(&c, dir, &err), CADRE_OK);
    snprintf(command, sizeof command, "xmllint --noout '%s/report.html'", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(table_says_who_was_faster_and_who_differs)
{
    cadre_report_table(&c, &text);
    for (char *end = text.data; (end = strchr(end, '\n'));)
        *end = ' '; /* where it is broken is another matter */
    ck_assert(has("equal (ddp:8) was fastest: 4.00 times as fast as base (single), "
                  "efficiency 50 % on 8 ranks (unfair)."));
    ck_assert(has("did NOT train the same as base: the loss at step 1"));
    ck_assert(has("fair: false for equal: 8 ranks of 1 core each, but there are 4"));
    ck_assert(has("equal: bubble 0.0 % of the schedule's span, 33.3 % where its passes "
                  "are replayed without delays."));
    ck_assert(has("equal (unfair)") && has(CADRE_FORMULA_OVERHEAD));
    ck_assert(has("93.2 times what rounding changes in 3 more runs of base (with "
                  "train.micro_batch = 2, and 2 from parameters moved"));
    ck_assert(!has("trained the same:"));
}
END_TEST

START_TEST(table_columns_line_up)
{
    cadre_report_table(&c, &text);
    const char *head = cadre_text_str(&text);
    const char *equality = strstr(head, "equality");
    const char *line = strchr(head, '\n') + 1;
    for (int i = 0; i < 2; i++)
        line = strchr(line, '\n') + 1; /* over the rule and the baseline */
    ck_assert_int_eq(strncmp(line + (equality - head), "within", 6), 0);
}
END_TEST

START_TEST(table_fits_the_screen)
{
    c.n = 2; /* leaves out the long name, and the next line what makes one longer */
    c.run[1].fair = true;
    cadre_report_table(&c, &text);
    for (const char *line = text.data; *line; line += strcspn(line, "\n") + 1)
        ck_assert_uint_le(strcspn(line, "\n"), 80);
    c.n = 3; /* all are freed */
}
END_TEST

START_TEST(sentences_tell_equal_training)
{
    c.n = 2;
    cadre_report_sentences(&c, &text);
    ck_assert(has("All runs trained the same: losses differ from the baseline's by "
                  "1.0e-06 at most"));
    c.judged_steps = 3;
    cadre_report_sentences(&c, &text);
    ck_assert(has("All runs trained the same up to step 3"));
    c.run[1].equal = CADRE_EQUAL_EXACT;
    cadre_report_sentences(&c, &text);
    ck_assert(has("All runs trained the same, to the last bit."));
    c.run[1].step_s = 0.8;
    c.run[1].speed.speedup.value = 0.5;
    cadre_report_sentences(&c, &text);
    ck_assert(has("base (single) was fastest: the next, equal (ddp:8), took 2.00"));
    c.run[1].speed.speedup.value = 1.004;
    cadre_report_sentences(&c, &text);
    ck_assert(has("base (single) and equal (ddp:8) took the same time a step."));
    c.n = 3; /* all are freed */
}
END_TEST

START_TEST(files_are_written_or_refused)
{
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_report_write(&c, dir, &err), CADRE_OK);
    for (size_t i = 0; i < 3; i++) {
        static const char *const names[] = {"report.json", "report.csv", "report.html"};
        char *path = cadre_path_join(dir, names[i]);
        ck_assert(cadre_path_exists(path));
        free(path);
    }
    ck_assert_int_eq(cadre_report_write(&c, "/proc/none", &err), CADRE_E_IO);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("report");
    TCase *tc = tcase_create("report");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, json_holds_what_is_promised);
    tcase_add_test(tc, csv_has_equal_lines);
    tcase_add_test(tc, csv_disarms_formulas);
    tcase_add_test(tc, html_is_one_page_with_escaped_names);
    tcase_add_test(tc, html_draws_schedules);
    tcase_add_test(tc, html_is_well_formed);
    tcase_add_test(tc, table_says_who_was_faster_and_who_differs);
    tcase_add_test(tc, table_columns_line_up);
    tcase_add_test(tc, table_fits_the_screen);
    tcase_add_test(tc, sentences_tell_equal_training);
    tcase_add_test(tc, files_are_written_or_refused);
    suite_add_tcase(suite, tc);
    return suite;
}
