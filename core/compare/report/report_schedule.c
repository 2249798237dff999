/* SPDX-License-Identifier: Apache-2.0 */
/* The part of report.html about runs with a schedule. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/compare/report/report.h"
#include "core/compare/report/schedule_chart.h"
#include "core/page/chart.h"
#include "core/page/page.h"

static void put_row(struct cadre_text *out, const struct cadre_compared_run *run)
{
    char text[32];
    cadre_page_row_begin(out, run->name);
    cadre_page_cell(out, "l", run->strategy);
    snprintf(text, sizeof text, "%zu", run->schedule.n);
    cadre_page_cell(out, "", text);
    snprintf(text, sizeof text, "%.1f %%",
             100 * cadre_record_number(&run->record, "bubble_fraction"));
    cadre_page_cell(out, "", text);
    snprintf(text, sizeof text, "%.1f %%", 100 * run->bubble_replayed);
    cadre_page_cell(out, "", text);
    snprintf(text, sizeof text, "%.1f %%", 100 * run->step_bubble);
    cadre_page_cell(out, "", text);
    snprintf(text, sizeof text, "%.1f %%", 100 * run->step_replayed);
    cadre_page_cell(out, "", text);
    cadre_page_cell(out, run->fair ? "l" : "l bad",
                    run->fair ? "yes" : "no: ranks share cores");
    cadre_page_row_end(out);
}

static void put_table(struct cadre_text *out, const struct cadre_comparison *c)
{
    static const struct cadre_page_column head[] = {
        {"run", true},          {"strategy", true},  {"stages", false},
        {"bubble", false},      {"replayed", false}, {"drawn step", false},
        {"it replayed", false}, {"fair", true}};
    cadre_text_printf(out, "<h2>Schedules</h2>\n");
    cadre_page_paragraph(
        out, "soft",
        "Bubble: idle time over the span from the first pass of a step to the last, "
        "mean of the ranks. Replayed: the same order of passes with the median time of "
        "each kind and chunk, and transfers of no duration. Drawn is the fastest step "
        "after warm-up, numbered by micro-batch; later chunks of a rank are paler, and "
        "what is empty is bubble. Its replay gives each pass the time that it took "
        "there: what the step idles beyond that are transfers and delays.");
    cadre_page_table_begin(out, "Bubbles of the runs with a schedule", head,
                           sizeof head / sizeof head[0]);
    for (size_t i = 0; i < c->n; i++)
        if (c->run[i].schedule.n > 0)
            put_row(out, &c->run[i]);
    cadre_page_table_end(out);
}

static void put_chart(struct cadre_text *out, const struct cadre_compared_run *run)
{
    const struct cadre_replay *schedule = &run->schedule;
    char *title = cadre_format("%s: step %" PRId64 ", bubble %.1f %%", run->name,
                               schedule->step, 100 * cadre_replay_measured(schedule));
    if (title)
        cadre_schedule_chart(out, title, schedule);
    else
        out->failed = true;
    free(title);
}

void cadre_report_schedules(const struct cadre_comparison *c, struct cadre_text *out)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        n += c->run[i].schedule.n > 0;
    if (n == 0)
        return;
    put_table(out, c);
    for (size_t i = 0; i < c->n; i++) {
        const struct cadre_compared_run *run = &c->run[i];
        size_t passes = cadre_schedule_passes(&run->schedule);
        if (passes > CADRE_SCHEDULE_BOXES) {
            cadre_text_printf(out, "<p class=\"soft\">");
            cadre_chart_text(out, run->name);
            cadre_text_printf(out, ": %zu passes a step, too many to draw.</p>\n",
                              passes);
        } else if (run->schedule.n > 0) {
            put_chart(out, run);
        }
    }
}
