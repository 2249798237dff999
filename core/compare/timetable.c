/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/timetable.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/compare/timing/order.h"

static const double WARMUP = 0.3; /* of a piece's seconds, and seconds at most */
static const double DEAR = 3; /* pieces that a start may cost */

/* ---- options ---- */

/* "90", "90s", "10m", "1.5h" in seconds. */
static bool read_seconds(const char *text, double *seconds)
{
    static const char units[] = "smh";
    static const double of[] = {1, 60, 3600};
    char *end;
    double value = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : units;
    if (end == text || !unit || (*end && end[1]) || !(value >= 0 && value <= 1e9))
        return false;
    *seconds = value * of[unit - units];
    return true;
}

cadre_status cadre_timetable_read(struct cadre_timetable *table,
                                  const struct cadre_options *options,
                                  const struct cadre_config *config,
                                  struct cadre_error *err)
{
    *table = (struct cadre_timetable){
        .wanted = (int)config->compare.rounds,
        .piece_s = config->compare.piece,
        .period = config->compare.period,
        .seed = (uint64_t)config->run.seed,
        .order = (uint64_t)config->compare.order,
        .warmup = CADRE_TIMETABLE_WARMUP,
        .steps = CADRE_TIMETABLE_STEPS,
    };
    if (!read_seconds(config->compare.budget, &table->budget_s))
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: compare.budget: expected a time such as 90, 90s, 10m or "
                          "1.5h, found '%s'",
                          cadre_options_source(options, "compare.budget"),
                          config->compare.budget);
    return CADRE_OK;
}

/* Orders that a file fixed would be the same at every try, and what comes now and then
 * at the same places of a round would not average out. */
cadre_status cadre_timetable_draw(struct cadre_timetable *table,
                                  struct cadre_error *err)
{
    if (table->order)
        return CADRE_OK;
    uint32_t drawn = 0;
    while (drawn == 0)
        if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
            return cadre_fail_errno(err, CADRE_E_RESOURCE, errno,
                                    "the system has no random bytes for the order of "
                                    "runs; set compare.order to a number above 0");
    table->order = drawn;
    return CADRE_OK;
}

/* ---- runs ---- */

static void explain(struct cadre_comparison *c, size_t i)
{
    struct cadre_compared_run *run = &c->run[i];
    const struct cadre_compared_run *base = &c->run[c->baseline];
    const char *whom = *run->changes.by ? "it changes" : "the baseline changes";
    if (*run->failure)
        snprintf(run->untimed, sizeof run->untimed, "it failed");
    else if (!run->fair)
        snprintf(run->untimed, sizeof run->untimed, "%.150s", run->unfair);
    else if (strcmp(run->changes.by, base->changes.by) != 0 && c->target > 0)
        run->to_target = true;
    else if (strcmp(run->changes.by, base->changes.by) != 0)
        snprintf(run->untimed, sizeof run->untimed,
                 "%s training by design: set compare.target to compare by time to that "
                 "loss",
                 whom);
}

size_t cadre_timetable_choose(struct cadre_comparison *c, size_t *timed)
{
    const struct cadre_compared_run *base = &c->run[c->baseline];
    size_t n = 0, asked = 0, to_target = 0;
    for (size_t i = 0; i < c->n; i++) {
        asked += !*c->run[i].untimed;
        if (!*c->run[i].untimed)
            explain(c, i);
        to_target += c->run[i].to_target;
        if (!*c->run[i].untimed && !c->run[i].to_target)
            timed[n++] = i;
    }
    if (asked == 0)
        snprintf(c->unranked, sizeof c->unranked, "%s", base->untimed);
    else if (*base->untimed)
        snprintf(c->unranked, sizeof c->unranked, "the baseline is not timed: %.280s",
                 base->untimed);
    else if (n < 2 && to_target == 0)
        snprintf(c->unranked, sizeof c->unranked, "fewer than two runs can be timed");
    for (size_t i = 0; *c->unranked && i < c->n; i++)
        c->run[i].to_target = false;
    return *c->unranked || n < 2 ? 0 : n;
}

/* ---- lengths ---- */

/* Of one step of the run, or of one instance of it. */
static double step_s(const struct cadre_comparison *c,
                     const struct cadre_compared_run *run)
{
    size_t together = run->record.n_instances ? run->record.n_instances : 1;
    return (double)together *
           cadre_record_median_s(&run->record, c->warmup, (int64_t)run->record.n);
}

static int64_t at_least(int64_t least, double seconds, double step_s)
{
    double steps = ceil(seconds / step_s);
    if (!(steps > (double)least))
        return least;
    return steps < 1e8 ? (int64_t)steps : 100000000;
}

void cadre_timetable_size(struct cadre_timetable *table,
                          const struct cadre_comparison *c, const size_t *timed,
                          size_t n)
{
    double fastest = INFINITY;
    for (size_t i = 0; i < n; i++)
        fastest = fmin(fastest, step_s(c, &c->run[timed[i]]));
    table->warmup =
        at_least(CADRE_TIMETABLE_WARMUP, WARMUP * fmin(1, table->piece_s), fastest);
    int64_t steps = at_least(CADRE_TIMETABLE_STEPS, table->piece_s, fastest);
    table->steps = (steps + table->period - 1) / table->period * table->period;
}

int cadre_timetable_rounds(const struct cadre_timetable *table, size_t runs,
                           double round_s)
{
    int n =
        table->wanted ? table->wanted : cadre_rounds_wanted(runs, CADRE_SPEED_ALPHA);
    if (table->budget_s > 0) {
        double fit = floor(table->budget_s / round_s);
        int most = table->wanted ? table->wanted : CADRE_SIGNED_RANK_MAX;
        n = fit < most ? (int)fit : most;
    }
    return n > 1 ? n : 1;
}

double cadre_timetable_window_s(const struct cadre_timetable *table,
                                const struct cadre_piece *piece)
{
    return piece->period_s * (double)table->steps;
}

bool cadre_timetable_starts_are_dear(const struct cadre_timetable *table,
                                     const struct cadre_piece *piece, size_t n)
{
    double starts = 0, windows = 0;
    for (size_t i = 0; i < n; i++) {
        starts += piece[i].start_s;
        windows += cadre_timetable_window_s(table, &piece[i]);
    }
    return starts > DEAR * windows;
}

int cadre_timetable_repeats(int n)
{
    int third = n / 3, room = CADRE_SIGNED_RANK_MAX - n;
    return third < room ? third : room;
}
