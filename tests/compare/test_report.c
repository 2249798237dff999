/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/report/report.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "tests/compare/fixture.h"
#include "tests/compare/timed.h"
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
        {.name = "equal", .ranks = 8, .step_s = 0.1, .loss_shift = 1e-6, .passes = 1},
        {.name = HOSTILE, .ranks = 2, .step_s = 0.3, .loss_shift = 1},
    };
    const struct fixture_run rounding = {.name = "r", .loss_shift = 1e-6};
    setenv("COLUMNS", "80", 1); /* whatever the terminal is */
    dir = test_tmpdir();
    fixture_judge(dir, runs, 3, &rounding, &c);
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

static const json_t *at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(value != NULL, "%s", key);
    return value;
}

static const char *const run_keys[] = {"name",
                                       "stack",
                                       "ranks",
                                       "device",
                                       "steps",
                                       "tokens",
                                       "time_s",
                                       "tokens_per_s",
                                       "loss_first",
                                       "loss_last",
                                       "peak_bytes",
                                       "comm_bytes",
                                       "params",
                                       "speedup",
                                       "efficiency",
                                       "overhead_s",
                                       "fair",
                                       "loss_max_diff",
                                       "param_max_diff",
                                       "equal",
                                       "limit",
                                       "certificate",
                                       "bubble_fraction",
                                       "bubble_replayed",
                                       "speed_verdict",
                                       "rounds",
                                       "leading",
                                       "detectable",
                                       "control",
                                       "step_parts",
                                       "step_parts_unknown",
                                       "untimed",
                                       "implausible",
                                       "failure",
                                       "not_ranked",
                                       "step_s_low",
                                       "speedup_low",
                                       "speedup_high",
                                       "efficiency_low",
                                       "efficiency_high",
                                       "overhead_s_low",
                                       "overhead_s_high",
                                       "bubble_fraction_low",
                                       "bubble_fraction_high",
                                       "comm_exposed_s",
                                       "comm_exposed_s_low",
                                       "comm_exposed_s_high"};
static const char *const certificate_keys[] = {
    "strategy", "layout", "steps", "loss_chain", "param_hash", "ulp_max", "verdict"};

START_TEST(json_holds_what_is_promised)
{
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
        for (size_t k = 0; k < sizeof run_keys / sizeof run_keys[0]; k++)
            at(run, run_keys[k]);
        for (size_t k = 0; k < sizeof certificate_keys / sizeof certificate_keys[0];
             k++)
            at(at(run, "certificate"), certificate_keys[k]);
    }
    const json_t *equal = json_array_get(runs, 1), *other = json_array_get(runs, 2);
    ck_assert(json_is_false(at(equal, "fair")));
    ck_assert(json_number_value(at(equal, "speedup")) == 4);
    ck_assert(json_number_value(at(equal, "efficiency")) == 0.5);
    ck_assert(json_is_null(at(equal, "tokens_per_s"))); /* it is unfair */
    ck_assert(json_number_value(at(other, "tokens_per_s")) > 0);
    ck_assert_uint_eq(json_array_size(at(equal, "peak_bytes")), 8);
    ck_assert_str_eq(json_string_value(at(equal, "equal")), "within");
    ck_assert(fabs(json_number_value(at(equal, "bubble_replayed")) - 1.0 / 3) < 1e-12);
    ck_assert(json_is_null(at(other, "step_replayed")));
    ck_assert_str_eq(json_string_value(at(other, "name")), HOSTILE);
    ck_assert_str_eq(json_string_value(at(other, "equal")), "differs");
    ck_assert(json_is_false(at(root, "fair")) && json_is_false(at(root, "equal")));
    json_decref(root);
}
END_TEST

