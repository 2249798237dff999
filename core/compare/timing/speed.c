/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/timing/speed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/median.h"
#include "core/base/memory.h"
#include "core/compare/timing/order.h"
#include "core/compare/timing/ranking.h"

/* An effect of one half-width of the interval is shown half of the time, one of 1.5
 * in four of five tries: the width is some 2 standard errors. */
#define DETECTABLE_WIDTHS 1.5

/* ---- figures ---- */

enum figure { PERIOD, SPEEDUP, OVERHEAD, BUBBLE, COMM };

static double figure_of(const struct cadre_view *view, size_t row, size_t run,
                        enum figure figure)
{
    const struct cadre_speed_input *input = view->input;
    const struct cadre_round_value *value = cadre_rounds_at(view->rounds, row, run);
    double base = NAN;
    if (view->rounds->timed[input->baseline])
        base = cadre_rounds_at(view->rounds, row, input->baseline)->log_t;
    switch (figure) {
    case PERIOD:
        return value->log_t;
    case SPEEDUP:
        return base - value->log_t;
    case OVERHEAD:
        return exp(value->log_t) - exp(base) / (input->ideal ? input->ideal[run] : 1);
    case BUBBLE:
        return value->bubble_fraction;
    case COMM:
        return value->comm_exposed_s;
    }
    return NAN;
}

static cadre_status estimate(const struct cadre_view *view, size_t run,
                             enum figure figure, struct cadre_interval *out,
                             struct cadre_error *err)
{
    double x[CADRE_SIGNED_RANK_MAX];
    for (size_t i = 0; i < view->n; i++)
        x[i] = figure_of(view, view->row[i], run, figure);
    CADRE_TRY(cadre_signed_rank_interval(x, view->n, CADRE_SPEED_ALPHA, out, err));
    if (figure == PERIOD || figure == SPEEDUP)
        *out = (struct cadre_interval){exp(out->value), exp(out->low), exp(out->high)};
    return CADRE_OK;
}

static double control_of(const struct cadre_view *view, size_t run)
{
    double x[CADRE_SIGNED_RANK_MAX];
    for (size_t i = 0; i < view->n; i++) {
        x[i] = cadre_rounds_at(view->rounds, view->row[i], run)->control;
        if (isnan(x[i]))
            return NAN;
    }
    if (view->n == 0)
        return NAN;
    cadre_sort(x, view->n);
    return expm1(
        0.5 * (cadre_quantile(x, view->n, 0.975) - cadre_quantile(x, view->n, 0.025)));
}

/* The speedup that would have been shown, at the strictest level of the tests. */
static cadre_status detectable(const struct cadre_view *view, size_t run, size_t others,
                               double *out, struct cadre_error *err)
{
    double x[CADRE_SIGNED_RANK_MAX];
    struct cadre_interval ratio;
    double tests = cadre_view_is_corrected(view, others) ? (double)others : 1;
    cadre_view_log_ratios(view, run, view->input->baseline, x);
    CADRE_TRY(
        cadre_signed_rank_interval(x, view->n, CADRE_SPEED_ALPHA / tests, &ratio, err));
    *out = (1 + view->input->margin) *
           exp(DETECTABLE_WIDTHS * 0.5 * (ratio.high - ratio.low));
    return CADRE_OK;
}

/* Both views must show it; NaN where one of them has too few rounds for that. */
static cadre_status detectable_by_both(const struct cadre_view *all,
                                       const struct cadre_view *quiet, size_t run,
                                       size_t others, double *out,
                                       struct cadre_error *err)
{
    double by_all, by_quiet;
    CADRE_TRY(detectable(all, run, others, &by_all, err));
    by_quiet = by_all;
    if (quiet->n < all->n)
        CADRE_TRY(detectable(quiet, run, others, &by_quiet, err));
    *out = isnan(by_all) || by_all > by_quiet ? by_all : by_quiet;
    return CADRE_OK;
}

