/* SPDX-License-Identifier: Apache-2.0 */
#include "core/launch/status_watch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* More time than this between two looks means that the watching process did not run. */
#define MOST_BETWEEN_S 1.0
#define ASKED_S 10.0

/* ---- reading ---- */

static void copy_text(const struct cadre_status_slot *slot, uint32_t number, char *out)
{
    uint32_t known = atomic_load_explicit(&slot->n_texts, memory_order_acquire);
    out[0] = '\0';
    if (number > 0 && number <= known && number <= CADRE_STATUS_TEXTS)
        snprintf(out, CADRE_STATUS_CHARS, "%.*s", CADRE_STATUS_CHARS - 1,
                 slot->text[number]);
}

struct cadre_status_seen cadre_status_read(const struct cadre_status_slot *slot)
{
    uint64_t place = atomic_load_explicit(&slot->place, memory_order_acquire);
    struct cadre_status_seen seen = {
        .state = (enum cadre_status_state)atomic_load(&slot->state),
        .rank = atomic_load(&slot->rank),
        .exits = atomic_load(&slot->exits) == CADRE_STATUS_EXITS,
        .other_exits = atomic_load(&slot->exits) == CADRE_STATUS_OTHER_EXITS,
        .fault = (int)atomic_load(&slot->fault),
        .core = (place & CADRE_STATUS_CORE) != 0,
        .step = place >> 16,
    };
    copy_text(slot, (uint32_t)place & (CADRE_STATUS_CORE - 1), seen.instance);
    copy_text(slot, (uint32_t)(place >> 8) & 0xff, seen.callback);
    return seen;
}

/* ---- progress ---- */

/* Is it where it may not stay for long? */
static bool is_limited(const struct cadre_status_watch *watch,
                       const struct cadre_status_slot *slot, uint32_t i)
{
    const uint64_t place = atomic_load_explicit(&slot->place, memory_order_relaxed);
    switch (atomic_load(&slot->state)) {
    case CADRE_STATUS_RUNNING:
        return (place & (CADRE_STATUS_CORE - 1)) && !(place & CADRE_STATUS_CORE);
    case CADRE_STATUS_FINISHED:
        return watch->processes || i == 0;
    default:
        return false;
    }
}

int cadre_status_watch_look(struct cadre_status_watch *watch,
                            const struct cadre_status_slot *slots, uint32_t n,
                            double limit_s, double now_s)
{
    double passed = watch->last_s > 0 ? now_s - watch->last_s : 0;
    int found = -1;
    passed = passed < MOST_BETWEEN_S ? passed : MOST_BETWEEN_S;
    watch->last_s = now_s;
    for (uint32_t i = 0; i < n && i < CADRE_STATUS_SLOTS; i++) {
        uint32_t beat = atomic_load_explicit(&slots[i].beat, memory_order_relaxed);
        bool same = beat == watch->beat[i] && is_limited(watch, &slots[i], i);
        watch->beat[i] = beat;
        watch->idle_s[i] = same ? watch->idle_s[i] + passed : 0;
        if (found < 0 && limit_s > 0 && watch->idle_s[i] >= limit_s)
            found = (int)i;
    }
    return found;
}

double cadre_status_limit_asked(double limit_s)
{
    return limit_s > 0 && limit_s < ASKED_S ? limit_s : ASKED_S;
}

/* ---- the culprit ---- */

