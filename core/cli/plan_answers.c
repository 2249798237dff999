/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/plan_ask.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/terminal.h"
#include "core/plan/answer/cost.h"
#include "core/plan/answer/growth.h"
#include "core/plan/answer/explain.h"
#include "core/plan/answer/fit.h"
#include "core/plan/answer/what_if.h"
#include "core/run/spec.h"

/* The one question; NULL for the list. */
static cadre_status find_question(const struct cadre_cli_args *args, const char **name,
                                  struct cadre_error *err)
{
    const struct {
        bool asked;
        const char *name;
    } all[] = {
        {args->plan.explain, "--explain"},
        {args->plan.what_if.n > 0, "--what-if"},
        {args->plan.fit, "--fit"},
        {args->plan.cost, "--cost"},
    };
    *name = NULL;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (!all[i].asked)
            continue;
        if (*name)
            return cadre_fail(err, CADRE_E_INVALID,
                              "%s and %s are two questions, expected one", *name,
                              all[i].name);
        *name = all[i].name;
    }
    if (args->plan.stack && !args->plan.fit)
        return cadre_fail(err, CADRE_E_INVALID, "--stack is for --fit alone");
    if ((args->tokens || args->plan.price) && !args->plan.cost)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--tokens and --price are for --cost alone");
    return CADRE_OK;
}

static cadre_status take_number(const char *name, const char *text, double most,
                                double *out, struct cadre_error *err)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value > 0) || value > most)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s is '%s', expected a number above 0 and at most %g", name,
                          text, most);
    *out = value;
    return CADRE_OK;
}

static cadre_status printed(bool whole, struct cadre_error *err)
{
    return whole ? CADRE_OK : cadre_no_memory(err, "a table");
}

static cadre_status explain(const struct cadre_plan_answers *a, struct cadre_error *err)
{
    struct cadre_explain e;
    CADRE_TRY(cadre_explain(&e, &a->search, a->args->plan.explain,
                            a->args->words.item[1], err));
    if (a->args->json)
        return cadre_explain_print_json(&e, stdout);
    cadre_explain_print(&e, stdout);
    return CADRE_OK;
}

static cadre_status what_if(const struct cadre_plan_answers *a, struct cadre_error *err)
{
    struct cadre_what_if *answer = NULL;
    size_t n = 0;
    cadre_status rc = cadre_what_if(&answer, &n, &a->search, &a->question, &a->hardware,
                                    a->args->plan.what_if.item, err);
    if (rc == CADRE_OK && a->args->json)
        rc = cadre_what_if_print_json(answer, n, stdout);
    else if (rc == CADRE_OK)
        rc = printed(cadre_what_if_print(answer, n, stdout), err);
    free(answer);
    return rc;
}

static cadre_status fit(const struct cadre_plan_answers *a, struct cadre_error *err)
{
    const char *stack = a->args->plan.stack;
    const struct cadre_plan_found *found =
        cadre_explain_find(&a->search, stack ? stack : "1");
    if (!found)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "no candidate '%s': expected a place from 1 to %zu or a stack "
            "of these ranks",
            stack ? stack : "1", a->search.n);
    if (found->forecast.step <= 0)
        return cadre_fail(err, CADRE_E_INVALID, "--fit: '%s' cannot run: %s",
                          stack ? stack : "1", found->refused);
    if (a->args->json)
        return cadre_fit_print_json(&a->search, found, &a->question, &a->hardware,
                                    stdout);
    return printed(
        cadre_fit_print(&a->search, found, &a->question, &a->hardware, stdout), err);
}

static cadre_status cost(const struct cadre_plan_answers *a, struct cadre_error *err)
{
    struct cadre_cost c = {.price_per_hour = a->hardware.device.price_per_hour};
    if (!a->args->tokens)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--cost: expected --tokens T, how many to train on");
    CADRE_TRY(take_number("--tokens", a->args->tokens, 1e18, &c.tokens, err));
    if (a->args->plan.price)
        CADRE_TRY(
            take_number("--price", a->args->plan.price, 1e6, &c.price_per_hour, err));
    if (a->args->json)
        return cadre_cost_print_json(&c, &a->search, &a->question, &a->intervals,
                                     stdout);
    return printed(cadre_cost_print(&c, &a->search, &a->question, &a->intervals,
                                    (size_t)a->top, stdout),
                   err);
}

