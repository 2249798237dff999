/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/answer/cost.h"

#include <math.h>

#include "core/base/json.h"
#include "core/base/terminal.h"
#include "core/base/text_table.h"

struct cadre_cost_of cadre_cost_of(const struct cadre_cost *cost,
                                   const struct cadre_plan_question *question,
                                   double seconds)
{
    const double each =
        (double)question->from.global_batch * (double)question->transformer.context;
    struct cadre_cost_of c = {.steps = ceil(cost->tokens / each)};
    c.hours = c.steps * seconds / 3600;
    c.device_hours = c.hours * (double)question->ranks;
    c.price = c.device_hours * cost->price_per_hour;
    return c;
}

static void add_row(struct cadre_text_table *table, const struct cadre_cost *cost,
                    const struct cadre_plan_found *f, size_t place,
                    const struct cadre_plan_question *question,
                    const struct cadre_intervals *intervals)
{
    const struct cadre_plan_interval v =
        cadre_interval_of(intervals, f->forecast.step, f->candidate.zero >= 3, NULL);
    const struct cadre_cost_of c = cadre_cost_of(cost, question, f->forecast.step);
    char stack[CADRE_CANDIDATE_STACK];
    cadre_candidate_stack(&f->candidate, stack, sizeof stack);
    cadre_text_table_addf(table, "%zu", place);
    cadre_text_table_add(table, stack);
    cadre_text_table_addf(table, "%.0f", c.steps);
    cadre_text_table_addf(table, "%.2f", c.hours);
    if (v.rows)
        cadre_text_table_addf(table, "%.2f to %.2f", c.steps * v.low / 3600,
                              c.steps * v.high / 3600);
    else
        cadre_text_table_add(table, "not known");
    cadre_text_table_addf(table, "%.1f", c.device_hours);
    if (cost->price_per_hour > 0)
        cadre_text_table_addf(table, "%.2f", c.price);
}

static bool print_rows(const struct cadre_cost *cost,
                       const struct cadre_plan_search *search,
                       const struct cadre_plan_question *question,
                       const struct cadre_intervals *intervals, size_t top, FILE *out)
{
    static const char *const heads[] = {"",         "stack",        "steps", "hours",
                                        "interval", "device hours", "price"};
    static const bool is_text[] = {false, true, false, false, true, false, false};
    const bool priced = cost->price_per_hour > 0;
    struct cadre_text_table table = {.columns =
                                         sizeof heads / sizeof heads[0] - !priced,
                                     .is_text = is_text,
                                     .wraps = true};
    cadre_text_table_add_row(&table, heads);
    for (size_t i = 0; i < search->legal && i < top; i++)
        add_row(&table, cost, &search->found[i], i + 1, question, intervals);
    const bool whole = cadre_text_table_write(&table, out);
    cadre_text_table_fini(&table);
    return whole;
}

bool cadre_cost_print(const struct cadre_cost *cost,
                      const struct cadre_plan_search *search,
                      const struct cadre_plan_question *question,
                      const struct cadre_intervals *intervals, size_t top, FILE *out)
{
    char price[48] = "";
    if (cost->price_per_hour > 0)
        snprintf(price, sizeof price, " at %g an hour each", cost->price_per_hour);
    cadre_terminal_printf(
        out,
        "forecast, not measured: %.4g tokens in steps of %lld x %lld on %lld devices%s",
        cost->tokens, (long long)question->from.global_batch,
        (long long)question->transformer.context, (long long)question->ranks, price);
    const bool whole = print_rows(cost, search, question, intervals, top, out);
    if (search->legal == 0)
        fputs("no candidate can run\n", out);
    if (cost->price_per_hour <= 0)
        cadre_terminal_printf(out, "no price: give price_per_hour in [device] of the "
                                   "hardware file, or --price");
    return whole;
}

cadre_status cadre_cost_print_json(const struct cadre_cost *cost,
                                   const struct cadre_plan_search *search,
                                   const struct cadre_plan_question *question,
                                   const struct cadre_intervals *intervals, FILE *out)
{
    struct cadre_json j;
    cadre_json_init(&j, out, true);
    cadre_json_begin_object(&j);
    cadre_json_put_head(&j, 1);
    cadre_json_put_string(&j, "engine", "analytic");
    cadre_json_put_bool(&j, "measured", false);
    cadre_json_put_f64(&j, "tokens", cost->tokens);
    cadre_json_put_i64(&j, "ranks", question->ranks);
    cadre_json_put_f64(&j, "price_per_hour",
                       cost->price_per_hour > 0 ? cost->price_per_hour : NAN);
    cadre_json_key(&j, "candidates");
    cadre_json_begin_array(&j);
    for (size_t i = 0; i < search->legal; i++) {
        const struct cadre_plan_found *f = &search->found[i];
        const struct cadre_plan_interval v = cadre_interval_of(
            intervals, f->forecast.step, f->candidate.zero >= 3, NULL);
        const struct cadre_cost_of c = cadre_cost_of(cost, question, f->forecast.step);
        cadre_json_begin_object(&j);
        cadre_plan_found_put(&j, f);
        cadre_json_put_f64(&j, "steps", c.steps);
        cadre_json_put_f64(&j, "hours", c.hours);
        cadre_json_put_f64(&j, "hours_low", v.rows ? c.steps * v.low / 3600 : NAN);
        cadre_json_put_f64(&j, "hours_high", v.rows ? c.steps * v.high / 3600 : NAN);
        cadre_json_put_f64(&j, "device_hours", c.device_hours);
        cadre_json_put_f64(&j, "price", cost->price_per_hour > 0 ? c.price : NAN);
        cadre_json_end_object(&j);
    }
    cadre_json_end_array(&j);
    cadre_json_end_object(&j);
    return cadre_json_finish(&j);
}
