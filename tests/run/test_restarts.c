/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/run/restarts.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;
static const struct cadre_restart restart = {.step = 10,
                                             .lost = 1,
                                             .from = "ddp:4",
                                             .stack = "ddp:2",
                                             .why = "rank 2 was killed \"so\""};

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
    cadre_restarts_put(f.dir, &json);
    cadre_json_end_object(&json);
    ck_assert_int_eq(cadre_json_finish(&json), CADRE_OK);
    /* what time it is does not matter here */
    char *copy = strdup(cadre_text_str(&text)), *date = copy;
    while ((date = strstr(date, "\"date\": \"2")))
        memset(date + strlen("\"date\": \""), '.', strlen("2026-11-22T09:30:00Z"));
    cadre_text_fini(&text);
    return copy;
}

START_TEST(they_are_kept_in_their_order)
{
    struct cadre_restart second = restart;
    char *none = summary();
    ck_assert_str_eq(none, "{}\n");
    ck_assert_ptr_null(cadre_restarts_first(f.dir));
    ck_assert_int_eq(cadre_restarts_add(f.dir, &restart, &f.err), CADRE_OK);
    second.step = 12;
    second.lost = 2;
    second.from = "ddp:2";
    second.stack = "ddp:1";
    ck_assert_int_eq(cadre_restarts_add(f.dir, &second, &f.err), CADRE_OK);
    char *both = summary();
    ck_assert_str_eq(
        both, "{\"restarts\": [{\"step\": 10, \"lost\": 1, \"from\": \"ddp:4\", "
              "\"stack\": \"ddp:2\", \"why\": \"rank 2 was killed \\\"so\\\"\", "
              "\"date\": \"....................\"}, "
              "{\"step\": 12, \"lost\": 2, \"from\": \"ddp:2\", \"stack\": \"ddp:1\", "
              "\"why\": \"rank 2 was killed \\\"so\\\"\", "
              "\"date\": \"....................\"}]}\n");
    char *first = cadre_restarts_first(f.dir);
    ck_assert_str_eq(first, "ddp:4");
    free(first);
    free(none);
    free(both);
}
END_TEST

/* As files were before 0.2. */
START_TEST(a_list_alone_is_read_too)
{
    spec_fixture_write(&f, "restarts.json",
                       "[{\"step\": 3, \"lost\": 1, \"from\": \"ddp:2\", "
                       "\"stack\": \"ddp:1\", \"why\": \"w\"}]");
    ck_assert_int_eq(cadre_restarts_add(f.dir, &restart, &f.err), CADRE_OK);
    char *text = summary(), *first = cadre_restarts_first(f.dir);
    ck_assert_str_eq(first, "ddp:2");
    ck_assert_ptr_nonnull(strstr(text, "\"why\": \"w\", \"date\": null}, "));
    free(first);
    free(text);
}
END_TEST

/* A file that is no list is refused by who would write it, and passed over at the end
 * of a run. */
static const char *const damaged[] = {"", "{}", "[1", "3"};

START_TEST(a_damaged_file)
{
    spec_fixture_write(&f, "restarts.json", damaged[_i]);
    ck_assert_int_eq(cadre_restarts_add(f.dir, &restart, &f.err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.err.text, "restarts.json' was changed"));
    ck_assert_ptr_null(cadre_restarts_first(f.dir));
    char *text = summary();
    ck_assert_str_eq(text, "{}\n");
    free(text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("train/restarts");
    TCase *t = tcase_create("restarts");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, they_are_kept_in_their_order);
    tcase_add_test(t, a_list_alone_is_read_too);
    tcase_add_loop_test(t, a_damaged_file, 0, 4);
    suite_add_tcase(s, t);
    return s;
}
