/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/ini.h"

#include <iniparser/iniparser.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "tests/support/check_main.h"

static char *dir;

static void make_dir(void)
{
    dir = test_tmpdir();
}

static void remove_dir(void)
{
    test_tmpdir_destroy(dir);
}

static char *write_bytes(const char *text, size_t n)
{
    char *path = cadre_path_join(dir, "x.ini");
    ck_assert_int_eq(cadre_path_write_file(path, text, n, NULL), CADRE_OK);
    return path;
}

/* Load `text` and check that the one-line error holds `expected`. */
static void expect_refusal(const char *text, size_t n, const char *expected)
{
    struct cadre_ini ini;
    struct cadre_error err = {0};
    char *path = write_bytes(text, n);
    cadre_status rc = cadre_ini_load(&ini, path, &err);
    ck_assert_msg(rc == CADRE_E_INVALID, "accepted: %s", text);
    ck_assert_msg(strstr(err.text, expected) != NULL, "expected '%s' in '%s'", expected,
                  err.text);
    ck_assert_msg(strstr(err.text, "x.ini:") != NULL, "no place in '%s'", err.text);
    ck_assert_uint_eq(ini.n, 0);
    free(path);
}

START_TEST(reads_what_is_written)
{
    static const char text[] = "# a comment\n"
                               "; another\r\n"
                               "[Run]\n"
                               "  Name = two words\r\n"
                               "# (default)\n"
                               "\tseed=7\n"
                               "[strategy]\n"
                               "stack = \"zero:2; pipeline:2\"   # said in quotes\n"
                               "link = 'a \"b\" #c'\n"
                               "empty =\n"
                               "none = \"\"\n"
                               "formula = a=b, c:d\n"
                               "[run:two]\n"
                               "train.steps = 5";
    static const struct cadre_ini_entry expected[] = {
        {"run", NULL, NULL, 3, false},
        {"run", "name", "two words", 4, false},
        {"run", "seed", "7", 6, true},
        {"strategy", NULL, NULL, 7, false},
        {"strategy", "stack", "zero:2; pipeline:2", 8, false},
        {"strategy", "link", "a \"b\" #c", 9, false},
        {"strategy", "empty", "", 10, false},
        {"strategy", "none", "", 11, false},
        {"strategy", "formula", "a=b, c:d", 12, false},
        {"run:two", NULL, NULL, 13, false},
        {"run:two", "train.steps", "5", 14, false},
    };
    struct cadre_ini ini;
    struct cadre_error err = {0};
    char *path = write_bytes(text, strlen(text));
    cadre_status rc = cadre_ini_load(&ini, path, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_uint_eq(ini.n, sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < ini.n; i++) {
        ck_assert_str_eq(ini.entries[i].section, expected[i].section);
        ck_assert_pstr_eq(ini.entries[i].key, expected[i].key);
        ck_assert_pstr_eq(ini.entries[i].value, expected[i].value);
        ck_assert_int_eq(ini.entries[i].line, expected[i].line);
        ck_assert_int_eq(ini.entries[i].by_default, expected[i].by_default);
    }
    cadre_ini_fini(&ini);
    cadre_ini_fini(&ini);
    free(path);
}
END_TEST

/* A run of a comparison may be called as a key of [run] is. */
START_TEST(sections_called_as_a_key_hide_nothing)
{
    static const char *const texts[] = {
        "[run]\nexact = no\n[run:exact]\n[run:seed]\ntrain.steps = 2\n",
        "[run:exact]\n[run]\nexact = no\n[run:seed]\ntrain.steps = 2\n"};
    for (size_t i = 0; i < 2; i++) {
        struct cadre_ini ini;
        struct cadre_error err = {0};
        char *path = write_bytes(texts[i], strlen(texts[i]));
        const char *exact = NULL;
        ck_assert_msg(cadre_ini_load(&ini, path, &err) == CADRE_OK, "%s", err.text);
        ck_assert_uint_eq(ini.n, 5);
        for (size_t k = 0; k < ini.n; k++)
            if (ini.entries[k].key && strcmp(ini.entries[k].key, "exact") == 0)
                exact = ini.entries[k].value;
        ck_assert_str_eq(exact, "no");
        cadre_ini_fini(&ini);
        free(path);
    }
}
END_TEST

START_TEST(refuses_what_would_be_changed)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"a = 1\n", "x.ini:1: a stands before any [section]"},
        {"[s]\na = 1\nA = 2\n", "x.ini:3: a in [s] is set twice, first on line 2"},
        {"[s]\na = 1\n[t]\n[s]\na = 2\n", "x.ini:5: a in [s] is set twice"},
        {"[s]\nstack = zero:2; pipeline:2\n",
         "x.ini:2: stack: an unquoted ; would truncate"},
        {"[s]\na = 1 # note\n", "an unquoted # would truncate the value to '1 '"},
        {"[s]\na = ; b\n", "an unquoted ; would truncate"},
        {"[s]\na: 1\n",
         "'a: 1' is not understood, expected key = value (with =, not :)"},
        {"[s]\na:b = 1\n", "expected key = value (with =, not :)"},
        {"[s]\nhello\n", "x.ini:2: 'hello' is not understood, expected key = value"},
        {"[s]\n= 1\n", "'' is not a key"},
        {"[s]\na b = 1\n", "'a b' is not a key"},
        {"[s\na = 1\n", "'[s' has no closing ]"},
        {"[s] ; note\na = 1\n", "'; note' after [section]"},
        {"[]\na = 1\n", "[] is not a section name"},
        {"[s p]\na = 1\n", "[s p] is not a section name"},
        {"[s]\na = \"x\n", "the quote \" is never closed"},
        {"[s]\na = 'x\n", "the quote ' is never closed"},
        {"[s]\na = \"x\" y\n", "'y' after the closing quote would be lost"},
        {"[s]\na = \"x\"\"\n", "after the closing quote would be lost"},
        {"[s]\na = b \\\nc = d\n", "x.ini:2: the line ends in a backslash"},
        {"[s]\n# note \\\nc = d\n", "x.ini:2: the line ends in a backslash"},
        {"\xef\xbb\xbf[s]\na = 1\n", "x.ini:1: the file starts with a byte-order mark"},
        {"[s]\na = Gr\xfc\n", "x.ini:2: byte 0xfc in column 7 is not UTF-8"},
        {"[s]\na = \x01\n", "x.ini:2: control byte 0x01 in column 5"},
        {"[s]\na = x\ry\n", "control byte 0x0d"},
        {"\x7f\x45LF\n", "x.ini:1: control byte 0x7f in column 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refusal(cases[i].text, strlen(cases[i].text), cases[i].expected);
    expect_refusal("[s]\na = x\0y\n", 11, "control byte 0x00 in column 6");
}
END_TEST

