/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/compare/timed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "tests/support/check_main.h"

static struct cadre_interval around(double value)
{
    return (struct cadre_interval){value, 0.98 * value, 1.02 * value};
}

static const struct cadre_interval nothing = {NAN, NAN, NAN};

static void fill_run(struct cadre_comparison *c, size_t i)
{
    struct cadre_compared_run *run = &c->run[i];
    struct cadre_speed_run *speed = &run->speed;
    double base_s = c->run[c->baseline].step_s, N = run->N > 0 ? run->N : 1;
    double speedup = base_s / run->step_s;
    memset(speed, 0, sizeof *speed);
    speed->period_s = around(run->step_s);
    speed->speedup =
        i == c->baseline ? (struct cadre_interval){1, 1, 1} : around(speedup);
    speed->overhead_s = around(run->step_s - base_s / N);
    speed->bubble_fraction = run->schedule.n > 0 ? around(0.4) : nothing;
    speed->comm_exposed_s = around(0.001);
    speed->detectable = 1.03;
    speed->control = 0.012;
    speed->verdict = i == c->baseline || fabs(speedup - 1) <= 0.01
                         ? CADRE_SPEED_NO_DIFFERENCE
                     : speedup > 1 ? CADRE_SPEED_FASTER
                                   : CADRE_SPEED_SLOWER;
    run->efficiency = around(speedup / N);
}

/* 60 % computing, 20 % exposed where there are ranks, 10 % optimizer. */
static void fill_parts(struct cadre_compared_run *run)
{
    free(run->parts);
    run->n_parts = 3;
    run->parts = cadre_calloc(3, sizeof *run->parts);
    ck_assert_ptr_nonnull(run->parts);
    for (size_t k = 0; k < 3; k++) {
        struct cadre_step_parts *parts = &run->parts[k];
        parts->known = true;
        parts->part[CADRE_PART_COMPUTE] = 0.6 + 0.01 * ((double)k - 1);
        parts->part[CADRE_PART_OPTIMIZER] = 0.1;
        if (run->ranks > 1) {
            cadre_axis_times_add(&parts->exposed, "dp", 0.15);
            cadre_axis_times_add(&parts->exposed, "world", 0.05);
        }
    }
}

static void fill_pieces(struct cadre_comparison *c, int rounds)
{
    size_t n = 0;
    double at = 0;
    c->piece = cadre_calloc((size_t)(rounds + 1) * 2 * c->n, sizeof *c->piece);
    ck_assert_ptr_nonnull(c->piece);
    for (int r = 0; r <= rounds; r++)
        for (int place = 0; place < 2 * (int)c->n; place++, n++) {
            int half = place >= (int)c->n;
            size_t run = half ? 2 * c->n - 1 - (size_t)place : (size_t)place;
            c->piece[n] = (struct cadre_piece){
                .run = run,
                .round = r,
                .place = place,
                .half = half,
                .begin_s = at,
                .start_s = 0.5,
                .period_s = c->run[run].step_s * (1 + 0.01 * ((r + place) % 3)),
                .bubble_fraction = NAN,
                .comm_exposed_s = NAN,
                .load = {.wall_s = 1.5,
                         .own_s = 1.4,
                         .mhz = 2400,
                         .gpu_mhz = NAN,
                         .gpu_watts = NAN,
                         .gpu_celsius = NAN,
                         .gpu_others = NAN},
            };
            at += 1.5;
        }
    c->n_pieces = n;
}

static void fill_rounds(struct cadre_comparison *c, int rounds)
{
    c->speed.round = cadre_calloc((size_t)rounds, sizeof *c->speed.round);
    ck_assert_ptr_nonnull(c->speed.round);
    c->speed.n_rounds = (size_t)rounds;
    for (int r = 0; r < rounds; r++)
        c->speed.round[r] = (struct cadre_speed_round){.round = r + 1, .run = -1};
    if (rounds < 2)
        return;
    c->speed.round[1].disturbed = true;
    c->speed.round[1].run = 1;
    c->speed.round[1].foreign = 0.31;
    snprintf(c->speed.round[1].why, sizeof c->speed.round[1].why,
             "other processes took 31 %% of a core");
    c->speed.n_disturbed = 1;
}

void timed_fill(struct cadre_comparison *c, int rounds)
{
    for (size_t i = 0; i < c->n; i++)
        if (!(c->run[i].step_s > 0))
            c->run[i].step_s = 0.1;
    for (size_t i = 0; i < c->n; i++) {
        fill_run(c, i);
        fill_parts(&c->run[i]);
    }
    fill_pieces(c, rounds);
    fill_rounds(c, rounds);
    c->rounds = rounds;
    c->mirrored = true;
    c->margin = 0.01;
    c->speed.fastest = -1;
    for (size_t i = 0; i < c->n; i++)
        if (c->run[i].fair && (c->speed.fastest < 0 ||
                               c->run[i].step_s < c->run[c->speed.fastest].step_s))
            c->speed.fastest = (ptrdiff_t)i;
    if (c->speed.fastest >= 0)
        c->run[c->speed.fastest].speed.leading = true;
}

void timed_set(struct cadre_comparison *c, size_t run, double low, double value,
               double high, enum cadre_speed_verdict verdict)
{
    c->run[run].speed.speedup = (struct cadre_interval){value, low, high};
    c->run[run].speed.verdict = verdict;
    c->speed.fastest = -1;
}

void timed_fail(struct cadre_comparison *c, size_t i, const char *why)
{
    struct cadre_compared_run *run = &c->run[i];
    cadre_record_fini(&run->record);
    cadre_replay_fini(&run->schedule);
    snprintf(run->failure, sizeof run->failure, "%s", why);
    run->step_s = run->tokens_per_s = run->bubble_replayed = NAN;
    run->step_bubble = run->step_replayed = NAN;
    run->speed = (struct cadre_speed_run){
        nothing, nothing, nothing, nothing, nothing, CADRE_SPEED_NOT_RANKED,
        NAN,     NAN,     0,       false,   ""};
    run->efficiency = nothing;
}

void timed_clear(struct cadre_comparison *c)
{
    free(c->piece);
    free(c->speed.round);
    c->piece = NULL;
    c->n_pieces = 0;
    memset(&c->speed, 0, sizeof c->speed);
    c->speed.fastest = -1;
}
