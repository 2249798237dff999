/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/terminal.h"
#include "core/base/text_table.h"
#include "core/plan/refusals.h"

static const double GIB = 1073741824.0;

/* The columns of a candidate; candidates do not divide the context. */
enum {
    PLACE,
    STACK,
    STEP,
    INTERVAL,
    BYTES,
    ASKED,
    FORM,
    LIMIT,
    FIRST_CAUSE,
    COLUMNS = FIRST_CAUSE + CADRE_PLAN_CAUSES - 1
};

static void add_heads(struct cadre_text_table *table)
{
    static const char *const heads[FIRST_CAUSE] = {
        "", "stack", "s/step", "interval", "GiB >=", "GiB asked", "form", "limit"};
    for (int i = 0; i < FIRST_CAUSE; i++)
        cadre_text_table_add(table, heads[i]);
    for (int i = 0; i < CADRE_PLAN_CAUSES; i++)
        if (i != CADRE_PLAN_CONTEXT)
            cadre_text_table_add(table,
                                 cadre_plan_cause_name((enum cadre_plan_cause)i));
}

static void add_found(struct cadre_text_table *table, const struct cadre_plan_found *f,
                      size_t place, const struct cadre_intervals *intervals)
{
    char stack[CADRE_CANDIDATE_STACK], form[CADRE_CANDIDATE_FORM];
    const struct cadre_plan_interval v =
        cadre_interval_of(intervals, f->forecast.step, f->candidate.zero >= 3, NULL);
    cadre_candidate_stack(&f->candidate, stack, sizeof stack);
    cadre_candidate_form(&f->candidate, form, sizeof form);
    cadre_text_table_addf(table, "%zu", place);
    cadre_text_table_add(table, stack);
    cadre_text_table_addf(table, "%.4g", f->forecast.step);
    if (v.rows)
        cadre_text_table_addf(table, "%.4g to %.4g", v.low, v.high);
    else
        cadre_text_table_add(table, "not known");
    cadre_text_table_addf(table, "%.4g", f->footprint.total / GIB);
    if (f->asked > 0)
        cadre_text_table_addf(table, "%.4g", f->asked / GIB);
    else
        cadre_text_table_add(table, "-");
    cadre_text_table_add(table, form);
    cadre_text_table_add(table,
                         cadre_plan_cause_name(cadre_forecast_limit(&f->forecast)));
    for (int i = 0; i < CADRE_PLAN_CAUSES; i++)
        if (i != CADRE_PLAN_CONTEXT)
            cadre_text_table_addf(table, "%.3g", f->forecast.cause[i]);
}

/* What the figures of memory count. */
static void print_memory(const struct cadre_hardware *hw, FILE *out)
{
    cadre_terminal_printf(
        out,
        "GiB >=: by formulas, weights, gradients, optimizer states and activations of "
        "the rank that needs most; not scratch, not messages");
    cadre_terminal_printf(
        out, "GiB asked: by plugins, all that a run of Cadre plans on a rank%s",
        hw->accounting == CADRE_ACCOUNTING_CADRE ? ", which decides whether it fits"
                                                 : "");
    cadre_terminal_printf(
        out,
        "%.1f GiB are there, %.4g of the device less reserve_gib = %.4g, which neither "
        "figure counts",
        hw->device.memory_gib - hw->device.reserve_gib, hw->device.memory_gib,
        hw->device.reserve_gib);
}

static void print_refused(const struct cadre_plan_search *search, FILE *out)
{
    struct cadre_plan_refusals refusals;
    cadre_plan_refusals_count(&refusals, search);
    if (refusals.n)
        fputs("\nstacks of which nothing can run:\n", out);
    for (size_t i = 0; i < refusals.n; i++) {
        const struct cadre_plan_reason *reason = &refusals.of[i];
        char stack[CADRE_CANDIDATE_STACK], count[32], text[512];
        cadre_candidate_stack(&search->found[reason->example].candidate, stack,
                              sizeof stack);
        snprintf(count, sizeof count, "%4zu  ", reason->stacks);
        snprintf(text, sizeof text, "%s, such as %s", reason->why, stack);
        cadre_terminal_write(out, count, (int)strlen(count), text);
    }
    if (refusals.left_out)
        fprintf(out, "%4zu  for other reasons; --json has them\n", refusals.left_out);
}

static bool print_table(const struct cadre_plan_search *search,
                        const struct cadre_intervals *intervals, size_t top, FILE *out)
{
    static const bool is_text[COLUMNS] = {
        [STACK] = true, [INTERVAL] = true, [FORM] = true, [LIMIT] = true};
    struct cadre_text_table table = {
        .columns = COLUMNS, .is_text = is_text, .wraps = true};
    add_heads(&table);
    for (size_t i = 0; i < search->legal && i < top; i++)
        add_found(&table, &search->found[i], i + 1, intervals);
    const bool whole = cadre_text_table_write(&table, out);
    cadre_text_table_fini(&table);
    return whole;
}

