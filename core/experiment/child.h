/* SPDX-License-Identifier: Apache-2.0 */
/* Runs as processes of their own, with their own pools and pages: one after another for
 * a comparison, at the same time for instances that train apart.
 *
 * While a watch is open the signals INT, TERM and USR1 are taken from it and passed to
 * the running children, which then checkpoint and stop; none of them ends this process
 * by itself. Each child is the leader of a process group of its own, so that a
 * terminal's Ctrl-C reaches it once. Where this process itself is killed its children
 * get SIGTERM, and stop after a checkpoint. */
#ifndef CADRE_EXPERIMENT_CHILD_H
#define CADRE_EXPERIMENT_CHILD_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/base/error.h"

struct cadre_child_watch {
    sigset_t watched, before;
};

/* Block the signals and let children's ends be waited for. [main, before threads] */
void cadre_child_watch_open(struct cadre_child_watch *watch);

/* Back to the signals before. Those passed on are gone; others come now. */
void cadre_child_watch_close(struct cadre_child_watch *watch);

/* How a child ended. */
struct cadre_child_end {
    int status; /* exit status, or -1 */
    int signal; /* that ended it, or 0 */
    bool asked; /* a signal was passed to it */
};

/* A child and how it starts; zeroed but for argv: as cadre_child_run. Borrowed. */
struct cadre_child {
    char *const *argv; /* NULL-terminated, argv[0] among them */
    char *const
        *variables; /* "NAME=value", in place of ours; NULL-terminated, or NULL */
    const cpu_set_t *cpus; /* that it begins on; NULL: ours */
    bool keeps_stdout; /* else its stdout is /dev/null */
    bool
        held; /* the signals stay blocked until it unblocks them, so that one that comes
                  before it has a handler waits instead of ending it */
    pid_t pid; /* while it runs, 0 after */
    struct cadre_child_end end; /* filled */
};

/* Run `program` as the n children at once and wait until all have ended; what becomes
 * of one touches no other. They begin with the signals blocked that were blocked before
 * the watch (see cadre_stop_hold). Their stdin is /dev/null, their stderr is ours.
 * [main, watch open] Errors: CADRE_E_RESOURCE where one cannot be started; those that
 * run by then are stopped by SIGTERM, and waited for. */
cadre_status cadre_child_run_all(const struct cadre_child_watch *watch,
                                 const char *program, struct cadre_child *children,
                                 size_t n, struct cadre_error *err);

/* The same for one child that is given arguments alone. */
cadre_status cadre_child_run(const struct cadre_child_watch *watch, const char *program,
                             char *const *argv, struct cadre_child_end *end,
                             struct cadre_error *err);

#endif
