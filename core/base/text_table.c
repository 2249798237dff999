/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/text_table.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/terminal.h"
#include "core/base/utf8.h"

static const int GAP = 2;

void cadre_text_table_add(struct cadre_text_table *table, const char *text)
{
    if (table->n == table->room) {
        size_t room = table->room ? 2 * table->room : 64;
        char **grown = cadre_realloc(table->cell, room, sizeof *grown);
        table->failed = table->failed || !grown;
        if (!grown)
            return;
        table->cell = grown;
        table->room = room;
    }
    char *copy = cadre_strdup(text);
    table->failed = table->failed || !copy;
    if (copy)
        table->cell[table->n++] = copy;
}

void cadre_text_table_addf(struct cadre_text_table *table, const char *format, ...)
{
    struct cadre_text text = {0};
    va_list ap;
    va_start(ap, format);
    cadre_text_vprintf(&text, format, ap);
    va_end(ap);
    table->failed = table->failed || text.failed;
    cadre_text_table_add(table, cadre_text_str(&text));
    cadre_text_fini(&text);
}

void cadre_text_table_add_row(struct cadre_text_table *table, const char *const *text)
{
    for (size_t k = 0; k < table->columns; k++)
        cadre_text_table_add(table, text[k]);
}

void cadre_text_table_fini(struct cadre_text_table *table)
{
    for (size_t i = 0; i < table->n; i++)
        free(table->cell[i]);
    free(table->cell);
    table->cell = NULL;
    table->n = table->room = 0;
}

/* Characters, not bytes, are what a terminal aligns. */
static int width_of(const char *text)
{
    int width = 0;
    for (size_t left = strlen(text); left > 0; width++) {
        size_t n = cadre_utf8_char(text, left);
        n = n > 0 ? n : 1;
        text += n;
        left -= n;
    }
    return width;
}

static int total_of(const int *width, size_t columns)
{
    int total = -GAP;
    for (size_t k = 0; k < columns; k++)
        total += width[k] ? width[k] + GAP : 0;
    return total;
}

/* A width of 0 is a column that is left out. */
static void find_widths(const struct cadre_text_table *table, int screen, int *width)
{
    for (size_t i = 0; i < table->n; i++) {
        int w = width_of(table->cell[i]);
        int *of = &width[i % table->columns];
        *of = w > *of ? w : *of;
    }
    for (size_t k = 0; k < table->n_spare && !table->wraps; k++)
        if (total_of(width, table->columns) > screen)
            width[table->spare[k]] = 0;
}

static void put_row(const struct cadre_text_table *table, char *const *cell,
                    const int *width, struct cadre_text *out)
{
    const char *gap = "";
    for (size_t k = 0; k < table->columns; k++) {
        const int pad = width[k] - width_of(cell[k]);
        const bool left = table->is_text[k];
        if (width[k] == 0)
            continue;
        cadre_text_printf(out, "%s%*s%s%*s", gap, left ? 0 : pad, "", cell[k],
                          left ? pad : 0, "");
        gap = "  ";
    }
    while (out->len > 0 && out->data[out->len - 1] == ' ')
        out->data[--out->len] = '\0';
    cadre_text_append(out, "\n", 1);
}

static void put_rows(const struct cadre_text_table *table, const int *width,
                     struct cadre_text *out)
{
    for (size_t i = 0; i + table->columns <= table->n; i += table->columns) {
        put_row(table, &table->cell[i], width, out);
        for (int k = 0; i == 0 && table->rule && k < total_of(width, table->columns);
             k++)
            cadre_text_append(out, "-", 1);
        if (i == 0 && table->rule)
            cadre_text_append(out, "\n", 1);
    }
}

/* As many columns as fit, at least one beside the first, then the next ones. */
static void put_wrapped(const struct cadre_text_table *table, int screen,
                        const int *width, int *shown, struct cadre_text *out)
{
    for (size_t from = 1, to; from < table->columns; from = to) {
        memset(shown, 0, table->columns * sizeof *shown);
        shown[0] = width[0];
        to = from;
        do {
            shown[to] = width[to];
            to++;
        } while (to < table->columns &&
                 total_of(shown, table->columns) + GAP + width[to] <= screen);
        if (from > 1)
            cadre_text_append(out, "\n", 1);
        put_rows(table, shown, out);
    }
}

void cadre_text_table_print(const struct cadre_text_table *table, int screen,
                            struct cadre_text *out, struct cadre_text *left_out)
{
    int *width = cadre_calloc(2 * table->columns, sizeof *width);
    out->failed = out->failed || table->failed || !width;
    if (!width || table->failed) {
        free(width);
        return;
    }
    find_widths(table, screen, width);
    if (table->wraps && table->columns > 1 && total_of(width, table->columns) > screen)
        put_wrapped(table, screen, width, width + table->columns, out);
    else
        put_rows(table, width, out);
    for (size_t k = 0; k < table->columns; k++)
        if (width[k] == 0 && table->n > 0)
            cadre_text_printf(left_out, "%s%s", left_out->len ? ", " : "",
                              table->cell[k]);
    free(width);
}

bool cadre_text_table_write(const struct cadre_text_table *table, FILE *to)
{
    struct cadre_text out = {0}, left_out = {0};
    const int columns = cadre_terminal_break(fileno(to));
    cadre_text_table_print(table, columns ? columns : INT_MAX, &out, &left_out);
    const bool whole = !out.failed;
    if (whole)
        fputs(cadre_text_str(&out), to);
    cadre_text_fini(&out);
    cadre_text_fini(&left_out);
    return whole;
}
