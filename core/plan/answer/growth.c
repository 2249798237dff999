/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/answer/growth.h"

#include <math.h>

#include "core/base/json.h"
#include "core/base/terminal.h"
#include "core/base/text_table.h"

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

static void add_point(struct cadre_text_table *table,
                      const struct cadre_growth_point *p,
                      const struct cadre_intervals *intervals)
{
    const struct cadre_plan_interval v = interval_of(p, intervals);
    char stack[CADRE_CANDIDATE_STACK];
    cadre_candidate_stack(&p->best.candidate, stack, sizeof stack);
    cadre_text_table_addf(table, "%lld", (long long)p->ranks);
    cadre_text_table_add(table, stack);
    if (p->legal == 0) {
        for (size_t k = 2; k < table->columns; k++)
            cadre_text_table_add(table, "-");
        return;
    }
    cadre_text_table_addf(table, "%lld", (long long)p->best.candidate.zero);
    cadre_text_table_addf(table, "%lld", (long long)p->best.candidate.micro_batch);
    cadre_text_table_addf(table, "%.3f", p->best.forecast.step);
    if (v.rows)
        cadre_text_table_addf(table, "%.3f to %.3f", v.low, v.high);
    else
        cadre_text_table_add(table, "not known");
    cadre_text_table_addf(table, "%.4g", p->tokens_s);
    cadre_text_table_addf(table, "%.1f %%", 100 * p->efficiency);
}

bool cadre_growth_print(const struct cadre_growth_point *points, size_t n,
                        const struct cadre_intervals *intervals, FILE *out)
{
    static const char *const heads[] = {"ranks",  "stack",    "stage",    "micro",
                                        "s/step", "interval", "tokens/s", "efficiency"};
    static const bool is_text[] = {false, true, false, false,
                                   false, true, false, false};
    struct cadre_text_table table = {
        .columns = sizeof heads / sizeof heads[0], .is_text = is_text, .wraps = true};
    cadre_terminal_printf(
        out, "forecast, not measured: the best candidate at one global batch");
    cadre_text_table_add_row(&table, heads);
    for (size_t i = 0; i < n; i++)
        add_point(&table, &points[i], intervals);
    const bool whole = cadre_text_table_write(&table, out);
    cadre_text_table_fini(&table);
    for (size_t i = 0; i < n; i++)
        if (points[i].legal == 0)
            cadre_terminal_printf(out, "on %lld ranks nothing can run: %s",
                                  (long long)points[i].ranks, points[i].best.refused);
    return whole;
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
