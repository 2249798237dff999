/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/report/sentences.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/compare/report/figure.h"
#include "core/compare/report/report.h"
#include "core/compare/verdict/figures.h"
#include "core/compare/verdict/seeds.h"

void cadre_sentences_fini(struct cadre_sentences *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->of[i].text);
    free(s->of);
    memset(s, 0, sizeof *s);
}

/* Take the words of `text` as a sentence, and empty it. */
static void add(struct cadre_sentences *s, enum cadre_tone tone,
                struct cadre_text *text)
{
    struct cadre_sentence *more = cadre_realloc(s->of, s->n + 1, sizeof *more);
    s->of = more ? more : s->of;
    if (more && text->data && !text->failed)
        s->of[s->n++] = (struct cadre_sentence){tone, text->data};
    else
        free(text->data);
    s->failed = s->failed || !more || text->failed;
    *text = (struct cadre_text){0};
}

void cadre_sentences_put_run(struct cadre_text *out,
                             const struct cadre_compared_run *run)
{
    cadre_text_printf(out, "%s", run->name);
    if (strcmp(run->name, run->strategy) != 0)
        cadre_text_printf(out, " (%s)", run->strategy);
}

/* " (95 % interval 1.28 to 1.34)"; nothing without an interval. */
static void put_range(struct cadre_text *out, const struct cadre_interval *figure)
{
    char range[CADRE_FIGURE_CHARS];
    if (*cadre_figure_ratio_range(figure, range, sizeof range))
        cadre_text_printf(out, " (95 %% interval %s)", range);
}

/* What makes a figure one to doubt, and the end of the sentence. */
static void put_end(struct cadre_text *out, const struct cadre_compared_run *run)
{
    cadre_text_printf(out, "%s", run->fair ? "" : " (unfair)");
    if (run->equal == CADRE_EQUAL_DIFFERS && !run->by_design)
        cadre_text_printf(out, ", but it did not train the same");
    if (*run->implausible)
        cadre_text_printf(out, "; implausible: %s", run->implausible);
    cadre_text_append(out, ".", 1);
}

/* A difference of speed may be called shown only where nothing casts doubt on it. */
static enum cadre_tone tone_of(const struct cadre_compared_run *run)
{
    return cadre_report_is_doubtful(run) ? CADRE_TONE_OPEN : CADRE_TONE_SHOWN;
}

/* ---- speed ---- */

/* The fastest of the ranked runs other than the baseline, c->n without one. */
static size_t next_to_baseline(const struct cadre_comparison *c)
{
    size_t best = c->n;
    for (size_t i = 0; i < c->n; i++) {
        double speedup = c->run[i].speed.speedup.value;
        if (i != c->baseline && cadre_figures_ranked(&c->run[i]) && c->run[i].fair &&
            (best == c->n || speedup > c->run[best].speed.speedup.value))
            best = i;
    }
    return best;
}

static void say_the_fastest(struct cadre_sentences *s, const struct cadre_comparison *c)
{
    struct cadre_text text = {0};
    const size_t first = (size_t)cadre_report_fastest(c);
    const struct cadre_compared_run *run = &c->run[first];
    cadre_sentences_put_run(&text, run);
    cadre_text_printf(&text, " is the fastest%s",
                      c->speed.despite_load ? ", despite the machine's load" : "");
    if (first != c->baseline) {
        char efficiency[CADRE_FIGURE_CHARS];
        cadre_text_printf(&text, ": %.2f times as fast as ", run->speed.speedup.value);
        cadre_sentences_put_run(&text, &c->run[c->baseline]);
        put_range(&text, &run->speed.speedup);
        cadre_text_printf(
            &text, ", efficiency %s on %d rank%s",
            cadre_figure_percent(&run->efficiency, efficiency, sizeof efficiency),
            run->ranks, run->ranks == 1 ? "" : "s");
    } else if (next_to_baseline(c) < c->n) {
        const struct cadre_compared_run *next = &c->run[next_to_baseline(c)];
        struct cadre_interval longer = cadre_figure_inverse(&next->speed.speedup);
        cadre_text_printf(&text, ": the next, ");
        cadre_sentences_put_run(&text, next);
        cadre_text_printf(&text, ", takes %.2f times as long a step", longer.value);
        put_range(&text, &longer);
    }
    put_end(&text, run);
    add(s, tone_of(run), &text);
}

