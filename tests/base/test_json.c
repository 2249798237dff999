/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/json.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

static void write_sample(struct cadre_json *j)
{
    cadre_json_begin_object(j);
    cadre_json_key(j, "name");
    cadre_json_string(j, "a\"b\\c\n\t\x01");
    cadre_json_key(j, "list");
    cadre_json_begin_array(j);
    cadre_json_i64(j, INT64_MIN);
    cadre_json_u64(j, UINT64_MAX);
    cadre_json_begin_object(j);
    cadre_json_end_object(j);
    cadre_json_bool(j, true);
    cadre_json_end_array(j);
    cadre_json_key(j, "none");
    cadre_json_string(j, NULL);
    cadre_json_key(j, "empty");
    cadre_json_begin_array(j);
    cadre_json_end_array(j);
    cadre_json_end_object(j);
}

START_TEST(one_line)
{
    struct cadre_text text = {0};
    struct cadre_json j;
    cadre_json_init_text(&j, &text, false);
    write_sample(&j);
    ck_assert_int_eq(cadre_json_finish(&j), CADRE_OK);
    ck_assert_str_eq(
        cadre_text_str(&text),
        "{\"name\": \"a\\\"b\\\\c\\u000a\\u0009\\u0001\", "
        "\"list\": [-9223372036854775808, 18446744073709551615, {}, true], "
        "\"none\": null, \"empty\": []}\n");
    cadre_text_fini(&text);
}
END_TEST

START_TEST(pretty_to_a_file)
{
    char *data = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&data, &size);
    struct cadre_json j;
    cadre_json_init(&j, f, true);
    cadre_json_begin_object(&j);
    cadre_json_key(&j, "a");
    cadre_json_begin_array(&j);
    cadre_json_i64(&j, 1);
    cadre_json_i64(&j, 2);
    cadre_json_end_array(&j);
    cadre_json_key(&j, "b");
    cadre_json_bool(&j, false);
    cadre_json_end_object(&j);
    ck_assert_int_eq(cadre_json_finish(&j), CADRE_OK);
    fclose(f);
    ck_assert_str_eq(data, "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": false\n}\n");
    free(data);
}
END_TEST

START_TEST(numbers_round_trip)
{
    static const double values[] = {
        0.1, -0.0, 1.0 / 3, 5e-324, 1.7976931348623157e308, 6.02e23, 12345678.9, 1e-7};
    struct cadre_text text = {0};
    struct cadre_json j;
    cadre_json_init_text(&j, &text, false);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        cadre_text_reset(&text);
        cadre_json_f64(&j, values[i]);
        double back = strtod(cadre_text_str(&text), NULL);
        ck_assert_mem_eq(&back, &values[i], sizeof back);
    }
    cadre_text_reset(&text);
    cadre_json_begin_array(&j);
    cadre_json_f64(&j, NAN);
    cadre_json_f64(&j, -INFINITY);
    cadre_json_end_array(&j);
    ck_assert_str_eq(cadre_text_str(&text), "[null, null]");
    cadre_text_fini(&text);
}
END_TEST

/* Every byte sequence becomes a document that a strict reader accepts. */
START_TEST(any_string_is_valid_json)
{
    struct cadre_text text = {0};
    struct cadre_json j;
    cadre_json_init_text(&j, &text, false);
    for (int a = 1; a < 256; a++)
        for (int b = 1; b < 256; b += 5) {
            const char raw[4] = {(char)a, (char)b, 'x', 0};
            cadre_text_reset(&text);
            cadre_json_begin_array(&j);
            cadre_json_string(&j, raw);
            cadre_json_end_array(&j);
            json_t *doc = json_loads(cadre_text_str(&text), 0, NULL);
            ck_assert_msg(doc != NULL, "bytes %d %d: %s", a, b, text.data);
            json_decref(doc);
        }
    cadre_text_reset(&text);
    cadre_json_string(&j, "Gr\xfczi \xe9\xba\xba");
    ck_assert_str_eq(cadre_text_str(&text), "\"Gr\xef\xbf\xbdzi \xe9\xba\xba\"");
    cadre_text_fini(&text);
}
END_TEST

/* 2026-11-22T09:30:00Z, with any digits. */
static bool is_date(const char *text)
{
    static const char form[] = "dddd-dd-ddTdd:dd:ddZ";
    bool good = text && strlen(text) == sizeof form - 1;
    for (size_t i = 0; good && form[i]; i++)
        good = form[i] == 'd' ? text[i] >= '0' && text[i] <= '9' : text[i] == form[i];
    return good;
}

START_TEST(a_file_begins_with_its_version_and_date)
{
    struct cadre_text text = {0};
    struct cadre_json j;
    char date[CADRE_JSON_DATE];
    ck_assert_msg(is_date(cadre_json_date(date)), "%s", date);
    cadre_json_init_text(&j, &text, false);
    cadre_json_begin_object(&j);
    cadre_json_put_head(&j, 3);
    cadre_json_put_i64(&j, "n", 1);
    cadre_json_end_object(&j);
    json_t *doc = json_loads(cadre_text_str(&text), JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(doc != NULL, "%s", cadre_text_str(&text));
    ck_assert_int_eq(json_integer_value(json_object_get(doc, "schema_version")), 3);
    ck_assert_int_eq(
        strncmp(json_string_value(json_object_get(doc, "build")), "cadre ", 6), 0);
    ck_assert(is_date(json_string_value(json_object_get(doc, "date"))));
    ck_assert_uint_eq(json_object_size(doc), 4);
    json_decref(doc);
    cadre_text_fini(&text);
}
END_TEST

START_TEST(full_disk_is_an_error)
{
    FILE *f = fopen("/dev/full", "w");
    if (!f)
        test_skip("no /dev/full");
    struct cadre_json j;
    cadre_json_init(&j, f, true);
    write_sample(&j);
    ck_assert_int_eq(cadre_json_finish(&j), CADRE_E_IO);
    fclose(f);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("json");
    TCase *tc = tcase_create("json");
    tcase_add_test(tc, one_line);
    tcase_add_test(tc, pretty_to_a_file);
    tcase_add_test(tc, numbers_round_trip);
    tcase_add_test(tc, any_string_is_valid_json);
    tcase_add_test(tc, a_file_begins_with_its_version_and_date);
    tcase_add_test(tc, full_disk_is_an_error);
    suite_add_tcase(s, tc);
    return s;
}
