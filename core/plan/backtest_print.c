/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/base/json.h"
#include "core/plan/backtest.h"

/* Of a row, without the errors of its own set. */
static struct cadre_plan_interval interval_of(const struct cadre_intervals *intervals,
                                              const struct cadre_backtest_row *row)
{
    return cadre_interval_of(intervals, row->forecast.step,
                             row->published.candidate.zero >= 3, row->published.set);
}

static bool covers(const struct cadre_plan_interval *v,
                   const struct cadre_backtest_row *row)
{
    return row->published.seconds >= v->low && row->published.seconds <= v->high;
}

static void print_row(const struct cadre_backtest_row *row,
                      const struct cadre_intervals *intervals, FILE *out)
{
    const struct cadre_published *p = &row->published;
    const struct cadre_candidate *c = &p->candidate;
    if (row->refused)
        return;
    fprintf(out,
            "%-8s %-20.20s %5lld %3lld %3lld %2lld %2lld %4lld%s %4lld%s %-9s "
            "%10.4g %10.4g %+6.1f %%",
            p->set, p->model, (long long)cadre_candidate_ranks(c), (long long)c->tensor,
            (long long)c->pipeline, (long long)c->context, (long long)c->zero,
            (long long)c->chunks, p->chunks_given ? " " : "~",
            (long long)c->micro_batch, p->micro_batch_given ? " " : "~",
            cadre_plan_recompute_name(c->recompute), p->value, row->predicted,
            100 * row->error);
    const struct cadre_plan_interval v = interval_of(intervals, row);
    if (v.rows)
        fprintf(out, " +-%5.1f %%%s", 100 * (v.high / row->forecast.step - 1),
                covers(&v, row) ? "" : " !");
    fprintf(out, "%s%s%s\n", row->foreign ? " *" : "", *p->assumed ? " ~ " : "",
            p->assumed);
}

/* How many rows lie in their interval. */
static void print_covered(const struct cadre_backtest *backtest,
                          const struct cadre_intervals *intervals, FILE *out)
{
    size_t covered = 0, rows = 0;
    for (size_t i = 0; i < backtest->n; i++) {
        const struct cadre_backtest_row *row = &backtest->row[i];
        if (row->refused)
            continue;
        const struct cadre_plan_interval v = interval_of(intervals, row);
        rows += v.rows > 0;
        covered += v.rows && covers(&v, row);
    }
    if (rows)
        fprintf(out,
                "%zu of %zu rows lie in their interval, which is made for %.0f %% of "
                "them without the errors of their own set\n",
                covered, rows, 100 * CADRE_INTERVAL_PART);
}

void cadre_backtest_print(const struct cadre_backtest *backtest,
                          const struct cadre_intervals *intervals, FILE *out)
{
    size_t refused = 0;
    fputs("set      model                 GPUs  tp  pp cp ze chunk micro recompute  "
          "published  predicted  error of the time, interval\n",
          out);
    for (size_t i = 0; i < backtest->n; i++) {
        print_row(&backtest->row[i], intervals, out);
        refused += backtest->row[i].refused != NULL;
    }
    fputs(
        "~ not printed, chosen by the rule of docs/planning.md   * Cadre cannot run "
        "it (selective recompute, fp8): modelled all the same   ! not in its "
        "interval\n\n"
        "set              rows refused   mape    max  constant: mape    max   skill\n",
        out);
    for (size_t i = 0; i < backtest->n_sets; i++) {
        const struct cadre_backtest_set *s = &backtest->set[i];
        fprintf(out, "%-16s %4zu %7zu %6.2f %6.2f %15.2f %6.2f %7.2f\n", s->name,
                s->rows, s->refused, 100 * s->mape, 100 * s->max,
                100 * s->constant_mape, 100 * s->constant_max, s->skill);
    }
    print_covered(backtest, intervals, out);
    if (refused)
        fputs("\nrefused:\n", out);
    for (size_t i = 0; i < backtest->n; i++)
        if (backtest->row[i].refused)
            fprintf(out, "line %d, %s %s: %s\n", backtest->row[i].line,
                    backtest->row[i].published.set, backtest->row[i].published.model,
                    backtest->row[i].refused);
}

