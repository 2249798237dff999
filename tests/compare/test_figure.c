/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/report/figure.h"

#include <math.h>

#include "tests/support/check_main.h"

static char text[CADRE_FIGURE_CHARS];

static const struct cadre_interval wide = {1.312, 1.281, 1.342};
static const struct cadre_interval narrow = {1.0031, 1.0012, 1.0055};
static const struct cadre_interval bare = {1.312, NAN, NAN};
static const struct cadre_interval none = {NAN, NAN, NAN};

START_TEST(ratios_have_the_digits_that_their_interval_has)
{
    ck_assert_str_eq(cadre_figure_ratio(&wide, text, sizeof text), "1.31 [1.28, 1.34]");
    ck_assert_str_eq(cadre_figure_ratio(&narrow, text, sizeof text),
                     "1.003 [1.001, 1.006]");
    ck_assert_str_eq(cadre_figure_ratio(&bare, text, sizeof text), "1.31");
    ck_assert_str_eq(cadre_figure_ratio(&none, text, sizeof text), "-");
    ck_assert_str_eq(cadre_figure_ratio_range(&wide, text, sizeof text),
                     "1.28 to 1.34");
    ck_assert_str_eq(cadre_figure_ratio_range(&bare, text, sizeof text), "");
}
END_TEST

START_TEST(percentages)
{
    const struct cadre_interval price = {0.021, -0.003, 0.044}, half = {0.5, 0.5, 0.51};
    ck_assert_str_eq(cadre_figure_percent(&price, text, sizeof text), "2 % [-0, 4]");
    ck_assert_str_eq(cadre_figure_percent(&half, text, sizeof text),
                     "50.0 % [50.0, 51.0]");
    ck_assert_str_eq(cadre_figure_percent(&bare, text, sizeof text), "131 %");
    ck_assert_str_eq(cadre_figure_percent(&none, text, sizeof text), "-");
    ck_assert_str_eq(cadre_figure_percent_range(&price, text, sizeof text),
                     "-0.3 % to 4.4 %");
}
END_TEST

START_TEST(seconds)
{
    const struct cadre_interval step = {0.0456, 0.0441, 0.047};
    ck_assert_str_eq(cadre_figure_seconds(&step, text, sizeof text),
                     "45.6 ms [44.1 ms, 47.0 ms]");
    ck_assert_str_eq(cadre_figure_seconds(&bare, text, sizeof text), "1.31 s");
    ck_assert_str_eq(cadre_figure_share(0.0123, text, sizeof text), "1.2 %");
    ck_assert_str_eq(cadre_figure_share(0.31, text, sizeof text), "31 %");
    ck_assert_str_eq(cadre_figure_share(1.4, text, sizeof text), "140 %");
    ck_assert_str_eq(cadre_figure_share(NAN, text, sizeof text), "-");
    const struct cadre_interval zero = {0, 0, 0};
    ck_assert_str_eq(cadre_figure_seconds(&zero, text, sizeof text), "0 s");
    ck_assert_str_eq(cadre_figure_seconds(&none, text, sizeof text), "-");
}
END_TEST

/* Ends that do not enclose the value are none. */
START_TEST(an_interval_encloses_its_value)
{
    const struct cadre_interval other = {1.3, 0, 0}, point = {1, 1, 1};
    ck_assert(cadre_figure_is_interval(&wide) && cadre_figure_is_interval(&point));
    ck_assert(!cadre_figure_is_interval(&other) && !cadre_figure_is_interval(&bare));
    struct cadre_interval inverse = cadre_figure_inverse(&wide);
    ck_assert(cadre_figure_is_interval(&inverse));
    ck_assert(inverse.low == 1 / wide.high && inverse.high == 1 / wide.low);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("figure");
    TCase *tc = tcase_create("figure");
    tcase_add_test(tc, ratios_have_the_digits_that_their_interval_has);
    tcase_add_test(tc, percentages);
    tcase_add_test(tc, seconds);
    tcase_add_test(tc, an_interval_encloses_its_value);
    suite_add_tcase(suite, tc);
    return suite;
}
