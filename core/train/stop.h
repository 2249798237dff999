/* SPDX-License-Identifier: Apache-2.0 */
/* The wish to stop: SIGINT, SIGTERM and SIGUSR1 set a flag that ranks read between
 * steps and agree on. A second SIGINT ends the program at once, as users expect. */
#ifndef CADRE_TRAIN_STOP_H
#define CADRE_TRAIN_STOP_H

#include <stdbool.h>

/* Catch the three signals from now on. [main, before threads] */
void cadre_stop_install(void);

/* Has one of them arrived? [any thread] */
bool cadre_stop_requested(void);

#endif
