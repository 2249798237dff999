/* SPDX-License-Identifier: Apache-2.0 */
/* What the process that watches concludes from the slots of a page: which rank makes no
 * progress, whom to name for the end of a process, and in which words. It runs no code
 * of plugins, so whatever they do it can still say so. */
#ifndef CADRE_LAUNCH_STATUS_WATCH_H
#define CADRE_LAUNCH_STATUS_WATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/status_slot.h"

/* Slots that one watch holds: those of 256 rank threads and of their main thread. */
#define CADRE_STATUS_SLOTS 257

enum {
    CADRE_STATUS_NO_RANK = -1, /* the process, before or between its ranks */
    CADRE_STATUS_SOME_RANK = -2, /* one of several, unknown which */
};

/* What a slot says, as a copy. */
struct cadre_status_seen {
    enum cadre_status_state state;
    int rank;
    bool exits; /* its thread has called exit() */
    bool other_exits; /* a thread that has no slot has */
    int fault; /* the fatal signal that its thread received, or 0 */
    bool core; /* the callback has called the core */
    uint64_t step; /* 0: before the first */
    char instance[CADRE_STATUS_CHARS]; /* "": in no plugin */
    char callback[CADRE_STATUS_CHARS];
};

/* Read a slot, whose writer may be at work, dead or wrong. */
struct cadre_status_seen cadre_status_read(const struct cadre_status_slot *slot);

/* How long the slots of a page have been without progress. Zeroed: begins. */
struct cadre_status_watch {
    bool processes; /* each slot is a process's, else the first alone */
    double last_s; /* the last look */
    double idle_s[CADRE_STATUS_SLOTS];
    uint32_t beat[CADRE_STATUS_SLOTS];
};

/* Look at the slots, several times a second; now_s is the clock's time, of which a
 * pause between two looks (this process itself was stopped) counts only in part.
 * Returns the slot that has been inside a plugin's callback without progress for
 * limit_s, or that has finished and whose process does not end; -1: there is none. */
int cadre_status_watch_look(struct cadre_status_watch *watch,
                            const struct cadre_status_slot *slots, uint32_t n,
                            double limit_s, double now_s);

/* Whom to name where the process of these slots has ended too early: the thread that
 * called exit or received the signal, else the one that was inside a plugin; of several
 * the plugin they all were in. */
struct cadre_status_seen cadre_status_blame(const struct cadre_status_slot *slots,
                                            uint32_t n);

/* Does this signal come from what a program does wrong? */
bool cadre_status_is_fault(int signal);

/* One line each, for CADRE_E_COMM. */
void cadre_status_tell_signal(const struct cadre_status_seen *seen, int signal,
                              char *text, size_t size);
void cadre_status_tell_exit(const struct cadre_status_seen *seen, int status,
                            char *text, size_t size);
/* `asked`: a signal has asked the run to end. */
void cadre_status_tell_stall(const struct cadre_status_seen *seen, double seconds,
                             bool asked, char *text, size_t size);

/* The limit that holds once a signal has asked the run to end: at most ten seconds. */
double cadre_status_limit_asked(double limit_s);

#endif
