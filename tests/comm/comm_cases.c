/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/comm/comm_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t comm_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void *comm_calloc(const struct world *w, size_t n, size_t size)
{
    if (!w->device)
        return calloc(n, size);
    void *made = w->device->ops->alloc(w->device, n * size);
    if (made && (w->device->ops->zero(w->device, made, n * size) != CADRE_OK ||
                 w->device->ops->synchronize(w->device) != CADRE_OK))
        fprintf(stderr, "rank %d: the device cannot zero memory\n", w->rank);
    return made;
}

void comm_free(const struct world *w, void *ptr)
{
    if (w->device)
        w->device->ops->free(w->device, ptr);
    else
        free(ptr);
}

cadre_rank_main comm_case(const char *name)
{
    static const struct {
        const char *name;
        cadre_rank_main run;
    } cases[] = {{"collectives", case_collectives},
                 {"device", case_device},
                 {"checksums", case_checksums},
                 {"storm", case_storm},
                 {"independence", case_independence},
                 {"messages", case_messages},
                 {"groups", case_groups},
                 {"exhaust", case_exhaust},
                 {"refusals", case_refusals},
                 {"counts", case_counts},
                 {"link", case_slow_link},
                 {"levels", case_levels},
                 {"aborted", case_aborted},
                 {"leaver", case_leaver},
                 {"unequal", case_unequal},
                 {"mismatch", case_mismatch},
                 {"hang", case_hang},
                 {"killed", case_killed},
                 {"absent", case_absent},
                 {"orphaned", case_orphaned},
                 {"stopped", case_stopped},
                 {"exits", case_exits},
                 {"misbehaves", case_misbehaves}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, name) == 0)
            return cases[i].run;
    return NULL;
}
