/* SPDX-License-Identifier: Apache-2.0 */
/* JSON, JUnit and a page of HTML. */
#include <string.h>

#include "core/base/json.h"
#include "core/base/path.h"
#include "core/base/utf8.h"
#include "core/check/report.h"

/* ---- JSON ---- */

enum { SCHEMA_VERSION = 1 };

void cadre_check_results_json(const struct cadre_check_results *results,
                              struct cadre_text *out)
{
    struct cadre_json json;
    cadre_json_init_text(&json, out, true);
    cadre_json_begin_object(&json);
    cadre_json_put_head(&json, SCHEMA_VERSION);
    cadre_json_put_string(&json, "level", cadre_check_results_level(results));
    cadre_json_put_string(&json, "digest", results->digest);
    cadre_json_key(&json, "checks");
    cadre_json_begin_array(&json);
    for (size_t i = 0; i < results->n; i++) {
        const struct cadre_check_result *result = &results->result[i];
        if (!result->done)
            continue;
        cadre_json_begin_object(&json);
        cadre_json_put_string(&json, "id", result->check->id);
        cadre_json_put_string(&json, "group", result->check->group);
        cadre_json_put_string(&json, "status",
                              cadre_check_status_name(result->verdict.status));
        cadre_json_put_string(&json, "text", result->verdict.text);
        cadre_json_end_object(&json);
    }
    cadre_json_end_array(&json);
    cadre_json_end_object(&json);
    if (cadre_json_finish(&json) != CADRE_OK)
        out->failed = true;
}

/* ---- XML ---- */

/* What stands for a character of markup; NULL: itself. */
static const char *entity(char c)
{
    switch (c) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

void cadre_xml_put(struct cadre_text *out, const char *text)
{
    size_t left = strlen(text), n;
    for (; left > 0; text += n, left -= n) {
        const char *as = entity(*text);
        n = cadre_utf8_char(text, left);
        if (n == 0)
            as = "\xef\xbf\xbd";
        n = n > 0 ? n : 1;
        if (as)
            cadre_text_append(out, as, strlen(as));
        else if ((unsigned char)*text >= ' ' || *text == '\n')
            cadre_text_append(out, text, n);
    }
}

static void put_attribute(struct cadre_text *out, const char *name, const char *text)
{
    cadre_text_printf(out, " %s=\"", name);
    cadre_xml_put(out, text);
    cadre_text_printf(out, "\"");
}

/* ---- JUnit ---- */

static const char *junit_element(enum cadre_check_status status)
{
    switch (status) {
    case CADRE_CHECK_FAIL:
        return "failure";
    case CADRE_CHECK_CRASH:
    case CADRE_CHECK_TIMEOUT:
    case CADRE_CHECK_HOST_FAULT:
        return "error";
    case CADRE_CHECK_REFUSED:
    case CADRE_CHECK_UNSUPPORTED:
    case CADRE_CHECK_WAIVED:
        return "skipped";
    default:
        return "system-out";
    }
}

static void put_case(struct cadre_text *out, const struct cadre_check_results *results,
                     const struct cadre_check_result *result)
{
    const struct cadre_verdict *verdict = &result->verdict;
    const char *element = junit_element(verdict->status);
    char again[512];
    cadre_check_results_reproduce(results, result->check, again, sizeof again);
    cadre_text_printf(out, "    <testcase");
    put_attribute(out, "classname", result->check->group);
    cadre_text_printf(out, " name=\"%s ", result->check->id);
    cadre_xml_put(out, result->check->title);
    cadre_text_printf(out, "\" time=\"%.3f\">\n      <%s", result->wall_s, element);
    if (strcmp(element, "system-out") != 0)
        put_attribute(out, "message", verdict->text);
    cadre_text_printf(out, ">");
    cadre_xml_put(out, cadre_check_status_name(verdict->status));
    cadre_text_printf(out, ": ");
    cadre_xml_put(out, verdict->text);
    cadre_text_printf(out, "\n");
    cadre_xml_put(out, result->check->why);
    cadre_text_printf(out, "\n");
    cadre_xml_put(out, again);
    cadre_text_printf(out, "\n");
    cadre_xml_put(out, result->check->see);
    cadre_text_printf(out, "</%s>\n    </testcase>\n", element);
}

void cadre_check_results_junit(const struct cadre_check_results *results,
                               struct cadre_text *out)
{
    size_t fails = cadre_check_results_count(results, CADRE_CHECK_FAIL);
    size_t skips = cadre_check_results_count(results, CADRE_CHECK_UNSUPPORTED) +
                   cadre_check_results_count(results, CADRE_CHECK_REFUSED) +
                   cadre_check_results_count(results, CADRE_CHECK_WAIVED);
    cadre_text_printf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                           "<testsuites>\n  <testsuite name=\"cadre check ");
    cadre_xml_put(out, results->plugin);
    cadre_text_printf(
        out, "\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\">\n",
        cadre_check_results_chosen(results), fails,
        cadre_check_results_bad(results) - fails, skips);
    for (size_t i = 0; i < results->n; i++)
        if (results->result[i].done)
            put_case(out, results, &results->result[i]);
    cadre_text_printf(out, "  </testsuite>\n</testsuites>\n");
}

