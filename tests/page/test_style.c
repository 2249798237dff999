/* SPDX-License-Identifier: Apache-2.0 */
/* The palette: contrast by WCAG 2.1 (relative luminance, sections 1.4.3 and 1.4.11), in
 * light and in dark. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/page/page.h"
#include "tests/support/check_main.h"

struct colour {
    double part[3]; /* 0 to 1, as written */
};

/* The style from its light or its dark colours on. */
static const char *scheme(const char *style, bool dark)
{
    const char *at = strstr(style, dark ? "prefers-color-scheme:dark" : ":root{");
    ck_assert_ptr_nonnull(at);
    return at;
}

static struct colour colour_of(const char *style, bool dark, const char *name)
{
    char key[32], digits[7] = "";
    struct colour c;
    snprintf(key, sizeof key, "--%s:#", name);
    const char *at = strstr(scheme(style, dark), key);
    ck_assert_msg(at != NULL, "no colour %s", name);
    at += strlen(key);
    size_t n = strspn(at, "0123456789abcdef");
    ck_assert_msg(n == 3 || n == 6, "%s is not #rgb or #rrggbb", name);
    for (size_t i = 0; i < 6; i++)
        digits[i] = at[n == 6 ? i : i / 2];
    for (int i = 0; i < 3; i++) {
        const char pair[3] = {digits[2 * i], digits[2 * i + 1]};
        c.part[i] = (double)strtol(pair, NULL, 16) / 255;
    }
    return c;
}

static double luminance(const struct colour *c)
{
    static const double weight[] = {0.2126, 0.7152, 0.0722};
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        double v = c->part[i];
        sum += weight[i] * (v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
    }
    return sum;
}

static double contrast(const struct colour *a, const struct colour *b)
{
    double la = luminance(a), lb = luminance(b);
    return (fmax(la, lb) + 0.05) / (fmin(la, lb) + 0.05);
}

/* `share` of a over b. */
static struct colour mix(const struct colour *a, const struct colour *b, double share)
{
    struct colour c;
    for (int i = 0; i < 3; i++)
        c.part[i] = share * a->part[i] + (1 - share) * b->part[i];
    return c;
}

static void expect_text(const struct colour *text, const struct colour *on,
                        const char *what, bool dark)
{
    ck_assert_msg(contrast(text, on) >= 4.5, "%s, %s: a contrast of %.2f", what,
                  dark ? "dark" : "light", contrast(text, on));
}

START_TEST(contrast_is_computed_right)
{
    const struct colour white = {{1, 1, 1}}, black = {{0, 0, 0}},
                        grey = {{119 / 255.0, 119 / 255.0, 119 / 255.0}};
    ck_assert_double_eq_tol(contrast(&white, &black), 21, 1e-9);
    ck_assert_double_eq_tol(contrast(&grey, &white), 4.48, 0.005);
}
END_TEST

START_TEST(every_text_can_be_read)
{
    static const char *const texts[] = {"ink", "soft", "good", "bad", "c0"};
    const bool dark = _i;
    struct cadre_text style = {0};
    cadre_page_style(&style);
    const char *s = cadre_text_str(&style);
    const struct colour paper = colour_of(s, dark, "paper"),
                        ink = colour_of(s, dark, "ink"),
                        soft = colour_of(s, dark, "soft");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const struct colour text = colour_of(s, dark, texts[i]);
        expect_text(&text, &paper, texts[i], dark);
    }
    for (int i = 0; i < 6; i++) {
        char name[3] = {'c', (char)('0' + i)};
        const struct colour bar = colour_of(s, dark, name);
        const struct colour again = mix(&bar, &paper, 0.35);
        expect_text(&paper, &bar, name, dark); /* labels in bars */
        expect_text(&ink, &again, "a paler bar", dark);
    }
    for (int i = 0; i < 2; i++) {
        const struct colour under = colour_of(s, dark, i ? "shade" : "band");
        expect_text(&ink, &under, i ? "shade" : "band", dark);
    }
    expect_text(&paper, &soft, "a grey bar", dark);
    cadre_text_fini(&style);
}
END_TEST

/* Ink stands on pale boxes as the style says it does. */
START_TEST(labels_of_late_boxes_can_be_read)
{
    struct cadre_text style = {0};
    cadre_page_style(&style);
    const char *s = cadre_text_str(&style);
    ck_assert_ptr_nonnull(
        strstr(s, "text.box.late,svg text.box.open{fill:var(--ink)}"));
    ck_assert_ptr_nonnull(strstr(s, ".bar.late{fill-opacity:.4}"));
    for (int dark = 0; dark < 2; dark++) {
        const struct colour paper = colour_of(s, dark, "paper"),
                            ink = colour_of(s, dark, "ink");
        for (int i = 0; i < 6; i++) {
            char name[3] = {'c', (char)('0' + i)};
            const struct colour bar = colour_of(s, dark, name),
                                late = mix(&bar, &paper, 0.4);
            expect_text(&ink, &late, name, dark);
        }
    }
    cadre_text_fini(&style);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("page/style");
    TCase *tc = tcase_create("style");
    tcase_add_test(tc, contrast_is_computed_right);
    tcase_add_loop_test(tc, every_text_can_be_read, 0, 2);
    tcase_add_test(tc, labels_of_late_boxes_can_be_read);
    suite_add_tcase(suite, tc);
    return suite;
}
