/* SPDX-License-Identifier: Apache-2.0 */
/* The request to stop: SIGINT, SIGTERM and SIGUSR1 set a flag that ranks read between
 * steps and agree on. A second SIGINT ends the program at once, as users expect. */
#ifndef CADRE_TRAIN_STOP_H
#define CADRE_TRAIN_STOP_H

#include <stdbool.h>

/* Catch the three signals from now on, also those that were held. [main, before
 * threads] */
void cadre_stop_install(void);

/* Keep the three pending, for a launcher that waits for them, and one that has come
 * already too. Processes that are begun meanwhile inherit it: until they install their
 * own handlers, a signal waits instead of ending them. [main] */
void cadre_stop_hold(void);

/* The end of cadre_stop_hold: what is pending comes. [main] */
void cadre_stop_release(void);

/* Has one of them arrived? [any thread] */
bool cadre_stop_requested(void);

#endif
