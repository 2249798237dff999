/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/condition.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/compare/verdict/figures.h"
#include "core/config/nearest.h"

static const char *const names[CADRE_CONDITION_FIGURES] = {
    "speedup", "efficiency", "overhead", "price", "bubble", "exposed"};

/* ---- reading ---- */

static const char *skip_blanks(const char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

static cadre_status refuse(const char *text, const char *found, struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_INVALID,
                      "--fail-if '%s': expected FIGURE(RUN) < NUMBER (or <=, >, >=), "
                      "such as 'speedup(zero) < 0.9', found '%s'",
                      text, found);
}

static cadre_status find_figure(const char *text, const char *word,
                                struct cadre_condition *out, struct cadre_error *err)
{
    struct cadre_nearest nearest = {0};
    for (int k = 0; k < CADRE_CONDITION_FIGURES; k++) {
        out->figure = (enum cadre_condition_figure)k;
        if (strcmp(word, names[k]) == 0)
            return CADRE_OK;
        cadre_nearest_offer(&nearest, word, names[k]);
    }
    return cadre_fail(err, CADRE_E_INVALID,
                      "--fail-if '%s': no figure '%s'%s%s%s; expected speedup, "
                      "efficiency, overhead, price, bubble or exposed",
                      text, word, nearest.name ? ", did you mean '" : "",
                      nearest.name ? nearest.name : "", nearest.name ? "'" : "");
}

static cadre_status find_run(const char *text, const char *word,
                             const struct cadre_comparison *c,
                             struct cadre_condition *out, struct cadre_error *err)
{
    struct cadre_nearest nearest = {0};
    struct cadre_text all = {0};
    for (size_t i = 0; i < c->n; i++) {
        out->run = i;
        if (strcmp(word, c->run[i].name) == 0) {
            cadre_text_fini(&all);
            return CADRE_OK;
        }
        cadre_nearest_offer(&nearest, word, c->run[i].name);
        cadre_text_printf(&all, "%s%s", i ? ", " : "", c->run[i].name);
    }
    cadre_status rc = cadre_fail(err, CADRE_E_INVALID,
                                 "--fail-if '%s': no run '%s'%s%s%s; the runs are %s",
                                 text, word, nearest.name ? ", did you mean '" : "",
                                 nearest.name ? nearest.name : "",
                                 nearest.name ? "'" : "", cadre_text_str(&all));
    cadre_text_fini(&all);
    return rc;
}

/* "< 0.9", ">= 90 %" */
static cadre_status read_limit(const char *text, const char *at,
                               struct cadre_condition *out, struct cadre_error *err)
{
    const char *from = at = skip_blanks(at);
    char *end;
    if (*at != '<' && *at != '>')
        return refuse(text, from, err);
    out->above = *at++ == '>';
    out->or_equal = *at == '=';
    at += out->or_equal;
    out->limit = strtod(at, &end);
    if (end == at || !isfinite(out->limit))
        return refuse(text, from, err);
    at = skip_blanks(end);
    if (*at == '%') {
        out->limit /= 100;
        at = skip_blanks(at + 1);
    }
    return *at ? refuse(text, from, err) : CADRE_OK;
}

/* A run without exact mode, or without its like, has no price. */
static cadre_status check_price(const struct cadre_condition *condition,
                                const struct cadre_comparison *c,
                                struct cadre_error *err)
{
    struct cadre_interval price;
    if (condition->figure != CADRE_CONDITION_PRICE ||
        cadre_comparison_price(c, condition->run, &price) >= 0)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "--fail-if '%s': run %s has no price: expected a run with "
                      "run.exact = yes beside one that differs in nothing else",
                      condition->text, c->run[condition->run].name);
}

cadre_status cadre_condition_parse(const char *text, const struct cadre_comparison *c,
                                   struct cadre_condition *out, struct cadre_error *err)
{
    const char *begin = skip_blanks(text), *open = strchr(begin, '(');
    const char *close = open ? strrchr(open, ')') : NULL;
    *out = (struct cadre_condition){.text = text};
    if (!close)
        return refuse(text, begin, err);
    char *figure = cadre_strndup(begin, (size_t)(open - begin));
    char *run = cadre_strndup(open + 1, (size_t)(close - open - 1));
    cadre_status rc = CADRE_OK;
    if (!figure || !run)
        rc = cadre_no_memory(err, "a condition");
    if (rc == CADRE_OK)
        rc = find_figure(text, cadre_strip(figure), out, err);
    if (rc == CADRE_OK)
        rc = find_run(text, cadre_strip(run), c, out, err);
    if (rc == CADRE_OK)
        rc = read_limit(text, close + 1, out, err);
    if (rc == CADRE_OK)
        rc = check_price(out, c, err);
    free(figure);
    free(run);
    return rc;
}

/* ---- judging ---- */

