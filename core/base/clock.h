/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_BASE_CLOCK_H
#define CADRE_BASE_CLOCK_H

#include <time.h>

/* Seconds of the monotonic clock. [any thread] */
static inline double cadre_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
