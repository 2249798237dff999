/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/engine/layout/ledger.h"
#include "tests/support/check_main.h"

static struct cadre_ledger ledger;

static void setup(void)
{
    const struct cadre_device_config config = {.kind = "cpu", .threads = 1};
    memset(&ledger, 0, sizeof ledger);
    ck_assert_int_eq(cadre_device_open(&config, &ledger.device, NULL), CADRE_OK);
}

static void teardown(void)
{
    struct cadre_device *device = ledger.device;
    cadre_ledger_fini(&ledger);
    cadre_device_close(device);
}

static const struct cadre_ledger_entry *entry_of(const char *tag, uint32_t space)
{
    for (int i = 0; i < ledger.n; i++)
        if (ledger.entry[i].space == space && strcmp(ledger.entry[i].tag, tag) == 0)
            return &ledger.entry[i];
    ck_abort_msg("no entry '%s'", tag);
    return NULL;
}

static uint64_t bytes_of(const char *tag, uint32_t space)
{
    return entry_of(tag, space)->bytes;
}

START_TEST(accounts_by_tag_and_space)
{
    char *a = cadre_ledger_alloc(&ledger, CADRE_SPACE_DEVICE, 100, "a");
    char *b = cadre_ledger_alloc(&ledger, CADRE_SPACE_DEVICE, 50, "a");
    char *c = cadre_ledger_alloc(&ledger, CADRE_SPACE_HOST, 7, "a");
    ck_assert(a && b && c);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(a[i], 0);
    ck_assert_uint_eq(bytes_of("a", CADRE_SPACE_DEVICE), 150);
    ck_assert_uint_eq(bytes_of("a", CADRE_SPACE_HOST), 7);
    ck_assert_uint_eq(ledger.now_bytes, 157);
    cadre_ledger_free(&ledger, a);
    ck_assert_uint_eq(bytes_of("a", CADRE_SPACE_DEVICE), 50);
    ck_assert_uint_eq(ledger.now_bytes, 57);
    ck_assert_uint_eq(ledger.peak_bytes, 157);
}
END_TEST

START_TEST(the_peak_is_of_the_whole_and_stays)
{
    for (int i = 0; i < 10; i++) {
        void *one = cadre_ledger_alloc(&ledger, CADRE_SPACE_DEVICE, 1000, "one");
        void *two = cadre_ledger_alloc(&ledger, CADRE_SPACE_DEVICE, 1, "two");
        cadre_ledger_free(&ledger, one);
        cadre_ledger_free(&ledger, two);
    }
    ck_assert_uint_eq(ledger.now_bytes, 0);
    ck_assert_uint_eq(ledger.peak_bytes, 1001);
    ck_assert_uint_eq(entry_of("one", CADRE_SPACE_DEVICE)->peak_bytes, 1000);
    ck_assert_uint_eq(entry_of("two", CADRE_SPACE_DEVICE)->peak_bytes, 1);
    ck_assert_uint_eq(bytes_of("one", CADRE_SPACE_DEVICE), 0);
}
END_TEST

START_TEST(foreign_pointers_and_null_are_ignored)
{
    int foreign;
    void *none = cadre_ledger_alloc(&ledger, CADRE_SPACE_DEVICE, 0, "none");
    ck_assert_ptr_nonnull(none);
    cadre_ledger_free(&ledger, NULL);
    cadre_ledger_free(&ledger, &foreign);
    cadre_ledger_free(&ledger, none);
    cadre_ledger_free(&ledger, none);
    ck_assert_uint_eq(ledger.now_bytes, 0);
}
END_TEST

START_TEST(too_much_is_refused_and_not_counted)
{
    ck_assert_ptr_null(
        cadre_ledger_alloc(&ledger, CADRE_SPACE_DEVICE, SIZE_MAX / 2, "huge"));
    ck_assert_uint_eq(ledger.now_bytes, 0);
    ck_assert_uint_eq(ledger.peak_bytes, 0);
}
END_TEST

START_TEST(notes_count_without_memory)
{
    cadre_ledger_note(&ledger, CADRE_SPACE_HOST, UINT64_C(1) << 50, "planned");
    ck_assert_uint_eq(ledger.now_bytes, UINT64_C(1) << 50);
    ck_assert_ptr_null(ledger.blocks);
}
END_TEST

