/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/timeline.h"

#include <string.h>

#include "core/base/clock.h"
#include "tests/support/check_main.h"

static struct cadre_timeline t;
static const char axis[] = "pp";

static void setup(void)
{
    ck_assert_int_eq(cadre_timeline_init(&t, 2, 8, NULL), CADRE_OK);
    t.axis = axis;
    cadre_timeline_begin_step(&t);
}

static void teardown(void)
{
    cadre_timeline_fini(&t);
}

/* Set the test's times instead of the clock's. */
static void at(double begin, double end)
{
    t.span[t.n - 1].begin = begin;
    t.span[t.n - 1].end = end;
}

static void pass(enum cadre_span_kind kind, uint32_t chunk, double begin, double end)
{
    double now = cadre_timeline_begin_pass(&t);
    cadre_timeline_end_pass(&t, kind, chunk, 0, now);
    at(begin, end);
}

static void wait(const char *name, double begin, double end)
{
    cadre_timeline_add(&t, CADRE_SPAN_WAIT, name, cadre_now_s());
    at(begin, end);
}

START_TEST(passes_and_waits_between_them_are_used)
{
    pass(CADRE_SPAN_FORWARD, 0, 10, 12);
    wait(axis, 12, 15); /* for a neighbour: idle */
    wait("dp", 15, 16); /* exposed */
    pass(CADRE_SPAN_BACKWARD, 0, 16, 20);
    wait("dp", 20, 29); /* after the last pass */
    struct cadre_timeline_row row = cadre_timeline_row(&t);
    ck_assert_double_eq(row.begin, 10);
    ck_assert_double_eq(row.end, 20);
    ck_assert_double_eq(row.used, 2 + 4 + 1);

    /* the group's span is 8 to 24: 4 s of the last wait are hidden in it */
    struct cadre_timeline_idle idle = {.begin = 8, .end = 24};
    ck_assert_double_eq(cadre_timeline_hidden(&t, &idle), 3 + 4);
    t.axis = NULL;
    ck_assert_double_eq(cadre_timeline_row(&t).used, 2 + 4 + 1 + 3);
}
END_TEST

START_TEST(a_rank_without_passes)
{
    wait(axis, 3, 4);
    struct cadre_timeline_row row = cadre_timeline_row(&t);
    ck_assert_double_eq(row.end, 0);
    ck_assert_double_eq(row.used, 0);
    struct cadre_timeline_row rows[2] = {{5, 9, 4}, {0, 0, 0}};
    struct cadre_timeline_groups groups = {2, 2, 1};
    struct cadre_timeline_idle idle = cadre_timeline_idle(rows, &groups, 1);
    ck_assert_double_eq(idle.begin, 5);
    ck_assert_double_eq(idle.span_s, 4);
    ck_assert_double_eq(idle.bubble_s, 2);
    rows[0] = rows[1];
    idle = cadre_timeline_idle(rows, &groups, 0);
    ck_assert_double_eq(idle.span_s, 0);
    ck_assert_double_eq(idle.bubble_s, 0);
}
END_TEST

/* gpipe with p = 2, m = 3, F = 1, B = 2: (p-1)/(m+p-1) = 1/4 */
START_TEST(gpipe_has_its_bubble)
{
    const struct cadre_timeline_row rows[2] = {{0, 12, 9}, {1, 10, 9}};
    const struct cadre_timeline_groups groups = {2, 2, 1};
    struct cadre_timeline_idle idle = cadre_timeline_idle(rows, &groups, 0);
    ck_assert_double_eq(idle.span_s, 12);
    ck_assert_double_eq_tol(idle.bubble_s / idle.span_s, 0.25, 1e-15);
    ck_assert_double_eq(idle.longest_s, 12);
}
END_TEST