/* ---- HTML ---- */

static const char STYLE[] =
    "<style>\n"
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1a1a1a;--soft:#5c5c5c;"
    "--rule:#d9d9d9;--good:#00664a;--bad:#b00020}\n"
    "@media (prefers-color-scheme:dark){:root{--paper:#16181b;--ink:#ececec;"
    "--soft:#a9adb3;--rule:#3a3e44;--good:#5fd3ae;--bad:#ff8a94}}\n"
    "body{background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif;"
    "max-width:1100px;margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}\n"
    "h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}\n"
    "table{border-collapse:collapse;width:100%}"
    "th,td{padding:.4rem .6rem;border-bottom:1px solid var(--rule);text-align:left;"
    "vertical-align:top}\n"
    "td:first-child,td:nth-child(2){white-space:nowrap}"
    ".soft{color:var(--soft);font-size:.9rem}.said{white-space:pre-wrap}\n"
    ".good{color:var(--good);font-weight:600}.bad{color:var(--bad);font-weight:600}\n"
    "code{font-size:.9em}\n</style>\n";

static void put_row(struct cadre_text *out, const struct cadre_check_results *results,
                    const struct cadre_check_result *result)
{
    const struct cadre_verdict *verdict = &result->verdict;
    bool bad = cadre_check_status_is_bad(verdict->status);
    char again[512];
    cadre_check_results_reproduce(results, result->check, again, sizeof again);
    cadre_text_printf(out, "<tr id=\"%s\"><td>%s</td><td class=\"%s\">%s</td><td>",
                      result->check->id, result->check->id,
                      bad                                   ? "bad"
                      : verdict->status == CADRE_CHECK_PASS ? "good"
                                                            : "",
                      cadre_check_status_name(verdict->status));
    cadre_xml_put(out, result->check->title);
    cadre_text_printf(out, "<div class=\"soft\">");
    cadre_xml_put(out, result->check->why);
    cadre_text_printf(out, "</div>");
    if (verdict->text[0]) {
        cadre_text_printf(out, "<div class=\"said\">");
        cadre_xml_put(out, verdict->text);
        cadre_text_printf(out, "</div>");
    }
    if (bad) {
        cadre_text_printf(out, "<div><code>");
        cadre_xml_put(out, again);
        cadre_text_printf(out, "</code> <span class=\"soft\">");
        cadre_xml_put(out, result->check->see);
        cadre_text_printf(out, "</span></div>");
    }
    cadre_text_printf(out, "</td></tr>\n");
}

void cadre_check_results_html(const struct cadre_check_results *results,
                              struct cadre_text *out)
{
    char summary[256];
    const char *group = "";
    cadre_check_results_summary(results, summary, sizeof summary);
    cadre_text_printf(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta "
                           "charset=\"utf-8\"/>\n<meta name=\"viewport\" "
                           "content=\"width=device-width\"/>\n<title>cadre check ");
    cadre_xml_put(out, results->plugin);
    cadre_text_printf(out, "</title>\n%s</head>\n<body>\n<h1>cadre check ", STYLE);
    cadre_xml_put(out, results->plugin);
    cadre_text_printf(out, "</h1>\n<p class=\"%s\">",
                      cadre_check_results_bad(results) ? "bad" : "good");
    cadre_xml_put(out, summary);
    cadre_text_printf(out, "</p>\n");
    for (size_t i = 0; i < results->n; i++) {
        const struct cadre_check_result *result = &results->result[i];
        if (!result->done)
            continue;
        if (strcmp(group, result->check->group) != 0)
            cadre_text_printf(out, "%s<h2>%s</h2>\n<table>\n",
                              *group ? "</table>\n" : "", result->check->group);
        group = result->check->group;
        put_row(out, results, result);
    }
    cadre_text_printf(out, "%s</body></html>\n", *group ? "</table>\n" : "");
}

cadre_status cadre_check_results_write(
    const struct cadre_check_results *results,
    void (*document)(const struct cadre_check_results *, struct cadre_text *),
    const char *path, struct cadre_error *err)
{
    struct cadre_text text = {0};
    cadre_status rc;
    document(results, &text);
    rc = text.failed ? cadre_no_memory(err, "the report '%s'", path)
                     : cadre_path_write_file(path, text.data, text.len, err);
    cadre_text_fini(&text);
    return rc;
}
