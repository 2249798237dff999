/* SPDX-License-Identifier: Apache-2.0 */
/* report.json and report.csv, for programs. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/compare/report/report.h"
#include "core/compare/verdict/certificate.h"
#include "core/compare/verdict/machine.h"

/* ---- report.json ---- */

static void put_value(struct cadre_json *json, const json_t *value)
{
    if (json_is_string(value))
        cadre_json_string(json, json_string_value(value));
    else if (json_is_integer(value))
        cadre_json_i64(json, json_integer_value(value));
    else if (json_is_real(value))
        cadre_json_f64(json, json_real_value(value));
    else if (json_is_boolean(value))
        cadre_json_bool(json, json_is_true(value));
    else
        cadre_json_null(json);
}

/* The same for lists and objects of them; summaries are a few levels deep. */
static void put_any(struct cadre_json *json, json_t *value)
{
    const char *key;
    json_t *one;
    if (json_is_array(value)) {
        cadre_json_begin_array(json);
        for (size_t i = 0; i < json_array_size(value); i++)
            put_any(json, json_array_get(value, i));
        cadre_json_end_array(json);
    } else if (json_is_object(value)) {
        cadre_json_begin_object(json);
        json_object_foreach(value, key, one)
        {
            cadre_json_key(json, key);
            put_any(json, one);
        }
        cadre_json_end_object(json);
    } else {
        put_value(json, value);
    }
}

/* The run's summary without objects and without figures that the comparison computes
 * from its rounds. */
static void put_summary(struct cadre_json *json, json_t *summary)
{
    const char *key;
    json_t *value;
    json_object_foreach(summary, key, value)
    {
        if (strcmp(key, "name") == 0 || strcmp(key, "step_s_median") == 0 ||
            strcmp(key, "tokens_per_s") == 0 || json_is_object(value))
            continue;
        cadre_json_key(json, key);
        put_any(json, value);
    }
}

/* Where it ran. */
static void put_site(struct cadre_json *json, const struct cadre_record *record)
{
    const json_t *hosts = cadre_record_hosts(record);
    if (!hosts)
        return;
    cadre_json_key(json, "hosts");
    cadre_json_begin_array(json);
    for (size_t i = 0; i < json_array_size(hosts); i++)
        put_value(json, json_array_get(hosts, i));
    cadre_json_end_array(json);
    cadre_json_put_string(json, "cpu", cadre_record_cpu(record));
}

static void put_run(struct cadre_json *json, const struct cadre_comparison *c, size_t i)
{
    const struct cadre_compared_run *run = &c->run[i];
    cadre_json_begin_object(json);
    cadre_json_put_string(json, "name", run->name);
    put_summary(json, run->record.summary);
    put_site(json, &run->record);
    cadre_json_put_string(json, "folder", run->record.dir);
    cadre_json_put_string(json, "failure", *run->failure ? run->failure : NULL);
    cadre_json_put_f64(json, "step_s", run->step_s);
    cadre_json_put_f64(json, "tokens_per_s", run->tokens_per_s);
    cadre_json_put_f64(json, "speedup", run->speed.speedup.value);
    cadre_json_put_f64(json, "efficiency", run->efficiency.value);
    cadre_json_put_f64(json, "overhead_s", run->speed.overhead_s.value);
    cadre_json_put_f64(json, "bubble_replayed", run->bubble_replayed);
    cadre_json_put_f64(json, "N", run->N);
    cadre_json_put_bool(json, "fair", run->fair);
    cadre_json_put_string(json, "unfair", *run->unfair ? run->unfair : NULL);
    cadre_json_put_f64(json, "loss_max_diff", run->loss_max_diff);
    cadre_json_put_f64(json, "param_max_diff", run->diff.of[0].max);
    cadre_json_put_string(json, "equal", cadre_equal_name(run->equal));
    cadre_json_put_string(json, "limit", cadre_limit_name(run->limit));
    cadre_json_put_string(json, "same_bits_as",
                          run->bit_identical < 0 ? NULL
                                                 : c->run[run->bit_identical].name);
    cadre_json_put_bool(json, "is_baseline", run == &c->run[c->baseline]);
    cadre_json_put_bool(json, "by_design", run->by_design);
    cadre_json_put_string(json, "changed_by",
                          *run->changes.by ? run->changes.by : NULL);
    cadre_json_put_string(json, "why", *run->why ? run->why : NULL);
    cadre_json_put_string(json, "other_training",
                          *run->other_training ? run->other_training : NULL);
    cadre_json_key(json, "certificate");
    cadre_certificate_put(json, c, i);
    cadre_json_end_object(json);
}

