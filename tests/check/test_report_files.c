/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/check/report.h"
#include "tests/check/results_fixture.h"
#include "tests/support/check_main.h"

static struct cadre_check_results results;

static void setup(void)
{
    results_of(&results, "./<my> & \"own\".so");
}

static void teardown(void)
{
    cadre_check_results_fini(&results);
}

static void has(const char *text, const char *want)
{
    ck_assert_msg(strstr(text, want), "lacks '%s':\n%s", want, text);
}

static void lacks(const char *text, const char *wrong)
{
    ck_assert_msg(!strstr(text, wrong), "has '%s':\n%s", wrong, text);
}

/* ---- well-formed XML: every element is closed in its order ---- */

struct reader {
    const char *at;
    char open[16][32];
    int depth;
};

/* After "&": one of the five entities, or a number. */
static void read_entity(const char *at)
{
    static const char *const known[] = {"lt;", "gt;", "amp;", "quot;", "#39;"};
    for (size_t i = 0; i < 5; i++)
        if (strncmp(at, known[i], strlen(known[i])) == 0)
            return;
    ck_abort_msg("entity at '%.20s'", at);
}

static void read_text(const char *from, const char *to)
{
    size_t n;
    for (; from < to; from += n) {
        n = cadre_utf8_char(from, (size_t)(to - from));
        ck_assert_msg(n > 0, "no UTF-8 at '%.20s'", from);
        ck_assert_msg((unsigned char)*from >= ' ' || *from == '\n', "byte %d", *from);
        if (*from == '&')
            read_entity(from + 1);
    }
}

/* After the name: attributes, in double quotes. Returns what follows them. */
static const char *read_attributes(const char *at)
{
    for (at += strspn(at, " \n"); *at != '>' && *at != '/' && *at != '?';
         at += strspn(at, " \n")) {
        at += strcspn(at, "=\n >");
        ck_assert_msg(at[0] == '=' && at[1] == '"', "attribute at '%.20s'", at);
        const char *end = strchr(at + 2, '"');
        ck_assert_ptr_nonnull(end);
        ck_assert_ptr_null(memchr(at + 2, '<', (size_t)(end - at - 2)));
        read_text(at + 2, end);
        at = end + 1;
    }
    return at;
}

static void read_element(struct reader *reader)
{
    const char *at = reader->at + 1;
    bool closes = *at == '/';
    at += closes;
    size_t name = strcspn(at, " />\n");
    ck_assert(name > 0 && name < 32);
    if (closes) {
        ck_assert_int_gt(reader->depth, 0);
        const char *open = reader->open[--reader->depth];
        ck_assert_msg(strlen(open) == name && strncmp(open, at, name) == 0,
                      "</%.*s> closes <%s>", (int)name, at, open);
        ck_assert_int_eq(at[name], '>');
        reader->at = at + name + 1;
        return;
    }
    const char *end = read_attributes(at + name);
    if (*end != '/') {
        ck_assert_int_lt(reader->depth, 16);
        snprintf(reader->open[reader->depth++], 32, "%.*s", (int)name, at);
    }
    reader->at = strchr(end, '>') + 1;
}

static void is_well_formed(const char *text)
{
    struct reader reader = {.at = text};
    if (strncmp(text, "<?xml", 5) == 0 || strncmp(text, "<!DOCTYPE", 9) == 0)
        reader.at = strchr(text, '>') + 1;
    while (*reader.at) {
        size_t n = strcspn(reader.at, "<");
        read_text(reader.at, reader.at + n);
        reader.at += n;
        if (*reader.at)
            read_element(&reader);
    }
    ck_assert_int_eq(reader.depth, 0);
}

/* ---- the documents ---- */

static struct cadre_text document(void (*write)(const struct cadre_check_results *,
                                                struct cadre_text *))
{
    struct cadre_text text = {0};
    write(&results, &text);
    ck_assert(!text.failed);
    return text;
}

START_TEST(markup_is_escaped)
{
    struct cadre_text text = {0};
    cadre_xml_put(&text, "<a href=\"x\">'&'</a>\n\x01\x1b\xff\xe2\x82 \xc3\xa9");
    ck_assert_str_eq(cadre_text_str(&text),
                     "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;\n"
                     "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd \xc3\xa9");
    cadre_text_fini(&text);
}
END_TEST

START_TEST(json_has_its_schema)
{
    static const char *const names[] = {"pass",        "warning", "refused",
                                        "unsupported", "waived",  "fail",
                                        "crash",       "timeout", "host fault"};
    results_awkward(&results);
    struct cadre_text text = document(cadre_check_results_json);
    json_error_t wrong;
    json_t *root = json_loads(cadre_text_str(&text), JSON_REJECT_DUPLICATES, &wrong);
    ck_assert_msg(root, "%s", wrong.text);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "schema_version")), 1);
    ck_assert_ptr_nonnull(json_string_value(json_object_get(root, "build")));
    ck_assert_ptr_nonnull(json_string_value(json_object_get(root, "date")));
    ck_assert_str_eq(json_string_value(json_object_get(root, "level")), "none");
    ck_assert_ptr_nonnull(json_string_value(json_object_get(root, "digest")));
    const json_t *checks = json_object_get(root, "checks");
    ck_assert_uint_eq(json_array_size(checks), CADRE_CHECK_STATUSES);
    for (size_t i = 0; i < CADRE_CHECK_STATUSES; i++) {
        const json_t *check = json_array_get(checks, i);
        const struct cadre_check *of = results.result[i].check;
        ck_assert_uint_eq(json_object_size(check), 4);
        ck_assert_str_eq(json_string_value(json_object_get(check, "id")), of->id);
        ck_assert_str_eq(json_string_value(json_object_get(check, "group")), of->group);
        ck_assert_str_eq(json_string_value(json_object_get(check, "status")), names[i]);
        ck_assert_ptr_nonnull(json_string_value(json_object_get(check, "text")));
    }
    ck_assert_str_eq(
        json_string_value(json_object_get(json_array_get(checks, 0), "text")),
        results.result[0].verdict.text);
    json_decref(root);
    cadre_text_fini(&text);
}
END_TEST

