/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated slow rank (device.pace): after each piece of its work it waits in
 * proportion to the time that the piece took. What it computes is the same, bit for
 * bit; its times are simulated. On devices that compute inline. */
#ifndef CADRE_ENGINE_EXECUTE_PACE_H
#define CADRE_ENGINE_EXECUTE_PACE_H

#include "core/base/error.h"
#include "core/engine/layout/timeline.h"

struct cadre_pace {
    double pace; /* fraction of full speed; 0 or 1: full */
    double owed_s; /* still to be waited: a sleep has an end of its own */
};

/* The pace of rank `rank` of `ranks`, from device.pace: "" for full speed, one number
 * for all ranks, or one for each. Errors: CADRE_E_INVALID one out of (0, 1], another
 * number of them. */
cadre_status cadre_pace_of(const char *text, int rank, int ranks, double *pace,
                           struct cadre_error *err);

/* The time, where the rank is slowed; else not even a look at the clock. */
double cadre_pace_begin(const struct cadre_pace *pace);

/* Work that began at `begin`, when the timeline had waited for `waited_s`, ends now:
 * wait for as long as it would take longer. Waits for others are not slowed. `pace` may
 * be NULL. */
void cadre_pace_slow(struct cadre_pace *pace, const struct cadre_timeline *timeline,
                     double begin, double waited_s);

#endif