static void put_formulas(struct cadre_json *json, const struct cadre_comparison *c)
{
    cadre_json_key(json, "formulas");
    cadre_json_begin_object(json);
    cadre_json_put_string(json, "speedup", CADRE_FORMULA_SPEEDUP);
    cadre_json_put_string(json, "efficiency", CADRE_FORMULA_EFFICIENCY);
    cadre_json_put_string(json, "overhead", CADRE_FORMULA_OVERHEAD);
    cadre_json_put_string(json, "where", cadre_report_where(c));
    if (cadre_comparison_has_instances(c))
        cadre_json_put_string(json, "independent", CADRE_FORMULA_SWEEP);
    cadre_json_end_object(json);
}

static void put_machine(struct cadre_json *json, const struct cadre_comparison *c,
                        const char *libraries)
{
    struct utsname system;
    char cpu[128];
    memset(&system, 0, sizeof system);
    uname(&system);
    cadre_json_key(json, "machine");
    cadre_json_begin_object(json);
    cadre_json_put_string(json, "host", system.nodename);
    cadre_json_put_string(json, "system", system.sysname);
    cadre_json_put_string(json, "release", system.release);
    cadre_json_put_string(json, "architecture", system.machine);
    cadre_json_put_string(json, "cpu", cadre_machine_cpu(cpu, sizeof cpu));
    cadre_json_put_i64(json, "cores", c->cores);
    cadre_json_put_string(json, "libraries", libraries);
    cadre_json_end_object(json);
}

static void put_prices(struct cadre_json *json, const struct cadre_comparison *c)
{
    cadre_json_key(json, "exact_price");
    cadre_json_begin_array(json);
    for (size_t i = 0; i < c->n; i++) {
        struct cadre_interval price;
        ptrdiff_t plain = cadre_comparison_price(c, i, &price);
        if (plain < 0)
            continue;
        cadre_json_begin_object(json);
        cadre_json_put_string(json, "run", c->run[i].name);
        cadre_json_put_string(json, "without", c->run[plain].name);
        cadre_json_put_f64(json, "price", price.value);
        cadre_json_put_f64(json, "low", price.low);
        cadre_json_put_f64(json, "high", price.high);
        cadre_json_end_object(json);
    }
    cadre_json_end_array(json);
}

