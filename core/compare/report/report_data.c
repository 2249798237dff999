/* SPDX-License-Identifier: Apache-2.0 */
/* report.json, for programs. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "config.h"
#include "core/base/json.h"
#include "core/compare/report/report_private.h"
#include "core/compare/report/sentences.h"
#include "core/compare/verdict/figures.h"
#include "core/compare/report/report_seeds.h"
#include "core/compare/verdict/certificate.h"
#include "core/compare/verdict/machine.h"
#include "core/compare/verdict/seeds.h"
#include "core/page/build.h"

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
    static const char *const computed[] = {"schema_version",
                                           "name",
                                           "step_s_median",
                                           "tokens_per_s",
                                           "comm_exposed_s",
                                           "bubble_fraction",
                                           "mfu",
                                           "hfu"};
    const char *key;
    json_t *value;
    json_object_foreach(summary, key, value)
    {
        bool other = json_is_object(value);
        for (size_t i = 0; i < sizeof computed / sizeof computed[0]; i++)
            other = other || strcmp(key, computed[i]) == 0;
        if (other)
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

/* KEY, KEY_low and KEY_high. */
static void put_interval(struct cadre_json *json, const char *key, double value,
                         const struct cadre_interval *figure)
{
    char name[48];
    cadre_json_put_f64(json, key, value);
    snprintf(name, sizeof name, "%s_low", key);
    cadre_json_put_f64(json, name, figure->low);
    snprintf(name, sizeof name, "%s_high", key);
    cadre_json_put_f64(json, name, figure->high);
}

static void put_text(struct cadre_json *json, const char *key, const char *text)
{
    cadre_json_put_string(json, key, *text ? text : NULL);
}

/* In the place of a summary that a failed run has not. */
static void put_failed(struct cadre_json *json, const struct cadre_compared_run *run)
{
    static const char *const keys[] = {
        "device",     "steps",      "tokens",
        "time_s",     "loss_first", "loss_last",
        "peak_bytes", "comm_bytes", "comm_between_bytes"};
    cadre_json_put_string(json, "stack", run->strategy);
    cadre_json_put_i64(json, "ranks", run->ranks);
    cadre_json_key(json, "params");
    if (run->params > 0)
        cadre_json_i64(json, run->params);
    else
        cadre_json_null(json);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        cadre_json_put_string(json, keys[i], NULL);
}

static void put_speed(struct cadre_json *json, const struct cadre_comparison *c,
                      size_t i)
{
    const struct cadre_compared_run *run = &c->run[i];
    const struct cadre_speed_run *speed = &run->speed;
    put_interval(json, "step_s", cadre_report_step_s(run), &speed->period_s);
    cadre_json_put_f64(json, "tokens_per_s", run->tokens_per_s);
    put_interval(json, "speedup", speed->speedup.value, &speed->speedup);
    cadre_json_put_string(json, "speed_verdict",
                          cadre_speed_verdict_name(speed->verdict));
    put_text(json, "not_ranked", speed->why);
    cadre_json_put_i64(json, "rounds", (int64_t)cadre_report_rounds(c, i));
    cadre_json_put_bool(json, "leading", speed->leading);
    cadre_json_put_f64(json, "detectable", speed->detectable);
    cadre_json_put_f64(json, "control", speed->control);
    put_interval(json, "efficiency", run->efficiency.value, &run->efficiency);
    put_interval(json, "overhead_s", speed->overhead_s.value, &speed->overhead_s);
    put_interval(json, "bubble_fraction", cadre_report_bubble(run),
                 &speed->bubble_fraction);
    cadre_json_put_f64(json, "bubble_replayed", run->bubble_replayed);
    cadre_json_put_f64(json, "step_bubble", run->step_bubble);
    cadre_json_put_f64(json, "step_replayed", run->step_replayed);
    put_interval(json, "comm_exposed_s", cadre_report_exposed_s(run),
                 &speed->comm_exposed_s);
    cadre_report_parts_json(json, c, i);
    cadre_json_put_bool(json, "to_target", run->to_target);
    put_interval(json, "target_s", run->target_s.value, &run->target_s);
    put_text(json, "untimed", run->untimed);
    put_text(json, "implausible", run->implausible);
    put_text(json, "failure", run->failure);
    cadre_json_put_f64(json, "N", run->N);
    cadre_json_put_bool(json, "fair", run->fair);
    put_text(json, "unfair", run->unfair);
}

