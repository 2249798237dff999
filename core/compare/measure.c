/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/compare/pieces.h"
#include "core/compare/targets.h"
#include "core/compare/timing/order.h"

struct measuring {
    struct cadre_comparison *c;
    struct cadre_timetable timetable;
    struct cadre_pieces pieces;
    size_t *timed; /* indices of the runs; owned, as the next */
    size_t *order; /* of one round, into timed */
    size_t n; /* in timed */
    int windows; /* of a piece */
};

const char *cadre_measure_clock(double seconds, char *out, size_t size)
{
    long all = seconds > 0 ? (long)(seconds + 0.5) : 0;
    if (all < 3600)
        snprintf(out, size, "%ld:%02ld", all / 60, all % 60);
    else
        snprintf(out, size, "%ld:%02ld:%02ld", all / 3600, all / 60 % 60, all % 60);
    return out;
}

/* ---- a round ---- */

static bool is_timed(const struct measuring *m, size_t run)
{
    return !*m->c->run[run].untimed;
}

/* The run is not timed any more. */
static void give_up(struct measuring *m, size_t run,
                    const struct cadre_child_failure *failure)
{
    struct cadre_compared_run *it = &m->c->run[run];
    snprintf(it->untimed, sizeof it->untimed, "%s", failure->why);
    it->lost = true;
    cadre_log(CADRE_LOG_WARN, "compare", "%s: %s; it is not timed any more", it->name,
              it->untimed);
    cadre_pieces_drop(&m->pieces, run);
}

/* After a round, since its order stays as it was drawn. */
static void leave_out_untimed(struct measuring *m)
{
    size_t left = 0;
    for (size_t i = 0; i < m->n; i++)
        if (is_timed(m, m->timed[i]))
            m->timed[left++] = m->timed[i];
    m->n = left;
    if (!is_timed(m, m->c->baseline))
        snprintf(m->c->unranked, sizeof m->c->unranked,
                 "the baseline is not timed: %.120s",
                 m->c->run[m->c->baseline].untimed);
    else if (m->n < 2)
        snprintf(m->c->unranked, sizeof m->c->unranked,
                 "fewer than two runs could be timed");
}

/* repeats: the disturbed round that it repeats, 0 for none. */
static cadre_status run_round(struct measuring *m, int round, int repeats,
                              struct cadre_error *err)
{
    const struct cadre_task_piece what = {
        .warmup = m->timetable.warmup,
        .steps = m->timetable.steps,
        .windows = m->windows,
    };
    size_t places = m->c->mirrored ? 2 * m->n : m->n;
    cadre_round_order(m->timetable.order, round, m->n, m->c->mirrored, m->order);
    for (size_t k = 0; k < places; k++) {
        struct cadre_child_failure failure = {0};
        const struct cadre_piece piece = {
            .run = m->timed[m->order[k]],
            .round = round,
            .repeats_round = repeats,
            .place = (int)k,
            .half = k >= m->n,
        };
        if (!is_timed(m, piece.run))
            continue;
        CADRE_TRY(cadre_pieces_run(&m->pieces, &piece, &what, &failure, err));
        if (failure.failed)
            give_up(m, piece.run, &failure);
    }
    leave_out_untimed(m);
    return CADRE_OK;
}

/* Rounds first, first + 1, ... of `all`. repeats[i]: what round first + i repeats,
 * NULL: nothing. */
static cadre_status run_rounds(struct measuring *m, int first, int n,
                               const int *repeats, struct cadre_error *err)
{
    double began = cadre_now_s();
    char left[32];
    for (int i = 0; i < n && !*m->c->unranked; i++) {
        double spent = cadre_now_s() - began;
        if (i > 0 && !repeats)
            cadre_log(CADRE_LOG_INFO, "compare", "round %d of %d, about %s left",
                      first + i, n,
                      cadre_measure_clock(spent / i * (n - i), left, sizeof left));
        else if (repeats)
            cadre_log(CADRE_LOG_INFO, "compare",
                      "round %d of %d was disturbed: once more (%d of %d)", repeats[i],
                      first - 1, i + 1, n);
        CADRE_TRY(run_round(m, first + i, repeats ? repeats[i] : 0, err));
    }
    return CADRE_OK;
}

/* ---- the whole ---- */

/* The warm-up round: never judged, it tells what a round costs. Returns the seconds of
 * one to come. */
static cadre_status warm_up(struct measuring *m, double *round_s,
                            struct cadre_error *err)
{
    double began = cadre_now_s();
    struct cadre_comparison *c = m->c;
    c->mirrored = true;
    m->windows = 1;
    cadre_log(
        CADRE_LOG_INFO, "compare",
        "timing %zu runs: %lld steps a piece after %lld of warm-up; a first round "
        "that does not count",
        m->n, (long long)m->timetable.steps, (long long)m->timetable.warmup);
    CADRE_TRY(run_round(m, 0, 0, err));
    *round_s = cadre_now_s() - began;
    if (*c->unranked ||
        !cadre_timetable_starts_are_dear(&m->timetable, c->piece, c->n_pieces))
        return CADRE_OK;
    c->mirrored = false;
    m->windows = CADRE_TIMETABLE_WINDOWS;
    *round_s /= 2; /* one start of each */
    for (size_t i = 0; i < c->n_pieces; i++)
        *round_s += (CADRE_TIMETABLE_WINDOWS - 1) *
                    cadre_timetable_window_s(&m->timetable, &c->piece[i]) / 2;
    cadre_log(CADRE_LOG_INFO, "compare",
              "starts take long: a round is one start of each run with %d windows",
              CADRE_TIMETABLE_WINDOWS);
    return CADRE_OK;
}