void cadre_plan_own_print(const struct cadre_plan_answers *a, FILE *out)
{
    const struct cadre_plan_own *own = &a->own;
    if (!*own->stack)
        return;
    if (own->bytes == 0)
        cadre_terminal_printf(out, "the stack of the file, %s: refused: %s\n",
                              own->stack, own->refused);
    else
        cadre_terminal_printf(
            out,
            "the stack of the file, %s: %d ranks, step at least %.4g s (computing "
            "alone: what its plugins send and wait for is theirs to say), %.3f GiB on "
            "the largest rank%s%s\n",
            own->stack, own->ranks, own->step_at_least, own->bytes / 1073741824.0,
            *own->refused ? "; refused: " : "", own->refused);
}

/* The key "own" of the list. */
static void own_json(struct cadre_json *j, const void *answers)
{
    const struct cadre_plan_answers *a = answers;
    const struct cadre_plan_own *own = &a->own;
    cadre_json_put_bool(j, "plugins_asked", a->question.ranks <= CADRE_RUN_RANKS);
    cadre_json_key(j, "own");
    if (!*own->stack) {
        cadre_json_null(j);
        return;
    }
    cadre_json_begin_object(j);
    cadre_json_put_string(j, "stack", own->stack);
    cadre_json_put_string(j, "refused", *own->refused ? own->refused : NULL);
    cadre_json_put_i64(j, "ranks", own->ranks);
    cadre_json_put_f64(j, "bytes_asked", own->bytes > 0 ? own->bytes : NAN);
    cadre_json_put_f64(j, "step_at_least_s", own->bytes > 0 ? own->step_at_least : NAN);
    cadre_json_end_object(j);
}

cadre_status cadre_plan_answer(const struct cadre_plan_answers *a,
                               struct cadre_error *err)
{
    const struct cadre_cli_args *args = a->args;
    const char *name;
    CADRE_TRY(find_question(args, &name, err));
    if (args->plan.explain)
        return explain(a, err);
    if (args->plan.what_if.n > 0)
        return what_if(a, err);
    if (args->plan.fit)
        return fit(a, err);
    if (args->plan.cost)
        return cost(a, err);
    if (args->json)
        return cadre_plan_search_print_json(&a->search, &a->question, &a->hardware,
                                            &a->intervals, own_json, a, stdout);
    cadre_plan_own_print(a, stdout);
    CADRE_TRY(printed(cadre_plan_search_print(&a->search, &a->question, &a->hardware,
                                              &a->intervals, (size_t)a->top, stdout),
                      err));
    if (a->question.ranks > CADRE_RUN_RANKS)
        printf("\nplugins were not asked: Cadre runs %d ranks at most today\n",
               CADRE_RUN_RANKS);
    return CADRE_OK;
}

cadre_status cadre_plan_answer_curve(const struct cadre_plan_answers *a,
                                     const int64_t range[2], struct cadre_error *err)
{
    struct cadre_growth_point *points = calloc(CADRE_GROWTH_POINTS, sizeof *points);
    const char *name;
    size_t n = 0;
    if (!points)
        return cadre_no_memory(err, "a curve");
    cadre_status rc = find_question(a->args, &name, err);
    if (rc == CADRE_OK && (name || a->args->plan.emit))
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "--ranks FIRST..LAST is a curve alone: leave out %s",
                        name ? name : "--emit");
    if (rc == CADRE_OK)
        rc = cadre_growth(points, &n, a->question, range, &a->hardware, err);
    if (rc == CADRE_OK && a->args->json)
        rc = cadre_growth_print_json(points, n, &a->intervals, stdout);
    else if (rc == CADRE_OK)
        rc = printed(cadre_growth_print(points, n, &a->intervals, stdout), err);
    free(points);
    return rc;
}
