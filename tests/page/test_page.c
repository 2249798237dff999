/* SPDX-License-Identifier: Apache-2.0 */
#include "core/page/page.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "config.h"
#include "core/page/build.h"
#include "tests/support/check_main.h"

static struct cadre_text text;

static void teardown(void)
{
    cadre_text_fini(&text);
}

static bool has(const char *needle)
{
    return strstr(cadre_text_str(&text), needle) != NULL;
}

START_TEST(texts_are_escaped_everywhere)
{
    const struct cadre_page_item items[] = {
        {"machine", "<b>&"}, {"empty", ""}, {"none", NULL}};
    const struct cadre_page_column columns[] = {{"<run>", true}, {"a & b", false}};
    cadre_page_begin(&text, "<title>", "<heading>");
    cadre_page_setup(&text, items, 3);
    cadre_page_paragraph(&text, "soft", "1 < 2");
    cadre_page_table_begin(&text, "<caption>", columns, 2);
    cadre_page_row_begin(&text, "<row>");
    cadre_page_cell(&text, "l", "<cell>");
    cadre_page_row_end(&text);
    cadre_page_table_end(&text);
    cadre_page_end(&text);
    ck_assert(has("<title>&lt;title&gt;</title>") && has("<h1>&lt;heading&gt;</h1>"));
    ck_assert(has("<dt>machine</dt><dd>&lt;b&gt;&amp;</dd>"));
    ck_assert(!has("empty") && !has("<dt>none"));
    ck_assert(has("<caption>&lt;caption&gt;</caption>"));
    ck_assert(has("<th class=\"l\" scope=\"col\">&lt;run&gt;</th>"));
    ck_assert(has("<th scope=\"col\">a &amp; b</th>"));
    ck_assert(has("<th class=\"l\" scope=\"row\">&lt;row&gt;</th>"));
    ck_assert(has("<td class=\"l\">&lt;cell&gt;</td>") && has("1 &lt; 2"));
    ck_assert(has("</html>") && !has("<script") && !has("http-equiv"));
}
END_TEST

START_TEST(links_are_urls)
{
    cadre_page_link(&text, "runs/a b\"?#:%\xc3\xa9/x.json", "<x>");
    ck_assert_str_eq(
        cadre_text_str(&text),
        "<a href=\"runs/a%20b%22%3F%23%3A%25%C3%A9/x.json\">&lt;x&gt;</a>");
}
END_TEST

START_TEST(a_build_has_a_version)
{
    const char *build = cadre_page_build();
    size_t n = strlen(PACKAGE_STRING);
    ck_assert_int_eq(strncmp(build, PACKAGE_STRING, n), 0);
    ck_assert(build[n] == 0 || strncmp(build + n, ", commit ", 9) == 0);
    ck_assert(build[n] == 0 || strlen(build + n) > 9);
}
END_TEST

START_TEST(dates_are_read_by_people)
{
    char date[CADRE_PAGE_DATE];
    struct tm utc = {0};
    const char *end = strptime(cadre_page_date(date), "%Y-%m-%d %H:%M UTC", &utc);
    ck_assert_msg(end && !*end, "%s", date);
    ck_assert_double_le(fabs(difftime(timegm(&utc), time(NULL))), 120);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("page/page");
    TCase *tc = tcase_create("page");
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, texts_are_escaped_everywhere);
    tcase_add_test(tc, dates_are_read_by_people);
    tcase_add_test(tc, links_are_urls);
    tcase_add_test(tc, a_build_has_a_version);
    suite_add_tcase(suite, tc);
    return suite;
}
