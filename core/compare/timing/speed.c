/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/timing/speed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/median.h"
#include "core/base/memory.h"
#include "core/compare/timing/order.h"
#include "core/compare/timing/rounds.h"

/* An effect of one half-width of the interval is shown half of the time, one of 1.5
 * in four of five tries: the width is some 2 standard errors. */
#define DETECTABLE_WIDTHS 1.5

/* Rounds that are looked at. LESS_TAKEN: all of them, where those that were disturbed
 * count as if the load had been the slower run's alone. */
enum which { ALL, UNDISTURBED, LESS_TAKEN };

struct view {
    const struct cadre_rounds *rounds;
    const struct cadre_speed_input *input;
    enum which which;
    size_t row[CADRE_SIGNED_RANK_MAX], n;
};

static cadre_status open_view(struct view *view, const struct cadre_rounds *rounds,
                              const struct cadre_speed_input *input, enum which which,
                              struct cadre_error *err)
{
    *view = (struct view){.rounds = rounds, .input = input, .which = which};
    if (rounds->n > CADRE_SIGNED_RANK_MAX)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%zu rounds, at most %d can be judged: take fewer rounds",
                          rounds->n, CADRE_SIGNED_RANK_MAX);
    for (size_t row = 0; row < rounds->n; row++)
        if (which != UNDISTURBED || !rounds->round[row].disturbed)
            view->row[view->n++] = row;
    return CADRE_OK;
}

/* log(T of a / T of b) of each round. */
static void log_ratios(const struct view *view, size_t a, size_t b, double *out)
{
    for (size_t i = 0; i < view->n; i++)
        out[i] = cadre_rounds_at(view->rounds, view->row[i], a)->log_t -
                 cadre_rounds_at(view->rounds, view->row[i], b)->log_t;
}

/* ---- figures ---- */

enum figure { PERIOD, SPEEDUP, OVERHEAD, BUBBLE, COMM };

