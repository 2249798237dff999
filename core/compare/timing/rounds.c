/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/timing/rounds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/median.h"
#include "core/base/memory.h"

/* MAD times this is the standard deviation of a normal distribution. */
#define MAD_TO_SIGMA 1.4826
enum { LEAST_CONTROLS = 4 }; /* fewer have no spread to speak of */

/* Another process that is busy for a share f of the timed steps holds them up for f at
 * most, by turns on their core or by taking their memory's bandwidth; counted twice,
 * for caches and clocks that come back later, and for stolen time that is counted as
 * the run's own. Limited, so that sums stay numbers. */
#define TAKEN_TIMES 2
#define TAKEN_MOST 10.0

/* ---- pieces to rounds ---- */

static int by_number(const void *a, const void *b)
{
    const struct cadre_speed_round *x = a, *y = b;
    return (x->round > y->round) - (x->round < y->round);
}

/* The numbers that occur, ascending, each once. */
static cadre_status list_rounds(struct cadre_rounds *rounds,
                                const struct cadre_speed_input *input,
                                struct cadre_error *err)
{
    size_t n = 0;
    rounds->round = cadre_calloc(input->n_pieces, sizeof *rounds->round);
    if (!rounds->round)
        return cadre_no_memory(err, "the rounds of %zu pieces", input->n_pieces);
    for (size_t i = 0; i < input->n_pieces; i++)
        if (input->piece[i].round > 0)
            rounds->round[n++].round = input->piece[i].round;
    qsort(rounds->round, n, sizeof *rounds->round, by_number);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || rounds->round[i].round != rounds->round[i - 1].round)
            rounds->round[rounds->n++].round = rounds->round[i].round;
    for (size_t i = 0; i < rounds->n; i++)
        rounds->round[i].run = -1;
    return CADRE_OK;
}

static cadre_status check_piece(const struct cadre_piece *piece, size_t n_runs,
                                struct cadre_error *err)
{
    if (piece->run >= n_runs || piece->half < 0 || piece->half > 1)
        return cadre_fail(err, CADRE_E_INVALID,
                          "a piece of run %zu, half %d: expected one of %zu runs, "
                          "counted from 0, and half 0 or 1",
                          piece->run, piece->half, n_runs);
    if (!isfinite(piece->period_s) || piece->period_s <= 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "a piece of run %zu in round %d took %g s a period, expected "
                          "a time above 0",
                          piece->run, piece->round, piece->period_s);
    return CADRE_OK;
}

/* pieces[round][run][half]; a place that is taken is an error. */
static cadre_status place_pieces(struct cadre_rounds *rounds,
                                 const struct cadre_speed_input *input,
                                 const struct cadre_piece **pieces,
                                 struct cadre_error *err)
{
    for (size_t i = 0; i < input->n_pieces; i++) {
        const struct cadre_piece *piece = &input->piece[i];
        if (piece->round <= 0)
            continue;
        CADRE_TRY(check_piece(piece, rounds->n_runs, err));
        const struct cadre_speed_round wanted = {.round = piece->round};
        const struct cadre_speed_round *at = bsearch(&wanted, rounds->round, rounds->n,
                                                     sizeof *rounds->round, by_number);
        size_t row = (size_t)(at - rounds->round);
        const struct cadre_piece **place =
            &pieces[2 * (row * rounds->n_runs + piece->run) + (size_t)piece->half];
        if (*place)
            return cadre_fail(err, CADRE_E_INVALID,
                              "run %zu has two pieces of half %d in round %d, expected "
                              "one",
                              piece->run, piece->half, piece->round);
        *place = piece;
        rounds->timed[piece->run] = true;
    }
    return CADRE_OK;
}

/* Of a piece, were its round disturbed. All of the load may have come while it was
 * timed. What others did to a GPU does not show in CPU time. */
static double taken_of(const struct cadre_piece *piece)
{
    const struct cadre_load *load = &piece->load;
    const double timed_s = piece->timed_s > 0 ? piece->timed_s : load->wall_s;
    if (!(timed_s > 0) || isnan(load->foreign_s) || load->gpu_others > 0 ||
        load->gpu_mhz > 0)
        return TAKEN_MOST;
    const double left = 1 - fmin(1, fmax(0, load->foreign_s) / timed_s);
    return fmin(TAKEN_MOST, -TAKEN_TIMES * log(left));
}