static cadre_status fill_figures(const struct cadre_view *all, size_t run,
                                 struct cadre_speed_run *out, struct cadre_error *err)
{
    CADRE_TRY(estimate(all, run, PERIOD, &out->period_s, err));
    CADRE_TRY(estimate(all, run, SPEEDUP, &out->speedup, err));
    CADRE_TRY(estimate(all, run, OVERHEAD, &out->overhead_s, err));
    CADRE_TRY(estimate(all, run, BUBBLE, &out->bubble_fraction, err));
    CADRE_TRY(estimate(all, run, COMM, &out->comm_exposed_s, err));
    out->control = control_of(all, run);
    return CADRE_OK;
}

/* ---- both views ---- */

/* Why nothing can be ranked, "" where it can. */
static void why_not(const struct cadre_view *all, const struct cadre_view *quiet,
                    char *why, size_t size)
{
    size_t timed = 0;
    for (size_t run = 0; run < all->rounds->n_runs; run++)
        timed += all->rounds->timed[run];
    why[0] = 0;
    if (all->n < CADRE_ROUNDS_LEAST)
        snprintf(why, size, "%zu rounds; %d are needed", all->n, CADRE_ROUNDS_LEAST);
    else if (quiet->n < CADRE_ROUNDS_LEAST)
        snprintf(why, size,
                 "the machine was disturbed in %zu of %zu rounds; %d "
                 "undisturbed ones are needed",
                 all->n - quiet->n, all->n, CADRE_ROUNDS_LEAST);
    else if (timed < 2)
        snprintf(why, size, "no other run was timed");
}

/* What both views say. */
static void agree(const struct cadre_ranking *all, const struct cadre_ranking *quiet,
                  const bool *timed, struct cadre_speed *out)
{
    out->fastest = all->fastest == quiet->fastest ? all->fastest : -1;
    for (size_t i = 0; i < out->n_runs; i++) {
        struct cadre_speed_run *run = &out->run[i];
        if (!timed[i])
            continue;
        run->verdict = all->verdict[i] == quiet->verdict[i] ? all->verdict[i]
                                                            : CADRE_SPEED_NO_DIFFERENCE;
        run->leading = out->fastest < 0 ? all->leading[i] || quiet->leading[i]
                                        : (ptrdiff_t)i == out->fastest;
    }
}

/* An interval of T of run a / T of run b, as far as load that followed one of them may
 * have moved it. *followed: -1 where it is a, 1 where b, else 0. */
static cadre_status give_back(const struct cadre_view *all, size_t a, size_t b,
                              struct cadre_interval *ratio, int *followed,
                              struct cadre_error *err)
{
    double of_a, of_b;
    CADRE_TRY(cadre_view_followed(all, a, b, &of_a, err));
    CADRE_TRY(cadre_view_followed(all, b, a, &of_b, err));
    ratio->low *= exp(-of_a);
    ratio->high *= exp(of_b);
    *followed = of_a > 0 ? -1 : of_b > 0;
    return CADRE_OK;
}

/* Of every speedup; what would have been shown is not known then. */
static cadre_status give_back_all(const struct cadre_view *all, struct cadre_speed *out,
                                  struct cadre_error *err)
{
    const bool *timed = all->rounds->timed;
    const size_t base = all->input->baseline;
    for (size_t i = 0; i < out->n_runs; i++) {
        struct cadre_speed_run *run = &out->run[i];
        if (i == base || !timed[i] || !timed[base])
            continue;
        CADRE_TRY(give_back(all, base, i, &run->speedup, &run->followed, err));
        if (run->followed)
            run->detectable = NAN;
    }
    return CADRE_OK;
}

static cadre_status rank_views(const struct cadre_view *all,
                               const struct cadre_view *quiet, struct cadre_speed *out,
                               struct cadre_error *err)
{
    cadre_status rc;
    size_t least = 0;
    struct cadre_ranking of_all = {0}, of_quiet = {0};
    CADRE_TRY_OR(cadre_view_least(all, &least, err), done);
    CADRE_TRY_OR(cadre_ranking_init(&of_all, all, least, err), done);
    if (quiet->n < all->n)
        CADRE_TRY_OR(cadre_ranking_init(&of_quiet, quiet, least, err), done);
    agree(&of_all, quiet->n < all->n ? &of_quiet : &of_all, all->rounds->timed, out);
    rc = give_back_all(all, out, err);
done:
    cadre_ranking_fini(&of_all);
    cadre_ranking_fini(&of_quiet);
    return rc;
}

