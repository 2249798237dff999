/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/answer/explain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/terminal.h"

static const double GIB = 1073741824.0;

/* Whether two stacks are the same but for blanks. */
static bool same_stack(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strspn(a, " ");
        b += strspn(b, " ");
        if (*a != *b)
            return false;
        if (!*a)
            return true;
    }
}

static const struct cadre_plan_found *at_place(const struct cadre_plan_search *search,
                                               const char *text)
{
    char *end;
    const unsigned long long place = strtoull(text, &end, 10);
    const bool there = *text != '-' && !*end && place >= 1 && place <= search->n;
    return there ? &search->found[place - 1] : NULL;
}

const struct cadre_plan_found *
cadre_explain_find(const struct cadre_plan_search *search, const char *text)
{
    const struct cadre_plan_found *refused = NULL;
    if (*text && strspn(text, "0123456789") == strlen(text))
        return at_place(search, text);
    for (size_t i = 0; i < search->n; i++) {
        const struct cadre_plan_found *f = &search->found[i];
        char stack[CADRE_CANDIDATE_STACK];
        cadre_candidate_stack(&f->candidate, stack, sizeof stack);
        if (!same_stack(stack, text))
            continue;
        if (!*f->refused)
            return f;
        const bool less = !refused || (f->footprint.total > 0 &&
                                       f->footprint.total < refused->footprint.total);
        refused = less ? f : refused;
    }
    return refused;
}

static cadre_status find(const struct cadre_plan_search *search, const char *text,
                         const struct cadre_plan_found **out, struct cadre_error *err)
{
    *out = cadre_explain_find(search, text);
    if (!*out)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "no candidate '%s': expected a place from 1 to %zu or a stack "
            "of these ranks, as strategy.stack has it; --top prints more",
            text, search->n);
    if ((*out)->forecast.step <= 0)
        return cadre_fail(err, CADRE_E_INVALID, "'%s' has no forecast: %s", text,
                          (*out)->refused);
    return CADRE_OK;
}

cadre_status cadre_explain(struct cadre_explain *explain,
                           const struct cadre_plan_search *search, const char *a,
                           const char *b, struct cadre_error *err)
{
    struct cadre_explain e = {0};
    CADRE_TRY(find(search, a, &e.a, err));
    CADRE_TRY(find(search, b, &e.b, err));
    if (e.a == e.b)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' and '%s' are the same candidate, expected two", a, b);
    e.place_a = (size_t)(e.a - search->found) + 1;
    e.place_b = (size_t)(e.b - search->found) + 1;
    e.difference = e.a->forecast.step - e.b->forecast.step;
    const double sign = e.difference < 0 ? -1 : 1;
    double most = -INFINITY;
    for (int i = 0; i < CADRE_PLAN_CAUSES; i++) {
        const double part = sign * (e.a->forecast.cause[i] - e.b->forecast.cause[i]);
        if (part > most) {
            most = part;
            e.decides = (enum cadre_plan_cause)i;
        }
    }
    *explain = e;
    return CADRE_OK;
}

static void print_head(const char *name, size_t place, const struct cadre_plan_found *f,
                       FILE *out)
{
    char stack[CADRE_CANDIDATE_STACK], form[CADRE_CANDIDATE_FORM];
    cadre_candidate_stack(&f->candidate, stack, sizeof stack);
    cadre_candidate_form(&f->candidate, form, sizeof form);
    cadre_terminal_printf(out, "%s  place %zu: %s; %s%s%s", name, place, stack, form,
                          *f->refused ? "; refused: " : "", f->refused);
}

static void print_line(const char *name, double a, double b, const char *unit,
                       FILE *out)
{
    fprintf(out, "%-12s %12.4f %12.4f %+12.4f %s\n", name, a, b, a - b, unit);
}

void cadre_explain_print(const struct cadre_explain *e, FILE *out)
{
    const double *a = e->a->forecast.cause, *b = e->b->forecast.cause;
    const double step_a = e->a->forecast.step, step_b = e->b->forecast.step;
    const double part = a[e->decides] - b[e->decides];
    fputs("forecast, not measured\n", out);
    print_head("A", e->place_a, e->a, out);
    print_head("B", e->place_b, e->b, out);
    fprintf(out, "\n%-12s %12s %12s %12s\n", "", "A", "B", "A - B");
    for (int i = 0; i < CADRE_PLAN_CAUSES; i++)
        print_line(cadre_plan_cause_name((enum cadre_plan_cause)i), a[i], b[i], "s",
                   out);
    print_line("step", step_a, step_b, "s", out);
    print_line("memory >=", e->a->footprint.total / GIB, e->b->footprint.total / GIB,
               "GiB", out);
    if (e->a->asked > 0 && e->b->asked > 0)
        print_line("plugins ask", e->a->asked / GIB, e->b->asked / GIB, "GiB", out);
    cadre_terminal_printf(
        out, "memory >=: by formulas, without scratch and messages; what plugins ask "
             "for is all that a run plans; neither counts the reserve");
    if (e->difference == 0)
        fputs("\nboth take as long\n", out);
    else
        cadre_terminal_printf(
            out,
            "\n%s is %.2f %% faster; %s decides: %+.4f s of the difference of %+.4f s",
            e->difference < 0 ? "A" : "B",
            100 * (fmax(step_a, step_b) / fmin(step_a, step_b) - 1),
            cadre_plan_cause_name(e->decides), part, e->difference);
}

static void put_side(struct cadre_json *j, const char *name,
                     const struct cadre_plan_found *f, size_t place)
{
    cadre_json_key(j, name);
    cadre_json_begin_object(j);
    cadre_json_put_i64(j, "place", (int64_t)place);
    cadre_plan_found_put(j, f);
    cadre_json_end_object(j);
}

cadre_status cadre_explain_print_json(const struct cadre_explain *e, FILE *out)
{
    struct cadre_json j;
    cadre_json_init(&j, out, true);
    cadre_json_begin_object(&j);
    cadre_json_put_head(&j, 1);
    cadre_json_put_string(&j, "engine", "analytic");
    cadre_json_put_bool(&j, "measured", false);
    put_side(&j, "a", e->a, e->place_a);
    put_side(&j, "b", e->b, e->place_b);
    cadre_json_put_f64(&j, "difference_s", e->difference);
    cadre_json_put_string(&j, "decides", cadre_plan_cause_name(e->decides));
    cadre_json_key(&j, "difference_by_cause");
    cadre_json_begin_object(&j);
    for (int i = 0; i < CADRE_PLAN_CAUSES; i++)
        cadre_json_put_f64(&j, cadre_plan_cause_name((enum cadre_plan_cause)i),
                           e->a->forecast.cause[i] - e->b->forecast.cause[i]);
    cadre_json_end_object(&j);
    cadre_json_end_object(&j);
    return cadre_json_finish(&j);
}
