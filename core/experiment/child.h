/* SPDX-License-Identifier: Apache-2.0 */
/* A run of a comparison as a process of its own, so that each is alone on the machine
 * with its own pools and pages.
 *
 * While a watch is open the signals INT, TERM and USR1 are taken from it and passed to
 * the running child, which then checkpoints and stops; none of them ends the comparison
 * by itself. The child is the leader of a process group of its own, so that a
 * terminal's Ctrl-C reaches it once. Where the comparison itself is killed the child
 * gets SIGTERM, and stops after a checkpoint. */
#ifndef CADRE_EXPERIMENT_CHILD_H
#define CADRE_EXPERIMENT_CHILD_H

#include <signal.h>
#include <stdbool.h>

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

/* Run `program` with the NULL-terminated arguments (argv[0] among them) and wait for
 * its end. Its stdin and stdout are /dev/null, its stderr is ours. [main, watch open]
 * Errors: CADRE_E_RESOURCE, CADRE_E_IO where it cannot be started. */
cadre_status cadre_child_run(const struct cadre_child_watch *watch, const char *program,
                             char *const *argv, struct cadre_child_end *end,
                             struct cadre_error *err);

#endif
