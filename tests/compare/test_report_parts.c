/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a step went, memory and scaling, in report.json and report.html. */
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

/* A step of 400 ms on one rank, of 100 ms on 8, and of 300 ms on 2. */
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

static const json_t *at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(value != NULL, "%s", key);
    return value;
}

static json_t *json_of_report(void)
{
    cadre_text_reset(&text);
    cadre_report_json(&c, &text);
    json_t *root = json_loads(cadre_text_str(&text), JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(root);
    return root;
}

static void add_summary(size_t run, const char *key, const char *json)
{
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    ck_assert_ptr_nonnull(value);
    ck_assert_int_eq(json_object_set_new(c.run[run].record.summary, key, value), 0);
}

/* Parts and the rest are the step's time, to the last digit that a sum has. */
START_TEST(parts_sum_to_the_step)
{
    json_t *root = json_of_report();
    for (size_t i = 0; i < 3; i++) {
        const json_t *run = json_array_get(at(root, "runs"), i);
        json_t *parts = json_object_get(run, "step_parts");
        double sum = 0, step_s = json_number_value(at(run, "step_s"));
        const char *key;
        json_t *value, *part;
        json_object_foreach(parts, key, value)
        {
            const char *axis;
            sum += json_number_value(value);
            json_object_foreach(value, axis, part)
            {
                sum += json_number_value(part);
            }
        }
        ck_assert_double_eq_tol(sum, step_s, 1e-12 * step_s);
        ck_assert_double_eq_tol(json_number_value(at(parts, "compute_s")), 0.6 * step_s,
                                1e-12);
        ck_assert(json_number_value(at(parts, "excess_s")) == 0);
        ck_assert_uint_eq(json_object_size(at(parts, "comm_exposed_axis_s")),
                          i ? 2 : 0);
        ck_assert(json_is_null(at(run, "step_parts_unknown")));
    }
    json_decref(root);
}
END_TEST

/* What is not known is null, with a reason, and the page says so. */
START_TEST(unknown_parts_have_a_reason)
{
    c.run[0].parts[0].known = c.run[0].parts[1].known = c.run[0].parts[2].known = false;
    c.run[1].n_parts = 0;
    json_t *root = json_of_report();
    const json_t *runs = at(root, "runs");
    static const char *const why[] = {"its device queues work, whose end is not seen",
                                      "no piece of it was timed"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *run = json_array_get(runs, i);
        ck_assert(json_is_null(at(run, "step_parts")));
        ck_assert_str_eq(json_string_value(at(run, "step_parts_unknown")), why[i]);
    }
    json_decref(root);
    cadre_text_reset(&text);
    cadre_report_html(&c, &text);
    ck_assert(has("Time of a step, by its parts") &&
              has("base: not known; equal: not"));
    timed_clear(&c);
    cadre_text_reset(&text);
    cadre_report_html(&c, &text);
    ck_assert(!has("Time of a step, by its parts") && has("nothing was timed"));
}
END_TEST

/* Nodes that comm.node made are called what they are. */
START_TEST(bytes_between_nodes_are_told)
{
    add_summary(1, "nodes", "2");
    add_summary(1, "comm_between_bytes", "4000000");
    add_summary(1, "comm_bytes", "12000000");
    add_summary(2, "nodes", "3");
    c.run[1].simulated_nodes = true;
    cadre_report_notes(&c, &text);
    ck_assert(has("equal: 2 simulated nodes; 4 of 12 MB sent went between them "
                  "(comm.node).\n"));
    ck_assert(has("two: 3 nodes.\n"));
    ck_assert(!has("base: "));
}
END_TEST

START_TEST(html_shows_where_it_went)
{
    add_summary(0, "memory", "{\"parameters\": [600], \"<kind>\": [300]}");
    add_summary(2, "memory", "{\"parameters\": [100, 700], \"saved\": [50, 80]}");
    c.run[0].parts[0].part[0] = c.run[0].parts[1].part[0] = c.run[0].parts[2].part[0] =
        0.95; /* with 0.1 for the optimizer more than all */
    c.run[1].fair = true;
    cadre_report_html(&c, &text);
    ck_assert(has("<title>equal, exposed: dp: 15.0 ms, 15.0 %</title>"));
    ck_assert(has("<title>equal, other: 10.0 ms, 10.0 %</title>"));
    ck_assert(has("base: the parts have 20.0 ms more than the step"));
    /* memory of the rank that needs most, of the third run its second */
    ck_assert(has("<title>two, parameters: 700 B, 89.7 %"));
    ck_assert(has("base, &lt;kind&gt;: 300 B, 33.3 %"));
    ck_assert(has("equal, other kinds: 1007 B, 100.0 %")); /* by kind it is not known */
    ck_assert(has("Speedup over ranks") && has("<title>equal: 4 at 8</title>"));
    cadre_text_reset(&text);
    c.n = 1; /* nothing to scale */
    cadre_report_html(&c, &text);
    ck_assert(!has("Speedup over ranks"));
    c.n = 3;
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("report_parts");
    TCase *tc = tcase_create("report_parts");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, parts_sum_to_the_step);
    tcase_add_test(tc, unknown_parts_have_a_reason);
    tcase_add_test(tc, bytes_between_nodes_are_told);
    tcase_add_test(tc, html_shows_where_it_went);
    suite_add_tcase(suite, tc);
    return suite;
}