static json_t *json_of_report(void)
{
    cadre_text_reset(&text);
    cadre_report_json(&c, &text);
    json_t *root = json_loads(cadre_text_str(&text), JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(root);
    return root;
}

/* The fastest is the one that was shown to be, and trained the same. */
START_TEST(json_holds_the_verdict_on_speed)
{
    json_t *root = json_of_report();
    ck_assert(json_is_null(at(root, "fastest"))); /* it did not train the same */
    ck_assert_int_eq(json_integer_value(at(root, "schema_version")), 2);
    ck_assert_int_eq(json_integer_value(at(root, "rounds")), 8);
    ck_assert_int_eq(json_integer_value(at(root, "disturbed_rounds")), 1);
    ck_assert(json_is_true(at(root, "mirrored")));
    ck_assert(json_number_value(at(root, "margin")) == 0.01);
    ck_assert(json_is_null(at(root, "unranked")));
    const char *date = json_string_value(at(root, "date"));
    ck_assert(strlen(date) == 20 && date[10] == 'T' && date[19] == 'Z');
    const json_t *run = json_array_get(at(root, "runs"), 2);
    ck_assert_str_eq(json_string_value(at(run, "speed_verdict")), "faster");
    ck_assert(json_number_value(at(run, "speedup_low")) < 4. / 3 &&
              json_number_value(at(run, "speedup_high")) > 4. / 3);
    ck_assert_int_eq(json_integer_value(at(run, "rounds")), 8);
    ck_assert(json_is_true(at(run, "leading")));
    ck_assert(json_number_value(at(run, "detectable")) == 1.03);
    ck_assert(json_is_null(at(run, "bubble_fraction_low")));
    ck_assert(json_number_value(at(run, "comm_exposed_s")) == 0.001);
    json_decref(root);
    c.run[2].equal = CADRE_EQUAL_WITHIN;
    root = json_of_report();
    ck_assert_str_eq(json_string_value(at(root, "fastest")), HOSTILE);
    json_decref(root);
    timed_set(&c, 2, NAN, 1.3, NAN, CADRE_SPEED_NOT_RANKED);
    snprintf(c.run[2].untimed, sizeof c.run[2].untimed, "no period");
    root = json_of_report();
    run = json_array_get(at(root, "runs"), 2);
    ck_assert(json_is_null(at(root, "fastest")));
    ck_assert(json_is_null(at(run, "speedup_low")));
    ck_assert_str_eq(json_string_value(at(run, "speed_verdict")), "not ranked");
    ck_assert_str_eq(json_string_value(at(run, "untimed")), "no period");
    json_decref(root);
}
END_TEST

START_TEST(json_holds_every_piece_and_round)
{
    json_t *root = json_of_report();
    const json_t *pieces = at(root, "pieces"), *rounds = at(root, "round_list");
    ck_assert_uint_eq(json_array_size(pieces), c.n_pieces);
    for (size_t i = 0; i < c.n_pieces; i++) {
        const json_t *piece = json_array_get(pieces, i);
        ck_assert_str_eq(json_string_value(at(piece, "run")),
                         c.run[c.piece[i].run].name);
        ck_assert_int_eq(json_integer_value(at(piece, "round")), c.piece[i].round);
        ck_assert_int_eq(json_integer_value(at(piece, "place")), c.piece[i].place);
        ck_assert_int_eq(json_integer_value(at(piece, "half")), c.piece[i].half);
        ck_assert(json_number_value(at(piece, "begin_s")) == c.piece[i].begin_s);
        ck_assert(json_number_value(at(piece, "period_s")) == c.piece[i].period_s);
        ck_assert(json_number_value(at(piece, "own_s")) == 1.4);
        ck_assert(json_is_null(at(piece, "gpu_mhz")));
        ck_assert(json_is_true(at(piece, "disturbed")) == (c.piece[i].round == 2));
    }
    ck_assert_uint_eq(json_array_size(rounds), 8);
    ck_assert(json_is_true(at(json_array_get(rounds, 1), "disturbed")));
    ck_assert_str_eq(json_string_value(at(json_array_get(rounds, 1), "why")),
                     "other processes took 31 % of a core");
    ck_assert(json_is_null(at(json_array_get(rounds, 0), "why")));
    json_decref(root);
}
END_TEST

/* No form stumbles over a record that is not there, and none shows a figure of it. */
static void check_failed(size_t failed)
{
    c.run[failed].failed_page = true;
    json_t *root = json_of_report();
    const json_t *run = json_array_get(at(root, "runs"), failed);
    static const char *const nulls[] = {
        "steps",        "loss_last", "speedup",     "step_s",        "speedup_low",
        "tokens_per_s", "equal",     "certificate", "loss_max_diff", "folder"};
    for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++)
        ck_assert_msg(json_is_null(at(run, nulls[i])), "%s", nulls[i]);
    ck_assert_str_eq(json_string_value(at(run, "failure")), "killed");
    json_decref(root);
    cadre_text_reset(&text);
    cadre_report_csv(&c, &text);
    ck_assert(has(",killed,"));
    cadre_text_reset(&text);
    cadre_report_markdown(&c, &text);
    ck_assert(has("| failed |"));
    cadre_text_reset(&text);
    cadre_report_table(&c, &text);
    ck_assert(has("failed: killed.") && !has("nan"));
    cadre_text_reset(&text);
    cadre_report_html(&c, &text);
    ck_assert(has("failed: killed.") && !has("nan") &&
              has(" (failed): <a href=\"runs"));
}

