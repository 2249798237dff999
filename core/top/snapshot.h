/* SPDX-License-Identifier: Apache-2.0 */
/* A run at one moment, as the status pages of its ranks tell it
 * (core/base/rank_seen.h), and what follows from all of them together. What is not
 * known is NaN or negative, never zero. */
#ifndef CADRE_TOP_SNAPSHOT_H
#define CADRE_TOP_SNAPSHOT_H

#include "core/base/rank_seen.h"

/* Steps over which ranks are compared. */
#define CADRE_TOP_STEPS 10

enum cadre_top_state {
    CADRE_TOP_RUNNING,
    CADRE_TOP_ENDED,
    CADRE_TOP_STOPPED, /* by a signal */
    CADRE_TOP_FAILED, /* a rank has said why */
    CADRE_TOP_DIED, /* no process is left, and no rank has said why */
};

struct cadre_top_rank {
    bool known; /* there is a page that could be read */
    bool died; /* its process is gone, and it has not come to an end */
    char why[256]; /* why it is not known */
    struct cadre_rank_seen seen;
};

struct cadre_top_snapshot {
    char *dir; /* owned */
    int n; /* ranks of the run */
    struct cadre_top_rank *rank; /* (n), owned */
    const struct cadre_top_rank
        *lead; /* the first that is known: it tells of the run */
    enum cadre_top_state state;
    double time_s; /* of the day, since 1970 */
    int64_t step, last_step; /* the last step that the lead has done; the run's last */
    double left_s;
    double tokens_per_s, tokens_per_s_median; /* of the last step; of those kept */
    /* The rank whose compute took longest over the last CADRE_TOP_STEPS steps, where
     * that is no chance: on average it took longer than the mean of the others by more
     * than three standard deviations of that difference. -1: none. */
    int slowest;
    double slower_by; /* its compute time over the others' mean, less 1 */
};

/* Read the pages of the run in DIR. The caller passes *snapshot zeroed and ends it with
 * fini, also on failure. Errors: CADRE_E_INVALID where there is no page, or none that
 * can be read; CADRE_E_RESOURCE. */
cadre_status cadre_top_snapshot_take(const char *dir,
                                     struct cadre_top_snapshot *snapshot,
                                     struct cadre_error *err);
void cadre_top_snapshot_fini(struct cadre_top_snapshot *snapshot);

/* The times of its last step, NULL where there is none. */
const struct cadre_rank_page_step *
cadre_top_last_step(const struct cadre_top_rank *rank);

/* "running", "ended", "stopped", "failed", "died". */
const char *cadre_top_state_name(enum cadre_top_state state);

/* What follows from the pages, of a snapshot whose ranks are filled in. */
void cadre_top_snapshot_conclude(struct cadre_top_snapshot *snapshot);

#endif
