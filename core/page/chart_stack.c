/* SPDX-License-Identifier: Apache-2.0 */
/* Stacked bars. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/page/chart_private.h"

enum {
    BAR_LEFT = 136, /* room for names */
    BAR_RIGHT = 92, /* room for totals */
    ROW = 34,
    BAR = 22,
    LONG = 16, /* characters of a name, with which three stand in a row of the legend */
    LEGEND_ROW = 20,
    SHARE_ROOM = 30, /* a share in per cent fits */
};

/* "bar s0", "bar s1 again", "bar grey" */
static void put_class(struct cadre_text *out, int style)
{
    if (style < 0)
        cadre_text_printf(out, "bar %s", style == CADRE_CHART_GREY ? "grey" : "hollow");
    else
        cadre_text_printf(out, "bar s%d%s", style % STYLES,
                          cadre_chart_again((size_t)style));
}

/* Is the filling so pale that ink stands on it? */
static bool is_open(int style)
{
    return style == CADRE_CHART_HOLLOW || style >= STYLES;
}

static double total_of(const struct cadre_chart_stack *chart, size_t row)
{
    double total = 0;
    for (size_t k = 0; chart->row[row].value && k < chart->n_kinds; k++)
        total += fmax(chart->row[row].value[k], 0);
    return total;
}

static bool is_used(const struct cadre_chart_stack *chart, size_t kind)
{
    for (size_t i = 0; i < chart->n; i++)
        if (chart->row[i].value && chart->row[i].value[kind] > 0)
            return true;
    return false;
}

/* x and width of a part, and the whole row, in the picture's units. */
struct place {
    double x, width;
    int y;
    double share;
};

static void put_part(struct cadre_text *out, const struct cadre_chart_stack *chart,
                     size_t row, size_t k, const struct place *at)
{
    char text[64];
    const struct cadre_chart_kind *kind = &chart->kind[k];
    cadre_text_printf(out, "<g><title>");
    cadre_chart_text(out, chart->row[row].name);
    cadre_text_printf(out, ", ");
    cadre_chart_text(out, kind->name);
    cadre_text_printf(out, ": %s, %.1f %%</title><rect class=\"",
                      chart->format(chart->row[row].value[k], text, sizeof text),
                      100 * at->share);
    put_class(out, kind->style);
    cadre_text_printf(out, "\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"/>",
                      at->x, at->y, fmax(at->width - 0.5, 0.3), BAR);
    if (at->width >= SHARE_ROOM)
        cadre_text_printf(out,
                          "<text class=\"box%s\" text-anchor=\"middle\" x=\"%.1f\" "
                          "y=\"%d\">%.0f %%</text>",
                          is_open(kind->style) ? " open" : "", at->x + at->width / 2,
                          at->y + 15, 100 * at->share);
    cadre_text_printf(out, "</g>\n");
}

static void put_row(struct cadre_text *out, const struct cadre_chart_stack *chart,
                    size_t row, double scale)
{
    const struct cadre_chart_stack_row *it = &chart->row[row];
    const double total = total_of(chart, row);
    struct place at = {.x = BAR_LEFT, .y = TOP + (int)row * ROW};
    cadre_text_printf(out, "<text text-anchor=\"end\" x=\"%d\" y=\"%d\">",
                      BAR_LEFT - 10, at.y + 16);
    cadre_chart_put_text(out, it->name, NAME_CHARS);
    cadre_text_printf(out, "</text>\n");
    for (size_t k = 0; it->value && k < chart->n_kinds; k++) {
        at.width = fmax(it->value[k], 0) * scale;
        at.share = total > 0 ? it->value[k] / total : 0;
        if (at.width > 0)
            put_part(out, chart, row, k, &at);
        at.x += at.width;
    }
    cadre_text_printf(out, "<text%s x=\"%.1f\" y=\"%d\">",
                      it->value ? "" : " class=\"tick\"", at.x + 8, at.y + 16);
    cadre_chart_text(out, it->label);
    cadre_text_printf(out, "</text>\n");
}

/* Returns the number of rows of the legend, which is only counted without `out`. */
static int put_legend(struct cadre_text *out, const struct cadre_chart_stack *chart,
                      int top)
{
    int shown = 0, columns = 3;
    for (size_t k = 0; k < chart->n_kinds; k++)
        if (is_used(chart, k) && strlen(chart->kind[k].name) > LONG)
            columns = 2;
    for (size_t k = 0; k < chart->n_kinds; k++) {
        if (!is_used(chart, k))
            continue;
        int x = shown % columns * (WIDTH / columns);
        int y = top + shown / columns * LEGEND_ROW;
        shown++;
        if (!out)
            continue;
        cadre_text_printf(out, "<g><rect class=\"");
        put_class(out, chart->kind[k].style);
        cadre_text_printf(out,
                          "\" x=\"%d\" y=\"%d\" width=\"12\" height=\"12\"/>"
                          "<text x=\"%d\" y=\"%d\">",
                          x + 1, y, x + 19, y + 11);
        cadre_chart_put_text(out, chart->kind[k].name, 2 * LONG - 2);
        cadre_text_printf(out, "</text><title>");
        cadre_chart_text(out, chart->kind[k].name);
        cadre_text_printf(out, "</title></g>\n");
    }
    return (shown + columns - 1) / columns;
}

/* The bars in words. */
static void describe(const struct cadre_chart_stack *chart, struct cadre_text *desc)
{
    char text[64];
    for (size_t i = 0; i < chart->n; i++) {
        const struct cadre_chart_stack_row *row = &chart->row[i];
        cadre_text_printf(desc, "%s%s: %s", i ? "; " : "", row->name, row->label);
        for (size_t k = 0; row->value && k < chart->n_kinds; k++)
            if (row->value[k] > 0)
                cadre_text_printf(desc, ", %s %s", chart->kind[k].name,
                                  chart->format(row->value[k], text, sizeof text));
    }
}

void cadre_chart_stack(struct cadre_text *out, const struct cadre_chart_stack *chart)
{
    struct cadre_text desc = {0};
    double most = 0;
    for (size_t i = 0; i < chart->n; i++)
        most = fmax(most, total_of(chart, i));
    int bottom = TOP + (int)chart->n * ROW;
    const int size[] = {WIDTH, bottom + 10 + put_legend(NULL, chart, 0) * LEGEND_ROW};
    describe(chart, &desc);
    cadre_chart_begin(out, chart->title, &desc, size, "chart");
    for (size_t i = 0; i < chart->n; i++)
        put_row(out, chart, i, most > 0 ? (WIDTH - BAR_LEFT - BAR_RIGHT) / most : 0);
    cadre_text_printf(out, "<path class=\"axis\" d=\"M%d %dV%d\"/>\n", BAR_LEFT,
                      TOP - 6, bottom - 4);
    put_legend(out, chart, bottom + 6);
    cadre_chart_end(out);
}
