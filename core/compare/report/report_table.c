/* SPDX-License-Identifier: Apache-2.0 */
/* The table for a terminal: as wide as that, 80 columns elsewhere, if names are short.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/terminal.h"
#include "core/base/utf8.h"
#include "core/compare/report/cells.h"
#include "core/compare/report/report.h"
#include "core/compare/report/report_seeds.h"

enum { COLUMNS = 9 };

typedef char row[COLUMNS][CADRE_FIGURE_CHARS];

static const enum cadre_cell columns[COLUMNS] = {
    CADRE_CELL_RUN,        CADRE_CELL_STRATEGY, CADRE_CELL_TIME,
    CADRE_CELL_TOKENS,     CADRE_CELL_SPEEDUP,  CADRE_CELL_VERDICT,
    CADRE_CELL_EFFICIENCY, CADRE_CELL_OVERHEAD, CADRE_CELL_EQUALITY};

/* What goes first where the screen is too narrow; the other forms have it. */
static const int spare[] = {7, 3, 6, 1, 2};

/* Characters, not bytes, are what a terminal aligns. */
static int width_of(const char *text)
{
    int width = 0;
    size_t left = strlen(text);
    while (left > 0) {
        size_t n = cadre_utf8_char(text, left);
        n = n > 0 ? n : 1;
        text += n;
        left -= n;
        width++;
    }
    return width;
}

static void fill_row(const struct cadre_comparison *c, size_t i, row cells)
{
    struct cadre_cells all;
    cadre_cells_fill(c, i, true, &all);
    for (int k = 0; k < COLUMNS; k++)
        snprintf(cells[k], CADRE_FIGURE_CHARS, "%s", all.of[columns[k]]);
}

/* A width of 0 is a column that is left out. */
static void put_row(struct cadre_text *out, row cells, const int *width)
{
    for (int k = 0; k < COLUMNS; k++) {
        if (width[k] == 0)
            continue;
        bool left = cadre_cells_is_text(columns[k]);
        int pad = k == COLUMNS - 1 ? 0 : width[k] - width_of(cells[k]);
        cadre_text_printf(out, "%s%*s%s%*s", k ? "  " : "", left ? 0 : pad, "",
                          cells[k], left ? pad : 0, "");
    }
    cadre_text_append(out, "\n", 1);
}

static int total_of(const int *width)
{
    int total = -2;
    for (int k = 0; k < COLUMNS; k++)
        total += width[k] ? width[k] + 2 : 0;
    return total;
}

static void put_rule(struct cadre_text *out, const int *width)
{
    for (int i = 0, total = total_of(width); i < total; i++)
        cadre_text_append(out, "-", 1);
    cadre_text_append(out, "\n", 1);
}

/* Columns that do not fit are left out, and named in `words`. */
static void put_table(struct cadre_text *out, row *rows, size_t n,
                      struct cadre_text *words)
{
    const int screen = cadre_terminal_columns(STDOUT_FILENO);
    int width[COLUMNS] = {0};
    for (size_t i = 0; i < n; i++) {
        for (int k = 0; k < COLUMNS; k++) {
            int w = width_of(rows[i][k]);
            width[k] = w > width[k] ? w : width[k];
        }
    }
    for (size_t k = 0; k < sizeof spare / sizeof spare[0]; k++)
        if (total_of(width) > screen)
            width[spare[k]] = 0;
    put_row(out, rows[0], width);
    put_rule(out, width);
    for (size_t i = 1; i < n; i++)
        put_row(out, rows[i], width);
    for (int k = 0, left_out = 0; k < COLUMNS; k++)
        if (width[k] == 0)
            cadre_text_printf(words, "%s%s",
                              left_out++ ? ", " : "Left out for width, see report.md: ",
                              cadre_cells_head(columns[k]));
    if (words->len)
        cadre_text_append(words, ".\n", 2);
}

/* Lines of `text`, broken between words where the screen ends. */
static void put_wrapped(struct cadre_text *out, char *text)
{
    const int screen = cadre_terminal_columns(STDOUT_FILENO);
    char *rest_of_lines = NULL;
    for (char *line = strtok_r(text, "\n", &rest_of_lines); line;
         line = strtok_r(NULL, "\n", &rest_of_lines)) {
        char *rest = NULL;
        int column = 0;
        for (char *word = strtok_r(line, " ", &rest); word;
             word = strtok_r(NULL, " ", &rest)) {
            int width = width_of(word);
            const char *gap = column == 0                   ? ""
                              : column + 1 + width > screen ? "\n"
                                                            : " ";
            column = *gap == ' ' ? column + 1 + width : width;
            cadre_text_printf(out, "%s%s", gap, word);
        }
        cadre_text_append(out, "\n", 1);
    }
}

void cadre_report_table(const struct cadre_comparison *c, struct cadre_text *out)
{
    struct cadre_text words = {0};
    row *rows = cadre_calloc(c->n + 1, sizeof *rows);
    if (!rows) {
        out->failed = true;
        return;
    }
    for (int k = 0; k < COLUMNS; k++)
        snprintf(rows[0][k], CADRE_FIGURE_CHARS, "%s", cadre_cells_head(columns[k]));
    for (size_t i = 0; i < c->n; i++)
        fill_row(c, i, rows[i + 1]);
    put_table(out, rows, c->n + 1, &words);
    free(rows);
    cadre_report_seeds_table(c, out);
    cadre_text_printf(&words, "%s; %s\n%s\n%s", CADRE_FORMULA_SPEEDUP,
                      CADRE_FORMULA_EFFICIENCY, CADRE_FORMULA_OVERHEAD,
                      cadre_report_where(c));
    if (!cadre_report_is_timed(c))
        cadre_text_printf(&words, " (steps %" PRId64 " to %" PRId64 ")",
                          cadre_comparison_first_step(c),
                          cadre_comparison_last_step(c));
    cadre_text_printf(&words, "\n");
    cadre_report_notes(c, &words);
    cadre_text_append(out, "\n", 1);
    if (words.data)
        put_wrapped(out, words.data);
    cadre_text_fini(&words);
    cadre_report_sentences(c, &words);
    cadre_text_append(out, "\n", 1);
    if (words.data)
        put_wrapped(out, words.data);
    out->failed = out->failed || words.failed;
    cadre_text_fini(&words);
}
