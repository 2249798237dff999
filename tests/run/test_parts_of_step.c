/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/parts_of_step.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "tests/support/check_main.h"

/* One step of a rank: 10 s in all. */
static const struct cadre_step_times step = {
    .step_s = 10,
    .wait_data_s = 0.25,
    .comm_exposed_s = 1.5,
    .optim_s = 2,
    .bubble_s = 1,
    .wait_ranks_s = 0.5,
    .compute_s = 4,
    .optim_wait_s = 0.75,
    .n_exposed = 2,
    .exposed = {{"world", 0.5}, {"dp", 1}},
};

static json_t *written(const struct cadre_step_parts *parts, double step_s)
{
    struct cadre_text text = {0};
    struct cadre_json json;
    cadre_json_init_text(&json, &text, false);
    cadre_step_parts_put(&json, parts, step_s);
    ck_assert_int_eq(cadre_json_finish(&json), CADRE_OK);
    json_t *object = json_loads(text.data, JSON_DECODE_ANY, NULL);
    ck_assert_ptr_nonnull(object);
    cadre_text_fini(&text);
    return object;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_number(value), "no number %s", key);
    return json_number_value(value);
}

/* All numbers of the object, those by axis too. */
static double sum_of(json_t *object)
{
    const char *key;
    json_t *value;
    double sum = 0;
    json_object_foreach(object, key, value)
    {
        sum += json_is_object(value) ? sum_of(value) : json_number_value(value);
    }
    return sum;
}

START_TEST(parts_and_the_rest_are_the_step)
{
    struct cadre_step_parts parts = {0};
    cadre_step_parts_add(&parts, &step);
    ck_assert(parts.known);
    json_t *object = written(&parts, 10);
    ck_assert_double_eq(number(object, "compute_s"), 4);
    ck_assert_double_eq(number(object, "optimizer_s"), 1.25); /* without its waits */
    ck_assert_double_eq(number(json_object_get(object, "comm_exposed_axis_s"), "dp"),
                        1);
    ck_assert_double_eq(number(object, "other_s"), 10 - 8.5);
    ck_assert_double_eq(number(object, "excess_s"), 0);
    ck_assert_double_eq(sum_of(object), 10);
    json_decref(object);
    object = written(&parts, 8); /* the parts have more than the step */
    ck_assert_double_eq(number(object, "other_s"), 0);
    ck_assert_double_eq(number(object, "excess_s"), 0.5);
    json_decref(object);
}
END_TEST

START_TEST(what_is_written_is_read)
{
    struct cadre_step_parts parts = {0}, back;
    cadre_step_parts_add(&parts, &step);
    json_t *object = written(&parts, NAN);
    ck_assert_ptr_null(json_object_get(object, "other_s"));
    cadre_step_parts_take(&back, object);
    ck_assert(back.known && back.exposed.n == 2);
    ck_assert_str_eq(back.exposed.of[1].axis, "dp");
    ck_assert_double_eq(cadre_step_parts_sum(&back), 8.5);
    json_object_del(object, "wait_data_s");
    cadre_step_parts_take(&back, object);
    ck_assert(!back.known);
    json_decref(object);
    cadre_step_parts_take(&back, NULL);
    ck_assert(!back.known);
    object = written(&back, 1);
    ck_assert(json_is_null(object));
    json_decref(object);
}
END_TEST

/* Of two ranks and two steps, as a benchmark adds them. */
START_TEST(means_are_over_ranks_and_steps)
{
    struct cadre_step_times other = step;
    struct cadre_step_parts rank[2] = {{0}, {0}};
    double values[2][CADRE_STEP_PARTS_VALUES];
    other.compute_s = 6;
    other.exposed[1].s = 3;
    for (int i = 0; i < 2; i++) {
        cadre_step_parts_add(&rank[0], &step);
        cadre_step_parts_add(&rank[1], &other);
    }
    for (int r = 0; r < 2; r++)
        cadre_step_parts_values(&rank[r], values[r]);
    for (int k = 0; k < CADRE_STEP_PARTS_VALUES; k++)
        values[0][k] += values[1][k];
    cadre_step_parts_set(&rank[0], values[0], 0.25);
    ck_assert(rank[0].known);
    ck_assert_double_eq(rank[0].part[CADRE_PART_COMPUTE], 5);
    ck_assert_double_eq(rank[0].exposed.of[1].s, 2);
}
END_TEST

/* A device that queues its work, on any rank and in any step. */
START_TEST(one_unknown_step_makes_all_unknown)
{
    struct cadre_step_times queued = step;
    struct cadre_step_parts parts = {0};
    double values[CADRE_STEP_PARTS_VALUES];
    queued.compute_s = NAN;
    cadre_step_parts_add(&parts, &queued);
    cadre_step_parts_add(&parts, &step);
    ck_assert(!parts.known);
    cadre_step_parts_values(&parts, values);
    parts = (struct cadre_step_parts){.known = true};
    cadre_step_parts_set(&parts, values, 1);
    ck_assert(!parts.known);
}
END_TEST

START_TEST(medians_are_of_the_known)
{
    struct cadre_step_parts list[4] = {{0}}, median;
    for (int i = 0; i < 3; i++) {
        struct cadre_step_times one = step;
        one.compute_s = i == 1 ? 100 : i;
        one.n_exposed = i < 2 ? 2 : 1; /* the last piece has no dp: that is 0 */
        cadre_step_parts_add(&list[i], &one);
    }
    cadre_step_parts_median(list, 4, 2, &median);
    ck_assert(median.known);
    ck_assert_double_eq(median.part[CADRE_PART_COMPUTE], 2 * 2);
    ck_assert_double_eq(median.part[CADRE_PART_BUBBLE], 2);
    ck_assert_str_eq(median.exposed.of[1].axis, "dp");
    ck_assert_double_eq(median.exposed.of[1].s, 2);
    cadre_step_parts_median(list + 3, 1, 1, &median);
    ck_assert(!median.known);
    cadre_step_parts_median(NULL, 0, 1, &median);
    ck_assert(!median.known);
}
END_TEST

START_TEST(times_are_added_by_axis)
{
    struct cadre_axis_times times = {0};
    char name[16];
    cadre_axis_times_add(&times, "dp", 1);
    cadre_axis_times_add(&times, "pp", 2);
    cadre_axis_times_add(&times, "dp", 3);
    ck_assert_int_eq(times.n, 2);
    ck_assert_double_eq(times.of[0].s, 4);
    for (int i = 0; i < 2 * CADRE_STEP_AXES; i++) {
        snprintf(name, sizeof name, "axis%d", i);
        cadre_axis_times_add(&times, name, 1);
    }
    ck_assert_int_eq(times.n, CADRE_STEP_AXES);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("run/parts_of_step");
    TCase *tc = tcase_create("parts_of_step");
    tcase_add_test(tc, parts_and_the_rest_are_the_step);
    tcase_add_test(tc, what_is_written_is_read);
    tcase_add_test(tc, means_are_over_ranks_and_steps);
    tcase_add_test(tc, one_unknown_step_makes_all_unknown);
    tcase_add_test(tc, medians_are_of_the_known);
    tcase_add_test(tc, times_are_added_by_axis);
    suite_add_tcase(suite, tc);
    return suite;
}
