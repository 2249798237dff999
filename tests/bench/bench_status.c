/* SPDX-License-Identifier: Apache-2.0 */
/* What a callback pays so that it can be named when it does not return: CPU time of
 * cadre_status_enter and cadre_status_leave.
 *
 *   bench_status [EVENTS]
 *
 * One thread, 4 plugins, 4 callbacks, best of 5 rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/status_slot.h"

#define ROUNDS 5

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double round_s(struct cadre_status_slot *slot, long events)
{
    static const char *const plugins[] = {"tensor", "zero", "hsdp@site", "observer"};
    static const char *const callbacks[] = {"step", "on_block", "on_grad",
                                            "sync(GRADS)"};
    const double begin = cpu_s();
    for (long i = 0; i < events; i++) {
        const uint64_t former = cadre_status_enter(
            slot, plugins[i & 3], callbacks[i >> 2 & 3], (uint64_t)i >> 10);
        cadre_status_leave(slot, former);
    }
    return cpu_s() - begin;
}

int main(int argc, char **argv)
{
    const long events = argc > 1 ? atol(argv[1]) : 10000000;
    struct cadre_status_slot *slot = calloc(1, sizeof *slot);
    double best = 1e30;
    if (!slot || events <= 0)
        return 1;
    for (int i = 0; i < ROUNDS; i++) {
        const double s = round_s(slot, events);
        best = s < best ? s : best;
    }
    printf("%.1f ns of CPU time an event\n", best / (double)events * 1e9);
    free(slot);
    return 0;
}
