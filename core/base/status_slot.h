/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rank is, for the process that watches it: which plugin's callback it is in,
 * at which step, and that it still makes progress.
 *
 * A slot lies in memory shared with the watcher (core/launch/status_page.h) and has one
 * writer, the thread of its rank; the watcher reads it at any time, also after the
 * writer was killed. Writing is a few relaxed stores: no lock, no call into the kernel.
 * Every function accepts NULL in place of a slot and does nothing: nobody watches.
 *
 * Callbacks nest: a plugin's `step` runs the core, which calls other plugins. What the
 * host calls restores what was before:
 *
 *     uint64_t former = cadre_status_enter(slot, "ddp@site", "sync(GRADS)", step);
 *     rc = plugin->sync(...);
 *     cadre_status_leave(slot, former);
 *
 * A service that the plugin calls and that may take long (a pass through the model,
 * waiting for other ranks, a nested step) says so, as a callback without a sign of
 * progress for comm.timeout ends the run, and the core has no such limit:
 *
 *     uint64_t former = cadre_status_core(slot);
 *     rc = cadre_comm_wait(comm, done);
 *     cadre_status_leave(slot, former); */
#ifndef CADRE_BASE_STATUS_SLOT_H
#define CADRE_BASE_STATUS_SLOT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Names of plugins and callbacks that one slot tells apart, and their length. */
#define CADRE_STATUS_TEXTS 48
#define CADRE_STATUS_CHARS 64

/* In `place`: the plugin's callback has called the core. */
#define CADRE_STATUS_CORE 0x80u

enum cadre_status_state {
    CADRE_STATUS_UNUSED, /* all zeros */
    CADRE_STATUS_RUNNING,
    CADRE_STATUS_FINISHED, /* its thread or process has reached its regular end */
};

/* Who has called exit(): the thread of the slot; one that has no slot, and is noted in
 * one of the process. */
#define CADRE_STATUS_EXITS 1u
#define CADRE_STATUS_OTHER_EXITS 2u

/* Its fields are for status_slot.c and the reader. */
struct cadre_status_slot {
    _Atomic uint32_t state;
    _Atomic int32_t rank; /* -1: none, the process plans or starts ranks */
    _Atomic uint32_t beat; /* changes with every sign of progress */
    _Atomic uint32_t exits; /* 0, or one of the two below */
    _Atomic uint32_t fault; /* the fatal signal that this thread received, 0: none */
    _Atomic uint32_t limit_ms; /* without progress in a callback; 0: no limit */
    /* step << 16 | number of the callback << 8 | CADRE_STATUS_CORE or 0 | number of the
     * instance; without one the core is at work for itself */
    _Atomic uint64_t place;
    int32_t root; /* the process that the user started; 0: the one that asks */
    uint32_t behind; /* slots that lie behind this one: those of rank threads */
    _Atomic uint32_t used; /* of these */
    _Atomic uint32_t n_texts;
    unsigned char cache[CADRE_STATUS_TEXTS]; /* by a hash of the text's address */
    char text[CADRE_STATUS_TEXTS + 1][CADRE_STATUS_CHARS]; /* text[0] is not used */
};

/* The calling thread works for this slot from now on (NULL: for none): which slot is a
 * property of the thread, as its rank is for the log. */
void cadre_status_use(struct cadre_status_slot *slot);

/* The slot of the calling thread, NULL where nobody watches. A rank's set-up stores it
 * in its services, so that events need not look for it. */
struct cadre_status_slot *cadre_status_current(void);

/* The plugin instance whose callback the slot's thread is in, also where that has
 * called the core; "" for none. [the slot's thread] */
void cadre_status_instance(const struct cadre_status_slot *slot, char *out,
                           size_t size);

/* The slot for rank thread `rank` of the process whose main thread has `slot`; NULL
 * where it has none. [main] */
struct cadre_status_slot *cadre_status_of_rank(struct cadre_status_slot *slot,
                                               int rank);

/* The process that the user started, for a process that belongs to it: its supervisor,
 * or else itself. [any thread] */
pid_t cadre_status_root(const struct cadre_status_slot *slot);

/* The slot's thread begins; rank -1: it has none. [the writer, as all below] */
void cadre_status_begin(struct cadre_status_slot *slot, int rank);

/* Note who calls exit() before the thread's slot has come to its end. Handlers of exit
 * run last to first, and what those of libraries take away makes other threads crash:
 * call it again when libraries were opened, and when they were first used. */
void cadre_status_watch_exit(void);

/* It has come to its regular end, whether or not with an error. */
void cadre_status_finished(struct cadre_status_slot *slot);

/* From now on a callback may go without a sign of progress for that long; 0: for any
 * time. Of the main thread's slot: it holds for all threads of the process. */
void cadre_status_limit(struct cadre_status_slot *slot, double seconds);

/* A callback of the plugin `instance` is called: "create", "step", "sync(GRADS)", as
 * messages name it. Step 0: before the first. The texts are copied at their first use.
 * Returns what cadre_status_leave restores. */
uint64_t cadre_status_enter(struct cadre_status_slot *slot, const char *instance,
                            const char *callback, uint64_t step);

/* A sign of progress. */
static inline void cadre_status_beat(struct cadre_status_slot *slot)
{
    if (slot)
        atomic_store_explicit(
            &slot->beat, atomic_load_explicit(&slot->beat, memory_order_relaxed) + 1,
            memory_order_relaxed);
}

/* The callback has returned. */
static inline void cadre_status_leave(struct cadre_status_slot *slot, uint64_t former)
{
    if (!slot)
        return;
    atomic_store_explicit(&slot->place, former, memory_order_release);
    cadre_status_beat(slot);
}

/* The core works for the callback until cadre_status_leave. */
static inline uint64_t cadre_status_core(struct cadre_status_slot *slot)
{
    if (!slot)
        return 0;
    uint64_t former = atomic_load_explicit(&slot->place, memory_order_relaxed);
    cadre_status_leave(slot, former | CADRE_STATUS_CORE);
    return former;
}

#endif
