/* SPDX-License-Identifier: Apache-2.0 */
/* A training of a comparison, run as a child process to its end. */
#ifndef CADRE_COMPARE_CHILD_H
#define CADRE_COMPARE_CHILD_H

#include <stdbool.h>

#include "core/config/options.h"
#include "core/launch/supervise.h"

struct cadre_child {
    char *const *argv; /* of `cadre`, NULL-terminated; borrowed, as the others */
    const char *name; /* of the run, in messages */
    const char *folder; /* that it trains into */
};

/* How a training failed. */
struct cadre_child_failure {
    bool failed;
    cadre_status status; /* INVALID: it refused its settings, else ABORTED */
    char text[512]; /* one line for the log: which run, how, its folder */
    char why[320]; /* "exit status 1: the loss is not finite", as its ranks said */
};

/* Run it and wait. A training that fails is no error: *failure says so.
 * [main, watch open, no other threads] Errors: CADRE_E_STOPPED a signal to this
 * process, or the child itself, asked for the end; CADRE_E_RESOURCE it cannot be
 * started. */
cadre_status cadre_child_run(const struct cadre_supervise_watch *watch,
                             const struct cadre_child *child,
                             struct cadre_child_failure *failure,
                             struct cadre_error *err);

/* Write FOLDER/run.html of a training that failed, as one that ends leaves it: unless
 * it made no step, or log.page = no in its options. Returns whether it is there; a page
 * that cannot be written is warned of. [main] */
bool cadre_child_leave_page(const char *folder, const struct cadre_options *options);

#endif
