/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/answer/cost.h"

#include <math.h>

#include "core/base/json.h"

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

void cadre_cost_print(const struct cadre_cost *cost,
                      const struct cadre_plan_search *search,
                      const struct cadre_plan_question *question,
                      const struct cadre_intervals *intervals, size_t top, FILE *out)
{
    fprintf(out,
            "forecast, not measured: %.4g tokens in steps of %lld x %lld on %lld "
            "devices",
            cost->tokens, (long long)question->from.global_batch,
            (long long)question->transformer.context, (long long)question->ranks);
    if (cost->price_per_hour > 0)
        fprintf(out, " at %g an hour each", cost->price_per_hour);
    fprintf(out, "\n     %-36s %10s %12s %23s %14s%s\n", "stack", "steps", "hours",
            "interval", "device hours",
            cost->price_per_hour > 0 ? "          price" : "");
    for (size_t i = 0; i < search->legal && i < top; i++) {
        const struct cadre_plan_found *f = &search->found[i];
        const struct cadre_plan_interval v = cadre_interval_of(
            intervals, f->forecast.step, f->candidate.zero >= 3, NULL);
        const struct cadre_cost_of c = cadre_cost_of(cost, question, f->forecast.step);
        char stack[CADRE_CANDIDATE_STACK];
        cadre_candidate_stack(&f->candidate, stack, sizeof stack);
        fprintf(out, "%3zu  %-36s %10.0f %12.2f", i + 1, stack, c.steps, c.hours);
        if (v.rows)
            fprintf(out, " %10.2f to %9.2f", c.steps * v.low / 3600,
                    c.steps * v.high / 3600);
        else
            fprintf(out, " %23s", "not known");
        fprintf(out, " %14.1f", c.device_hours);
        if (cost->price_per_hour > 0)
            fprintf(out, " %14.2f", c.price);
        fputc('\n', out);
    }
    if (search->legal == 0)
        fputs("no candidate can run\n", out);
    if (cost->price_per_hour <= 0)
        fputs("no price: give price_per_hour in [device] of the hardware file, or "
              "--price\n",
              out);
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
