/* SPDX-License-Identifier: Apache-2.0 */
/* replay_nominal DIR: the bubble fraction of the order of passes that a run left, every
 * part of a pass (forward, input backward, weight backward) lasting as long. What is
 * then idle is the schedule's alone, and no clock's. */
#include <stdio.h>

#include "core/compare/verdict/passes_file.h"

int main(int argc, char **argv)
{
    static const double parts[CADRE_REPLAY_KINDS] = {1, 2, 1, 1};
    struct cadre_replay schedule = {0};
    struct cadre_replay_result result;
    struct cadre_error err = {0};
    if (argc != 2 || cadre_passes_read(argv[1], &schedule, &err) != CADRE_OK) {
        fprintf(stderr, "replay_nominal DIR: %s\n", err.text);
        return 2;
    }
    for (size_t r = 0; r < schedule.n; r++)
        for (size_t c = 0; c < schedule.rank[r].n_chunks; c++)
            for (int k = 0; k < CADRE_REPLAY_KINDS; k++)
                schedule.rank[r].chunk[c].seconds[k] = parts[k];
    cadre_status rc = cadre_replay_run(&schedule, CADRE_REPLAY_MEDIANS, &result, &err);
    if (rc == CADRE_OK)
        printf("%.6f\n", result.bubble_fraction);
    else
        fprintf(stderr, "%s\n", err.text);
    cadre_replay_fini(&schedule);
    return rc == CADRE_OK ? 0 : 1;
}
