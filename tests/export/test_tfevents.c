/* SPDX-License-Identifier: Apache-2.0 */
/* Records are taken apart by hand here; tests/cli/test_clients.sh has TensorBoard read
 * them. */
#include "core/export/tfevents.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

static char *dir;
static struct cadre_error err;

static void setup(void)
{
    dir = test_tmpdir();
}

/* The files of the folder; with `text`, the bytes of the only one. */
static int files(char **text, size_t *bytes)
{
    DIR *folder = opendir(dir);
    struct dirent *entry;
    int n = 0;
    while ((entry = readdir(folder))) {
        char path[1200];
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) != 0)
            continue;
        n++;
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (text)
            *text = test_file_read(path, bytes);
    }
    closedir(folder);
    return n;
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

/* Bit by bit, another way than the writer's. */
static uint32_t masked_crc(const unsigned char *data, size_t n)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? (crc >> 1) ^ 0x82f63b78 : crc >> 1;
    }
    crc = ~crc;
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

static uint64_t number(const unsigned char *data, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | data[i];
    return value;
}

/* The record at *at, whose sums are checked; *at moves on. */
static const unsigned char *record(const char *text, size_t bytes, size_t *at,
                                   size_t *n)
{
    const unsigned char *data = (const unsigned char *)text + *at;
    ck_assert_uint_ge(bytes - *at, 16);
    *n = (size_t)number(data, 8);
    ck_assert_uint_ge(bytes - *at, 16 + *n);
    ck_assert_uint_eq(number(data + 8, 4), masked_crc(data, 8));
    ck_assert_uint_eq(number(data + 12 + *n, 4), masked_crc(data + 12, *n));
    *at += 16 + *n;
    return data + 12;
}

static bool has(const unsigned char *data, size_t n, const void *what, size_t bytes)
{
    return memmem(data, n, what, bytes) != NULL;
}

START_TEST(version_start_and_scalars)
{
    const struct cadre_scalar scalars[] = {
        {"loss", 2.5}, {"valid_loss", NAN}, {"lr", INFINITY}};
    struct cadre_tfevents *events;
    char *text = NULL;
    size_t bytes, at = 0, n;
    ck_assert_int_eq(cadre_tfevents_open(dir, 301, &events, &err), CADRE_OK);
    ck_assert_int_eq(cadre_tfevents_step(events, 301, scalars, 3, &err), CADRE_OK);
    /* flushed: it is there before the end */
    ck_assert_int_eq(files(&text, &bytes), 1);
    const unsigned char *event = record(text, bytes, &at, &n);
    ck_assert_int_eq(event[0], 1 << 3 | 1); /* wall_time, a double */
    double wall_s;
    memcpy(&wall_s, event + 1, sizeof wall_s);
    ck_assert_double_gt(wall_s, 1.7e9);
    ck_assert(has(event, n,
                  "\x1a\x0d"
                  "brain.Event:2",
                  15));
    event = record(text, bytes, &at, &n); /* step 301 = 0xad 0x02; START */
    ck_assert(has(event, n, "\x10\xad\x02\x3a\x02\x08\x01", 7));
    event = record(text, bytes, &at, &n);
    ck_assert(
        has(event, n, "\x10\xad\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\x20\x40", 18));
    ck_assert(!has(event, n, "valid", 5) && !has(event, n, "lr", 2));
    ck_assert_uint_eq(at, bytes);
    free(text);
    cadre_tfevents_close(events);
}
END_TEST

START_TEST(each_opens_a_file_of_its_own)
{
    struct cadre_tfevents *first, *second;
    ck_assert_int_eq(cadre_tfevents_open(dir, 1, &first, &err), CADRE_OK);
    ck_assert_int_eq(cadre_tfevents_open(dir, 1, &second, &err), CADRE_OK);
    ck_assert_int_eq(files(NULL, NULL), 2);
    cadre_tfevents_close(first);
    cadre_tfevents_close(second);
    cadre_tfevents_close(NULL);
}
END_TEST

START_TEST(what_cannot_be_written_is_told)
{
    struct cadre_tfevents *events;
    char gone[1200];
    snprintf(gone, sizeof gone, "%s/gone", dir);
    ck_assert_int_eq(cadre_tfevents_open(gone, 1, &events, &err), CADRE_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "events.out.tfevents."));
}
END_TEST

START_TEST(all_scalars_fit)
{
    struct cadre_scalar scalars[16];
    struct cadre_tfevents *events;
    for (int i = 0; i < 16; i++)
        scalars[i] = (struct cadre_scalar){"a_name_of_as_many_as_32_letters_", i};
    ck_assert_int_eq(cadre_tfevents_open(dir, 1, &events, &err), CADRE_OK);
    ck_assert_int_eq(cadre_tfevents_step(events, INT64_MAX, scalars, 16, &err),
                     CADRE_OK);
    cadre_tfevents_close(events);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("tfevents");
    TCase *tc = tcase_create("tfevents");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, version_start_and_scalars);
    tcase_add_test(tc, each_opens_a_file_of_its_own);
    tcase_add_test(tc, what_cannot_be_written_is_told);
    tcase_add_test(tc, all_scalars_fit);
    suite_add_tcase(s, tc);
    return s;
}