static double figure_of(const struct view *view, size_t row, size_t run,
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

static cadre_status estimate(const struct view *view, size_t run, enum figure figure,
                             struct cadre_interval *out, struct cadre_error *err)
{
    double x[CADRE_SIGNED_RANK_MAX];
    for (size_t i = 0; i < view->n; i++)
        x[i] = figure_of(view, view->row[i], run, figure);
    CADRE_TRY(cadre_signed_rank_interval(x, view->n, CADRE_SPEED_ALPHA, out, err));
    if (figure == PERIOD || figure == SPEEDUP)
        *out = (struct cadre_interval){exp(out->value), exp(out->low), exp(out->high)};
    return CADRE_OK;
}

static double control_of(const struct view *view, size_t run)
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

/* All tests are corrected for their number, but where the undisturbed rounds are too
 * few to show anything then: what all rounds show, they must only show again. */
static bool is_corrected(enum which which, size_t rounds, size_t tests)
{
    return which != UNDISTURBED ||
           ldexp((double)tests, 1 - (int)rounds) <= CADRE_SPEED_ALPHA;
}

/* The speedup that would have been shown, at the strictest level of the tests. */
static cadre_status detectable(const struct view *view, size_t run, size_t others,
                               double *out, struct cadre_error *err)
{
    double x[CADRE_SIGNED_RANK_MAX];
    struct cadre_interval ratio;
    const double tests =
        is_corrected(view->which, view->n, others) ? (double)others : 1;
    log_ratios(view, run, view->input->baseline, x);
    CADRE_TRY(
        cadre_signed_rank_interval(x, view->n, CADRE_SPEED_ALPHA / tests, &ratio, err));
    *out = (1 + view->input->margin) *
           exp(DETECTABLE_WIDTHS * 0.5 * (ratio.high - ratio.low));
    return CADRE_OK;
}

/* Both views must show it; NaN where one of them has too few rounds for that. */
static cadre_status detectable_by_both(const struct view *all, const struct view *quiet,
                                       size_t run, size_t others, double *out,
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

static cadre_status fill_figures(const struct view *all, size_t run,
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

/* ---- verdicts ---- */

/* Two-sided p-value of "a is not faster than b by more than the margin". */
static cadre_status p_faster(const struct view *view, size_t a, size_t b, double *p,
                             struct cadre_error *err)
{
    double x[CADRE_SIGNED_RANK_MAX];
    log_ratios(view, b, a, x);
    for (size_t i = 0; view->which == LESS_TAKEN && i < view->n; i++)
        x[i] -= cadre_rounds_at(view->rounds, view->row[i], b)->taken;
    CADRE_TRY(cadre_signed_rank_above(x, view->n, log1p(view->input->margin), p, err));
    *p = fmin(1, 2 * *p);
    return CADRE_OK;
}

/* What one view of the rounds says. Arrays of a run each, owned. */
struct ranking {
    size_t n;
    const struct view *view;
    double *p; /* [a][b] of "a is faster than b" */
    enum cadre_speed_verdict *verdict;
    bool *leading;
    ptrdiff_t fastest;
    /* of one family of tests */
    double *family;
    bool *reject;
};

static void ranking_fini(struct ranking *ranking)
{
    free(ranking->p);
    free(ranking->verdict);
    free(ranking->leading);
    free(ranking->family);
    free(ranking->reject);
    *ranking = (struct ranking){0};
}

static cadre_status ranking_init(struct ranking *ranking, size_t n,
                                 struct cadre_error *err)
{
    *ranking = (struct ranking){
        .n = n,
        .p = cadre_calloc(n * n, sizeof *ranking->p),
        .verdict = cadre_calloc(n, sizeof *ranking->verdict),
        .leading = cadre_calloc(n, sizeof *ranking->leading),
        .fastest = -1,
        .family = cadre_calloc(n, sizeof *ranking->family),
        .reject = cadre_calloc(n, sizeof *ranking->reject),
    };
    if (ranking->p && ranking->verdict && ranking->leading && ranking->family &&
        ranking->reject)
        return CADRE_OK;
    ranking_fini(ranking);
    return cadre_no_memory(err, "the ranking of %zu runs", n);
}

/* Which of the m p-values in `family` show something, in reject[]. */
static void test_family(struct ranking *ranking, size_t m)
{
    if (is_corrected(ranking->view->which, ranking->view->n, m)) {
        cadre_holm(ranking->family, m, CADRE_SPEED_ALPHA, ranking->reject);
        return;
    }
    for (size_t i = 0; i < m; i++)
        ranking->reject[i] = ranking->family[i] <= CADRE_SPEED_ALPHA;
}

/* Is `run` faster than each other timed one? reject[] says so of each, in the order of
 * the runs with `run` and those not timed left out. Returns how many others there are.
 */
static size_t test_against_others(struct ranking *ranking, const bool *timed,
                                  size_t run)
{
    size_t m = 0;
    for (size_t i = 0; i < ranking->n; i++)
        if (i != run && timed[i])
            ranking->family[m++] = ranking->p[run * ranking->n + i];
    test_family(ranking, m);
    return m;
}

static void rank_against_baseline(struct ranking *ranking, const bool *timed,
                                  size_t baseline)
{
    size_t n = ranking->n, m = 0;
    for (size_t i = 0; i < n; i++) {
        ranking->verdict[i] = CADRE_SPEED_NO_DIFFERENCE;
        if (i != baseline && timed[i])
            ranking->family[m++] =
                fmin(ranking->p[i * n + baseline], ranking->p[baseline * n + i]);
    }
    test_family(ranking, m);
    m = 0;
    for (size_t i = 0; i < n; i++)
        if (i != baseline && timed[i] && ranking->reject[m++])
            ranking->verdict[i] =
                ranking->p[i * n + baseline] < ranking->p[baseline * n + i]
                    ? CADRE_SPEED_FASTER
                    : CADRE_SPEED_SLOWER;
}

static void rank_for_fastest(struct ranking *ranking, const bool *timed, size_t least)
{
    for (size_t run = 0; run < ranking->n; run++) {
        bool all = timed[run];
        size_t m = all ? test_against_others(ranking, timed, run) : 0;
        for (size_t i = 0; i < m; i++)
            all = all && ranking->reject[i];
        if (all && m > 0)
            ranking->fastest = (ptrdiff_t)run;
    }
    test_against_others(ranking, timed, least);
    for (size_t run = 0, m = 0; run < ranking->n; run++)
        if (timed[run])
            ranking->leading[run] = run == least || !ranking->reject[m++];
}

static cadre_status rank(const struct view *view, size_t least, struct ranking *ranking,
                         struct cadre_error *err)
{
    const struct cadre_rounds *rounds = view->rounds;
    ranking->view = view;
    for (size_t a = 0; a < ranking->n; a++)
        for (size_t b = 0; b < ranking->n; b++)
            if (a != b && rounds->timed[a] && rounds->timed[b])
                CADRE_TRY(p_faster(view, a, b, &ranking->p[a * ranking->n + b], err));
    if (rounds->timed[view->input->baseline])
        rank_against_baseline(ranking, rounds->timed, view->input->baseline);
    rank_for_fastest(ranking, rounds->timed, least);
    return CADRE_OK;
}

/* The timed run with the least time, of what it took beside the others of its round. */
static cadre_status find_least(const struct view *view, size_t *least,
                               struct cadre_error *err)
{
    const struct cadre_rounds *rounds = view->rounds;
    double best = INFINITY;
    for (size_t run = 0; run < rounds->n_runs; run++) {
        double x[CADRE_SIGNED_RANK_MAX];
        struct cadre_interval time;
        if (!rounds->timed[run])
            continue;
        for (size_t i = 0; i < view->n; i++) {
            double own = cadre_rounds_at(rounds, view->row[i], run)->log_t;
            x[i] = 0;
            for (size_t k = 0; k < rounds->n_runs; k++)
                if (rounds->timed[k])
                    x[i] += own - cadre_rounds_at(rounds, view->row[i], k)->log_t;
        }
        CADRE_TRY(cadre_signed_rank_interval(x, view->n, 1, &time, err));
        if (time.value < best) {
            best = time.value;
            *least = run;
        }
    }
    return CADRE_OK;
}

/* ---- both views ---- */

/* Why nothing can be ranked, "" where it can. */
static void why_not(const struct view *all, const struct view *quiet, char *why,
                    size_t size)
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
static void agree(const struct ranking *all, const struct ranking *quiet,
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

static cadre_status rank_views(const struct view *all, const struct view *quiet,
                               struct cadre_speed *out, struct cadre_error *err)
{
    cadre_status rc;
    size_t least = 0;
    struct ranking of_all = {0}, of_quiet = {0};
    CADRE_TRY_OR(ranking_init(&of_all, out->n_runs, err), done);
    CADRE_TRY_OR(ranking_init(&of_quiet, out->n_runs, err), done);
    CADRE_TRY_OR(find_least(all, &least, err), done);
    CADRE_TRY_OR(rank(all, least, &of_all, err), done);
    if (quiet->n < all->n)
        CADRE_TRY_OR(rank(quiet, least, &of_quiet, err), done);
    agree(&of_all, quiet->n < all->n ? &of_quiet : &of_all, all->rounds->timed, out);
done:
    ranking_fini(&of_all);
    ranking_fini(&of_quiet);
    return rc;
}

/* The speedup of `run`, as far as what was taken from it or from the baseline could
 * have moved it. */
static cadre_status widen(const struct view *less_taken, size_t run,
                          struct cadre_interval *speedup, struct cadre_error *err)
{
    double x[CADRE_SIGNED_RANK_MAX];
    struct cadre_interval low, high;
    const struct cadre_rounds *rounds = less_taken->rounds;
    const size_t base = less_taken->input->baseline, *row = less_taken->row;
    log_ratios(less_taken, base, run, x);
    for (size_t i = 0; i < less_taken->n; i++)
        x[i] -= cadre_rounds_at(rounds, row[i], base)->taken;
    CADRE_TRY(
        cadre_signed_rank_interval(x, less_taken->n, CADRE_SPEED_ALPHA, &low, err));
    log_ratios(less_taken, base, run, x);
    for (size_t i = 0; i < less_taken->n; i++)
        x[i] += cadre_rounds_at(rounds, row[i], run)->taken;
    CADRE_TRY(
        cadre_signed_rank_interval(x, less_taken->n, CADRE_SPEED_ALPHA, &high, err));
    speedup->low = exp(low.low);
    speedup->high = exp(high.high);
    return CADRE_OK;
}

/* Only the speedup has an interval that load cannot explain. */
static cadre_status widen_all(const struct view *less_taken, struct cadre_speed *out,
                              struct cadre_error *err)
{
    const bool *timed = less_taken->rounds->timed;
    const size_t base = less_taken->input->baseline;
    for (size_t i = 0; i < out->n_runs; i++) {
        struct cadre_speed_run *run = &out->run[i];
        run->period_s.low = run->period_s.high = NAN;
        run->overhead_s.low = run->overhead_s.high = NAN;
        run->bubble_fraction.low = run->bubble_fraction.high = NAN;
        run->comm_exposed_s.low = run->comm_exposed_s.high = NAN;
        if (i != base && timed[i] && timed[base])
            CADRE_TRY(widen(less_taken, i, &run->speedup, err));
    }
    return CADRE_OK;
}

/* Verdicts of all rounds in spite of load. A winner has one too. Returns whether
 * anything was shown. */
static bool tell(const struct ranking *ranking, const struct view *view,
                 struct cadre_speed *out)
{
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

/* Too few undisturbed rounds: what load cannot explain is told, the rest is not ranked.
 */
static cadre_status rank_less_taken(const struct view *all, struct cadre_speed *out,
                                    struct cadre_error *err)
{
    cadre_status rc;
    struct view view = *all;
    size_t least = 0;
    struct ranking ranking = {0};
    view.which = LESS_TAKEN;
    CADRE_TRY_OR(ranking_init(&ranking, out->n_runs, err), done);
    CADRE_TRY_OR(find_least(&view, &least, err), done);
    CADRE_TRY_OR(rank(&view, least, &ranking, err), done);
    if (!tell(&ranking, &view, out))
        goto done;
    out->despite_load = true;
    for (size_t i = 0; i < out->n_runs; i++) {
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
    ranking_fini(&ranking);
    return rc;
}

static void fill_unknown(struct cadre_speed_run *run)
{
    const struct cadre_interval none = {NAN, NAN, NAN};
    run->period_s = run->speedup = run->overhead_s = none;
    run->bubble_fraction = run->comm_exposed_s = none;
    run->detectable = run->control = NAN;
}

/* What each run is told by itself: figures, and why it is not ranked. */
static cadre_status fill_runs(const struct view *all, const struct view *quiet,
                              const char *why, struct cadre_speed *out,
                              struct cadre_error *err)
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
    struct view all, quiet;
    char why[sizeof made.run->why];
    CADRE_TRY_OR(cadre_rounds_init(&rounds, input, err), fail);
    CADRE_TRY_OR(open_view(&all, &rounds, input, ALL, err), fail);
    CADRE_TRY_OR(open_view(&quiet, &rounds, input, UNDISTURBED, err), fail);
    made.run = cadre_calloc(input->n_runs, sizeof *made.run);
    if (!made.run) {
        rc = cadre_no_memory(err, "the speeds of %zu runs", input->n_runs);
        goto fail;
    }
    why_not(&all, &quiet, why, sizeof why);
    CADRE_TRY_OR(fill_runs(&all, &quiet, why, &made, err), fail);
    if (!*why)
        CADRE_TRY_OR(rank_views(&all, &quiet, &made, err), fail);
    else if (all.n >= CADRE_ROUNDS_LEAST && !input->undisturbed)
        CADRE_TRY_OR(rank_less_taken(&all, &made, err), fail);
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

static cadre_status pair_verdict(const struct view *view, size_t a, size_t b,
                                 enum cadre_speed_verdict *verdict,
                                 struct cadre_error *err)
{
    double faster, slower;
    CADRE_TRY(p_faster(view, a, b, &faster, err));
    CADRE_TRY(p_faster(view, b, a, &slower, err));
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
    struct view all, quiet;
    enum cadre_speed_verdict of_all, of_quiet;
    struct cadre_interval logs;
    *ratio = (struct cadre_interval){NAN, NAN, NAN};
    *verdict = CADRE_SPEED_NOT_RANKED;
    if (!rounds->timed[a] || !rounds->timed[b])
        return CADRE_OK;
    CADRE_TRY(open_view(&all, rounds, input, ALL, err));
    CADRE_TRY(open_view(&quiet, rounds, input, UNDISTURBED, err));
    log_ratios(&all, a, b, x);
    CADRE_TRY(cadre_signed_rank_interval(x, all.n, CADRE_SPEED_ALPHA, &logs, err));
    *ratio = (struct cadre_interval){exp(logs.value), exp(logs.low), exp(logs.high)};
    if (quiet.n < CADRE_ROUNDS_LEAST)
        return CADRE_OK;
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
    switch (verdict) {
    case CADRE_SPEED_NOT_RANKED:
        return "not ranked";
    case CADRE_SPEED_NO_DIFFERENCE:
        return "no difference shown";
    case CADRE_SPEED_FASTER:
        return "faster";
    case CADRE_SPEED_SLOWER:
        return "slower";
    }
    return "not ranked";
}

void cadre_speed_fini(struct cadre_speed *speed)
{
    free(speed->run);
    free(speed->round);
    *speed = (struct cadre_speed){0};
}