/* Of any piece, as far as its counters say it. */
static double loaded_of(const struct cadre_piece *piece)
{
    const struct cadre_load *load = &piece->load;
    const bool known =
        load->wall_s > 0 && !isnan(load->foreign_s) && !(load->gpu_mhz > 0);
    return known ? taken_of(piece) : 0;
}

static void fill_value(struct cadre_round_value *value,
                       const struct cadre_piece *const piece[2])
{
    const struct cadre_piece *second = piece[1] ? piece[1] : piece[0];
    double first_log = log(piece[0]->period_s), second_log = log(second->period_s);
    *value = (struct cadre_round_value){
        .log_t = 0.5 * (first_log + second_log),
        .control = piece[1] ? first_log - second_log : NAN,
        .taken = 0.5 * (taken_of(piece[0]) + taken_of(second)),
        .loaded = 0.5 * (loaded_of(piece[0]) + loaded_of(second)),
        .bubble_fraction = 0.5 * (piece[0]->bubble_fraction + second->bubble_fraction),
        .comm_exposed_s = 0.5 * (piece[0]->comm_exposed_s + second->comm_exposed_s),
    };
}

/* Foreign load of the round's pieces; a machine that does not know it leaves NaN. */
static void note_foreign(struct cadre_speed_round *round,
                         const struct cadre_piece *piece)
{
    if (piece && piece->load.gpu_others > 0 && !round->disturbed) {
        round->disturbed = true;
        round->run = (ptrdiff_t)piece->run;
        snprintf(round->why, sizeof round->why, "other processes were on its GPUs");
    }
    if (!piece || !(piece->load.wall_s > 0) || isnan(piece->load.foreign_s))
        return;
    double share = piece->load.foreign_s / piece->load.wall_s;
    if (!isnan(round->foreign) && share <= round->foreign)
        return;
    round->foreign = share;
    if (share > CADRE_SPEED_FOREIGN) {
        round->disturbed = true;
        round->run = (ptrdiff_t)piece->run;
        snprintf(round->why, sizeof round->why,
                 "other processes took %.0f %% of a core", 100 * share);
    }
}

static cadre_status fill_values(struct cadre_rounds *rounds,
                                const struct cadre_piece *const *pieces,
                                struct cadre_error *err)
{
    int halves = 0;
    for (size_t row = 0; row < rounds->n; row++) {
        rounds->round[row].foreign = NAN;
        for (size_t run = 0; run < rounds->n_runs; run++) {
            const struct cadre_piece *const *piece =
                &pieces[2 * (row * rounds->n_runs + run)];
            if (!rounds->timed[run])
                continue;
            int found = (piece[0] != NULL) + (piece[1] != NULL);
            halves = halves ? halves : found;
            if (!piece[0] || found != halves)
                return cadre_fail(err, CADRE_E_INVALID,
                                  "round %d has %d pieces of run %zu, expected %d of "
                                  "every timed run in every round",
                                  rounds->round[row].round, found, run,
                                  halves ? halves : 2);
            fill_value(&rounds->value[row * rounds->n_runs + run], piece);
            note_foreign(&rounds->round[row], piece[0]);
            note_foreign(&rounds->round[row], piece[1]);
        }
    }
    return CADRE_OK;
}

/* ---- controls ---- */

/* Controls of the other rounds: of `run` alone, or of all runs. Returns how many. */
static size_t other_controls(const struct cadre_rounds *rounds, size_t row,
                             ptrdiff_t run, double *out)
{
    size_t n = 0;
    for (size_t r = 0; r < rounds->n; r++)
        for (size_t i = 0; r != row && i < rounds->n_runs; i++) {
            double control = cadre_rounds_at(rounds, r, i)->control;
            if (rounds->timed[i] && (run < 0 || (size_t)run == i) && !isnan(control))
                out[n++] = control;
        }
    return n;
}

/* Where a control may lie: within 3 MAD of the median of the others. */
struct limits {
    double centre, most;
};

static struct limits limits_of(double *others, size_t n, double floor)
{
    if (n < LEAST_CONTROLS)
        return (struct limits){0, INFINITY};
    double centre = cadre_median(others, n);
    for (size_t i = 0; i < n; i++)
        others[i] = fabs(others[i] - centre);
    double most = CADRE_SPEED_CONTROL_MADS * MAD_TO_SIGMA * cadre_median(others, n);
    return (struct limits){centre, fmax(most, floor)};
}

static bool outlies(double control, struct limits limits)
{
    return fabs(control - limits.centre) > limits.most;
}

