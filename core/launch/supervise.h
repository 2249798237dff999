/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes, started and waited for: the ranks of a run, which end together, and
 * whole runs, which are independent.
 *
 * While a watch is open the signals INT, TERM and USR1 are taken from it and passed
 * once to every running child; none of them ends this process by itself. Signals arrive
 * as values, not in handlers. Each child is the leader of a process group of its own,
 * so that a terminal's Ctrl-C reaches this process alone, and the child once. What
 * happens to the others where a child ends is the caller's policy. */
#ifndef CADRE_LAUNCH_SUPERVISE_H
#define CADRE_LAUNCH_SUPERVISE_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/base/error.h"

#define CADRE_THIS_PROGRAM "/proc/self/exe"

struct cadre_supervise_watch {
    sigset_t watched, before;
    struct sigaction sigchld_before;
};

/* Block the signals and enable waiting for children. [main, before threads] */
void cadre_supervise_open(struct cadre_supervise_watch *watch);

/* Restore the signals. Those passed on are consumed; others are delivered now. */
void cadre_supervise_close(const struct cadre_supervise_watch *watch);

/* How a process ended. */
struct cadre_process_end {
    int status; /* exit status, or -1 */
    int signal; /* that ended it, or 0 */
    bool asked; /* a signal was passed to it */
    bool killed; /* killed after the grace period */
};

/* A child and how it starts. Fields left zero, except argv: inherited. Borrowed. */
struct cadre_process {
    char *const *argv; /* NULL-terminated, argv[0] among them */
    char *const
        *variables; /* "NAME=value", replace this process's; NULL-terminated, or NULL */
    const cpu_set_t *cpus; /* that it begins on; NULL: inherited */
    const char *name; /* in "cannot start NAME"; NULL: the program's, quoted */
    bool no_stdin, no_stdout; /* /dev/null in its place */
    pid_t pid; /* while it runs, 0 after */
    struct cadre_process_end end; /* filled */
};

/* Which children are signalled when. */
struct cadre_supervise_policy {
    /* the signal that children get from the kernel where this process dies (tied to
     * this thread), and that running ones get where another cannot be started */
    int signal;
    /* Has the group of children failed? Called ten times a second. After true all have
     * `grace_s` to end by themselves, then SIGKILL. NULL: children are independent. */
    bool (*failed)(void *h);
    double grace_s;
    /* Child i has ended; may be NULL. */
    void (*ended)(void *h, size_t i, const struct cadre_process_end *end);
    void *h;
};

/* For independent runs: they checkpoint and stop where this process is gone. */
extern const struct cadre_supervise_policy cadre_supervise_independent;

/* Run `program` as the n children at once and wait until all have ended. They begin
 * with the signals blocked that were blocked before the watch (see cadre_stop_hold).
 * [main, watch open, no other threads] Errors: CADRE_E_RESOURCE where one cannot be
 * started; those that already run are signalled and waited for. */
cadre_status cadre_supervise_run(const struct cadre_supervise_watch *watch,
                                 const struct cadre_supervise_policy *policy,
                                 const char *program, struct cadre_process *children,
                                 size_t n, struct cadre_error *err);

#endif
