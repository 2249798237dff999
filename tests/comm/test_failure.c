/* SPDX-License-Identifier: Apache-2.0 */
/* The first failure is kept, whoever sets it, and that of a writer that died is
 * reported. */
#include "core/comm/failure.h"

#include <pthread.h>
#include <string.h>

#include "tests/support/check_main.h"

START_TEST(nothing_has_failed)
{
    static struct cadre_failure failure;
    struct cadre_error err = {.text = "untouched"};
    ck_assert(!cadre_failure_is_set(&failure));
    ck_assert_int_eq(cadre_failure_code(&failure), CADRE_OK);
    ck_assert_str_eq(cadre_failure_text(&failure), "");
    ck_assert_int_eq(cadre_failure_get(&failure, &err), CADRE_OK);
    ck_assert_str_eq(err.text, "untouched");
}
END_TEST

START_TEST(first_one_stays)
{
    static struct cadre_failure failure;
    struct cadre_error err = {0};
    ck_assert(cadre_failure_set(&failure, CADRE_E_ABORTED, "100% wrong"));
    ck_assert(!cadre_failure_set(&failure, CADRE_E_COMM, "later"));
    ck_assert(cadre_failure_is_set(&failure));
    ck_assert_int_eq(cadre_failure_get(&failure, &err), CADRE_E_ABORTED);
    ck_assert_int_eq(err.code, CADRE_E_ABORTED);
    ck_assert_str_eq(err.text, "100% wrong");
}
END_TEST

START_TEST(long_texts_are_truncated)
{
    static struct cadre_failure failure;
    char text[2 * sizeof failure.text];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    cadre_failure_set(&failure, CADRE_E_COMM, text);
    ck_assert_uint_eq(strlen(cadre_failure_text(&failure)), sizeof failure.text - 1);
}
END_TEST

START_TEST(writer_that_died)
{
    static struct cadre_failure failure;
    struct cadre_error err = {0};
    atomic_store(&failure.state, CADRE_FAILURE_WRITING);
    ck_assert(cadre_failure_is_set(&failure));
    ck_assert_int_eq(cadre_failure_get(&failure, &err), CADRE_E_COMM);
    ck_assert_str_eq(err.text, "a rank died while it reported a failure");
    ck_assert(!cadre_failure_set(&failure, CADRE_E_COMM, "later"));
}
END_TEST

#define WRITERS 4

struct writer {
    pthread_t thread;
    struct cadre_failure *failure;
    const char *text;
    bool first;
};

static void *write_one(void *arg)
{
    struct writer *w = arg;
    w->first = cadre_failure_set(w->failure, CADRE_E_COMM, w->text);
    return NULL;
}

START_TEST(one_of_many_is_first)
{
    static const char *const texts[WRITERS] = {"a", "bb", "ccc", "dddd"};
    struct cadre_failure failure = {0};
    struct writer writers[WRITERS];
    int first = 0;
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.failure = &failure, .text = texts[i]};
        ck_assert_int_eq(
            pthread_create(&writers[i].thread, NULL, write_one, &writers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i].thread, NULL);
    for (int i = 0; i < WRITERS; i++)
        if (writers[i].first) {
            first++;
            ck_assert_str_eq(cadre_failure_text(&failure), writers[i].text);
        }
    ck_assert_int_eq(first, 1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("comm/failure");
    TCase *t = tcase_create("failure");
    tcase_add_test(t, nothing_has_failed);
    tcase_add_test(t, first_one_stays);
    tcase_add_test(t, long_texts_are_truncated);
    tcase_add_test(t, writer_that_died);
    tcase_add_loop_test(t, one_of_many_is_first, 0, 20);
    suite_add_tcase(s, t);
    return s;
}
