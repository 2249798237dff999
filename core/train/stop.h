/* SPDX-License-Identifier: Apache-2.0 */
/* The request to stop: SIGINT, SIGTERM and SIGUSR1 set a flag that ranks read between
 * steps and agree on. A second SIGINT ends the program at once, as users expect. */
#ifndef CADRE_TRAIN_STOP_H
#define CADRE_TRAIN_STOP_H

#include <stdbool.h>

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

#endif