START_TEST(failed_runs_appear_in_every_form)
{
    struct cadre_error err = {0};
    timed_fail(&c, 1, "killed");
    check_failed(1);
    ck_assert_int_eq(cadre_report_write(&c, dir, &err), CADRE_OK);
    char *certificate = cadre_path_join(dir, "certificate-equal.json");
    ck_assert(!cadre_path_exists(certificate));
    free(certificate);
    timed_fail(&c, 0, "killed"); /* the baseline: nothing is judged */
    c.speed.fastest = -1;
    check_failed(0);
    ck_assert_int_eq(cadre_report_write(&c, dir, &err), CADRE_OK);
}
END_TEST

START_TEST(implausible_figures_are_marked_everywhere)
{
    snprintf(c.run[2].implausible, sizeof c.run[2].implausible, "a negative bubble");
    cadre_report_table(&c, &text);
    ck_assert(has("1.33 [1.31, 1.36] !") && has("(marked !): a negative bubble."));
    cadre_text_reset(&text);
    cadre_report_markdown(&c, &text);
    ck_assert(has("| 1.33 [1.31, 1.36] ! |"));
    cadre_text_reset(&text);
    cadre_report_csv(&c, &text);
    ck_assert(has(",a negative bubble,"));
    cadre_text_reset(&text);
    cadre_report_html(&c, &text);
    ck_assert(has("1.33 [1.31, 1.36] !"));
}
END_TEST

START_TEST(markdown_is_a_table_with_conclusions)
{
    cadre_report_markdown(&c, &text);
    ck_assert(has("| run | strategy | ranks | time/step | tokens/s | speedup | verdict "
                  "|"));
    ck_assert(has("\n| --- | --- | ---: | ---: |"));
    ck_assert(has("| 1.33 [1.31, 1.36] | faster |"));
    ck_assert(has("| \\<b\\>\"x\",\\&' | ddp:2 | 2 |"));
    ck_assert(has("## Conclusions\n\n- No run was shown to be the fastest."));
    ck_assert(has("\n- \\<b\\>\"x\",\\&' (ddp:2) is faster than base"));
    ck_assert(has(
        "\n- Round 2 was disturbed: other processes took 31 % of a core in equal.\n"));
    size_t columns = 0;
    for (const char *line = strstr(text.data, "\n| run"); line && line[1] == '|';
         line = strchr(line + 1, '\n')) {
        size_t n = 0;
        for (const char *at = line + 1; *at != '\n'; at++)
            n += *at == '|' && at[-1] != '\\';
        columns = columns ? columns : n;
        ck_assert_uint_eq(n, columns);
    }
    ck_assert_uint_gt(columns, 10);
}
END_TEST

/* Keys of an object, and of the objects in its lists, that the document does not name.
 * Certificates have a document of their own. */
static void expect_documented(const json_t *value, const char *document)
{
    const char *key;
    json_t *part;
    for (size_t i = 0; i < json_array_size(value); i++)
        expect_documented(json_array_get(value, i), document);
    json_object_foreach((json_t *)(uintptr_t)value, key, part)
    {
        char quoted[64];
        size_t length = strlen(key);
        if (length > 4 && strcmp(key + length - 4, "_low") == 0)
            length -= 4;
        else if (length > 5 && strcmp(key + length - 5, "_high") == 0)
            length -= 5;
        snprintf(quoted, sizeof quoted, "`%.*s`", (int)length, key);
        ck_assert_msg(strstr(document, quoted) != NULL, "docs/report.md: no %s",
                      quoted);
        if (strcmp(key, "certificate") != 0)
            expect_documented(part, document);
    }
}

