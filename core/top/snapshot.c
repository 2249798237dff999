/* SPDX-License-Identifier: Apache-2.0 */
#include "core/top/snapshot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/median.h"
#include "core/base/memory.h"
#include "core/base/path.h"

#define SIGMAS 3

const char *cadre_top_state_name(enum cadre_top_state state)
{
    static const char *const names[] = {"running", "ended", "stopped", "failed",
                                        "died"};
    return names[state];
}

const struct cadre_rank_page_step *
cadre_top_last_step(const struct cadre_top_rank *rank)
{
    const size_t n = rank->known ? rank->seen.n_times : 0;
    return n > 0 ? &rank->seen.times[n - 1] : NULL;
}

/* ---- reading ---- */

static void read_rank(const char *dir, int index, int ranks,
                      struct cadre_top_rank *rank)
{
    struct cadre_error err = {0};
    char *path = cadre_rank_page_path(dir, index);
    if (!path)
        cadre_no_memory(&err, "a path");
    else if (!cadre_path_exists(path))
        cadre_fail(&err, CADRE_E_INVALID, "no status page yet");
    else if (cadre_rank_seen_read(path, &rank->seen, &err) == CADRE_OK &&
             (rank->seen.head.rank != index || rank->seen.head.ranks != ranks))
        cadre_fail(&err, CADRE_E_INVALID,
                   "'%s' is the status page of rank %d of %d, not of %d of %d", path,
                   rank->seen.head.rank, rank->seen.head.ranks, index, ranks);
    rank->known = err.code == CADRE_OK;
    snprintf(rank->why, sizeof rank->why, "%.255s", err.text);
    free(path);
}

cadre_status cadre_top_snapshot_take(const char *dir,
                                     struct cadre_top_snapshot *snapshot,
                                     struct cadre_error *err)
{
    const int ranks = cadre_rank_seen_count(dir, err);
    if (ranks == 0)
        return err->code;
    snapshot->dir = cadre_strdup(dir);
    snapshot->rank = cadre_calloc((size_t)ranks, sizeof *snapshot->rank);
    if (!snapshot->dir || !snapshot->rank)
        return cadre_no_memory(err, "%d status pages", ranks);
    snapshot->n = ranks;
    for (int r = 0; r < ranks; r++)
        read_rank(dir, r, ranks, &snapshot->rank[r]);
    snapshot->time_s = cadre_wall_clock_s();
    cadre_top_snapshot_conclude(snapshot);
    if (!snapshot->lead)
        return cadre_fail(err, CADRE_E_INVALID, "%s", snapshot->rank[0].why);
    *err = (struct cadre_error){0};
    return CADRE_OK;
}

void cadre_top_snapshot_fini(struct cadre_top_snapshot *snapshot)
{
    free(snapshot->dir);
    free(snapshot->rank);
    *snapshot = (struct cadre_top_snapshot){0};
}

/* ---- the run's state ---- */

static void find_state(struct cadre_top_snapshot *s)
{
    int at_work = 0, unseen = 0, failed = 0, stopped = 0, died = 0;
    for (int r = 0; r < s->n; r++) {
        struct cadre_top_rank *rank = &s->rank[r];
        if (!rank->known)
            continue;
        const bool over = cadre_rank_state_is_last(rank->seen.state);
        rank->died = !over && rank->seen.alive == CADRE_RANK_GONE;
        at_work += !over && rank->seen.alive == CADRE_RANK_ALIVE;
        unseen += !over && rank->seen.alive == CADRE_RANK_ELSEWHERE;
        died += rank->died;
        failed += rank->seen.state == CADRE_RANK_FAILED;
        stopped += rank->seen.state == CADRE_RANK_STOPPED;
    }
    if (failed == 0) /* one that failed ends the others, also where that is not seen */
        at_work += unseen;
    s->state = at_work > 0   ? CADRE_TOP_RUNNING
               : died > 0    ? CADRE_TOP_DIED
               : failed > 0  ? CADRE_TOP_FAILED
               : stopped > 0 ? CADRE_TOP_STOPPED
                             : CADRE_TOP_ENDED;
}

/* ---- rates ---- */

