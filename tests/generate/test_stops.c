/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/generate/stops.h"
#include "tests/support/check_main.h"

static const char *const none[] = {""}, *const ends[] = {"</s>", "\n\n"};
static const char *const nested[] = {"abcd", "bc"}, *const again[] = {"aab"};
static const char *const tails[] = {"the end", "end"};

/* All that is shown of `text` in pieces of `size`, to its end. */
static char *shown(const char *const *texts, size_t n, const char *text, size_t size,
                   bool *stopped)
{
    struct cadre_stops stops;
    struct cadre_text out = {0};
    struct cadre_error err = {0};
    const char *show;
    size_t bytes;
    ck_assert_int_eq(cadre_stops_init(&stops, texts, n, &err), CADRE_OK);
    for (size_t at = 0, length = strlen(text); at < length; at += size) {
        const size_t piece = length - at < size ? length - at : size;
        ck_assert_int_eq(cadre_stops_add(&stops, text + at, piece, &show, &bytes, &err),
                         CADRE_OK);
        cadre_text_append(&out, show, bytes);
    }
    *stopped = stops.stopped;
    cadre_stops_end(&stops, &show, &bytes);
    cadre_text_append(&out, show, bytes);
    cadre_stops_end(&stops, &show, &bytes);
    ck_assert_uint_eq(bytes, 0);
    cadre_stops_fini(&stops);
    return out.data ? out.data : strdup("");
}

static void expect(const char *const *texts, size_t n, const char *text,
                   const char *want, bool want_stopped)
{
    for (size_t size = 1; size <= strlen(text); size++) {
        bool stopped;
        char *got = shown(texts, n, text, size, &stopped);
        ck_assert_msg(strcmp(got, want) == 0, "'%s' in pieces of %zu: '%s', not '%s'",
                      text, size, got, want);
        ck_assert_int_eq(stopped, want_stopped);
        free(got);
    }
}

START_TEST(a_text_ends_before_the_first_of_them)
{
    expect(ends, 2, "one\ntwo</s>three", "one\ntwo", true);
    expect(ends, 2, "one\n\ntwo</s>", "one", true);
    expect(ends, 2, "</s>", "", true);
}
END_TEST

START_TEST(what_only_begins_like_one_is_shown)
{
    expect(ends, 2, "one</sa></", "one</sa></", false);
    expect(ends, 2, "a\nb\n", "a\nb\n", false);
    expect(again, 1, "aaab!", "a", true);
    expect(none, 0, "all of it", "all of it", false);
}
END_TEST

/* The one that ends first; of those that end together the longest. */
START_TEST(pieces_do_not_change_the_end)
{
    expect(nested, 2, "xabcdx", "xa", true);
    expect(nested, 2, "xabdbcx", "xabd", true);
    expect(tails, 2, "to the end.", "to ", true);
}
END_TEST

/* What may be the beginning of one waits, the rest does not. */
START_TEST(no_more_than_needed_is_held)
{
    struct cadre_stops stops;
    struct cadre_error err = {0};
    const char *show;
    size_t n;
    ck_assert_int_eq(cadre_stops_init(&stops, ends, 2, &err), CADRE_OK);
    cadre_stops_add(&stops, "one</", 5, &show, &n, &err);
    ck_assert_uint_eq(n, 3);
    cadre_stops_add(&stops, "s", 1, &show, &n, &err);
    ck_assert_uint_eq(n, 0);
    cadre_stops_add(&stops, "<", 1, &show, &n, &err);
    ck_assert_uint_eq(n, 3);
    ck_assert_int_eq(memcmp(show, "</s", 3), 0);
    cadre_stops_fini(&stops);
}
END_TEST

START_TEST(an_empty_text_is_refused)
{
    struct cadre_stops stops;
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_stops_init(&stops, none, 1, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "text 1 of 1 is empty"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("stops");
    TCase *tc = tcase_create("stops");
    tcase_add_test(tc, a_text_ends_before_the_first_of_them);
    tcase_add_test(tc, what_only_begins_like_one_is_shown);
    tcase_add_test(tc, pieces_do_not_change_the_end);
    tcase_add_test(tc, no_more_than_needed_is_held);
    tcase_add_test(tc, an_empty_text_is_refused);
    suite_add_tcase(s, tc);
    return s;
}
