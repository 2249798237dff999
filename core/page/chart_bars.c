/* SPDX-License-Identifier: Apache-2.0 */
/* Horizontal bars with intervals. */
#include <math.h>
#include <string.h>

#include "core/page/chart_private.h"

enum {
    BAR_LEFT = 136, /* room for names */
    BAR_RIGHT = 165, /* room for values */
    LABEL_CHAR = 7, /* width of a character of a label */
    ROW = 30,
};

static void put_mark(struct cadre_text *out, double x, int y)
{
    cadre_text_printf(out, "<path class=\"mark\" d=\"M%.1f %dv%d\"/>\n", x, y - 3,
                      ROW - 4);
}

static bool has_interval(const struct cadre_chart_bar *bar)
{
    return isfinite(bar->low) && isfinite(bar->high) && bar->high > bar->low;
}

/* From low to high, with a stroke at both ends, on a halo that parts it from the bar.
 */
static void put_whisker(struct cadre_text *out, const struct cadre_chart_bar *bar,
                        double scale, int y)
{
    double low = BAR_LEFT + fmax(bar->low, 0) * scale;
    double high = BAR_LEFT + fmax(bar->high, 0) * scale;
    int middle = y + (ROW - 10) / 2;
    static const char *const classes[] = {"whisker halo", "whisker"};
    for (size_t k = 0; k < 2; k++)
        cadre_text_printf(out,
                          "<path class=\"%s\" d=\"M%.1f %dH%.1fM%.1f %dv10M%.1f "
                          "%dv10\"/>\n",
                          classes[k], low, middle, high, low, middle - 5, high,
                          middle - 5);
}

static void put_bar(struct cadre_text *out, const struct cadre_chart_bar *bar, size_t i,
                    double scale, int y)
{
    double width = isfinite(bar->value) ? fmax(bar->value, 0) * scale : 0;
    double end = has_interval(bar) ? fmax(width, bar->high * scale) : width;
    double mark = bar->mark * scale;
    double label = LABEL_CHAR * (double)strlen(bar->label) + 16;
    if (mark >= end && mark < end + label)
        end = mark; /* the label would lie under the tick */
    cadre_text_printf(out, "<g><text text-anchor=\"end\" x=\"%d\" y=\"%d\">",
                      BAR_LEFT - 10, y + 15);
    cadre_chart_put_text(out, bar->name, NAME_CHARS);
    cadre_text_printf(
        out,
        "</text><rect class=\"bar s%zu%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" "
        "height=\"%d\"/><text x=\"%.1f\" y=\"%d\">",
        i % STYLES, cadre_chart_again(i), BAR_LEFT, y, width, ROW - 10,
        BAR_LEFT + end + 8, y + 15);
    cadre_chart_text(out, bar->label);
    cadre_text_printf(out, "</text><title>");
    cadre_chart_text(out, bar->name);
    cadre_text_printf(out, ": ");
    cadre_chart_text(out, bar->label);
    cadre_text_printf(out, "</title></g>\n");
    if (has_interval(bar))
        put_whisker(out, bar, scale, y);
    if (isfinite(bar->mark))
        put_mark(out, BAR_LEFT + bar->mark * scale, y);
}

static double largest(const struct cadre_chart_bars *chart)
{
    double most = chart->band ? chart->band_high : 0;
    for (size_t i = 0; i < chart->n; i++) {
        const struct cadre_chart_bar *bar = &chart->bar[i];
        const double values[] = {bar->value, bar->mark, bar->high};
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
            if (isfinite(values[k]))
                most = fmax(most, values[k]);
    }
    return most;
}

static void put_key(struct cadre_text *out, const char *text, int y)
{
    cadre_text_printf(out, "<text class=\"tick\" x=\"%d\" y=\"%d\">", BAR_LEFT + 16,
                      y + 15);
    cadre_chart_text(out, text);
    cadre_text_printf(out, "</text>\n");
}

/* The values that the marks and the band stand for. */
static void put_keys(struct cadre_text *out, const struct cadre_chart_bars *chart,
                     int y)
{
    if (chart->mark) {
        put_mark(out, BAR_LEFT + 6, y + 2);
        put_key(out, chart->mark, y + 2);
        y += ROW - 6;
    }
    if (chart->band) {
        cadre_text_printf(out,
                          "<rect class=\"band\" x=\"%d\" y=\"%d\" width=\"12\" "
                          "height=\"14\"/>\n",
                          BAR_LEFT, y + 4);
        put_key(out, chart->band, y + 2);
    }
}

void cadre_chart_bars(struct cadre_text *out, const struct cadre_chart_bars *chart)
{
    int bottom = TOP + (int)chart->n * ROW;
    int keys = (chart->mark != NULL) + (chart->band != NULL);
    double most = largest(chart);
    double scale = most > 0 ? (WIDTH - BAR_LEFT - BAR_RIGHT) / most : 0;
    const int size[] = {WIDTH, bottom + 6 + keys * (ROW - 6)};
    struct cadre_text desc = {0};
    for (size_t i = 0; i < chart->n; i++)
        cadre_text_printf(&desc, "%s%s: %s", i ? "; " : "", chart->bar[i].name,
                          chart->bar[i].label);
    cadre_chart_begin(out, chart->title, &desc, size, "chart");
    if (chart->band)
        cadre_text_printf(out,
                          "<rect class=\"band\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
                          "height=\"%d\"/>\n",
                          BAR_LEFT + chart->band_low * scale, TOP - 6,
                          fmax((chart->band_high - chart->band_low) * scale, 1),
                          bottom - TOP + 6);
    for (size_t i = 0; i < chart->n; i++)
        put_bar(out, &chart->bar[i], i, scale, TOP + (int)i * ROW);
    cadre_text_printf(out, "<path class=\"axis\" d=\"M%d %dV%d\"/>\n", BAR_LEFT,
                      TOP - 6, bottom);
    put_keys(out, chart, bottom);
    cadre_chart_end(out);
}