struct cadre_status_seen cadre_status_blame(const struct cadre_status_slot *slots,
                                            uint32_t n)
{
    struct cadre_status_seen blamed = {.rank = CADRE_STATUS_NO_RANK};
    int inside = 0;
    bool other_exits = false;
    /* what exit takes away makes others crash, so who called it comes first */
    for (int crashes = 0; crashes < 2 && !other_exits; crashes++)
        for (uint32_t i = 0; i < n; i++) {
            struct cadre_status_seen seen = cadre_status_read(&slots[i]);
            other_exits |= seen.other_exits;
            if (seen.state == CADRE_STATUS_RUNNING &&
                (crashes ? seen.fault != 0 : seen.exits))
                return seen;
        }
    for (uint32_t i = 0; i < n; i++) {
        struct cadre_status_seen seen = cadre_status_read(&slots[i]);
        if (seen.state != CADRE_STATUS_RUNNING)
            continue;
        if (!seen.instance[0] || seen.core)
            continue;
        if (inside++ == 0) {
            blamed = seen;
            continue;
        }
        if (strcmp(blamed.instance, seen.instance) != 0)
            blamed.instance[0] = '\0';
        blamed.rank = CADRE_STATUS_SOME_RANK;
    }
    blamed.other_exits = other_exits;
    return blamed;
}

bool cadre_status_is_fault(int signal)
{
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE ||
           signal == SIGILL || signal == SIGABRT || signal == SIGTRAP ||
           signal == SIGSYS;
}

/* ---- words ---- */

static void name_rank(int rank, char *out, size_t size)
{
    if (rank >= 0)
        snprintf(out, size, "rank %d", rank);
    else
        snprintf(out, size, "%s",
                 rank == CADRE_STATUS_SOME_RANK ? "a rank" : "the run");
}

static void name_step(const struct cadre_status_seen *seen, char *out, size_t size)
{
    out[0] = '\0';
    if (seen->step > 0)
        snprintf(out, size, " at step %llu", (unsigned long long)seen->step);
}

void cadre_status_tell_signal(const struct cadre_status_seen *seen, int signal,
                              char *text, size_t size)
{
    const char *name = strsignal(signal);
    char who[32], step[48];
    name_rank(seen->rank, who, sizeof who);
    name_step(seen, step, sizeof step);
    if (!seen->instance[0] || !cadre_status_is_fault(signal))
        snprintf(text, size, "%s was killed by signal %d (%s)%s", who, signal, name,
                 step);
    else if (seen->core)
        snprintf(
            text, size,
            "%s was killed by signal %d (%s) in the core, which plugin '%s' called "
            "in %s%s",
            who, signal, name, seen->instance, seen->callback, step);
    else
        snprintf(text, size, "plugin '%s' in %s%s: %s was killed by signal %d (%s)",
                 seen->instance, seen->callback, step, who, signal, name);
}

void cadre_status_tell_exit(const struct cadre_status_seen *seen, int status,
                            char *text, size_t size)
{
    char who[32], step[48], with[32] = "";
    name_rank(seen->rank, who, sizeof who);
    name_step(seen, step, sizeof step);
    if (status != 0)
        snprintf(with, sizeof with, ", with status %d", status);
    if (seen->instance[0] && !seen->core)
        snprintf(text, size,
                 "%s ended without finishing%s: plugin '%s' called exit in %s%s%s", who,
                 with, seen->instance, seen->callback, step, seen->exits ? "" : "?");
    else
        snprintf(text, size,
                 "%s ended without finishing%s%s: a thread of a plugin called exit?",
                 who, with, step);
}

void cadre_status_tell_stall(const struct cadre_status_seen *seen, double seconds,
                             bool asked, char *text, size_t size)
{
    char who[32], step[48] = "", on[48] = "";
    name_rank(seen->rank, who, sizeof who);
    if (seen->state == CADRE_STATUS_FINISHED) {
        snprintf(text, size,
                 "%s has finished, but its process has not ended for %g s: a "
                 "destructor of a plugin's library does not return?",
                 who, seconds);
        return;
    }
    if (seen->step > 0)
        snprintf(step, sizeof step, ", at step %llu", (unsigned long long)seen->step);
    if (seen->rank >= 0)
        snprintf(on, sizeof on, "%s on %s", seen->step > 0 ? "" : ",", who);
    snprintf(text, size, "%splugin '%s' has not returned from %s for %g s%s%s%s",
             asked ? "stopped by a signal without a checkpoint: " : "", seen->instance,
             seen->callback, seconds, step, on,
             asked ? "" : "; raise comm.timeout where it may take longer");
}
