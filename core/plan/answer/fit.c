/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/answer/fit.h"

#include "core/base/json.h"
#include "core/base/terminal.h"
#include "core/base/text_table.h"

static const double GIB = 1073741824.0;

const char *cadre_fit_name(enum cadre_fit_kind kind)
{
    static const char *const names[] = {"layers", "channels", "context", "micro_batch"};
    return names[kind];
}

/* One step of a kind: what is tried is a multiple of it. */
static int64_t unit_of(enum cadre_fit_kind kind, const struct cadre_transformer *t,
                       const struct cadre_candidate *c)
{
    switch (kind) {
    case CADRE_FIT_LAYERS:
        return c->pipeline * c->chunks;
    case CADRE_FIT_CHANNELS:
        return t->channels / t->heads * (t->heads / t->kv_heads) * c->tensor;
    case CADRE_FIT_CONTEXT:
        return 64 * c->context;
    default:
        return 1;
    }
}

static int64_t value_of(enum cadre_fit_kind kind, const struct cadre_transformer *t,
                        const struct cadre_candidate *c)
{
    const int64_t values[] = {t->layers, t->channels, t->context, c->micro_batch};
    return values[kind];
}

/* The model and candidate with one size changed. */
static void change(enum cadre_fit_kind kind, int64_t value, struct cadre_transformer *t,
                   struct cadre_candidate *c)
{
    const int64_t head = t->channels / t->heads, group = t->heads / t->kv_heads;
    switch (kind) {
    case CADRE_FIT_LAYERS:
        t->layers = value;
        break;
    case CADRE_FIT_CHANNELS:
        t->hidden = (int64_t)((double)t->hidden / (double)t->channels * (double)value);
        for (int i = 0; i < t->n_adapters; i++) {
            t->adapter[i].in = t->adapter[i].in * value / t->channels;
            t->adapter[i].out = t->adapter[i].out * value / t->channels;
        }
        t->channels = value;
        t->heads = value / head;
        t->kv_heads = t->heads / group;
        break;
    case CADRE_FIT_CONTEXT:
        t->context = value;
        break;
    default:
        c->global_batch = c->global_batch / c->micro_batch * value;
        c->micro_batch = value;
    }
}

static bool fits(enum cadre_fit_kind kind, int64_t value,
                 const struct cadre_transformer *transformer,
                 const struct cadre_candidate *candidate,
                 const struct cadre_hardware *hw, struct cadre_fit *out)
{
    struct cadre_transformer t = *transformer;
    struct cadre_candidate c = *candidate;
    change(kind, value, &t, &c);
    const struct cadre_footprint f = cadre_footprint(&t, &c, hw);
    if (!cadre_footprint_fits(&f, hw))
        return false;
    out->most = value;
    out->parameters = cadre_transformer_parameters(&t);
    out->bytes = f.total;
    return true;
}

/* Memory grows with each size: halve between the largest that fits and the smallest
 * that does not. */
static void find_most(struct cadre_fit *out, enum cadre_fit_kind kind,
                      const struct cadre_transformer *t,
                      const struct cadre_candidate *c, const struct cadre_hardware *hw)
{
    const int64_t unit = unit_of(kind, t, c);
    int64_t low = 0, high = 1;
    const int64_t limit = (value_of(kind, t, c) / unit + 1) * 1024;
    while (high <= limit && fits(kind, high * unit, t, c, hw, out)) {
        low = high;
        high *= 2;
    }
    out->more = high > limit;
    while (!out->more && high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (fits(kind, middle * unit, t, c, hw, out))
            low = middle;
        else
            high = middle;
    }
}

void cadre_fit(struct cadre_fit out[CADRE_FIT_KINDS],
               const struct cadre_transformer *transformer,
               const struct cadre_candidate *candidate, const struct cadre_hardware *hw)
{
    for (int i = 0; i < CADRE_FIT_KINDS; i++) {
        const enum cadre_fit_kind kind = (enum cadre_fit_kind)i;
        out[i] = (struct cadre_fit){.now = value_of(kind, transformer, candidate)};
        find_most(&out[i], kind, transformer, candidate, hw);
    }
}

/* The form of a candidate's stack that needs least memory; itself where none needs
 * less. */
static const struct cadre_plan_found *smallest(const struct cadre_plan_search *search,
                                               const struct cadre_plan_found *of)
{
    const struct cadre_plan_found *least = of;
    for (size_t i = 0; i < search->n; i++) {
        const struct cadre_plan_found *f = &search->found[i];
        const bool same = f->candidate.tensor == of->candidate.tensor &&
                          f->candidate.pipeline == of->candidate.pipeline;
        if (same && f->footprint.total > 0 &&
            f->footprint.total < least->footprint.total)
            least = f;
    }
    return least;
}

