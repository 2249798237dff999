/* SPDX-License-Identifier: Apache-2.0 */
/* Templates against what transformers makes of them (tests/samples/templates), what is
 * refused, and what would not end. */
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/data/template/template.h"
#include "tests/support/check_main.h"

static cadre_status render(const char *text, size_t size, json_t *context,
                           const time_t *now, struct cadre_text *out,
                           struct cadre_error *err)
{
    struct cadre_template *template = NULL;
    cadre_status rc = cadre_template_open(text, size, &template, err);
    if (rc == CADRE_OK)
        rc = cadre_template_render(template, context, now, out, err);
    cadre_template_close(template);
    return rc;
}

static void check_case(const json_t *one, json_t *shared)
{
    const char *name = json_string_value(json_object_get(one, "template"));
    const json_t *want = json_object_get(one, "output");
    json_t *context = json_object_get(one, "context");
    struct cadre_text got = {0};
    struct cadre_error err = {0};
    const size_t n = strlen(name);
    const bool is_file = n > 6 && strcmp(name + n - 6, ".jinja") == 0;
    char *file = cadre_format("templates/%s", name);
    char *text = is_file ? test_file_read(test_sample(file), NULL) : NULL;
    const time_t now = 0;
    if (!context)
        context = shared;
    const char *source = is_file ? text : name;
    char *ask = json_dumps(json_object_get(context, "messages"), JSON_COMPACT);
    const cadre_status rc = render(source, strlen(source), context, &now, &got, &err);
    if (!want)
        ck_assert_msg(rc == CADRE_E_INVALID || rc == CADRE_E_UNSUPPORTED,
                      "%s: %s: expected an error, found %s %s", name, ask,
                      cadre_text_str(&got), err.text);
    else
        ck_assert_msg(
            rc == CADRE_OK && got.len == json_string_length(want) &&
                memcmp(cadre_text_str(&got), json_string_value(want), got.len) == 0,
            "%s: %s:\nexpected '%s'\nfound    '%s' %s", name, ask,
            json_string_value(want), cadre_text_str(&got), err.text);
    cadre_text_fini(&got);
    free(ask);
    free(text);
    free(file);
}

START_TEST(equals_transformers)
{
    json_error_t why;
    json_t *root =
        json_load_file(test_sample("templates/cases.json"), JSON_ALLOW_NUL, &why);
    ck_assert_msg(root != NULL, "%s", why.text);
    json_t *cases = json_object_get(root, "cases");
    ck_assert_uint_ge(json_array_size(cases), 300);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(json_array_get(cases, i), json_object_get(root, "context"));
    json_decref(root);
}
END_TEST

/* ---- what is refused ---- */

static void refuses(const char *text, const char *pattern)
{
    json_t *context =
        json_pack("{s[iii] ss sf}", "xs", 1, 2, 3, "s", "\xc3\xa4", "f", 0.5);
    struct cadre_text got = {0};
    struct cadre_error err = {0};
    const cadre_status rc = render(text, strlen(text), context, NULL, &got, &err);
    ck_assert_msg((rc == CADRE_E_INVALID || rc == CADRE_E_UNSUPPORTED) &&
                      strstr(err.text, pattern),
                  "%s: %d '%s', found '%s', not '%s'", text, (int)rc,
                  cadre_text_str(&got), err.text, pattern);
    cadre_text_fini(&got);
    json_decref(context);
}