/* The run whose control lies outside of the others in this round, -1: none. Those of
 * its own run and those of all runs must say so: runs may differ in noise, and one
 * run's controls are few. */
static ptrdiff_t outlying_run(const struct cadre_rounds *rounds, size_t row,
                              double floor, double *others)
{
    size_t n = other_controls(rounds, row, -1, others);
    struct limits of_all = limits_of(others, n, floor);
    for (size_t i = 0; i < rounds->n_runs; i++) {
        double control = cadre_rounds_at(rounds, row, i)->control;
        if (!rounds->timed[i] || !outlies(control, of_all))
            continue;
        n = other_controls(rounds, row, (ptrdiff_t)i, others);
        if (outlies(control, limits_of(others, n, floor)))
            return (ptrdiff_t)i;
    }
    return -1;
}

/* Rounds with an outlying control are disturbed, unless they are more than a third:
 * then this is how the machine or a run is, not what happened to it now and then. Every
 * verdict has that noise in it, and leaving out rounds would only hide it. */
static cadre_status mark_outlying(struct cadre_rounds *rounds, double margin,
                                  struct cadre_error *err)
{
    size_t cells = rounds->n * rounds->n_runs, found = 0;
    double *others = cadre_calloc(cells, sizeof *others);
    ptrdiff_t *run = cadre_calloc(rounds->n, sizeof *run);
    if (!others || !run) {
        free(others);
        free(run);
        return cadre_no_memory(err, "the controls of %zu rounds", rounds->n);
    }
    for (size_t row = 0; row < rounds->n; row++) {
        run[row] = outlying_run(rounds, row, log1p(margin), others);
        found += run[row] >= 0;
    }
    for (size_t row = 0; 3 * found <= rounds->n && row < rounds->n; row++) {
        struct cadre_speed_round *round = &rounds->round[row];
        if (run[row] < 0 || round->disturbed)
            continue;
        round->disturbed = true;
        round->run = run[row];
        double control = cadre_rounds_at(rounds, row, (size_t)run[row])->control;
        snprintf(round->why, sizeof round->why,
                 "its two pieces differ by %.0f %%, far more than others do",
                 100 * expm1(fabs(control)));
    }
    free(others);
    free(run);
    return CADRE_OK;
}

/* What a piece took longer than the run's other one may have been taken too. */
static void settle_taken(struct cadre_rounds *rounds)
{
    for (size_t row = 0; row < rounds->n; row++) {
        const bool disturbed = rounds->round[row].disturbed;
        rounds->n_disturbed += disturbed;
        for (size_t run = 0; run < rounds->n_runs; run++) {
            struct cadre_round_value *value =
                &rounds->value[row * rounds->n_runs + run];
            double apart = isnan(value->control) ? 0 : 0.5 * fabs(value->control);
            value->taken = disturbed ? value->taken + apart : 0;
        }
    }
}

cadre_status cadre_rounds_init(struct cadre_rounds *rounds,
                               const struct cadre_speed_input *input,
                               struct cadre_error *err)
{
    cadre_status rc;
    *rounds = (struct cadre_rounds){.n_runs = input->n_runs};
    const struct cadre_piece **pieces = NULL;
    if (input->baseline >= input->n_runs)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the baseline is run %zu, expected one of %zu, from 0",
                          input->baseline, input->n_runs);
    CADRE_TRY_OR(list_rounds(rounds, input, err), fail);
    pieces = cadre_calloc(2 * rounds->n * rounds->n_runs, sizeof *pieces);
    rounds->value = cadre_calloc(rounds->n * rounds->n_runs, sizeof *rounds->value);
    rounds->timed = cadre_calloc(rounds->n_runs, sizeof *rounds->timed);
    if (!pieces || !rounds->value || !rounds->timed) {
        rc = cadre_no_memory(err, "the rounds of %zu pieces", input->n_pieces);
        goto fail;
    }
    CADRE_TRY_OR(place_pieces(rounds, input, pieces, err), fail);
    CADRE_TRY_OR(fill_values(rounds, pieces, err), fail);
    CADRE_TRY_OR(mark_outlying(rounds, input->margin, err), fail);
    settle_taken(rounds);
    free(pieces);
    return CADRE_OK;
fail:
    free(pieces);
    cadre_rounds_fini(rounds);
    return rc;
}

void cadre_rounds_fini(struct cadre_rounds *rounds)
{
    free(rounds->round);
    free(rounds->value);
    free(rounds->timed);
    *rounds = (struct cadre_rounds){0};
}
