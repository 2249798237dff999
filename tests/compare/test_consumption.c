/* SPDX-License-Identifier: Apache-2.0 */
/* Energy, utilisation and price of compared runs, and how reports show them. */
#include "core/compare/verdict/consumption.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/compare/report/cells.h"
#include "core/compare/report/report.h"
#include "tests/compare/fixture.h"
#include "tests/compare/timed.h"
#include "tests/support/check_main.h"

#define KNOWN                                                                          \
    "\"energy\": {\"j_per_token\": 0.5, \"why\": null, \"scope\": \"2 packages of 1 "  \
    "host\"}, \"flops_per_token\": 1000, \"hardware_flops_per_token\": 1250, "         \
    "\"peak_flops\": 2e6, \"peak_source\": \"stated\", \"mfu\": 0.9, \"hfu\": 0.9, "   \
    "\"mfu_why\": null"
#define PRICED                                                                         \
    KNOWN ", \"price\": {\"per_hour\": 3.6, \"hosts\": 2, \"run\": 1, "                \
          "\"per_million_tokens\": 9}"
#define UNKNOWN                                                                        \
    "\"energy\": {\"j_per_token\": null, \"why\": \"only root may read it\", "         \
    "\"scope\": null}, \"peak_flops\": null, \"peak_source\": null, \"mfu\": null, "   \
    "\"mfu_why\": \"nobody knows\""

static char *dir;
static struct cadre_comparison c;
static struct cadre_text text;

/* 100 tokens a step: 250 and 500 tokens/s. */
static void make(const char *first, const char *second)
{
    const struct fixture_run runs[] = {
        {.name = "base", .step_s = 0.4, .site = first},
        {.name = "quick", .step_s = 0.2, .site = second}};
    fixture_judge(dir, runs, 2, NULL, &c);
}

static void setup(void)
{
    dir = test_tmpdir();
    c = (struct cadre_comparison){0};
    text = (struct cadre_text){0};
}

static void teardown(void)
{
    timed_clear(&c);
    cadre_comparison_fini(&c);
    cadre_text_fini(&text);
    test_tmpdir_destroy(dir);
}

static bool has(void (*form)(const struct cadre_comparison *, struct cadre_text *),
                const char *needle)
{
    cadre_text_reset(&text);
    form(&c, &text);
    return strstr(cadre_text_str(&text), needle) != NULL;
}

START_TEST(records_tell_without_pieces)
{
    make(KNOWN, PRICED);
    ck_assert_double_eq(cadre_consumption_joules(&c, 0), 0.5);
    ck_assert_double_eq_tol(cadre_consumption_mfu(&c.run[0]), 1000 * 250 / 2e6, 1e-12);
    ck_assert_double_eq_tol(cadre_consumption_hfu(&c.run[1]), 1250 * 500 / 2e6, 1e-12);
    ck_assert(isnan(cadre_consumption_price(&c.run[0])));
    ck_assert_double_eq_tol(cadre_consumption_price(&c.run[1]), 7.2 / 3600 * 1e6 / 500,
                            1e-9);
}
END_TEST

/* The median of undisturbed rounds, warm-up left out; what is not known is left out. */
START_TEST(pieces_tell_where_there_are_some)
{
    make(KNOWN, KNOWN);
    timed_fill(&c, 4);
    for (size_t i = 0; i < c.n_pieces; i++) {
        struct cadre_piece *piece = &c.piece[i];
        piece->joules_per_token = piece->run == 1     ? NAN
                                  : piece->round == 0 ? 100
                                  : piece->round == 2 ? 50
                                  : piece->half       ? 3
                                                      : 2;
    }
    ck_assert_double_eq(cadre_consumption_joules(&c, 0), 2.5);
    ck_assert(isnan(cadre_consumption_joules(&c, 1)));
    for (size_t r = 0; r < c.speed.n_rounds; r++)
        c.speed.round[r].disturbed = true;
    c.piece[4].joules_per_token = 7; /* run 0 of round 1 */
    ck_assert_int_eq((int)c.piece[4].run, 0);
    ck_assert_double_eq(cadre_consumption_joules(&c, 0), 3);
}
END_TEST

