/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

struct cadre_speed_input cadre_figures_input(const struct cadre_comparison *c)
{
    return (struct cadre_speed_input){
        .piece = c->piece,
        .n_pieces = c->n_pieces,
        .n_runs = c->n,
        .baseline = c->baseline,
        .margin = c->margin,
    };
}

bool cadre_figures_timed(const struct cadre_comparison *c, size_t run)
{
    for (size_t i = 0; i < c->n_pieces; i++)
        if (c->piece[i].run == run && c->piece[i].round > 0)
            return true;
    return false;
}

/* ---- without pieces ---- */

static struct cadre_interval unbounded(double value)
{
    return (struct cadre_interval){value, NAN, NAN};
}

static struct cadre_speed_run nothing(const char *why)
{
    struct cadre_speed_run speed = {
        .period_s = unbounded(NAN),
        .speedup = unbounded(NAN),
        .overhead_s = unbounded(NAN),
        .bubble_fraction = unbounded(NAN),
        .comm_exposed_s = unbounded(NAN),
        .verdict = CADRE_SPEED_NOT_RANKED,
        .detectable = NAN,
        .control = NAN,
    };
    snprintf(speed.why, sizeof speed.why, "%s", why);
    return speed;
}

/* From the records, which were made apart in time. */
static void take_record(const struct cadre_comparison *c,
                        struct cadre_compared_run *run)
{
    const struct cadre_compared_run *base = &c->run[c->baseline];
    const struct cadre_record *record = &run->record;
    struct cadre_speed_run *speed = &run->speed;
    *speed = nothing(*c->unranked ? c->unranked : run->untimed);
    if (!run->fair)
        return;
    speed->period_s.value = run->step_s;
    speed->speedup.value = base->step_s / run->step_s;
    speed->overhead_s.value = run->step_s - base->step_s / run->N;
    speed->bubble_fraction.value = cadre_record_number(record, "bubble_fraction");
    speed->comm_exposed_s.value =
        cadre_record_number(record, "comm_exposed_s") / (double)record->n;
}

/* ---- from pieces ---- */

static void take_pieces(struct cadre_comparison *c, size_t i)
{
    struct cadre_compared_run *run = &c->run[i];
    const struct cadre_compared_run *base = &c->run[c->baseline];
    if (!cadre_figures_timed(c, i)) {
        run->speed = c->speed.run[i] = nothing(run->untimed);
        run->step_s = run->tokens_per_s = NAN; /* of another time than the others' */
        return;
    }
    run->speed = c->speed.run[i];
    /* of instances the seconds are those for the tokens of the baseline's step */
    double tokens = cadre_record_step_tokens(run->record.n_instances ? &base->record
                                                                     : &run->record);
    run->tokens_per_s = tokens / run->speed.period_s.value;
}

/* Does an interval lie wholly above `limit`? NaN does not. */
static bool above(const struct cadre_interval *interval, double limit)
{
    return interval->low > limit;
}

/* Trainings apart in time: there is no interval, and more than all is too much. */
static void find_implausible_apart(struct cadre_compared_run *run)
{
    if (run->N > 1 && run->efficiency.value > 1)
        snprintf(run->implausible, sizeof run->implausible,
                 "efficiency of %.0f %% by trainings that were not timed in turns",
                 100 * run->efficiency.value);
}

/* With the ranks of the baseline a run may well be the better one: more than its share
 * of time is impossible only for more ranks. */