static void find_rates(struct cadre_top_snapshot *s)
{
    const struct cadre_rank_seen *lead = &s->lead->seen;
    const struct cadre_rank_page_step *last = cadre_top_last_step(s->lead);
    double sorted[CADRE_RANK_PAGE_STEPS];
    s->last_step = lead->head.last_step;
    s->step = last ? (int64_t)last->step : lead->head.first_step;
    if (!last)
        return;
    for (size_t i = 0; i < lead->n_times; i++)
        sorted[i] = lead->times[i].step_s;
    const double median = cadre_median(sorted, lead->n_times);
    const double tokens = (double)lead->head.step_tokens;
    if (last->step_s > 0)
        s->tokens_per_s = tokens / last->step_s;
    if (median > 0)
        s->tokens_per_s_median = tokens / median;
    const double done = (double)(s->step - lead->head.first_step);
    if (s->state == CADRE_TOP_RUNNING && done > 0)
        s->left_s = lead->begun_s / done * (double)(s->last_step - s->step);
}

/* ---- the slowest rank ---- */

static const struct cadre_rank_page_step *find_step(const struct cadre_top_rank *rank,
                                                    uint64_t step)
{
    for (size_t i = 0; i < rank->seen.n_times; i++)
        if (rank->seen.times[i].step == step)
            return &rank->seen.times[i];
    return NULL;
}

/* The latest step that all ranks have done; 0: a rank is not known or has done none. */
static uint64_t latest_of_all(const struct cadre_top_snapshot *s)
{
    uint64_t latest = UINT64_MAX;
    for (int r = 0; r < s->n; r++) {
        const struct cadre_rank_page_step *last = cadre_top_last_step(&s->rank[r]);
        if (!last)
            return 0;
        latest = last->step < latest ? last->step : latest;
    }
    return latest;
}

/* compute (n x CADRE_TOP_STEPS): of each rank in the latest steps; false where a rank
 * lacks one of them. */
static bool collect(const struct cadre_top_snapshot *s, double *compute)
{
    const uint64_t latest = latest_of_all(s);
    if (latest < CADRE_TOP_STEPS)
        return false;
    for (int r = 0; r < s->n; r++)
        for (int k = 0; k < CADRE_TOP_STEPS; k++) {
            const struct cadre_rank_page_step *step =
                find_step(&s->rank[r], latest - (uint64_t)k);
            if (!step)
                return false;
            compute[r * CADRE_TOP_STEPS + k] = step->compute_s;
        }
    return true;
}

static double sum_of(const double *values, int n, int stride)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += values[i * stride];
    return sum;
}

static void judge(struct cadre_top_snapshot *s, const double *compute)
{
    double difference[CADRE_TOP_STEPS], mean = 0, squares = 0, others = 0;
    int slowest = 0;
    for (int r = 1; r < s->n; r++)
        if (sum_of(&compute[r * CADRE_TOP_STEPS], CADRE_TOP_STEPS, 1) >
            sum_of(&compute[slowest * CADRE_TOP_STEPS], CADRE_TOP_STEPS, 1))
            slowest = r;
    for (int k = 0; k < CADRE_TOP_STEPS; k++) {
        const double own = compute[slowest * CADRE_TOP_STEPS + k];
        const double rest =
            (sum_of(&compute[k], s->n, CADRE_TOP_STEPS) - own) / (s->n - 1);
        difference[k] = own - rest;
        mean += difference[k] / CADRE_TOP_STEPS;
        others += rest / CADRE_TOP_STEPS;
    }
    for (int k = 0; k < CADRE_TOP_STEPS; k++)
        squares += (difference[k] - mean) * (difference[k] - mean);
    if (mean <= SIGMAS * sqrt(squares / (CADRE_TOP_STEPS - 1)) || !(others > 0))
        return;
    s->slowest = slowest;
    s->slower_by = mean / others;
}

static void find_slowest(struct cadre_top_snapshot *s)
{
    double *compute =
        s->n > 1 ? cadre_calloc((size_t)s->n * CADRE_TOP_STEPS, sizeof *compute) : NULL;
    if (compute && collect(s, compute))
        judge(s, compute);
    free(compute);
}

void cadre_top_snapshot_conclude(struct cadre_top_snapshot *snapshot)
{
    snapshot->lead = NULL;
    for (int r = snapshot->n; r-- > 0;)
        if (snapshot->rank[r].known)
            snapshot->lead = &snapshot->rank[r];
    snapshot->slowest = -1;
    snapshot->step = snapshot->last_step = -1;
    snapshot->left_s = snapshot->tokens_per_s = snapshot->tokens_per_s_median =
        snapshot->slower_by = NAN;
    if (!snapshot->lead)
        return;
    find_state(snapshot);
    find_rates(snapshot);
    find_slowest(snapshot);
}
