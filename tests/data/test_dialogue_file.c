/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/data/chat/dialogue_file.h"
#include "tests/support/check_main.h"

static char seen[256];

/* "LINE:TYPE " of each record; a text "stop" is refused. */
static cadre_status note(void *arg, const json_t *record, uint64_t line,
                         struct cadre_error *err)
{
    const size_t at = strlen(seen);
    const char *text = json_string_value(record);
    (void)arg;
    snprintf(seen + at, sizeof seen - at, "%d:%zu ", (int)line,
             json_is_array(record) ? json_array_size(record)
                                   : json_object_size(record));
    return text && strcmp(text, "stop") == 0
               ? cadre_fail(err, CADRE_E_INVALID, "it says stop")
               : CADRE_OK;
}

static cadre_status read(const char *text, struct cadre_error *err)
{
    seen[0] = '\0';
    return cadre_dialogue_file_read(text, strlen(text), "f", note, NULL, err);
}

static void reads(const char *text, const char *want)
{
    struct cadre_error err = {0};
    ck_assert_msg(read(text, &err) == CADRE_OK, "%s: %s", text, err.text);
    ck_assert_str_eq(seen, want);
}

static void refuses(const char *text, const char *says)
{
    struct cadre_error err = {0};
    ck_assert_int_eq(read(text, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, says) != NULL, "'%s' has no '%s'", err.text, says);
}

START_TEST(records_and_their_lines)
{
    reads("[{\"a\": 1}]", "1:1 ");
    reads("\xef\xbb\xbf \n[\n {\"a\":\n 1, \"b\": [2, {}]},\n\n{},{}\r\n]\n ",
          "3:2 6:0 6:0 ");
    reads("[[\"]\", \"}\\\"]\", \"\\\\\"], {\"[\": \"{\"}]", "1:3 1:1 ");
    reads("{\"a\": 1}\n\n  {\"b\": [1,\t2]}\r\n{}", "1:1 3:1 4:0 ");
    reads("{}\n", "1:0 ");
    reads("{\"a\": [1]}", "1:1 ");
}
END_TEST

START_TEST(faults_name_file_and_line)
{
    refuses("", "'f': expected records");
    refuses(" \n", "'f': expected records");
    refuses("[]", "'f': expected records");
    refuses("[{},\n{\"a\" 1}]", "'f' line 2: expected JSON");
    refuses("[{},\n{\"a\": 1,\n \"b\": tru}]", "'f' line 3: expected JSON");
    refuses("[{},\n{\"a\": 1,\n \"b\"", "'f' line 2: expected \",\" or \"]\" after");
    refuses("[{}\n", "found the end of the file, which may be cut");
    refuses("[{}, \"a\n", "may be cut");
    refuses("[{}}",
            "'f' line 1: expected \",\" or \"]\" after this record, found \"}\"");
    refuses("[{},\n]", "'f' line 2: expected JSON");
    refuses("[{}\n] x", "'f' line 2: expected nothing after the array, found \"x\"");
    refuses("{}\n{\"a\": 1\n", "'f' line 2: expected JSON");
    refuses("{}\n\n\"stop\"\n", "'f' line 3: it says stop");
    refuses("[1,\n\n\"stop\"]", "'f' line 3: it says stop");
    refuses("{\"a\": 1, \"a\": 2}", "'f' line 1: expected JSON: duplicate");
}
END_TEST

/* Whatever is cut off a file, or one byte changed, is read or refused. */
START_TEST(damaged_files_do_not_crash)
{
    const char *whole =
        "[{\"a\": \"b\\\"c\", \"d\": [1, {\"e\": null}]},\n [2], \"x\"]";
    char text[64];
    const size_t size = strlen(whole);
    for (size_t at = 0; at < size; at++) {
        struct cadre_error err = {0};
        seen[0] = '\0';
        cadre_dialogue_file_read(whole, at, "f", note, NULL, &err);
        for (const char *c = "\"\\[]{},\n"; *c; c++) {
            memcpy(text, whole, size + 1);
            text[at] = *c;
            read(text, &err);
        }
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("dialogue_file");
    TCase *tc = tcase_create("dialogue_file");
    tcase_add_test(tc, records_and_their_lines);
    tcase_add_test(tc, faults_name_file_and_line);
    tcase_add_test(tc, damaged_files_do_not_crash);
    suite_add_tcase(s, tc);
    return s;
}
