/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/execute/pace.h"

#include <stdlib.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/base/numbers.h"

#define LEAST_S 50e-6 /* about what a sleep is late; less is owed until more is */

static cadre_status wrong(const char *text, int ranks, struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_INVALID,
                      "device.pace = %s: expected one fraction of full speed, above 0 "
                      "and at most 1, or one for each of the %d ranks of "
                      "strategy.stack, as 1, 0.5",
                      text, ranks);
}

cadre_status cadre_pace_of(const char *text, int rank, int ranks, double *pace,
                           struct cadre_error *err)
{
    const char *end;
    *pace = 1;
    if (!*text)
        return CADRE_OK;
    double *each = cadre_calloc((size_t)ranks, sizeof *each);
    if (!each)
        return cadre_no_memory(err, "device.pace");
    int n = cadre_numbers_parse(text, "", each, ranks, &end);
    bool good = n == 1 || n == ranks;
    for (int i = 0; good && i < n; i++)
        good = each[i] > 0 && each[i] <= 1;
    *pace = each[n == ranks ? rank : 0];
    free(each);
    return good ? CADRE_OK : wrong(text, ranks, err);
}

static bool is_slow(const struct cadre_pace *pace)
{
    return pace && pace->pace > 0 && pace->pace < 1;
}

double cadre_pace_begin(const struct cadre_pace *pace)
{
    return is_slow(pace) ? cadre_now_s() : 0;
}

void cadre_pace_slow(struct cadre_pace *pace, const struct cadre_timeline *timeline,
                     double begin, double waited_s)
{
    if (!is_slow(pace))
        return;
    double now = cadre_now_s();
    double work_s = now - begin - (timeline ? timeline->waited_s - waited_s : 0);
    if (work_s > 0)
        pace->owed_s += work_s * (1 / pace->pace - 1);
    if (pace->owed_s < LEAST_S)
        return;
    struct timespec rest = {
        .tv_sec = (time_t)pace->owed_s,
        .tv_nsec = (long)((pace->owed_s - (double)(time_t)pace->owed_s) * 1e9)};
    nanosleep(&rest, NULL);
    pace->owed_s -= cadre_now_s() - now;
}
