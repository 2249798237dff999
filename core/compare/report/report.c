/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences and notes of all forms of the report, and its files. */
#include "core/compare/report/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "core/compare/verdict/certificate.h"

static const double SAME_TIME =
    0.01; /* differences below this fraction are not resolved by timing */

const char *cadre_report_where(const struct cadre_comparison *c)
{
    return c->whole ? CADRE_FORMULA_WHOLE : CADRE_FORMULA_WHERE;
}

void cadre_report_equality(const struct cadre_comparison *c, size_t i, char *out,
                           size_t size)
{
    const struct cadre_compared_run *run = &c->run[i];
    const struct cadre_margin *loss = &run->margin[CADRE_QUANTITY_LOSS];
    if (i == c->baseline)
        snprintf(out, size, "baseline");
    else if (run->equal == CADRE_EQUAL_WITHIN)
        snprintf(out, size, "within (%.1e of %.1e)%s%s", loss->diff, loss->limit,
                 run->bit_identical < 0 ? "" : ", bits of ",
                 run->bit_identical < 0 ? "" : c->run[run->bit_identical].name);
    else
        snprintf(out, size, "%s%s", cadre_equal_name(run->equal),
                 run->by_design ? " by design" : "");
}

/* The fastest run that trained the same as the baseline, other than `leave_out`. */
static size_t fastest(const struct cadre_comparison *c, size_t leave_out)
{
    size_t best = c->n;
    for (size_t i = 0; i < c->n; i++) {
        bool counts = i != leave_out && (c->run[i].equal == CADRE_EQUAL_EXACT ||
                                         c->run[i].equal == CADRE_EQUAL_WITHIN);
        if (counts && (best == c->n || c->run[i].step_s < c->run[best].step_s))
            best = i;
    }
    return best;
}

/* "name (strategy)", or only the name if the strategy has the same one. */
static void put_run(struct cadre_text *out, const struct cadre_compared_run *run)
{
    cadre_text_printf(out, "%s", run->name);
    if (strcmp(run->name, run->strategy) != 0)
        cadre_text_printf(out, " (%s)", run->strategy);
}

static void say_who_was_faster(const struct cadre_comparison *c, struct cadre_text *out)
{
    const struct cadre_compared_run *base = &c->run[c->baseline];
    size_t best = fastest(c, c->baseline);
    if (best == c->n)
        return;
    const struct cadre_compared_run *run = &c->run[best];
    bool same = fabs(run->speed.speedup.value -
                     1)<SAME_TIME, faster = run->speed.speedup.value> 1;
    put_run(out, same || !faster ? base : run);
    if (same) {
        cadre_text_printf(out, " and ");
        put_run(out, run);
        cadre_text_printf(out, " took the same time a step.\n");
    } else if (faster) {
        cadre_text_printf(out, " was fastest: %.2f times as fast as ",
                          run->speed.speedup.value);
        put_run(out, base);
        cadre_text_printf(out, ", efficiency %.0f %% on %d rank%s%s.\n",
                          100 * run->efficiency.value, run->ranks,
                          run->ranks == 1 ? "" : "s", run->fair ? "" : " (unfair)");
    } else {
        cadre_text_printf(out, " was fastest: the next, ");
        put_run(out, run);
        cadre_text_printf(out, ", took %.2f times as long a step.\n",
                          1 / run->speed.speedup.value);
    }
}

static void say_who_was_equal(const struct cadre_comparison *c, struct cadre_text *out)
{
    size_t exact = 0, within = 0, others = 0;
    double largest = 0;
    for (size_t i = 0; i < c->n; i++) {
        const struct cadre_compared_run *run = &c->run[i];
        if (i == c->baseline)
            continue;
        exact += run->equal == CADRE_EQUAL_EXACT;
        within += run->equal == CADRE_EQUAL_WITHIN;
        others += run->equal == CADRE_EQUAL_INDEPENDENT || run->by_design;
        if (run->equal == CADRE_EQUAL_WITHIN)
            largest = fmax(largest, run->loss_max_diff);
        if (run->by_design) {
            put_run(out, run);
            cadre_text_printf(out, " differs from %s by design: %s.\n",
                              c->run[c->baseline].name, run->why);
        } else if (run->equal == CADRE_EQUAL_DIFFERS) {
            put_run(out, run);
            cadre_text_printf(out, " did NOT train the same as %s: %s.\n",
                              c->run[c->baseline].name, run->why);
        }
    }
    if (cadre_comparison_differing(c) || exact + within == 0)
        return;
    const char *whom = others ? "The runs of the same training" : "All runs";
    if (within == 0)
        cadre_text_printf(out, "%s trained the same, to the last bit.\n", whom);
    else if (c->judged_steps < cadre_comparison_last_step(c))
        cadre_text_printf(out,
                          "%s trained the same up to step %" PRId64
                          ", the last one judged: within the limits.\n",
                          whom, c->judged_steps);
    else
        cadre_text_printf(out,
                          "%s trained the same: losses differ from the baseline's by "
                          "%.1e at most, and they, gradient norms, parameters and "
                          "optimizer states stay inside their limits.\n",
                          whom, largest);
}

