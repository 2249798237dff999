/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a step went, of every run: report.json's `step_parts` and the
 * stacked bars of report.html. */
#include <jansson.h>
#include <stdlib.h>

#include "core/compare/report/report_private.h"
#include "core/page/page.h"
#include "core/report/where_charts.h"

const char *cadre_report_parts(const struct cadre_comparison *c, size_t i,
                               struct cadre_step_parts *parts)
{
    const struct cadre_compared_run *run = &c->run[i];
    *parts = (struct cadre_step_parts){0};
    if (*run->failure)
        return "it failed";
    if (run->instances)
        return "its pieces are of several trainings";
    if (run->to_target)
        return "it is timed to a loss";
    if (!cadre_report_is_timed(c) || run->n_parts == 0)
        return "no piece of it was timed";
    cadre_step_parts_median(run->parts, run->n_parts, cadre_report_step_s(run), parts);
    return parts->known ? NULL : "its device queues work, whose end is not seen";
}

void cadre_report_parts_json(struct cadre_json *json, const struct cadre_comparison *c,
                             size_t i)
{
    struct cadre_step_parts parts;
    const char *unknown = cadre_report_parts(c, i, &parts);
    cadre_json_key(json, "step_parts");
    cadre_step_parts_put(json, &parts, cadre_report_step_s(&c->run[i]));
    cadre_json_put_string(json, "step_parts_unknown", unknown);
}

/* ---- the page ---- */

static void fill_rows(const struct cadre_comparison *c, struct cadre_where_run *row)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct cadre_compared_run *run = &c->run[i];
        row[i] = (struct cadre_where_run){
            .name = run->name,
            .step_s = cadre_report_step_s(run),
            .memory = json_object_get(run->record.summary, "memory"),
            .peak_bytes = cadre_record_largest(&run->record, "peak_bytes"),
        };
        cadre_report_parts(c, i, &row[i].parts);
    }
}

void cadre_report_where_it_went(const struct cadre_comparison *c,
                                struct cadre_text *out)
{
    struct cadre_text charts = {0};
    struct cadre_where_run *row = cadre_calloc(c->n, sizeof *row);
    if (!row) {
        out->failed = true;
        return;
    }
    fill_rows(c, row);
    const bool step = cadre_where_step(&charts, row, c->n);
    const bool memory = cadre_where_memory(&charts, row, c->n);
    out->failed = out->failed || charts.failed;
    if (step || memory) {
        cadre_text_printf(out, "<h2>Where time and memory went</h2>\n");
        cadre_page_paragraph(
            out, "soft",
            step ? "A step of the timed pieces, mean of the ranks, medians over the "
                   "pieces. Exposed: a rank waits while bytes move, by the axis that "
                   "moves them. Other is what is left of the step."
                 : "No run's time of a step is known by its parts: nothing was timed, "
                   "or on devices that queue their work.");
        cadre_where_excess(out, row, c->n);
        if (memory)
            cadre_page_paragraph(out, "soft",
                                 "Memory is that of the rank that needs most, at its "
                                 "bar's end its peak: kinds that peak at different "
                                 "times have more than that together.");
        cadre_text_printf(out, "<div class=\"charts\">\n");
        cadre_text_append(out, cadre_text_str(&charts), charts.len);
        cadre_text_printf(out, "</div>\n");
    }
    cadre_text_fini(&charts);
    free(row);
}