START_TEST(json_names_the_level)
{
    results_pass(&results, CADRE_LEVEL_STACKABLE);
    struct cadre_text text = document(cadre_check_results_json);
    has(cadre_text_str(&text), "\"level\": \"stackable\"");
    cadre_text_fini(&text);
}
END_TEST

START_TEST(junit_is_well_formed)
{
    results_awkward(&results);
    results.result[0].wall_s = 1.25;
    struct cadre_text text = document(cadre_check_results_junit);
    const char *xml = cadre_text_str(&text);
    is_well_formed(xml);
    has(xml, "<testsuite name=\"cadre check ./&lt;my&gt; &amp; &quot;own&quot;.so\" "
             "tests=\"9\" failures=\"1\" errors=\"3\" skipped=\"3\">");
    has(xml, "<testcase classname=\"load\" name=\"L1 ");
    has(xml, "time=\"1.250\"");
    has(xml, "a &lt;b&gt; &amp; &quot;c&quot;");
    has(xml, "--only L1 --seed 7\n");
    static const char *const elements[] = {
        "system-out>pass",  "system-out>warning", "skipped message=",
        "skipped message=", "skipped message=",   "failure message=",
        "error message=",   "error message=",     "error message="};
    const char *at = xml;
    for (size_t i = 0; i < CADRE_CHECK_STATUSES; i++) {
        at = strstr(at + 1, "<testcase");
        ck_assert_ptr_nonnull(at);
        const char *inner = strstr(at, "      <");
        ck_assert_ptr_nonnull(inner);
        ck_assert_msg(strncmp(inner + 7, elements[i], strlen(elements[i])) == 0,
                      "%zu: %.30s", i, inner);
    }
    ck_assert_ptr_null(strstr(at + 1, "<testcase"));
    cadre_text_fini(&text);
}
END_TEST

START_TEST(html_is_escaped)
{
    results_awkward(&results);
    results_say(&results, "D1", CADRE_CHECK_FAIL, "<script>alert(1)</script>");
    struct cadre_text text = document(cadre_check_results_html);
    const char *html = cadre_text_str(&text);
    is_well_formed(html);
    lacks(html, "<script");
    lacks(html, "<my>");
    has(html, "&lt;script&gt;alert(1)&lt;/script&gt;");
    has(html, "<h1>cadre check ./&lt;my&gt; &amp; &quot;own&quot;.so</h1>");
    has(html, "<h2>load</h2>");
    has(html, "<h2>descriptor</h2>");
    has(html, "<tr id=\"D1\"><td>D1</td><td class=\"bad\">fail</td>");
    has(html, "--only D1 --seed 7</code>");
    lacks(html, "--only L1"); /* it passed */
    lacks(html, "http"); /* opens nothing from elsewhere */
    cadre_text_fini(&text);
}
END_TEST

START_TEST(nothing_chosen_is_a_document_too)
{
    struct cadre_text text = document(cadre_check_results_html);
    is_well_formed(cadre_text_str(&text));
    cadre_text_fini(&text);
    text = document(cadre_check_results_junit);
    is_well_formed(cadre_text_str(&text));
    has(cadre_text_str(&text), "tests=\"0\" failures=\"0\" errors=\"0\" skipped=\"0\"");
    cadre_text_fini(&text);
    text = document(cadre_check_results_json);
    has(cadre_text_str(&text), "\"checks\": []");
    cadre_text_fini(&text);
}
END_TEST

/* The date of a JSON, which may be another second's in the next one. */
static void drop_date(char *json)
{
    char *date = strstr(json, "\"date\": \"");
    ck_assert_ptr_nonnull(date);
    memset(date, '.', strlen("\"date\": \"2026-11-22T09:30:00Z"));
}

START_TEST(a_document_is_written)
{
    struct cadre_error err = {0};
    char *dir = test_tmpdir(), path[1100];
    snprintf(path, sizeof path, "%s/report.json", dir);
    ck_assert_int_eq(
        cadre_check_results_write(&results, cadre_check_results_json, path, &err),
        CADRE_OK);
    struct cadre_text text = document(cadre_check_results_json);
    char *written = test_file_read(path, NULL);
    drop_date(written);
    drop_date(text.data);
    ck_assert_str_eq(written, cadre_text_str(&text));
    free(written);
    cadre_text_fini(&text);
    strcat(path, "/below");
    ck_assert_int_eq(
        cadre_check_results_write(&results, cadre_check_results_json, path, &err),
        CADRE_E_IO);
    ck_assert_msg(strstr(err.text, path), "%s", err.text);
    test_tmpdir_destroy(dir);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("check/report_files");
    TCase *t = tcase_create("files");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, markup_is_escaped);
    tcase_add_test(t, json_has_its_schema);
    tcase_add_test(t, json_names_the_level);
    tcase_add_test(t, junit_is_well_formed);
    tcase_add_test(t, html_is_escaped);
    tcase_add_test(t, nothing_chosen_is_a_document_too);
    tcase_add_test(t, a_document_is_written);
    suite_add_tcase(s, t);
    return s;
}
