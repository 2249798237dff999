/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/plan_page.h"

#include <stdlib.h>
#include <string.h>

#include "tests/plan/plan_fixture.h"
#include "tests/support/check_main.h"

static struct cadre_plan_search search;
static struct cadre_plan_question question;
static struct cadre_hardware hw;
static struct cadre_plan_page page;
static struct cadre_text text;

static void setup(void)
{
    struct cadre_error err = {0};
    question = (struct cadre_plan_question){
        .transformer = small_model,
        .from = {.global_batch = 4, .dtype = CADRE_PLAN_BF16},
        .ranks = 8};
    ck_assert_int_eq(cadre_plan_search(&search, &question, &round_machine, &err),
                     CADRE_OK);
    hw = round_machine;
    hw.device.reserve_gib = 3;
    page = (struct cadre_plan_page){
        .search = &search,
        .question = &question,
        .hw = &hw,
        .top = 2,
        .conf = "a<b>.ini",
        .hardware = "round & round.ini",
        .command = "cadre plan 'a<b>.ini'",
        .own = "",
        .asked = true,
        .drawing = "",
        .drawing_note = "",
    };
}

static void teardown(void)
{
    cadre_text_fini(&text);
    cadre_plan_search_fini(&search);
}

static const char *made(void)
{
    cadre_text_reset(&text);
    cadre_plan_page(&page, &text);
    ck_assert(!text.failed);
    return cadre_text_str(&text);
}

static size_t count(const char *all, const char *part)
{
    size_t n = 0;
    for (const char *at = strstr(all, part); at; at = strstr(at + 1, part))
        n++;
    return n;
}

static void has(const char *part)
{
    ck_assert_msg(strstr(cadre_text_str(&text), part), "no '%s'", part);
}

START_TEST(texts_are_escaped_and_it_knows_itself)
{
    const char *html = made();
    ck_assert_ptr_null(strstr(html, "a<b>"));
    has("a&lt;b&gt;.ini");
    has("round &amp; round.ini");
    has("cadre plan &#39;a&lt;b&gt;.ini&#39;");
    ck_assert(cadre_plan_page_is(html));
    ck_assert(!cadre_plan_page_is("<title>Runs</title>"));
    ck_assert_uint_eq(count(html, "<script"), 0);
}
END_TEST

/* No head of a column of figures could be that of a measurement. */
START_TEST(figures_are_called_predicted)
{
    made();
    has("Predicted, not measured: nothing was run.");
    has(">predicted s a step<");
    has(">predicted interval, s<");
    has(">Predicted seconds of a step by cause<");
    has(">step, predicted<");
    has(">Predicted time of a step, by its parts<");
    has(">Predicted memory, at least, by its parts<");
}
END_TEST

START_TEST(as_many_candidates_as_asked_for)
{
    const char *html = made();
    ck_assert_uint_gt(search.legal, 3);
    has("<th class=\"l\" scope=\"row\">1: ");
    has("<th class=\"l\" scope=\"row\">2: ");
    ck_assert_ptr_null(strstr(html, "scope=\"row\">3: "));
    has("candidates that can run are not shown");
    page.top = search.legal;
    made();
    has("scope=\"row\">3: ");
    has(search.legal > 20 ? "Bars are of the first 20 places." : "place 3");
    ck_assert_ptr_null(strstr(cadre_text_str(&text), "are not shown"));
}
END_TEST

/* What plugins ask for beyond the formulas, what is left, and the reserve: they sum to
 * the device. */
START_TEST(memory_is_set_against_the_device)
{
    search.found[0].footprint = (struct cadre_footprint){
        .weights = 1073741824.0 * 10,
        .gradients = 1073741824.0 * 20,
        .states = 1073741824.0 * 5,
        .activations = 1073741824.0 * 15,
        .total = 1073741824.0 * 50,
    };
    search.found[0].asked = 1073741824.0 * 60;
    page.top = 1;
    made();
    has("place 1, weights: 10 GiB, 12.5 %");
    has("place 1, gradients: 20 GiB, 25.0 %");
    has("place 1, optimizer states: 5 GiB");
    has("place 1, activations: 15 GiB");
    has("place 1, more by plugins: 10 GiB, 12.5 %");
    has("place 1, free at most: 17 GiB");
    has("place 1, reserve: 3 GiB");
    has(">60 GiB</text>");
    has("80 GiB less a reserve of 3: 77 are there for a rank");
}
END_TEST

START_TEST(parts_of_a_step)
{
    struct cadre_forecast *f = &search.found[0].forecast;
    *f = (struct cadre_forecast){.step = 4};
    f->cause[CADRE_PLAN_COMPUTE] = 1;
    f->cause[CADRE_PLAN_BUBBLE] = 3;
    page.top = 1;
    made();
    has("place 1, compute: 1 s, 25.0 %");
    has("place 1, bubble: 3 s, 75.0 %");
    has("What limits it: bubble.");
}
END_TEST

START_TEST(refusals_have_their_reasons)
{
    struct cadre_plan_found *f = &search.found[search.legal - 1];
    snprintf(f->refused, sizeof f->refused, "plugin <x> will not");
    search.legal--;
    made();
    has("Refused by their plugins");
    has("plugin &lt;x&gt; will not");
    has("Stacks of which nothing can run");
}
END_TEST

START_TEST(nothing_fits)
{
    search.legal = 0;
    made();
    has("No candidate is predicted to fit and run");
    ck_assert_ptr_null(strstr(cadre_text_str(&text), "by its parts"));
}
END_TEST

START_TEST(what_the_caller_adds)
{
    made();
    ck_assert_ptr_null(strstr(cadre_text_str(&text), "Simulated"));
    page.drawing = "<figure>drawn</figure>";
    page.drawing_note = "1 < 2";
    page.own = "own & <stack>";
    page.asked = false;
    made();
    has("<h2>Simulated: the fastest schedule</h2>");
    has("<figure>drawn</figure>");
    has("1 &lt; 2");
    has("own &amp; &lt;stack&gt;");
    has("Plugins were not asked");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("plan_page");
    TCase *tc = tcase_create("plan_page");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, texts_are_escaped_and_it_knows_itself);
    tcase_add_test(tc, figures_are_called_predicted);
    tcase_add_test(tc, as_many_candidates_as_asked_for);
    tcase_add_test(tc, memory_is_set_against_the_device);
    tcase_add_test(tc, parts_of_a_step);
    tcase_add_test(tc, refusals_have_their_reasons);
    tcase_add_test(tc, nothing_fits);
    tcase_add_test(tc, what_the_caller_adds);
    suite_add_tcase(s, tc);
    return s;
}
