/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/timing/ranking.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/median.h"
#include "core/base/memory.h"

cadre_status cadre_view_open(struct cadre_view *view, const struct cadre_rounds *rounds,
                             const struct cadre_speed_input *input,
                             enum cadre_view_rounds which, struct cadre_error *err)
{
    *view = (struct cadre_view){.rounds = rounds, .input = input, .which = which};
    if (rounds->n > CADRE_SIGNED_RANK_MAX)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%zu rounds, at most %d can be judged: take fewer rounds",
                          rounds->n, CADRE_SIGNED_RANK_MAX);
    for (size_t row = 0; row < rounds->n; row++)
        if (which != CADRE_VIEW_UNDISTURBED || !rounds->round[row].disturbed)
            view->row[view->n++] = row;
    return CADRE_OK;
}

void cadre_view_log_ratios(const struct cadre_view *view, size_t a, size_t b,
                           double *out)
{
    for (size_t i = 0; i < view->n; i++)
        out[i] = cadre_rounds_at(view->rounds, view->row[i], a)->log_t -
                 cadre_rounds_at(view->rounds, view->row[i], b)->log_t;
}

bool cadre_view_is_corrected(const struct cadre_view *view, size_t tests)
{
    return view->which != CADRE_VIEW_UNDISTURBED ||
           ldexp((double)tests, 1 - (int)view->n) <= CADRE_SPEED_ALPHA;
}

/* How much more load there was while b was timed than while a was. */
static double more_load(const struct cadre_view *view, size_t at, size_t b, size_t a)
{
    return cadre_rounds_at(view->rounds, view->row[at], b)->loaded -
           cadre_rounds_at(view->rounds, view->row[at], a)->loaded;
}

cadre_status cadre_view_followed(const struct cadre_view *view, size_t b, size_t a,
                                 double *taken, struct cadre_error *err)
{
    double more[CADRE_SIGNED_RANK_MAX], p;
    *taken = 0;
    for (size_t i = 0; i < view->n; i++)
        more[i] = more_load(view, i, b, a);
    CADRE_TRY(cadre_signed_rank_above(more, view->n, 0, &p, err));
    for (size_t i = 0; i < view->n; i++)
        more[i] = fmax(0, more[i]);
    if (p <= CADRE_SPEED_ALPHA)
        *taken = cadre_median(more, view->n);
    return CADRE_OK;
}

cadre_status cadre_view_p_faster(const struct cadre_view *view, size_t a, size_t b,
                                 double *p, struct cadre_error *err)
{
    double x[CADRE_SIGNED_RANK_MAX];
    cadre_view_log_ratios(view, b, a, x);
    double followed;
    CADRE_TRY(cadre_view_followed(view, b, a, &followed, err));
    for (size_t i = 0; i < view->n; i++) {
        const double taken = cadre_rounds_at(view->rounds, view->row[i], b)->taken;
        if (view->which == CADRE_VIEW_LESS_TAKEN && taken > 0)
            x[i] -= taken;
        else if (followed > 0)
            x[i] -= fmax(0, more_load(view, i, b, a));
    }
    CADRE_TRY(cadre_signed_rank_above(x, view->n, log1p(view->input->margin), p, err));
    *p = fmin(1, 2 * *p);
    return CADRE_OK;
}

void cadre_ranking_fini(struct cadre_ranking *ranking)
{
    free(ranking->p);
    free(ranking->verdict);
    free(ranking->leading);
    free(ranking->family);
    free(ranking->reject);
    *ranking = (struct cadre_ranking){0};
}

static cadre_status reserve(struct cadre_ranking *ranking, size_t n,
                            struct cadre_error *err)
{
    *ranking = (struct cadre_ranking){
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
    cadre_ranking_fini(ranking);
    return cadre_no_memory(err, "the ranking of %zu runs", n);
}

/* Which of the m p-values in `family` show something, in reject[]. */
static void test_family(struct cadre_ranking *ranking, size_t m)
{
    if (cadre_view_is_corrected(ranking->view, m)) {
        cadre_holm(ranking->family, m, CADRE_SPEED_ALPHA, ranking->reject);
        return;
    }
    for (size_t i = 0; i < m; i++)
        ranking->reject[i] = ranking->family[i] <= CADRE_SPEED_ALPHA;
}

/* Is `run` faster than each other timed one? reject[] says so of each, in the order of
 * the runs with `run` and those not timed left out. Returns how many others there are.
 */
static size_t test_against_others(struct cadre_ranking *ranking, const bool *timed,
                                  size_t run)
{
    size_t m = 0;
    for (size_t i = 0; i < ranking->n; i++)
        if (i != run && timed[i])
            ranking->family[m++] = ranking->p[run * ranking->n + i];
    test_family(ranking, m);
    return m;
}

static void rank_against_baseline(struct cadre_ranking *ranking, const bool *timed,
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

static void rank_for_fastest(struct cadre_ranking *ranking, const bool *timed,
                             size_t least)
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

cadre_status cadre_ranking_init(struct cadre_ranking *ranking,
                                const struct cadre_view *view, size_t least,
                                struct cadre_error *err)
{
    const struct cadre_rounds *rounds = view->rounds;
    const size_t n = rounds->n_runs, baseline = view->input->baseline;
    cadre_status rc = CADRE_OK;
    CADRE_TRY(reserve(ranking, n, err));
    ranking->view = view;
    for (size_t a = 0; rc == CADRE_OK && a < n; a++)
        for (size_t b = 0; rc == CADRE_OK && b < n; b++)
            if (a != b && rounds->timed[a] && rounds->timed[b])
                rc = cadre_view_p_faster(view, a, b, &ranking->p[a * n + b], err);
    if (rc != CADRE_OK) {
        cadre_ranking_fini(ranking);
        return rc;
    }
    if (rounds->timed[baseline])
        rank_against_baseline(ranking, rounds->timed, baseline);
    rank_for_fastest(ranking, rounds->timed, least);
    return CADRE_OK;
}

cadre_status cadre_view_least(const struct cadre_view *view, size_t *least,
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