START_TEST(a_pointer_knows_what_is_left)
{
    char *a = cadre_ledger_alloc(&ledger, CADRE_SPACE_DEVICE, 100, "a");
    char *b = cadre_ledger_alloc(&ledger, CADRE_SPACE_HOST, 50, "b");
    char foreign;
    ck_assert_uint_eq(cadre_ledger_left(&ledger, a), 100);
    ck_assert_uint_eq(cadre_ledger_left(&ledger, a + 99), 1);
    ck_assert_uint_eq(cadre_ledger_left(&ledger, b + 20), 30);
    ck_assert_uint_eq(cadre_ledger_left(&ledger, &foreign), UINT64_MAX);
    ck_assert_uint_eq(cadre_ledger_left(&ledger, NULL), UINT64_MAX);
    cadre_ledger_free(&ledger, a);
    ck_assert_uint_eq(cadre_ledger_left(&ledger, a), UINT64_MAX);
}
END_TEST

START_TEST(a_tag_is_used_until_it_is_freed)
{
    char tag[CADRE_LEDGER_TAG_CHARS], instance[64], long_tag[CADRE_TAG_CHARS];
    memset(instance, 'i', sizeof instance);
    memset(long_tag, 't', sizeof long_tag);
    instance[sizeof instance - 1] = long_tag[sizeof long_tag - 1] = 0;
    ck_assert_str_eq(cadre_ledger_tag(tag, "ddp@site", "buckets"), "ddp@site: buckets");
    cadre_ledger_tag(tag, instance, long_tag);
    ck_assert_uint_eq(strlen(tag), 63 + 2 + 31); /* nothing is cut */
    void *a = cadre_ledger_alloc(&ledger, CADRE_SPACE_DEVICE, 100, tag);
    cadre_ledger_alloc(&ledger, CADRE_SPACE_DEVICE, 10, tag);
    ck_assert_uint_eq(cadre_ledger_used(&ledger, CADRE_SPACE_DEVICE, tag), 110);
    ck_assert_uint_eq(cadre_ledger_used(&ledger, CADRE_SPACE_HOST, tag), 0);
    ck_assert_uint_eq(cadre_ledger_used(&ledger, CADRE_SPACE_DEVICE, "other tag"), 0);
    cadre_ledger_free(&ledger, a);
    ck_assert_uint_eq(cadre_ledger_used(&ledger, CADRE_SPACE_DEVICE, tag), 10);
}
END_TEST

START_TEST(more_tags_than_rows_share_the_last)
{
    char tag[32];
    for (int i = 0; i < CADRE_LEDGER_TAGS + 20; i++) {
        snprintf(tag, sizeof tag, "tag %d", i);
        cadre_ledger_note(&ledger, CADRE_SPACE_DEVICE, 1, tag);
    }
    ck_assert_int_eq(ledger.n, CADRE_LEDGER_TAGS);
    uint64_t sum = 0;
    for (int i = 0; i < ledger.n; i++)
        sum += ledger.entry[i].bytes;
    ck_assert_uint_eq(sum, CADRE_LEDGER_TAGS + 20);
    ck_assert_uint_eq(ledger.now_bytes, sum);
    ck_assert_uint_eq(bytes_of("tag 46", CADRE_SPACE_DEVICE), 1);
    ck_assert_uint_eq(bytes_of("other", CADRE_SPACE_DEVICE), 21);
}
END_TEST

START_TEST(a_long_tag_is_one_row)
{
    char tag[200];
    memset(tag, 'x', sizeof tag);
    tag[sizeof tag - 1] = 0;
    cadre_ledger_note(&ledger, CADRE_SPACE_DEVICE, 1, tag);
    cadre_ledger_note(&ledger, CADRE_SPACE_DEVICE, 2, tag);
    ck_assert_int_eq(ledger.n, 1);
    ck_assert_uint_eq(ledger.entry[0].bytes, 3);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("ledger");
    TCase *tc = tcase_create("ledger");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, accounts_by_tag_and_space);
    tcase_add_test(tc, the_peak_is_of_the_whole_and_stays);
    tcase_add_test(tc, foreign_pointers_and_null_are_ignored);
    tcase_add_test(tc, too_much_is_refused_and_not_counted);
    tcase_add_test(tc, notes_count_without_memory);
    tcase_add_test(tc, a_pointer_knows_what_is_left);
    tcase_add_test(tc, a_tag_is_used_until_it_is_freed);
    tcase_add_test(tc, more_tags_than_rows_share_the_last);
    tcase_add_test(tc, a_long_tag_is_one_row);
    suite_add_tcase(s, tc);
    return s;
}