/* "a, b and c cannot be told apart" */
static void say_who_leads(struct cadre_sentences *s, const struct cadre_comparison *c)
{
    struct cadre_text text = {0};
    size_t leading = 0, said = 0;
    for (size_t i = 0; i < c->n; i++)
        leading += c->run[i].speed.leading;
    if (leading < 2) {
        cadre_text_printf(&text, "No run was shown to be the fastest.");
        add(s, CADRE_TONE_OPEN, &text);
        return;
    }
    for (size_t i = 0; i < c->n; i++) {
        if (!c->run[i].speed.leading)
            continue;
        said++;
        cadre_text_printf(&text, "%s",
                          said == 1         ? ""
                          : said == leading ? " and "
                                            : ", ");
        cadre_sentences_put_run(&text, &c->run[i]);
    }
    cadre_text_printf(&text, " cannot be told apart: none was shown to be the "
                             "fastest.");
    add(s, CADRE_TONE_OPEN, &text);
}

static const char *why_not_ranked(const struct cadre_compared_run *run)
{
    return *run->untimed     ? run->untimed
           : *run->speed.why ? run->speed.why
                             : "it has no rounds";
}

/* Of a run against the baseline. */
static void say_verdict(struct cadre_sentences *s, const struct cadre_comparison *c,
                        const struct cadre_compared_run *run)
{
    struct cadre_text text = {0};
    char share[CADRE_FIGURE_CHARS];
    enum cadre_tone tone = tone_of(run);
    const char *base = c->run[c->baseline].name;
    if (run->speed.verdict == CADRE_SPEED_NOT_RANKED) {
        cadre_sentences_put_run(&text, run);
        cadre_text_printf(&text, " is not ranked: %s.", why_not_ranked(run));
        tone = CADRE_TONE_OPEN;
    } else if (run->speed.verdict == CADRE_SPEED_NO_DIFFERENCE) {
        cadre_text_printf(&text, "No difference of %s was shown between ",
                          run->to_target ? "the time to the target loss" : "speed");
        cadre_sentences_put_run(&text, run);
        cadre_text_printf(&text, " and %s", base);
        if (isfinite(run->speed.detectable))
            cadre_text_printf(
                &text, ": a difference of %s would have been seen in most such tries",
                cadre_figure_share(run->speed.detectable - 1, share, sizeof share));
        put_end(&text, run);
        tone = CADRE_TONE_OPEN;
    } else {
        cadre_sentences_put_run(&text, run);
        cadre_text_printf(&text, "%s %s%s than %s: %.2f times as fast",
                          c->speed.despite_load ? ", despite the machine's load," : "",
                          run->to_target ? "reaches the target loss " : "is ",
                          cadre_speed_verdict_name(run->speed.verdict), base,
                          run->speed.speedup.value);
        put_range(&text, &run->speed.speedup);
        put_end(&text, run);
    }
    add(s, tone, &text);
}

const char *cadre_sentences_unranked(const struct cadre_comparison *c)
{
    const char *why = c->unranked;
    for (size_t i = 0; i < c->n; i++)
        if (cadre_figures_ranked(&c->run[i]))
            return "";
    for (size_t i = 0; !*why && i < c->n; i++)
        if (!*c->run[i].failure)
            why = c->run[i].speed.why;
    return *why ? why : "no rounds were timed";
}

static void say_none_is_ranked(struct cadre_sentences *s,
                               const struct cadre_comparison *c)
{
    struct cadre_text text = {0};
    cadre_text_printf(&text, "No run is ranked by speed: %s.",
                      cadre_sentences_unranked(c));
    add(s, CADRE_TONE_OPEN, &text);
    for (size_t i = 0; i < c->n; i++) {
        if (!c->run[i].lost)
            continue;
        cadre_sentences_put_run(&text, &c->run[i]);
        cadre_text_printf(&text, " failed while it was timed: %s.", c->run[i].untimed);
        add(s, CADRE_TONE_BAD, &text);
    }
}