/* The speedup of `run`, as far as what was taken from the baseline, which makes it
 * less, and from the run could have moved it. */
static cadre_status widen(const struct cadre_view *less_taken, size_t run,
                          struct cadre_interval *speedup, struct cadre_error *err)
{
    const size_t base = less_taken->input->baseline;
    const struct {
        size_t of;
        double times;
        double *bound;
    } ends[] = {{base, -1, &speedup->low}, {run, 1, &speedup->high}};
    for (int end = 0; end < 2; end++) {
        double x[CADRE_SIGNED_RANK_MAX];
        struct cadre_interval moved;
        cadre_view_log_ratios(less_taken, base, run, x);
        for (size_t i = 0; i < less_taken->n; i++)
            x[i] += ends[end].times * cadre_rounds_at(less_taken->rounds,
                                                      less_taken->row[i], ends[end].of)
                                          ->taken;
        CADRE_TRY(cadre_signed_rank_interval(x, less_taken->n, CADRE_SPEED_ALPHA,
                                             &moved, err));
        *ends[end].bound = exp(end ? moved.high : moved.low);
    }
    return CADRE_OK;
}

static void forget_intervals(struct cadre_speed_run *run)
{
    struct cadre_interval *const all[] = {&run->period_s, &run->speedup,
                                          &run->overhead_s, &run->bubble_fraction,
                                          &run->comm_exposed_s};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        all[i]->low = all[i]->high = NAN;
}

/* Only the speedup of what was told has an interval that load cannot explain. */
static cadre_status widen_all(const struct cadre_view *less_taken,
                              struct cadre_speed *out, struct cadre_error *err)
{
    const bool *timed = less_taken->rounds->timed;
    const size_t base = less_taken->input->baseline;
    for (size_t i = 0; i < out->n_runs; i++) {
        struct cadre_speed_run *run = &out->run[i];
        struct cadre_interval speedup = run->speedup;
        forget_intervals(run);
        if (run->verdict == CADRE_SPEED_NOT_RANKED || i == base || !timed[i] ||
            !timed[base])
            continue;
        CADRE_TRY(widen(less_taken, i, &speedup, err));
        run->speedup = speedup;
    }
    return CADRE_OK;
}

/* Verdicts of all rounds in spite of load. A winner has one too. Returns whether
 * anything was shown. */
static bool tell(const struct cadre_ranking *ranking, struct cadre_speed *out)
{
    const struct cadre_view *view = ranking->view;
    const size_t base = view->input->baseline;
    const ptrdiff_t fastest = ranking->fastest;
    bool told = false;
    if (fastest >= 0 && (!view->rounds->timed[base] || (size_t)fastest == base ||
                         ranking->verdict[fastest] == CADRE_SPEED_FASTER))
        out->fastest = fastest;
    for (size_t i = 0; i < out->n_runs; i++) {
        struct cadre_speed_run *run = &out->run[i];
        const bool shown = ranking->verdict[i] == CADRE_SPEED_FASTER ||
                           ranking->verdict[i] == CADRE_SPEED_SLOWER;
        told = told || shown;
        if (shown)
            run->verdict = ranking->verdict[i];
        run->leading = out->fastest >= 0 && out->fastest == (ptrdiff_t)i;
    }
    return told || out->fastest >= 0;
}

/* Too few undisturbed rounds: what load cannot explain is told, the rest is not ranked;
 * an interval that load may have moved is no interval. */