static void add_fit(struct cadre_text_table *table, const char *name,
                    const struct cadre_fit *fit)
{
    cadre_text_table_add(table, name);
    cadre_text_table_addf(table, "%lld", (long long)fit->now);
    if (fit->most == 0) {
        cadre_text_table_add(table, "none fits");
        cadre_text_table_add(table, "-");
        cadre_text_table_add(table, "-");
        return;
    }
    cadre_text_table_addf(table, "%lld%s", (long long)fit->most,
                          fit->more ? " and more" : "");
    cadre_text_table_addf(table, "%.3f", fit->parameters / 1e9);
    cadre_text_table_addf(table, "%.1f", fit->bytes / GIB);
}

static bool print_form(const struct cadre_plan_found *f,
                       const struct cadre_plan_question *question,
                       const struct cadre_hardware *hw, FILE *out)
{
    static const char *const heads[] = {"", "now", "at most", "B parameters", "GiB >="};
    static const bool is_text[] = {true, false, false, false, false};
    const struct cadre_candidate *c = &f->candidate;
    struct cadre_text_table table = {
        .columns = sizeof heads / sizeof heads[0], .is_text = is_text, .wraps = true};
    struct cadre_fit fit[CADRE_FIT_KINDS];
    char stack[CADRE_CANDIDATE_STACK], form[CADRE_CANDIDATE_FORM];
    cadre_candidate_stack(c, stack, sizeof stack);
    cadre_candidate_form(c, form, sizeof form);
    cadre_fit(fit, &question->transformer, c, hw);
    cadre_terminal_printf(out, "\n%s; %s", stack, form);
    cadre_text_table_add_row(&table, heads);
    for (int i = 0; i < CADRE_FIT_KINDS; i++)
        add_fit(&table, cadre_fit_name((enum cadre_fit_kind)i), &fit[i]);
    const bool whole = cadre_text_table_write(&table, out);
    cadre_text_table_fini(&table);
    return whole;
}

bool cadre_fit_print(const struct cadre_plan_search *search,
                     const struct cadre_plan_found *found,
                     const struct cadre_plan_question *question,
                     const struct cadre_hardware *hw, FILE *out)
{
    const struct cadre_plan_found *least = smallest(search, found);
    cadre_terminal_printf(
        out,
        "forecast, not measured: the largest of each that is not known not to fit in "
        "%.1f GiB (%.4g less reserve_gib = %.4g), the others as they are",
        hw->device.memory_gib - hw->device.reserve_gib, hw->device.memory_gib,
        hw->device.reserve_gib);
    const bool whole = print_form(found, question, hw, out);
    return (least == found || print_form(least, question, hw, out)) && whole;
}

static void put_form(struct cadre_json *j, const struct cadre_plan_found *f,
                     const struct cadre_plan_question *question,
                     const struct cadre_hardware *hw)
{
    struct cadre_fit fit[CADRE_FIT_KINDS];
    cadre_fit(fit, &question->transformer, &f->candidate, hw);
    cadre_json_begin_object(j);
    cadre_plan_found_put(j, f);
    cadre_json_key(j, "at_most");
    cadre_json_begin_object(j);
    for (int i = 0; i < CADRE_FIT_KINDS; i++) {
        cadre_json_key(j, cadre_fit_name((enum cadre_fit_kind)i));
        cadre_json_begin_object(j);
        cadre_json_put_i64(j, "now", fit[i].now);
        cadre_json_put_i64(j, "most", fit[i].most);
        cadre_json_put_bool(j, "more", fit[i].more);
        cadre_json_put_f64(j, "parameters", fit[i].parameters);
        cadre_json_put_f64(j, "bytes_at_least", fit[i].bytes);
        cadre_json_end_object(j);
    }
    cadre_json_end_object(j);
    cadre_json_end_object(j);
}

cadre_status cadre_fit_print_json(const struct cadre_plan_search *search,
                                  const struct cadre_plan_found *found,
                                  const struct cadre_plan_question *question,
                                  const struct cadre_hardware *hw, FILE *out)
{
    const struct cadre_plan_found *least = smallest(search, found);
    struct cadre_json j;
    cadre_json_init(&j, out, true);
    cadre_json_begin_object(&j);
    cadre_json_put_head(&j, 1);
    cadre_json_put_string(&j, "engine", "analytic");
    cadre_json_put_bool(&j, "measured", false);
    cadre_json_key(&j, "fit");
    cadre_json_begin_array(&j);
    put_form(&j, found, question, hw);
    if (least != found)
        put_form(&j, least, question, hw);
    cadre_json_end_array(&j);
    cadre_json_end_object(&j);
    return cadre_json_finish(&j);
}
