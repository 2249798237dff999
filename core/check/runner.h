/* SPDX-License-Identifier: Apache-2.0 */
/* Carrying out the chosen checks: each in a process of its own, several at a time. */
#ifndef CADRE_CHECK_RUNNER_H
#define CADRE_CHECK_RUNNER_H

#include "core/check/result.h"

struct cadre_runner {
    struct cadre_check_results *results; /* chosen are set; borrowed */
    double fuzz_s; /* of Z1 */
    bool reproduce; /* Z1 tries the one seed */
    int slots; /* processes at a time; 0: one for each core */
    const char *folder; /* for the files of cases; exists, stays empty */
    /* of each check in place of its own; 0: its own. On a machine with a load of more
     * than one a core, times that load */
    double limit_s;
    /* a check is done; called once for each chosen check */
    void (*done)(void *h, const struct cadre_check_result *result);
    void *h;
};

/* [main, no other threads; signals INT and TERM end it] A check that fails, crashes or
 * hangs is no error. Errors: CADRE_E_STOPPED a signal asked for the end;
 * CADRE_E_RESOURCE. */
cadre_status cadre_runner_run(const struct cadre_runner *runner,
                              struct cadre_error *err);

#endif
