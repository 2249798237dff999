/* SPDX-License-Identifier: Apache-2.0 */
/* Several runs beside each other, in every form. */
#include "core/report/runs.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/report/report_fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_runs runs;
static struct cadre_text text;
static struct cadre_error err;

static const struct report_run first = {.name = "one", .loss = 2};
static const struct report_run same = {
    .name = "<two>|", .loss = 2.001, .host = "there", .config = "[zero]\nstage = 3\n"};
static const struct report_run other = {.name = "three",
                                        .loss = 3,
                                        .steps = 4,
                                        .no_summary = true,
                                        .config = "[run]\nseed = 7\n"};

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    cadre_runs_fini(&runs);
    cadre_text_fini(&text);
    test_tmpdir_destroy(dir);
}

static void read_all(void)
{
    char *const folders[] = {(char *)(uintptr_t)report_run(dir, &first),
                             (char *)(uintptr_t)report_run(dir, &same),
                             (char *)(uintptr_t)report_run(dir, &other)};
    cadre_status rc = cadre_runs_read(folders, 3, &runs, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

static void expect(const char *const *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(strstr(cadre_text_str(&text), parts[i]) != NULL,
                      "no '%s' in %.3000s", parts[i], cadre_text_str(&text));
}

START_TEST(the_table_says_what_differs)
{
    static const char *const parts[] = {
        "run     strategy  ranks                time/step  tokens/s  last loss",
        "100 ms [100 ms, 100 ms]",
        "2.1667",
        "unfinished: 4 of 6 steps",
        "option      one        <two>|        three\n",
        "zero.stage  -          3             -\n",
        "run.seed    -          -             7\n",
        "<two>| ran on another machine than one: there: A CPU, 2 cores.",
        "three is not complete: unfinished: 4 of 6 steps.",
        "three is another training than one, by data.path, run.seed.",
        "Speed is not ranked: the runs were made apart in time",
    };
    read_all();
    cadre_runs_table(&runs, 200, &text);
    expect(parts, sizeof parts / sizeof *parts);
    ck_assert_ptr_null(strstr(cadre_text_str(&text), "Left out"));
    ck_assert_ptr_null(strstr(cadre_text_str(&text), "<two>| is another training"));
}
END_TEST

START_TEST(a_narrow_terminal_has_fewer_columns)
{
    enum { COLUMNS = 60 };
    static const char *const parts[] = {"Left out for width: ", "memory",
                                        "unfinished: 4 of 6 steps"};
    read_all();
    cadre_runs_table(&runs, COLUMNS, &text);
    expect(parts, 3);
    for (const char *line = cadre_text_str(&text); *line;) {
        size_t n = strcspn(line, "\n");
        ck_assert_msg(n <= COLUMNS, "%.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
}
END_TEST

START_TEST(documents_escape_names)
{
    static const char *const markdown[] = {
        "| \\<two\\>\\| |", "| zero.stage | - | 3 | - |", "- Speed is not ranked"};
    static const char *const csv[] = {"name,folder,state,stack,",
                                      ",zero.stage,run.seed\r\n", "<two>|,", ",3,\r\n",
                                      "unfinished: 4 of 6 steps"};
    read_all();
    cadre_runs_markdown(&runs, &text);
    expect(markdown, 3);
    cadre_text_reset(&text);
    cadre_runs_csv(&runs, &text);
    expect(csv, 5);
}
END_TEST

START_TEST(the_page_draws_differences_of_the_same_training)
{
    static const char *const parts[] = {"<title>Training loss</title>",
                                        "<title>Validation loss</title>",
                                        "Training loss less the first run",
                                        "&lt;two&gt;|",
                                        "What differs in the options",
                                        "Speed is not ranked",
                                        "Model FLOPs utilization (MFU)",
                                        ">0.5 J<",
                                        "(not ranked)",
                                        "<h1>Runs: ",
                                        "Time of a step, by its parts",
                                        "exposed: dp",
                                        "Peak memory of a rank, by kind",
                                        "&lt;activations&gt;"};
    read_all();
    cadre_runs_page(&runs, &text);
    expect(parts, sizeof parts / sizeof *parts);
    ck_assert(cadre_runs_same_training(&runs, 1) &&
              !cadre_runs_same_training(&runs, 2));
    if (system("command -v xmllint >/dev/null 2>&1") == 0) {
        char command[1200];
        snprintf(command, sizeof command, "xmllint --noout '%s'",
                 test_file_put(dir, "page.html", cadre_text_str(&text), text.len));
        ck_assert_int_eq(system(command), 0);
    }
}
END_TEST

static void expect_documented(const json_t *value, const char *document)
{
    const char *key;
    json_t *part;
    for (size_t i = 0; i < json_array_size(value); i++)
        expect_documented(json_array_get(value, i), document);
    json_object_foreach((json_t *)(uintptr_t)value, key, part)
    {
        char quoted[64];
        snprintf(quoted, sizeof quoted, "`%s`", key);
        ck_assert_msg(strstr(document, quoted) != NULL, "docs/report.md: no %s",
                      quoted);
        if (strcmp(key, "options") != 0 && strcmp(key, "comm_exposed_axis_s") != 0)
            expect_documented(part, document);
    }
}

START_TEST(json_is_documented)
{
    const char *tree = getenv("CADRE_SRC");
    char path[1024];
    snprintf(path, sizeof path, "%s/docs/report.md", tree ? tree : "..");
    char *document = test_file_read(path, NULL);
    read_all();
    runs.command = "cadre report a b";
    cadre_runs_json(&runs, &text);
    json_t *root = json_loads(cadre_text_str(&text), JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(root);
    expect_documented(root, document);
    const json_t *list = json_object_get(root, "runs");
    ck_assert_uint_eq(json_array_size(list), 3);
    const json_t *three = json_array_get(list, 2);
    ck_assert(json_is_false(json_object_get(three, "finished")));
    ck_assert(json_is_null(json_object_get(three, "ranks")));
    ck_assert_str_eq(json_string_value(json_object_get(three, "other_training")),
                     "data.path, run.seed");
    const json_t *stage =
        json_object_get(json_object_get(root, "options"), "zero.stage");
    ck_assert(json_is_null(json_array_get(stage, 0)));
    ck_assert_str_eq(json_string_value(json_array_get(stage, 1)), "3");
    json_decref(root);
    free(document);
}
END_TEST

static void make_folder(const char *path)
{
    ck_assert_int_eq(mkdir(path, 0777), 0);
}

/* A comparison stands for its runs, without those that measure rounding. */
START_TEST(folders_of_several_runs_are_opened)
{
    static const struct report_run inner[] = {
        {.name = "b10"}, {.name = "b9"}, {.name = "b9:reordered"}};
    char whole[512], path[600];
    snprintf(whole, sizeof whole, "%s/whole", dir);
    snprintf(path, sizeof path, "%s/runs", whole);
    make_folder(whole);
    make_folder(path);
    for (size_t i = 0; i < 3; i++)
        report_run(path, &inner[i]);
    char *const folders[] = {whole};
    ck_assert_int_eq(cadre_runs_read(folders, 1, &runs, &err), CADRE_OK);
    ck_assert_uint_eq(runs.n, 2);
    ck_assert_str_eq(runs.name[0], "b9");
    ck_assert_str_eq(runs.name[1], "b10");
    ck_assert_uint_eq(runs.n_comparisons, 1);
}
END_TEST

/* In the order of its report, the baseline first; a run that is not in it comes last.
 */
START_TEST(runs_of_a_comparison_stand_as_it_shows_them)
{
    static const struct report_run inner[] = {
        {.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}};
    static const char report[] =
        "{\"baseline\": \"c\", \"runs\": [{\"name\": \"d\"}, {\"name\": \"c\"}, "
        "{\"name\": \"b\"}]}";
    static const char *const expected[] = {"one", "c", "d", "b", "a"};
    char whole[512], path[600];
    snprintf(whole, sizeof whole, "%s/whole", dir);
    snprintf(path, sizeof path, "%s/runs", whole);
    make_folder(whole);
    make_folder(path);
    for (size_t i = 0; i < 4; i++)
        report_run(path, &inner[i]);
    test_file_put(whole, "report.json", report, sizeof report - 1);
    char *const folders[] = {(char *)(uintptr_t)report_run(dir, &first), whole};
    ck_assert_int_eq(cadre_runs_read(folders, 2, &runs, &err), CADRE_OK);
    ck_assert_uint_eq(runs.n, 5);
    for (size_t i = 0; i < 5; i++)
        ck_assert_str_eq(runs.name[i], expected[i]);
}
END_TEST

START_TEST(independent_runs_are_opened)
{
    const struct report_run inner[] = {{.name = "instance-10"}, {.name = "instance-9"}};
    char whole[512];
    snprintf(whole, sizeof whole, "%s/sweep", dir);
    make_folder(whole);
    test_file_put(whole, "summary.json", "{}", 2);
    test_file_put(whole, "instances.json", "[]", 2);
    for (size_t i = 0; i < 2; i++)
        report_run(whole, &inner[i]);
    char *const folders[] = {whole};
    ck_assert_int_eq(cadre_runs_read(folders, 1, &runs, &err), CADRE_OK);
    ck_assert_uint_eq(runs.n, 2);
    ck_assert_str_eq(runs.name[0], "instance-9");
}
END_TEST

START_TEST(names_are_told_apart)
{
    char inner[512];
    snprintf(inner, sizeof inner, "%s/inner", dir);
    make_folder(inner);
    char *const folders[] = {(char *)(uintptr_t)report_run(dir, &first),
                             (char *)(uintptr_t)report_run(inner, &first)};
    ck_assert_int_eq(cadre_runs_read(folders, 2, &runs, &err), CADRE_OK);
    ck_assert_str_eq(runs.name[0], folders[0]);
    ck_assert_str_eq(runs.name[1], folders[1]);
    cadre_runs_fini(&runs);
    char moved[600];
    snprintf(moved, sizeof moved, "%s/other", dir);
    ck_assert_int_eq(rename(folders[1], moved), 0); /* its summary says "one" */
    char *const two[] = {folders[0], moved};
    ck_assert_int_eq(cadre_runs_read(two, 2, &runs, &err), CADRE_OK);
    ck_assert_str_eq(runs.name[0], "one");
    ck_assert_str_eq(runs.name[1], "other");
}
END_TEST

START_TEST(what_is_no_run_is_refused)
{
    char *const twice[] = {(char *)(uintptr_t)report_run(dir, &first),
                           (char *)(uintptr_t) "."};
    char again[600];
    snprintf(again, sizeof again, "%s/../one", twice[0]);
    char *const folders[] = {twice[0], again};
    ck_assert_int_eq(cadre_runs_read(folders, 2, &runs, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "is given twice"));
    cadre_runs_fini(&runs);
    char *const none[] = {dir};
    ck_assert_int_eq(cadre_runs_read(none, 1, &runs, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "is no run: expected a folder with"));
}
END_TEST

START_TEST(other_versions_are_named)
{
    static const char *const parts[] = {"was made by cadre 9.9, and this report by "};
    const struct report_run run = {.name = "new", .build = "cadre 9.9"};
    char *const folders[] = {(char *)(uintptr_t)report_run(dir, &run)};
    ck_assert_int_eq(cadre_runs_read(folders, 1, &runs, &err), CADRE_OK);
    cadre_runs_notes(&runs, &text);
    expect(parts, 1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("runs");
    TCase *tc = tcase_create("runs");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_table_says_what_differs);
    tcase_add_test(tc, a_narrow_terminal_has_fewer_columns);
    tcase_add_test(tc, documents_escape_names);
    tcase_add_test(tc, the_page_draws_differences_of_the_same_training);
    tcase_add_test(tc, json_is_documented);
    tcase_add_test(tc, folders_of_several_runs_are_opened);
    tcase_add_test(tc, runs_of_a_comparison_stand_as_it_shows_them);
    tcase_add_test(tc, independent_runs_are_opened);
    tcase_add_test(tc, names_are_told_apart);
    tcase_add_test(tc, what_is_no_run_is_refused);
    tcase_add_test(tc, other_versions_are_named);
    suite_add_tcase(s, tc);
    return s;
}