/* Take in `none`, the value where there is no difference. */
static void widen(struct cadre_interval *figure, double none)
{
    figure->low = fmin(figure->low, none);
    figure->high = fmax(figure->high, none);
}

/* The price and the verdict on it. */
static enum cadre_speed_verdict price_of(const struct cadre_comparison *c, size_t run,
                                         struct cadre_interval *price)
{
    ptrdiff_t plain = cadre_comparison_price(c, run, price);
    return plain < 0 ? CADRE_SPEED_NOT_RANKED
                     : cadre_figures_price(c, run, (size_t)plain);
}

/* The figure with its interval as the verdict allows to read it; false if nothing is
 * known. */
static bool figure_of(const struct cadre_condition *condition,
                      const struct cadre_comparison *c, struct cadre_interval *figure)
{
    const struct cadre_compared_run *run = &c->run[condition->run];
    const double base_s = c->run[c->baseline].speed.period_s.value;
    enum cadre_speed_verdict verdict = run->speed.verdict;
    const double none[CADRE_CONDITION_FIGURES] = {
        1, 1 / run->N, base_s * (1 - 1 / run->N), 0, NAN, NAN};
    *figure = (struct cadre_interval){NAN, NAN, NAN};
    switch (condition->figure) {
    case CADRE_CONDITION_SPEEDUP:
        *figure = run->speed.speedup;
        break;
    case CADRE_CONDITION_EFFICIENCY:
        *figure = run->efficiency;
        break;
    case CADRE_CONDITION_OVERHEAD:
        *figure = run->speed.overhead_s;
        break;
    case CADRE_CONDITION_PRICE:
        verdict = price_of(c, condition->run, figure);
        break;
    case CADRE_CONDITION_BUBBLE:
        *figure = run->speed.bubble_fraction;
        break;
    default:
        *figure = run->speed.comm_exposed_s;
        break;
    }
    if (verdict == CADRE_SPEED_NO_DIFFERENCE && isfinite(figure->low))
        widen(figure, none[condition->figure]); /* not by NaN */
    return cadre_figures_ranked(run) && verdict != CADRE_SPEED_NOT_RANKED &&
           isfinite(figure->low) && isfinite(figure->high);
}

static bool holds(const struct cadre_condition *condition, double value)
{
    if (value == condition->limit)
        return condition->or_equal;
    return (value > condition->limit) == condition->above;
}

enum cadre_condition_result
cadre_condition_judge(const struct cadre_condition *condition,
                      const struct cadre_comparison *c, struct cadre_interval *figure)
{
    struct cadre_interval looked_at;
    bool known = figure_of(condition, c, &looked_at);
    if (figure)
        *figure = looked_at;
    if (!known)
        return CADRE_CONDITION_UNDECIDED;
    bool low = holds(condition, looked_at.low), high = holds(condition, looked_at.high);
    return low != high ? CADRE_CONDITION_UNDECIDED
           : low       ? CADRE_CONDITION_YES
                       : CADRE_CONDITION_NO;
}

/* "speedup(zero) is 0.85 [0.83, 0.87]" */
static void describe(const struct cadre_condition *condition,
                     const struct cadre_comparison *c,
                     const struct cadre_interval *figure, char *out, size_t size)
{
    const struct cadre_compared_run *run = &c->run[condition->run];
    const char *name = names[condition->figure];
    if (isfinite(figure->low) && isfinite(figure->high) && cadre_figures_ranked(run))
        snprintf(out, size, "%s(%.60s) is %.4g [%.4g, %.4g]", name, run->name,
                 figure->value, figure->low, figure->high);
    else if (cadre_figures_ranked(run))
        snprintf(out, size, "%s(%.60s) has no interval", name, run->name);
    else
        snprintf(out, size, "%s(%.60s) is not ranked", name, run->name);
}

cadre_status cadre_conditions_check(const struct cadre_condition *conditions, size_t n,
                                    const struct cadre_comparison *c,
                                    struct cadre_text *lines, struct cadre_error *err)
{
    static const char *const words[] = {"does not hold", "is undecided", "holds"};
    static const cadre_status codes[] = {CADRE_OK, CADRE_E_UNDECIDED,
                                         CADRE_E_CONDITION};
    enum cadre_condition_result worst = CADRE_CONDITION_NO;
    for (size_t i = 0; i < n; i++) {
        struct cadre_interval figure;
        char text[256];
        enum cadre_condition_result result =
            cadre_condition_judge(&conditions[i], c, &figure);
        describe(&conditions[i], c, &figure, text, sizeof text);
        cadre_text_printf(lines, "--fail-if '%s' %s: %s.\n", conditions[i].text,
                          words[result], text);
        if (result > worst) {
            worst = result;
            cadre_fail(err, codes[result], "--fail-if '%s' %s: %s", conditions[i].text,
                       words[result], text);
        }
    }
    return codes[worst];
}