START_TEST(every_form_shows_what_is_known)
{
    make(PRICED, PRICED);
    cadre_report_json(&c, &text);
    json_t *root = json_loads(cadre_text_str(&text), JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(root);
    const json_t *run = json_array_get(json_object_get(root, "runs"), 1);
    ck_assert(json_number_value(json_object_get(run, "j_per_token")) == 0.5);
    ck_assert_double_eq_tol(json_number_value(json_object_get(run, "mfu")), 0.25,
                            1e-12);
    ck_assert(json_number_value(json_object_get(run, "flops_per_token")) == 1000);
    ck_assert(json_is_null(json_object_get(run, "energy_why")));
    json_decref(root);
    ck_assert(has(cadre_report_csv, ",j_per_token,mfu,hfu,price_per_million_tokens,"));
    ck_assert(has(cadre_report_csv, ",true,,,,0.5,0.25,0.3125,4,"));
    ck_assert(has(cadre_report_markdown, " J/token | MFU | price/Mtoken |"));
    ck_assert(has(cadre_report_markdown, " 0.5 | 25 % | 4 |"));
    ck_assert(has(cadre_report_html, "<th scope=\"col\">J/token</th>"));
    ck_assert(has(cadre_report_html, "<td>25 %</td>"));
    ck_assert(
        has(cadre_report_notes, "J/token: energy of 2 packages of 1 host during"));
    ck_assert(has(cadre_report_notes, "of all devices; peak: stated.\n"));
}
END_TEST

/* No column of dashes: the notes say once why. */
START_TEST(no_form_shows_what_is_not_known)
{
    make(UNKNOWN, UNKNOWN);
    ck_assert(cadre_cells_is_empty(&c, CADRE_CELL_JOULES));
    ck_assert(cadre_cells_is_empty(&c, CADRE_CELL_MFU));
    ck_assert(cadre_cells_is_empty(&c, CADRE_CELL_PRICE));
    ck_assert(!cadre_cells_is_empty(&c, CADRE_CELL_BUBBLE));
    ck_assert(!has(cadre_report_markdown, "J/token"));
    ck_assert(!has(cadre_report_markdown, "MFU |"));
    ck_assert(!has(cadre_report_html, "J/token"));
    ck_assert(has(cadre_report_csv, ",true,,,,,,,,"));
    ck_assert(has(cadre_report_notes, "Energy is not readable here, because only root "
                                      "may read it.\nMFU is not known, because nobody "
                                      "knows.\n"));
    char *once = strstr(cadre_text_str(&text), "not readable here");
    ck_assert_ptr_null(strstr(once + 1, "not readable here"));
}
END_TEST

START_TEST(runs_of_earlier_builds_say_nothing)
{
    make(NULL, NULL);
    timed_fill(&c, 4);
    timed_fail(&c, 1, "killed");
    ck_assert(isnan(cadre_consumption_joules(&c, 0)));
    ck_assert(isnan(cadre_consumption_joules(&c, 1)));
    ck_assert(isnan(cadre_consumption_mfu(&c.run[1])));
    ck_assert(isnan(cadre_consumption_price(&c.run[1])));
    ck_assert(!has(cadre_report_notes, "Energy") && !has(cadre_report_notes, "MFU"));
    ck_assert(!has(cadre_report_json, "nan"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("consumption");
    TCase *tc = tcase_create("consumption");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, records_tell_without_pieces);
    tcase_add_test(tc, pieces_tell_where_there_are_some);
    tcase_add_test(tc, every_form_shows_what_is_known);
    tcase_add_test(tc, no_form_shows_what_is_not_known);
    tcase_add_test(tc, runs_of_earlier_builds_say_nothing);
    suite_add_tcase(s, tc);
    return s;
}
