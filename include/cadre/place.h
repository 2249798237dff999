/* SPDX-License-Identifier: Apache-2.0 */
/* What a plugin may wish for a rank before it starts. */
#ifndef CADRE_PLACE_H
#define CADRE_PLACE_H

#include <cadre/types.h>

/* All functions return a status; a refusal has already been recorded with its text.
 * Wishes of two plugins that differ are refused. */
struct cadre_place {
    uint32_t struct_size;
    uint32_t rank;
    void *h;
    /* A variable of the rank's environment, in place of the launcher's. Refused where
     * ranks are threads, which share one, and for names that begin with CADRE_. */
    cadre_status (*env)(void *h, const char *name, const char *value);
    /* The CPUs the rank and its threads run on, n > 0 of those this process may use. */
    cadre_status (*cpus)(void *h, const uint32_t *cpu, uint32_t n);
};

#endif