static void say_who_has_the_same_bits(const struct cadre_comparison *c,
                                      struct cadre_text *out)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->run[i].bit_identical >= 0)
            cadre_text_printf(out, "%s and %s are the same to the last bit.\n",
                              c->run[c->run[i].bit_identical].name, c->run[i].name);
}

static void say_what_exact_costs(const struct cadre_comparison *c,
                                 struct cadre_text *out)
{
    for (size_t i = 0; i < c->n; i++) {
        struct cadre_interval price;
        ptrdiff_t plain = cadre_comparison_price(c, i, &price);
        if (plain >= 0 && !isfinite(price.low))
            cadre_text_printf(out,
                              "Exact mode costs %.1f %% in single runs, apart in time: "
                              "not ranked (%s against %s).\n",
                              100 * price.value, c->run[i].name, c->run[plain].name);
        else if (plain >= 0)
            cadre_text_printf(out,
                              "Exact mode costs %.1f %% +- %.1f %% (%s against %s).\n",
                              100 * price.value, 50 * (price.high - price.low),
                              c->run[i].name, c->run[plain].name);
    }
}

static void say_what_instances_did(const struct cadre_comparison *c,
                                   struct cadre_text *out)
{
    const struct cadre_compared_run *base = &c->run[c->baseline];
    for (size_t i = 0; i < c->n; i++) {
        const struct cadre_compared_run *run = &c->run[i];
        if (!run->instances || run == base)
            continue;
        cadre_text_printf(out,
                          "%s: %d independent runs, together %.2f times the tokens "
                          "per second of ",
                          run->name, run->instances,
                          run->tokens_per_s / base->tokens_per_s);
        put_run(out, base);
        cadre_text_printf(out, ".\n");
    }
}

void cadre_report_sentences(const struct cadre_comparison *c, struct cadre_text *out)
{
    say_who_was_faster(c, out);
    say_what_instances_did(c, out);
    say_who_was_equal(c, out);
    say_who_has_the_same_bits(c, out);
    say_what_exact_costs(c, out);
}

static void note_measured(const struct cadre_comparison *c, struct cadre_text *out)
{
    size_t moved = 0;
    cadre_text_printf(out,
                      "Limits are measured: %.3g times what rounding changes in "
                      "%zu more runs of %s (",
                      c->factor, c->n_perturbations, c->run[c->baseline].name);
    for (size_t p = 0; p < c->n_perturbations; p++)
        if (c->perturbation[p].micro_batch)
            cadre_text_printf(out, "with train.micro_batch = %" PRId64,
                              c->perturbation[p].micro_batch);
        else
            moved++;
    if (moved)
        cadre_text_printf(out,
                          "%s%zu from parameters moved by one unit in the last "
                          "place",
                          moved < c->n_perturbations ? ", and " : "", moved);
    cadre_text_printf(out,
                      "). They took %.1f s; compare.perturb = no leaves them out.\n",
                      cadre_comparison_perturbed_s(c));
}

static void note_limits(const struct cadre_comparison *c, struct cadre_text *out)
{
    bool measured = false, stated = false;
    for (size_t i = 0; i < c->n; i++) {
        if (i == c->baseline)
            continue;
        measured = measured || c->run[i].limit == CADRE_LIMIT_MEASURED;
        stated = stated || c->run[i].limit == CADRE_LIMIT_STATED;
    }
    if (measured)
        note_measured(c, out);
    if (measured && cadre_comparison_is_chaotic(c))
        cadre_text_printf(out,
                          "Equality is judged up to step %" PRId64
                          ": after it this training is chaotic, and limits let pass "
                          "1 %% of a loss or 10 %% of a norm.\n",
                          c->judged_steps);
    if (stated)
        cadre_text_printf(out,
                          "Limits are stated, not measured: at step k, %seps k of the "
                          "value, and only the first %" PRId64
                          " steps are judged%s%s.\n",
                          c->run[c->baseline].coarse > 0 ? "" : "64 ", c->judged_steps,
                          *c->note ? "; " : "", c->note);
}

/* Hosts of a run as one text. */
static void put_hosts(const struct cadre_compared_run *run, struct cadre_text *out)
{
    const json_t *hosts = cadre_record_hosts(&run->record);
    size_t n = json_array_size(hosts), shown = n > 4 ? 3 : n;
    for (size_t i = 0; i < shown; i++)
        cadre_text_printf(out, "%s%s", i ? ", " : "",
                          json_string_value(json_array_get(hosts, i)));
    if (shown < n)
        cadre_text_printf(out, " and %zu more", n - shown);
}

