/* SPDX-License-Identifier: Apache-2.0 */
/* report.csv, for spreadsheets and scripts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/compare/report/report.h"
#include "core/compare/verdict/consumption.h"
#include "core/compare/verdict/figures.h"
#include "core/page/escape.h"

static const char HEAD[] =
    "name,stack,ranks,threads,steps,tokens,time_s,"
    "step_s,step_s_low,step_s_high,tokens_per_s,"
    "speedup,speedup_low,speedup_high,speed_verdict,rounds,leading,"
    "efficiency,efficiency_low,efficiency_high,"
    "overhead_s,overhead_s_low,overhead_s_high,detectable,control,"
    "exact_price,exact_price_low,exact_price_high,"
    "loss_first,loss_last,valid_loss,loss_max_diff,param_max_diff,"
    "peak_bytes,comm_bytes,comm_exposed_s,comm_exposed_s_low,comm_exposed_s_high,"
    "bubble_fraction,bubble_fraction_low,bubble_fraction_high,bubble_replayed,"
    "step_bubble,step_replayed,params,"
    "equal,limit,fair,implausible,untimed,failure,"
    "j_per_token,mfu,hfu,price_per_million_tokens,loss_chain,param_hash,instances\r\n";

static void put_text(struct cadre_text *out, const char *text)
{
    cadre_text_append(out, ",", 1);
    cadre_escape_csv(out, text);
}

/* A number that reads back the same; empty where it is none. */
static void put_number(struct cadre_text *out, double value)
{
    if (isfinite(value))
        cadre_text_printf(out, ",%.17g", value);
    else
        cadre_text_append(out, ",", 1);
}

static void put_interval(struct cadre_text *out, double value,
                         const struct cadre_interval *figure)
{
    put_number(out, value);
    put_number(out, figure->low);
    put_number(out, figure->high);
}

/* "step_s" to "exact_price_high" */
static void put_speed(struct cadre_text *out, const struct cadre_comparison *c,
                      size_t i)
{
    const struct cadre_compared_run *run = &c->run[i];
    const struct cadre_speed_run *speed = &run->speed;
    put_interval(out, cadre_report_step_s(run), &speed->period_s);
    put_number(out, run->tokens_per_s);
    put_interval(out, speed->speedup.value, &speed->speedup);
    put_text(out, cadre_speed_verdict_name(speed->verdict));
    put_number(out, (double)cadre_report_rounds(c, i));
    put_text(out, speed->leading ? "true" : "false");
    put_interval(out, run->efficiency.value, &run->efficiency);
    put_interval(out, speed->overhead_s.value, &speed->overhead_s);
    put_number(out, speed->detectable);
    put_number(out, speed->control);
    struct cadre_interval price = {NAN, NAN, NAN};
    const ptrdiff_t plain = cadre_comparison_price(c, i, &price);
    if (plain < 0 || cadre_figures_price(c, i, (size_t)plain) == CADRE_SPEED_NOT_RANKED)
        price.value = NAN;
    put_interval(out, price.value,
                 isnan(price.value) ? &(struct cadre_interval){NAN, NAN, NAN} : &price);
}

/* "loss_first" to "params" */
static void put_training(struct cadre_text *out, const struct cadre_compared_run *run,
                         bool judged)
{
    const struct cadre_record *record = &run->record;
    const double params = cadre_record_number(record, "params");
    put_number(out, cadre_record_number(record, "loss_first"));
    put_number(out, cadre_record_number(record, "loss_last"));
    put_number(out, cadre_record_number(record, "valid_loss"));
    put_number(out, judged ? run->loss_max_diff : NAN);
    put_number(out, judged ? run->diff.of[0].max : NAN);
    put_number(out, cadre_record_largest(record, "peak_bytes"));
    put_number(out, cadre_record_number(record, "comm_bytes"));
    put_interval(out, cadre_report_exposed_s(run), &run->speed.comm_exposed_s);
    put_interval(out, cadre_report_bubble(run), &run->speed.bubble_fraction);
    put_number(out, run->bubble_replayed);
    put_number(out, run->step_bubble);
    put_number(out, run->step_replayed);
    put_number(out,
               isfinite(params) || run->params == 0 ? params : (double)run->params);
}

static void put_run(struct cadre_text *out, const struct cadre_comparison *c, size_t i)
{
    const struct cadre_compared_run *run = &c->run[i];
    const bool judged = cadre_report_is_judged(c, i);
    char hex[17];
    cadre_escape_csv(out, run->name);
    put_text(out, run->strategy);
    put_number(out, run->ranks);
    put_number(out, run->threads);
    put_number(out, (double)run->record.n);
    put_number(out, cadre_record_number(&run->record, "tokens"));
    put_number(out, cadre_record_number(&run->record, "time_s"));
    put_speed(out, c, i);
    put_training(out, run, judged);
    put_text(out, judged ? cadre_equal_name(run->equal) : "");
    put_text(out, judged ? cadre_limit_name(run->limit) : "");
    put_text(out, run->fair ? "true" : "false");
    put_text(out, run->implausible);
    put_text(out, run->untimed);
    put_text(out, run->failure);
    put_number(out, cadre_consumption_joules(c, i));
    put_number(out, cadre_consumption_mfu(run));
    put_number(out, cadre_consumption_hfu(run));
    put_number(out, cadre_consumption_price(run));
    put_text(out, judged ? cadre_hash_hex(run->chain, hex) : "");
    put_text(out, judged ? cadre_hash_hex(run->diff.of[0].hash, hex) : "");
    cadre_text_printf(out, ",%d\r\n", run->instances ? run->instances : 1);
}

void cadre_report_csv(const struct cadre_comparison *c, struct cadre_text *out)
{
    cadre_text_append(out, HEAD, sizeof HEAD - 1);
    for (size_t i = 0; i < c->n; i++)
        put_run(out, c, i);
}