START_TEST(refuses_long_lines_and_values)
{
    struct cadre_text text = {0};
    cadre_text_printf(&text, "[s]\n# %0*d\n", CADRE_INI_LINE_BYTES, 0);
    expect_refusal(text.data, text.len, "x.ini:2: the line has 1002 bytes");
    cadre_text_reset(&text);
    cadre_text_printf(&text, "[s]\na = %0*d\n", CADRE_INI_VALUE_BYTES + 1, 0);
    expect_refusal(text.data, text.len, "x.ini:2: a: the value has 901 bytes");
    cadre_text_reset(&text);
    cadre_text_printf(&text, "[s]\na = %0*d\n", CADRE_INI_VALUE_BYTES, 0);
    char *path = write_bytes(text.data, text.len);
    struct cadre_ini ini;
    ck_assert_int_eq(cadre_ini_load(&ini, path, NULL), CADRE_OK);
    ck_assert_uint_eq(strlen(ini.entries[1].value), CADRE_INI_VALUE_BYTES);
    cadre_ini_fini(&ini);
    free(path);
    cadre_text_fini(&text);
}
END_TEST

START_TEST(refuses_what_is_no_file)
{
    struct cadre_ini ini;
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_ini_load(&ini, dir, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "is a folder"));
    ck_assert_int_eq(cadre_ini_load(&ini, "/nowhere/x.ini", &err), CADRE_E_IO);
    ck_assert_ptr_nonnull(
        strstr(err.text, "cannot open '/nowhere/x.ini': No such file"));
    ck_assert_int_eq(cadre_ini_load(&ini, "/dev/zero", &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "is not a file"));
}
END_TEST

/* A value goes through cadre_ini_quote and a file, and comes back the same. */
START_TEST(quoting_round_trips)
{
    static const char *const values[] = {
        "",        "plain", " led by a blank",
        "a;b",     "#1",    "it's",
        "a\"b",    "\"q\"", "'q'",
        "back\\",  "it's;", "say \"x\"; y",
        "a\"b'c",  "x = y", "\xe6\x8b\x89\xe9\xba\xba",
        "tab\tin", "''",    "[x]",
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const char quote[2] = {(char)cadre_ini_quote(values[i]), 0};
        ck_assert_int_ge(cadre_ini_quote(values[i]), 0);
        char *text = cadre_format("[s]\na = %s%s%s\n", quote, values[i], quote);
        char *path = write_bytes(text, strlen(text));
        struct cadre_ini ini;
        struct cadre_error err = {0};
        cadre_status rc = cadre_ini_load(&ini, path, &err);
        ck_assert_msg(rc == CADRE_OK, "%s: %s", values[i], err.text);
        ck_assert_str_eq(ini.entries[1].value, values[i]);
        cadre_ini_fini(&ini);
        free(path);
        free(text);
    }
    ck_assert_int_eq(cadre_ini_quote("a\"b'c;"), -1);
    ck_assert_int_eq(cadre_ini_quote("two\nlines"), -1);
    ck_assert_int_eq(cadre_ini_quote("\xff"), -1);
}
END_TEST

