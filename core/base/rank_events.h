/* SPDX-License-Identifier: Apache-2.0 */
/* The flight recorder in a rank's status page (rank_page.h): its last
 * CADRE_RANK_PAGE_EVENTS communication operations, read by another process, also after
 * the rank has died. As in rank_seen.h, nothing in the file is believed. */
#ifndef CADRE_BASE_RANK_EVENTS_H
#define CADRE_BASE_RANK_EVENTS_H

#include <stddef.h>

#include "core/base/rank_page.h"

enum cadre_rank_event_state {
    CADRE_RANK_EVENT_PENDING,
    CADRE_RANK_EVENT_ENDED,
    CADRE_RANK_EVENT_REFUSED, /* posted in vain */
};

struct cadre_rank_event {
    struct cadre_rank_page_op op; /* texts end with a zero; a possible phase */
    uint64_t sequence; /* in its communicator's queue, from 1; 0: not known */
    enum cadre_rank_event_state state;
    double ended_s; /* by the rank's cadre_now_s; NaN where it has not */
};

/* Read the events of a page that cadre_rank_seen_read has accepted: event
 * (CADRE_RANK_PAGE_EVENTS) in the order of their posts, *n of them. What is being
 * written meanwhile is left out. Errors: CADRE_E_IO, CADRE_E_INVALID: the file is cut;
 * CADRE_E_RESOURCE. */
cadre_status cadre_rank_events_read(const char *path, struct cadre_rank_event *event,
                                    size_t *n, struct cadre_error *err);

#endif
