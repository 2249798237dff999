/* SPDX-License-Identifier: Apache-2.0 */
/* The head of report.html: when, where and what was compared. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "core/compare/report/report_private.h"
#include "core/compare/verdict/machine.h"
#include "core/page/build.h"
#include "core/page/page.h"
#include "core/run/format.h"

enum { MOST = 24, VALUE = 512 };

struct setup {
    const struct cadre_comparison *c;
    struct cadre_page_item item[MOST];
    char value[MOST][VALUE];
    size_t n;
};

/* An empty value is left out on the page. */
static char *add(struct setup *s, const char *name)
{
    char *value = s->value[s->n];
    s->item[s->n++] = (struct cadre_page_item){name, value};
    return value;
}

static const char *option_of(const struct setup *s, const char *name)
{
    const struct cadre_options *options = s->c->run[s->c->baseline].options;
    const char *value = options ? cadre_options_raw(options, name) : NULL;
    return value ? value : "";
}

static void add_option(struct setup *s, const char *name, const char *option)
{
    snprintf(add(s, name), VALUE, "%s", option_of(s, option));
}

static void add_count(struct setup *s, const char *name, const char *key)
{
    double count = cadre_record_number(&s->c->run[s->c->baseline].record, key);
    char *value = add(s, name);
    if (isfinite(count))
        cadre_format_count(count, value, VALUE);
}

static void add_machine(struct setup *s)
{
    struct cadre_text libraries = {0};
    struct utsname system;
    char cpu[128];
    const struct cadre_record *record = &s->c->run[s->c->baseline].record;
    const char *recorded = cadre_record_cpu(record);
    const char *device = json_string_value(json_object_get(record->summary, "device"));
    memset(&system, 0, sizeof system);
    uname(&system);
    snprintf(add(s, "machine"), VALUE, "%s, %d core%s",
             recorded ? recorded : cadre_machine_cpu(cpu, sizeof cpu), s->c->cores,
             s->c->cores == 1 ? "" : "s");
    snprintf(add(s, "system"), VALUE, "%s: %s %.64s", system.nodename, system.sysname,
             system.release);
    cadre_machine_libraries(&libraries);
    snprintf(add(s, "libraries"), VALUE, "%s", cadre_text_str(&libraries));
    cadre_text_fini(&libraries);
    snprintf(add(s, "device"), VALUE, "%s", device ? device : "");
}

/* "gpt2: 3 layers, 96 channels, 4 heads, context 256" */
static void add_model(struct setup *s)
{
    char *value = add(s, "model");
    if (*option_of(s, "model.layers"))
        snprintf(value, VALUE,
                 "%.32s: %.12s layer%s, %.12s channels, %.12s heads, "
                 "context %.12s",
                 option_of(s, "model.arch"), option_of(s, "model.layers"),
                 strcmp(option_of(s, "model.layers"), "1") == 0 ? "" : "s",
                 option_of(s, "model.channels"), option_of(s, "model.heads"),
                 option_of(s, "model.context"));
}

static void add_data(struct setup *s)
{
    char *value = add(s, "data"), count[48];
    const char *path = option_of(s, "data.path"), *format = option_of(s, "data.format");
    double samples =
        cadre_record_number(&s->c->run[s->c->baseline].record, "train_samples_all");
    if (*path)
        snprintf(value, VALUE, "%.200s%s%.24s%s", path, *format ? " (" : "", format,
                 *format ? ")" : "");
    value = add(s, "training samples");
    if (isfinite(samples))
        snprintf(value, VALUE, "%s", cadre_format_count(samples, count, sizeof count));
}

/* What is trained: of the baseline, as runs differ in other things. */
static void add_training(struct setup *s)
{
    add_model(s);
    add_count(s, "parameters", "params");
    add_data(s);
    add_count(s, "steps", "steps");
    add_count(s, "tokens", "tokens");
    add_option(s, "global batch", "train.global_batch");
    add_option(s, "precision", "train.precision");
    add_option(s, "seed", "run.seed");
}

void cadre_report_setup(const struct cadre_comparison *c, struct cadre_text *out)
{
    struct setup s = {.c = c};
    cadre_report_date(add(&s, "date"), VALUE);
    /* whole, however long it is */
    s.item[s.n++] = (struct cadre_page_item){"command", c->command};
    snprintf(add(&s, "build"), VALUE, "%s", cadre_page_build());
    snprintf(add(&s, "baseline"), VALUE, "%s", c->run[c->baseline].name);
    add_training(&s);
    add_machine(&s);
    cadre_page_setup(out, s.item, s.n);
}