static void find_implausible(const struct cadre_comparison *c, size_t i)
{
    struct cadre_compared_run *run = &c->run[i];
    const struct cadre_interval *bubble = &run->speed.bubble_fraction;
    struct cadre_interval price;
    char *text = run->implausible;
    size_t size = sizeof run->implausible;
    text[0] = 0;
    if (!cadre_figures_timed(c, i))
        return;
    ptrdiff_t plain = cadre_comparison_price(c, i, &price);
    if (run->N > 1 && above(&run->efficiency, 1))
        snprintf(text, size, "efficiency above 100 %%: %.0f %% to %.0f %%",
                 100 * run->efficiency.low, 100 * run->efficiency.high);
    else if (plain >= 0 && price.high < 0)
        snprintf(text, size,
                 "exact mode took less time than %.60s without it: %.1f %% to %.1f %%",
                 c->run[plain].name, 100 * price.low, 100 * price.high);
    else if (run->bubble_replayed > bubble->high)
        snprintf(text, size,
                 "the replayed bubble of %.1f %% is above the measured one: %.1f %% to "
                 "%.1f %%",
                 100 * run->bubble_replayed, 100 * bubble->low, 100 * bubble->high);
}

static void take_efficiency(struct cadre_compared_run *run)
{
    const struct cadre_interval *speedup = &run->speed.speedup;
    run->efficiency = (struct cadre_interval){
        speedup->value / run->N, speedup->low / run->N, speedup->high / run->N};
}

bool cadre_figures_ranked(const struct cadre_compared_run *run)
{
    return !*run->failure && run->speed.verdict != CADRE_SPEED_NOT_RANKED;
}

enum cadre_speed_verdict cadre_figures_price(const struct cadre_comparison *c,
                                             size_t exact, size_t plain)
{
    struct cadre_interval ratio;
    enum cadre_speed_verdict verdict = CADRE_SPEED_NOT_RANKED;
    struct cadre_speed_input input = cadre_figures_input(c);
    if (c->n_pieces == 0 || !cadre_figures_ranked(&c->run[exact]) ||
        !cadre_figures_ranked(&c->run[plain]) ||
        cadre_speed_pair(&input, exact, plain, &ratio, &verdict, NULL) != CADRE_OK)
        return CADRE_SPEED_NOT_RANKED;
    return verdict;
}

/* May the run be called the fastest? */
static bool may_win(const struct cadre_comparison *c, size_t i)
{
    const struct cadre_compared_run *run = &c->run[i];
    bool same = run->equal == CADRE_EQUAL_EXACT || run->equal == CADRE_EQUAL_WITHIN;
    return cadre_figures_timed(c, i) && same && run->fair && !*run->implausible;
}

/* Judge those that may win, and the baseline, among themselves. Their verdicts count,
 * so that none contradicts another, and their figures, which load may widen. */
static cadre_status judge_winners(struct cadre_comparison *c, const double *ideal,
                                  struct cadre_error *err)
{
    struct cadre_speed_input input = cadre_figures_input(c);
    struct cadre_speed among = {0};
    struct cadre_piece *piece = cadre_calloc(c->n_pieces, sizeof *piece);
    if (!piece)
        return cadre_no_memory(err, "%zu pieces", c->n_pieces);
    input.piece = piece;
    input.ideal = ideal;
    input.n_pieces = 0;
    for (size_t i = 0; i < c->n_pieces; i++)
        if (c->piece[i].run == c->baseline || may_win(c, c->piece[i].run))
            piece[input.n_pieces++] = c->piece[i];
    cadre_status rc = cadre_speed_judge(&input, &among, err);
    for (size_t i = 0; rc == CADRE_OK && i < c->n; i++) {
        struct cadre_speed_run *speed = &c->speed.run[i];
        speed->leading = false;
        if (i != c->baseline && !may_win(c, i))
            continue;
        *speed = among.run[i];
        speed->leading = among.run[i].leading && may_win(c, i);
    }
    c->speed.despite_load = c->speed.despite_load || among.despite_load;
    if (rc == CADRE_OK)
        c->speed.fastest = among.fastest >= 0 && may_win(c, (size_t)among.fastest)
                               ? among.fastest
                               : -1;
    cadre_speed_fini(&among);
    free(piece);
    return rc;
}

/* A verdict needs a reason not to be there, and none where it is. */
static void withhold(struct cadre_speed_run *speed, const char *why)
{
    speed->verdict = CADRE_SPEED_NOT_RANKED;
    speed->leading = false;
    snprintf(speed->why, sizeof speed->why, "%.*s", (int)sizeof speed->why - 1, why);
}

