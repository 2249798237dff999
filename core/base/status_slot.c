/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/status_slot.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Thread_local struct cadre_status_slot *current;

void cadre_status_use(struct cadre_status_slot *slot)
{
    current = slot;
}

struct cadre_status_slot *cadre_status_current(void)
{
    return current;
}

void cadre_status_instance(const struct cadre_status_slot *slot, char *out, size_t size)
{
    const uint64_t place =
        slot ? atomic_load_explicit(&slot->place, memory_order_relaxed) : 0;
    const uint32_t number = (uint32_t)place & (CADRE_STATUS_CORE - 1);
    size_t n = 0;
    if (number > 0 && number <= CADRE_STATUS_TEXTS)
        n = strnlen(slot->text[number], CADRE_STATUS_CHARS - 1);
    n = n < size - 1 ? n : size - 1;
    if (n > 0)
        memcpy(out, slot->text[number], n);
    out[n] = '\0';
}

struct cadre_status_slot *cadre_status_of_rank(struct cadre_status_slot *slot, int rank)
{
    if (!slot || rank < 0 || (uint32_t)rank >= slot->behind)
        return NULL;
    if ((uint32_t)rank >= atomic_load(&slot->used))
        atomic_store(&slot->used, (uint32_t)rank + 1);
    return slot + 1 + rank;
}

pid_t cadre_status_root(const struct cadre_status_slot *slot)
{
    return slot && slot->root > 0 ? (pid_t)slot->root : getpid();
}

void cadre_status_begin(struct cadre_status_slot *slot, int rank)
{
    if (!slot)
        return;
    atomic_store(&slot->rank, rank);
    atomic_store(&slot->place, 0);
    atomic_store(&slot->state, CADRE_STATUS_RUNNING);
    cadre_status_beat(slot);
}

static void note_exit(int status, void *watched)
{
    struct cadre_status_slot *own = current, *other = watched;
    (void)status;
    if (own && atomic_load(&own->state) == CADRE_STATUS_RUNNING)
        atomic_store(&own->exits, CADRE_STATUS_EXITS);
    else if (!own && atomic_load(&other->state) == CADRE_STATUS_RUNNING)
        atomic_store(&other->exits, CADRE_STATUS_OTHER_EXITS);
}

void cadre_status_watch_exit(void)
{
    if (current)
        on_exit(note_exit, current);
}

void cadre_status_finished(struct cadre_status_slot *slot)
{
    if (!slot)
        return;
    cadre_status_leave(slot, 0);
    atomic_store(&slot->state, CADRE_STATUS_FINISHED);
}

void cadre_status_limit(struct cadre_status_slot *slot, double seconds)
{
    const double most = UINT32_MAX / 1000;
    if (!slot)
        return;
    seconds = seconds < most ? seconds : most;
    uint32_t ms = seconds > 0 ? (uint32_t)(seconds * 1000) : 0;
    atomic_store(&slot->limit_ms, ms == 0 && seconds > 0 ? 1 : ms);
}

/* Adds a text. Those beyond the limit share one number. */
static uint32_t add(struct cadre_status_slot *slot, const char *text)
{
    uint32_t n = atomic_load_explicit(&slot->n_texts, memory_order_relaxed);
    if (n == CADRE_STATUS_TEXTS)
        return n;
    n++;
    snprintf(slot->text[n], CADRE_STATUS_CHARS, "%s",
             n == CADRE_STATUS_TEXTS ? "(one of many)" : text);
    atomic_store_explicit(&slot->n_texts, n, memory_order_release);
    return n;
}

/* Most texts are the host's literals or names of instances, whose addresses repeat. */
static uint32_t number(struct cadre_status_slot *slot, const char *text)
{
    unsigned char *cache = &slot->cache[((uintptr_t)text >> 3) % CADRE_STATUS_TEXTS];
    uint32_t n = *cache,
             all = atomic_load_explicit(&slot->n_texts, memory_order_relaxed);
    if (n && strncmp(slot->text[n], text, CADRE_STATUS_CHARS - 1) == 0)
        return n;
    for (n = 1; n <= all; n++)
        if (strncmp(slot->text[n], text, CADRE_STATUS_CHARS - 1) == 0)
            break;
    n = n <= all ? n : add(slot, text);
    *cache = (unsigned char)n;
    return n;
}

uint64_t cadre_status_enter(struct cadre_status_slot *slot, const char *instance,
                            const char *callback, uint64_t step)
{
    if (!slot)
        return 0;
    uint64_t former = atomic_load_explicit(&slot->place, memory_order_relaxed);
    uint64_t place = step << 16 | (uint64_t)number(slot, callback) << 8;
    cadre_status_leave(slot, place | number(slot, instance));
    return former;
}