/* pp:2, dp:2 with pp the slower axis, then the faster: groups are of other ranks. */
START_TEST(groups_follow_the_mesh)
{
    const struct cadre_timeline_row rows[4] = {
        {0, 10, 5}, {100, 104, 4}, {2, 8, 5}, {102, 108, 4}};
    struct cadre_timeline_groups groups = {4, 2, 2};
    struct cadre_timeline_idle idle = cadre_timeline_idle(rows, &groups, 3);
    ck_assert_double_eq(idle.begin, 100);
    ck_assert_double_eq(idle.end, 108);
    ck_assert_double_eq(idle.span_s, (10 + 8 + 10 + 8) / 4.0);
    ck_assert_double_eq(idle.bubble_s, (5 + 4 + 5 + 4) / 4.0);
    ck_assert_double_eq(idle.longest_s, 10);
    groups.stride = 1;
    idle = cadre_timeline_idle(rows, &groups, 3);
    ck_assert_double_eq(idle.begin, 2);
    ck_assert_double_eq(idle.end, 108);
}
END_TEST

START_TEST(details_are_kept_when_asked_for)
{
    double begin = cadre_timeline_begin_pass(&t);
    cadre_timeline_add(&t, CADRE_SPAN_WAIT, "tp", begin);
    ck_assert_uint_eq(t.n, 0);
    t.detail = true;
    cadre_timeline_add(&t, CADRE_SPAN_WAIT, "tp", begin);
    cadre_timeline_end_pass(&t, CADRE_SPAN_FORWARD, 1, 3, begin);
    cadre_timeline_add(&t, CADRE_SPAN_WORK, "optimizer", begin);
    ck_assert_uint_eq(t.n, 3);
    ck_assert(t.span[0].inside && !t.span[1].inside && !t.span[2].inside);
    ck_assert_uint_eq(t.span[1].chunk, 1);
    ck_assert_uint_eq(t.span[1].microbatch, 3);
    ck_assert_double_le(t.span[1].begin, t.span[1].end);
    ck_assert_double_eq(cadre_timeline_row(&t).used, t.span[1].end - begin);
}
END_TEST

static void unit(uint32_t number)
{
    double begin = cadre_timeline_begin_unit(&t);
    cadre_timeline_end_unit(&t, CADRE_SPAN_BACKWARD, number, 3, begin);
}

START_TEST(units_are_recorded_when_asked_for)
{
    unit(1);
    ck_assert_uint_eq(t.n, 0);
    ck_assert_double_eq(cadre_timeline_begin_unit(&t), 0); /* no look at the clock */
    size_t room = t.room;
    cadre_timeline_detail(&t, true, 1000);
    ck_assert_uint_ge(t.room, room + 1000);
    double begin = cadre_timeline_begin_pass(&t);
    unit(2);
    cadre_timeline_end_pass(&t, CADRE_SPAN_BACKWARD, 0, 3, begin);
    ck_assert_uint_eq(t.n, 2);
    ck_assert(t.span[0].kind == CADRE_SPAN_UNIT && t.span[0].inside);
    ck_assert(t.span[0].pass == CADRE_SPAN_BACKWARD);
    ck_assert_uint_eq(t.span[0].unit, 2);
    ck_assert_uint_eq(t.span[0].microbatch, 3);
    /* bubbles are of passes */
    ck_assert_double_eq(cadre_timeline_row(&t).used, t.span[1].end - begin);
    cadre_timeline_detail(&t, false, 0);
    unit(3);
    ck_assert_uint_eq(t.n, 2);
    cadre_timeline_end_unit(NULL, CADRE_SPAN_FORWARD, 0, 0,
                            cadre_timeline_begin_unit(NULL));
}
END_TEST

/* Waits inside of passes are no computing, whether they are recorded or not. */
START_TEST(passes_compute_what_they_do_not_wait)
{
    for (int detail = 0; detail < 2; detail++) {
        cadre_timeline_begin_step(&t);
        t.detail = detail;
        cadre_timeline_add(&t, CADRE_SPAN_WAIT, "dp", cadre_now_s() - 100);
        double begin = cadre_timeline_begin_pass(&t);
        cadre_timeline_add(&t, CADRE_SPAN_WAIT, "tp", cadre_now_s() - 5);
        cadre_timeline_add(&t, CADRE_SPAN_WORK, "data", cadre_now_s() - 50);
        cadre_timeline_end_pass(&t, CADRE_SPAN_FORWARD, 0, 0, begin - 7);
        ck_assert_double_eq_tol(t.pass_s, 2, 1);
        ck_assert_double_eq_tol(t.waited_s, 105, 1);
        cadre_timeline_begin_step(&t);
        ck_assert_double_eq(t.pass_s + t.waited_s, 0);
    }
}
END_TEST

