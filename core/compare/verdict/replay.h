/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule replayed: what its order of passes would take with given durations, where
 * transfers take no time and nothing else delays a rank. What a run idles beyond it
 * is not the schedule's fault. With medians also what passes of uneven length idle is
 * left out; with the times that the passes of one step took, only what delays are.
 *
 * Every rank makes its passes in its order, each as soon as what it needs is there:
 * forward of a chunk the forward of the chunk before it in the model, backward (BOTH or
 * INPUT) that of the chunk after it and its own forward, WEIGHT its own INPUT, all of
 * the same micro-batch. Chunks are ordered by their first unit. */
#ifndef CADRE_COMPARE_VERDICT_REPLAY_H
#define CADRE_COMPARE_VERDICT_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

enum cadre_replay_kind {
    CADRE_REPLAY_FORWARD,
    CADRE_REPLAY_BACKWARD, /* both parts in one */
    CADRE_REPLAY_INPUT,
    CADRE_REPLAY_WEIGHT,
    CADRE_REPLAY_KINDS,
};

struct cadre_replay_pass {
    enum cadre_replay_kind kind;
    uint32_t chunk; /* of the rank */
    uint32_t microbatch;
    double begin, end; /* s, as measured; a replay reads how long it took, at most */
};

struct cadre_replay_chunk {
    uint32_t begin, end; /* units */
    double seconds[CADRE_REPLAY_KINDS]; /* of a pass */
};

struct cadre_replay_rank {
    int rank; /* in the world, for messages */
    struct cadre_replay_chunk *chunk;
    size_t n_chunks;
    struct cadre_replay_pass *pass; /* in their order */
    size_t n_passes;
};

/* The ranks of one pipeline. */
struct cadre_replay {
    int64_t step; /* that the passes were measured in */
    struct cadre_replay_rank *rank;
    size_t n;
};

/* How long a pass takes. */
enum cadre_replay_times {
    CADRE_REPLAY_MEDIANS, /* as the median of its kind and chunk */
    CADRE_REPLAY_STEP, /* as it did in the step */
};

struct cadre_replay_result {
    double span_s; /* from the first pass to the end of the last */
    double bubble_fraction; /* idle over span, mean of the ranks */
};

/* [any thread, deterministic] Errors: CADRE_E_INVALID, naming rank, chunk and
 * micro-batch, for a pass that is missing, made twice or waits for ever, for chunks
 * that do not make up the model, for a duration that is no finite number of at least 0;
 * CADRE_E_RESOURCE. */
cadre_status cadre_replay_run(const struct cadre_replay *replay,
                              enum cadre_replay_times times,
                              struct cadre_replay_result *out, struct cadre_error *err);

/* Idle over span of the passes as they were measured; 0 for none. */
double cadre_replay_measured(const struct cadre_replay *replay);

/* Frees what it owns; accepts a zeroed one. */
void cadre_replay_fini(struct cadre_replay *replay);

#endif
