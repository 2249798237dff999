/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/tokenizer/id_map.h"
#include "tests/support/check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cadre_error err;

/* From memory of exactly that size, so that a sanitizer sees what is read behind it. */
static cadre_status read_bytes(struct cadre_id_map *map, const char *text, size_t size)
{
    char *exact = malloc(size ? size : 1);
    memcpy(exact, text, size);
    memset(map, 0, sizeof *map);
    const cadre_status rc = cadre_id_map_read(map, exact, size, "vocab.json", &err);
    free(exact);
    return rc;
}

static void check_entry(const struct cadre_id_map *map, size_t i, const char *key,
                        size_t size, int64_t id)
{
    const struct cadre_id_map_entry *entry = &map->entries[i];
    ck_assert_uint_eq(entry->size, size);
    ck_assert(memcmp(map->keys + entry->at, key, size) == 0);
    ck_assert_int_eq(entry->id, id);
}

#define TEXT(s) s, sizeof s - 1

START_TEST(keys_and_ids)
{
    struct cadre_id_map map;
    ck_assert_int_eq(
        read_bytes(&map, TEXT(" {\"a\" : 0 ,\n\"\": 12,\t\"\xc3\xa9\":3}\r\n")),
        CADRE_OK);
    ck_assert_uint_eq(map.count, 3);
    check_entry(&map, 0, "a", 1, 0);
    check_entry(&map, 1, "", 0, 12);
    check_entry(&map, 2, "\xc3\xa9", 2, 3);
    cadre_id_map_fini(&map);
    ck_assert_ptr_null(map.entries);
    ck_assert_int_eq(read_bytes(&map, TEXT("{}")), CADRE_OK);
    ck_assert_uint_eq(map.count, 0);
    cadre_id_map_fini(&map);
}
END_TEST

/* All that a backslash may write, U+0000 and pairs of surrogates among it. */
START_TEST(escapes)
{
    static const char text[] =
        "{\"\\u0000\":1,\"a\\u0000b\":2,\"\\\"\\\\\\/\\b\\f\\n\\r\\t\":3,"
        "\"\\u00e9\\u20AC\":4,\"\\ud83d\\ude00\":5,\"\\uDBFF\\uDFFF\":6,\"\\u0000\":7}";
    struct cadre_id_map map;
    ck_assert_msg(read_bytes(&map, text, sizeof text - 1) == CADRE_OK, "%s", err.text);
    ck_assert_uint_eq(map.count, 7);
    check_entry(&map, 0, TEXT("\0"), 1);
    check_entry(&map, 1, TEXT("a\0b"), 2);
    check_entry(&map, 2, TEXT("\"\\/\b\f\n\r\t"), 3);
    check_entry(&map, 3, TEXT("\xc3\xa9\xe2\x82\xac"), 4);
    check_entry(&map, 4, TEXT("\xf0\x9f\x98\x80"), 5);
    check_entry(&map, 5, TEXT("\xf4\x8f\xbf\xbf"), 6);
    check_entry(&map, 6, TEXT("\0"), 7); /* twice: the caller's to see */
    cadre_id_map_fini(&map);
}
END_TEST

static const struct {
    const char *text, *says;
} bad[] = {
    {"", "line 1: the file is empty"},
    {"[]", "line 1: expected an object"},
    {"{\"a\":1}\n x", "line 2: something follows the object"},
    {"{\"a\":1,}", "line 1: expected a string"},
    {"{\n\n\"a\":1 \"b\":2}", "line 3: expected \",\" or \"}\""},
    {"{\"a\" 1}", "line 1: expected \":\" behind a key"},
    {"{a:1}", "line 1: expected a string"},
    {"{\"a\":-1}", "expected an id"},
    {"{\"a\":1.5}", "expected an id"},
    {"{\"a\":1e3}", "expected an id"},
    {"{\"a\":01}", "expected an id"},
    {"{\"a\":99999999999999999999999}", "expected an id"},
    {"{\"a\":true}", "expected an id"},
    {"{\"a\":\"1\"}", "expected an id"},
    {"{\"a\":{}}", "expected an id"},
    {"{\"\\x\":1}", "this is no string of JSON"},
    {"{\"\\u12g4\":1}", "this is no string of JSON"},
    {"{\"\\ud83d\":1}", "this is no string of JSON"},
    {"{\"\\ud83d\\u0041\":1}", "this is no string of JSON"},
    {"{\"\\ude00\":1}", "this is no string of JSON"},
    {"{\"a\nb\":1}", "this is no string of JSON"},
    {"{\"\xff\":1}", "this is no string of JSON"},
    {"{\"\xc0\x80\":1}", "this is no string of JSON"},
    {"{\"\xed\xa0\x80\":1}", "this is no string of JSON"},
    {"{\"a", "the file is truncated"},
};