static void put_equality(struct cadre_json *json, const struct cadre_comparison *c,
                         size_t i)
{
    const struct cadre_compared_run *run = &c->run[i];
    const bool judged = cadre_report_is_judged(c, i);
    cadre_json_put_f64(json, "loss_max_diff", judged ? run->loss_max_diff : NAN);
    cadre_json_put_f64(json, "param_max_diff", judged ? run->diff.of[0].max : NAN);
    cadre_json_put_string(json, "equal", judged ? cadre_equal_name(run->equal) : NULL);
    cadre_json_put_string(json, "limit", judged ? cadre_limit_name(run->limit) : NULL);
    cadre_json_put_string(
        json, "same_bits_as",
        !judged || run->bit_identical < 0 ? NULL : c->run[run->bit_identical].name);
    cadre_json_put_bool(json, "is_baseline", i == c->baseline);
    cadre_json_put_string(json, "equal_to", c->run[cadre_seeds_baseline(c, i)].name);
    cadre_json_put_bool(json, "by_design", run->by_design);
    put_text(json, "changed_by", run->changes.by);
    put_text(json, "equal_setting", run->changes.equal);
    cadre_json_put_string(json, "setting_equal",
                          run->setting.judged ? cadre_equal_name(run->setting.equal)
                                              : NULL);
    put_text(json, "setting_why", run->setting.why);
    put_text(json, "why", run->why);
    put_text(json, "other_training", run->other_training);
    cadre_json_key(json, "certificate");
    if (!*run->failure)
        cadre_certificate_put(json, c, i);
    else
        cadre_json_null(json);
}

static void put_run(struct cadre_json *json, const struct cadre_comparison *c, size_t i)
{
    const struct cadre_compared_run *run = &c->run[i];
    cadre_json_begin_object(json);
    cadre_json_put_string(json, "name", run->name);
    if (run->record.summary)
        put_summary(json, run->record.summary);
    else
        put_failed(json, run);
    put_site(json, &run->record);
    cadre_json_put_string(json, "folder", run->record.dir);
    put_speed(json, c, i);
    cadre_report_put_consumption(json, c, i);
    cadre_report_put_prediction(json, c, i);
    put_equality(json, c, i);
    cadre_json_end_object(json);
}

/* ---- rounds and pieces ---- */

static void put_rounds(struct cadre_json *json, const struct cadre_comparison *c)
{
    cadre_json_key(json, "round_list");
    cadre_json_begin_array(json);
    for (size_t i = 0; i < c->speed.n_rounds; i++) {
        const struct cadre_speed_round *round = &c->speed.round[i];
        cadre_json_begin_object(json);
        cadre_json_put_i64(json, "round", round->round);
        cadre_json_put_bool(json, "disturbed", round->disturbed);
        put_text(json, "why", round->why);
        cadre_json_put_string(json, "run",
                              round->run < 0 ? NULL : c->run[round->run].name);
        cadre_json_put_f64(json, "foreign", round->foreign);
        cadre_json_end_object(json);
    }
    cadre_json_end_array(json);
}

/* What the machine did meanwhile. */
static void put_load(struct cadre_json *json, const struct cadre_load *load)
{
    const struct {
        const char *key;
        double value;
    } samples[] = {
        {"wall_s", load->wall_s},           {"own_s", load->own_s},
        {"foreign_s", load->foreign_s},     {"steal_s", load->steal_s},
        {"throttled_s", load->throttled_s}, {"mhz", load->mhz},
        {"thermal", load->thermal},         {"gpu_mhz", load->gpu_mhz},
        {"gpu_watts", load->gpu_watts},     {"gpu_celsius", load->gpu_celsius},
        {"gpu_others", load->gpu_others},
    };
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
        cadre_json_put_f64(json, samples[i].key, samples[i].value);
}

/* disturbed: NULL where rounds are not listed. */
static void put_piece(struct cadre_json *json, const struct cadre_comparison *c,
                      const struct cadre_piece *piece, const bool *disturbed)
{
    cadre_json_begin_object(json);
    cadre_json_put_string(json, "run", c->run[piece->run].name);
    cadre_json_put_i64(json, "round", piece->round);
    cadre_json_put_i64(json, "repeats_round", piece->repeats_round);
    cadre_json_put_i64(json, "place", piece->place);
    cadre_json_put_i64(json, "half", piece->half);
    cadre_json_key(json, "disturbed");
    if (disturbed)
        cadre_json_bool(json, *disturbed);
    else
        cadre_json_null(json);
    cadre_json_put_f64(json, "begin_s", piece->begin_s);
    cadre_json_put_f64(json, "start_s", piece->start_s);
    cadre_json_put_f64(json, "period_s", piece->period_s);
    cadre_json_put_f64(json, "bubble_fraction", piece->bubble_fraction);
    cadre_json_put_f64(json, "comm_exposed_s", piece->comm_exposed_s);
    cadre_json_put_f64(json, "j_per_token",
                       piece->joules_per_token > 0 ? piece->joules_per_token
                                                   : (double)NAN);
    put_load(json, &piece->load);
    cadre_json_end_object(json);
}

