/* SPDX-License-Identifier: Apache-2.0 */
/* report.md: GitHub Flavored Markdown, for issues and papers' repositories. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "core/compare/report/cells.h"
#include "core/compare/report/report.h"
#include "core/compare/report/report_seeds.h"
#include "core/compare/report/sentences.h"
#include "core/page/escape.h"

static void put_row(struct cadre_text *out, const struct cadre_comparison *c, size_t i)
{
    struct cadre_cells cells;
    cadre_cells_fill(c, i, false, &cells);
    cadre_text_append(out, "|", 1);
    for (int k = 0; k < CADRE_CELLS; k++) {
        if (cadre_cells_is_empty(c, (enum cadre_cell)k))
            continue;
        cadre_text_append(out, " ", 1);
        cadre_escape_markdown(out, cells.of[k]);
        cadre_text_append(out, " |", 2);
    }
    cadre_text_append(out, "\n", 1);
}

static void put_table(struct cadre_text *out, const struct cadre_comparison *c)
{
    cadre_text_append(out, "|", 1);
    for (int k = 0; k < CADRE_CELLS; k++)
        if (!cadre_cells_is_empty(c, (enum cadre_cell)k))
            cadre_text_printf(out, " %s |", cadre_cells_head((enum cadre_cell)k));
    cadre_text_append(out, "\n|", 2);
    for (int k = 0; k < CADRE_CELLS; k++)
        if (!cadre_cells_is_empty(c, (enum cadre_cell)k))
            cadre_text_printf(out, "%s",
                              cadre_cells_is_text((enum cadre_cell)k) ? " --- |"
                                                                      : " ---: |");
    cadre_text_append(out, "\n", 1);
    for (size_t i = 0; i < c->n; i++)
        put_row(out, c, i);
}

/* Lines of `text` as a list. */
static void put_list(struct cadre_text *out, char *text)
{
    char *rest = NULL;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        cadre_text_printf(out, "- ");
        cadre_escape_markdown(out, line);
        cadre_text_append(out, "\n", 1);
    }
}

void cadre_report_markdown(const struct cadre_comparison *c, struct cadre_text *out)
{
    struct cadre_text words = {0};
    char date[32];
    cadre_text_printf(out, "# Comparison: ");
    cadre_escape_markdown(out, c->title);
    cadre_text_printf(out, "\n\n%s, " PACKAGE_STRING "\n\n",
                      cadre_report_date(date, sizeof date));
    cadre_escape_markdown_code(out, c->command);
    cadre_text_printf(out, "## Conclusions\n\n");
    cadre_report_sentences(c, &words);
    put_list(out, words.data);
    out->failed = out->failed || words.failed;
    cadre_text_fini(&words);
    cadre_text_printf(out, "\n## Figures\n\n");
    put_table(out, c);
    cadre_report_seeds_markdown(c, out);
    cadre_text_printf(
        out, "\n%s; %s; %s. %s. Equality is judged over steps 1 to %" PRId64 ".\n",
        CADRE_FORMULA_SPEEDUP, CADRE_FORMULA_EFFICIENCY, CADRE_FORMULA_OVERHEAD,
        cadre_report_where(c), c->judged_steps);
    cadre_text_printf(out, "\n## Notes\n\n");
    words = (struct cadre_text){0};
    cadre_report_notes(c, &words);
    put_list(out, words.data);
    out->failed = out->failed || words.failed;
    cadre_text_fini(&words);
}
