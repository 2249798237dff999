/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank's status page says (rank_page.h), read by another process. Nothing in the
 * file is believed: its writer may be at work, dead, of another version or no rank at
 * all. What was torn, or makes no sense, is unknown: NaN, or a flag that is false. */
#ifndef CADRE_BASE_RANK_SEEN_H
#define CADRE_BASE_RANK_SEEN_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/rank_page.h"

/* Does the process that wrote the page still run? */
enum cadre_rank_alive {
    CADRE_RANK_ALIVE,
    CADRE_RANK_GONE,
    CADRE_RANK_ELSEWHERE, /* on another host or in another container: not known */
};

struct cadre_rank_seen_op {
    struct cadre_rank_page_op op; /* texts end with a zero */
    double age_s; /* since it was posted or, if it has ended, since its end */
};

struct cadre_rank_seen {
    struct cadre_rank_page_head head; /* texts end with a zero; rank and ranks are
                                         possible, steps not negative */
    enum cadre_rank_alive alive;
    enum cadre_rank_state state;
    enum cadre_rank_phase phase;
    uint32_t chunk, microbatch; /* of a forward or backward phase */
    uint64_t step;
    double phase_s; /* since the last sign of life: how long it is in this phase */
    double begun_s; /* since its first step began; NaN: it has not */
    uint64_t memory_bytes, memory_peak_bytes;
    uint64_t posted, ended; /* operations */
    bool has_pending, has_ended;
    struct cadre_rank_seen_op pending; /* the oldest one that has not ended */
    struct cadre_rank_seen_op last; /* the one that ended last */
    size_t n_times; /* in order of their steps */
    struct cadre_rank_page_step times[CADRE_RANK_PAGE_STEPS];
    struct cadre_rank_page_result result; /* NaN where it is not known */
    struct cadre_rank_page_passes passes[CADRE_RANK_PAGE_DRAWN]; /* n = 0: none */
    char said[256];
};

/* Read a page. An error leaves *seen undefined. Errors: CADRE_E_INVALID for a file that
 * is no page, of another version or damaged; CADRE_E_IO. One line each. */
cadre_status cadre_rank_seen_read(const char *path, struct cadre_rank_seen *seen,
                                  struct cadre_error *err);

/* The ranks of the run in DIR, as the first page there that can be read says. 0: none
 * can. Errors: CADRE_E_INVALID, CADRE_E_IO of the last page that was tried. */
int cadre_rank_seen_count(const char *dir, struct cadre_error *err);

/* "starting", "training", ... and "forward", ..., "other". */
const char *cadre_rank_state_name(enum cadre_rank_state state);
const char *cadre_rank_phase_name(enum cadre_rank_phase phase);

/* Is it one of the states that a rank ends with? */
bool cadre_rank_state_is_last(enum cadre_rank_state state);

#endif