bool cadre_plan_search_print(const struct cadre_plan_search *search,
                             const struct cadre_plan_question *question,
                             const struct cadre_hardware *hw,
                             const struct cadre_intervals *intervals, size_t top,
                             FILE *out)
{
    const double parameters = cadre_transformer_parameters(&question->transformer);
    char traits[CADRE_TRANSFORMER_TRAITS];
    cadre_transformer_traits(&question->transformer, traits);
    cadre_terminal_printf(
        out,
        "forecast, not measured: %.3g B parameters%s, global batch %lld of %lld "
        "tokens, %s, on %lld x %s",
        parameters / 1e9, traits, (long long)question->from.global_batch,
        (long long)question->transformer.context,
        question->dtypes ? "any precision"
                         : cadre_plan_dtype_name(question->from.dtype),
        (long long)question->ranks, hw->name);
    fprintf(out, "%zu candidates run, %zu are refused\n\n", search->legal,
            search->n - search->legal);
    bool whole = true;
    if (search->legal > 0 && top > 0) {
        whole = print_table(search, intervals, top, out);
        print_memory(hw, out);
    }
    if (intervals && intervals->n)
        cadre_terminal_printf(
            out,
            "interval: for %.0f %% of steps, by the errors of %zu published ones "
            "(docs/planning.md)",
            100 * CADRE_INTERVAL_PART, intervals->n);
    print_refused(search, out);
    return whole;
}

void cadre_plan_found_put(struct cadre_json *j, const struct cadre_plan_found *f)
{
    char stack[CADRE_CANDIDATE_STACK];
    const struct cadre_candidate *c = &f->candidate;
    cadre_candidate_stack(c, stack, sizeof stack);
    cadre_json_put_string(j, "stack", stack);
    cadre_json_put_i64(j, "tensor", c->tensor);
    cadre_json_put_i64(j, "pipeline", c->pipeline);
    cadre_json_put_i64(j, "data", c->data);
    cadre_json_put_i64(j, "zero", c->zero);
    cadre_json_put_i64(j, "replicas", c->replicas > 1 ? c->replicas : 1);
    cadre_json_put_string(
        j, "schedule",
        c->pipeline > 1 ? cadre_plan_schedule_name(cadre_candidate_schedule(c)) : NULL);
    cadre_json_put_i64(j, "chunks", c->chunks);
    cadre_json_put_i64(j, "micro_batch", c->micro_batch);
    cadre_json_put_string(j, "recompute", cadre_plan_recompute_name(c->recompute));
    cadre_json_put_string(j, "precision", cadre_plan_dtype_name(c->dtype));
    cadre_json_put_string(j, "refused", *f->refused ? f->refused : NULL);
    if (f->asked > 0)
        cadre_json_put_f64(j, "bytes_asked", f->asked);
    if (f->forecast.step > 0) {
        cadre_json_put_f64(j, "step_s", f->forecast.step);
        cadre_json_put_string(
            j, "limit", cadre_plan_cause_name(cadre_forecast_limit(&f->forecast)));
        cadre_json_key(j, "seconds");
        cadre_json_begin_object(j);
        for (int i = 0; i < CADRE_PLAN_CAUSES; i++)
            cadre_json_put_f64(j, cadre_plan_cause_name((enum cadre_plan_cause)i),
                               f->forecast.cause[i]);
        cadre_json_end_object(j);
        cadre_json_key(j, "bytes_at_least");
        cadre_json_begin_object(j);
        cadre_json_put_f64(j, "weights", f->footprint.weights);
        cadre_json_put_f64(j, "gradients", f->footprint.gradients);
        cadre_json_put_f64(j, "states", f->footprint.states);
        cadre_json_put_f64(j, "activations", f->footprint.activations);
        cadre_json_put_f64(j, "total", f->footprint.total);
        cadre_json_end_object(j);
    }
}

static void put_candidate(struct cadre_json *j, const struct cadre_plan_found *f,
                          const struct cadre_intervals *intervals)
{
    const struct cadre_plan_interval v =
        cadre_interval_of(intervals, f->forecast.step, f->candidate.zero >= 3, NULL);
    cadre_json_begin_object(j);
    cadre_plan_found_put(j, f);
    if (f->forecast.step > 0 && v.rows) {
        cadre_json_put_f64(j, "step_low_s", v.low);
        cadre_json_put_f64(j, "step_high_s", v.high);
    }
    cadre_json_end_object(j);
}

cadre_status cadre_plan_search_print_json(
    const struct cadre_plan_search *search, const struct cadre_plan_question *question,
    const struct cadre_hardware *hw, const struct cadre_intervals *intervals,
    void (*more)(struct cadre_json *json, const void *arg), const void *arg, FILE *out)
{
    struct cadre_json j;
    cadre_json_init(&j, out, true);
    cadre_json_begin_object(&j);
    cadre_json_put_head(&j, 1);
    cadre_json_put_string(&j, "engine", "analytic");
    cadre_json_put_bool(&j, "measured", false);
    cadre_json_put_string(&j, "hardware", hw->name);
    cadre_json_put_i64(&j, "ranks", question->ranks);
    cadre_json_put_f64(&j, "parameters",
                       cadre_transformer_parameters(&question->transformer));
    cadre_json_put_i64(&j, "legal", (int64_t)search->legal);
    if (more)
        more(&j, arg);
    cadre_json_put_f64(&j, "interval_part", intervals ? CADRE_INTERVAL_PART : NAN);
    cadre_json_key(&j, "candidates");
    cadre_json_begin_array(&j);
    for (size_t i = 0; i < search->n; i++)
        put_candidate(&j, &search->found[i], intervals);
    cadre_json_end_array(&j);
    cadre_json_end_object(&j);
    return cadre_json_finish(&j);
}