static cadre_status rank_less_taken(const struct cadre_view *all,
                                    struct cadre_speed *out, struct cadre_error *err)
{
    cadre_status rc;
    struct cadre_view view = *all;
    size_t least = 0;
    struct cadre_ranking ranking = {0};
    view.which = CADRE_VIEW_LESS_TAKEN;
    CADRE_TRY_OR(cadre_view_least(&view, &least, err), done);
    CADRE_TRY_OR(cadre_ranking_init(&ranking, &view, least, err), done);
    out->despite_load = tell(&ranking, out);
    for (size_t i = 0; out->despite_load && i < out->n_runs; i++) {
        struct cadre_speed_run *run = &out->run[i];
        if (i == all->input->baseline && all->rounds->timed[i])
            run->verdict = CADRE_SPEED_NO_DIFFERENCE;
        if (run->verdict != CADRE_SPEED_NOT_RANKED)
            run->why[0] = 0;
        else if (all->rounds->timed[i])
            snprintf(run->why, sizeof run->why,
                     "the machine was disturbed in too many rounds, and that could "
                     "explain its difference");
    }
    rc = widen_all(&view, out, err);
done:
    cadre_ranking_fini(&ranking);
    return rc;
}

/* Too few rounds were undisturbed. */
static cadre_status rank_disturbed(const struct cadre_view *all,
                                   struct cadre_speed *out, struct cadre_error *err)
{
    if (!all->input->undisturbed)
        return rank_less_taken(all, out, err);
    for (size_t i = 0; i < out->n_runs; i++)
        forget_intervals(&out->run[i]);
    return CADRE_OK;
}

static void fill_unknown(struct cadre_speed_run *run)
{
    const struct cadre_interval none = {NAN, NAN, NAN};
    run->period_s = run->speedup = run->overhead_s = none;
    run->bubble_fraction = run->comm_exposed_s = none;
    run->detectable = run->control = NAN;
}

/* What each run is told by itself: figures, and why it is not ranked. */
static cadre_status fill_runs(const struct cadre_view *all,
                              const struct cadre_view *quiet, const char *why,
                              struct cadre_speed *out, struct cadre_error *err)
{
    const bool *timed = all->rounds->timed;
    size_t baseline = all->input->baseline, others = 0;
    for (size_t i = 0; i < out->n_runs; i++)
        others += timed[i] && i != baseline;
    for (size_t i = 0; i < out->n_runs; i++) {
        struct cadre_speed_run *run = &out->run[i];
        const char *own = why;
        fill_unknown(run);
        if (timed[i])
            CADRE_TRY(fill_figures(all, i, run, err));
        if (timed[i] && timed[baseline] && i != baseline)
            CADRE_TRY(detectable_by_both(all, quiet, i, others, &run->detectable, err));
        if (!timed[i])
            own = "it was not timed";
        else if (!*why && !timed[baseline])
            own = "the baseline was not timed";
        snprintf(run->why, sizeof run->why, "%s", own);
    }
    return CADRE_OK;
}

cadre_status cadre_speed_judge(const struct cadre_speed_input *input,
                               struct cadre_speed *out, struct cadre_error *err)
{
    cadre_status rc;
    struct cadre_rounds rounds = {0};
    struct cadre_speed made = {.n_runs = input->n_runs, .fastest = -1};
    struct cadre_view all, quiet;
    char why[sizeof made.run->why];
    CADRE_TRY_OR(cadre_rounds_init(&rounds, input, err), fail);
    CADRE_TRY_OR(cadre_view_open(&all, &rounds, input, CADRE_VIEW_ALL, err), fail);
    CADRE_TRY_OR(cadre_view_open(&quiet, &rounds, input, CADRE_VIEW_UNDISTURBED, err),
                 fail);
    made.run = cadre_calloc(input->n_runs, sizeof *made.run);
    if (!made.run) {
        rc = cadre_no_memory(err, "the speeds of %zu runs", input->n_runs);
        goto fail;
    }
    why_not(&all, &quiet, why, sizeof why);
    CADRE_TRY_OR(fill_runs(&all, &quiet, why, &made, err), fail);
    if (!*why)
        CADRE_TRY_OR(rank_views(&all, &quiet, &made, err), fail);
    else if (quiet.n < CADRE_ROUNDS_LEAST && all.n >= CADRE_ROUNDS_LEAST)
        CADRE_TRY_OR(rank_disturbed(&all, &made, err), fail);
    made.round = rounds.round;
    made.n_rounds = rounds.n;
    made.n_disturbed = rounds.n_disturbed;
    rounds.round = NULL; /* made has it now */
    cadre_rounds_fini(&rounds);
    *out = made;
    return CADRE_OK;
fail:
    cadre_rounds_fini(&rounds);
    cadre_speed_fini(&made);
    return rc;
}

