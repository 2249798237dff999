/* SPDX-License-Identifier: Apache-2.0 */
/* Part of report.html: sweeps, runs that consist of independent runs. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "core/compare/report/report.h"
#include "core/page/page.h"
#include "core/run/format.h"

static void put_loss(struct cadre_text *out, const struct cadre_record *record,
                     const char *key)
{
    char text[32];
    double loss = cadre_record_number(record, key);
    snprintf(text, sizeof text, "%.4f", loss);
    cadre_page_cell(out, "", isfinite(loss) ? text : "-");
}

/* "optim.lr = 1e-3, optim.beta2 = 0.95" */
static void put_options(struct cadre_text *out, const json_t *one)
{
    struct cadre_text text = {0};
    json_t *options = json_object_get(one, "options"), *value;
    const char *key;
    json_object_foreach(options, key, value)
    {
        cadre_text_printf(&text, "%s%s = %s", text.len ? ", " : "", key,
                          json_string_value(value));
    }
    cadre_page_cell(out, "l w", text.len ? cadre_text_str(&text) : "the same");
    cadre_text_fini(&text);
}

static void put_instance(struct cadre_text *out, const struct cadre_compared_run *run,
                         size_t k)
{
    const struct cadre_record *record = &run->record.instance[k];
    const json_t *list = json_object_get(run->record.summary, "instances");
    char text[96];
    cadre_page_row_begin(out, run->name);
    snprintf(text, sizeof text, "%zu%s", k, k == run->record.best ? " (best)" : "");
    cadre_page_cell(out, "l", text);
    put_options(out, json_array_get(list, k));
    put_loss(out, record, "loss_last");
    put_loss(out, record, "valid_loss");
    cadre_page_cell(out, "",
                    cadre_format_count(cadre_record_number(record, "tokens_per_s"),
                                       text, sizeof text));
    cadre_page_cell(out, "",
                    cadre_format_bytes(cadre_record_largest(record, "peak_bytes"), text,
                                       sizeof text));
    cadre_page_row_end(out);
}

void cadre_report_instances(const struct cadre_comparison *c, struct cadre_text *out)
{
    if (!cadre_comparison_has_instances(c))
        return;
    static const struct cadre_page_column head[] = {
        {"run", true},         {"instance", true},         {"options", true},
        {"last loss", false},  {"validation loss", false}, {"tokens/s", false},
        {"peak memory", false}};
    cadre_text_printf(out, "<h2>Instances</h2>\n");
    cadre_page_table_begin(out, "Each of the independent runs", head,
                           sizeof head / sizeof head[0]);
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < c->run[i].record.n_instances; k++)
            put_instance(out, &c->run[i], k);
    cadre_page_table_end(out);
}
