/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/report/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

static struct cadre_text text;

static void teardown(void)
{
    cadre_text_fini(&text);
    text = (struct cadre_text){0};
}

static size_t count(const char *needle)
{
    size_t n = 0;
    for (const char *at = cadre_text_str(&text); (at = strstr(at, needle)); at++)
        n++;
    return n;
}

START_TEST(text_is_escaped)
{
    cadre_chart_text(&text, "<b a=\"1\">'&'</b>\n\x01\x7f \xc3\xa9\xff");
    ck_assert_str_eq(cadre_text_str(&text),
                     "&lt;b a=&quot;1&quot;&gt;&#39;&amp;&#39;&lt;/b&gt;??? "
                     "\xc3\xa9\xef\xbf\xbd");
}
END_TEST

START_TEST(long_names_are_cut_by_characters)
{
    struct cadre_chart_bar bar = {.value = 1, .mark = NAN, .label = "x"};
    bar.name =
        "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
        "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
        "\xc3\xa9\xc3\xa9\xc3\xa9";
    cadre_chart_bars(&text, "t", NULL, &bar, 1);
    ck_assert_uint_eq(count("\xc3\xa9\xe2\x80\xa6</text>"), 1);
}
END_TEST

START_TEST(curves_leave_gaps_and_thin_out)
{
    enum { N = 10000 };
    double *y = calloc(N, sizeof *y);
    const double gap[] = {1, NAN, 3, 4};
    for (int i = 0; i < N; i++)
        y[i] = i;
    const struct cadre_chart_series series[] = {{"long", y, N}, {"gap", gap, 4}};
    cadre_chart_lines(&text, "t", "y", series, 2);
    ck_assert_uint_lt(text.len, 20000);
    ck_assert_uint_eq(count("<path class=\"line"), 4); /* two of them in the legend */
    ck_assert_uint_eq(count("nan"), 0);
    free(y);
}
END_TEST

/* Nothing to draw, one value, no spread, no finite value. */
START_TEST(odd_data_gives_finite_charts)
{
    const double one[] = {5}, flat[] = {2, 2, 2}, none[] = {NAN, INFINITY};
    const struct cadre_chart_series series[] = {
        {"one", one, 1}, {"flat", flat, 3}, {"none", none, 2}, {"empty", one, 0}};
    struct cadre_chart_bar bars[] = {
        {.name = "none", .value = NAN, .mark = NAN, .label = "-"},
        {.name = "zero", .value = 0, .mark = 0, .label = "0"},
        {.name = "less", .value = -1, .mark = NAN, .label = "-1"},
    };
    for (size_t i = 0; i < 4; i++)
        cadre_chart_lines(&text, "t", "y", &series[i], 1);
    cadre_chart_lines(&text, "t", "y", series, 0);
    cadre_chart_bars(&text, "t", "mark", bars, 3);
    cadre_chart_bars(&text, "t", NULL, bars, 0);
    ck_assert_uint_eq(count("nan") + count("inf"), 0);
    ck_assert_uint_eq(count("<svg"), count("</svg>"));
}
END_TEST

START_TEST(boxes_stand_on_their_rows)
{
    static const char *const rows[] = {"rank 0", "<rank>"}, *const kinds[] = {"f", "b"};
    const struct cadre_chart_box boxes[] = {
        {.row = 0, .begin = 0, .end = 1, .label = "17", .title = "first"},
        {.row = 1, .begin = 1, .end = 2, .style = 1, .late = true, .label = "18"},
        {.row = 1, .begin = 2, .end = 2.001, .label = "19", .title = "thin"},
    };
    cadre_chart_gantt(&text, "t", rows, 2, boxes, 3, kinds, 2);
    ck_assert_uint_eq(count("<rect"), 3 + 2);
    ck_assert_uint_eq(count("class=\"bar s1 late\""), 1);
    ck_assert_uint_eq(count(">17<") + count(">18<"), 2);
    ck_assert_uint_eq(count(">19<"), 0); /* does not fit */
    ck_assert_uint_eq(count("&lt;rank&gt;"), 1);
    ck_assert_uint_eq(count("<title>thin</title>"), 1);
    cadre_chart_gantt(&text, "t", rows, 0, boxes, 0, kinds, 0);
    ck_assert_uint_eq(count("nan") + count("inf"), 0);
    ck_assert_uint_eq(count("<svg"), count("</svg>"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("chart");
    TCase *tc = tcase_create("chart");
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, text_is_escaped);
    tcase_add_test(tc, long_names_are_cut_by_characters);
    tcase_add_test(tc, curves_leave_gaps_and_thin_out);
    tcase_add_test(tc, odd_data_gives_finite_charts);
    tcase_add_test(tc, boxes_stand_on_their_rows);
    suite_add_tcase(suite, tc);
    return suite;
}
