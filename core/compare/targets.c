/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/targets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/compare/measure.h"
#include "core/compare/timing/order.h"

struct targeting {
    const struct cadre_timetable *table;
    struct cadre_pieces *pieces;
    struct cadre_comparison *c;
    size_t *run; /* the baseline first; owned, as the next */
    size_t *order; /* of a round, into run */
    size_t n;
    bool baseline_failed;
};

/* It has no speed of its own any more; without the baseline nobody has. */
static void give_up(struct targeting *t, size_t i, const char *why)
{
    struct cadre_comparison *c = t->c;
    bool baseline = i == c->baseline;
    cadre_log(CADRE_LOG_WARN, "compare", "%s: %s; its time to the loss is not judged",
              c->run[i].name, why);
    t->baseline_failed = t->baseline_failed || baseline;
    for (size_t k = 1; k < t->n; k++) {
        struct cadre_compared_run *run = &c->run[t->run[k]];
        if ((!baseline && t->run[k] != i) || !run->to_target)
            continue;
        run->to_target = false;
        snprintf(run->untimed, sizeof run->untimed, "%s%.140s",
                 baseline ? "the baseline: " : "", why);
        cadre_pieces_drop(t->pieces, t->run[k]);
    }
}

static bool is_judged(const struct targeting *t, size_t i)
{
    return i == t->c->baseline ? !t->baseline_failed : t->c->run[i].to_target;
}

static cadre_status run_round(struct targeting *t, int round, struct cadre_error *err)
{
    const struct cadre_task_piece what = {
        .windows = 1,
        .target = t->c->target,
        .seed = (int64_t)t->table->seed + round,
    };
    cadre_round_order(t->table->order, round, t->n, false, t->order);
    for (size_t k = 0; k < t->n; k++) {
        struct cadre_child_failure failure = {0};
        const struct cadre_piece piece = {
            .run = t->run[t->order[k]], .round = round, .place = (int)k};
        if (t->baseline_failed || !is_judged(t, piece.run))
            continue;
        CADRE_TRY(cadre_pieces_run(t->pieces, &piece, &what, &failure, err));
        if (failure.failed)
            give_up(t, piece.run, failure.why);
    }
    return CADRE_OK;
}

static bool anyone_left(const struct targeting *t)
{
    bool left = false;
    for (size_t k = 1; k < t->n; k++)
        left = left || t->c->run[t->run[k]].to_target;
    return left;
}

/* Seconds of a round, as long as the trainings were, which is the most. */
static double longest_round_s(const struct targeting *t)
{
    double seconds = 0;
    for (size_t k = 0; k < t->n; k++)
        seconds += cadre_record_number(&t->c->run[t->run[k]].record, "time_s");
    return isfinite(seconds) ? seconds : 0;
}

static cadre_status measure(struct targeting *t, struct cadre_error *err)
{
    char left[32];
    double longest = longest_round_s(t), began = cadre_now_s();
    int n = cadre_timetable_rounds(t->table, t->n, longest);
    for (int round = 1; round <= n && anyone_left(t); round++) {
        double each = round > 1 ? (cadre_now_s() - began) / (round - 1) : longest;
        cadre_log(CADRE_LOG_INFO, "compare",
                  "to a loss of %g: round %d of %d, about %s left", t->c->target, round,
                  n, cadre_measure_clock(each * (n - round + 1), left, sizeof left));
        CADRE_TRY(run_round(t, round, err));
    }
    if (!anyone_left(t))
        t->c->n_target_pieces = 0;
    return CADRE_OK;
}

cadre_status cadre_targets_measure(const struct cadre_timetable *table,
                                   struct cadre_pieces *pieces,
                                   struct cadre_comparison *c, struct cadre_error *err)
{
    struct targeting t = {.table = table, .pieces = pieces, .c = c, .n = 1};
    t.run = cadre_calloc(c->n + 1, sizeof *t.run);
    t.order = cadre_calloc(c->n + 1, sizeof *t.order);
    cadre_status rc =
        t.run && t.order ? CADRE_OK : cadre_no_memory(err, "%zu runs", c->n);
    if (rc == CADRE_OK) {
        t.run[0] = c->baseline;
        for (size_t i = 0; i < c->n; i++)
            if (c->run[i].to_target)
                t.run[t.n++] = i;
        cadre_pieces_to_target(pieces);
        if (t.n > 1)
            rc = measure(&t, err);
    }
    free(t.run);
    free(t.order);
    return rc;
}