static void finish(struct cadre_comparison *c)
{
    bool shown = false;
    for (size_t i = 0; i < c->n; i++) {
        struct cadre_compared_run *run = &c->run[i];
        struct cadre_speed_run *speed = &c->speed.run[i];
        run->speed = *speed;
        if (cadre_figures_timed(c, i)) {
            take_efficiency(run);
            find_implausible(c, i);
        }
        if (*c->unranked)
            withhold(speed, c->unranked);
        else if (*run->implausible)
            withhold(speed, run->implausible);
        run->speed = *speed;
        if ((ptrdiff_t)i == c->speed.fastest && (*c->unranked || *run->implausible))
            c->speed.fastest = -1;
        shown = shown || speed->verdict == CADRE_SPEED_FASTER ||
                speed->verdict == CADRE_SPEED_SLOWER;
    }
    c->speed.despite_load = c->speed.despite_load && shown;
}

/* Runs that change training are judged by the time to a loss, and never win. Their
 * step was not timed. */
static cadre_status take_targets(struct cadre_comparison *c, const double *ideal,
                                 struct cadre_error *err)
{
    struct cadre_speed_input input = cadre_figures_input(c);
    struct cadre_speed speed = {0};
    input.undisturbed = true;
    input.piece = c->target_piece;
    input.n_pieces = c->n_target_pieces;
    input.ideal = ideal;
    if (c->n_target_pieces == 0)
        return CADRE_OK;
    CADRE_TRY(cadre_speed_judge(&input, &speed, err));
    for (size_t i = 0; i < c->n; i++) {
        struct cadre_compared_run *run = &c->run[i];
        if (run->to_target || i == c->baseline)
            run->target_s = speed.run[i].period_s;
        if (!run->to_target)
            continue;
        run->speed = speed.run[i];
        run->speed.leading = false;
        run->speed.period_s = unbounded(NAN);
        run->speed.overhead_s = unbounded(NAN);
        take_efficiency(run);
        if (c->speed.run)
            c->speed.run[i] = run->speed;
    }
    cadre_speed_fini(&speed);
    return CADRE_OK;
}

cadre_status cadre_figures_fill(struct cadre_comparison *c, struct cadre_error *err)
{
    struct cadre_speed_input input = cadre_figures_input(c);
    double *ideal = cadre_calloc(c->n, sizeof *ideal);
    cadre_status rc = ideal ? CADRE_OK : cadre_no_memory(err, "%zu runs", c->n);
    cadre_speed_fini(&c->speed);
    c->speed = (struct cadre_speed){.fastest = -1};
    for (size_t i = 0; i < c->n; i++) /* what it took says nothing about the others */
        if (!c->run[i].fair)
            c->run[i].step_s = c->run[i].tokens_per_s = NAN;
    for (size_t i = 0; i < c->n; i++) {
        struct cadre_compared_run *run = &c->run[i];
        run->N = c->whole ? 1 : (double)run->ranks / c->run[c->baseline].ranks;
        run->implausible[0] = 0;
        run->target_s = unbounded(NAN);
        take_record(c, run);
        take_efficiency(run);
        if (c->n_pieces == 0)
            find_implausible_apart(run);
        if (ideal)
            ideal[i] = run->N;
    }
    input.ideal = ideal;
    if (rc == CADRE_OK && c->n_pieces > 0) {
        rc = cadre_speed_judge(&input, &c->speed, err);
        for (size_t i = 0; rc == CADRE_OK && i < c->n; i++) {
            take_pieces(c, i);
            take_efficiency(&c->run[i]);
            find_implausible(c, i);
        }
        if (rc == CADRE_OK)
            rc = judge_winners(c, ideal, err);
        if (rc == CADRE_OK)
            finish(c);
    }
    if (rc == CADRE_OK)
        rc = take_targets(c, ideal, err);
    free(ideal);
    return rc;
}
