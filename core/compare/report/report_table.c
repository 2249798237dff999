/* SPDX-License-Identifier: Apache-2.0 */
/* The table for a terminal: fits 80 columns if names are short. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/compare/report/report.h"
#include "core/run/format.h"

enum { COLUMNS = 8, CELL = 72, SCREEN = 80 };

typedef char row[COLUMNS][CELL];

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
    const struct cadre_compared_run *run = &c->run[i];
    snprintf(cells[0], CELL, "%s%s", run->name, run->fair ? "" : " (unfair)");
    snprintf(cells[1], CELL, "%s", run->strategy);
    cadre_format_seconds(run->step_s, cells[2], CELL);
    cadre_format_count(run->tokens_per_s, cells[3], CELL);
    snprintf(cells[4], CELL, "%.2f", run->speed.speedup.value);
    snprintf(cells[5], CELL, "%.0f %%", 100 * run->efficiency.value);
    cadre_format_seconds(run->speed.overhead_s.value, cells[6], CELL);
    snprintf(cells[7], CELL, "%s",
             i == c->baseline ? "baseline"
             : run->by_design ? "by design"
                              : cadre_equal_name(run->equal));
}

static void put_row(struct cadre_text *out, row cells, const int *width)
{
    for (int k = 0; k < COLUMNS; k++) {
        bool left = k <= 1 || k == COLUMNS - 1;
        int pad = width[k] - width_of(cells[k]);
        if (k == COLUMNS - 1)
            pad = 0;
        cadre_text_printf(out, "%s%*s%s%*s", k ? "  " : "", left ? 0 : pad, "",
                          cells[k], left ? pad : 0, "");
    }
    cadre_text_append(out, "\n", 1);
}

static void put_rule(struct cadre_text *out, const int *width)
{
    int total = 2 * (COLUMNS - 1);
    for (int k = 0; k < COLUMNS; k++)
        total += width[k];
    for (int i = 0; i < total; i++)
        cadre_text_append(out, "-", 1);
    cadre_text_append(out, "\n", 1);
}

static void put_table(struct cadre_text *out, row *rows, size_t n)
{
    int width[COLUMNS] = {0};
    for (size_t i = 0; i < n; i++) {
        for (int k = 0; k < COLUMNS; k++) {
            int w = width_of(rows[i][k]);
            width[k] = w > width[k] ? w : width[k];
        }
    }
    put_row(out, rows[0], width);
    put_rule(out, width);
    for (size_t i = 1; i < n; i++)
        put_row(out, rows[i], width);
}

/* Lines of `text`, broken between words where the screen ends. */
static void put_wrapped(struct cadre_text *out, char *text)
{
    char *rest_of_lines = NULL;
    for (char *line = strtok_r(text, "\n", &rest_of_lines); line;
         line = strtok_r(NULL, "\n", &rest_of_lines)) {
        char *rest = NULL;
        int column = 0;
        for (char *word = strtok_r(line, " ", &rest); word;
             word = strtok_r(NULL, " ", &rest)) {
            int width = width_of(word);
            const char *gap = column == 0                   ? ""
                              : column + 1 + width > SCREEN ? "\n"
                                                            : " ";
            column = *gap == ' ' ? column + 1 + width : width;
            cadre_text_printf(out, "%s%s", gap, word);
        }
        cadre_text_append(out, "\n", 1);
    }
}

void cadre_report_table(const struct cadre_comparison *c, struct cadre_text *out)
{
    static const char *const heads[COLUMNS] = {"run",      "strategy", "time/step",
                                               "tokens/s", "speedup",  "effic.",
                                               "overhead", "equality"};
    row *rows = cadre_calloc(c->n + 1, sizeof *rows);
    if (!rows) {
        out->failed = true;
        return;
    }
    for (int k = 0; k < COLUMNS; k++)
        snprintf(rows[0][k], CELL, "%s", heads[k]);
    for (size_t i = 0; i < c->n; i++)
        fill_row(c, i, rows[i + 1]);
    put_table(out, rows, c->n + 1);
    free(rows);
    struct cadre_text words = {0};
    cadre_text_printf(&words, "%s; %s\n%s\n%s (steps %" PRId64 " to %" PRId64 ")\n",
                      CADRE_FORMULA_SPEEDUP, CADRE_FORMULA_EFFICIENCY,
                      CADRE_FORMULA_OVERHEAD, cadre_report_where(c),
                      cadre_comparison_first_step(c), cadre_comparison_last_step(c));
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