static void put_pieces(struct cadre_json *json, const struct cadre_comparison *c)
{
    cadre_json_key(json, "pieces");
    cadre_json_begin_array(json);
    for (size_t i = 0; i < c->n_pieces; i++) {
        bool disturbed = cadre_report_is_disturbed(c, &c->piece[i]);
        put_piece(json, c, &c->piece[i], &disturbed);
    }
    cadre_json_end_array(json);
    cadre_json_key(json, "target_pieces");
    cadre_json_begin_array(json);
    for (size_t i = 0; i < c->n_target_pieces; i++)
        put_piece(json, c, &c->target_piece[i], NULL);
    cadre_json_end_array(json);
}

/* ---- the whole ---- */

static void put_formulas(struct cadre_json *json, const struct cadre_comparison *c)
{
    cadre_json_key(json, "formulas");
    cadre_json_begin_object(json);
    cadre_json_put_string(json, "speedup", CADRE_FORMULA_SPEEDUP);
    cadre_json_put_string(json, "efficiency", CADRE_FORMULA_EFFICIENCY);
    cadre_json_put_string(json, "overhead", CADRE_FORMULA_OVERHEAD);
    cadre_json_put_string(json, "mfu", CADRE_FORMULA_MFU);
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
        cadre_json_put_bool(json, "ranked",
                            cadre_figures_price(c, i, (size_t)plain) !=
                                CADRE_SPEED_NOT_RANKED);
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

static void put_head(struct cadre_json *json, const struct cadre_comparison *c)
{
    char date[32];
    const struct cadre_speed *speed = &c->speed;
    const ptrdiff_t first = cadre_report_fastest(c);
    cadre_json_put_i64(json, "schema_version", CADRE_REPORT_SCHEMA);
    cadre_json_put_string(json, "build", cadre_page_build());
    cadre_json_put_string(json, "date", cadre_report_date(date, sizeof date));
    cadre_json_put_string(json, "title", c->title);
    cadre_json_put_string(json, "command", c->command);
    cadre_json_put_string(json, "baseline", c->run[c->baseline].name);
    cadre_json_put_string(json, "fastest", first < 0 ? NULL : c->run[first].name);
    put_text(json, "unranked", cadre_sentences_unranked(c));
    cadre_json_put_i64(json, "rounds", (int64_t)speed->n_rounds);
    cadre_json_put_i64(json, "disturbed_rounds", (int64_t)speed->n_disturbed);
    cadre_json_put_bool(json, "despite_load", speed->despite_load);
    cadre_json_put_bool(json, "mirrored", c->mirrored);
    cadre_json_put_f64(json, "order", c->order ? (double)c->order : (double)NAN);
    cadre_json_put_i64(json, "attempts", c->attempts);
    cadre_json_put_f64(json, "margin", c->margin);
    cadre_json_put_f64(json, "target", c->target > 0 ? c->target : (double)NAN);
    cadre_json_put_bool(json, "fair", cadre_comparison_is_fair(c));
    cadre_json_put_bool(json, "equal", !cadre_comparison_differing(c));
}

void cadre_report_json(const struct cadre_comparison *c, struct cadre_text *out)
{
    struct cadre_json json;
    struct cadre_text machine = {0};
    cadre_machine_libraries(&machine);
    cadre_json_init_text(&json, out, true);
    cadre_json_begin_object(&json);
    put_head(&json, c);
    put_formulas(&json, c);
    cadre_json_put_i64(&json, "warmup", c->warmup);
    cadre_json_put_i64(&json, "first_step", cadre_comparison_first_step(c));
    cadre_json_put_i64(&json, "last_step", cadre_comparison_last_step(c));
    cadre_json_put_i64(&json, "judged_steps", c->judged_steps);
    put_machine(&json, c, cadre_text_str(&machine));
    put_prices(&json, c);
    cadre_report_seeds_json(c, &json);
    put_lines(&json, "conclusion", cadre_report_sentences, c);
    put_lines(&json, "notes", cadre_report_notes, c);
    cadre_json_key(&json, "runs");
    cadre_json_begin_array(&json);
    for (size_t i = 0; i < c->n; i++)
        put_run(&json, c, i);
    cadre_json_end_array(&json);
    put_rounds(&json, c);
    put_pieces(&json, c);
    cadre_json_end_object(&json);
    if (cadre_json_finish(&json) != CADRE_OK)
        out->failed = true;
    cadre_text_fini(&machine);
}
