/* SPDX-License-Identifier: Apache-2.0 */
/* An array is cut into its records before they are parsed, so that each has a line, and
 * no more than one of them is in memory. */
#include "core/data/chat/dialogue_file.h"

#include <errno.h>
#include <string.h>

#include "core/base/json_read.h"
#include "core/base/memory.h"

struct reader {
    const char *text, *path;
    size_t size, at;
    uint64_t line; /* of `at` */
    uint64_t records;
    cadre_status (*each)(void *arg, const json_t *record, uint64_t line,
                         struct cadre_error *err);
    void *arg;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void step(struct reader *r)
{
    r->line += r->text[r->at++] == '\n';
}

static void skip_blanks(struct reader *r)
{
    while (r->at < r->size && is_blank(r->text[r->at]))
        step(r);
}

/* Parse and pass the record of text[begin, end), which begins on `line`. */
static cadre_status pass(struct reader *r, size_t begin, size_t end, uint64_t line,
                         struct cadre_error *err)
{
    json_error_t why;
    bool no_memory;
    json_t *record =
        cadre_json_load(r->text + begin, end - begin,
                        JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why, &no_memory);
    if (no_memory)
        return cadre_no_memory(err, "'%s'", r->path);
    if (!record)
        return cadre_fail(err, CADRE_E_INVALID, "'%s' line %llu: expected JSON: %s",
                          r->path, (unsigned long long)line + (unsigned)why.line - 1,
                          why.text);
    const cadre_status rc = r->each(r->arg, record, line, err);
    if (rc != CADRE_OK)
        cadre_error_prefix(err, "'%s' line %llu", r->path, (unsigned long long)line);
    json_decref(record);
    r->records++;
    return rc;
}

/* Past a string, whose first quote is at `at`. */
static void skip_string(struct reader *r)
{
    step(r);
    while (r->at < r->size && r->text[r->at] != '"') {
        if (r->text[r->at] == '\\' && r->at + 1 < r->size)
            step(r);
        step(r);
    }
    if (r->at < r->size)
        step(r);
}

/* To the comma or bracket that ends the value that begins at `at`. */
static void skip_value(struct reader *r)
{
    int64_t depth = 0;
    while (r->at < r->size) {
        const char c = r->text[r->at];
        if (depth == 0 && (c == ',' || c == ']' || c == '}'))
            return;
        if (c == '"') {
            skip_string(r);
            continue;
        }
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        step(r);
    }
}

static cadre_status refuse(const struct reader *r, uint64_t line, const char *expected,
                           struct cadre_error *err)
{
    if (r->at < r->size)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' line %llu: expected %s, found \"%.1s\" in line %llu",
                          r->path, (unsigned long long)line, expected, r->text + r->at,
                          (unsigned long long)r->line);
    return cadre_fail(err, CADRE_E_INVALID,
                      "'%s' line %llu: expected %s, found the end of the file, which "
                      "may be cut",
                      r->path, (unsigned long long)line, expected);
}

static cadre_status read_array(struct reader *r, struct cadre_error *err)
{
    step(r);
    skip_blanks(r);
    bool more = r->at >= r->size || r->text[r->at] != ']';
    while (more) {
        skip_blanks(r);
        const size_t begin = r->at;
        const uint64_t line = r->line;
        skip_value(r);
        if (r->at >= r->size || r->text[r->at] == '}')
            return refuse(r, line, "\",\" or \"]\" after this record", err);
        CADRE_TRY(pass(r, begin, r->at, line, err));
        more = r->text[r->at] == ',';
        if (more)
            step(r);
    }
    step(r);
    skip_blanks(r);
    return r->at == r->size ? CADRE_OK
                            : refuse(r, r->line, "nothing after the array", err);
}

static cadre_status read_lines(struct reader *r, struct cadre_error *err)
{
    while (r->at < r->size) {
        const char *end = memchr(r->text + r->at, '\n', r->size - r->at);
        const size_t stop = end ? (size_t)(end - r->text) : r->size;
        size_t begin = r->at;
        while (begin < stop && is_blank(r->text[begin]))
            begin++;
        if (begin < stop)
            CADRE_TRY(pass(r, begin, stop, r->line, err));
        r->at = end ? stop + 1 : stop;
        r->line++;
    }
    return CADRE_OK;
}

cadre_status
cadre_dialogue_file_read(const char *text, size_t size, const char *path,
                         cadre_status (*each)(void *arg, const json_t *record,
                                              uint64_t line, struct cadre_error *err),
                         void *arg, struct cadre_error *err)
{
    struct reader r = {
        .text = text, .path = path, .size = size, .line = 1, .each = each, .arg = arg};
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        r.at = 3;
    skip_blanks(&r);
    CADRE_TRY(r.at < size && text[r.at] == '[' ? read_array(&r, err)
                                               : read_lines(&r, err));
    if (r.records == 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s': expected records, an array or a line of JSON each, "
                          "found none",
                          path);
    return CADRE_OK;
}