/* Random files of significant bytes: an error or a table, never a crash. */
START_TEST(any_bytes_are_survived)
{
    static const char alphabet[] = "[]=:;#\"'\\ \t\n\rab.\xc3\xbc\x01";
    unsigned state = 1;
    for (int round = 0; round < 3000; round++) {
        char text[64];
        size_t n = 0;
        while (n < sizeof text) {
            state = state * 1664525u + 1013904223u;
            text[n++] = alphabet[(state >> 16) % (sizeof alphabet - 1)];
        }
        memcpy(text, "[s]\na=", round % 2 ? 6 : 0);
        char *path = write_bytes(text, n);
        struct cadre_ini ini;
        struct cadre_error err = {0};
        if (cadre_ini_load(&ini, path, &err) != CADRE_OK)
            ck_assert_str_ne(err.text, "");
        cadre_ini_fini(&ini);
        free(path);
    }
}
END_TEST

/* What iniparser itself reads, against the dump that upstream publishes. 4.1 is older
 * than that dump and reads 7 of its lines in another way. */
START_TEST(good_files_load_as_published)
{
    static const char *const files[] = {"good_ini/empty.ini",   "good_ini/spaced.ini",
                                        "good_ini/spaced2.ini", "good_ini/twisted.ini",
                                        "gruezi.ini",           "old.ini",
                                        "quotes.ini",           "utf8.ini"};
    char *expected = NULL, *dump = NULL;
    size_t expected_n, dump_n;
    const char *expected_path = test_sample("ini/EXPECTED_dump.txt");
    ck_assert_int_eq(
        cadre_path_read_file(expected_path, 1 << 20, &expected, &expected_n, NULL),
        CADRE_OK);
    FILE *out = open_memstream(&dump, &dump_n);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *name = cadre_format("ini/%s", files[i]);
        fprintf(out, "== %s: LOADED\n", files[i]);
        dictionary *values = iniparser_load(test_sample(name));
        ck_assert_ptr_nonnull(values);
        iniparser_dump(values, out);
        iniparser_freedict(values);
        free(name);
    }
    fclose(out);
    int lines = 0, other = 0;
    for (char *e = expected, *d = dump; *e && *d; lines++) {
        size_t ne = strcspn(e, "\n"), nd = strcspn(d, "\n");
        other += ne != nd || memcmp(e, d, ne) != 0;
        e += ne + (e[ne] == '\n');
        d += nd + (d[nd] == '\n');
    }
    ck_assert_msg(lines > 90 && other == 7, "%d of %d lines differ:\n%s", other, lines,
                  dump);
    free(expected);
    free(dump);
}
END_TEST

/* Files whose every line is plain are read by the strict pass too. */
START_TEST(plain_good_files_are_strict)
{
    struct cadre_ini ini;
    const char *path = test_sample("ini/good_ini/empty.ini");
    ck_assert_int_eq(cadre_ini_load(&ini, path, NULL), CADRE_OK);
    ck_assert_uint_eq(ini.n, 0);
    path = test_sample("ini/good_ini/spaced.ini");
    ck_assert_int_eq(cadre_ini_load(&ini, path, NULL), CADRE_OK);
    struct cadre_error err = {0};
    path = test_sample("ini/old.ini");
    ck_assert_int_eq(cadre_ini_load(&ini, path, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(
        strstr(err.text, "old.ini:2: key_01: an unquoted ; would truncate"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("ini");
    TCase *tc = tcase_create("ini");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_test(tc, reads_what_is_written);
    tcase_add_test(tc, sections_called_as_a_key_hide_nothing);
    tcase_add_test(tc, refuses_what_would_be_changed);
    tcase_add_test(tc, refuses_long_lines_and_values);
    tcase_add_test(tc, refuses_what_is_no_file);
    tcase_add_test(tc, quoting_round_trips);
    tcase_add_test(tc, any_bytes_are_survived);
    tcase_add_test(tc, good_files_load_as_published);
    tcase_add_test(tc, plain_good_files_are_strict);
    suite_add_tcase(s, tc);
    return s;
}
