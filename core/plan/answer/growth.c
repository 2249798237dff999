/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/answer/growth.h"

#include <math.h>

#include "core/base/json.h"

/* Of those that are refused, the one that came nearest: it needs least memory. */
static struct cadre_plan_found nearest(const struct cadre_plan_search *search)
{
    const struct cadre_plan_found *best = &search->found[0];
    for (size_t i = 0; i < search->n; i++) {
        const struct cadre_plan_found *f = &search->found[i];
        const bool less =
            best->footprint.total <= 0 || f->footprint.total < best->footprint.total;
        if (f->footprint.total > 0 && less)
            best = f;
    }
    return *best;
}

cadre_status cadre_growth(struct cadre_growth_point out[CADRE_GROWTH_POINTS], size_t *n,
                          struct cadre_plan_question question, const int64_t range[2],
                          const struct cadre_hardware *hw, struct cadre_error *err)
{
    const double tokens =
        (double)question.from.global_batch * (double)question.transformer.context;
    double first = 0;
    *n = 0;
    for (int64_t ranks = range[0]; ranks <= range[1] && *n < CADRE_GROWTH_POINTS;
         ranks *= 2) {
        struct cadre_growth_point *p = &out[*n];
        struct cadre_plan_search search = {0};
        question.ranks = ranks;
        CADRE_TRY(cadre_plan_search(&search, &question, hw, err));
        *p = (struct cadre_growth_point){.ranks = ranks, .legal = search.legal};
        if (search.n > 0) {
            p->best = search.legal ? search.found[0] : nearest(&search);
            (*n)++;
        }
        if (search.legal) {
            p->tokens_s = tokens / p->best.forecast.step;
            first = first > 0 ? first : p->tokens_s / (double)ranks;
            p->efficiency = p->tokens_s / (double)ranks / first;
        }
        cadre_plan_search_fini(&search);
    }
    return CADRE_OK;
}

static struct cadre_plan_interval interval_of(const struct cadre_growth_point *p,
                                              const struct cadre_intervals *intervals)
{
    return cadre_interval_of(intervals, p->best.forecast.step,
                             p->best.candidate.zero >= 3, NULL);
}

void cadre_growth_print(const struct cadre_growth_point *points, size_t n,
                        const struct cadre_intervals *intervals, FILE *out)
{
    fputs("forecast, not measured: the best candidate at one global batch\n", out);
    fprintf(out, "%6s  %-36s %5s %5s %10s %21s %12s %10s\n", "ranks", "stack", "stage",
            "micro", "s/step", "interval", "tokens/s", "efficiency");
    for (size_t i = 0; i < n; i++) {
        const struct cadre_growth_point *p = &points[i];
        char stack[CADRE_CANDIDATE_STACK];
        cadre_candidate_stack(&p->best.candidate, stack, sizeof stack);
        if (p->legal == 0) {
            fprintf(out, "%6lld  %-36s nothing can run: %s\n", (long long)p->ranks,
                    stack, p->best.refused);
            continue;
        }
        const struct cadre_plan_interval v = interval_of(p, intervals);
        fprintf(out, "%6lld  %-36s %5lld %5lld %10.3f", (long long)p->ranks, stack,
                (long long)p->best.candidate.zero,
                (long long)p->best.candidate.micro_batch, p->best.forecast.step);
        if (v.rows)
            fprintf(out, " %9.3f to %8.3f", v.low, v.high);
        else
            fprintf(out, " %21s", "not known");
        fprintf(out, " %12.4g %8.1f %%\n", p->tokens_s, 100 * p->efficiency);
    }
}

cadre_status cadre_growth_print_json(const struct cadre_growth_point *points, size_t n,
                                     const struct cadre_intervals *intervals, FILE *out)
{
    struct cadre_json j;
    cadre_json_init(&j, out, true);
    cadre_json_begin_object(&j);
    cadre_json_put_head(&j, 1);
    cadre_json_put_string(&j, "engine", "analytic");
    cadre_json_put_bool(&j, "measured", false);
    cadre_json_key(&j, "growth");
    cadre_json_begin_array(&j);
    for (size_t i = 0; i < n; i++) {
        const struct cadre_growth_point *p = &points[i];
        const struct cadre_plan_interval v = interval_of(p, intervals);
        const bool known = p->legal && v.rows;
        cadre_json_begin_object(&j);
        cadre_json_put_i64(&j, "ranks", p->ranks);
        cadre_json_put_i64(&j, "legal", (int64_t)p->legal);
        cadre_json_put_f64(&j, "step_low_s", known ? v.low : NAN);
        cadre_json_put_f64(&j, "step_high_s", known ? v.high : NAN);
        cadre_json_put_f64(&j, "tokens_per_s", p->legal ? p->tokens_s : NAN);
        cadre_json_put_f64(&j, "efficiency", p->legal ? p->efficiency : NAN);
        cadre_json_key(&j, "best");
        cadre_json_begin_object(&j);
        cadre_plan_found_put(&j, &p->best);
        cadre_json_end_object(&j);
        cadre_json_end_object(&j);
    }
    cadre_json_end_array(&j);
    cadre_json_end_object(&j);
    return cadre_json_finish(&j);
}
