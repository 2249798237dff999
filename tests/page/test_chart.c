/* SPDX-License-Identifier: Apache-2.0 */
#include "core/page/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/page/chart_private.h"
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
    struct cadre_chart_bar bar = {
        .value = 1, .low = NAN, .high = NAN, .mark = NAN, .label = "x"};
    const struct cadre_chart_bars chart = {.title = "t", .bar = &bar, .n = 1};
    bar.name =
        "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
        "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
        "\xc3\xa9\xc3\xa9\xc3\xa9";
    cadre_chart_bars(&text, &chart);
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

/* A line of one point would not show. */
START_TEST(points_between_gaps_are_shapes)
{
    const double one[] = {2}, gaps[] = {1, NAN, 3, 4, NAN, 5};
    const struct cadre_chart_series series[] = {{"one", one, 1}, {"gaps", gaps, 6}};
    cadre_chart_lines(&text, "t", "y", series, 2);
    ck_assert_uint_eq(count("<path class=\"bar s0\" d=\"M56.0 "), 1);
    ck_assert_uint_eq(count("<path class=\"bar s1\" d=\"M56.0 "), 1);
    ck_assert_uint_eq(count("h7v7h-7z"), 2); /* of the first and of the last step */
}
END_TEST

START_TEST(curves_stand_at_their_steps)
{
    const double y[] = {1, 2, 3}, x[] = {1, 51, 101};
    const double *const at[] = {x};
    const struct cadre_chart_series series = {"s", y, 3};
    cadre_chart_curves(&text, "t", "y", &series, at, 1);
    ck_assert_uint_eq(count("M56.0 "), 1); /* from edge to edge, by half */
    ck_assert_uint_eq(count("L270.0 "), 1);
    ck_assert_uint_eq(count("L484.0 "), 1);
}
END_TEST

/* Nothing to draw, one value, no spread, no finite value. */
START_TEST(odd_data_gives_finite_charts)
{
    const double one[] = {5}, flat[] = {2, 2, 2}, none[] = {NAN, INFINITY};
    const struct cadre_chart_series series[] = {
        {"one", one, 1}, {"flat", flat, 3}, {"none", none, 2}, {"empty", one, 0}};
    struct cadre_chart_bar bars[] = {
        {.name = "none", NAN, NAN, NAN, NAN, "-"},
        {.name = "zero", 0, 0, 0, 0, "0"},
        {.name = "less", -1, -2, 1, NAN, "-1"},
    };
    const struct cadre_chart_bars some = {.title = "t", "mark", .bar = bars, .n = 3};
    const struct cadre_chart_bars empty = {.title = "t"};
    const struct cadre_chart_point point = {.x = 0, .y = NAN};
    const struct cadre_chart_points nothing = {.title = "t", "x", "y"};
    const struct cadre_chart_points one_point = {
        .title = "t", "x", "y", (const char *const[]){"s"}, 1, &point, 1};
    for (size_t i = 0; i < 4; i++)
        cadre_chart_lines(&text, "t", "y", &series[i], 1);
    cadre_chart_lines(&text, "t", "y", series, 0);
    cadre_chart_bars(&text, &some);
    cadre_chart_bars(&text, &empty);
    cadre_chart_points(&text, &nothing);
    cadre_chart_points(&text, &one_point);
    ck_assert_uint_eq(count("nan") + count("inf"), 0);
    ck_assert_uint_eq(count("<svg"), count("</svg>"));
}
END_TEST

/* Runs of one training differ by rounding: their axis has no number twice. */
START_TEST(nearly_flat_curves_have_different_ticks)
{
    const double up[] = {2.0266, 2.0266 + 1e-9}, down[] = {-2.0266, -2.0266 - 1e-9};
    const struct cadre_chart_series series[] = {{"up", up, 2}, {"down", down, 2}};
    for (size_t i = 0; i < 2; i++) {
        cadre_chart_lines(&text, "t", "y", &series[i], 1);
        size_t ticks = 0;
        char seen[12][32];
        for (const char *at = cadre_text_str(&text);
             (at = strstr(at, "text-anchor=\"end\" x=\"48\"")); at++) {
            const char *label = strchr(at, '>') + 1;
            snprintf(seen[ticks], sizeof seen[0], "%.*s", (int)strcspn(label, "<"),
                     label);
            for (size_t k = 0; k < ticks; k++)
                ck_assert_str_ne(seen[k], seen[ticks]);
            ck_assert_uint_lt(++ticks, 12);
        }
        ck_assert_uint_gt(ticks, 2);
        cadre_text_reset(&text);
    }
}
END_TEST

