/* SPDX-License-Identifier: Apache-2.0 */
/* Two worlds of the same ranks fail together: a thread carries the first failure of one
 * to the other. */
#ifndef CADRE_LAUNCH_WORLD_WATCH_H
#define CADRE_LAUNCH_WORLD_WATCH_H

#include "core/comm/comm.h"

struct cadre_world_watch;

/* Watch from now on; both communicators outlive the watch. Where both fail at about the
 * same time the text of `first` is used: it knows of ranks that died. Errors:
 * CADRE_E_RESOURCE. */
cadre_status cadre_world_watch_open(struct cadre_comm *first, struct cadre_comm *second,
                                    struct cadre_world_watch **out,
                                    struct cadre_error *err);

/* The failure of both, carried over before return: CADRE_OK where neither has failed.
 * [any thread] */
cadre_status cadre_world_watch_failure(struct cadre_world_watch *watch,
                                       struct cadre_error *err);

/* NULL is allowed. */
void cadre_world_watch_close(struct cadre_world_watch *watch);

#endif
