/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

/* One chunk of the model on one micro-batch: when its passes end, NaN before. */
struct cell {
    double end[CADRE_REPLAY_KINDS];
};

struct work {
    const struct cadre_replay *replay;
    enum cadre_replay_times times;
    size_t n_pieces; /* chunks of all ranks */
    uint32_t n_microbatches;
    size_t **piece; /* by rank, then chunk: position in the model */
    struct cell *cell; /* n_pieces x n_microbatches */
    size_t *next; /* by rank: its next pass */
    double *clock; /* by rank */
};

static const char *name_of(enum cadre_replay_kind kind)
{
    static const char *const names[] = {"forward", "backward", "input backward",
                                        "weight backward"};
    return names[kind];
}

static cadre_status refuse(const struct cadre_replay_rank *rank,
                           const struct cadre_replay_pass *pass, const char *what,
                           struct cadre_error *err)
{
    return cadre_fail(
        err, CADRE_E_INVALID, "%s of micro-batch %u of chunk %u on rank %d %s",
        name_of(pass->kind), pass->microbatch, pass->chunk, rank->rank, what);
}

/* Chunks that come before (rank r, chunk c) in the model, and that they do not leave a
 * gap or overlap is seen from the units before it. */
static cadre_status place_chunk(struct work *w, size_t r, size_t c,
                                struct cadre_error *err)
{
    const struct cadre_replay_chunk *mine = &w->replay->rank[r].chunk[c];
    uint64_t units = 0;
    for (size_t i = 0; i < w->replay->n; i++)
        for (size_t k = 0; k < w->replay->rank[i].n_chunks; k++) {
            const struct cadre_replay_chunk *other = &w->replay->rank[i].chunk[k];
            if (other->begin < mine->begin) {
                w->piece[r][c]++;
                units += other->end - other->begin;
            }
        }
    bool good = mine->end > mine->begin && units == mine->begin;
    for (int k = 0; k < CADRE_REPLAY_KINDS; k++)
        good = good && isfinite(mine->seconds[k]) && mine->seconds[k] >= 0;
    if (good)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "chunk %zu of rank %d, units %u to %u: expected chunks that make "
                      "up the model, each once, with seconds of at least 0",
                      c, w->replay->rank[r].rank, mine->begin, mine->end);
}

static cadre_status place_chunks(struct work *w, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (size_t r = 0; r < w->replay->n; r++) {
        size_t n = w->replay->rank[r].n_chunks;
        w->piece[r] = cadre_calloc(n, sizeof **w->piece);
        if (!w->piece[r])
            return cadre_no_memory(err, "%zu chunks", n);
        w->n_pieces += n;
        for (size_t c = 0; rc == CADRE_OK && c < n; c++)
            rc = place_chunk(w, r, c, err);
    }
    return rc;
}

/* Every chunk makes as many passes as there are micro-batches, so no number is larger
 * than a rank's passes. */
static cadre_status count_microbatches(struct work *w, struct cadre_error *err)
{
    for (size_t r = 0; r < w->replay->n; r++) {
        const struct cadre_replay_rank *rank = &w->replay->rank[r];
        for (size_t i = 0; i < rank->n_passes; i++) {
            const struct cadre_replay_pass *pass = &rank->pass[i];
            if (pass->chunk >= rank->n_chunks || pass->microbatch >= rank->n_passes ||
                pass->kind >= CADRE_REPLAY_KINDS)
                return refuse(rank, pass, "cannot be: the rank has no such pass", err);
            if (pass->microbatch >= w->n_microbatches)
                w->n_microbatches = pass->microbatch + 1;
        }
    }
    return CADRE_OK;
}

static cadre_status prepare(struct work *w, struct cadre_error *err)
{
    size_t n = w->replay->n;
    w->piece = cadre_calloc(n, sizeof *w->piece);
    w->next = cadre_calloc(n, sizeof *w->next);
    w->clock = cadre_calloc(n, sizeof *w->clock);
    if (!w->piece || !w->next || !w->clock)
        return cadre_no_memory(err, "%zu ranks", n);
    CADRE_TRY(place_chunks(w, err));
    CADRE_TRY(count_microbatches(w, err));
    size_t cells = w->n_pieces * w->n_microbatches;
    w->cell = cadre_calloc(cells, sizeof *w->cell);
    if (!w->cell)
        return cadre_no_memory(err, "%zu passes", cells);
    for (size_t i = 0; i < cells; i++)
        for (int k = 0; k < CADRE_REPLAY_KINDS; k++)
            w->cell[i].end[k] = NAN;
    return CADRE_OK;
}

/* When the input backward is done, alone or with the weight part. */
static double backward_end(const struct cell *cell)
{
    return isnan(cell->end[CADRE_REPLAY_INPUT]) ? cell->end[CADRE_REPLAY_BACKWARD]
                                                : cell->end[CADRE_REPLAY_INPUT];
}

