/* SPDX-License-Identifier: Apache-2.0 */
/* Source: Test Anything Protocol, version 14. */
#include <string.h>

#include "core/base/utf8.h"
#include "core/check/report.h"

void cadre_tap_begin(FILE *file, size_t n)
{
    fprintf(file, "TAP version 14\n1..%zu\n", n);
}

/* One character, with a backslash before those of `escaped`; U+FFFD where the plugin
 * has printed what is no UTF-8. Returns its bytes. */
static size_t put_character(FILE *file, const char *text, const char *escaped)
{
    size_t n = cadre_utf8_char(text, strlen(text));
    if (n == 0) {
        fputs("\xef\xbf\xbd", file);
        return 1;
    }
    if (strchr(escaped, *text))
        fputc('\\', file);
    fwrite(text, 1, n, file);
    return n;
}

/* Up to a line break. In a description "#" begins a directive, so it is escaped. */
static void put_line(FILE *file, const char *text)
{
    while (*text && *text != '\n')
        text += put_character(file, text, "#\\");
}

/* A YAML string in double quotes; line breaks stay visible. */
static void put_string(FILE *file, const char *key, const char *text)
{
    fprintf(file, "  %s: \"", key);
    while (*text)
        if (*text == '\n') {
            fputs("\\n", file);
            text++;
        } else if ((unsigned char)*text < ' ') {
            text++;
        } else {
            text += put_character(file, text, "\"\\");
        }
    fputs("\"\n", file);
}

static void put_diagnostics(FILE *file, const struct cadre_check_results *results,
                            const struct cadre_check_result *result)
{
    const struct cadre_verdict *verdict = &result->verdict;
    char again[512];
    cadre_check_results_reproduce(results, result->check, again, sizeof again);
    fputs("  ---\n", file);
    put_string(file, "status", cadre_check_status_name(verdict->status));
    if (verdict->text[0])
        put_string(file, "text", verdict->text);
    put_string(file, "why", result->check->why);
    put_string(file, "reproduce", again);
    put_string(file, "see", result->check->see);
    fputs("  ...\n", file);
}

static void put_note(FILE *file, const char *text)
{
    fputs("  # ", file);
    put_line(file, text);
    fputc('\n', file);
}

/* A waived failure is what TAP calls by this word. */
#define KNOWN                                                                          \
    "TO"                                                                               \
    "DO"

void cadre_tap_put(FILE *file, size_t number, const struct cadre_check_results *results,
                   const struct cadre_check_result *result)
{
    const struct cadre_verdict *verdict = &result->verdict;
    bool bad = cadre_check_status_is_bad(verdict->status);
    bool waived = verdict->status == CADRE_CHECK_WAIVED;
    bool skipped = verdict->status == CADRE_CHECK_UNSUPPORTED ||
                   verdict->status == CADRE_CHECK_REFUSED;
    fprintf(file, "%s %zu - %s ", bad || waived ? "not ok" : "ok", number,
            result->check->id);
    put_line(file, result->check->title);
    if (skipped)
        fprintf(file, " # SKIP %s: ", cadre_check_status_name(verdict->status));
    if (waived)
        fprintf(file, " # " KNOWN " waived: ");
    if (skipped || waived)
        put_line(file, verdict->text);
    fputc('\n', file);
    if (bad || verdict->status == CADRE_CHECK_WARNING)
        put_diagnostics(file, results, result);
    else if (verdict->status == CADRE_CHECK_PASS && verdict->text[0])
        put_note(file, verdict->text);
    fflush(file);
}

void cadre_tap_end(FILE *file, const struct cadre_check_results *results)
{
    char summary[256];
    cadre_check_results_summary(results, summary, sizeof summary);
    fprintf(file, "# %s\n", summary);
}