static void put_lines(struct cadre_json *json, const char *key,
                      void (*lines)(const struct cadre_comparison *,
                                    struct cadre_text *),
                      const struct cadre_comparison *c)
{
    struct cadre_text text = {0};
    char *rest = NULL;
    lines(c, &text);
    cadre_json_key(json, key);
    cadre_json_begin_array(json);
    for (char *line = text.data ? strtok_r(text.data, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        cadre_json_string(json, line);
    cadre_json_end_array(json);
    cadre_text_fini(&text);
}

void cadre_report_json(const struct cadre_comparison *c, struct cadre_text *out)
{
    struct cadre_json json;
    struct cadre_text machine = {0};
    cadre_machine_libraries(&machine);
    cadre_json_init_text(&json, out, true);
    cadre_json_begin_object(&json);
    cadre_json_put_string(&json, "title", c->title);
    cadre_json_put_string(&json, "baseline", c->run[c->baseline].name);
    cadre_json_put_bool(&json, "fair", cadre_comparison_is_fair(c));
    cadre_json_put_bool(&json, "equal", !cadre_comparison_differing(c));
    put_formulas(&json, c);
    cadre_json_put_i64(&json, "warmup", c->warmup);
    cadre_json_put_i64(&json, "first_step", cadre_comparison_first_step(c));
    cadre_json_put_i64(&json, "last_step", cadre_comparison_last_step(c));
    cadre_json_put_i64(&json, "judged_steps", c->judged_steps);
    put_machine(&json, c, cadre_text_str(&machine));
    put_prices(&json, c);
    put_lines(&json, "conclusion", cadre_report_sentences, c);
    put_lines(&json, "notes", cadre_report_notes, c);
    cadre_json_key(&json, "runs");
    cadre_json_begin_array(&json);
    for (size_t i = 0; i < c->n; i++)
        put_run(&json, c, i);
    cadre_json_end_array(&json);
    cadre_json_end_object(&json);
    if (cadre_json_finish(&json) != CADRE_OK)
        out->failed = true;
    cadre_text_fini(&machine);
}

/* ---- report.csv ---- */

/* Quoted if necessary, with quotes in it doubled. A text that a spreadsheet would take
 * for a formula gets an apostrophe. */
static void put_cell(struct cadre_text *out, const char *text)
{
    const char *mark = *text && strchr("=+-@", *text) ? "'" : "";
    if (!strpbrk(text, ",\"\r\n")) {
        cadre_text_printf(out, "%s%s", mark, text);
        return;
    }
    cadre_text_printf(out, "\"%s", mark);
    for (; *text; text++) {
        if (*text == '"')
            cadre_text_append(out, text, 1);
        cadre_text_append(out, text, 1);
    }
    cadre_text_append(out, "\"", 1);
}

/* A number that reads back the same; empty where it is none. */
static void put_number(struct cadre_text *out, double value)
{
    if (isfinite(value))
        cadre_text_printf(out, ",%.17g", value);
    else
        cadre_text_append(out, ",", 1);
}

static void put_csv_run(struct cadre_text *out, const struct cadre_compared_run *run)
{
    const struct cadre_record *record = &run->record;
    char hex[17];
    const double numbers[] = {
        run->ranks,
        run->threads,
        (double)record->n,
        cadre_record_number(record, "tokens"),
        cadre_record_number(record, "time_s"),
        run->step_s,
        run->tokens_per_s,
        run->speed.speedup.value,
        run->efficiency.value,
        run->speed.overhead_s.value,
        cadre_record_number(record, "loss_first"),
        cadre_record_number(record, "loss_last"),
        cadre_record_number(record, "valid_loss"),
        run->loss_max_diff,
        run->diff.of[0].max,
        cadre_record_largest(record, "peak_bytes"),
        cadre_record_number(record, "comm_bytes"),
        cadre_record_number(record, "comm_exposed_s"),
        cadre_record_number(record, "bubble_fraction"),
        run->bubble_replayed,
        cadre_record_number(record, "params"),
    };
    put_cell(out, run->name);
    cadre_text_append(out, ",", 1);
    put_cell(out, run->strategy);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        put_number(out, numbers[i]);
    cadre_text_printf(out, ",%s,%s,%s", cadre_equal_name(run->equal),
                      cadre_limit_name(run->limit), run->fair ? "true" : "false");
    cadre_text_printf(out, ",%s", cadre_hash_hex(run->chain, hex));
    cadre_text_printf(out, ",%s", cadre_hash_hex(run->diff.of[0].hash, hex));
    cadre_text_printf(out, ",%d\r\n", run->instances ? run->instances : 1);
}

void cadre_report_csv(const struct cadre_comparison *c, struct cadre_text *out)
{
    cadre_text_printf(
        out, "name,stack,ranks,threads,steps,tokens,time_s,step_s,"
             "tokens_per_s,speedup,efficiency,overhead_s,loss_first,loss_last,"
             "valid_loss,loss_max_diff,param_max_diff,peak_bytes,comm_bytes,"
             "comm_exposed_s,bubble_fraction,bubble_replayed,params,equal,limit,fair,"
             "loss_chain,param_hash,instances\r\n");
    for (size_t i = 0; i < c->n; i++)
        put_csv_run(out, &c->run[i]);
}