static void put_forecast(struct cadre_json *j, const struct cadre_backtest_row *row,
                         const struct cadre_intervals *intervals)
{
    const struct cadre_plan_interval v = interval_of(intervals, row);
    const struct cadre_candidate *c = &row->published.candidate;
    cadre_json_put_string(j, "hardware", row->hardware);
    cadre_json_put_i64(j, "tensor", c->tensor);
    cadre_json_put_i64(j, "pipeline", c->pipeline);
    cadre_json_put_i64(j, "context", c->context);
    cadre_json_put_i64(j, "data", c->data);
    cadre_json_put_i64(j, "zero", c->zero);
    cadre_json_put_i64(j, "global_batch", c->global_batch);
    cadre_json_put_string(j, "recompute", cadre_plan_recompute_name(c->recompute));
    cadre_json_put_string(j, "dtype", cadre_plan_dtype_name(c->dtype));
    cadre_json_put_string(j, "assumed", row->published.assumed);
    cadre_json_put_i64(j, "micro_batch", c->micro_batch);
    cadre_json_put_bool(j, "micro_batch_given", row->published.micro_batch_given);
    cadre_json_put_i64(j, "chunks", c->chunks);
    cadre_json_put_bool(j, "chunks_given", row->published.chunks_given);
    cadre_json_put_bool(j, "sequence_parallel", c->sequence_parallel);
    cadre_json_put_bool(j, "cadre_runs_it", !row->foreign);
    cadre_json_put_f64(j, "predicted", row->predicted);
    cadre_json_put_f64(j, "error", row->error);
    cadre_json_put_f64(j, "published_s", row->published.seconds);
    cadre_json_put_f64(j, "predicted_s", row->forecast.step);
    cadre_json_put_f64(j, "low_s", v.rows ? v.low : NAN);
    cadre_json_put_f64(j, "high_s", v.rows ? v.high : NAN);
    cadre_json_key(j, "seconds");
    cadre_json_begin_object(j);
    for (int i = 0; i < CADRE_PLAN_CAUSES; i++)
        cadre_json_put_f64(j, cadre_plan_cause_name((enum cadre_plan_cause)i),
                           row->forecast.cause[i]);
    cadre_json_end_object(j);
    cadre_json_put_f64(j, "bytes_at_least", row->footprint.total);
    cadre_json_put_bool(j, "fits", row->fits);
}

static void put_row(struct cadre_json *j, const struct cadre_backtest_row *row,
                    const struct cadre_intervals *intervals)
{
    const struct cadre_published *p = &row->published;
    cadre_json_begin_object(j);
    cadre_json_put_i64(j, "line", row->line);
    cadre_json_put_string(j, "set", p->set);
    cadre_json_put_string(j, "source", p->source);
    cadre_json_put_string(j, "hw", p->hw);
    cadre_json_put_string(j, "model", p->model);
    cadre_json_put_string(j, "metric", p->metric_name);
    cadre_json_put_string(j, "refused", row->refused);
    if (!row->refused) {
        cadre_json_put_i64(j, "gpus", cadre_candidate_ranks(&p->candidate));
        cadre_json_put_f64(j, "published", p->value);
        put_forecast(j, row, intervals);
    }
    cadre_json_end_object(j);
}

cadre_status cadre_backtest_print_json(const struct cadre_backtest *backtest,
                                       const struct cadre_intervals *intervals,
                                       FILE *out)
{
    struct cadre_json j;
    cadre_json_init(&j, out, true);
    cadre_json_begin_object(&j);
    cadre_json_put_head(&j, 1);
    cadre_json_put_string(&j, "engine", "analytic");
    cadre_json_key(&j, "sets");
    cadre_json_begin_array(&j);
    for (size_t i = 0; i < backtest->n_sets; i++) {
        const struct cadre_backtest_set *s = &backtest->set[i];
        cadre_json_begin_object(&j);
        cadre_json_put_string(&j, "set", s->name);
        cadre_json_put_i64(&j, "rows", (int64_t)s->rows);
        cadre_json_put_i64(&j, "refused", (int64_t)s->refused);
        cadre_json_put_f64(&j, "mape", s->rows ? 100 * s->mape : NAN);
        cadre_json_put_f64(&j, "max", s->rows ? 100 * s->max : NAN);
        cadre_json_put_f64(&j, "constant_mape", s->rows ? 100 * s->constant_mape : NAN);
        cadre_json_put_f64(&j, "constant_max", s->rows ? 100 * s->constant_max : NAN);
        cadre_json_put_f64(&j, "skill", s->skill);
        cadre_json_end_object(&j);
    }
    cadre_json_end_array(&j);
    cadre_json_key(&j, "rows");
    cadre_json_begin_array(&j);
    for (size_t i = 0; i < backtest->n; i++)
        put_row(&j, &backtest->row[i], intervals);
    cadre_json_end_array(&j);
    cadre_json_end_object(&j);
    return cadre_json_finish(&j);
}