/* Runs started by others may have had other hosts: on one kind of processor that is
 * fair, and noted. */
static void note_hosts(const struct cadre_comparison *c, struct cadre_text *out)
{
    const json_t *first = cadre_record_hosts(&c->run[c->baseline].record);
    bool elsewhere = false;
    for (size_t i = 0; i < c->n; i++) {
        const json_t *hosts = cadre_record_hosts(&c->run[i].record);
        elsewhere = elsewhere || (first && hosts && !json_equal(first, hosts));
    }
    for (size_t i = 0; elsewhere && i < c->n; i++) {
        cadre_text_printf(out, "%s%s on ",
                          i ? "; " : "The runs had other hosts: ", c->run[i].name);
        put_hosts(&c->run[i], out);
    }
    if (elsewhere)
        cadre_text_printf(out, ".\n");
}

void cadre_report_notes(const struct cadre_comparison *c, struct cadre_text *out)
{
    if (cadre_comparison_has_instances(c))
        cadre_text_printf(out, "%s.\n", CADRE_FORMULA_SWEEP);
    note_limits(c, out);
    note_hosts(c, out);
    for (size_t i = 0; i < c->n; i++) {
        const struct cadre_compared_run *run = &c->run[i];
        if (!run->fair)
            cadre_text_printf(out, "fair: false for %s: %s.\n", run->name, run->unfair);
        if (run->schedule.n > 0)
            cadre_text_printf(
                out,
                "%s: bubble %.1f %% of the schedule's span, %.1f %% where its passes "
                "are replayed without delays.\n",
                run->name, 100 * cadre_record_number(&run->record, "bubble_fraction"),
                100 * run->bubble_replayed);
        const char *restarted = cadre_record_restarted(&run->record);
        if (restarted)
            cadre_text_printf(
                out,
                "%s lost ranks and continued with %s, so its times are not "
                "those of %s alone.\n",
                run->name, restarted, run->strategy);
        if (run->simulated_link)
            cadre_text_printf(out, "%s ran over a simulated link (comm.link).\n",
                              run->name);
        if (run->instances)
            cadre_text_printf(
                out,
                "%s is %d trainings, which are compared with nothing; its "
                "losses are those of the best, instance %zu.\n",
                run->name, run->instances, run->record.best);
        if (run->equal == CADRE_EQUAL_INDEPENDENT && *run->other_training)
            cadre_text_printf(out,
                              "%s is another training and is not compared with the "
                              "baseline; it differs in %s.\n",
                              run->name, run->other_training);
    }
}

static cadre_status write_text(const char *dir, const char *name,
                               const struct cadre_text *text, struct cadre_error *err)
{
    char *path = cadre_path_join(dir, name);
    cadre_status rc;
    if (path && !text->failed)
        rc = cadre_path_write_file(path, cadre_text_str(text), text->len, err);
    else
        rc = cadre_no_memory(err, "%s", name);
    free(path);
    return rc;
}

static cadre_status
write_one(const struct cadre_comparison *c, const char *dir, const char *name,
          void (*form)(const struct cadre_comparison *, struct cadre_text *),
          struct cadre_error *err)
{
    struct cadre_text text = {0};
    form(c, &text);
    cadre_status rc = write_text(dir, name, &text, err);
    cadre_text_fini(&text);
    return rc;
}

static cadre_status write_certificate(const struct cadre_comparison *c, size_t run,
                                      const char *dir, struct cadre_error *err)
{
    struct cadre_text text = {0};
    struct cadre_json json;
    char *name = cadre_certificate_file(&c->run[run]);
    cadre_json_init_text(&json, &text, true);
    cadre_certificate_put(&json, c, run);
    cadre_status rc = cadre_json_finish(&json);
    if (rc != CADRE_OK || !name)
        rc = cadre_no_memory(err, "a certificate");
    else
        rc = write_text(dir, name, &text, err);
    cadre_text_fini(&text);
    free(name);
    return rc;
}

cadre_status cadre_report_write(const struct cadre_comparison *c, const char *dir,
                                struct cadre_error *err)
{
    CADRE_TRY(write_one(c, dir, "report.json", cadre_report_json, err));
    CADRE_TRY(write_one(c, dir, "report.csv", cadre_report_csv, err));
    CADRE_TRY(write_one(c, dir, "report.html", cadre_report_html, err));
    for (size_t i = 0; i < c->n; i++)
        if (!*c->run[i].failure)
            CADRE_TRY(write_certificate(c, i, dir, err));
    return CADRE_OK;
}
