/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/recuts.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;
static const double first[] = {0.25, 1, 0.5}, second[] = {1, 2, 4};
static const struct cadre_recut recut = {
    .step = 6,
    .from = "2 1",
    .to = "1 2",
    .before_s = 0.5,
    .after_s = 0.25,
    .seconds = first,
    .n_units = 3,
};

static void setup(void)
{
    spec_fixture_open(&f);
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

/* What a summary gets. */
static char *summary(void)
{
    struct cadre_text text = {0};
    struct cadre_json json;
    cadre_json_init_text(&json, &text, false);
    cadre_json_begin_object(&json);
    cadre_recuts_put(f.dir, &json);
    cadre_json_end_object(&json);
    ck_assert_int_eq(cadre_json_finish(&json), CADRE_OK);
    char *copy = strdup(cadre_text_str(&text)), *date = copy;
    while ((date = strstr(date, "\"date\": \"2")))
        memset(date + strlen("\"date\": \""), '.', strlen("2026-11-22T09:30:00Z"));
    cadre_text_fini(&text);
    return copy;
}

START_TEST(they_are_kept_in_their_order)
{
    struct cadre_recut later = recut;
    double seconds[3] = {0};
    char *none = summary();
    ck_assert_str_eq(none, "{}\n");
    ck_assert_uint_eq(cadre_recuts_count(f.dir), 0);
    ck_assert_int_eq(cadre_recuts_last(f.dir, 3, seconds, &f.err), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_recuts_add(f.dir, &recut, &f.err), CADRE_OK);
    ck_assert_int_eq(cadre_recuts_last(f.dir, 3, seconds, &f.err), CADRE_OK);
    ck_assert_mem_eq(seconds, first, sizeof first);
    later.step = 9;
    later.from = "1 2";
    later.to = "2 1";
    later.seconds = second;
    ck_assert_int_eq(cadre_recuts_add(f.dir, &later, &f.err), CADRE_OK);
    ck_assert_uint_eq(cadre_recuts_count(f.dir), 2);
    ck_assert_int_eq(cadre_recuts_last(f.dir, 3, seconds, &f.err), CADRE_OK);
    ck_assert_mem_eq(seconds, second, sizeof second);
    char *both = summary();
    ck_assert_str_eq(both,
                     "{\"recuts\": [{\"step\": 6, \"from\": \"2 1\", \"to\": \"1 2\", "
                     "\"slowest_before_s\": 0.5, \"slowest_after_s\": 0.25, "
                     "\"date\": \"....................\"}, "
                     "{\"step\": 9, \"from\": \"1 2\", \"to\": \"2 1\", "
                     "\"slowest_before_s\": 0.5, \"slowest_after_s\": 0.25, "
                     "\"date\": \"....................\"}]}\n");
    free(none);
    free(both);
}
END_TEST

static const char *const damaged[] = {
    "", "[]", "{}", "{\"recuts\": 1}", "{\"recuts\": [1, 2}",
};

START_TEST(a_damaged_file_is_refused)
{
    double seconds[3];
    spec_fixture_write(&f, "recuts.json", damaged[_i]);
    ck_assert_int_eq(cadre_recuts_add(f.dir, &recut, &f.err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.err.text, "recuts.json' was changed"));
    ck_assert_uint_eq(cadre_recuts_count(f.dir), 0);
    ck_assert_int_eq(cadre_recuts_last(f.dir, 3, seconds, &f.err), CADRE_E_INVALID);
    char *text = summary();
    ck_assert_str_eq(text, "{}\n");
    free(text);
}
END_TEST

/* Seconds of another model, or none. */
static const char *const others[] = {
    "{\"recuts\": []}",
    "{\"recuts\": [{}]}",
    "{\"recuts\": [{\"unit_seconds\": [1, 2]}]}",
    "{\"recuts\": [{\"unit_seconds\": [1, 2, 0]}]}",
    "{\"recuts\": [{\"unit_seconds\": [1, 2, \"3\"]}]}",
};

START_TEST(seconds_are_those_of_the_units)
{
    double seconds[3];
    spec_fixture_write(&f, "recuts.json", others[_i]);
    ck_assert_int_eq(cadre_recuts_last(f.dir, 3, seconds, &f.err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.err.text, "recuts.json' was changed"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("run/recuts");
    TCase *t = tcase_create("recuts");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, they_are_kept_in_their_order);
    tcase_add_loop_test(t, a_damaged_file_is_refused, 0,
                        sizeof damaged / sizeof *damaged);
    tcase_add_loop_test(t, seconds_are_those_of_the_units, 0,
                        sizeof others / sizeof *others);
    suite_add_tcase(s, t);
    return s;
}
