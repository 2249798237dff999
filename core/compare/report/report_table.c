/* SPDX-License-Identifier: Apache-2.0 */
/* The table for a terminal: as wide as that, 80 columns elsewhere, if names are short.
 */
#include <inttypes.h>
#include <unistd.h>

#include "core/base/terminal.h"
#include "core/base/text_table.h"
#include "core/compare/report/cells.h"
#include "core/compare/report/report.h"
#include "core/compare/report/report_seeds.h"

enum { COLUMNS = 9 };

static const enum cadre_cell columns[COLUMNS] = {
    CADRE_CELL_RUN,        CADRE_CELL_STRATEGY, CADRE_CELL_TIME,
    CADRE_CELL_TOKENS,     CADRE_CELL_SPEEDUP,  CADRE_CELL_VERDICT,
    CADRE_CELL_EFFICIENCY, CADRE_CELL_OVERHEAD, CADRE_CELL_EQUALITY};

/* What goes first where the screen is too narrow; the other forms have it. */
static const size_t spare[] = {7, 3, 6, 1, 2};

static void put_table(const struct cadre_comparison *c, int screen,
                      struct cadre_text *out, struct cadre_text *words)
{
    bool is_text[COLUMNS];
    struct cadre_cells cells;
    struct cadre_text left_out = {0};
    struct cadre_text_table table = {.columns = COLUMNS,
                                     .is_text = is_text,
                                     .spare = spare,
                                     .n_spare = sizeof spare / sizeof spare[0],
                                     .rule = true};
    for (int k = 0; k < COLUMNS; k++) {
        is_text[k] = cadre_cells_is_text(columns[k]);
        cadre_text_table_add(&table, cadre_cells_head(columns[k]));
    }
    for (size_t i = 0; i < c->n; i++) {
        cadre_cells_fill(c, i, true, &cells);
        for (int k = 0; k < COLUMNS; k++)
            cadre_text_table_add(&table, cells.of[columns[k]]);
    }
    cadre_text_table_print(&table, screen, out, &left_out);
    static const enum cadre_cell extra[] = {CADRE_CELL_JOULES, CADRE_CELL_MFU,
                                            CADRE_CELL_PRICE};
    for (size_t k = 0; k < sizeof extra / sizeof extra[0]; k++)
        if (!cadre_cells_is_empty(c, extra[k]))
            cadre_text_printf(&left_out, "%s%s", left_out.len ? ", " : "",
                              cadre_cells_head(extra[k]));
    if (left_out.len)
        cadre_text_printf(words, "Left out for width, see report.md: %s.\n",
                          cadre_text_str(&left_out));
    out->failed = out->failed || left_out.failed;
    cadre_text_fini(&left_out);
    cadre_text_table_fini(&table);
}

/* A paragraph of the lines in `words`, which it empties. */
static void put_words(struct cadre_text *words, int screen, struct cadre_text *out)
{
    if (words->len)
        words->data[--words->len] = '\0'; /* the last line is ended like the others */
    cadre_text_append(out, "\n", 1);
    cadre_terminal_wrap(out, "", 0, cadre_text_str(words), screen);
    out->failed = out->failed || words->failed;
    cadre_text_fini(words);
}

void cadre_report_table(const struct cadre_comparison *c, struct cadre_text *out)
{
    const int screen = cadre_terminal_columns(STDOUT_FILENO);
    struct cadre_text words = {0};
    put_table(c, screen, out, &words);
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
    put_words(&words, screen, out);
    cadre_report_sentences(c, &words);
    put_words(&words, screen, out);
}
