/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/report/figure.h"

#include <math.h>
#include <stdio.h>

#include "core/run/format.h"

bool cadre_figure_is_interval(const struct cadre_interval *figure)
{
    return isfinite(figure->low) && isfinite(figure->high) &&
           figure->low <= figure->value && figure->value <= figure->high;
}

struct cadre_interval cadre_figure_inverse(const struct cadre_interval *figure)
{
    return (struct cadre_interval){1 / figure->value, 1 / figure->high,
                                   1 / figure->low};
}

static double width_of(const struct cadre_interval *figure)
{
    return cadre_figure_is_interval(figure) ? figure->high - figure->low : INFINITY;
}

static int ratio_digits(const struct cadre_interval *figure)
{
    return width_of(figure) < 0.02 ? 3 : 2;
}

static int percent_digits(const struct cadre_interval *figure)
{
    return width_of(figure) < 0.02 ? 1 : 0;
}

const char *cadre_figure_ratio(const struct cadre_interval *figure, char *out,
                               size_t size)
{
    int digits = ratio_digits(figure);
    if (!isfinite(figure->value))
        snprintf(out, size, "-");
    else if (figure->low == figure->high)
        snprintf(out, size, "%.2f", figure->value); /* the baseline's 1 */
    else if (cadre_figure_is_interval(figure))
        snprintf(out, size, "%.*f [%.*f, %.*f]", digits, figure->value, digits,
                 figure->low, digits, figure->high);
    else
        snprintf(out, size, "%.*f", digits, figure->value);
    return out;
}

const char *cadre_figure_percent(const struct cadre_interval *figure, char *out,
                                 size_t size)
{
    int digits = percent_digits(figure);
    if (!isfinite(figure->value))
        snprintf(out, size, "-");
    else if (figure->low == figure->high)
        snprintf(out, size, "%.0f %%", 100 * figure->value);
    else if (cadre_figure_is_interval(figure))
        snprintf(out, size, "%.*f %% [%.*f, %.*f]", digits, 100 * figure->value, digits,
                 100 * figure->low, digits, 100 * figure->high);
    else
        snprintf(out, size, "%.*f %%", digits, 100 * figure->value);
    return out;
}

const char *cadre_figure_seconds(const struct cadre_interval *figure, char *out,
                                 size_t size)
{
    char value[24], low[24], high[24];
    cadre_format_seconds(figure->value, value, sizeof value);
    if (figure->low < figure->high && cadre_figure_is_interval(figure))
        snprintf(out, size, "%s [%s, %s]", value,
                 cadre_format_seconds(figure->low, low, sizeof low),
                 cadre_format_seconds(figure->high, high, sizeof high));
    else
        snprintf(out, size, "%s", value);
    return out;
}

const char *cadre_figure_share(double share, char *out, size_t size)
{
    if (!isfinite(share))
        snprintf(out, size, "-");
    else if (fabs(share) < 0.995)
        snprintf(out, size, "%.2g %%", 100 * share);
    else
        snprintf(out, size, "%.0f %%", 100 * share);
    return out;
}

const char *cadre_figure_ratio_range(const struct cadre_interval *figure, char *out,
                                     size_t size)
{
    int digits = ratio_digits(figure);
    out[0] = 0;
    if (cadre_figure_is_interval(figure))
        snprintf(out, size, "%.*f to %.*f", digits, figure->low, digits, figure->high);
    return out;
}

const char *cadre_figure_percent_range(const struct cadre_interval *figure, char *out,
                                       size_t size)
{
    out[0] = 0;
    if (cadre_figure_is_interval(figure))
        snprintf(out, size, "%.1f %% to %.1f %%", 100 * figure->low,
                 100 * figure->high);
    return out;
}
