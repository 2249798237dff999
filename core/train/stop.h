/* SPDX-License-Identifier: Apache-2.0 */
/* The request to stop: SIGINT, SIGTERM and SIGUSR1 set a flag that ranks read between
 * steps and agree on. The first one is answered at once, on stderr, by what happens
 * now; a second SIGINT ends the program at once, as users expect. */
#ifndef CADRE_TRAIN_STOP_H
#define CADRE_TRAIN_STOP_H

#include <stdbool.h>
#include <stdint.h>

/* Install the handlers of the three signals, and release held ones. [main, before
 * threads] */
void cadre_stop_install(void);

/* Keep the three pending, for a launcher that waits for them; one that arrived before
 * stays pending too. Processes started meanwhile inherit the mask: until they install
 * their own handlers, a signal waits instead of ending them. [main] */
void cadre_stop_hold(void);

/* End cadre_stop_hold: pending signals are delivered. [main] */
void cadre_stop_release(void);

/* Has one of them arrived? [any thread] */
bool cadre_stop_requested(void);

/* The vote of a rank in step `step`, which begins: had one of them arrived by the time
 * the first rank of this process began it? The same for all ranks of the process, so
 * that the line which answers a signal can name the step. [any thread, steps in order]
 */
bool cadre_stop_vote(uint64_t step);

/* What a request to stop leads to. */
struct cadre_stop_plan {
    const char *dir; /* the run's folder; NULL: nothing is saved, it is a benchmark */
    uint64_t first_step, last_step; /* done before; the run's last one */
    bool bar; /* stderr has a progress bar: the line comes below it */
};

/* From now on the first signal is answered by one line, of one process of the run; one
 * that came before is answered now. NULL: no more. Copied. [one thread] */
void cadre_stop_tell(const struct cadre_stop_plan *plan);

#endif