/* What the same program differs by from itself, beside the claims. */
static void say_control(struct cadre_sentences *s, const struct cadre_comparison *c)
{
    struct cadre_text text = {0};
    char share[CADRE_FIGURE_CHARS];
    size_t widest = c->n;
    for (size_t i = 0; i < c->n; i++)
        if (cadre_figures_ranked(&c->run[i]) && isfinite(c->run[i].speed.control) &&
            (widest == c->n || c->run[i].speed.control > c->run[widest].speed.control))
            widest = i;
    if (widest == c->n || !c->mirrored)
        return;
    cadre_text_printf(
        &text,
        "Control: two pieces of the same run in a round differ by up to "
        "%s (%s).",
        cadre_figure_share(c->run[widest].speed.control, share, sizeof share),
        c->run[widest].name);
    add(s, CADRE_TONE_OPEN, &text);
}

/* Independent runs are counted by their tokens, all together. */
static void say_what_instances_did(struct cadre_sentences *s,
                                   const struct cadre_comparison *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct cadre_text text = {0};
        const struct cadre_compared_run *run = &c->run[i];
        if (!run->instances || i == c->baseline || *run->failure)
            continue;
        cadre_text_printf(&text,
                          "%s: %d independent runs, together %.2f times the tokens "
                          "per second of ",
                          run->name, run->instances, run->speed.speedup.value);
        cadre_sentences_put_run(&text, &c->run[c->baseline]);
        if (cadre_figures_ranked(run))
            put_range(&text, &run->speed.speedup);
        else
            cadre_text_printf(&text, ", not ranked");
        put_end(&text, run);
        add(s, CADRE_TONE_OPEN, &text);
    }
}

void cadre_sentences_speed(struct cadre_sentences *s, const struct cadre_comparison *c)
{
    const bool ranked = !*cadre_sentences_unranked(c);
    if (!ranked)
        say_none_is_ranked(s, c);
    else if (cadre_report_fastest(c) >= 0)
        say_the_fastest(s, c);
    else
        say_who_leads(s, c);
    for (size_t i = 0; ranked && i < c->n; i++)
        if (i != c->baseline && (ptrdiff_t)i != cadre_report_fastest(c) &&
            !*c->run[i].failure)
            say_verdict(s, c, &c->run[i]);
    say_control(s, c);
    say_what_instances_did(s, c);
}

/* ---- failures, equality ---- */

static void say_who_failed(struct cadre_sentences *s, const struct cadre_comparison *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct cadre_text text = {0};
        if (!*c->run[i].failure)
            continue;
        cadre_sentences_put_run(&text, &c->run[i]);
        cadre_text_printf(&text, " failed: %s.", c->run[i].failure);
        add(s, CADRE_TONE_BAD, &text);
    }
}

static void say_who_differs(struct cadre_sentences *s, const struct cadre_comparison *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct cadre_text text = {0};
        const struct cadre_compared_run *run = &c->run[i];
        const char *base = c->run[cadre_seeds_baseline(c, i)].name;
        if (i == c->baseline || run->equal != CADRE_EQUAL_DIFFERS || *run->failure)
            continue;
        cadre_sentences_put_run(&text, run);
        cadre_text_printf(&text,
                          run->by_design ? " differs from %s by design: %s."
                                         : " did NOT train the same as %s: %s.",
                          base, run->why);
        add(s, run->by_design ? CADRE_TONE_OPEN : CADRE_TONE_BAD, &text);
    }
}

/* Whoever differs by design, under the setting in which it must not. */
static void say_settings(struct cadre_sentences *s, const struct cadre_comparison *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct cadre_text text = {0};
        const struct cadre_compared_run *run = &c->run[i];
        bool differs = run->setting.judged && run->setting.equal == CADRE_EQUAL_DIFFERS;
        if (!*run->changes.equal || *run->failure)
            continue;
        cadre_sentences_put_run(&text, run);
        if (differs)
            cadre_text_printf(&text,
                              " did NOT train the same as single with %s, as it must: "
                              "%s.",
                              run->changes.equal, run->setting.why);
        else if (run->setting.judged)
            cadre_text_printf(&text, " trains the same as single with %s, as it must.",
                              run->changes.equal);
        else
            cadre_text_printf(&text,
                              " was not tried with %s, where it must train the same as "
                              "single%s%s.",
                              run->changes.equal, *run->setting.why ? ": " : "",
                              run->setting.why);
        add(s,
            differs               ? CADRE_TONE_BAD
            : run->setting.judged ? CADRE_TONE_SHOWN
                                  : CADRE_TONE_OPEN,
            &text);
    }
}