START_TEST(refuses_by_name_and_line)
{
    static const struct {
        const char *text, *pattern;
    } cases[] = {
        {"a\n{% raw %}", "line 2: the block raw"},
        {"\n\n{% include 'x' %}", "line 3: the block include"},
        {"{% with a = 1 %}{% endwith %}", "line 1: the block with"},
        {"{% set a, b = 1, 2 %}", "set of several names"},
        {"{% for a in xs recursive %}{% endfor %}", "recursive"},
        {"{{ 1.5 }}", "line 1: the number 1."},
        {"{{ 99999999999999999999 }}", "whole numbers of 64 bits"},
        {"{{ 2 ** 3 }}", "operator **"},
        {"{{ 1 / 2 }}", "operator /"},
        {"{{ xs }}", "printing a list"},
        {"{{ f }}", "printing a number with a point"},
        {"{{ xs ~ 'a' }}", "~ of a list"},
        {"\n{{ xs|sort }}", "line 2: the filter sort"},
        {"{{ xs is callable }}", "the test callable"},
        {"{{ s.encode() }}", "the method encode"},
        {"{{ xs.append(1) }}", "the method append of a list"},
        {"{{ s|upper }}", "letters outside of ASCII"},
        {"{{ '\\N{DASH}' }}", "the escape \\N"},
        {"{{ '\\ud800' }}", "the escape \\u"},
        {"{{ cycler('a') }}", "the function cycler"},
        {"{{ strftime_now('%Y') }}", "the function strftime_now"},
        {"{{ namespace(a=1) }}", "namespace()"},
        {"{% set n = namespace() %}{{ n }}", "a namespace as a value"},
        {"{% set n = namespace() %}{% set m = namespace() %}{% set n.m = m %}",
         "a namespace as a value"},
        {"{{ range }}", "a function as a value"},
        {"{{ xs|tojson(sort_keys=true) }}", "the argument sort_keys"},
        {"{{ xs|join('', 'a') }}", "the filter join: expected at most 1"},
        {"{{ {'a': 1}.items }}", "the name of a method"},
        {"{{ xs(1) }}", "is no function"},
        {"{% set s.x = 1 %}", "s is no namespace"},
        {"{{ raise_exception('so \n it is') }}",
         "line 1: the template says: so ? it is"},
        {"{{ nothing.at.all }}", "nothing is undefined"},
        {"{% break %}", "inside of a loop"},
        {"{% if 1 %}a", "line 1: what begins here has no end"},
        {"{{ a @ b }}", "the character '@'"},
        {"{{ (1] }}", "']' that nothing has opened"},
        {"{{ \xc3\xa4 }}", "the character '\xc3\xa4'"},
        {"\xff", "expected UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuses(cases[i].text, cases[i].pattern);
}
END_TEST

/* ---- what would not end, or takes all memory ---- */

static char *repeat(const char *head, const char *text, int n, const char *tail)
{
    struct cadre_text all = {0};
    cadre_text_printf(&all, "%s", head);
    for (int i = 0; i < n; i++)
        cadre_text_append(&all, text, strlen(text));
    cadre_text_printf(&all, "%s", tail);
    return all.data;
}

START_TEST(ends_soon)
{
    static const struct {
        const char *head, *text, *tail;
    } deep[] = {
        {"{{ ", "(", ""},
        {"{{ ", "[", ""},
        {"{{ ", "{'a':", ""},
        {"{{ ", "not ", "1 }}"},
        {"{{ ", "-", "1 }}"},
        {"{{ 1", "+ 1", " }}"},
        {"{{ s", "|trim", " }}"},
        {"{{ s", ".x", " }}"},
        {"{{ s", "[0]", " }}"},
        {"", "{% if 1 %}", ""},
        {"{{ 1", " and 1", " }}"},
        {"{{ s", "()", " }}"},
        {"", "{% for x in xs %}", ""},
        {"{{ 1", " if 1 else 1", " }}"},
        {"{{ xs[", "xs[", ""},
        {"{{ s|trim(", "s|trim(", ""},
        {"", "{% macro m() %}", ""},
        {"{{ s ", "is string ", " }}"},
    };
    for (size_t i = 0; i < sizeof deep / sizeof *deep; i++) {
        char *text = repeat(deep[i].head, deep[i].text, 2000, deep[i].tail);
        struct cadre_error err = {0};
        struct cadre_template *template = NULL;
        const cadre_status rc =
            cadre_template_open(text, strlen(text), &template, &err);
        ck_assert_msg(rc == CADRE_E_UNSUPPORTED || rc == CADRE_E_INVALID, "%s...: %d",
                      deep[i].text, (int)rc);
        free(text);
    }
    refuses("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "macros in each other");
    refuses("{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
            "macros in each other");
    refuses("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}"
            "{% endfor %}",
            "steps");
    refuses("{% set n = namespace(s='xxxxxxxxxxxxxxxx') %}{% for a in range(99) %}"
            "{% set n.s = n.s + n.s %}{% endfor %}",
            "steps");
    refuses("{% set n = namespace(s=[1]) %}{% for a in range(9999) %}"
            "{% set n.s = [n.s] %}{% endfor %}",
            "64 levels");
    refuses("{% set n = namespace(s=[1]) %}{% for a in range(60) %}"
            "{% set n.s = [n.s, n.s] %}{% endfor %}",
            "steps left");
    refuses("{% set n = namespace(s='aaaaaaaaaaaaaaaa') %}{% for a in range(40) %}"
            "{% set n.s = n.s|replace('a', n.s) %}{% endfor %}",
            "steps");
}
END_TEST

/* Every cut of a template that is read is a template, or is refused. */
START_TEST(takes_any_cut)
{
    size_t size;
    char *text = test_file_read(test_sample("templates/qwen3.jinja"), &size);
    json_t *context = json_pack("{s[{ssss}] sb}", "messages", "role", "user", "content",
                                "a", "add_generation_prompt", 1);
    for (size_t n = 0; n < size; n += test_lean() ? 17 : 3) {
        struct cadre_text got = {0};
        struct cadre_error err = {0};
        const cadre_status rc = render(text + n, size - n, context, NULL, &got, &err);
        ck_assert(rc == CADRE_OK || err.text[0]);
        cadre_text_reset(&got);
        render(text, n, context, NULL, &got, &err);
        cadre_text_fini(&got);
    }
    json_decref(context);
    free(text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("template");
    TCase *tcase = tcase_create("template");
    tcase_add_test(tcase, equals_transformers);
    tcase_add_test(tcase, refuses_by_name_and_line);
    tcase_add_test(tcase, ends_soon);
    tcase_add_test(tcase, takes_any_cut);
    suite_add_tcase(suite, tcase);
    return suite;
}