START_TEST(what_finds_no_room_is_counted)
{
    size_t more = t.room + 5;
    for (size_t i = 0; i < more; i++)
        cadre_timeline_add(&t, CADRE_SPAN_WAIT, axis, 0);
    ck_assert_uint_eq(t.n, t.room);
    ck_assert_uint_eq(t.lost, 5);
    cadre_timeline_begin_step(&t);
    ck_assert_uint_eq(t.n, 0);
    ck_assert_uint_eq(t.lost, 0);
    cadre_timeline_end_pass(NULL, CADRE_SPAN_FORWARD, 9, 9,
                            cadre_timeline_begin_pass(NULL));
}
END_TEST

START_TEST(the_fastest_step_is_kept)
{
    struct cadre_timeline_idle idle = {.longest_s = 3, .begin = 1};
    pass(CADRE_SPAN_FORWARD, 0, 1, 2);
    wait(axis, 2, 3);
    pass(CADRE_SPAN_INPUT, 0, 3, 4);
    cadre_timeline_keep(&t, 5, &idle);
    ck_assert_uint_eq(t.n_best, 2);
    ck_assert_uint_eq(t.best_step, 5);
    ck_assert_int_eq(t.best[1].kind, CADRE_SPAN_INPUT);
    cadre_timeline_begin_step(&t);
    pass(CADRE_SPAN_FORWARD, 1, 7, 8);
    cadre_timeline_keep(&t, 6, &idle); /* not faster */
    ck_assert_uint_eq(t.best_step, 5);
    cadre_timeline_warm(&t);
    ck_assert_uint_eq(t.best_step, 0);
    cadre_timeline_keep(&t, 7, &idle);
    ck_assert_uint_eq(t.best_step, 7);
    ck_assert_uint_eq(t.n_best, 1);
    for (int i = 0; i < 20; i++) /* a schedule that repeats itself */
        pass(CADRE_SPAN_FORWARD, 0, 1, 2);
    idle.longest_s = 1;
    cadre_timeline_keep(&t, 8, &idle);
    ck_assert_uint_eq(t.n_best, 8);
}
END_TEST

START_TEST(medians_of_the_last_durations)
{
    ck_assert_double_eq(cadre_timeline_median(&t, 1, CADRE_SPAN_WEIGHT), 0);
    struct cadre_timeline_samples *samples =
        &t.samples[CADRE_SPAN_PASSES + CADRE_SPAN_WEIGHT];
    const double some[3] = {5, 1, 2};
    memcpy(samples->value, some, sizeof some);
    samples->n = 3;
    ck_assert_double_eq(cadre_timeline_median(&t, 1, CADRE_SPAN_WEIGHT), 2);
    ck_assert_double_eq(samples->value[0], 5); /* left in their order */
    for (int i = 0; i < CADRE_TIMELINE_SAMPLES; i++)
        samples->value[i] = 4;
    samples->n = 1000;
    ck_assert_double_eq(cadre_timeline_median(&t, 1, CADRE_SPAN_WEIGHT), 4);
    pass(CADRE_SPAN_WEIGHT, 1, 0, 0);
    ck_assert_uint_eq(samples->n, 1001);
    ck_assert_double_ne(samples->value[1000 % CADRE_TIMELINE_SAMPLES], 4);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("timeline");
    TCase *tc = tcase_create("timeline");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, passes_and_waits_between_them_are_used);
    tcase_add_test(tc, a_rank_without_passes);
    tcase_add_test(tc, gpipe_has_its_bubble);
    tcase_add_test(tc, groups_follow_the_mesh);
    tcase_add_test(tc, details_are_kept_when_asked_for);
    tcase_add_test(tc, units_are_recorded_when_asked_for);
    tcase_add_test(tc, passes_compute_what_they_do_not_wait);
    tcase_add_test(tc, what_finds_no_room_is_counted);
    tcase_add_test(tc, the_fastest_step_is_kept);
    tcase_add_test(tc, medians_of_the_last_durations);
    suite_add_tcase(s, tc);
    return s;
}
