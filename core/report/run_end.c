/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/run_end.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/rank_seen.h"

/* Of the ranks read so far. */
struct ends {
    double failed_s; /* since the first failure */
    int failed, died, at_work;
    int first_died; /* a rank */
    struct cadre_run_end *end;
};

/* The rank that failed first has the cause; others failed because of it. */
static void take(struct ends *ends, const struct cadre_rank_seen *seen)
{
    const double age = isfinite(seen->phase_s) ? seen->phase_s : 0;
    if (seen->state == CADRE_RANK_FAILED) {
        if (ends->failed++ == 0 || age > ends->failed_s) {
            ends->failed_s = age;
            snprintf(ends->end->why, sizeof ends->end->why, "%s", seen->said);
        }
    } else if (!cadre_rank_state_is_last(seen->state)) {
        if (seen->alive != CADRE_RANK_GONE)
            ends->at_work++;
        else if (ends->died++ == 0)
            ends->first_died = seen->head.rank;
    }
}

static void conclude(struct ends *ends)
{
    struct cadre_run_end *end = ends->end;
    if (ends->at_work == 0 && ends->failed > 0) {
        end->how = CADRE_RUN_FAILED;
    } else if (ends->at_work == 0 && ends->died > 0) {
        end->how = CADRE_RUN_DIED;
        snprintf(end->why, sizeof end->why, "rank %d%s died without a word",
                 ends->first_died, ends->died > 1 ? " and others" : "");
    } else {
        *end = (struct cadre_run_end){0};
    }
}

void cadre_run_end_read(const char *dir, struct cadre_run_end *end)
{
    struct ends ends = {.end = end};
    struct cadre_rank_seen *seen = cadre_calloc(1, sizeof *seen);
    const int ranks = cadre_rank_seen_count(dir, NULL);
    *end = (struct cadre_run_end){0};
    for (int r = 0; seen && r < ranks; r++) {
        char *path = cadre_rank_page_path(dir, r);
        if (path && cadre_rank_seen_read(path, seen, NULL) == CADRE_OK &&
            seen->head.rank == r)
            take(&ends, seen);
        free(path);
    }
    conclude(&ends);
    free(seen);
}