START_TEST(faults_name_file_and_line)
{
    struct cadre_id_map map;
    ck_assert_int_eq(read_bytes(&map, bad[_i].text, strlen(bad[_i].text)),
                     CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, bad[_i].says) != NULL, "%s", err.text);
    ck_assert(strncmp(err.text, "\"vocab.json\": line ", 19) == 0);
    ck_assert_ptr_null(strchr(err.text, '\n'));
    cadre_id_map_fini(&map);
}
END_TEST

/* A zero byte ends nothing. */
START_TEST(raw_zeros_are_refused)
{
    struct cadre_id_map map;
    ck_assert_int_eq(read_bytes(&map, TEXT("{\"a\0b\":1}")), CADRE_E_INVALID);
    cadre_id_map_fini(&map);
    ck_assert_int_eq(read_bytes(&map, TEXT("{\"a\":1}\0")), CADRE_E_INVALID);
    cadre_id_map_fini(&map);
    ck_assert_int_eq(read_bytes(&map, TEXT("{\"a\":1\0}")), CADRE_E_INVALID);
    cadre_id_map_fini(&map);
}
END_TEST

START_TEST(every_beginning_is_truncated)
{
    static const char text[] = "{\"\\ud83d\\ude00\\u0000\": 10,\n \"\xe2\x82\xac\": 2}";
    struct cadre_id_map map;
    for (size_t n = 0; n + 1 < sizeof text - 1; n++) {
        ck_assert_int_eq(read_bytes(&map, text, n), CADRE_E_INVALID);
        cadre_id_map_fini(&map);
    }
    ck_assert_int_eq(read_bytes(&map, text, sizeof text - 1), CADRE_OK);
    cadre_id_map_fini(&map);
}
END_TEST

START_TEST(more_entries_than_fit_at_first)
{
    enum { N = 3000 };
    char *text = malloc(N * 16 + 8), key[16];
    const size_t room = N * 16 + 8;
    size_t size = 0;
    struct cadre_id_map map;
    for (int i = 0; i < N; i++)
        size += (size_t)snprintf(text + size, room - size, "%s\"k%d\":%d",
                                 i ? "," : "{", i, N - i);
    text[size++] = '}';
    ck_assert_int_eq(read_bytes(&map, text, size), CADRE_OK);
    ck_assert_uint_eq(map.count, N);
    for (int i = 0; i < N; i++) {
        const size_t n = (size_t)snprintf(key, sizeof key, "k%d", i);
        check_entry(&map, (size_t)i, key, n, N - i);
    }
    cadre_id_map_fini(&map);
    free(text);
}
END_TEST

START_TEST(locates_a_value)
{
    static const char text[] =
        "{\"x\": [{\"vocab\": 1}, \"}\\\"\"], \"model\": {\"type\": "
        "\"BPE\", \"vocab\": {\"{\": 0}, \"merges\": []}}";
    size_t begin = 0, end = 0;
    ck_assert(
        cadre_id_map_locate(text, sizeof text - 1, "model", "vocab", &begin, &end));
    ck_assert_uint_eq(end - begin, strlen("{\"{\": 0}"));
    ck_assert(memcmp(text + begin, "{\"{\": 0}", end - begin) == 0);
    ck_assert(!cadre_id_map_locate(text, sizeof text - 1, "model", "x", &begin, &end));
    ck_assert(!cadre_id_map_locate(text, sizeof text - 1, "x", "vocab", &begin, &end));
    for (size_t n = 0; n < sizeof text - 1; n++)
        if (cadre_id_map_locate(text, n, "model", "vocab", &begin, &end))
            ck_assert(begin < end && end <= n);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("id_map");
    TCase *tc = tcase_create("id_map");
    tcase_add_test(tc, keys_and_ids);
    tcase_add_test(tc, escapes);
    tcase_add_loop_test(tc, faults_name_file_and_line, 0, sizeof bad / sizeof bad[0]);
    tcase_add_test(tc, raw_zeros_are_refused);
    tcase_add_test(tc, every_beginning_is_truncated);
    tcase_add_test(tc, more_entries_than_fit_at_first);
    tcase_add_test(tc, locates_a_value);
    suite_add_tcase(suite, tc);
    return suite;
}
