/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/answer/what_if.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/terminal.h"
#include "core/base/text_table.h"
#include "core/base/memory.h"

enum { ORDERED = 200 }; /* candidates whose order is compared: the best ones before */

/* Seconds of the first candidates once more, on another machine. */
static void count_overtaken(struct cadre_what_if *w,
                            const struct cadre_plan_search *search,
                            const struct cadre_plan_question *question,
                            const struct cadre_hardware *hw)
{
    double after[ORDERED];
    const size_t n = search->legal < ORDERED ? search->legal : ORDERED;
    for (size_t i = 0; i < n; i++)
        after[i] =
            cadre_forecast(&question->transformer, &search->found[i].candidate, hw)
                .step;
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++) {
            w->pairs++;
            w->overtaken += after[i] > after[k] && search->found[i].forecast.step <
                                                       search->found[k].forecast.step;
        }
}

/* Whether its plugins refused a candidate, or ask for bytes that are not there then. */
static bool is_refused(const struct cadre_plan_search *search,
                       const struct cadre_candidate *c, const struct cadre_hardware *hw)
{
    const double there =
        (hw->device.memory_gib - hw->device.reserve_gib) * 1073741824.0;
    for (size_t i = search->legal; i < search->n; i++) {
        const struct cadre_plan_found *f = &search->found[i];
        const bool asked =
            f->forecast.step > 0 && strncmp(f->refused, "needs at least", 14) != 0;
        if (asked && cadre_candidate_equal(&f->candidate, c))
            return f->asked <= 0 || f->asked > there;
    }
    return false;
}

static cadre_status answer(struct cadre_what_if *w,
                           const struct cadre_plan_search *search,
                           const struct cadre_plan_question *question,
                           const struct cadre_hardware *hw, struct cadre_error *err)
{
    struct cadre_plan_search then = {0};
    const struct cadre_plan_found *best = &search->found[0];
    CADRE_TRY(cadre_plan_search(&then, question, hw, err));
    cadre_status rc = CADRE_OK;
    size_t first = 0;
    while (first < then.legal && is_refused(search, &then.found[first].candidate, hw))
        first++;
    if (first == then.legal) {
        rc = cadre_fail(err, CADRE_E_INVALID, "--what-if %s: then nothing can run",
                        w->change ? w->change : "(all)");
    } else {
        w->before = best->forecast.step;
        w->after = cadre_forecast(&question->transformer, &best->candidate, hw).step;
        w->best = then.found[first];
        w->moved = !cadre_candidate_equal(&w->best.candidate, &best->candidate);
        count_overtaken(w, search, question, hw);
    }
    cadre_plan_search_fini(&then);
    return rc;
}

cadre_status cadre_what_if(struct cadre_what_if **out, size_t *n,
                           const struct cadre_plan_search *search,
                           const struct cadre_plan_question *question,
                           const struct cadre_hardware *hw, char *const *changes,
                           struct cadre_error *err)
{
    size_t count = 0;
    struct cadre_hardware all = *hw;
    while (changes[count])
        count++;
    if (search->legal == 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--what-if: no candidate can run, there is none to change");
    struct cadre_what_if *w = cadre_calloc(count + 1, sizeof *w);
    if (!w)
        return cadre_no_memory(err, "the answers");
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; i < count && rc == CADRE_OK; i++) {
        struct cadre_hardware one = *hw;
        w[i].change = changes[i];
        rc = cadre_hardware_change(&one, changes[i], err);
        if (rc == CADRE_OK)
            rc = cadre_hardware_change(&all, changes[i], err);
        if (rc == CADRE_OK)
            rc = answer(&w[i], search, question, &one, err);
    }
    if (rc == CADRE_OK && count > 1)
        rc = answer(&w[count++], search, question, &all, err);
    if (rc != CADRE_OK) {
        free(w);
        return rc;
    }
    *out = w;
    *n = count;
    return CADRE_OK;
}

static void add_answer(struct cadre_text_table *table, const struct cadre_what_if *w)
{
    char stack[CADRE_CANDIDATE_STACK], form[CADRE_CANDIDATE_FORM];
    cadre_candidate_stack(&w->best.candidate, stack, sizeof stack);
    cadre_candidate_form(&w->best.candidate, form, sizeof form);
    cadre_text_table_add(table, w->change ? w->change : "all together");
    cadre_text_table_addf(table, "%.4f", w->before);
    cadre_text_table_addf(table, "%.4f", w->after);
    cadre_text_table_addf(table, "%+.2f %%", 100 * (w->after / w->before - 1));
    cadre_text_table_addf(table, "%zu of %zu", w->overtaken, w->pairs);
    if (w->moved)
        cadre_text_table_addf(table, "%s; %s: %.4f s", stack, form,
                              w->best.forecast.step);
    else
        cadre_text_table_add(table, "the same");
}

bool cadre_what_if_print(const struct cadre_what_if *w, size_t n, FILE *out)
{
    static const char *const heads[] = {"change", "s before",     "s after",
                                        "",       "order turned", "then the best"};
    static const bool is_text[] = {true, false, false, false, false, true};
    struct cadre_text_table table = {
        .columns = sizeof heads / sizeof heads[0], .is_text = is_text, .wraps = true};
    cadre_terminal_printf(
        out, "forecast, not measured: the best candidate with the hardware changed");
    cadre_text_table_add_row(&table, heads);
    for (size_t i = 0; i < n; i++)
        add_answer(&table, &w[i]);
    const bool whole = cadre_text_table_write(&table, out);
    cadre_text_table_fini(&table);
    cadre_terminal_printf(
        out, "order turned: of the pairs among the first 200 candidates that run");
    return whole;
}

cadre_status cadre_what_if_print_json(const struct cadre_what_if *w, size_t n,
                                      FILE *out)
{
    struct cadre_json j;
    cadre_json_init(&j, out, true);
    cadre_json_begin_object(&j);
    cadre_json_put_head(&j, 1);
    cadre_json_put_string(&j, "engine", "analytic");
    cadre_json_put_bool(&j, "measured", false);
    cadre_json_key(&j, "what_if");
    cadre_json_begin_array(&j);
    for (size_t i = 0; i < n; i++) {
        cadre_json_begin_object(&j);
        cadre_json_put_string(&j, "change", w[i].change ? w[i].change : "all together");
        cadre_json_put_f64(&j, "before_s", w[i].before);
        cadre_json_put_f64(&j, "after_s", w[i].after);
        cadre_json_put_bool(&j, "best_moved", w[i].moved);
        cadre_json_put_i64(&j, "pairs_turned", (int64_t)w[i].overtaken);
        cadre_json_put_i64(&j, "pairs", (int64_t)w[i].pairs);
        cadre_json_key(&j, "best");
        cadre_json_begin_object(&j);
        cadre_plan_found_put(&j, &w[i].best);
        cadre_json_end_object(&j);
        cadre_json_end_object(&j);
    }
    cadre_json_end_array(&j);
    cadre_json_end_object(&j);
    return cadre_json_finish(&j);
}
