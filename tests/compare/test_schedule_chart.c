/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/report/schedule_chart.h"

#include <string.h>

#include "tests/support/check_main.h"

static struct cadre_replay_pass pass[2][3] = {
    {{CADRE_REPLAY_FORWARD, 0, 5, 0, 1}, {CADRE_REPLAY_BACKWARD, 0, 5, 3, 4}},
    {{CADRE_REPLAY_FORWARD, 1, 5, 1, 2}, {CADRE_REPLAY_BACKWARD, 1, 5, 2, 3}},
};
static struct cadre_replay_rank rank[2];
static struct cadre_replay schedule;
static struct cadre_text text;

static void setup(void)
{
    for (int r = 0; r < 2; r++)
        rank[r] =
            (struct cadre_replay_rank){.rank = 4 * r, .pass = pass[r], .n_passes = 2};
    schedule = (struct cadre_replay){.rank = rank, .n = 2};
}

static void teardown(void)
{
    cadre_text_fini(&text);
}

static bool has(const char *part)
{
    return strstr(cadre_text_str(&text), part) != NULL;
}

START_TEST(a_row_a_rank_and_a_box_a_pass)
{
    ck_assert_uint_eq(cadre_schedule_passes(&schedule), 4);
    cadre_schedule_chart(&text, "a <schedule>", &schedule);
    ck_assert(!text.failed);
    ck_assert(has("a &lt;schedule&gt;"));
    ck_assert(has("rank 0") && has("rank 4"));
    ck_assert(has("forward of micro-batch 5, chunk 0: 1e+03 ms"));
    ck_assert(has("backward of micro-batch 5, chunk 1: 1e+03 ms"));
    ck_assert(has("late")); /* of chunk 1 */
    ck_assert(!has("backward, weight"));
}
END_TEST

START_TEST(a_backward_in_two_parts_has_three_kinds)
{
    pass[0][1].kind = CADRE_REPLAY_INPUT;
    pass[0][2] = (struct cadre_replay_pass){CADRE_REPLAY_WEIGHT, 0, 5, 4, 5};
    rank[0].n_passes = 3;
    cadre_schedule_chart(&text, "split", &schedule);
    ck_assert(has("backward, weight of micro-batch 5"));
    ck_assert(has(">backward, input<"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("schedule_chart");
    TCase *tc = tcase_create("schedule_chart");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_row_a_rank_and_a_box_a_pass);
    tcase_add_test(tc, a_backward_in_two_parts_has_three_kinds);
    suite_add_tcase(s, tc);
    return s;
}
