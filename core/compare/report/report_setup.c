/* SPDX-License-Identifier: Apache-2.0 */
/* The head of report.html: when, where and what was compared. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "core/compare/report/chart.h"
#include "core/compare/report/report_private.h"
#include "core/compare/verdict/machine.h"
#include "core/run/format.h"

/* Nothing for an empty text. */
static void put_item(struct cadre_text *out, const char *name, const char *text)
{
    if (!text || !*text)
        return;
    cadre_text_printf(out, "<div><dt>%s</dt><dd>", name);
    cadre_chart_text(out, text);
    cadre_text_printf(out, "</dd></div>\n");
}

static const char *option_of(const struct cadre_comparison *c, const char *name)
{
    const struct cadre_options *options = c->run[c->baseline].options;
    return options ? cadre_options_raw(options, name) : NULL;
}

static void put_option(struct cadre_text *out, const struct cadre_comparison *c,
                       const char *name, const char *option)
{
    put_item(out, name, option_of(c, option));
}

static void put_count(struct cadre_text *out, const struct cadre_comparison *c,
                      const char *name, const char *key)
{
    char text[48];
    double count = cadre_record_number(&c->run[c->baseline].record, key);
    if (isfinite(count))
        put_item(out, name, cadre_format_count(count, text, sizeof text));
}

static void put_machine(struct cadre_text *out, const struct cadre_comparison *c)
{
    struct cadre_text text = {0}, libraries = {0};
    char cpu[128];
    const char *recorded = cadre_record_cpu(&c->run[c->baseline].record);
    cadre_text_printf(&text, "%s; %d core%s; ",
                      recorded ? recorded : cadre_machine_cpu(cpu, sizeof cpu),
                      c->cores, c->cores == 1 ? "" : "s");
    cadre_machine_libraries(&libraries);
    cadre_text_printf(&text, "%s", cadre_text_str(&libraries));
    put_item(out, "machine", cadre_text_str(&text));
    out->failed = out->failed || text.failed || libraries.failed;
    cadre_text_fini(&libraries);
    cadre_text_fini(&text);
}

void cadre_report_setup(const struct cadre_comparison *c, struct cadre_text *out)
{
    struct cadre_text text = {0};
    char date[32];
    cadre_text_printf(out, "<dl class=\"setup\">\n");
    put_item(out, "date", cadre_report_date(date, sizeof date));
    cadre_text_printf(&text, "cadre compare %s", c->title);
    put_item(out, "command", cadre_text_str(&text));
    cadre_text_fini(&text);
    put_item(out, "build", PACKAGE_STRING);
    put_item(out, "baseline", c->run[c->baseline].name);
    put_option(out, c, "data", "data.path");
    put_option(out, c, "precision", "train.precision");
    put_option(out, c, "seed", "run.seed");
    put_option(out, c, "global batch", "train.global_batch");
    put_count(out, c, "parameters", "params");
    put_count(out, c, "steps", "steps");
    put_count(out, c, "tokens", "tokens");
    put_machine(out, c);
    cadre_text_printf(out, "</dl>\n");
}