/* ---- one pair ---- */

static cadre_status pair_verdict(const struct cadre_view *view, size_t a, size_t b,
                                 enum cadre_speed_verdict *verdict,
                                 struct cadre_error *err)
{
    double faster, slower;
    CADRE_TRY(cadre_view_p_faster(view, a, b, &faster, err));
    CADRE_TRY(cadre_view_p_faster(view, b, a, &slower, err));
    *verdict = faster <= CADRE_SPEED_ALPHA   ? CADRE_SPEED_FASTER
               : slower <= CADRE_SPEED_ALPHA ? CADRE_SPEED_SLOWER
                                             : CADRE_SPEED_NO_DIFFERENCE;
    return CADRE_OK;
}

static cadre_status judge_pair(const struct cadre_rounds *rounds,
                               const struct cadre_speed_input *input, size_t a,
                               size_t b, struct cadre_interval *ratio,
                               enum cadre_speed_verdict *verdict,
                               struct cadre_error *err)
{
    double x[CADRE_SIGNED_RANK_MAX];
    struct cadre_view all, quiet;
    enum cadre_speed_verdict of_all, of_quiet;
    struct cadre_interval logs;
    int followed;
    *ratio = (struct cadre_interval){NAN, NAN, NAN};
    *verdict = CADRE_SPEED_NOT_RANKED;
    if (!rounds->timed[a] || !rounds->timed[b])
        return CADRE_OK;
    CADRE_TRY(cadre_view_open(&all, rounds, input, CADRE_VIEW_ALL, err));
    CADRE_TRY(cadre_view_open(&quiet, rounds, input, CADRE_VIEW_UNDISTURBED, err));
    cadre_view_log_ratios(&all, a, b, x);
    CADRE_TRY(cadre_signed_rank_interval(x, all.n, CADRE_SPEED_ALPHA, &logs, err));
    *ratio = (struct cadre_interval){exp(logs.value), exp(logs.low), exp(logs.high)};
    if (quiet.n < CADRE_ROUNDS_LEAST) {
        ratio->low = ratio->high = NAN;
        return CADRE_OK;
    }
    CADRE_TRY(give_back(&all, a, b, ratio, &followed, err));
    CADRE_TRY(pair_verdict(&all, a, b, &of_all, err));
    CADRE_TRY(pair_verdict(&quiet, a, b, &of_quiet, err));
    *verdict = of_all == of_quiet ? of_all : CADRE_SPEED_NO_DIFFERENCE;
    return CADRE_OK;
}

cadre_status cadre_speed_pair(const struct cadre_speed_input *input, size_t a, size_t b,
                              struct cadre_interval *ratio,
                              enum cadre_speed_verdict *verdict,
                              struct cadre_error *err)
{
    struct cadre_rounds rounds = {0};
    if (a >= input->n_runs || b >= input->n_runs)
        return cadre_fail(err, CADRE_E_INVALID,
                          "a pair of runs %zu and %zu, expected two of %zu, from 0", a,
                          b, input->n_runs);
    CADRE_TRY(cadre_rounds_init(&rounds, input, err));
    cadre_status rc = judge_pair(&rounds, input, a, b, ratio, verdict, err);
    cadre_rounds_fini(&rounds);
    return rc;
}

const char *cadre_speed_verdict_name(enum cadre_speed_verdict verdict)
{
    static const char *const names[] = {"not ranked", "no difference shown", "faster",
                                        "slower"};
    return names[verdict];
}

void cadre_speed_fini(struct cadre_speed *speed)
{
    free(speed->run);
    free(speed->round);
    *speed = (struct cadre_speed){0};
}