static void say_who_was_equal(struct cadre_sentences *s,
                              const struct cadre_comparison *c)
{
    struct cadre_text text = {0};
    size_t exact = 0, within = 0, others = 0;
    double largest = 0;
    for (size_t i = 0; i < c->n; i++) {
        const struct cadre_compared_run *run = &c->run[i];
        if (i == c->baseline || *run->failure) {
            others += i != c->baseline;
            continue;
        }
        exact += run->equal == CADRE_EQUAL_EXACT;
        within += run->equal == CADRE_EQUAL_WITHIN;
        others += run->equal == CADRE_EQUAL_INDEPENDENT || run->by_design;
        if (run->equal == CADRE_EQUAL_WITHIN)
            largest = fmax(largest, run->loss_max_diff);
    }
    if (*c->run[c->baseline].failure || cadre_comparison_differing(c) ||
        exact + within == 0)
        return;
    const char *whom = others ? "The runs of the same training" : "All runs";
    if (within == 0)
        cadre_text_printf(&text, "%s trained the same, to the last bit.", whom);
    else if (c->judged_steps < cadre_comparison_last_step(c))
        cadre_text_printf(&text,
                          "%s trained the same up to step %" PRId64
                          ", the last one judged: within the limits.",
                          whom, c->judged_steps);
    else
        cadre_text_printf(&text,
                          "%s trained the same: losses differ from the baseline's by "
                          "%.1e at most, and they, gradient norms, parameters and "
                          "optimizer states stay inside their limits.",
                          whom, largest);
    add(s, CADRE_TONE_SHOWN, &text);
}

static void say_who_has_the_same_bits(struct cadre_sentences *s,
                                      const struct cadre_comparison *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct cadre_text text = {0};
        ptrdiff_t other = c->run[i].bit_identical;
        if (other < 0 || *c->run[i].failure)
            continue;
        cadre_text_printf(&text, "%s and %s are the same to the last bit.",
                          c->run[other].name, c->run[i].name);
        add(s, CADRE_TONE_SHOWN, &text);
    }
}

/* ---- the price of exact mode ---- */

static void say_price(struct cadre_sentences *s, const struct cadre_comparison *c,
                      size_t exact, size_t plain, const struct cadre_interval *price)
{
    struct cadre_text text = {0};
    char range[CADRE_FIGURE_CHARS];
    enum cadre_tone tone = CADRE_TONE_OPEN;
    enum cadre_speed_verdict verdict = cadre_figures_price(c, exact, plain);
    cadre_figure_percent_range(price, range, sizeof range);
    if (c->n_pieces == 0)
        return; /* trainings apart in time: a price of the machine's other work */
    if (verdict == CADRE_SPEED_NOT_RANKED) {
        cadre_text_printf(&text,
                          "The price of exact mode is not ranked: %.1f %% by these "
                          "times%s%s",
                          100 * price->value, *range ? ", 95 % interval " : "", range);
    } else if (verdict == CADRE_SPEED_NO_DIFFERENCE) {
        cadre_text_printf(&text,
                          "No cost of exact mode was shown: %.1f %%, 95 %% interval %s",
                          100 * price->value, range);
    } else {
        cadre_text_printf(&text, "Exact mode costs %.1f %%, 95 %% interval %s%s",
                          100 * price->value, range,
                          price->value < 0 ? ", which is implausible" : "");
        tone = price->value > 0 ? tone_of(&c->run[exact]) : CADRE_TONE_OPEN;
    }
    cadre_text_printf(&text, " (%s against %s)", c->run[exact].name,
                      c->run[plain].name);
    put_end(&text, &c->run[exact]);
    add(s, tone, &text);
}

static void say_what_exact_costs(struct cadre_sentences *s,
                                 const struct cadre_comparison *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct cadre_interval price;
        if (*c->run[i].failure)
            continue;
        ptrdiff_t plain = cadre_comparison_price(c, i, &price);
        if (plain >= 0 && !*c->run[plain].failure && isfinite(price.value))
            say_price(s, c, i, (size_t)plain, &price);
    }
}

void cadre_sentences_fill(struct cadre_sentences *s, const struct cadre_comparison *c)
{
    cadre_sentences_speed(s, c);
    say_who_failed(s, c);
    say_who_differs(s, c);
    say_settings(s, c);
    say_who_was_equal(s, c);
    say_who_has_the_same_bits(s, c);
    say_what_exact_costs(s, c);
}