START_TEST(every_key_is_documented)
{
    struct cadre_error err = {0};
    const char *tree = getenv("CADRE_SRC");
    char *document, *path = cadre_path_join(tree ? tree : "..", "docs/report.md");
    size_t bytes;
    cadre_status rc = cadre_path_read_file(path, 1 << 20, &document, &bytes, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    c.run[1].exact = true;
    c.run[1].setup = c.run[2].setup;
    c.run[1].strategy[4] = c.run[2].strategy[4]; /* ddp:8 to ddp:2: there is a price */
    json_t *root = json_of_report();
    ck_assert_uint_eq(json_array_size(at(root, "exact_price")), 1);
    expect_documented(root, document);
    json_decref(root);
    free(document);
    free(path);
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
    ck_assert_uint_eq(columns, 58);
    for (; *line; line = strchr(line, '\n') + 1, lines++)
        ck_assert_uint_eq(fields(line), columns);
    ck_assert_uint_eq(lines, 4);
    ck_assert(has("\r\n\"<b>\"\"x\"\",&'\",ddp:2,2,"));
    ck_assert(has(",within,measured,false,"));
    ck_assert(has(",differs,measured,true,"));
    ck_assert(has(",faster,8,true,"));
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
    ck_assert(!has("<script") && !has("src=") && !has("@import"));
    /* links are to files beside it, whatever their names are */
    ck_assert(has("href=\"report.json\"") && has("href=\"certificate-equal.json\""));
    ck_assert(has("href=\"certificate-%3Cb%3E%22x%22,%26%27.json\""));
    for (const char *at = text.data; (at = strstr(at, "href=\"")); at++)
        ck_assert(at[6] != '/' && strcspn(at + 6, ":") > strcspn(at + 6, "\""));
    ck_assert(has("fair = false") && has("class=\"l w bad\">differs"));
    ck_assert(has(CADRE_FORMULA_EFFICIENCY) && has("Training loss"));
}
END_TEST

START_TEST(html_is_green_only_where_shown)
{
    c.run[1].equal = CADRE_EQUAL_WITHIN;
    c.run[1].fair = true;
    cadre_report_html(&c, &text);
    ck_assert(has("<p class=\"said shown\">equal (ddp:8) is faster"));
    ck_assert(has("<td class=\"l good\">faster</td>"));
    ck_assert(has("<p class=\"said bad\">&lt;b&gt;")); /* it did not train the same */
    ck_assert(has("<p class=\"said\">&lt;b&gt;")); /* and is faster */
    cadre_text_reset(&text);
    for (size_t i = 1; i < c.n; i++) {
        timed_set(&c, i, 0.9, 1.3, 1.7, CADRE_SPEED_NO_DIFFERENCE);
        c.run[i].equal = CADRE_EQUAL_DIFFERS;
    }
    cadre_report_html(&c, &text);
    ck_assert(!has("said shown") && !has("good\">"));
}
END_TEST

/* The verdict before the box, and a number that says nothing is not shown. */
START_TEST(html_says_what_is_first)
{
    c.run[1].diff.of[0].ulp_max = 1804331070;
    cadre_report_html(&c, &text);
    const char *said = strstr(text.data, "class=\"said"),
               *table = strstr(text.data, "<table"),
               *setup = strstr(text.data, "class=\"setup\"");
    ck_assert(said && table && setup && said < table && table < setup);
    ck_assert(has("more than 9999") && !has("1804331070"));
    for (const char *at = text.data; (at = strstr(at, "<svg ")); at++) {
        const char *end = strstr(at, "</svg>"), *title = strstr(at, "<title>"),
                   *desc = strstr(at, "<desc>");
        ck_assert(title && title < end && desc && desc < end && desc[6] != '<');
    }
}
END_TEST

/* Pieces over time, whiskers, a head, and tables that a screen reader can read. */
START_TEST(html_shows_how_it_was_measured)
{
    c.command = cadre_strdup("cadre compare made.ini");
    cadre_report_html(&c, &text);
    ck_assert(has("<h2>Pieces</h2>") && has("class=\"shaded\""));
    ck_assert(has("round 2, disturbed: other processes took 31 % of a core"));
    ck_assert(has("class=\"whisker\"") && has("control: the baseline against itself"));
    ck_assert(has("<dt>date</dt><dd>20") && has("cadre compare made.ini"));
    ck_assert(has("<caption>Figures against the baseline; in brackets"));
    ck_assert(has("<th class=\"l\" scope=\"row\">equal (unfair)</th>"));
    ck_assert(has("scope=\"col\">speedup</th>") && has("@media print"));
    ck_assert(has("Loss less the baseline&#39;s, of runs that trained the same"));
    for (const char *at = text.data; (at = strstr(at, "<th")); at++)
        ck_assert(strncmp(at, "<thead", 6) == 0 ||
                  strcspn(at, ">") > (size_t)(strstr(at, "scope=") - at));
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
    ck_assert(has("No run was shown to be the fastest."));
    ck_assert(has("is faster than base: 1.33 times as fast (95 % interval 1.31 to "
                  "1.36), but it did not train the same."));
    ck_assert(
        has("equal (ddp:8) is faster than base: 4.00 times as fast (95 % interval "
            "3.92 to 4.08) (unfair)."));
    ck_assert(has("did NOT train the same as base: the loss at step 1"));
    ck_assert(has("fair: false for equal: 8 ranks of 1 core each, but there are 4"));
    ck_assert(has("equal: bubble 40.0 % of the schedule's span, 33.3 % where its "
                  "passes are replayed without delays."));
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

/* Columns are left out rather than wrapped, and said to be. */
START_TEST(table_fits_the_screen)
{
    free(c.run[2].name);
    c.run[2].name = strdup("pipe");
    timed_set(&c, 1, 0.985, 1.002, 1.021, CADRE_SPEED_NO_DIFFERENCE);
    c.run[1].fair = true;
    for (size_t columns = 60; columns <= 80; columns += 20) {
        char number[8];
        snprintf(number, sizeof number, "%zu", columns);
        setenv("COLUMNS", number, 1);
        cadre_text_reset(&text);
        cadre_report_table(&c, &text);
        for (const char *line = text.data; *line; line += strcspn(line, "\n") + 1)
            ck_assert_msg(strcspn(line, "\n") <= columns, "%s", line);
    }
    ck_assert(has("  1.00 [0.98, 1.02]  no difference  ") && has("  faster  "));
    ck_assert(has("Left out for width, see report.md: tokens/s, overhead."));
}
END_TEST

/* Without rounds the figures are those of the training, and no verdict is given. */
START_TEST(nothing_is_ranked_without_rounds)
{
    timed_clear(&c);
    for (size_t i = 0; i < c.n; i++)
        timed_set(&c, i, NAN, c.run[0].step_s / c.run[i].step_s, NAN,
                  CADRE_SPEED_NOT_RANKED);
    cadre_report_table(&c, &text);
    ck_assert(has("No run is ranked by speed: no rounds were timed."));
    ck_assert(has("not ranked") && !has("fastest") && !has("faster"));
    ck_assert(has("(steps 3 to 6)"));
    ck_assert_str_eq(cadre_report_where(&c), CADRE_FORMULA_WHERE);
}
END_TEST

START_TEST(files_are_written_or_refused)
{
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_report_write(&c, dir, &err), CADRE_OK);
    for (size_t i = 0; i < 4; i++) {
        static const char *const names[] = {"report.json", "report.csv", "report.md",
                                            "report.html"};
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
    tcase_add_test(tc, json_holds_the_verdict_on_speed);
    tcase_add_test(tc, html_says_what_is_first);
    tcase_add_test(tc, json_holds_every_piece_and_round);
    tcase_add_test(tc, every_key_is_documented);
    tcase_add_test(tc, failed_runs_appear_in_every_form);
    tcase_add_test(tc, implausible_figures_are_marked_everywhere);
    tcase_add_test(tc, markdown_is_a_table_with_conclusions);
    tcase_add_test(tc, csv_has_equal_lines);
    tcase_add_test(tc, csv_disarms_formulas);
    tcase_add_test(tc, html_is_one_page_with_escaped_names);
    tcase_add_test(tc, html_is_green_only_where_shown);
    tcase_add_test(tc, html_shows_how_it_was_measured);
    tcase_add_test(tc, html_draws_schedules);
    tcase_add_test(tc, html_is_well_formed);
    tcase_add_test(tc, table_says_who_was_faster_and_who_differs);
    tcase_add_test(tc, table_columns_line_up);
    tcase_add_test(tc, table_fits_the_screen);
    tcase_add_test(tc, nothing_is_ranked_without_rounds);
    tcase_add_test(tc, files_are_written_or_refused);
    suite_add_tcase(suite, tc);
    return suite;
}
