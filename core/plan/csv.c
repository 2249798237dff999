/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/csv.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"

static const size_t FILE_BYTES = (size_t)16 << 20;
enum { COLUMNS = 256 };

/* Take fields of one line, which ends in a zero, into field[]. Returns how many, -1 for
 * a quote that is not closed or has text behind it, -2 for too many. */
static int split(char *line, char separator, char **field)
{
    int n = 0;
    char *at = line;
    for (;;) {
        if (n == COLUMNS)
            return -2;
        char *out = at;
        field[n++] = at;
        bool quoted = *at == '"';
        at += quoted;
        while (*at && (quoted || *at != separator)) {
            if (quoted && *at == '"' && at[1] != '"') {
                quoted = false;
                at++;
                if (*at && *at != separator)
                    return -1;
                break;
            }
            at += quoted && *at == '"';
            *out++ = *at++;
        }
        if (quoted)
            return -1;
        const bool more = *at == separator && *at;
        at += more;
        *out = '\0';
        if (!more)
            return n;
    }
}

/* Where a line stands, and whether one with too few or too many fields is kept. */
struct place {
    const char *path;
    int line;
    bool ragged;
};

static cadre_status add_row(struct cadre_csv *csv, char **field, int n,
                            const struct place *at, struct cadre_error *err)
{
    static char nothing[] = "";
    const bool names = csv->columns == 0;
    if (names)
        csv->columns = (size_t)n;
    if ((size_t)n != csv->columns && !at->ragged)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s:%d: %d fields, the line of names has %zu", at->path,
                          at->line, n, csv->columns);
    const size_t rows = names ? 1 : csv->rows + 2;
    char **more = cadre_realloc(csv->field, rows * csv->columns, sizeof *more);
    if (!more)
        return cadre_no_memory(err, "a table");
    csv->field = more;
    int *lines = cadre_realloc(csv->line, rows, sizeof *lines);
    if (!lines)
        return cadre_no_memory(err, "a table");
    csv->line = lines;
    int *fields = cadre_realloc(csv->fields, rows, sizeof *fields);
    if (!fields)
        return cadre_no_memory(err, "a table");
    csv->fields = fields;
    for (size_t i = 0; i < csv->columns; i++)
        csv->field[(rows - 1) * csv->columns + i] =
            i < (size_t)n ? cadre_strip(field[i]) : nothing;
    csv->line[rows - 1] = at->line;
    csv->fields[rows - 1] = n;
    csv->rows = rows - 1;
    return CADRE_OK;
}

static cadre_status parse(struct cadre_csv *csv, struct place at, char separator,
                          struct cadre_error *err)
{
    static const char mark[] = "\xef\xbb\xbf"; /* a byte order mark, in UTF-8 */
    char *field[COLUMNS], *next;
    char *line = csv->text + (strncmp(csv->text, mark, 3) == 0 ? 3 : 0);
    for (at.line = 1; line; line = next, at.line++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        const size_t length = strlen(line);
        if (length > 0 && line[length - 1] == '\r')
            line[length - 1] = '\0';
        if (!*line || *line == '#')
            continue;
        const int n = split(line, separator, field);
        if (n < 0)
            return cadre_fail(err, CADRE_E_INVALID, "%s:%d: %s", at.path, at.line,
                              n == -2 ? "more than 256 fields"
                                      : "a quote that does not end its field");
        CADRE_TRY(add_row(csv, field, n, &at, err));
    }
    if (csv->columns == 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: empty, expected a line of column names", at.path);
    return CADRE_OK;
}

static cadre_status load(struct cadre_csv *csv, struct place at, char separator,
                         struct cadre_error *err)
{
    const char *path = at.path;
    size_t bytes = 0;
    *csv = (struct cadre_csv){0};
    cadre_status rc = cadre_path_read_file(path, FILE_BYTES, &csv->text, &bytes, err);
    rc = cadre_error_of_input(rc, err);
    if (rc == CADRE_OK && strlen(csv->text) != bytes)
        rc = cadre_fail(err, CADRE_E_INVALID, "%s: has a zero byte, expected text",
                        path);
    if (rc == CADRE_OK)
        rc = parse(csv, at, separator, err);
    if (rc != CADRE_OK)
        cadre_csv_fini(csv);
    return rc;
}

cadre_status cadre_csv_load(struct cadre_csv *csv, const char *path, char separator,
                            struct cadre_error *err)
{
    return load(csv, (struct place){.path = path}, separator, err);
}

cadre_status cadre_csv_load_ragged(struct cadre_csv *csv, const char *path,
                                   char separator, struct cadre_error *err)
{
    return load(csv, (struct place){.path = path, .ragged = true}, separator, err);
}

void cadre_csv_fini(struct cadre_csv *csv)
{
    free(csv->text);
    free(csv->field);
    free(csv->line);
    free(csv->fields);
    *csv = (struct cadre_csv){0};
}

int cadre_csv_column(const struct cadre_csv *csv, const char *name)
{
    for (size_t i = 0; i < csv->columns; i++)
        if (strcmp(csv->field[i], name) == 0)
            return (int)i;
    return -1;
}

const char *cadre_csv_at(const struct cadre_csv *csv, size_t row, int column)
{
    return column < 0 ? "" : csv->field[(row + 1) * csv->columns + (size_t)column];
}