/* A whisker where there is an interval, a band where one is named. */
START_TEST(bars_have_whiskers)
{
    const struct cadre_chart_bar bars[] = {
        {.name = "with", 1.3, 1.2, 1.5, 2, "1.30"},
        {.name = "without", 1.3, NAN, NAN, NAN, "1.30"},
        {.name = "point", 1, 1, 1, NAN, "1"},
    };
    const struct cadre_chart_bars chart = {"t", "ideal", "control", 0.9, 1.1, bars, 3};
    cadre_chart_bars(&text, &chart);
    ck_assert_uint_eq(count("class=\"whisker\""), 1);
    ck_assert_uint_eq(count("class=\"band\""), 2);
    ck_assert_uint_eq(count("class=\"mark\""), 2);
    ck_assert_uint_eq(count(">control<") + count(">ideal<"), 2);
}
END_TEST

/* The seventh series has the first one's colour, and something else of its own. */
START_TEST(repeated_colours_are_told_apart)
{
    enum { MANY = 24, LENGTH = 40 };
    double y[LENGTH];
    struct cadre_chart_series series[MANY];
    struct cadre_chart_bar bars[MANY];
    char seen[MANY][80];
    for (int k = 0; k < LENGTH; k++)
        y[k] = k;
    for (size_t i = 0; i < MANY; i++) {
        series[i] = (struct cadre_chart_series){"name", y, LENGTH};
        bars[i] = (struct cadre_chart_bar){"name", 1, NAN, NAN, NAN, "1"};
    }
    cadre_chart_lines(&text, "t", "y", series, MANY);
    ck_assert_uint_eq(count("class=\"line s0\""), 2); /* curve and legend */
    ck_assert_uint_eq(count("class=\"line s0 again\""), 2 * 3);
    ck_assert_uint_eq(count("class=\"bar s0\""), 2 * 3); /* curve and legend */
    cadre_text_reset(&text);
    const struct cadre_chart_bars chart = {.title = "t", .bar = bars, .n = MANY};
    cadre_chart_bars(&text, &chart);
    ck_assert_uint_eq(count("<rect class=\"bar s0\""), 1);
    ck_assert_uint_eq(count("<rect class=\"bar s5 third again\""), 1);
    for (size_t i = 0; i < MANY; i++)
        for (size_t k = 0; k < i; k++)
            ck_assert(i % 6 != k % 6 ||
                      strcmp(cadre_chart_again(i), cadre_chart_again(k)) != 0);
    for (size_t i = 0; i < MANY; i++) {
        cadre_text_reset(&text);
        cadre_chart_shape(&text, i, 0, 0);
        snprintf(seen[i], sizeof seen[i], "%zu %s", i % 6, cadre_text_str(&text));
        for (size_t k = 0; k < i; k++)
            ck_assert_str_ne(seen[i], seen[k]);
    }
}
END_TEST

static const char *in_s(double value, char *out, size_t size)
{
    snprintf(out, size, "%g s", value);
    return out;
}

/* The second kind is nowhere, and so not in the legend; the third row is not known. */
START_TEST(stacks_are_sums_of_parts)
{
    static const struct cadre_chart_kind kinds[] = {{"compute", 0},
                                                    {"nowhere", 1},
                                                    {"<bubble>", CADRE_CHART_HOLLOW},
                                                    {"other", CADRE_CHART_GREY},
                                                    {"again", 7}};
    static const double a[] = {6, 0, 2, 1, 1}, b[] = {5, 0, 0, 0, 0};
    const struct cadre_chart_stack_row rows[] = {
        {"a", a, "10 s"}, {"b", b, "5 s"}, {"c", NULL, "not known"}};
    const struct cadre_chart_stack chart = {"t", kinds, 5, rows, 3, in_s};
    cadre_chart_stack(&text, &chart);
    ck_assert_uint_eq(count("class=\"bar s0\""), 2 + 1);
    ck_assert_uint_eq(count("class=\"bar hollow\""), 1 + 1);
    ck_assert_uint_eq(count("class=\"bar grey\""), 1 + 1);
    ck_assert_uint_eq(count("class=\"bar s1 again\""), 1 + 1);
    ck_assert_uint_eq(count("nowhere"), 0);
    ck_assert_uint_eq(count(">60 %<") + count(">100 %<"), 2);
    ck_assert_uint_eq(count("<title>a, compute: 6 s, 60.0 %</title>"), 1);
    ck_assert_uint_eq(
        count("<desc>a: 10 s, compute 6 s, &lt;bubble&gt; 2 s, other 1 s, "
              "again 1 s; b: 5 s, compute 5 s; c: not known</desc>"),
        1);
    /* parts touch, and the whole row is as long as its sum: 272 for 10 s */
    ck_assert_uint_eq(count("x=\"136.00\" y=\"34\" width=\"162.70\""), 1);
    ck_assert_uint_eq(count("x=\"299.20\" y=\"34\""), 1);
    ck_assert_uint_eq(count("x=\"136.00\" y=\"68\" width=\"135.50\""), 1);
    cadre_text_reset(&text);
    const struct cadre_chart_stack none = {"t", kinds, 5, rows + 2, 1, in_s};
    cadre_chart_stack(&text, &none);
    cadre_chart_stack(&text, &(struct cadre_chart_stack){"t", kinds, 5, rows, 0, in_s});
    ck_assert_uint_eq(count("nan") + count("inf"), 0);
    ck_assert_uint_eq(count("<svg"), count("</svg>"));
}
END_TEST

