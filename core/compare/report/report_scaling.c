/* SPDX-License-Identifier: Apache-2.0 */
/* The part of report.html about runs on different numbers of ranks. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "core/compare/report/figure.h"
#include "core/compare/report/report_private.h"
#include "core/page/chart.h"

enum { GROUP = 64 };

/* Runs of one strategy on more and more ranks are a curve: "ddp:2" and "ddp:4". */
static void name_group(const char *strategy, char group[GROUP])
{
    size_t n = 0;
    for (; *strategy && n + 1 < GROUP; strategy++)
        if (!isdigit((unsigned char)*strategy))
            group[n++] = *strategy;
    group[n] = 0;
}

static bool scales(const struct cadre_comparison *c, size_t i)
{
    const struct cadre_compared_run *run = &c->run[i];
    return !*run->failure && run->fair && !*run->implausible && !run->instances &&
           isfinite(run->speed.speedup.value);
}

static bool differ_in_ranks(const struct cadre_comparison *c)
{
    bool differ = false;
    for (size_t i = 0; i < c->n; i++)
        differ =
            differ || (scales(c, i) && c->run[i].ranks != c->run[c->baseline].ranks);
    return differ && scales(c, c->baseline) && !c->whole;
}

void cadre_report_scaling(const struct cadre_comparison *c, struct cadre_text *out)
{
    if (!differ_in_ranks(c))
        return;
    struct cadre_chart_scaling_point *point = cadre_calloc(c->n, sizeof *point);
    char(*group)[GROUP] = cadre_calloc(c->n, sizeof *group);
    for (size_t i = 0; point && group && i < c->n; i++) {
        const struct cadre_compared_run *run = &c->run[i];
        const struct cadre_interval *speedup = &run->speed.speedup;
        bool has = cadre_figure_is_interval(speedup);
        name_group(run->strategy, group[i]);
        point[i] = (struct cadre_chart_scaling_point){
            .name = run->name,
            .x = run->ranks,
            .y = scales(c, i) ? speedup->value : (double)NAN,
            .low = has ? speedup->low : (double)NAN,
            .high = has ? speedup->high : (double)NAN,
            .group = group[i],
        };
    }
    const struct cadre_chart_scaling chart = {
        .title = "Speedup over ranks",
        .x_label = "ranks",
        .y_label = "speedup",
        .ideal = "ideal",
        .unit = c->run[c->baseline].ranks,
        .point = point,
        .n = c->n,
    };
    if (point && group)
        cadre_chart_scaling(out, &chart);
    out->failed = out->failed || !point || !group;
    free(point);
    free(group);
}