/* When the inputs of the pass are ready; NaN: not yet. */
static double ready_at(const struct work *w, size_t piece,
                       const struct cadre_replay_pass *pass)
{
    const struct cell *row = w->cell + piece * w->n_microbatches + pass->microbatch;
    double forward = row->end[CADRE_REPLAY_FORWARD];
    if (pass->kind == CADRE_REPLAY_FORWARD)
        return piece == 0 ? 0 : (row - w->n_microbatches)->end[CADRE_REPLAY_FORWARD];
    if (pass->kind == CADRE_REPLAY_WEIGHT)
        return row->end[CADRE_REPLAY_INPUT];
    if (isnan(forward) || piece + 1 == w->n_pieces)
        return forward;
    double after = backward_end(row + w->n_microbatches);
    return isnan(after) ? after : fmax(forward, after);
}

static double seconds_of(const struct work *w, const struct cadre_replay_rank *rank,
                         const struct cadre_replay_pass *pass)
{
    return w->times == CADRE_REPLAY_STEP ? pass->end - pass->begin
                                         : rank->chunk[pass->chunk].seconds[pass->kind];
}

/* Replay the rank's next passes as far as their inputs are ready; sets *moved if any
 * was. */
static cadre_status advance(struct work *w, size_t r, bool *moved,
                            struct cadre_error *err)
{
    const struct cadre_replay_rank *rank = &w->replay->rank[r];
    for (; w->next[r] < rank->n_passes; w->next[r]++) {
        const struct cadre_replay_pass *pass = &rank->pass[w->next[r]];
        size_t piece = w->piece[r][pass->chunk];
        struct cell *cell = &w->cell[piece * w->n_microbatches + pass->microbatch];
        bool backward =
            pass->kind == CADRE_REPLAY_BACKWARD || pass->kind == CADRE_REPLAY_INPUT;
        if (!isnan(cell->end[pass->kind]) || (backward && !isnan(backward_end(cell))))
            return refuse(rank, pass, "is made twice", err);
        double ready = ready_at(w, piece, pass);
        if (isnan(ready))
            return CADRE_OK;
        w->clock[r] = fmax(w->clock[r], ready) + seconds_of(w, rank, pass);
        cell->end[pass->kind] = w->clock[r];
        *moved = true;
    }
    return CADRE_OK;
}

static cadre_status check_complete(const struct work *w, struct cadre_error *err)
{
    for (size_t r = 0; r < w->replay->n; r++) {
        const struct cadre_replay_rank *rank = &w->replay->rank[r];
        if (w->next[r] < rank->n_passes)
            return refuse(rank, &rank->pass[w->next[r]], "waits for ever", err);
        for (uint32_t c = 0; c < rank->n_chunks; c++)
            for (uint32_t m = 0; m < w->n_microbatches; m++) {
                const struct cell *cell =
                    &w->cell[w->piece[r][c] * w->n_microbatches + m];
                bool split = !isnan(cell->end[CADRE_REPLAY_INPUT]);
                struct cadre_replay_pass pass = {
                    .kind = split ? CADRE_REPLAY_WEIGHT : CADRE_REPLAY_BACKWARD,
                    .chunk = c,
                    .microbatch = m,
                };
                if (isnan(cell->end[pass.kind]))
                    return refuse(rank, &pass, "is missing", err);
            }
    }
    return CADRE_OK;
}

static cadre_status play(struct work *w, struct cadre_error *err)
{
    bool moved = true;
    while (moved) {
        moved = false;
        for (size_t r = 0; r < w->replay->n; r++) {
            CADRE_TRY(advance(w, r, &moved, err));
        }
    }
    return check_complete(w, err);
}

cadre_status cadre_replay_run(const struct cadre_replay *replay,
                              enum cadre_replay_times times,
                              struct cadre_replay_result *out, struct cadre_error *err)
{
    struct work w = {.replay = replay, .times = times};
    double busy = 0;
    *out = (struct cadre_replay_result){0};
    cadre_status rc = prepare(&w, err);
    if (rc == CADRE_OK)
        rc = play(&w, err);
    for (size_t r = 0; rc == CADRE_OK && r < replay->n; r++) {
        const struct cadre_replay_rank *rank = &replay->rank[r];
        out->span_s = fmax(out->span_s, w.clock[r]);
        for (size_t i = 0; i < rank->n_passes; i++)
            busy += seconds_of(&w, rank, &rank->pass[i]);
    }
    if (out->span_s > 0)
        out->bubble_fraction = 1 - busy / (out->span_s * (double)replay->n);
    for (size_t r = 0; w.piece && r < replay->n; r++)
        free(w.piece[r]);
    free(w.piece);
    free(w.cell);
    free(w.next);
    free(w.clock);
    return rc;
}

double cadre_replay_measured(const struct cadre_replay *replay)
{
    double first = INFINITY, last = 0, busy = 0;
    for (size_t r = 0; r < replay->n; r++)
        for (size_t i = 0; i < replay->rank[r].n_passes; i++) {
            const struct cadre_replay_pass *pass = &replay->rank[r].pass[i];
            first = fmin(first, pass->begin);
            last = fmax(last, pass->end);
            busy += pass->end - pass->begin;
        }
    return last > first ? 1 - busy / ((last - first) * (double)replay->n) : 0;
}

void cadre_replay_fini(struct cadre_replay *replay)
{
    for (size_t r = 0; r < replay->n; r++) {
        free(replay->rank[r].chunk);
        free(replay->rank[r].pass);
    }
    free(replay->rank);
    memset(replay, 0, sizeof *replay);
}