/* One strategy's points are joined from left to right; those of equal x are apart. */
START_TEST(scaling_has_an_ideal)
{
    const struct cadre_chart_scaling_point points[] = {
        {"single", 1, 1, NAN, NAN, "single"},   {"four", 4, 3.2, 3, 3.4, "ddp:"},
        {"two", 2, 1.8, NAN, NAN, "ddp:"},      {"zero", 2, 1.5, NAN, NAN, "zero:"},
        {"<failed>", 8, NAN, NAN, NAN, "ddp:"},
    };
    const struct cadre_chart_scaling chart = {"t", "ranks", "speedup", "ideal: N",
                                              1,   points,  5};
    cadre_chart_scaling(&text, &chart);
    ck_assert_uint_eq(count("class=\"ideal\""), 1);
    ck_assert_uint_eq(count("class=\"thread"), 1);
    ck_assert_uint_eq(count("class=\"thread s2\""), 1);
    ck_assert_uint_eq(count("class=\"whisker\""), 1);
    ck_assert_uint_eq(count("failed") + count("nan"), 0);
    ck_assert_uint_eq(count("<title>two: 1.8 at 2</title>"), 1);
    const struct cadre_chart_scaling nothing = {"t", "x", "y", "i", 1, points + 4, 1};
    cadre_chart_scaling(&text, &nothing);
    ck_assert_uint_eq(count("nan") + count("inf"), 0);
    ck_assert_uint_eq(count("<svg"), count("</svg>"));
}
END_TEST

/* A curve without steps keeps its colour free and is not in the legend. */
START_TEST(legends_name_what_is_drawn)
{
    const double y[] = {3, 2};
    const struct cadre_chart_series series[] = {
        {"first", y, 2}, {"gone", y, 0}, {"last", y, 2}};
    cadre_chart_lines(&text, "t", "y", series, 3);
    ck_assert_uint_eq(count("gone"), 0);
    ck_assert_uint_eq(count("class=\"line s1\""), 0);
    ck_assert_uint_eq(count("class=\"line s2\""), 2);
    ck_assert_uint_eq(count("<desc>first, 2 steps: from 3 to 2; last,"), 1);
}
END_TEST

START_TEST(points_stand_over_shaded_stretches)
{
    static const char *const names[] = {"a", "<b>", "nowhere"};
    const struct cadre_chart_point points[] = {
        {.x = 0, .y = 100, .series = 0, .pale = true, .title = "first"},
        {.x = 1, .y = 104, .series = 1, .title = "<second>"},
        {.x = 2, .y = NAN, .series = 1, .title = "gone"},
        {.x = 3, .y = 98, .series = 0, .title = "third"},
    };
    const struct cadre_chart_span spans[] = {
        {.begin = 0, .end = 2, .name = "1", .title = "round 1"},
        {.begin = 2, .end = 4, .shaded = true, .name = "2", .title = "round 2 & load"},
    };
    const struct cadre_chart_points chart = {"t",    "s", "%",   names, 3,
                                             points, 4,   spans, 2};
    cadre_chart_points(&text, &chart);
    ck_assert_uint_eq(count("class=\"shaded\""), 1);
    ck_assert_uint_eq(count("class=\"stretch\""), 1);
    ck_assert_uint_eq(count("round 2 &amp; load"), 1);
    ck_assert_uint_eq(count("class=\"bar s0 late\""), 1);
    ck_assert_uint_eq(count("class=\"bar s0\"") + count("class=\"bar s1\""), 2 + 2);
    ck_assert_uint_eq(count("&lt;second&gt;"), 1);
    ck_assert_uint_eq(count("gone") + count("nan") + count("nowhere"), 0);
    ck_assert_uint_eq(count("class=\"thread"), 2);
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
    tcase_add_test(tc, points_between_gaps_are_shapes);
    tcase_add_test(tc, curves_stand_at_their_steps);
    tcase_add_test(tc, odd_data_gives_finite_charts);
    tcase_add_test(tc, nearly_flat_curves_have_different_ticks);
    tcase_add_test(tc, bars_have_whiskers);
    tcase_add_test(tc, repeated_colours_are_told_apart);
    tcase_add_test(tc, stacks_are_sums_of_parts);
    tcase_add_test(tc, scaling_has_an_ideal);
    tcase_add_test(tc, legends_name_what_is_drawn);
    tcase_add_test(tc, points_stand_over_shaded_stretches);
    tcase_add_test(tc, boxes_stand_on_their_rows);
    suite_add_tcase(suite, tc);
    return suite;
}