/* Fix the number of rounds, and say so. */
static void fix_rounds(struct measuring *m, double round_s)
{
    struct cadre_comparison *c = m->c;
    char time[32];
    const int needed = cadre_rounds_needed(m->n, CADRE_SPEED_ALPHA);
    c->rounds = cadre_timetable_rounds(&m->timetable, m->n, round_s);
    cadre_log(CADRE_LOG_INFO, "compare", "%d rounds, about %s", c->rounds,
              cadre_measure_clock(c->rounds * round_s, time, sizeof time));
    if (m->timetable.wanted > 0 && c->rounds == m->timetable.wanted)
        return; /* forewarn.h told it before anything trained */
    if (c->rounds < CADRE_ROUNDS_LEAST)
        cadre_log(CADRE_LOG_WARN, "compare",
                  "%d rounds rank nothing, %d are needed: raise compare.budget",
                  c->rounds, CADRE_ROUNDS_LEAST);
    else if (c->rounds < needed)
        cadre_log(CADRE_LOG_WARN, "compare",
                  "%d rounds cannot tell one run from the %zu others, %d can: raise "
                  "compare.budget",
                  c->rounds, m->n - 1, needed);
}

/* Disturbed rounds are made once more, at most a third as many as there are. */
static cadre_status repeat_disturbed(struct measuring *m, struct cadre_error *err)
{
    const struct cadre_comparison *c = m->c;
    const struct cadre_speed_input input = {
        .piece = c->piece,
        .n_pieces = c->n_pieces,
        .n_runs = c->n,
        .baseline = c->baseline,
        .margin = c->margin,
    };
    struct cadre_speed speed = {0};
    int most = cadre_timetable_repeats(c->rounds), n = 0;
    int *repeats = cadre_calloc((size_t)most + 1, sizeof *repeats);
    cadre_status rc = repeats ? CADRE_OK : cadre_no_memory(err, "rounds");
    if (rc == CADRE_OK)
        rc = cadre_speed_judge(&input, &speed, err);
    for (size_t i = 0; rc == CADRE_OK && i < speed.n_rounds && n < most; i++)
        if (speed.round[i].disturbed)
            repeats[n++] = speed.round[i].round;
    cadre_speed_fini(&speed);
    if (rc == CADRE_OK)
        rc = run_rounds(m, c->rounds + 1, n, repeats, err);
    free(repeats);
    return rc;
}

static cadre_status measure(struct measuring *m, struct cadre_error *err)
{
    struct cadre_comparison *c = m->c;
    double round_s;
    cadre_timetable_size(&m->timetable, c, m->timed, m->n);
    CADRE_TRY(warm_up(m, &round_s, err));
    if (!*c->unranked) {
        fix_rounds(m, round_s);
        CADRE_TRY(run_rounds(m, 1, c->rounds, NULL, err));
    }
    if (!*c->unranked)
        CADRE_TRY(repeat_disturbed(m, err));
    if (*c->unranked)
        c->n_pieces = 0; /* nothing to compare them with */
    else if (c->rounds < CADRE_ROUNDS_LEAST)
        snprintf(c->unranked, sizeof c->unranked,
                 "%d round%s, and %d are needed to rank runs", c->rounds,
                 c->rounds == 1 ? "" : "s", CADRE_ROUNDS_LEAST);
    return CADRE_OK;
}

cadre_status cadre_measure(const struct cadre_task_request *request,
                           struct cadre_comparison *c,
                           const struct cadre_supervise_watch *watch,
                           struct cadre_error *err)
{
    struct measuring m = {.c = c, .timetable = request->arrangement->timetable};
    m.timed = cadre_calloc(c->n, sizeof *m.timed);
    m.order = cadre_calloc(2 * c->n, sizeof *m.order);
    cadre_status rc =
        m.timed && m.order ? CADRE_OK : cadre_no_memory(err, "%zu runs", c->n);
    if (rc == CADRE_OK) {
        cadre_comparison_find_unfair(c);
        m.n = cadre_timetable_choose(c, m.timed);
    }
    if (rc == CADRE_OK && !*c->unranked)
        rc = cadre_timetable_draw(&m.timetable, err);
    if (rc == CADRE_OK && !*c->unranked) {
        c->order = m.timetable.order;
        rc = cadre_pieces_open(&m.pieces, request, c, watch, err);
        if (rc == CADRE_OK && m.n > 0)
            rc = measure(&m, err);
        if (rc == CADRE_OK && c->target > 0)
            rc = cadre_targets_measure(&m.timetable, &m.pieces, c, err);
        cadre_pieces_close(&m.pieces);
    }
    free(m.timed);
    free(m.order);
    return rc;
}
